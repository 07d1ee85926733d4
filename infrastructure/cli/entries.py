"""
The items of a context, each with the event that brought it into the world.

That event may lie in another stream: a fork shows what its parent recorded, a merge what it took.
"""

from __future__ import annotations

from typing import NamedTuple

from ...domain.log.envelope import RecordedEvent
from ...domain.spans import Ref
from ..queries.origins import Item, place_of


class Entry(NamedTuple):
    """
    An item as it is shown, the event that brought it, the context that shows it (a stream), and whether it is pinned.
    """

    item: Item
    recorded: RecordedEvent
    shown_in: str
    is_pinned: bool = False

    @property
    def place(self) -> str:
        """Where it was added, as it can be typed: `@3`, or `other@3` where that is another context."""
        return place_of(Ref(self.recorded.version, self.recorded.stream), self.shown_in)


class Left(NamedTuple):
    """How an item left the view, why, and with which version."""

    how: str
    reason: str | None
    version: int
