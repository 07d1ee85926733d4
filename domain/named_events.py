"""The events that spans name, read from their streams; and events together with what they name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from .errors import DamagedError
from .log.envelope import Event
from .log.ports import Log, Range
from .spans import Ref, Span

T = TypeVar("T")


class Resolved(msgspec.Struct, Generic[T], frozen=True):
    """An event together with what it names in its own stream or in others, as a fold takes it."""

    event: Any
    taken: tuple[T, ...]


def recorded_event(event: Any) -> Any:
    """Return the event without what was looked up for it."""
    return event.event if isinstance(event, Resolved) else event


class EventSource(Protocol):
    """A source of the events of streams."""

    def read_events(self, stream: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Return the events of a stream with versions above `after`, up to and including `until`."""

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """Return the same for each of several ranges."""


class LogAhead:
    """A log, and events that may not be in it yet: for some streams, the events after a version."""

    def __init__(self, log: Log, ahead: Mapping[str, tuple[int, Sequence[Event]]]) -> None:
        self._log, self._ahead = log, ahead

    def head(self, stream: str) -> int:
        """Return the last version of a stream; 0 for none."""
        if stream not in self._ahead:
            return self._log.head(stream)
        before, events = self._ahead[stream]
        return before + len(events)

    def streams(self, prefix: str) -> list[str]:
        """Return the streams whose names begin with a prefix."""
        return sorted({*self._log.streams(prefix), *(one for one in self._ahead if one.startswith(prefix))})

    def read_events(self, stream: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Return the events of a stream; events that are known here are not read from the log."""
        if stream not in self._ahead:
            return self._log.read_events(stream, after=after, until=until)
        before, events = self._ahead[stream]
        last = before if until is None else min(until, before)
        recorded = self._log.read_events(stream, after=after, until=last) if after < last else []
        return [*recorded, *events[max(0, after - before) : None if until is None else max(0, until - before)]]

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        elsewhere = iter(self._log.read_ranges([one for one in ranges if one.stream not in self._ahead]))
        return [self.read_events(s, after=a, until=u) if s in self._ahead else next(elsewhere) for s, a, u in ranges]


def read_named(log: EventSource, spans: Iterable[Span], kinds: tuple[type[Event], ...]) -> Iterator[tuple[Ref, Any]]:
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
