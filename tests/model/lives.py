"""How long a random life is, and how one is lived: the settings of the model tests."""

import os

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from refold.domain.chat.state import unread_items
from refold.domain.context import folded_stream
from refold.domain.log.ports import LiveLog
from tests.support.effort import IS_DEEP

EXAMPLES = os.environ.get("REFOLD_MODEL_EXAMPLES")


class LogLife(RuleBasedStateMachine):
    """A life on a log; its streams have `life` in their names, so lives may share a database."""

    lives = 0
    can_reopen = True

    def open_log(self) -> LiveLog:
        """Open the log, again perhaps."""
        raise NotImplementedError

    def begin_life(self) -> None:
        """Open the log for a new life."""
        type(self).lives += 1
        self.life = f"{type(self).__name__}{self.lives}"
        self.log = self.open_log()

    def open_handles(self) -> None:
        """Give every handle a new object, which has not looked at anything yet."""

    @precondition(lambda self: self.can_reopen)
    @rule()
    def reopen(self) -> None:
        """Close the log, open it again, and go on with new handles."""
        self.log.close()
        self.log = self.open_log()
        self.open_handles()

    def teardown(self) -> None:
        """Close the log."""
        if hasattr(self, "log"):
            self.log.close()


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
    monkeypatch.setattr(unread_items, "WINDOW_MIN", 2)
