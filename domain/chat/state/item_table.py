"""
Every item that a context ever held, in the order in which it was recorded, evicted ones too.

The index of an item here is its ordinal. Successive states of a context share one item table, which only grows; each
state uses only the items below its count. Indexes of ids and running totals are computed on demand and shared, too.

In an item table that was opened from a snapshot, the first items are read from the log at their first use
(`StoredItems`).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, repeat
from operator import itemgetter

from ...concurrency.locks import fork_safe_lock, synchronized
from ...totals import Totals
from ..events import ITEM_EVENTS, WITH_CALL_ID, ChatItemEvent, FunctionCalled, FunctionReturned, is_user
from ..tokens import estimate_tokens
from .unread_items import ItemNames, PackedNames, StoredItems

# The origin of an item: the index of a stream in this context's lineage, or another stream's name. An index, because a
# stream is "" in its own events and has a name in those of its children.
Birthplace = int | str
# The types of numbers in an array: of 4 bytes, or of 8 where those do not suffice.
NARROW, NARROW_BYTES, WIDE = "i", 4, "q"


class ItemTable:
    """The items of a context and of its ancestors; only `extend` changes them."""

    __slots__ = (
        "_by_place",
        "_calls",
        "_greatest",
        "_ids",
        "_indexed",
        "_lock",
        "_names",
        "_starts",
        "_taken",
        "_totals",
        "_where",
        "is_closed",
        "items",
        "until",
    )

    def __init__(self) -> None:
        self.items: list[ChatItemEvent] = []
        # Whether another item table continues this one, so that nothing may be added here.
        self.is_closed = False
        # Runs of items with consecutive versions: the first ordinal of each, and its origin and first version.
        self._starts: list[int] = []
        self._where: list[tuple[Birthplace, int]] = []
        # The same runs by origin, as (first version, first ordinal), ascending.
        self._by_place: dict[Birthplace, list[tuple[int, int]]] = {}
        # Runs of items that a merge or a partial fork brought: the first ordinal, the depth of the context that took
        # them (the length of its lineage), and the version there.
        self._taken: list[tuple[int, int, int]] = []
        self._lock = fork_safe_lock()
        self._ids: dict[str, int] = {}
        self._calls: dict[str, list[int]] = {}
        self._indexed = 0
        # The messages that were written piece by piece, by ordinal: the version of the last piece, or 0 if the item
        # itself says it.
        self.until: dict[int, int] = {}
        # The hashes of names: of the stored items always, of later ones as far as a snapshot was made.
        self._names: ItemNames | None = None
        self._totals = RunningTotals()
        # The greatest time up to each item. It never decreases, and first exceeds a given time at the first younger
        # item.
        self._greatest: list[float] = []

    @classmethod
    def stored(
        cls,
        items: StoredItems,
        names: ItemNames,
        runs: Iterable[tuple[int, Birthplace, int]],
        taken: Iterable[tuple[int, int, int]],
        totals: RunningTotals,
    ) -> ItemTable:
        """Return an item table of items in the log: their names, runs and totals come from a snapshot."""
        item_table = cls()
        item_table.items, item_table._names, item_table._indexed = items, names, items.stored
        for start, place, version in runs:
            item_table._add_run(start, place, version)
        item_table._taken = list(taken)
        item_table._totals = totals
        return item_table

    def extend(self, items: Sequence[ChatItemEvent], place: Birthplace, version: int) -> None:
        """Add items with the origin `place` and consecutive versions from `version`."""
        start = len(self.items)
        if not self._continues(start, place, version):
            self._add_run(start, place, version)
        self.items.extend(items)

    def _add_run(self, start: int, place: Birthplace, version: int) -> None:
        self._starts.append(start)
        self._where.append((place, version))
        runs = self._by_place.setdefault(place, [])
        if runs and runs[-1] > (version, start):
            insort(runs, (version, start))
        else:
            runs.append((version, start))

    def _continues(self, start: int, place: Birthplace, version: int) -> bool:
        if not self._starts:
            return False
        last_place, last_version = self._where[-1]
        return last_place == place and last_version + start - self._starts[-1] == version

    def first(self, count: int) -> ItemTable:
        """Return a separate item table with the first `count` items of this one."""
        copy = ItemTable()
        self._copy_items(copy, count)
        runs = bisect_right(self._starts, count - 1)
        copy._starts, copy._where = self._starts[:runs], self._where[:runs]
        for place, by_version in self._by_place.items():
            copy._by_place[place] = [run for run in by_version if run[1] < count]
        copy._taken = [run for run in self._taken if run[0] < count]
        return copy

    def rewritten(self, changed: Mapping[int, ChatItemEvent], count: int) -> ItemTable:
        """
        Return an item table with the first `count` items, of which some have a new form. It continues this one.

        All that does not depend on the form of items is shared, so that the cost is that of copying two lists.
        """
        if count == len(self.items) and not self.is_closed:
            copy = self.reformed(changed, count)
            copy.is_closed, self.is_closed = False, True
            return copy
        copy = self.first(count)
        copy._put(changed)
        return copy

    def reformed(self, changed: Mapping[int, ChatItemEvent], count: int) -> ItemTable:
        """
        Return a read-only copy of the first `count` items, some of them in a new form; this item table may still grow.

        The copy shares all that does not depend on the form of items, as states of different lengths do.
        """
        self._index()
        copy = ItemTable()
        self._copy_items(copy, count)
        copy.is_closed, copy._indexed = True, count
        copy._starts, copy._where, copy._by_place = self._starts, self._where, self._by_place
        copy._taken, copy._greatest = self._taken, self._greatest
        copy._lock, copy._ids, copy._calls, copy._names = self._lock, self._ids, self._calls, self._names
        copy._put(changed)
        return copy

    def unread(self, read: Callable[[Sequence[int]], Sequence[ChatItemEvent]], own: int) -> ItemTable:
        """
        Return an item table of which only the names and totals of items are held; `read` reads items at their first
        use.

        It continues this one. `own` is the origin of the items of the context that it belongs to.
        """
        count = len(self.items)
        self.totals(count)
        self.names(count)
        copy = ItemTable()
        copy.items = StoredItems(count, read)
        for ordinal in [one for one, until in self.until.items() if not until]:
            item = self.items[ordinal]
            if self.birth(ordinal)[0] == own:
                self.until[ordinal] = getattr(item, "until", 0)
            else:
                # The fold alone knows which pieces of a message of another stream belong to it.
                copy.items[ordinal] = item
        copy.until, copy._indexed, copy._names, copy._totals = self.until, count, self._names, self._totals
        copy._starts, copy._where, copy._by_place, copy._taken = self._starts, self._where, self._by_place, self._taken
        self.is_closed = True
        return copy

    def _copy_items(self, copy: ItemTable, count: int) -> None:
        """Give another item table the first `count` items, and as many of their totals as are known."""
        items = self.items
        copy._totals = self._totals.until(count)
        copy.until = {ordinal: until for ordinal, until in self.until.items() if ordinal < count}
        if isinstance(items, StoredItems):
            copy.items = kept = items.upto(count)
            copy._indexed = kept.stored
            # The copy has names of its own: each of the two adds those of its later items.
            copy._names = ItemNames(*self._stored_names.first(kept.stored))
        else:
            copy.items = items[:count]

    def _put(self, changed: Mapping[int, ChatItemEvent]) -> None:
        self._totals = self._totals.until(min(changed, default=len(self.items)))
        for ordinal, item in changed.items():
            self.items[ordinal] = item
            self.until[ordinal] = 0

    def birth(self, ordinal: int) -> tuple[Birthplace, int]:
        """Return the origin of an item: its stream and its version there."""
        run = bisect_right(self._starts, ordinal) - 1
        place, version = self._where[run]
        return place, version + ordinal - self._starts[run]

    def take(self, depth: int, version: int) -> None:
        """Note that a context takes the next items from other streams, with one of its versions."""
        self._taken.append((len(self.items), depth, version))

    def arrival(self, ordinal: int, depth: int) -> int:
        """Return the version with which an item came to the context of this depth; 1 if a fork began with it."""
        place, version = self.birth(ordinal)
        if isinstance(place, str):
            _, place, version = self._taken[bisect_right(self._taken, ordinal, key=itemgetter(0)) - 1]
        return version if place == depth else 1

    def arrivals(self, start: int, end: int, depth: int) -> Iterator[Iterable[int]]:
        """Yield the same for a range of ordinals, run by run: a call for each item would slow down a load."""
        while start < end:
            stop = min(end, self.run_end(start))
            first, place = self.arrival(start, depth), self.birth(start)[0]
            yield range(first, first + stop - start) if place == depth else repeat(first, stop - start)
            start = stop

    def run_end(self, ordinal: int) -> int:
        """Return the ordinal after the run of consecutive versions that contains this item."""
        run = bisect_right(self._starts, ordinal)
        return self._starts[run] if run < len(self._starts) else len(self.items)

    def runs(self, count: int) -> list[tuple[int, Birthplace, int]]:
        """Return the runs of the first `count` items: the first ordinal of each, and its origin and first version."""
        # Not strict: another thread may add a run meanwhile, which begins behind these items.
        return [(start, *where) for start, where in zip(self._starts, self._where, strict=False) if start < count]

    @property
    def places(self) -> tuple[Sequence[int], Sequence[tuple[Birthplace, int]]]:
        """
        The first ordinals of runs, and their origins and first versions: two lists that grow with this item table.
        """
        return self._starts, self._where

    def taken(self, count: int) -> list[tuple[int, int, int]]:
        """Return the runs of items from other streams among the first `count` items: ordinal, depth and version."""
        return [one for one in self._taken if one[0] < count and isinstance(self.birth(one[0])[0], str)]

    def born(self, place: Birthplace, version: int, count: int) -> int | None:
        """Return the ordinal, below `count`, of the item with this origin, or None."""
        runs = self._by_place.get(place)
        found = bisect_right(runs, version, key=lambda run: run[0]) - 1 if runs else -1
        if runs is None or found < 0:
            return None
        first, start = runs[found]
        ordinal = start + version - first
        return ordinal if ordinal < count and self.birth(ordinal) == (place, version) else None

    def find(self, item_id: str, count: int) -> int | None:
        """Return the ordinal, below `count`, of the item with this id, or None."""
        items = self.items
        if isinstance(items, StoredItems):
            same = self._stored_names.with_id(item_id, items.stored)
            stored = next((ordinal for ordinal in same if items[ordinal].id == item_id), None)
            if stored is not None:
                return stored if stored < count else None
        ordinal = self._ids.get(item_id)
        if ordinal is None and self._indexed < len(self.items):
            self._index()
            ordinal = self._ids.get(item_id)
        return ordinal if ordinal is not None and ordinal < count else None

    def with_call_id(self, call_id: str, count: int) -> list[int]:
        """Return the ordinals, below `count`, of the calls and outputs with this call id."""
        found = self.may_have_call_id(call_id, count)
        items = self.items
        if isinstance(items, StoredItems):
            items.fetch(found)
            found = [one for one in found if one >= items.stored or _call_id_of(items[one]) == call_id]
        return found

    def may_have_call_id(self, call_id: str, count: int) -> list[int]:
        """Return the same, and unread items whose call id has the same hash; this reads no item."""
        self._index()
        found = [ordinal for ordinal in self._calls.get(call_id, ()) if ordinal < count]
        items = self.items
        if isinstance(items, StoredItems):
            same = self._stored_names.with_call_id(call_id, items.stored)
            found[:0] = [ordinal for ordinal in same if ordinal < count]
        return found

    def may_have(self, item_id: str) -> bool:
        """Whether a stored item may have this id; where none may, none has it."""
        items = self.items
        return isinstance(items, StoredItems) and bool(self._stored_names.with_id(item_id, items.stored))

    def fetch(self, ordinals: Iterable[int]) -> None:
        """Read those of these items that are still in the log, all together."""
        if isinstance(self.items, StoredItems):
            self.items.fetch(ordinals)

    def type_of(self, ordinal: int) -> type[ChatItemEvent]:
        """Return the type of an item; this reads none."""
        items = self.items
        if isinstance(items, StoredItems) and ordinal < items.stored:
            return ITEM_EVENTS[self._stored_names.kinds[ordinal]]
        return type(items[ordinal])

    def stored_kinds(self) -> bytearray:
        """Return the kinds of stored items, as indexes of `ITEM_EVENTS`; they are known before an item is read."""
        return self._stored_names.kinds

    @property
    def _stored_names(self) -> ItemNames:
        assert self._names is not None, "the names of stored items came with them"
        return self._names

    @synchronized
    def names(self, count: int) -> PackedNames:
        """Return the hashes of the names of the first `count` items, as `ItemNames` has them."""
        names = self._names = self._names or ItemNames()
        names.extend(self.items[len(names) : count])
        return names.first(count)

    @synchronized
    def _index(self) -> None:
        items = self.items
        for new in range(self._indexed, len(items)):
            item = items[new]
            self._ids.setdefault(item.id, new)
            if type(item) in WITH_CALL_ID:
                found = self._calls.setdefault(item.call_id, [])  # type: ignore[union-attr]  # mypy does not narrow by that
                # If an interrupt came before `_indexed` was set, this item is visited again and is already in the list.
                if new not in found[-1:]:
                    found.append(new)
        self._indexed = len(self.items)

    @property
    def has_totals(self) -> bool:
        """Whether totals were requested before."""
        return self._totals.end > 0

    @synchronized
    def totals(self, count: int) -> Totals:
        """Return the totals of the first `count` items: running totals, in which each item is counted once."""
        totals = self._totals
        for item in self.items[totals.end : count]:
            totals.add(item)
        return totals.of(count)

    def total_of(self, ordinal: int) -> Totals:
        """Return the totals of one item; where they were counted, the item is not read."""
        return self._totals.of_item(ordinal) or totals_of(self.items[ordinal])

    def sizes(self, changed: Mapping[int, ChatItemEvent], count: int) -> bytes:
        """Return the totals of each of the first `count` items as a snapshot has them; `changed` has newer forms."""
        self.totals(count)
        return self._totals.packed(changed, count)

    @synchronized
    def first_younger(self, time: float, count: int) -> int:
        """Return the first ordinal below `count` whose item is younger than `time`, or `count` if no item is."""
        greatest = self._greatest
        times = [item.created_at for item in self.items[len(greatest) : count]]
        greatest += accumulate([max(greatest[-1], times[0]), *times[1:]] if greatest and times else times, max)
        return bisect_right(greatest, time, hi=count)


class RunningTotals:
    """
    The totals of each item, and running totals: of the first `start` items, of the first `start` + 1, and so on.

    `sizes` has the items before `start`, as `packed` returns them. Each item takes 4 bytes, or 8 if an item does
    not fit into 4. Each running total takes 16: its tokens, then its turns.
    """

    __slots__ = ("_pairs", "_sizes", "start")

    def __init__(self, start: int = 0, sizes: bytes = b"", tokens: int = 0, turns: int = 0) -> None:
        # The tokens of each item, shifted by one bit, which says whether it begins a turn.
        self._sizes = array(WIDE if len(sizes) > start * NARROW_BYTES else NARROW, sizes)
        self.start, self._pairs = start, array("q", (tokens, turns))

    @property
    def end(self) -> int:
        """The number of items whose totals are known."""
        return self.start + len(self._pairs) // 2 - 1

    def of(self, count: int) -> Totals:
        """Return the totals of the first `count` items."""
        if count < self.start:
            sizes = self._sizes[:count]
            return Totals(count, sum(size & 1 for size in sizes), sum(size >> 1 for size in sizes))
        place = 2 * (count - self.start)
        tokens, turns = self._pairs[place : place + 2]
        return Totals(count, turns, tokens)

    def of_item(self, ordinal: int) -> Totals | None:
        """Return the totals of the item with this ordinal; None if they are not known."""
        if not 0 <= ordinal < self.end:
            return None
        size = self._sizes[ordinal]
        return Totals(1, size & 1, size >> 1)

    def packed(self, changed: Mapping[int, ChatItemEvent], count: int) -> bytes:
        """Return the totals of each of the first `count` items, some of which have a new form."""
        sizes = self._sizes[:count]
        for ordinal, item in changed.items():
            sizes = _with_size(sizes, ordinal, item)
        if sizes.typecode == WIDE:
            # The item that needed it may be a later one, or have another form by now.
            with suppress(OverflowError):
                sizes = array(NARROW, sizes)
        return sizes.tobytes()

    def add(self, item: ChatItemEvent) -> None:
        """Add the item that comes next."""
        end = self.end
        sizes = self._sizes = _with_size(self._sizes, end, item)
        tokens, turns = self._pairs[-2:]
        # Both in one step: an interrupt may come between two.
        self._pairs.extend(array("q", (tokens + (sizes[end] >> 1), turns + (sizes[end] & 1))))

    def until(self, count: int) -> RunningTotals:
        """Return a copy with the totals of at most the first `count` items."""
        copy = RunningTotals()
        if count < self.start:
            total = self.of(count)
            copy.start, copy._pairs = count, array("q", (total.tokens, total.turns))
        else:
            copy.start, copy._pairs = self.start, self._pairs[: 2 * (count - self.start + 1)]
        copy._sizes = self._sizes[:count]
        return copy


def _with_size(sizes: array[int], ordinal: int, item: ChatItemEvent) -> array[int]:
    """Put the totals of an item into their place, which may be the next one; return the array that has them."""
    size = estimate_tokens(item) << 1 | is_user(item)
    try:
        sizes[ordinal : ordinal + 1] = array(sizes.typecode, (size,))
    except OverflowError:
        # An erased item may count any number.
        return _with_size(array(WIDE, sizes), ordinal, item)
    return sizes


def _call_id_of(item: ChatItemEvent) -> str | None:
    return item.call_id if isinstance(item, FunctionCalled | FunctionReturned) else None


def totals_of(item: ChatItemEvent) -> Totals:
    return Totals(1, int(is_user(item)), estimate_tokens(item))
