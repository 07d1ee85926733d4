"""
The items of a context at one version, each with the event that brought it into the world.

That event may lie in another stream: a fork shows what its parent recorded, a merge what it took.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...domain.chat.calls.past import ReadOnlyChatContext
from ...domain.chat.context import ChatContext
from ...domain.chat.events import ITEM_EVENTS, ChatItemEvent, Named, Opened
from ...domain.chat.spans import Ref, Span, neighbours
from ...domain.chat.state.sequence import Gone, Items
from ...domain.envelope import RecordedEvent
from ...domain.ports import Log
from ...domain.streams import stream_id

__all__ = ["Entry", "entries_of", "event_at", "evicted_entries", "place_of"]

LOOKED_BACK_FIRST = 64


class Entry(NamedTuple):
    """
    An item as it is shown, the event that brought it, the context that shows it (a stream), and whether it is pinned.
    """

    item: ChatItemEvent
    recorded: RecordedEvent
    shown_in: str
    is_pinned: bool = False

    @property
    def place(self) -> str:
        """Where it was added, as it can be typed: `@3`, or `other@3` where that is another context."""
        return place_of(Ref(self.recorded.version, self.recorded.stream), self.shown_in)


def place_of(ref: Ref, shown_in: str) -> str:
    """
    Return where an item was added, as it is said in the context that shows it.
    """
    is_own = ref.stream in ("", shown_in)
    return f"@{ref.version}" if is_own else f"{ref.stream.removeprefix('chat:')}@{ref.version}"


def entries_of(log: Log, chat: ChatContext, view: ReadOnlyChatContext, *, tail: int | None = None) -> list[Entry]:
    """
    Return the items of `view`, or the last `tail` of them; where nothing was edited, without loading what lies before.
    """
    stream = stream_id("chat", chat.id)
    found = None if tail is None else _last_added(log, stream, view.version, tail)
    if found is not None:
        return [Entry(recorded.event, recorded, stream) for recorded in found]
    items = view.recorded_items()
    order = items.order()
    return _entries(log, stream, items, order if tail is None else order[-tail:])


def evicted_entries(log: Log, chat: ChatContext, view: ReadOnlyChatContext) -> list[tuple[Entry, Gone]]:
    """
    Return the items that left the view and are not back, the first to leave first, each with how it left.
    """
    items = view.recorded_items()
    gone = items.edits.gone if items.edits else {}
    return list(zip(_entries(log, stream_id("chat", chat.id), items, list(gone)), gone.values(), strict=True))


def event_at(chat: ChatContext, version: int) -> RecordedEvent | None:
    """
    Return the event that made a version; None for version 0, before there was any.
    """
    found = chat.history(after=version - 1, until=version) if version else []
    return found[0] if found else None


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


def _entries(log: Log, stream: str, items: Items, ordinals: Sequence[int]) -> list[Entry]:
    refs = [_full(items.ref(ordinal), stream) for ordinal in ordinals]
    born = _recorded(log, refs)
    return [
        Entry(items.arena.items[ordinal], born[ref], stream, items.is_pinned(ordinal))
        for ordinal, ref in zip(ordinals, refs, strict=True)
    ]


def _full(ref: Ref, stream: str) -> Ref:
    return ref if ref.stream else Ref(ref.version, stream)


def _recorded(log: Log, refs: Iterable[Ref]) -> dict[Ref, RecordedEvent]:
    versions: dict[str, set[int]] = {}
    for ref in refs:
        versions.setdefault(ref.stream, set()).add(ref.version)
    return {
        Ref(recorded.version, stream): recorded
        for stream, wanted in versions.items()
        for near in neighbours(Span.of(stream, sorted(wanted)).ranges())
        for recorded in log.read(stream, after=near[0].start - 1, until=near[-1].stop - 1)
    }
