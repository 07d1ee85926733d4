"""Edits of a view: adding and inserting items, evicting and restoring them, pinning, clearing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, islice, pairwise

import msgspec

from ...arguments import require_optional
from ...canonical import require_short
from ...concurrency.locks import cached_property
from ...errors import CallSettledError, DecisionRefusedError, DuplicateItemError, InvalidInputError, NotFoundError
from ...spans import Ref, Span, joined_spans
from ...totals import Totals
from .. import events as chat
from ..pairing import IN_BATCH, pair_calls
from ..pieces import is_erased, written
from ..state.fold import ChatState
from ..state.item_table import totals_of
from ..state.sequence import Items
from .commands import Clear, EvictItems, InsertItems, PinItems, ReplaceInstructions, RestoreItems, WritePiece
from .thinking import Answers

# `restore()` without ids puts these back. A summary is not among them: `undo_summary`, which also removes the summary,
# reverts it.
RESTORED_TOGETHER = ("evict", "truncate", "clear", "merge")
# Up to ALL_READ_MAX items with one call id are all read. If there are more, PAIRED_AROUND of them are, before or behind
# one of them.
ALL_READ_MAX, PAIRED_AROUND = 4, 4


def require_ids(items: Sequence[chat.ChatItemEvent]) -> Sequence[chat.ChatItemEvent]:
    """
    Return the items, if their ids and call ids are valid.

    Raises:
        InvalidInputError: an id is too long.
    """
    for item in items:
        require_short(item.id, "the item id")
        if isinstance(item, chat.FunctionCalled | chat.FunctionReturned):
            require_short(item.call_id, "the call id")
    return items


def new_items(stream: str, items: Sequence[chat.ChatItemEvent], state: ChatState) -> list[chat.ChatItemEvent]:
    """
    Return those of `items` that the context never held; the same item again is left out.

    Raises:
        DuplicateItemError: an item with other content, or an evicted item, has one of the ids.
        InvalidInputError: an id is too long.
    """
    fresh: dict[str, chat.ChatItemEvent] = {}
    for item in require_ids(items):
        ordinal = state.items.ordinal(item.id)
        known = fresh.get(item.id) if ordinal is None else state.items.item_table.items[ordinal]
        if known is None:
            fresh[item.id] = item
        elif not _is_same(known, item):
            raise DuplicateItemError(stream, item.id)
        elif ordinal is not None and not state.items.shows(ordinal):
            raise DuplicateItemError(stream, item.id, is_evicted=True)
    return list(fresh.values())


def _is_same(known: chat.ChatItemEvent, item: chat.ChatItemEvent) -> bool:
    """Compare without time and origin, which are information about an item and not its content."""
    if type(known) is not type(item):
        return False
    if isinstance(item, chat.MessageAdded) and isinstance(known, chat.MessageAdded):
        item = msgspec.structs.replace(item, until=known.until)
    return known == msgspec.structs.replace(item, created_at=known.created_at, origin=known.origin)


def write_piece(command: WritePiece, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that adds a piece to a message, or none if it is there; a message that left the view goes on, too.

    Raises:
        DecisionRefusedError: the message is not one that this context is writing, or the text before the piece is lost,
            as to an erasure.
    """
    items = state.items
    ordinal = items.ordinal(command.item_id)
    message = None if ordinal is None else items.item(ordinal)
    if ordinal is None or not isinstance(message, chat.MessageAdded) or message.incomplete is None:
        raise DecisionRefusedError(f"{command.stream}: message {command.item_id!r} is not being written")
    place = items.ref(ordinal)
    if place.stream:
        raise DecisionRefusedError(f"message {command.item_id!r} is written in {place.stream}: write it there")
    length = sum(len(part) for part in message.content if isinstance(part, str))
    if is_erased(message):
        # Its former length is not known. It can end, but no text may follow the text that was erased.
        length = command.start
        if command.text:
            raise DecisionRefusedError(
                f"message {command.item_id!r} was erased or archived while it was written: begin another one"
            )
    if length < command.start:
        raise DecisionRefusedError(
            f"message {command.item_id!r} has {length} of {command.start} characters: some are lost"
        )
    text = command.text[length - command.start :]
    if not (text or command.is_last):
        return []
    piece: chat.MessageExtended | chat.MessageFinished = chat.MessageExtended(item=place, text=text)
    if command.is_last:
        piece = chat.MessageFinished(
            item=place,
            role=message.role,
            agent_id=message.agent_id,
            text=text,
            incomplete=command.incomplete,
            metrics=command.metrics,
        )
    whole = totals_of(written(message, [(state.version + 1, piece)]))
    change = whole - totals_of(message) if items.shows(ordinal) else Totals()
    counted = {"tokens": whole.tokens} if command.is_last else {}
    return [msgspec.structs.replace(piece, change=change, **counted)]


