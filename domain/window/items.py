"""
The items of a window: the item that users give and get, the recorded item behind it, and items that are not in the
window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import msgspec

from .events import WindowItemEvent

QUARTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True)
class ContextItem:
    """
    A piece of context for a prompt: its name, its text, its source, and its priority.

    Items with a higher priority come first in the prompt. Several items may have the same key.
    """

    key: str
    value: str
    source: str
    priority: int = 0


class Held(NamedTuple):
    """
    A recorded item: the version that added it, the event of that version, and its place in the order.

    An item that replaces another takes its place; an item that is restored gets a new place.
    """

    version: int
    event: WindowItemEvent
    place: tuple[int, int]

    @property
    def item(self) -> ContextItem:
        """The item as its user sees it."""
        event = self.event
        # Like the seed, Refold accepts a float, although the type of the field is int.
        return ContextItem(event.key, event.value, event.source, event.priority)  # type: ignore[arg-type]

    @property
    def quarters(self) -> int:
        """The size in quarters of a token."""
        return self.event.quarters

    def has_content(self, value: str, source: str, priority: float) -> bool:
        """Return whether the item has this value, source and priority."""
        return (self.event.value, self.event.source, self.event.priority) == (value, source, priority)


class EvictedItem(msgspec.Struct, frozen=True):
    """
    An item that left: how (`evict`, `remove`, `replace`, `clear`, or `room` for a more important item), why, and at
    which version.

    `born` is the name of the item's origin, `stream@version`, which `restore` takes.
    """

    item: ContextItem
    how: str
    reason: str | None
    version: int
    born: str


class DroppedItem(msgspec.Struct, frozen=True):
    """
    An item that was not admitted. With it the window would have held `tokens`, but only `max_tokens` were allowed.

    `born` is the name of the item's origin, `stream@version`; `restore` adds the item when there is room.
    """

    item: ContextItem
    tokens: int
    max_tokens: int
    version: int
    born: str

    @property
    def reason(self) -> str:
        """Why, in words."""
        return f"with it the window would hold {self.tokens:,} tokens, and max_tokens is {self.max_tokens:,}"
