"""The queue of decisions of one stream: it is filled and settled by several threads."""

from collections.abc import Callable

import pytest

from refold.domain.context.outbox import Outbox
from refold.domain.log.memory_log import MemoryLog

from ..contract.writing import new
from ..support.effort import CountedLock
from .chat_events import STREAM, said
from .fakes import LateLog


@pytest.mark.parametrize(
    ("do", "times"),
    [
        (lambda box: box.is_ahead, 1),
        (lambda box: box.events, 1),
        (lambda box: box.settlement, 1),
        (lambda box: box.forget_if_settled(list), 1),
        (lambda box: box.start_afresh(), 1),
        (lambda box: box.wait(), 1),
        # To queue it, to hand it to the log, to settle it, and to hand over what was queued meanwhile.
        (lambda box: box.put(new(STREAM, said()), list), 4),
    ],
)
def test_each_step_takes_the_lock(do: Callable[[Outbox], object], times: int) -> None:
    """The thread that settles an append comes at any moment."""
    box = Outbox(MemoryLog())
    box._lock = lock = CountedLock()  # type: ignore[assignment]

    do(box)

    assert lock.taken == times


def test_the_thread_of_the_log_takes_the_lock_too() -> None:
    """Once to settle what it appended, and once to take the next."""
    log = LateLog()
    box = Outbox(log)
    box._lock = lock = CountedLock()  # type: ignore[assignment]
    box.put(new(STREAM, said()), list)
    before = lock.taken
    log.land()

    assert (before, lock.taken) == (2, 4)
