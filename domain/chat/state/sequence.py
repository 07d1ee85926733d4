"""
The items of a context at one version: a value, cheap to append to and to edit.

The cost of appending does not depend on the length: successive values share an item table and differ in the number of
its items that they use. An edit is a small note about the item table (these items are gone, this one is before that
one). The resulting order is computed in one pass when it is needed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, overload

from ...concurrency.locks import renew_in_child, synchronized
from ...spans import OWN, Ref, Span, joined_spans
from ...totals import Totals
from ..events import UNFINISHED, ChatItemEvent, FunctionCalled, MessageAdded
from ..pairing import Approval
from ..tokens import TokenCounter, estimate_tokens
from .edits import ByOrdinal, Edits, Gone
from .item_table import Birthplace, ItemTable, totals_of


class _First(Sequence[int]):
    """The first `count` of a list to which another thread may append meanwhile."""

    __slots__ = ("_count", "_grows")

    def __init__(self, grows: list[int], count: int) -> None:
        self._grows, self._count = grows, count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        return iter(self._grows[: self._count])

    @overload
    def __getitem__(self, index: int) -> int: ...
    @overload
    def __getitem__(self, index: slice) -> list[int]: ...
    def __getitem__(self, index: int | slice) -> int | list[int]:
        if isinstance(index, int):
            return self._grows[range(self._count)[index]]
        places = range(self._count)[index]
        if places.step == 1:
            return self._grows[places.start : places.stop]
        return [self._grows[place] for place in places]

    def index(self, value: int, start: int = 0, stop: int | None = None) -> int:
        return self._grows.index(value, start, self._count if stop is None else stop)


class Items(Sequence[ChatItemEvent]):
    """An immutable sequence of items: those of the first `reach` items of an item table that are in the view."""

    __slots__ = ("_basis", "_grown", "_order", "_raw", "_settled", "_shown", "edits", "is_borrowed", "lineage", "reach")

    def __init__(
        self,
        item_table: ItemTable | None = None,
        reach: int = 0,
        edits: Edits | None = None,
        *,
        lineage: tuple[str, ...] = (),
        order: list[int] | None = None,
        basis: tuple[int, Totals] | None = None,
        is_borrowed: bool = False,
        grown: Mapping[int, MessageAdded] | None = None,
    ) -> None:
        # The item table has messages that are being written as they began; `_grown` has their present form, by ordinal.
        # So a piece does not copy the list of items: the first reader does.
        self._raw = item_table or ItemTable()
        self._grown = grown
        self._settled: ItemTable | None = None
        # Whether the item table belongs to another context, which may append to it.
        self.is_borrowed = is_borrowed
        self.reach = reach
        self.edits = edits
        # The names of the ancestor streams, the root first.
        self.lineage = lineage
        # The order of the view, computed on demand: the first `_shown` entries of a list to which later values append.
        self._order = order
        self._shown = 0 if order is None else len(order)
        # The totals at some count since the last edit; all later items are in the view.
        self._basis = basis

    @property
    def item_table(self) -> ItemTable:
        """The items ever held, in their present form; an item table to read, not to extend."""
        if not self._grown:
            return self._raw
        settled = self._settled
        if settled is None:
            settled = self._settled = self._raw.reformed(self._grown, self.reach)
        return settled

    @property
    def raw(self) -> ItemTable:
        """The item table in which messages that are being written are as they began."""
        return self._raw

    def written(self) -> list[tuple[int, int]]:
        """Return the messages that were written piece by piece, by ordinal, each with the version of its last piece."""
        # A copy, because another thread may add messages meanwhile.
        until = {ordinal: known for ordinal, known in self._raw.until.copy().items() if ordinal < self.reach}
        until |= dict.fromkeys(self._grown or (), 0)
        known = [(ordinal, until[ordinal] or getattr(self.item(ordinal), "until", 0)) for ordinal in sorted(until)]
        return [one for one in known if one[1]]

    def read(self) -> Items:
        """Return these items after reading those that are in the log only; nothing is left to be read later."""
        iter(self.item_table.items)
        return self

    def unread(self, read: Callable[[Sequence[int]], Sequence[ChatItemEvent]]) -> Items:
        """Return the same items, which `read` reads at their first use; it continues these."""
        item_table = self._raw.unread(read, len(self.lineage))
        return Items(item_table, self.reach, self.edits, lineage=self.lineage, basis=self._basis, grown=self._grown)

    def item(self, ordinal: int) -> ChatItemEvent:
        """Return one item in its present form."""
        grown = self._grown
        return grown[ordinal] if grown and ordinal in grown else self._raw.items[ordinal]

    # The view

    def order(self) -> Sequence[int]:
        """Return the ordinals of the items, in order."""
        if self.edits is None:
            return range(self.reach)
        return _First(self._own_order(self.edits), self._shown)

    def _own_order(self, edits: Edits) -> list[int]:
        if self._order is None:
            order = edits.order(self.reach)
            self._shown = len(order)
            self._order = order
        return self._order

    def view_runs(self) -> list[range] | None:
        """Return the ordinals of the items in ascending ranges; None if items were inserted, which may be anywhere."""
        if self.edits is None:
            return [range(self.reach)]
        if self.edits.placed:
            return None
        gone = sorted(ordinal for ordinal in self.edits.gone if ordinal < self.reach)
        starts, ends = [0, *(ordinal + 1 for ordinal in gone)], [*gone, self.reach]
        return [range(start, end) for start, end in zip(starts, ends, strict=True) if start < end]

    def whole_order(self) -> Sequence[int]:
        """Return the ordinals of all items, in order; items that left the view keep their places."""
        return range(self.reach) if self.edits is None else self.edits.whole_order(self.reach)

    def __len__(self) -> int:
        if self.edits is None:
            return self.reach
        self._own_order(self.edits)
        return self._shown

    def __iter__(self) -> Iterator[ChatItemEvent]:
        items = self.item_table.items
        return iter(items[: self.reach]) if self.edits is None else map(items.__getitem__, self.order())

    @overload
    def __getitem__(self, index: int) -> ChatItemEvent: ...
    @overload
    def __getitem__(self, index: slice) -> list[ChatItemEvent]: ...
    def __getitem__(self, index: int | slice) -> ChatItemEvent | list[ChatItemEvent]:
        items, order = self.item_table.items, self.order()
        if isinstance(index, int):
            return items[order[index]]
        if self.edits is None and (index.step is None or index.step > 0):
            start, stop, step = index.indices(self.reach)
            return items[start:stop:step]
        return [items[ordinal] for ordinal in order[index]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Items) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    @property
    def totals(self) -> Totals:
        """Items, turns and tokens of the view: running totals, added up at most once."""
        known = self.known_totals()
        if known is None:
            assert self.edits is not None, "without edits all totals are known"
            # Running totals are shared by all versions; and fewer items left than are there, in most chats.
            known = self.whole_totals() - self.total_of(self.edits.gone)
            self._basis = (self.reach, known)
        return known

    def whole_totals(self) -> Totals:
        """Return the totals of all items, evicted or not."""
        total = self._raw.totals(self.reach)
        for ordinal, message in (self._grown or {}).items():
            total += totals_of(message) - self._raw.total_of(ordinal)
        return total

    def sizes(self) -> bytes:
        """Return the totals of each item, evicted or not, as a snapshot has them."""
        return self._raw.sizes(self._grown or {}, self.reach)

    def known_totals(self) -> Totals | None:
        """Return the totals if only the items appended since the last request must be counted, else None."""
        if self.edits is None:
            return self.whole_totals()
        if self._basis is None:
            return None
        at, total = self._basis
        if at < self.reach:
            total = total + self.total_of(range(at, self.reach))
            self._basis = (self.reach, total)
        return total

    @property
    def are_counted(self) -> bool:
        """Whether totals were requested before, so that edits keep them up to date."""
        return self._raw.has_totals if self.edits is None else self._basis is not None

    def total_of(self, ordinals: Iterable[int]) -> Totals:
        """Return the totals of these items, evicted or not."""
        grown = self._grown or {}
        each = (totals_of(grown[one]) if one in grown else self._raw.total_of(one) for one in ordinals)
        return sum(each, Totals())

    @property
    def tokens(self) -> int:
        """The estimated tokens of all items."""
        return self.totals.tokens

    def continues(self, earlier: Items) -> bool:
        """Return whether `earlier` is the beginning of these items; this compares what they share, not the items."""
        is_same = self._raw is earlier._raw and self._grown is earlier._grown
        return is_same and self.edits is earlier.edits and self.reach >= earlier.reach

    def last(self, wanted: int) -> Sequence[int]:
        """Return the ordinals of the last `wanted` items, in order, without visiting the others."""
        if self.edits is None:
            return range(max(0, self.reach - wanted), self.reach)
        return self.edits.last(self.reach, wanted)

    def first_younger(self, time: float) -> int | None:
        """
        Return the ordinal of the first item in the view that is younger than `time`, or None.

        It does not visit all items before that one.
        """
        items, reach = self._raw.items, self.reach
        start = self._raw.first_younger(time, reach)
        if self.edits is None:
            return start if start < reach else None
        return self.edits.first(reach, start, lambda ordinal: items[ordinal].created_at > time)

    # Finding items

    def find(self, item_id: str) -> int | None:
        """Return the index of the item with this id or call id, or None."""
        ordinal = self.named(item_id)
        if ordinal is None or not self.shows(ordinal):
            return None
        return ordinal if self.edits is None else self.order().index(ordinal)

    def visible_ordinal(self, item_id: str) -> int | None:
        """Return the ordinal of the item with this id, or None if it is not in the view."""
        ordinal = self.ordinal(item_id)
        return ordinal if ordinal is not None and self.shows(ordinal) else None

    def ordinal(self, item_id: str) -> int | None:
        """Return the ordinal of the item with this id, evicted or not, or None."""
        return self._raw.find(item_id, self.reach)

    def named(self, name: str) -> int | None:
        """
        Return the ordinal of the item with this id or call id, evicted or not, or None.

        Calls repeat ids in real runs: the newest call counts, and an output only if no call has the id.
        """
        ordinal = self.ordinal(name)
        if ordinal is not None:
            return ordinal
        same = self._raw.with_call_id(name, self.reach)
        calls = [one for one in same if isinstance(self._raw.items[one], FunctionCalled)]
        return calls[-1] if calls else same[-1] if same else None

    def arrival(self, ordinal: int) -> int:
        """Return the version of the own stream with which an item came; 1 for the items that a fork began with."""
        return self._raw.arrival(ordinal, len(self.lineage))

    def arrivals(self, start: int = 0) -> Iterator[int]:
        """Yield the same for all items ever held, from ordinal `start` on."""
        return chain.from_iterable(self._raw.arrivals(start, self.reach, len(self.lineage)))

    def shows(self, ordinal: int) -> bool:
        """Return whether an item is in the view."""
        return self.edits is None or ordinal not in self.edits.gone

    def gone_since(self, earlier: Items) -> set[int]:
        """Return the ordinals of the items that left the view here and not in `earlier`, another value of the chat."""
        if self.edits is None:
            return set()
        return self.edits.gone.without(ByOrdinal() if earlier.edits is None else earlier.edits.gone)

    def departed(self, wanted: Collection[int] | None = None) -> list[tuple[int, Gone]]:
        """Return the items that left and are not back, or some of them, in the order in which they left."""
        return self.edits.departed(wanted) if self.edits else []

    def folded(self) -> dict[int, list[int]]:
        """Return the ordinals of the items that each summary replaces, by the ordinal of the summary."""
        found: dict[int, list[int]] = {}
        for ordinal, gone in self.edits.gone.items() if self.edits else ():
            if gone.summary is not None:
                found.setdefault(gone.summary, []).append(ordinal)
        return found

    def is_pinned(self, ordinal: int) -> bool:
        return self.edits is not None and ordinal in self.edits.pinned

    def approval(self, ordinal: int) -> Approval | None:
        """Return the state of a call's approval; None if nobody asked for one or gave one."""
        return None if self.edits is None else self.edits.approvals.get(ordinal)

    def ref(self, ordinal: int) -> Ref:
        """Return the name of an item in events of this context's own stream."""
        place, version = self._raw.birth(ordinal)
        if isinstance(place, str):
            return Ref(version, place)
        return Ref(version, self.lineage[place] if place < len(self.lineage) else OWN)

    def spans(self, ordinals: Sequence[int], *, own: str = OWN) -> tuple[Span, ...]:
        """Return the names of items, in this order, for an event; `own` stands for the own stream in it."""
        return joined_spans(self.runs(ordinals, own=own))

    def runs(self, ordinals: Sequence[int], *, own: str = OWN) -> Iterator[tuple[str, range]]:
        """Yield the streams and versions of items; items that are consecutive here and in their stream form one run."""
        start = 0
        while start < len(ordinals):
            first = ordinals[start]
            end = self._raw.run_end(first)
            stop = start + 1
            if isinstance(ordinals, range) and ordinals.step == 1:
                stop = min(len(ordinals), start + end - first)
            while stop < len(ordinals) and ordinals[stop] == first + stop - start < end:
                stop += 1
            ref = self.ref(first)
            yield ref.stream or own, range(ref.version, ref.version + stop - start)
            start = stop

    def of_ref(self, ref: Ref) -> int | None:
        """Return the ordinal of the item that has this name in events of this context's own stream, or None."""
        places: list[Birthplace] = [len(self.lineage)] if ref.stream == OWN else [ref.stream]
        if ref.stream in self.lineage:
            places.append(self.lineage.index(ref.stream))
        for place in places:
            ordinal = self._raw.born(place, ref.version, self.reach)
            if ordinal is not None:
                return ordinal
        return None

    def of_spans(self, spans: Iterable[Span]) -> list[int]:
        """Return the ordinals of the items that an event of the own stream names; unknown names are left out."""
        ordinals: list[int] = []
        for span in spans:
            for run in span.ranges():
                version = run.start
                while version < run.stop:
                    first = self.of_ref(Ref(version, span.stream))
                    # Items of consecutive versions have consecutive ordinals within a run.
                    length = 1 if first is None else min(run.stop - version, self._raw.run_end(first) - first)
                    if first is not None:
                        ordinals.extend(range(first, min(first + length, self.reach)))
                    version += length
        return ordinals

    # Later values

    def own_item_table(self) -> ItemTable:
        """
        Return an item table that ends with these items and may be extended.

        It is this one, or a copy if another state has appended to it.
        """
        if not self.reach:
            # All contexts share the empty state, so it gets a new item table.
            return ItemTable()
        is_free = not self.is_borrowed and not self._raw.is_closed and len(self._raw.items) == self.reach
        return self._raw if is_free else self._raw.first(self.reach)

    def plus(self, added: Sequence[ChatItemEvent], version: int) -> Items:
        """
        Return these items followed by `added`, which have versions from `version` on in the own stream.

        The cost depends only on the length of `added`, unless two states branch here.
        """
        item_table = self.own_item_table()
        item_table.extend(added, len(self.lineage), version)
        count = self.reach + len(added)
        order = self._order
        if order is not None:
            order = order if len(order) == self._shown and not self.is_borrowed else order[: self._shown]
            order.extend(range(self.reach, count))
        grown, basis = self._grown, self._basis
        return Items(item_table, count, self.edits, lineage=self.lineage, order=order, basis=basis, grown=grown)

    def extended(self, item_table: ItemTable) -> Items:
        """Return these items with those that were added to their own item table since."""
        return Items(item_table, len(item_table.items), self.edits, lineage=self.lineage, grown=self._grown)

    def edited(self, edits: Edits, basis: tuple[int, Totals] | None = None) -> Items:
        """Return these items with other edits."""
        borrowed, grown = self.is_borrowed, self._grown
        return Items(self._raw, self.reach, edits, lineage=self.lineage, basis=basis, is_borrowed=borrowed, grown=grown)

    def rewritten(self, changed: Mapping[int, MessageAdded]) -> Items:
        """
        Return these items, of which some messages have a new form; values from before keep the old one.

        It costs nothing for the other items as long as all these messages are being written.
        """
        grown: dict[int, MessageAdded] | None = {**(self._grown or {}), **changed}
        item_table = self._raw
        if any(message.incomplete != UNFINISHED for message in changed.values()):
            item_table, grown = item_table.rewritten(grown or {}, self.reach), None
        basis = None
        if self._basis is not None and (known := self.known_totals()) is not None:
            shown = [ordinal for ordinal in changed if self.shows(ordinal)]
            basis = (self.reach, known - self.total_of(shown) + sum((totals_of(changed[o]) for o in shown), Totals()))
        return self._in_order(
            item_table, self.lineage, basis=basis, is_borrowed=self.is_borrowed and item_table is self._raw, grown=grown
        )

    def borrowed(self) -> Items:
        """Return these items for a trial: appending to them leaves this item table unchanged."""
        grown, basis = self._grown, self._basis
        return Items(
            self._raw, self.reach, self.edits, lineage=self.lineage, basis=basis, is_borrowed=True, grown=grown
        )

    def forked(self, parent: str, *, is_borrowed: bool = True) -> Items:
        """Return these items as those of a child of `parent`, the stream to which they belong."""
        lineage, basis, grown = (*self.lineage, parent), self._basis, self._grown
        return self._in_order(self._raw, lineage, basis=basis, is_borrowed=is_borrowed, grown=grown)

    def _in_order(self, item_table: ItemTable, lineage: tuple[str, ...], **further: Any) -> Items:
        """Return as many items with the same edits, which share the order that is known."""
        made = Items(item_table, self.reach, self.edits, lineage=lineage, order=self._order, **further)
        made._shown = self._shown
        return made


class RunningTokens:
    """
    The estimated tokens of a context by a custom counter: each item is counted once, even after edits.

    It may be used from several threads. An instance follows one context; for another context all items are counted
    again.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._item_table: ItemTable | None = None
        # By ordinal, as far as totals were requested.
        self._tokens: list[int] = []
        self._seen: Items | None = None
        self._total = 0

    @synchronized
    def total(self, items: Items) -> int:
        """Return the estimated tokens of all these items."""
        if items.item_table is not self._item_table:
            # An item table that continues the last one has a new form of a few items.
            last = self._item_table.items if self._item_table is not None else []
            kept = zip(last, items.item_table.items, self._tokens, strict=False)
            self._tokens = [known if old is new else estimate_tokens(new, self._counter) for old, new, known in kept]
            self._item_table, self._seen = items.item_table, None
        known = len(self._tokens)
        self._tokens += (estimate_tokens(item, self._counter) for item in items.item_table.items[known : items.reach])
        if self._seen is not None and items.continues(self._seen):
            total = self._total + sum(self._tokens[self._seen.reach : items.reach])
        else:
            total = sum(map(self._tokens.__getitem__, items.order()))
        # Both in one statement: an interrupt between two statements would count items twice.
        self._total, self._seen = total, items
        return total
