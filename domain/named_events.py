"""
The events that spans name, read where they were recorded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from .envelope import Event
from .errors import DamagedError
from .spans import Span, neighbours

__all__ = ["Seen", "read_named"]


class Seen(Protocol):
    """Where the events of streams are read."""

    def read_events(self, stream: str, *, after: int = 0, until: int | None = None) -> list[Event]:
        """
        Return the events of a stream with versions above `after`, up to and including `until`.
        """


def read_named(log: Seen, spans: Iterable[Span], kinds: tuple[type[Event], ...]) -> Iterator[tuple[int, Any]]:
    """
    Yield the version and the event of each item that `spans` name, in their order; an item is of one of `kinds`.

    Raises:
        DamagedError: there is no such item.
    """
    for span in spans:
        for near in neighbours(span.ranges()):
            first, stop = near[0].start, near[-1].stop
            events = log.read_events(span.stream, after=first - 1, until=stop - 1)
            for version in (version for run in near for version in run):
                event = events[version - first] if version - first < len(events) else None
                if not isinstance(event, kinds):
                    raise DamagedError(f"{span.stream}@{version}", "an event names it as an item, and it is none")
                yield version, event
