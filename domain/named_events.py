"""The events that spans name, read from their streams; and events together with what they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from .errors import DamagedError
from .log.envelope import Event
from .log.ports import Range
from .spans import Ref, Span

T = TypeVar("T")


class Resolved(msgspec.Struct, Generic[T], frozen=True):
    """An event together with what it names in its own stream or in others, as a fold takes it."""

    event: Any
    taken: tuple[T, ...]


def recorded_event(event: Any) -> Any:
    """Return the event without what was looked up for it."""
    return event.event if isinstance(event, Resolved) else event


class Seen(Protocol):
    """A source of the events of streams."""

    def read_events(self, stream: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Return the events of a stream with versions above `after`, up to and including `until`."""

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """Return the same for each of several ranges."""


class SeenLog:
    """A log as one context sees it: its own events are included even if they are not yet known to be in the log."""

    def __init__(self, log: Seen, stream: str, events: Sequence[Event]) -> None:
        self._log, self._stream, self._events = log, stream, events

    def read_events(self, stream: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Return the events of a stream; events of the context's own stream are not read from the log."""
        if stream == self._stream:
            return list(self._events[after:until])
        return self._log.read_events(stream, after=after, until=until)

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """Return the same for each of several ranges."""
        elsewhere = iter(self._log.read_ranges([one for one in ranges if one.stream != self._stream]))
        return [list(self._events[a:u]) if stream == self._stream else next(elsewhere) for stream, a, u in ranges]


def read_named(log: Seen, spans: Iterable[Span], kinds: tuple[type[Event], ...]) -> Iterator[tuple[Ref, Any]]:
    """
    Yield the name and the event of each item that `spans` name, in their order; each event is one of `kinds`.

    Raises:
        DamagedError: there is no such item.
    """
    runs = [(span.stream, run) for span in spans for run in span.ranges()]
    found = log.read_ranges([Range(stream, run.start - 1, run.stop - 1) for stream, run in runs]) if runs else []
    for (stream, run), events in zip(runs, found, strict=True):
        for version, event in zip_longest(run, events):
            if not isinstance(event, kinds):
                raise DamagedError(f"{stream}@{version}", "an event names it as an item, and it is none")
            yield Ref(version, stream), event
