"""Workers that share a store: each folds groups of slices of its own, and every event counts once."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import refold
from refold.domain.errors import DamagedError
from refold.domain.positions import Moment
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.leases import TAKE_OVER_SECONDS, parts_of
from refold.infrastructure.projecting.rows.checkpoints import DIVIDED, GROUPS
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.store import Checkpoint, Save, SetAside
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.projections.catalogue import CATALOGUE
from refold.projections.growth import GROWTH
from tests.support.waiting import soon

from .counts import Counts
from .histories import folded_rows, live_rows, something_of_everything, stored_rows, talk_at_length
from .test_leases import WITHIN_SECONDS, behind, start_worker, wait_until
from .watches import HandMoved

CHATS = 24


@pytest.fixture
def store(ready_pg_url: str) -> Iterator[refold.Store]:
    """An empty store with slices."""
    with refold.open(ready_pg_url) as opened:
        yield opened


def talk_everywhere(store: refold.Store, events: int = 2, name: str = "talk") -> None:
    """Add messages to contexts of many slices."""
    for number in range(CHATS):
        talk_at_length(store, events, f"{name}{number}")


def two_workers(store: refold.Store, watch: HandMoved) -> list[ProjectionWorker]:
    """Return two workers that know of each other."""
    workers = [ProjectionWorker(store.log, store._projections, PROJECTIONS, watch=watch) for _ in range(2)]
    for worker in (*workers, workers[0]):
        worker.work()
        watch.seconds += 1.0
    return workers


def groups_at_the_end(store: refold.Store, projection: Any = CATALOGUE) -> set[int]:
    """Return the groups of slices with events that a projection has folded to the end."""
    now, seen = dict(store.log.now().heads), dict(store._projections.checkpoint(projection).heads)
    late = {lane % GROUPS for lane, number in now.items() if seen.get(lane) != number}
    return {lane % GROUPS for lane in now} - late


def parts(store: refold.Store, projection: Any = CATALOGUE) -> tuple[str, ...]:
    """Return the ids of the last saves of the groups of a projection."""
    return store._projections.checkpoints(projection)[0].parts


def test_each_folds_its_groups(store: refold.Store) -> None:
    """Half of the slices are the work of each, for every projection of a store; together they fold all of them."""
    assert {parts_of(store._projections, one) for one in PROJECTIONS} == {GROUPS}
    first, second = two_workers(store, HandMoved())
    talk_everywhere(store)
    something_of_everything(store)

    first.work()
    assert groups_at_the_end(store) == {0, 2, 4, 6}
    second.work()
    assert groups_at_the_end(store) == set(range(GROUPS))
    assert stored_rows(store) == folded_rows(store)
    assert [len((one.worker or "").split(", ")) for one in store.projections()] == [2] * len(PROJECTIONS)
    assert {len(parts(store, one)) for one in PROJECTIONS} == {GROUPS}


def test_one_alone_folds_all(store: refold.Store) -> None:
    """It does the work of one that is gone, in one page for all groups."""
    watch = HandMoved()
    first, second = two_workers(store, watch)
    talk_everywhere(store)
    second.work()
    for _ in range(4):
        watch.seconds += TAKE_OVER_SECONDS / 2
        first.work()

    assert groups_at_the_end(store) == set(range(GROUPS))
    assert len(set(parts(store))) == 2
    assert stored_rows(store) == folded_rows(store)


def test_a_projection_that_mixes_slices_is_not_shared(store: refold.Store) -> None:
    """The first worker does all of it; its rows may be made from events of any slice."""
    watch = HandMoved()
    workers = [ProjectionWorker(store.log, store._projections, [Counts()], watch=watch) for _ in range(2)]
    for worker in workers:
        worker.work()
    talk_everywhere(store)

    workers[1].work()
    assert store._projections.rows(Counts()) == []
    workers[0].work()
    assert [row.events for row in store._projections.rows(Counts())] == [3] * CHATS


def test_groups_do_not_disturb_each_other(store: refold.Store) -> None:
    """A page of one worker is stored though the other one stored its own meanwhile; a question joins both."""
    workers = two_workers(store, HandMoved())
    for worker in workers:
        # Whoever comes first divides the projections.
        talk_everywhere(store)
        worker.work()
    talk_everywhere(store)
    save, saves = store._projections.save, []

    def save_between(*args: Any, **options: Any) -> Any:
        saves.append(args)
        if len(saves) == 1:
            workers[1].work()
        return save(*args, **options)

    store._projections.save = save_between  # type: ignore[method-assign]
    workers[0].work()

    # A save that came too late would be followed by a third one.
    assert len(saves) == 2
    assert stored_rows(store) == folded_rows(store)


def test_who_comes_second_in_a_group_goes_on_from_there(store: refold.Store) -> None:
    """A question folds what a worker is folding, and more; the worker's page comes too late, and is not stored."""
    workers = two_workers(store, HandMoved())
    for worker in workers:
        talk_everywhere(store)
        worker.work()
    save, asked = store._projections.save, list[int]()

    def save_between(*args: Any, **options: Any) -> Any:
        if not asked:
            asked.append(CHATS)
            # Its rows would be there, and its events would be folded again, if the checkpoint went back.
            talk_everywhere(store, name="late")
            assert len(store.contexts()) == 2 * CHATS
        return save(*args, **options)

    store._projections.save = save_between  # type: ignore[method-assign]
    talk_everywhere(store)
    for worker in (*workers, *workers):
        worker.work()

    assert stored_rows(store) == folded_rows(store)


