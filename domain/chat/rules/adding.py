"""Adding and inserting: which items are new, and where an item belongs by its time."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import msgspec

from ...canonical import require_short
from ...errors import DuplicateItemError
from ...spans import OWN, Ref
from ..events import (
    ChatEvent,
    ChatItemEvent,
    FunctionCalled,
    FunctionReturned,
    InstructionsReplaced,
    ItemInserted,
    MessageAdded,
)
from ..state.arena import totals_of
from ..state.fold import ChatState
from ..state.sequence import Items


def require_ids(items: Sequence[ChatItemEvent]) -> Sequence[ChatItemEvent]:
    """
    Return items whose ids and call ids can be ones.

    Raises:
        InvalidInputError: one is too long.
    """
    for item in items:
        require_short(item.id, "the item id")
        if isinstance(item, FunctionCalled | FunctionReturned):
            require_short(item.call_id, "the call id")
    return items


def new_items(stream: str, items: Sequence[ChatItemEvent], state: ChatState) -> list[ChatItemEvent]:
    """
    Return those of `items` that the context never held; the same item again is nothing new.

    Raises:
        DuplicateItemError: an item with other content has one of the ids, or an evicted one has.
        InvalidInputError: an id is too long.
    """
    fresh: dict[str, ChatItemEvent] = {}
    for item in require_ids(items):
        ordinal = state.items.ordinal(item.id)
        known = fresh.get(item.id) if ordinal is None else state.items.arena.items[ordinal]
        if known is None:
            fresh[item.id] = item
        elif not _is_same(known, item):
            raise DuplicateItemError(stream, item.id)
        elif ordinal is not None and not state.items.shows(ordinal):
            raise DuplicateItemError(stream, item.id, is_evicted=True)
    return list(fresh.values())


def _is_same(known: ChatItemEvent, item: ChatItemEvent) -> bool:
    """The time is information about an item, not a part of what it says."""
    if type(known) is not type(item):
        return False
    return known == msgspec.structs.replace(item, created_at=known.created_at, origin=known.origin)


class ByTime:
    """
    Where items belong by their time: before the first that is younger, in a list that need not be
    in order. Remembers what was put in, so that many find their places in one pass over the list.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        # Ordinals, and the names of what was put in since.
        self._line: list[int | Ref] = list(items.order())
        # The greatest time so far ascends, and passes a time exactly where the first greater one stands.
        self._greatest = list(accumulate((item.created_at for item in items), max))

    def before(self, time: float, *, behind: int | None = None) -> Ref | None:
        """
        Return the item that one of this time belongs right before, or None for the end; never one before the item
        with the ordinal `behind`, nor that item itself.
        """
        place = bisect_right(self._greatest, time)
        if behind is not None:
            place = max(place, self._line.index(behind) + 1)
        if place == len(self._line):
            return None
        found = self._line[place]
        return found if isinstance(found, Ref) else self._items.ref(found)

    def put(self, item: ChatItemEvent, ref: Ref) -> None:
        """Take note that an item was put into its place."""
        place = bisect_right(self._greatest, item.created_at)
        greatest = max(item.created_at, self._greatest[place - 1]) if place else item.created_at
        self._greatest.insert(place, greatest)
        self._line.insert(place, ref)


def insert_items(stream: str, items: Sequence[ChatItemEvent], state: ChatState) -> list[ChatEvent]:
    """Return the events that put each item where its time belongs, ties behind, the oldest first."""
    fresh = sorted(new_items(stream, items, state), key=lambda item: item.created_at)
    if len(fresh) == 1:
        # No list of all times is needed to find one place.
        younger = state.items.first_younger(fresh[0].created_at)
        return [_inserted(fresh[0], None if younger is None else state.items.ref(younger))]
    by_time = ByTime(state.items)
    events: list[ChatEvent] = []
    for item in fresh:
        before = by_time.before(item.created_at)
        by_time.put(item, Ref(state.version + len(events) + 1, OWN))
        events.append(_inserted(item, before))
    return events


def _inserted(item: ChatItemEvent, before: Ref | None) -> ChatEvent:
    return item if before is None else ItemInserted(item=item, before=before)


def replace_instructions(stream: str, item: MessageAdded, state: ChatState) -> list[ChatEvent]:
    """
    Return the event that puts a system message in the place of the first one, and takes all others away.

    Developer messages stay. Without a system message it is an append.
    """
    if not new_items(stream, (item,), state):
        return []
    items = state.items
    replaced = [
        ordinal
        for ordinal in items.order()
        if isinstance(known := items.arena.items[ordinal], MessageAdded) and known.role == "system"
    ]
    if not replaced:
        return [item]
    change = totals_of(item) + -items.total_of(replaced)
    before = items.ref(replaced[0])
    return [InstructionsReplaced(item=item, before=before, replaced=items.spans(replaced), change=change)]