class ByTime:
    """
    The places of items by their time: each goes before the first item that is younger.

    The list need not be in order. Many items find their places in one pass: if the oldest is inserted first, none goes
    before another.
    """

    def __init__(self, items: Items) -> None:
        self._items = items
        self._line = list(items.order())
        # The greatest time up to each place. It never decreases, and first exceeds a given time at the first younger
        # item.
        self._greatest = list(accumulate((item.created_at for item in items), max))

    def before(self, time: float, *, behind: int | None = None, ahead: int | None = None) -> Ref | None:
        """
        Return the item before which an item of this time belongs, or None for the end.

        With `behind`, the place is after the item with that ordinal; with `ahead`, before it.
        """
        place = bisect_right(self._greatest, time)
        if behind is not None:
            place = max(place, self._line.index(behind) + 1)
        if ahead is not None:
            place = min(place, self._line.index(ahead))
        if place == len(self._line):
            return None
        return self._items.ref(self._line[place])


def insert_items(command: InsertItems, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the events that insert items: all directly before another one, in their order, or each by its time.

    By time the oldest is inserted first; of equal times the new item comes last.

    Raises:
        NotFoundError: the item `before` is not in the view.
    """
    items, before = state.items, command.before
    if before is not None:
        ordinal = items.visible_ordinal(before)
        if ordinal is None:
            raise NotFoundError(f"no item {before!r} in the view, before which to insert")
        place = items.ref(ordinal)
        return [chat.ItemInserted(item=item, before=place) for item in new_items(command.stream, command.items, state)]
    fresh = sorted(new_items(command.stream, command.items, state), key=lambda item: item.created_at)
    if len(fresh) == 1:
        # A single place is found without a list of all times.
        younger = items.first_younger(fresh[0].created_at)
        return [_inserted(fresh[0], None if younger is None else items.ref(younger))]
    by_time = ByTime(items)
    return [_inserted(item, by_time.before(item.created_at)) for item in fresh]


def _inserted(item: chat.ChatItemEvent, before: Ref | None) -> chat.ChatEvent:
    return item if before is None else chat.ItemInserted(item=item, before=before)


def replace_instructions(command: ReplaceInstructions, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that replaces the first system message and removes the other system messages.

    Developer messages stay. Without a system message the item is appended.
    """
    item, items = command.item, state.items
    if not new_items(command.stream, (item,), state):
        return []
    replaced = [
        ordinal
        for ordinal in items.order()
        if isinstance(known := items.item_table.items[ordinal], chat.MessageAdded) and known.role == "system"
    ]
    if not replaced:
        return [item]
    change = totals_of(item) - items.total_of(replaced)
    before = items.ref(replaced[0])
    return [chat.InstructionsReplaced(item=item, before=before, replaced=items.spans(replaced), change=change)]


def evict_items(command: EvictItems, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that takes these items out of the view; none if all are out already.

    Raises:
        NotFoundError: the context never held one of them.
        InvalidInputError: one of them, or an item that goes with it, is pinned, and `partners` is set.
    """
    items = state.items
    wanted = [ordinal for ordinal in _ordinals_named(command.stream, command.ids, items) if items.shows(ordinal)]
    leaving = with_thinking(items, wanted) if command.partners else sorted(set(wanted))
    for ordinal in leaving:
        if command.partners and items.is_pinned(ordinal):
            item_id = items.item_table.items[ordinal].id
            raise InvalidInputError(f"item {item_id!r} of {command.stream} is pinned: leave it out, or unpin it first")
    return [evicted(items, leaving, how="evict", reason=command.reason)] if leaving else []


def evicted(items: Items, leaving: Sequence[int], *, how: str, reason: str | None) -> chat.ItemsEvicted:
    """Return the event with which these items leave the view."""
    reason = require_optional(reason, "the reason")
    return chat.ItemsEvicted(
        items=spans_by_age(items, leaving), change=-items.total_of(leaving), how=how, reason=reason
    )


def restore_items(command: RestoreItems, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that puts these items back into their places; without ids, those that left last, together.

    Raises:
        NotFoundError: the context never held one of them.
        CallSettledError: one is a call that a person changed.
    """
    stream, items = command.stream, state.items
    if command.ids is None:
        gone = _last_gone(items)
    else:
        gone = [ordinal for ordinal in _ordinals_named(stream, command.ids, items) if not items.shows(ordinal)]
        for ordinal in gone:
            _require_unchanged(stream, items, ordinal)
    back = with_thinking(items, gone, are_gone=True) if command.partners else sorted(set(gone))
    if not back:
        return []
    reason = require_optional(command.reason, "the reason")
    return [chat.ItemsRestored(items=spans_by_age(items, back), change=items.total_of(back), reason=reason)]


def _require_unchanged(stream: str, items: Items, ordinal: int) -> None:
    """Refuse a call that a person changed: the new call has the same call id, and an output would answer both."""
    item, approval = items.item_table.items[ordinal], items.approval(ordinal)
    if isinstance(item, chat.FunctionCalled) and items.edits is not None and items.edits.gone[ordinal].how == "change":
        by = f" by {approval.by}" if approval is not None else ""
        raise CallSettledError(stream, item.call_id, f"was changed{by}: the new call stays in its place")


def pin_items(command: PinItems, state: ChatState) -> list[chat.ChatEvent]:
    """
    Return the event that pins these items, or unpins them.

    Raises:
        NotFoundError: the context never held one of them, or one to be pinned was evicted.
    """
    items, is_pinned = state.items, command.is_pinned
    ordinals = _ordinals_named(command.stream, command.ids, items)
    for ordinal in ordinals:
        if is_pinned and not items.shows(ordinal):
            item_id = items.item_table.items[ordinal].id
            raise NotFoundError(f"item {item_id!r} of {command.stream} was evicted: restore it first")
    changing = [ordinal for ordinal in ordinals if items.is_pinned(ordinal) != is_pinned]
    if not changing:
        return []
    event = chat.ItemsPinned if is_pinned else chat.ItemsUnpinned
    return [event(items=spans_by_age(items, changing), reason=require_optional(command.reason, "the reason"))]


def clear(command: Clear, state: ChatState) -> list[chat.ChatEvent]:
    """Return the event that takes everything out of the view."""
    reason = require_optional(command.reason, "the reason")
    return [chat.Cleared(change=-state.items.totals, reason=reason)] if len(state.items) else []


def with_partners(items: Items, ordinals: Iterable[int], *, are_gone: bool = False) -> list[int]:
    """
    Return `ordinals`, ascending, with the outputs of the calls and the calls of the outputs among them.

    Only partners in the view are added, or with `are_gone` only partners that left it.
    """
    chosen = set(ordinals)
    partners = Partners(items, are_gone=are_gone)
    for ordinal in list(chosen):
        partner = partners.of(ordinal)
        if partner is not None and items.shows(partner) != are_gone:
            chosen.add(partner)
    return sorted(chosen)


def with_thinking(items: Items, ordinals: Iterable[int], *, are_gone: bool = False) -> list[int]:
    """
    Return `ordinals` `with_partners`, and with the thinking that led to nothing else in the view.

    The Responses API refuses reasoning without what it led to, and the reverse, so there each takes the other along.
    """
    answers = Answers(items, are_gone=are_gone)
    chosen = set(ordinals)
    chosen |= answers.led_by_reasoning(chosen)
    chosen.update(with_partners(items, chosen, are_gone=are_gone))
    return sorted(chosen | answers.thinking_of(chosen))


def spans_by_age(items: Items, ordinals: Iterable[int]) -> tuple[Span, ...]:
    """
    Return the names of these items in as few spans as possible, sorted by stream and version.

    The order of the items is lost.
    """
    runs = items.runs(sorted(ordinals))
    return joined_spans(sorted(runs, key=lambda run: (run[0], run[1].start)))


class Partners:
    """Pairs of calls and outputs among the items in the view, or with `are_gone` among all items ever held."""

    def __init__(self, items: Items, *, are_gone: bool) -> None:
        self._items, self._are_gone = items, are_gone
        # By call id: the places of the items that have it, and the pairs among them that were looked for.
        self._repeated: dict[str, tuple[Sequence[int], dict[int, int | None]]] = {}

    def of(self, ordinal: int) -> int | None:
        """Return the ordinal of the call or output that belongs to this item, or None."""
        items = self._items
        item = items.item_table.items[ordinal]
        if not isinstance(item, chat.FunctionCalled | chat.FunctionReturned):
            return None
        same = items.item_table.may_have_call_id(item.call_id, items.reach)
        if len(same) <= ALL_READ_MAX:
            same = items.item_table.with_call_id(item.call_id, items.reach)
        if len(same) == 1:
            return None
        if len(same) == 2 and _is_plain_pair(items, *same):
            return same[0] + same[1] - ordinal
        # The id repeats, or an item was inserted: the list shows the pairs.
        if item.call_id not in self._repeated:
            self._repeated[item.call_id] = self._places(same), {}
        places, known = self._repeated[item.call_id]
        if ordinal not in known:
            known |= self._paired_with(ordinal, places)
        return known[ordinal]

    def _paired_with(self, ordinal: int, places: Sequence[int]) -> dict[int, int | None]:
        """
        Return the partner of one of the items with a call id, None if it has none, and partners of its neighbours.

        An output answers a call of the newest batch that has a waiting one, so older batches do not matter to those
        that pair behind them: the neighbours are looked at, and further ones as long as the partner is not among them.
        """
        order, count = self._order, len(places)
        at = next((number for number, place in enumerate(places) if order[place] == ordinal), None)
        if at is None:
            return {ordinal: None}
        is_call, around = self._is_call(places, at), PAIRED_AROUND
        while True:
            first = self._batch_of(places, at if is_call else max(0, at - around))
            end = min(count, at + around) if is_call else at + 1
            found = self._paired(places[first:end])
            if ordinal in found or (end == count if is_call else first == 0):
                return {ordinal: None, **found}
            around *= 4

    def _is_call(self, places: Sequence[int], number: int) -> bool:
        return issubclass(self._items.item_table.type_of(self._order[places[number]]), chat.FunctionCalled)

    def _batch_of(self, places: Sequence[int], number: int) -> int:
        """Return the number of the first item with the call id in the batch of one of them; that of an output is it."""
        while number and self._is_call(places, number) and self._is_call(places, number - 1):
            if next(self._batch_ends(places[number - 1], places[number]), None) is not None:
                break
            number -= 1
        return number

    def _batch_ends(self, place: int, following: int) -> Iterator[int]:
        """Yield the places of the items between two places that end a batch."""
        order, item_table = self._order, self._items.item_table
        return (p for p in range(place + 1, following) if not issubclass(item_table.type_of(order[p]), IN_BATCH))

    def _paired(self, places: Sequence[int]) -> dict[int, int]:
        """Return the partners among some consecutive calls and outputs with one call id."""
        order, item_table = self._order, self._items.item_table
        # Between one of these and the next, only the first item that ends a batch matters.
        kept = [*places[:1]]
        for place, following in pairwise(places):
            kept += (*islice(self._batch_ends(place, following), 1), following)
        item_table.fetch(order[place] for place in kept)
        output_of = pair_calls(item_table.items[order[place]] for place in kept).output_of
        partners = {order[kept[call]]: order[kept[output]] for call, output in output_of.items()}
        return partners | {output: call for call, output in partners.items()}

    def _places(self, ordinals: Sequence[int]) -> list[int]:
        """Return the places of those of these items that are in the order; others are looked at only if some moved."""
        order, edits = self._order, self._items.edits
        if edits is not None and edits.placed:
            chosen = set(ordinals)
            return [place for place, ordinal in enumerate(order) if ordinal in chosen]
        places = ((bisect_left(order, ordinal), ordinal) for ordinal in sorted(ordinals))
        return [place for place, ordinal in places if place < len(order) and order[place] == ordinal]

    @cached_property
    def _order(self) -> Sequence[int]:
        return self._items.whole_order() if self._are_gone else self._items.order()


def _is_plain_pair(items: Items, first: int, second: int) -> bool:
    """Whether these are a call and an output that was recorded after it and is in its recorded place."""
    if items.edits is not None and (first in items.edits.placed or second in items.edits.placed):
        return False
    known = items.item_table.items
    return isinstance(known[first], chat.FunctionCalled) and isinstance(known[second], chat.FunctionReturned)


def _ordinals_named(stream: str, ids: Iterable[str], items: Items) -> list[int]:
    ordinals = []
    for item_id in ids:
        ordinal = items.named(item_id)
        if ordinal is None:
            raise NotFoundError(f"{stream} has no item {item_id!r}, by id or call id")
        ordinals.append(ordinal)
    return list(dict.fromkeys(ordinals))


def _last_gone(items: Items) -> list[int]:
    return next(items.edits.departures(RESTORED_TOGETHER), []) if items.edits else []
