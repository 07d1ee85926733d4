"""
A decider is three plain values: how a command becomes events, how events become a state, and the first state.

Both functions are pure. Folding the same events always gives the same state, which is why a view of the past
is nothing but a shorter fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

__all__ = ["Decider"]

State = TypeVar("State")


class Decider(NamedTuple, Generic[State]):
    """The logic of one kind of stream; `fold(state, events)` applies many events in one pass."""

    decide: Callable[[Any, State], Sequence[Any]]
    fold: Callable[[State, Iterable[Any]], State]
    initial_state: State
