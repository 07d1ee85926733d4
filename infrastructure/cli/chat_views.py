"""A chat at one version, as the reading commands look at it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...domain.chat.context import ChatContext
from ...domain.chat.events import ITEM_EVENTS, Named, Opened
from ...domain.chat.state.sequence import Items
from ...domain.context.description import Departure
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.spans import Ref
from ..queries.origins import Item, births, full_ref
from .render import Entry

LOOKED_BACK_FIRST = 64


class SeenChat:
    """A chat at one version."""

    def __init__(self, log: Log, chat: ChatContext, version: int) -> None:
        self.log, self.version, self.head = log, version, chat.version
        self.stream = f"chat:{chat.id}"
        self.chat = chat.at(version)

    @property
    def tokens(self) -> int:
        """The estimated tokens of the items."""
        return self.chat.estimated_tokens()

    @property
    def settings(self) -> dict[str, Any]:
        """A chat has none."""
        return {}

    def entries(self, *, tail: int | None = None) -> list[Entry]:
        """Return the items, or the last `tail` of them; where nothing was edited, without loading what lies before."""
        found = None if tail is None else _last_added(self.log, self.stream, self.version, tail)
        if found is not None:
            return [Entry(recorded.event, recorded, self.stream) for recorded in found]
        items = self.chat.recorded_items()
        order = items.order()
        return self._entries(items, order if tail is None else order[-tail:])

    def evicted(self) -> list[tuple[Entry, Departure]]:
        """Return the items that left the view and are not back, the first to leave first, each with how it left."""
        items = self.chat.recorded_items()
        gone = items.edits.gone if items.edits else {}
        return list(zip(self._entries(items, list(gone)), gone.values(), strict=True))

    def items_at(self, refs: Sequence[Ref]) -> dict[Ref, Item]:
        """Return items that the chat ever had, by their births."""
        held = self.chat.recorded_items()
        ordinals = {ref: held.of_ref(Ref(ref.version) if ref.stream == self.stream else ref) for ref in refs}
        return {ref: held.arena.items[ordinal] for ref, ordinal in ordinals.items() if ordinal is not None}

    def entries_of(self, item_ids: Sequence[str]) -> list[Entry]:
        """Return items that the chat ever had, by their ids."""
        held = self.chat.recorded_items()
        ordinals = [held.ordinal(item_id) for item_id in item_ids]
        return self._entries(held, [ordinal for ordinal in ordinals if ordinal is not None])

    def _entries(self, items: Items, ordinals: Sequence[int]) -> list[Entry]:
        refs = [full_ref(items.ref(ordinal), self.stream) for ordinal in ordinals]
        born = births(self.log, refs)
        return [
            Entry(items.arena.items[ordinal], born[ref], self.stream, items.is_pinned(ordinal))
            for ordinal, ref in zip(ordinals, refs, strict=True)
        ]


def _last_added(log: Log, stream: str, version: int, count: int) -> list[RecordedEvent] | None:
    """Return the events of the last items, or None where an edit lies among them: then only the whole can say."""
    added: list[RecordedEvent] = []
    looked_back, until = LOOKED_BACK_FIRST, version
    while until and len(added) < count:
        after = max(0, until - looked_back)
        events = log.read(stream, after=after, until=until)
        if not all(isinstance(recorded.event, (*ITEM_EVENTS, Named, Opened)) for recorded in events):
            return None
        added[:0] = [recorded for recorded in events if isinstance(recorded.event, ITEM_EVENTS)]
        until, looked_back = after, looked_back * 2
    return added[-count:]
