"""
From which version to which can an item be seen? One row for each item of a chat that its own events name.

An item that came into the world here has its row from its birth. What a fork begins with, and what a merge takes, is
not copied: one row, a mark, says what came, however much it is, and an item of it has a row of its own here once it
leaves or comes back. A cleared context is a mark too, since the event names no items: a stay without an end ends at
the next mark of that sort. `refold.infrastructure.queries.intervals` joins all that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..domain.chat.describe import left_by
from ..domain.chat.events import (
    ITEM_EVENTS,
    VIEW_EVENTS,
    ChatItemEvent,
    Cleared,
    ConfigUpdated,
    Forked,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    InstructionsReplaced,
    ItemInserted,
    ItemsRestored,
    Merged,
    MessageAdded,
    Placement,
    Summarized,
    SummaryUndone,
    added_item,
)
from ..domain.chat.tokens import estimate_tokens
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.spans import Ref, Segment, refs_of
from .intervals import STILL_THERE, IntervalRow, birth_in, bringing, item_key, left, mark_key, returned

FORKED, MERGED, CLEARED = "forked", "merged", "cleared"
TYPES: dict[type[Event], str] = {
    MessageAdded: "message",
    FunctionCalled: "function_call",
    FunctionReturned: "function_call_output",
    HandedOff: "agent_handoff",
    ConfigUpdated: "agent_config_update",
}


class ValidityRow(IntervalRow, frozen=True):
    """
    An item in a chat's view, or a mark: its `type` is forked, merged or cleared, `brought` is `brought_by`.

    Where no event named the item again, it is still there, or left with the next mark `cleared`; `v0` is 0 where it
    came with a fork or a merge, whose mark has the version. `before` is the birth of the item that it was put before;
    `agent` is the item's, else who recorded it.
    """

    role: str = ""
    before: str = ""


class Brought(msgspec.Struct, frozen=True, array_like=True):
    """
    What a fork began with, or a merge took: `placed` names it, None is all that `parent` had, in the same order.

    With `agent` the item that was taken is a new one, born here.
    """

    parent: Segment | None = None
    placed: tuple[Placement, ...] | None = None
    agent: str | None = None


class Validity:
    """The fold behind `store.validity()`."""

    name = "validity"
    version = 1
    row = ValidityRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset((*ITEM_EVENTS, *VIEW_EVENTS))

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the item that the event brought, those that it let go of or brought back, and its mark."""
        recorded, stream = event.event, event.stream
        if isinstance(recorded, ITEM_EVENTS):
            return (item_key(stream, Ref(event.version)),)
        keys = dict.fromkeys(item_key(stream, ref) for ref in _touched(recorded))
        if added_item(recorded) is not None:
            keys[item_key(stream, Ref(event.version))] = None
        if isinstance(recorded, Forked | Cleared) or (isinstance(recorded, Merged) and recorded.placed):
            keys[mark_key(stream, event.version)] = None
        return tuple(keys)

    def evolve(self, key: str, row: ValidityRow | None, event: RecordedEvent) -> ValidityRow:
        recorded, stream = event.event, event.stream
        item = added_item(recorded)
        if item is not None and key == item_key(stream, Ref(event.version)):
            return _born(key, item, event)
        if isinstance(recorded, Forked | Merged | Cleared):
            return _mark(key, recorded, event)
        row = row or ValidityRow(key=key, context=stream, birth=birth_in(key, stream))
        is_back = isinstance(recorded, ItemsRestored)
        if isinstance(recorded, SummaryUndone):
            is_back = key != item_key(stream, recorded.summary)
        return returned(row, event.version) if is_back else _left(row, event)


def brought_by(row: ValidityRow) -> Brought:
    """Return what came with a fork or a merge, by its mark."""
    return msgspec.msgpack.decode(row.brought, type=Brought)


def _touched(event: Event) -> Iterable[Ref]:
    """Return the items that an event names which left with it, or came back."""
    if isinstance(event, ItemsRestored):
        return refs_of(event.items)
    left = left_by(event)
    leaving = refs_of((left and left.items) or ())
    return (*leaving, *refs_of(event.items)) if isinstance(event, SummaryUndone) else leaving


def _born(key: str, item: ChatItemEvent, event: RecordedEvent) -> ValidityRow:
    recorded = event.event
    before = ""
    if isinstance(recorded, ItemInserted | InstructionsReplaced | Summarized):
        before = f"{recorded.before.stream or event.stream}@{recorded.before.version}"
    return ValidityRow(
        key=key,
        context=event.stream,
        birth=event.reference,
        item=item.id,
        type=TYPES[type(item)],
        role=item.role if isinstance(item, MessageAdded) else "",
        agent=item.agent_id or event.meta.actor or "",
        tokens=estimate_tokens(item),
        v0=event.version,
        before=before,
    )


def _mark(key: str, recorded: Forked | Merged | Cleared, event: RecordedEvent) -> ValidityRow:
    row = ValidityRow(key=key, context=event.stream, birth=event.reference, v0=event.version)
    match recorded:
        case Cleared(reason=reason):
            return msgspec.structs.replace(row, type=CLEARED, reason=reason or "")
        case Forked(carried=carried):
            placed = None if carried is None else (Placement(None, carried),)
            parent = Segment(recorded.parent, recorded.version)
            return bringing(row, FORKED, Brought(parent, placed), recorded.how)
        case Merged(placed=placed, agent_id=agent):
            return bringing(row, MERGED, Brought(None, placed, agent), recorded.how)


def _left(row: ValidityRow, event: RecordedEvent) -> ValidityRow:
    if row.v1 != STILL_THERE:
        return row
    by = left_by(event.event)
    return left(row, event.version, *((by.how, by.reason or "") if by else ("", "")))


VALIDITY = Validity()
