"""
A decider is a few plain values: how a command becomes events, how events become a state, and the first state.

Deciding and folding are pure. Folding the same events always gives the same state, which is why a view of the
past is nothing but a shorter fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

from ..errors import MISSHAPEN, DamagedError, RefoldError
from ..named_events import Seen

# What a fold raises where events do not fit each other; nothing that a signal handler or a database does.
MISFITS = (*MISSHAPEN, ArithmeticError, AssertionError, RecursionError)

State = TypeVar("State")


def _as_it_is(event: Any) -> Any:
    return event


def _as_they_are(_log: Seen, events: Sequence[Any]) -> Sequence[Any]:
    return events


class Decider(NamedTuple, Generic[State]):
    """
    The logic of one kind of stream; `fold(state, events)` applies many events in one pass.

    Where events name what lies in other streams, `complete(log, events)` looks that up before they are folded,
    and `recorded(decided)` takes it off again from what `decide` returned.
    """

    decide: Callable[[Any, State], Sequence[Any]]
    fold: Callable[[State, Iterable[Any]], State]
    initial_state: State
    complete: Callable[[Seen, Sequence[Any]], Sequence[Any]] = _as_they_are
    recorded: Callable[[Any], Any] = _as_it_is
    # Whether a stream is opened by an event of its own, without which nothing else may be recorded there.
    is_opened: bool = True


@contextmanager
def trusted(stream: str) -> Iterator[None]:
    """
    Fold the history of a stream, or answer from rows of it: folds trust that decisions led to every event.

    Raises:
        DamagedError: they did not, as where another program wrote, and the events do not fit each other.
    """
    try:
        yield
    except RefoldError:
        raise
    except MISFITS as error:
        raise DamagedError(stream, f"its events do not fit each other ({error!r})") from error
