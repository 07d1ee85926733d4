"""Given-when-then for deciders: `Scenario(CHAT).given(OPENED).when(command).then(event, ...)`."""

from typing import Any, Generic, NamedTuple, TypeVar

import pytest

from refold.domain.context.decider import Decider
from refold.domain.errors import RefoldError

S = TypeVar("S")


class Scenario(Generic[S]):
    """What is told about one decider."""

    def __init__(self, decider: Decider[S]) -> None:
        self._decider = decider

    def given(self, *events: Any) -> "Given[S]":
        """Start from these events."""
        return Given(self._decider, self._decider.fold(self._decider.initial_state, events))


class Given(NamedTuple, Generic[S]):
    """A decider and the state it decides on."""

    decider: Decider[S]
    state: S

    def when(self, command: object) -> "When[S]":
        """Name the command that comes next."""
        return When(self.decider, self.state, command)


class When(NamedTuple, Generic[S]):
    """A command that is about to be decided."""

    decider: Decider[S]
    state: S
    command: object

    def then(self, *expected: Any) -> None:
        """Require exactly these events."""
        assert list(self.decider.decide(self.command, self.state)) == list(expected)

    def then_refused(self, error: type[RefoldError], *, saying: str | None = None) -> None:
        """Require an error of exactly this type, with `saying` (a regular expression) in its message."""
        with pytest.raises(error, match=saying) as caught:
            self.decider.decide(self.command, self.state)
        assert type(caught.value) is error
