"""How long a random life is, and how one is lived: the settings of the model tests."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from refold.domain.chat.state import stored
from refold.domain.context import folded_stream
from tests.support.effort import IS_DEEP

EXAMPLES = os.environ.get("REFOLD_MODEL_EXAMPLES")


def live(machine: type[RuleBasedStateMachine], *, examples: int, steps: int = 30) -> None:
    """
    Run a state machine: `examples` lives, or REFOLD_MODEL_EXAMPLES of them, each of `steps` steps.

    In CI the lives are always the same; at a desk they are new each time. In the deep profile there are forty times
    as many; there, and where a number is asked for, they are three times as long.
    """
    is_long = IS_DEEP or EXAMPLES is not None
    chosen = settings(
        max_examples=int(EXAMPLES or examples * (40 if IS_DEEP else 1)),
        stateful_step_count=steps * (3 if is_long else 1),
        deadline=None,
        database=None,
        derandomize=not is_long and os.environ.get("CI") == "true",
        phases=[Phase.generate, Phase.shrink],
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=chosen)


def with_short_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let views of streams as short as here begin with snapshots, and read a few items at a time."""
    monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 6)
    monkeypatch.setattr(stored, "WINDOW_MIN", 2)
