"""
The items of an item table that was opened from a snapshot: they stay in the log until somebody reads them.

Ids are found by their hashes, so that an edit of a long chat reads the items that it names and no others.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from typing import Any

from ...concurrency.locks import fork_safe_lock, synchronized
from ..events import ITEM_EVENTS, WITH_CALL_ID, ChatItemEvent

HASH_BYTES = 8
# The number of items that are read at a time; it doubles while a reader continues where it stopped.
WINDOW_MIN = 64
WINDOW_MAX = 8_192
# The search for one hash among 200,000 takes 0.3 ms. To make a dict of them takes as long as this many searches.
SCANS_MAX = 128


class StoredItems(list[ChatItemEvent]):
    """
    A list of items, of which those before `stored` are read at their first use.

    `read(ordinals)` reads items. In the list itself an unread item is None, so only the methods of this class may be
    used to look at items. Items are added with the methods of a list.
    """

    __slots__ = ("_last", "_lock", "_read", "_window", "stored")

    def __init__(self, stored: int, read: Callable[[Sequence[int]], Sequence[ChatItemEvent]]) -> None:
        super().__init__([None] * stored)  # type: ignore[list-item]  # not read yet
        self.stored, self._read = stored, read
        self._last, self._window = range(0), WINDOW_MIN
        self._lock = fork_safe_lock()

    def upto(self, count: int) -> StoredItems:
        """Return a separate list of the first `count` items; unread items stay unread."""
        copy = StoredItems(0, self._read)
        list.extend(copy, list.__getitem__(self, slice(count)))
        copy.stored = min(self.stored, count)
        return copy

    def is_unread(self, count: int) -> bool:
        """Return whether the first `count` items are all in the log and none of them was read."""
        return list.__getitem__(self, slice(count)).count(None) == min(count, len(self))  # type: ignore[arg-type]

    def __getitem__(self, index: Any) -> Any:
        found = list.__getitem__(self, index)
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            reached = range(start, stop, step)
            if not reached or min(reached[0], reached[-1]) >= self.stored:
                return found
            self._fill(min(reached[0], reached[-1]), max(reached[0], reached[-1]) + 1)
            return list.__getitem__(self, index)
        if found is None:
            self._look(range(len(self))[index])
            return list.__getitem__(self, index)
        return found

    def __iter__(self) -> Iterator[ChatItemEvent]:
        self._fill(0, self.stored)
        return list.__iter__(self)

    def _look(self, place: int) -> None:
        """Read an item and items beside it: the longer a reader continues, the more."""
        last = self._last
        is_next = place == last.stop or place == last.start - 1
        window = self._window = min(2 * self._window, WINDOW_MAX) if last and is_next else WINDOW_MIN
        goes_back = last and place == last.start - 1
        start = max(0, place + 1 - window) if goes_back else place if is_next else place // window * window
        stop = min(self.stored, place + 1 if goes_back else start + window)
        self._fill(start, stop)
        self._last = range(start, stop)

    @synchronized
    def _fill(self, start: int, stop: int) -> None:
        stop = min(stop, self.stored)
        while start < stop:
            held = list.__getitem__(self, slice(start, min(stop, start + WINDOW_MAX)))
            missing = [place for place, one in enumerate(held, start) if one is None]
            if missing:
                first, last = missing[0], missing[-1]
                self._put(range(first, last + 1))
            start += len(held)

    @synchronized
    def fetch(self, places: Iterable[int]) -> None:
        """Read these items together, and no others: they may lie far from each other."""
        missing = [place for place in places if list.__getitem__(self, place) is None]
        if missing:
            self._put(missing)

    def _put(self, places: Sequence[int]) -> None:
        items = self._read(places)
        if isinstance(places, range):
            reached = slice(places.start, places.stop)
            if list.__getitem__(self, reached) == [None] * len(items):
                # Usually none of them was read before: then all are stored in one step.
                list.__setitem__(self, reached, items)
                return
        for place, item in zip(places, items, strict=True):
            # An item that is there may be a message in a newer form, and other code holds it.
            if list.__getitem__(self, place) is None:
                list.__setitem__(self, place, item)


def _hash_of(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=HASH_BYTES).digest()


class Hashes:
    """The hashes of names, in the order in which they were added."""

    __slots__ = ("_asked", "_places", "packed")

    def __init__(self, packed: bytes = b"") -> None:
        self.packed = bytearray(packed)
        self._asked = 0
        self._places: dict[bytes, tuple[int, ...]] | None = None

    def __len__(self) -> int:
        return len(self.packed) // HASH_BYTES

    def append(self, name: str) -> None:
        self.packed += _hash_of(name)

    def places(self, name: str, count: int) -> Sequence[int]:
        """Return the places, ascending and below `count`, where the name may be; `count` is the same at each call."""
        wanted = _hash_of(name)
        self._asked += 1
        if self._asked > SCANS_MAX:
            return self._indexed(count).get(wanted, ())
        found: list[int] = []
        end = count * HASH_BYTES
        at = self.packed.find(wanted, 0, end)
        while at >= 0:
            if at % HASH_BYTES == 0:
                found.append(at // HASH_BYTES)
            at = self.packed.find(wanted, at + 1, end)
        return found

    def _indexed(self, count: int) -> dict[bytes, tuple[int, ...]]:
        if self._places is None:
            packed = bytes(self.packed[: count * HASH_BYTES])
            found: dict[bytes, tuple[int, ...]] = {}
            for place in range(len(packed) // HASH_BYTES):
                key = packed[place * HASH_BYTES : (place + 1) * HASH_BYTES]
                found[key] = (*found[key], place) if key in found else (place,)
            self._places = found
        return self._places


PackedNames = tuple[bytes, bytes, bytes, bytes]


class ItemNames:
    """
    The first items of an item table by name: hashes of their ids, and of the call ids of the calls and outputs.

    `kinds` has the kinds of all, as indexes of `ITEM_EVENTS`.
    """

    __slots__ = ("_call_ids", "_calls", "_ids", "kinds")

    def __init__(self, ids: bytes = b"", calls: bytes = b"", call_ids: bytes = b"", kinds: bytes = b"") -> None:
        self._ids, self._call_ids, self.kinds = Hashes(ids), Hashes(call_ids), bytearray(kinds)
        # The ordinals of calls and outputs.
        self._calls = array("I", calls)

    def __len__(self) -> int:
        return len(self._ids)

    def extend(self, items: Iterable[ChatItemEvent]) -> None:
        """Add the items that come next."""
        # An interrupt may have left an item half added: its id is added last.
        calls = bisect_left(self._calls, len(self))
        del self._calls[calls:], self._call_ids.packed[calls * HASH_BYTES :], self.kinds[len(self) :]
        for ordinal, item in enumerate(items, len(self)):
            if type(item) in WITH_CALL_ID:
                self._calls.append(ordinal)
                self._call_ids.append(item.call_id)  # type: ignore[union-attr]  # mypy does not narrow by that
            self.kinds.append(ITEM_EVENTS.index(type(item)))
            self._ids.append(item.id)

    def first(self, count: int) -> PackedNames:
        """Return what makes the names of the first `count` items."""
        calls = bisect_left(self._calls, count)
        return (
            bytes(self._ids.packed[: count * HASH_BYTES]),
            self._calls[:calls].tobytes(),
            bytes(self._call_ids.packed[: calls * HASH_BYTES]),
            bytes(self.kinds[:count]),
        )

    def with_id(self, item_id: str, stored: int) -> Sequence[int]:
        """Return the ordinals below `stored` of all items with this id, and of any others whose id has its hash."""
        return self._ids.places(item_id, stored)

    def with_call_id(self, call_id: str, stored: int) -> Sequence[int]:
        """Return the same for calls and outputs with a call id."""
        return [self._calls[place] for place in self._call_ids.places(call_id, bisect_left(self._calls, stored))]
