"""
What can be read of a chat context, of its present or of any version of its past.

`ChatView` reads through a `ChatSource`: the live journal, or one version of the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from ..errors import NotFoundError
from ..frozen import FrozenList
from .events import ITEM_EVENTS, ChatItemEvent
from .items import ChatItem, ChatMessage
from .openai_messages import openai_messages
from .seed_dict import items_to_dict
from .state import ChatState, Items, active_config
from .views import item_of

__all__ = ["ChatSource", "ChatView"]


class ChatSource(Protocol):
    """Where a view reads: a state at a version, and the last events before it without the whole."""

    @property
    def version(self) -> int:
        """The version that is shown."""

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""

    @property
    def state(self) -> ChatState:
        """The folded state at `version`."""

    def last_events(self, count: int) -> list[Any]:
        """
        Return the last `count` events up to `version`, without reading those before them.
        """


class ChatView:
    """The reading half of a chat context (SPEC V2, V3)."""

    def __init__(self, source: ChatSource) -> None:
        self._source = source
        self._shown: tuple[Items | None, FrozenList[ChatItem]] = (None, FrozenList())

    @property
    def version(self) -> int:
        """The stream version that this view shows; 0 before anything was recorded."""
        return self._source.version

    @property
    def items(self) -> FrozenList[ChatItem]:
        """
        All items in order, as a read-only list (SPEC V2.3); made once per version.
        """
        recorded = self._source.state.items
        seen, shown = self._shown
        if recorded is seen:
            return shown
        kept = shown if seen is not None and recorded.continues(seen) else FrozenList[ChatItem]()
        items = FrozenList([*kept, *map(item_of, recorded[len(kept) :])])
        self._shown = (recorded, items)
        return items

    def messages(self) -> list[ChatMessage]:
        """
        Return the messages only, in order (SPEC V2.4).
        """
        return [item for item in self.items if isinstance(item, ChatMessage)]

    def turn_count(self) -> int:
        """
        Return the number of user messages (SPEC V2.4).
        """
        return self._source.state.items.turns

    def estimated_tokens(self) -> int:
        """
        Return the estimated tokens of all items, about four characters each (SPEC V2.7).
        """
        return self._source.state.items.tokens

    def get_by_id(self, item_id: str) -> ChatItem | None:
        """
        Return the item with this id, or None (SPEC V2.6).
        """
        place = self._source.state.items.find(item_id)
        return None if place is None else item_of(self._source.state.items[place])

    def tail(self, count: int) -> list[ChatItem]:
        """
        Return the last `count` items, without loading those before them.
        """
        if count <= 0:
            return []
        return [item_of(event) for event in self._last_item_events(count)]

    def active_config_at(self, target: str | int | None = None) -> tuple[str | None, FrozenList[str] | None]:
        """
        Return (instructions, tools) in force after the item `target`: an id, an index, or None for the end.

        Instructions are those of the last system or developer message or config update; tools those of the
        last config update that had any (SPEC V3.1 to V3.3). A negative index counts from the end.

        Raises:
            NotFoundError: no item has this id or index (SPEC V3.4; a KeyError).
        """
        items = self._source.state.items
        instructions, tools = active_config(items[: self._end_of(target, items)])
        return instructions, None if tools is None else FrozenList(tools)

    def to_dict(self) -> dict[str, Any]:
        """
        Return the context as plain data in the seed's form, `{"items": [...]}` (SPEC V13.1).
        """
        return items_to_dict(self.items)

    def to_openai_messages(self, *, reasoning_model: bool = False) -> list[dict[str, Any]]:
        """
        Return the context as OpenAI chat messages; what was imported comes out as it came in (SPEC V9).

        A developer message made here is sent as "system"; for a `reasoning_model` "system" becomes "developer".
        """
        return openai_messages(self._source.state.items, reasoning_model=reasoning_model)

    def recorded_items(self) -> Items:
        """
        Return the items as they were recorded: frozen Structs, the quickest form to read.
        """
        return self._source.state.items

    def _end_of(self, target: str | int | None, items: Items) -> int:
        if target is None:
            return len(items)
        place = _index(int(target), len(items)) if isinstance(target, int) else items.find(target)
        if place is None:
            raise NotFoundError(f"no item {target!r}: there are {len(items)} items")
        return place + 1

    def _last_item_events(self, count: int) -> Sequence[ChatItemEvent]:
        if self._source.is_loaded:
            return self._source.state.items[-count:]
        wanted = count
        while True:
            events = self._source.last_events(wanted)
            items = [event for event in events if isinstance(event, ITEM_EVENTS)]
            if len(items) >= count or len(events) < wanted:
                return items[-count:]
            wanted *= 2


def _index(index: int, length: int) -> int | None:
    place = index + length if index < 0 else index
    return place if 0 <= place < length else None
