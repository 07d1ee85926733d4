"""
What the events of a queue or a pool refer to in other streams, looked up so that they can be folded.

A branch is folded behind its ancestors' events; a restoration and a merge get the items that they name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...envelope import Event
from ...errors import DamagedError
from ...named_events import Seen, read_named
from ...ports import Range
from ...spans import Span
from ..events import ITEM_EVENTS, BranchedEvent, ContainerEvent, MergedEvent, RestoredEvent
from ..items import Held
from .fold import Resolved


class SeenLog:
    """A log as one container sees it: with those of its own events that are not known to be in the log yet."""

    def __init__(self, log: Seen, stream: str, events: Sequence[Event]) -> None:
        self._log, self._stream, self._events = log, stream, events

    def read_events(self, stream: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """Return the events of a stream; those of the container's own are at hand."""
        if stream == self._stream:
            return list(self._events[after:until])
        return self._log.read_events(stream, after=after, until=until)

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """Return the same for each of several ranges."""
        elsewhere = iter(self._log.read_ranges([one for one in ranges if one.stream != self._stream]))
        return [list(self._events[a:u]) if stream == self._stream else next(elsewhere) for stream, a, u in ranges]


def complete(log: Seen, events: Sequence[Any]) -> Sequence[ContainerEvent | Resolved]:
    """
    Return the events of a container as `fold` wants them; where they begin with a branch, so does the result begin
    with the events of its ancestors.

    Raises:
        DamagedError: a stream does not hold what an event says of it.
    """
    first = events[0] if events else None
    parts: list[Sequence[Any]] = [events]
    for segment in reversed(first.lineage) if isinstance(first, BranchedEvent) else ():
        parts.append(log.read_events(segment.stream, until=segment.version))
        if len(parts[-1]) != segment.version:
            raise DamagedError(f"the branch of {segment.stream}@{segment.version}", "that version does not exist")
    return [_resolved(log, event) for part in reversed(parts) for event in part]


def read_items(log: Seen, spans: Iterable[Span]) -> list[Held]:
    """
    Return the items that spans name, in their order, read where they came into the world.

    Raises:
        DamagedError: there is no such item.
    """
    return [Held(ref, event) for ref, event in read_named(log, spans, ITEM_EVENTS)]


def _resolved(log: Seen, event: Any) -> ContainerEvent | Resolved:
    if isinstance(event, RestoredEvent):
        return Resolved(event, tuple(read_items(log, event.items)))
    if isinstance(event, MergedEvent):
        return Resolved(event, tuple(read_items(log, event.taken)))
    recorded: ContainerEvent = event
    return recorded
