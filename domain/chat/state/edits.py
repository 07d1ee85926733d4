"""
The effects of edits on items, by ordinal: a value that is cheap to copy, to change and to put in order.

Notes are kept in chunks of neighbouring ordinals. A copy shares all chunks and a change copies one, so that an edit
costs the same after ten thousand edits as after the first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Generic, TypeVar

from ...context.description import Departure
from ..pairing import Approval

V = TypeVar("V")
# The ordinals of a chunk differ in this number of low bits. A copy of the notes on 200,000 items is 800 pointers.
CHUNK_BITS = 8
CHUNK = 1 << CHUNK_BITS
NOTHING: Mapping[int, object] = {}


class ByOrdinal(Generic[V]):
    """Values by ordinal; treated as a value itself once it was copied."""

    __slots__ = ("_chunks", "_own")

    def __init__(self) -> None:
        self._chunks: dict[int, dict[int, V]] = {}
        # The chunks that no copy shares.
        self._own: set[int] = set()

    def copied(self) -> ByOrdinal[V]:
        """Return a copy that can be changed."""
        copy: ByOrdinal[V] = ByOrdinal()
        copy._chunks, self._own = self._chunks.copy(), set()
        return copy

    def __bool__(self) -> bool:
        return bool(self._chunks)

    def __contains__(self, ordinal: int) -> bool:
        chunk = self._chunks.get(ordinal >> CHUNK_BITS)
        return chunk is not None and ordinal in chunk

    def __getitem__(self, ordinal: int) -> V:
        return self._chunks[ordinal >> CHUNK_BITS][ordinal]

    def get(self, ordinal: int) -> V | None:
        """Return the value of an ordinal, or None."""
        chunk = self._chunks.get(ordinal >> CHUNK_BITS)
        return None if chunk is None else chunk.get(ordinal)

    def chunk(self, number: int) -> Mapping[int, V]:
        """Return the values of one chunk."""
        return self._chunks.get(number, NOTHING)  # type: ignore[arg-type]  # an empty one

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self._chunks.values())

    def items(self) -> Iterator[tuple[int, V]]:
        """Yield all ordinals and their values, by chunk, in no other order."""
        for chunk in self._chunks.values():
            yield from chunk.items()

    def without(self, other: ByOrdinal[V]) -> set[int]:
        """Return the ordinals that have a value here and none in `other`; chunks that both share are not visited."""
        found: set[int] = set()
        for number, chunk in self._chunks.items():
            theirs = other.chunk(number)
            if chunk is not theirs:
                found |= chunk.keys() - theirs.keys()
        return found

    def __setitem__(self, ordinal: int, value: V) -> None:
        self._changed(ordinal)[ordinal] = value

    def pop(self, ordinal: int) -> V | None:
        """Remove the value of an ordinal and return it; None if there is none."""
        if ordinal not in self:
            return None
        chunk = self._changed(ordinal)
        value = chunk.pop(ordinal)
        if not chunk:
            del self._chunks[ordinal >> CHUNK_BITS]
        return value

    def _changed(self, ordinal: int) -> dict[int, V]:
        number = ordinal >> CHUNK_BITS
        chunk = self._chunks.get(number)
        if chunk is None or number not in self._own:
            chunk = self._chunks[number] = {} if chunk is None else chunk.copy()
            self._own.add(number)
        return chunk


class Gone(Departure, frozen=True):
    """How an item left the view, and the ordinal of the summary that replaces it; shared by all items of one event."""

    summary: int | None = None


# The items that left together, and the departure before.
Departures = tuple[Gone, Sequence[int], "Departures | None"]


class Edits:
    """
    The effects of all events except appends, by ordinal; treated as a value once it is part of an `Items`.

    `gone` has the items that left the view. `before` has the items that were inserted directly before another one, in
    order of insertion. `placed` maps each inserted item to the item before which it finally is and which was not itself
    inserted. `approvals` has the newest state of calls for which an approval was asked or given.
    """

    __slots__ = ("_departures", "_own", "_parts", "approvals", "before", "gone", "pinned", "placed")

    def __init__(self) -> None:
        self.gone: ByOrdinal[Gone] = ByOrdinal()
        self.before: ByOrdinal[list[int]] = ByOrdinal()
        self.placed: ByOrdinal[int] = ByOrdinal()
        self.pinned: ByOrdinal[bool] = ByOrdinal()
        self.approvals: ByOrdinal[Approval] = ByOrdinal()
        # The ordinals whose list in `before` is shared with no copy.
        self._own: set[int] = set()
        # The items that left together, a linked list with the newest in front. Those of a departure that are back, or
        # left again later, have another value in `gone`.
        self._departures: Departures | None = None
        # The visible ordinals of whole chunks, in order, as far as somebody asked and nothing was changed since.
        self._parts: dict[int, Sequence[int]] = {}

    def copied(self) -> Edits:
        """Return a copy that can be changed."""
        copy = Edits()
        copy.gone, copy.before, copy.placed = self.gone.copied(), self.before.copied(), self.placed.copied()
        copy.pinned, copy.approvals = self.pinned.copied(), self.approvals.copied()
        copy._departures, copy._parts, self._own = self._departures, self._parts.copy(), set()
        return copy

    # Changes

    def hide(self, ordinals: Iterable[int], gone: Gone) -> list[int]:
        """Take items out of the view, and return those that were in it."""
        leaving = [ordinal for ordinal in ordinals if ordinal not in self.gone]
        for ordinal in leaving:
            self.gone[ordinal] = gone
            self._parts.pop(ordinal >> CHUNK_BITS, None)
        if leaving:
            self._departures = gone, leaving, self._departures
        return leaving

    def show(self, ordinals: Iterable[int]) -> list[int]:
        """Put items back into the view, and return those that had left it."""
        back = [ordinal for ordinal in ordinals if self.gone.pop(ordinal) is not None]
        for ordinal in back:
            self._parts.pop(ordinal >> CHUNK_BITS, None)
        return back

    def place(self, ordinal: int, before: int) -> None:
        """Insert an item directly before another one."""
        if before not in self._own:
            self._own.add(before)
            self.before[before] = [*(self.before.get(before) or ())]
        self.before[before].append(ordinal)
        root = self.placed.get(before)
        self.placed[ordinal] = before if root is None else root
        for changed in (ordinal, before, self.placed[ordinal]):
            self._parts.pop(changed >> CHUNK_BITS, None)

    # The items that left

    def departures(self, how: Container[str]) -> Iterator[list[int]]:
        """Yield the items that left together in one of these ways and are not back, the last ones first."""
        older = self._departures
        while older is not None:
            gone, ordinals, older = older
            still = [one for one in ordinals if self.gone.get(one) is gone] if gone.how in how else []
            if still:
                yield still

    def departed(self, wanted: Collection[int] | None = None) -> list[tuple[int, Gone]]:
        """Return the items that left and are not back, or some of them, in the order in which they left."""
        events = None if wanted is None else {id(self.gone.get(ordinal)) for ordinal in wanted}
        found: list[tuple[Gone, Sequence[int]]] = []
        older = self._departures
        while older is not None:
            gone, ordinals, older = older
            if events is None or id(gone) in events:
                found.append((gone, ordinals))
        left = self.gone if wanted is None else wanted
        return [(one, how) for how, ordinals in reversed(found) for one in ordinals
                if one in left and self.gone.get(one) is how]  # fmt: skip

    # The view

    def order(self, count: int) -> list[int]:
        """Return the ordinals below `count` that are in the view, in order."""
        shown: list[int] = []
        parts = {number: self.part(number, count) for number in range(-(-count // CHUNK))}
        for part in parts.values():
            shown.extend(part)
        # In one step, since several threads may read: the parts that depend on no other chunk, and that are complete.
        self._parts = {n: part for n, part in parts.items() if n < count // CHUNK and not self.before.chunk(n)}
        return shown

    def whole_order(self, count: int) -> Sequence[int]:
        """Return all ordinals below `count`, in order; items that left the view keep their places."""
        return self.without_departures().order(count) if self.placed else range(count)

    def without_departures(self) -> Edits:
        """Return the edits of the same items, none of which left the view."""
        whole = Edits()
        whole.before, whole.placed = self.before, self.placed
        return whole

    def part(self, number: int, count: int) -> Sequence[int]:
        """Return the visible ordinals of a chunk, each with the items inserted before it."""
        known = self._parts.get(number)
        if known is not None:
            return known
        gone, placed, before = self.gone.chunk(number), self.placed.chunk(number), self.before.chunk(number)
        chunk = range(number << CHUNK_BITS, min((number + 1) << CHUNK_BITS, count))
        shown: list[int] = []
        if not before:
            start = chunk.start
            # Mostly few are missing, and ranges between them cost less than a look at each ordinal.
            for ordinal in sorted({*gone, *placed}) if placed else sorted(gone):
                if ordinal >= chunk.stop:
                    break
                shown += range(start, ordinal)
                start = ordinal + 1
            shown += range(start, chunk.stop)
            return shown
        for ordinal in chunk:
            if ordinal in placed:
                continue
            if ordinal in before:
                self._unfold(ordinal, shown)
            elif ordinal not in gone:
                shown.append(ordinal)
        return shown

    def last(self, count: int, wanted: int) -> list[int]:
        """Return the last `wanted` ordinals of `order` without visiting the others."""
        parts: list[Sequence[int]] = []
        for number in range(-(-count // CHUNK) - 1, -1, -1):
            if wanted <= 0:
                break
            parts.append(self.part(number, count)[-wanted:])
            wanted -= len(parts[-1])
        return [ordinal for part in reversed(parts) for ordinal in part]

    def first(self, count: int, start: int, is_wanted: Callable[[int], bool]) -> int | None:
        """Return the first wanted ordinal of `order`, or None; below `start` only inserted items can be wanted."""
        placed = (one for one, root in self.placed.items() if root < start and one not in self.gone)
        early = min((self.placed[one] for one in placed if is_wanted(one)), default=None)
        if early is not None:
            group: list[int] = []
            self._unfold(early, group)
            return next(filter(is_wanted, group))
        for number in range(start >> CHUNK_BITS, -(-count // CHUNK)):
            for ordinal in self.part(number, count):
                root = self.placed.get(ordinal)
                if (ordinal if root is None else root) >= start and is_wanted(ordinal):
                    return ordinal
        return None

    def _unfold(self, ordinal: int, shown: list[int]) -> None:
        """Add an item and all items inserted before it, with a stack because the nesting may be deep."""
        stack = [(ordinal, False)]
        while stack:
            current, is_ready = stack.pop()
            ahead = self.before.get(current)
            if ahead is None or is_ready:
                if current not in self.gone:
                    shown.append(current)
                continue
            stack.append((current, True))
            stack.extend((inner, False) for inner in reversed(ahead))


class WholeOrder:
    """
    The order of all ordinals below `count`, in which items that left the view keep their places.

    A chunk is put in order when a walk reaches it: to put all in order takes as long as the chat is.
    """

    def __init__(self, edits: Edits | None, count: int) -> None:
        self._edits = edits.without_departures() if edits is not None and edits.placed else None
        self._count = count
        self._parts: dict[int, Sequence[int]] = {}

    def before(self, ordinal: int) -> Iterator[int]:
        """Yield the ordinals before one, the nearest first."""
        if self._edits is None:
            yield from range(ordinal - 1, -1, -1)
            return
        number, part = self._around(self._edits, ordinal)
        yield from (part[place] for place in range(part.index(ordinal) - 1, -1, -1))
        for reached in range(number - 1, -1, -1):
            yield from reversed(self._part(self._edits, reached))

    def behind(self, ordinal: int) -> Iterator[int]:
        """Yield the ordinals behind one, in order."""
        if self._edits is None:
            yield from range(ordinal + 1, self._count)
            return
        number, part = self._around(self._edits, ordinal)
        yield from (part[place] for place in range(part.index(ordinal) + 1, len(part)))
        for reached in range(number + 1, -(-self._count // CHUNK)):
            yield from self._part(self._edits, reached)

    def _around(self, edits: Edits, ordinal: int) -> tuple[int, Sequence[int]]:
        """Return the chunk that an ordinal is in, and its number; an inserted one is in that of its place."""
        root = edits.placed.get(ordinal)
        number = (ordinal if root is None else root) >> CHUNK_BITS
        return number, self._part(edits, number)

    def _part(self, edits: Edits, number: int) -> Sequence[int]:
        if number not in self._parts:
            self._parts[number] = edits.part(number, self._count)
        return self._parts[number]
