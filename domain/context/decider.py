"""
A decider consists of a few plain values: how a command becomes events, how events become a state, and the first state.

Deciding and folding are pure. Folding the same events always gives the same state, so a view of the past is just a
shorter fold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import msgspec

from ..errors import MISSHAPEN, DamagedError, RefoldError
from ..ids import require_name
from ..log.admission import VersionName, VersionNumber
from ..log.envelope import TaggedEvent
from ..named_events import EventSource

if TYPE_CHECKING:
    # Imported by the kinds that have snapshots.
    from .snapshot import Packing

# The errors that a fold raises where events do not fit each other; not those of signal handlers or databases.
MISFITS = (*MISSHAPEN, ArithmeticError, AssertionError, RecursionError)

State = TypeVar("State")
E = TypeVar("E")
# The number of events of a long stream that are in memory at a time.
PAGE_EVENTS = 2_048


def _as_they_are(_log: EventSource, events: Sequence[Any]) -> Sequence[Any]:
    return events


class NameVersion(msgspec.Struct, frozen=True):
    """Give a version a name: the one command that contexts of every kind have."""

    name: str
    version: int


class VersionNamed(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """A version was named; giving the same name again moves it. Each kind of context has it under a tag of its own."""

    name: VersionName
    version: VersionNumber


def decide_name(command: NameVersion, names: Mapping[str, int], event: Callable[..., E]) -> list[E]:
    """
    Return the event that gives a version a name; none if it is so already.

    Raises:
        InvalidInputError: the name is malformed.
    """
    name = require_name(command.name)
    return [] if names.get(name) == command.version else [event(name=name, version=command.version)]


class Decider(NamedTuple, Generic[State]):
    """
    The logic of one kind of stream; `fold(state, events)` applies many events in one pass.

    Where events name items, `complete(log, events)` looks these items up before the fold; what `decide` returns has
    them, too (`Resolved`). `pages(log, stream, until, at_once)` yields the first `until` events of a stream in this
    form, some at a time, each with the stream that recorded it.
    """

    decide: Callable[[Any, State], Sequence[Any]]
    fold: Callable[[State, Iterable[Any]], State]
    initial_state: State
    complete: Callable[[EventSource, Sequence[Any]], Sequence[Any]] = _as_they_are
    # How states are kept as snapshots, where streams may become long and their states stay short.
    packing: Packing[State] | None = None
    # Whether an event of its own opens a stream; without that event, no other may be recorded there.
    is_opened: bool = True
    pages: Callable[[EventSource, str, int, int], Iterator[tuple[str, Sequence[Any]]]] | None = None

    def state_at(self, log: EventSource, stream: str, version: int, *, at_once: int = PAGE_EVENTS) -> State:
        """
        Return the state of a stream at a version; no more is held of it than a snapshot has, and `at_once` events.

        Raises:
            DamagedError: the events do not fit each other.
        """
        state = self.initial_state
        with trusted(stream):
            for recorded_by, events in (self.pages or self._own_pages)(log, stream, version, at_once):
                state = self.fold(state, events)
                state = state if self.packing is None else self.packing.unread(log, recorded_by, state)
        return state

    def _own_pages(
        self, log: EventSource, stream: str, until: int, at_once: int
    ) -> Iterator[tuple[str, Sequence[Any]]]:
        for after in range(0, until, at_once):
            events = log.read_events(stream, after=after, until=min(after + at_once, until))
            yield stream, self.complete(log, events)


@contextmanager
def trusted(stream: str) -> Iterator[None]:
    """
    Fold the history of a stream in the block, or answer from its rows. Folds do not check events: each was decided.

    Raises:
        DamagedError: the events do not fit each other, for example because another program wrote them.
    """
    try:
        yield
    except RefoldError:
        raise
    except MISFITS as error:
        raise DamagedError(stream, f"its events do not fit each other ({error!r})") from error
