"""
The items of a context at one version, each with the event that added it.
"""

from __future__ import annotations

from typing import NamedTuple

from ...domain.chat.context import ChatContext
from ...domain.chat.events import ITEM_EVENTS, ChatItemEvent
from ...domain.chat.past import ReadOnlyChatContext
from ...domain.envelope import RecordedEvent

__all__ = ["Entry", "entries_of", "event_at"]

LOOKED_BACK_FIRST = 64


class Entry(NamedTuple):
    """An item as it is shown, and where it was added."""

    item: ChatItemEvent
    recorded: RecordedEvent


def entries_of(chat: ChatContext, view: ReadOnlyChatContext, *, tail: int | None = None) -> list[Entry]:
    """
    Return the items of `view`, or the last `tail` of them, without loading what lies before those.
    """
    if tail is None:
        added = _added(chat.history(until=view.version))
        return [Entry(item, added[item.id]) for item in view.recorded_items()]
    wanted = [item.id for item in view.tail(tail)]
    added, after, count = {}, view.version, LOOKED_BACK_FIRST
    while after and not all(item_id in added for item_id in wanted):
        before = max(0, after - count)
        added.update(_added(chat.history(after=before, until=after)))
        after, count = before, count * 2
    return [Entry(added[item_id].event, added[item_id]) for item_id in wanted]


def event_at(chat: ChatContext, version: int) -> RecordedEvent | None:
    """
    Return the event that made a version; None for version 0, before there was any.
    """
    found = chat.history(after=version - 1, until=version) if version else []
    return found[0] if found else None


def _added(history: list[RecordedEvent]) -> dict[str, RecordedEvent]:
    return {recorded.event.id: recorded for recorded in history if isinstance(recorded.event, ITEM_EVENTS)}