def test_rebuilt_and_divided_again(store: refold.Store) -> None:
    """New rows have one checkpoint, which the next worker divides; a page from before is not stored."""
    workers = two_workers(store, HandMoved())
    talk_everywhere(store)
    for worker in workers:
        worker.work()
    (before,) = store._projections.checkpoints(CATALOGUE)
    talk_everywhere(store)
    assert store.rebuild("catalogue").is_done
    assert parts(store) == ()
    late = Save(CATALOGUE, {}, before, store.log.now(), divides=True)
    assert store._projections.save(late) == [None]
    whole = Save(CATALOGUE, {}, Checkpoint(store.log.now(), "other"), store.log.now())
    assert store._projections.save(whole) == [None]

    talk_everywhere(store)
    for worker in workers:
        worker.work()
    assert len(parts(store)) == GROUPS
    assert store._projections.save(whole) == [None]
    assert stored_rows(store) == folded_rows(store)
    store._projections.drop(CATALOGUE)
    assert store._projections.checkpoints(CATALOGUE) == [Checkpoint()]
    assert live_rows(store) == folded_rows(store)


def test_dropped_while_another_divides_it(store: refold.Store) -> None:
    """The rows of groups that are committed while the drop waits for the table go, too: it can be divided again."""
    import psycopg

    workers = two_workers(store, HandMoved())
    talk_everywhere(store)
    for worker in workers:
        worker.work()
    location = store.log.location  # type: ignore[attr-defined]
    with psycopg.connect(location) as other, psycopg.connect(location, autocommit=True) as looking:
        saved = looking.execute("DELETE FROM checkpoint WHERE projection = 'catalogue' RETURNING *").fetchall()
        other.execute(f"LOCK TABLE view_catalogue_{CATALOGUE.version} IN ROW EXCLUSIVE MODE".encode())
        other.cursor().executemany("INSERT INTO checkpoint VALUES (%s, %s, %s, %s)", saved)
        dropping = threading.Thread(target=store._projections.drop, args=(CATALOGUE,))
        dropping.start()
        assert soon(lambda: looking.execute("SELECT FROM pg_locks WHERE NOT granted").fetchone() is not None)
        other.commit()
        dropping.join()
        assert looking.execute("SELECT FROM checkpoint WHERE projection = 'catalogue'").fetchone() is None

    for worker in workers:
        worker.work()
    assert len(parts(store)) == GROUPS
    assert stored_rows(store, "catalogue")["catalogue"] == folded_rows(store)["catalogue"]


