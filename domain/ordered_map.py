"""
A mapping that keeps the order of insertion and is a value: a change gives a new one, and the old one stays.

A change costs the same whatever the size. The newest version of a family holds the one real dict; every other
version holds a note of what is different on the way to it, and takes the dict over when somebody looks at it (Baker's
way to persistent arrays). So a decision that is taken back costs as many steps as it had.
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
# A version that is further away than this gets a dict of its own, or two readers would toss one to and fro.
STEPS_MAX = 64


class _Entry(NamedTuple, Generic[V]):
    """A value and its rank in the order."""

    rank: int
    value: V


class _Step(NamedTuple, Generic[K, V]):
    """The entry under `key` in a version whose `newer` neighbour has another one there; None: no entry."""

    newer: OrderedMap[K, V]
    key: K
    entry: _Entry[V] | None


class _Unfinished(NamedTuple, Generic[K, V]):
    """An entry that is to be put into the dict, or None to take it away."""

    key: K
    entry: _Entry[V] | None


class OrderedMap(Generic[K, V]):
    """An immutable mapping in the order of insertion; a key that is put again keeps its place."""

    __slots__ = ("_data", "_lock", "_next_rank", "_plain", "_size", "_step", "_unfinished")

    def __init__(self) -> None:
        self._data: OrderedDict[K, _Entry[V]] | None = OrderedDict()
        self._step: _Step[K, V] | None = None
        # With the dict, an entry that still has to be put into it: an interrupt may come before that.
        self._unfinished: _Unfinished[K, V] | None = None
        self._lock = fork_safe_lock()
        self._next_rank = 0
        self._size = 0
        # What was made at once stays as it came, and is read without a lock, until it is first changed.
        self._plain: dict[K, V] | None = None

    @classmethod
    def of(cls, values: dict[K, V]) -> OrderedMap[K, V]:
        """Return a mapping with these values, in their order; the dict must not be changed any more."""
        made: OrderedMap[K, V] = cls()
        made._plain = values
        made._next_rank = made._size = len(values)
        return made

    def plus(self, key: K, value: V) -> OrderedMap[K, V]:
        """Return a mapping with `value` under `key`: in its old place if there is one, else at the end."""
        if not self._size:
            # Nothing is shared with an empty map. One that is kept for ever, as a first state is, would keep all that
            # ever came of it.
            fresh: OrderedMap[K, V] = OrderedMap()
            return fresh._with(key, value)
        return self._with(key, value)

    @synchronized
    def minus(self, key: K) -> OrderedMap[K, V]:
        """Return a mapping without `key`, which must be there."""
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
        # One of another type is not there.
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
        # At once, so that an interrupt finds the dict with one version, and a way to it from the other.
        changed._data, self._data, self._step = self._data, None, _Step(changed, key, old)
        changed._data = _with_entry(changed._data, key, new)
        return changed

    def _own(self) -> OrderedDict[K, _Entry[V]]:
        """Take the family's dict over, or a copy where the way is long; the lock is held."""
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
            # At once, as above.
            newer._step, newer._data, older._step, older._data = back, None, None, data
            data = older._finished(data)
        return data

    def _finished(self, data: OrderedDict[K, _Entry[V]]) -> OrderedDict[K, _Entry[V]]:
        """Return the dict that this version holds, with the entry that was still to be put into it."""
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
    """A mapping under change by a fold, from `draft_of` to `settled`."""

    def get(self, key: K_in, /) -> V | None:
        """Return the value under `key`, or None."""

    def __setitem__(self, key: K_in, value: V, /) -> None:
        """Put `value` under `key`: in its old place if there is one, else at the end."""

    def pop(self, key: K_in, default: None, /) -> V | None:
        """Take `key` away, if it is there."""


def draft_of(base: OrderedMap[K, V]) -> MapDraft[K, V]:
    """
    Return a draft that begins with what is in `base`.

    A map that begins empty is a plain dict until it is settled: a fold of ten thousand events makes no versions in
    between.
    """
    return _Versions(base) if base else {}


def settled(draft: MapDraft[K, V], base: OrderedMap[K, V]) -> OrderedMap[K, V]:
    """Return the mapping that a draft of `base` has become; the draft must not be changed any more."""
    if isinstance(draft, _Versions):
        return draft.newest
    assert isinstance(draft, dict), "a draft is one of the two"
    return OrderedMap.of(draft) if draft else base


class _Versions(Generic[K, V]):
    """A draft that is a new version of a mapping after each change."""

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
    """Return a dict with an entry where its rank says, or without one; harmless when it is done twice."""
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
