"""
What a window holds: the item that a user gives and gets, the recorded one behind it, and what is not in it (any more).
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
    A piece of context for a prompt: its name, its text, where it comes from, and how much it matters.

    Items with a higher priority stand first. Several may have one key.
    """

    key: str
    value: str
    source: str
    priority: int = 0


class Held(NamedTuple):
    """
    A recorded item: the version that brought it, the event of that version, and its place in the order.

    An item that takes another's place has that place; one that comes back has a new one.
    """

    version: int
    event: WindowItemEvent
    place: tuple[int, int]

    @property
    def item(self) -> ContextItem:
        """The item as its user sees it."""
        event = self.event
        # A priority may be a float, as the seed lets it be; its type says int, and so does ours.
        return ContextItem(event.key, event.value, event.source, event.priority)  # type: ignore[arg-type]

    @property
    def quarters(self) -> int:
        """Its size in quarters of a token."""
        return self.event.quarters

    def says(self, value: str, source: str, priority: float) -> bool:
        """Return whether the item says this."""
        return (self.event.value, self.event.source, self.event.priority) == (value, source, priority)


class EvictedItem(msgspec.Struct, frozen=True):
    """
    An item that left: how (`evict`, `remove`, `replace`, `clear`, or `room` for a more important one), why, and with
    which version.

    `born` is the item's own name, `stream@version`: what `restore` takes.
    """

    item: ContextItem
    how: str
    reason: str | None
    version: int
    born: str


class DroppedItem(msgspec.Struct, frozen=True):
    """
    An item that was not let in, and why: with it the window would have held `tokens`, and `max_tokens` were allowed.

    `born` is its name, `stream@version`: `restore` lets it in when there is room.
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
