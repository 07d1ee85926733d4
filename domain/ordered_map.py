"""
A mapping that keeps the order of insertion and is a value: a change returns a new one, and the old one is unchanged.

The cost of a change does not depend on the size. All versions of a map share one real dict: the version that was used
last holds it. Every other version holds a note of its difference to a newer one, and takes the dict over when
it is read (Baker's persistent arrays). So undoing a decision takes as many steps as the decision had.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Generic, NamedTuple, Protocol, TypeVar

from .concurrency.locks import fork_safe_lock, locked, synchronized

K = TypeVar("K", bound=Hashable)
K_in = TypeVar("K_in", bound=Hashable, contravariant=True)
V = TypeVar("V")
# A version that is further away than this gets its own dict; otherwise two readers could make the dict move to and fro.
STEPS_MAX = 64


class _Entry(NamedTuple, Generic[V]):
    """A value and its rank in the order."""

    rank: int
    value: V


class _Step(NamedTuple, Generic[K, V]):
    """The entry under `key` in a version; its `newer` neighbour has another entry there. None means no entry."""

    newer: OrderedMap[K, V]
    key: K
    entry: _Entry[V] | None


class _Unfinished(NamedTuple, Generic[K, V]):
    """An entry that must still be put into the dict; None means that the key must still be removed."""

    key: K
    entry: _Entry[V] | None


class OrderedMap(Generic[K, V]):
    """An immutable mapping in the order of insertion; a key that is set again keeps its place."""

    __slots__ = ("_data", "_lock", "_next_rank", "_plain", "_size", "_step", "_unfinished")

    def __init__(self) -> None:
        self._data: OrderedDict[K, _Entry[V]] | None = OrderedDict()
        self._step: _Step[K, V] | None = None
        # Set together with the dict: an entry that must still be put into it. An interrupt may come in between.
        self._unfinished: _Unfinished[K, V] | None = None
        self._lock = fork_safe_lock()
        self._next_rank = 0
        self._size = 0
        # A mapping that was made from a dict keeps that dict, and is read without a lock, until its first change.
        self._plain: dict[K, V] | None = None

    @classmethod
    def of(cls, values: dict[K, V]) -> OrderedMap[K, V]:
        """Return a mapping with these values, in their order; the caller must not change the dict afterwards."""
        made: OrderedMap[K, V] = cls()
        made._plain = values
        made._next_rank = made._size = len(values)
        return made

    def plus(self, key: K, value: V) -> OrderedMap[K, V]:
        """Return a mapping with `value` under `key`: at its old place if there is one, or at the end."""
        if not self._size:
            # Nothing is shared with an empty map: an empty map that exists for ever, such as an initial state, would
            # otherwise keep all later versions in memory.
            fresh: OrderedMap[K, V] = OrderedMap()
            return fresh._with(key, value)
        return self._with(key, value)

    @synchronized
    def minus(self, key: K) -> OrderedMap[K, V]:
        """Return a mapping without `key`, which must exist."""
        return self._changed(key, self._own()[key], None)

    def get(self, key: K) -> V | None:
        """Return the value under `key`, or None."""
        if (plain := self._plain) is not None:
            return plain.get(key)
        entry = locked(self._lock, self._own_entry, key)
        return None if entry is None else entry.value

    def _own_entry(self, key: K) -> _Entry[V] | None:
        return self._own().get(key)

    def first(self, count: int) -> list[tuple[K, V]]:
        """Return the first `count` keys and values, the oldest first."""
        if (plain := self._plain) is not None:
            return list(islice(plain.items(), max(0, count)))
        return locked(self._lock, self._own_items, max(0, count))

    def _own_items(self, count: int) -> list[tuple[K, V]]:
        return [(key, entry.value) for key, entry in islice(self._own().items(), count)]

    def values(self) -> list[V]:
        """Return all values in order."""
        if (plain := self._plain) is not None:
            return list(plain.values())
        return [value for _, value in locked(self._lock, self._own_items, self._size)]

    def items(self) -> list[tuple[K, V]]:
        """Return all keys and values in order."""
        return self.first(self._size)

    def __iter__(self) -> Iterator[K]:
        if (plain := self._plain) is not None:
            return iter(plain)
        return iter([key for key, _ in locked(self._lock, self._own_items, self._size)])

    def __len__(self) -> int:
        return self._size

    def __contains__(self, key: object) -> bool:
        if (plain := self._plain) is not None:
            return key in plain
        # A key of another type is simply not there.
        return locked(self._lock, self._own_entry, key) is not None  # type: ignore[arg-type]

    def __eq__(self, other: object) -> bool:
        return self.items() == other.items() if isinstance(other, OrderedMap) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal by value, and values need not be hashable

    def __repr__(self) -> str:
        return f"OrderedMap({self.items()!r})"

    @synchronized
    def _with(self, key: K, value: V) -> OrderedMap[K, V]:
        old = self._own().get(key)
        rank = self._next_rank if old is None else old.rank
        return self._changed(key, old, _Entry(rank, value))

    def _changed(self, key: K, old: _Entry[V] | None, new: _Entry[V] | None) -> OrderedMap[K, V]:
        changed: OrderedMap[K, V] = OrderedMap.__new__(OrderedMap)
        changed._lock, changed._step, changed._plain, changed._unfinished = self._lock, None, None, None
        changed._next_rank = max(self._next_rank, new.rank + 1 if new else 0)
        changed._size = self._size + (new is not None) - (old is not None)
        assert self._data is not None, "the version that is changed holds the dict"
        # In one statement, so that after an interrupt one version has the dict and the other has a step to it.
        changed._data, self._data, self._step = self._data, None, _Step(changed, key, old)
        changed._data = _with_entry(changed._data, key, new)
        return changed

    def _own(self) -> OrderedDict[K, _Entry[V]]:
        """Take over the dict, or a copy if there are too many steps; the caller holds the lock."""
        if self._plain is not None:
            self._data = OrderedDict(
                (key, _Entry(rank, value)) for rank, (key, value) in enumerate(self._plain.items())
            )
            self._plain = None
        if self._data is not None:
            return self._finished(self._data)
        way: list[OrderedMap[K, V]] = [self]
        while (step := way[-1]._step) is not None:
            way.append(step.newer)
        data = way[-1]._data
        assert data is not None, "every way ends at the version that holds the dict"
        data = way[-1]._finished(data)
        if len(way) > STEPS_MAX:
            return self._copied(way, data)
        for older, newer in zip(way[-2::-1], way[:0:-1], strict=True):
            step = older._step
            assert step is not None, "only the last one on the way has no step"
            older._unfinished, back = _Unfinished(step.key, step.entry), _Step(older, step.key, data.get(step.key))
            # In one statement, for the same reason as above.
            newer._step, newer._data, older._step, older._data = back, None, None, data
            data = older._finished(data)
        return data

    def _finished(self, data: OrderedDict[K, _Entry[V]]) -> OrderedDict[K, _Entry[V]]:
        """Return the dict of this version, after putting in the entry that was still missing."""
        if self._unfinished is not None:
            data = self._data = _with_entry(data, *self._unfinished)
            self._unfinished = None
        return data

    def _copied(self, way: list[OrderedMap[K, V]], data: OrderedDict[K, _Entry[V]]) -> OrderedDict[K, _Entry[V]]:
        copy = data.copy()
        for older in way[-2::-1]:
            assert older._step is not None, "only the last one on the way has no step"
            copy = _with_entry(copy, older._step.key, older._step.entry)
        self._data, self._step = copy, None
        return copy


class MapDraft(Protocol[K_in, V]):
    """A mapping that a fold changes, from `draft_of` to `settled`."""

    def get(self, key: K_in, /) -> V | None:
        """Return the value under `key`, or None."""

    def __setitem__(self, key: K_in, value: V, /) -> None:
        """Put `value` under `key`: at its old place if there is one, or at the end."""

    def pop(self, key: K_in, default: None, /) -> V | None:
        """Remove `key`, if it is there."""


def draft_of(base: OrderedMap[K, V]) -> MapDraft[K, V]:
    """
    Return a draft that begins with the entries of `base`.

    A map that begins empty is a plain dict until it is settled, so that a fold of ten thousand events creates no
    versions in between.
    """
    return _Versions(base) if base else {}


def settled(draft: MapDraft[K, V], base: OrderedMap[K, V]) -> OrderedMap[K, V]:
    """Return the mapping that a draft of `base` has become; the draft must not be changed afterwards."""
    if isinstance(draft, _Versions):
        return draft.newest
    assert isinstance(draft, dict), "a draft is one of the two"
    return OrderedMap.of(draft) if draft else base


class _Versions(Generic[K, V]):
    """A draft that creates a new version of a mapping with each change."""

    __slots__ = ("newest",)

    def __init__(self, base: OrderedMap[K, V]) -> None:
        self.newest = base

    def get(self, key: K, /) -> V | None:
        return self.newest.get(key)

    def __setitem__(self, key: K, value: V, /) -> None:
        self.newest = self.newest.plus(key, value)

    def pop(self, key: K, default: None, /) -> None:
        if key in self.newest:
            self.newest = self.newest.minus(key)


def _with_entry(data: OrderedDict[K, _Entry[V]], key: K, entry: _Entry[V] | None) -> OrderedDict[K, _Entry[V]]:
    """Return a dict with an entry at the place of its rank, or without the key; doing it twice does no harm."""
    if entry is None:
        data.pop(key, None)
        return data
    is_new = key not in data
    first_rank = data[next(iter(data))].rank if data else entry.rank
    last_rank = data[next(reversed(data))].rank if data else entry.rank
    if is_new and first_rank < entry.rank < last_rank:
        return OrderedDict(sorted([*data.items(), (key, entry)], key=lambda pair: pair[1].rank))
    data[key] = entry
    if entry.rank < first_rank:
        data.move_to_end(key, last=False)
    return data
