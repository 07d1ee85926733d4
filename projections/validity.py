"""
From which version to which is an item visible? One row for each item of a chat that its own events name.

An item that the chat itself recorded has a row from then on. The items that a fork begins with, or that a merge takes,
are not copied. One row, a mark, names all of them; such an item gets a row of its own here when it leaves or comes
back. Clearing a context makes a mark too, because its event names no items: an interval without an end ends at the
next mark `cleared`. `refold.infrastructure.queries.intervals` joins rows and marks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..domain.chat import events as chat
from ..domain.chat.describe import left_by
from ..domain.chat.tokens import estimate_tokens
from ..domain.concurrency.known_types import known
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.spans import Ref, Segment, refs_of
from .intervals import STILL_THERE, IntervalRow, birth_in, close_interval, fill_mark, item_key, mark_key, open_interval

FORKED, MERGED, CLEARED = "forked", "merged", "cleared"
TYPES: dict[type[Event], str] = {
    chat.MessageAdded: "message",
    chat.FunctionCalled: "function_call",
    chat.FunctionReturned: "function_call_output",
    chat.HandedOff: "agent_handoff",
    chat.ConfigUpdated: "agent_config_update",
}


class ValidityRow(IntervalRow, frozen=True):
    """
    An item in a chat's view, or a mark: its `type` is forked, merged or cleared, `brought` is `brought_by`.

    If no event names the item again, it is still there, or it left with the next mark `cleared`. `v0` is 0 if the item
    came with a fork or a merge, whose mark has the version. `before` is the origin of the item that it was put before.
    `agent` is the agent of the item, else the agent that recorded it.
    """

    role: str = ""
    before: str = ""


class CarriedItems(msgspec.Struct, frozen=True, array_like=True):
    """
    The items that came with a fork or a merge.

    `placed` names them; None means all items of `parent`, in the same order. With `agent` the item that a merge took
    is a new item, whose origin is the merge.
    """

    parent: Segment | None = None
    placed: tuple[chat.Placement, ...] | None = None
    agent: str | None = None


class Validity:
    """The fold behind `store.validity()`."""

    name = "validity"
    version = 2
    row = ValidityRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset((*chat.ITEM_EVENTS, *chat.VIEW_EVENTS, *chat.PIECES))

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the keys of the item that the event added, of the items it removed or restored, and of its mark."""
        recorded, stream = event.event, event.stream
        if isinstance(recorded, chat.ITEM_EVENTS):
            return (item_key(stream, Ref(event.version)),)
        if isinstance(recorded, chat.PIECES):
            return (item_key(stream, recorded.item),)
        keys = dict.fromkeys(item_key(stream, ref) for ref in _touched(recorded))
        if chat.added_item(recorded) is not None:
            keys[item_key(stream, Ref(event.version))] = None
        if isinstance(recorded, chat.Forked | chat.Cleared) or (isinstance(recorded, chat.Merged) and recorded.placed):
            keys[mark_key(stream, event.version)] = None
        return tuple(keys)

    def evolve(self, key: str, row: ValidityRow | None, event: RecordedEvent) -> ValidityRow | None:
        recorded, stream = event.event, event.stream
        if isinstance(recorded, chat.PIECES):
            return row and msgspec.structs.replace(row, tokens=row.tokens + recorded.change.tokens)
        item = chat.added_item(recorded)
        if item is not None and key == item_key(stream, Ref(event.version)):
            return _new_row(key, item, event)
        if isinstance(recorded, chat.Forked | chat.Merged | chat.Cleared):
            return _new_mark(key, recorded, event)
        row = row or ValidityRow(key=key, context=stream, birth=birth_in(key, stream))
        is_back = isinstance(recorded, chat.ItemsRestored)
        if isinstance(recorded, chat.SummaryUndone):
            is_back = key != item_key(stream, recorded.summary)
        return open_interval(row, event.version) if is_back else _removed(row, event)


def brought_by(row: ValidityRow) -> CarriedItems:
    """Return the items that came with the mark of a fork or a merge."""
    return msgspec.msgpack.decode(row.brought, type=known(CarriedItems))


def _touched(event: Event) -> Iterable[Ref]:
    """Return the items that left or came back with an event, as far as the event names them."""
    if isinstance(event, chat.ItemsRestored):
        return refs_of(event.items)
    left = left_by(event)
    leaving = refs_of((left and left.items) or ())
    return (*leaving, *refs_of(event.items)) if isinstance(event, chat.SummaryUndone) else leaving


def _new_row(key: str, item: chat.ChatItemEvent, event: RecordedEvent) -> ValidityRow:
    recorded = event.event
    before = ""
    if isinstance(recorded, chat.ItemInserted | chat.InstructionsReplaced | chat.CallChanged | chat.Summarized):
        before = str(recorded.before.within(event.stream))
    return ValidityRow(
        key=key,
        context=event.stream,
        birth=event.reference,
        item=item.id,
        type=TYPES[type(item)],
        role=item.role if isinstance(item, chat.MessageAdded) else "",
        agent=item.agent_id or event.meta.actor or "",
        tokens=estimate_tokens(item),
        v0=event.version,
        before=before,
    )


def _new_mark(key: str, recorded: chat.Forked | chat.Merged | chat.Cleared, event: RecordedEvent) -> ValidityRow:
    row = ValidityRow(key=key, context=event.stream, birth=event.reference, v0=event.version)
    match recorded:
        case chat.Cleared(reason=reason):
            return msgspec.structs.replace(row, type=CLEARED, reason=reason or "")
        case chat.Forked(carried=carried):
            placed = None if carried is None else (chat.Placement(None, carried),)
            parent = Segment(recorded.parent, recorded.version)
            return fill_mark(row, FORKED, CarriedItems(parent, placed), recorded.how)
        case chat.Merged(placed=placed, agent_id=agent):
            return fill_mark(row, MERGED, CarriedItems(None, placed, agent), recorded.how)


def _removed(row: ValidityRow, event: RecordedEvent) -> ValidityRow:
    if row.v1 != STILL_THERE:
        return row
    by = left_by(event.event)
    return close_interval(row, event.version, *((by.how, by.reason or "") if by else ("", "")))


VALIDITY = Validity()
