"""The folds of all kinds of contexts."""

from typing import Any

import pytest

from refold.domain.chat.rules.decide import CHAT
from refold.domain.context.decider import Decider
from refold.domain.memory.rules import MEMORIES
from refold.domain.moments import MomentNamed
from refold.domain.pool.rules import POOLS, QUEUES
from refold.domain.trajectory.rules import RUNS
from refold.domain.window.rules import WINDOWS

DECIDERS = {"chat": CHAT, "queue": QUEUES, "pool": POOLS, "window": WINDOWS, "memory": MEMORIES, "run": RUNS}


@pytest.mark.parametrize("decider", DECIDERS.values(), ids=DECIDERS)
def test_an_event_of_another_kind_is_passed_over(decider: Decider[Any]) -> None:
    """Another program may have put it there; it has a version, and changes nothing."""
    state = decider.fold(decider.initial_state, (MomentNamed(name="x", moment="1"),))

    assert state.version == 1
    assert state.opened is None if hasattr(state, "opened") else not state.names