def test_both_set_events_aside(store: refold.Store) -> None:
    """The events that one sets aside do not take the place of those of the other."""
    two_workers(store, HandMoved())
    talk_everywhere(store)
    rows = store._projections
    runners = [ProjectionRunner(store.log, rows, [CATALOGUE]) for _ in range(2)]
    for number, runner in enumerate(runners):
        assert list(runner.pages(CATALOGUE, groups=frozenset({number})))
    (before,) = rows.checkpoints(CATALOGUE)
    heads = dict(before.moment.heads)
    lanes = {lane % GROUPS: (lane, number) for lane, number in store.log.now().heads}
    threads = []
    for group in (3, 5):
        lane, number = lanes[group]
        aside = [SetAside(f"chat:{group}@1", "why not")]
        save = Save(CATALOGUE, {}, before, Moment.of({**heads, lane: number}), {}, aside)
        threads.append(threading.Thread(target=rows.save, args=(save,)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {one.event for one in rows.set_aside(CATALOGUE)} == {"chat:3@1", "chat:5@1"}


@pytest.mark.parametrize("damage", ["DELETE FROM checkpoint WHERE slice = 3", "UPDATE checkpoint SET moment = 'x'"])
def test_a_damaged_group(store: refold.Store, damage: str) -> None:
    """It is said where, and a rebuild mends it."""
    import psycopg

    workers = two_workers(store, HandMoved())
    talk_everywhere(store)
    for worker in workers:
        worker.work()
    log: Any = store.log
    with psycopg.connect(log.location, autocommit=True) as connection:
        marked = connection.execute("SELECT moment FROM checkpoint WHERE slice = 0").fetchall()
        assert set(marked) == {(DIVIDED,)}
        connection.execute(damage + " AND slice > 0" * ("WHERE" in damage) + " WHERE slice > 0" * ("x" in damage))

    with pytest.raises(DamagedError, match="checkpoint of catalogue"):
        store.contexts()
    assert store.rebuild("catalogue").is_done
    assert len(store.contexts()) == CHATS


def test_who_replaces_the_rows_holds_all_groups(store: refold.Store) -> None:
    """Until the transaction ends nobody saves rows of any group, and whoever only looks waits for nobody."""
    import psycopg

    workers = two_workers(store, HandMoved())
    talk_everywhere(store)
    for worker in workers:
        worker.work()
    rows, log, left = store._projections, store.log, list[str]()
    taken = "SELECT 1 FROM checkpoint WHERE slice > 0 AND projection = 'catalogue' FOR UPDATE SKIP LOCKED"

    def hold(transaction: Any, ask: Any) -> list[Any]:
        ask(transaction, CATALOGUE)
        with psycopg.connect(log.location) as other:  # type: ignore[attr-defined]
            left.append(str(len(other.execute(taken).fetchall())))
        return []

    for ask in (rows._locked, rows._stored):  # type: ignore[attr-defined]
        rows._transact(functools.partial(hold, ask=ask))  # type: ignore[attr-defined]

    assert left == ["0", str(GROUPS)]


@pytest.mark.long
def test_killed_between_its_pages(ready_pg_url: str) -> None:
    """Two processes share a store while it is written; one is killed with -9, and every event counts once."""
    names = ("catalogue", "growth", "rollup")
    with refold.open(ready_pg_url) as store:
        workers = {
            worker.pid: worker for worker in (start_worker(ready_pg_url, *names), start_worker(ready_pg_url, *names))
        }
        try:
            talk_everywhere(store)
            assert wait_until(lambda: all(len((one.worker or "").split(", ")) == 2 for one in chosen(store, names)))
            assert wait_until(lambda: is_divided(store))
            talk_everywhere(store, 20)
            killed = next(iter(workers.values()))
            killed.kill()
            killed.wait()
            talk_everywhere(store, 20)
            began = time.monotonic()

            assert wait_until(lambda: behind(store, *names) == [0, 0, 0])
            assert time.monotonic() - began < WITHIN_SECONDS
            folded, stored = folded_rows(store), stored_rows(store, *names)
            assert {name: folded[name] for name in names} == stored
        finally:
            for worker in workers.values():
                worker.kill()
                worker.communicate()


def is_divided(store: refold.Store) -> bool:
    """Write something for each worker, and return whether both have folded something."""
    talk_everywhere(store)
    return len(parts(store, GROWTH)) == GROUPS


def chosen(store: refold.Store, names: tuple[str, ...]) -> list[Any]:
    """Return the status of some projections."""
    return [one for one in store.projections() if one.name in names]
