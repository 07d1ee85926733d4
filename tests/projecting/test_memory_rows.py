"""Rows in memory: several threads store them, and those of another version are none."""

from __future__ import annotations

import threading
from collections import UserDict
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure.projecting import status
from refold.infrastructure.projecting.shadow import shadow_of
from refold.infrastructure.projecting.status import RowCounts
from refold.infrastructure.projecting.store import Checkpoint, MemoryProjectionStore, Save

from ..support.effort import CountedLock
from .counts import Count, Counts, save

FIRST, SECOND, THIRD = (Moment(((-1, number),)) for number in (1, 2, 3))


def rows(events: int) -> dict[str, Count]:
    """Return a row."""
    return {"a": Count("a", events)}


class Slow(UserDict[str, Count]):
    """Rows that take their time to be looked at: another thread tries to store its own meanwhile."""

    def __init__(self, store: MemoryProjectionStore) -> None:
        super().__init__(rows(1))
        self.saved: list[bool] = []
        self.other = threading.Thread(target=lambda: self.saved.append(save_both(store)))

    def keys(self) -> Any:
        """Return the keys, late."""
        self.other.start()
        self.other.join(0.2)
        return super().keys()


def save_both(store: MemoryProjectionStore) -> bool:
    """Store two pages, one after the other, as a thread does that is quick."""
    first = save(store, rows(1), Checkpoint(), FIRST)
    return first is not None and save(store, rows(2), first, SECOND) is not None


def test_a_program_without_chance_undoes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of users make `uuid4` give what they expect: neither are two saves the same, nor is one of its ids used."""
    monkeypatch.setattr("uuid.uuid4", lambda: pytest.fail("an id of the program was used"))
    one = Save(Counts(), rows(1), Checkpoint(), FIRST)

    assert one.checkpoint() != one.checkpoint()


def test_a_late_thread_undoes_nothing() -> None:
    """Of two that store the same page one does, whatever lies between its look at the checkpoint and its rows."""
    store = MemoryProjectionStore()
    late = Slow(store)

    saved = save(store, late, Checkpoint(), FIRST)
    late.other.join()

    assert (saved is not None, late.saved) == (True, [False])
    assert (store.checkpoint(Counts()), store.rows(Counts())) == (FIRST, [Count("a", 1)])
    assert saved is not None
    assert save(store, rows(2), saved, SECOND) is not None


def test_another_version() -> None:
    """Its rows and its checkpoint are none, and what it stores takes the place of the others."""

    class Newer(Counts):
        version = 2

    store = MemoryProjectionStore()
    save_both(store)

    assert (store.checkpoint(Newer()), store.rows(Newer()), store.count(Newer())) == (BEGINNING, [], 0)
    assert store.save(Save(Newer(), rows(5), store.checkpoints(Counts())[0], THIRD)) == [None]
    assert store.save(Save(Newer(), {"b": Count("b", 5)}, Checkpoint(), FIRST)) == store.checkpoints(Newer())
    assert (store.rows(Newer()), store.checkpoint(Counts())) == ([Count("b", 5)], BEGINNING)


def test_parts_that_made_the_same_row() -> None:
    """A projection whose rows do not stay in a slice cannot be put together, and both parts stay."""
    store = MemoryProjectionStore()
    parts = [shadow_of(Counts(), partition=number) for number in range(2)]
    for part in parts:
        store.save(Save(part, rows(1), Checkpoint(), FIRST))

    assert not store.gather(shadow_of(Counts()), parts, moment=FIRST, plan=("plan", "of another"))
    with pytest.raises(InvalidInputError, match="let `stays_in_slice` be False"):
        store.gather(shadow_of(Counts()), parts, moment=FIRST, plan=("plan", None))

    assert [store.count(one) for one in (*parts, shadow_of(Counts()))] == [1, 1, 0]
    assert store.gather(shadow_of(Counts()), parts[:1], moment=FIRST, plan=("plan", None)) is True
    assert [store.count(one) for one in (*parts, shadow_of(Counts()))] == [0, 1, 1]


WAYS: dict[str, Callable[[MemoryProjectionStore], object]] = {
    "checkpoint": lambda store: store.checkpoint(Counts()),
    "load": lambda store: store.load(Counts(), ["a"]),
    "save": lambda store: save(store, rows(1), Checkpoint(), FIRST),
    "set_aside": lambda store: store.set_aside(Counts()),
    "rows": lambda store: store.rows(Counts()),
    "rows_under": lambda store: store.rows_under(Counts(), "a"),
    "page": lambda store: store.page(Counts(), after="", limit=9),
    "count": lambda store: store.count(Counts()),
    "drop": lambda store: store.drop(Counts()),
    "replace": lambda store: store.replace(Counts(), Counts(), before=BEGINNING),
    "gather": lambda store: store.gather(Counts(), [], moment=FIRST, plan=("plan", None)),
    "notes": lambda store: store.notes(""),
    "set_note": lambda store: store.set_note("a", before=None, after="b"),
}


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_looked_at_and_changed_under_a_lock(way: str) -> None:
    """Whatever threads do at once: no two of them are between a look and the change that follows from it."""
    store = MemoryProjectionStore()
    store._lock = lock = CountedLock()  # type: ignore[assignment]

    WAYS[way](store)
    assert lock.taken > 0


def test_keys_stay_in_order() -> None:
    """They are put in order again only if some are new, and those that were in order are not compared anew."""
    store = MemoryProjectionStore()
    checkpoint = save(store, {key: Count(key, 1) for key in "bd"}, Checkpoint(), FIRST)
    assert checkpoint is not None
    table = store._tables[Counts().name]
    before = table.keys
    again = save(store, {"d": Count("d", 2)}, checkpoint, SECOND)
    assert again is not None

    assert table.keys is before
    save(store, {key: Count(key, 1) for key in "eac"}, again, THIRD)
    assert [row.key for row in store.rows(Counts())] == ["a", "b", "c", "d", "e"]


def test_numbers_of_many_rows_are_used_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred times as long as it took to count them; few rows are counted each time."""

    class Watch:
        now = 0.0

        def monotonic(self) -> float:
            return self.now

    store, watch = MemoryProjectionStore(), Watch()
    assert save(store, rows(1), Checkpoint(), FIRST) is not None
    counts, count, counted = RowCounts(watch), store.count, list[float]()

    def slow(projection: Any) -> int:
        counted.append(watch.now)
        watch.now += 0.5
        return count(projection)

    monkeypatch.setattr(store, "count", slow)
    for few, until in ((1, 3.0), (0, 60.0)):
        monkeypatch.setattr(status, "FEW_ROWS", few)
        while watch.now < until:
            assert counts.of(store, Counts()) == 1
            watch.now += 0.5

    assert counted == [0.0, 1.0, 2.0, 3.0, 53.0]
