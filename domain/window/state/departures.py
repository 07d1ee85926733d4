"""
What is not in a window: the items that left it, and those that were never let in. Read from its events, since the
state holds only what is there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from ...errors import NotFoundError
from ...ports import Log, StreamEnd
from ...spans import Span, refs_of
from ..events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvicted,
    WindowItemEvent,
    WindowReplaced,
    WindowRestored,
)
from ..items import DroppedItem, EvictedItem, Held


class _Departure(NamedTuple):
    """How an item left, why, and with which version."""

    how: str
    reason: str | None
    version: int


class Departures:
    """What left a window up to a version, and what was dropped, and is not in: by the version that brought it."""

    def __init__(self, log: Log, stream: str, version: int) -> None:
        self._stream = stream
        self._events: Sequence[Any] = log.read_events(stream, until=version, known=StreamEnd(version))
        self._there: dict[int, None] = {}
        self._left: dict[int, _Departure] = {}
        self._dropped: dict[int, None] = {}
        for number, event in enumerate(self._events, 1):
            self._apply(number, event)

    def evicted(self) -> list[EvictedItem]:
        """Return the items that left, in the order in which they did."""
        return [
            EvictedItem(self._held(version).item, left.how, left.reason, left.version, self._birth(version))
            for version, left in self._left.items()
        ]

    def dropped(self) -> list[DroppedItem]:
        """Return the items that were not let in, in order."""
        return [self._dropped_item(version) for version in self._dropped]

    def returning(self, versions: Iterable[int]) -> list[Held]:
        """
        Return the items that these versions brought, so that they can come in.

        Raises:
            NotFoundError: no such item left or was dropped, or it is in.
        """
        found: list[Held] = []
        for version in dict.fromkeys(versions):
            if version not in self._left and version not in self._dropped:
                raise NotFoundError(
                    f"no item {self._birth(version)} left the window: `evicted()` and `dropped()` list those there are"
                )
            found.append(self._held(version))
        return found

    def _apply(self, number: int, event: Any) -> None:
        match event:
            case WindowAdded():
                self._there[number] = None
            case WindowReplaced(old=old):
                self._leave(_versions(old), _Departure("replace", None, number))
                self._there[number] = None
            case WindowEvicted(items=items, how=how, reason=reason):
                self._leave(_versions(items), _Departure(how, reason, number))
            case WindowCleared():
                self._leave(list(self._there), _Departure("clear", None, number))
            case WindowRestored(items=items):
                self._come(_versions(items))
            case WindowDropped():
                self._dropped[number] = None

    def _leave(self, versions: Iterable[int], departure: _Departure) -> None:
        for version in versions:
            self._there.pop(version)
            self._left[version] = departure

    def _come(self, versions: Iterable[int]) -> None:
        for version in versions:
            self._left.pop(version, None)
            self._dropped.pop(version, None)
            self._there[version] = None

    def _held(self, version: int) -> Held:
        event: WindowItemEvent = self._events[version - 1]
        return Held(version, event, (0, 0))

    def _birth(self, version: int) -> str:
        return f"{self._stream}@{version}"

    def _dropped_item(self, version: int) -> DroppedItem:
        event: WindowDropped = self._events[version - 1]
        item = self._held(version).item
        return DroppedItem(item, event.tokens, event.max_tokens, version, self._birth(version))


def _versions(spans: Iterable[Span]) -> list[int]:
    return [ref.version for ref in refs_of(spans)]
