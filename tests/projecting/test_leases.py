"""Leases: of all workers one works on a projection, and another one soon after that one was killed."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import refold
from refold.domain.errors import StorageClosedError
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.leases import (
    BEAT_SECONDS,
    TAKE_OVER_SECONDS,
    Crew,
    Lease,
    Member,
    holder_of,
    members_of,
    parts_of,
    workers_on,
)
from refold.infrastructure.projecting.shadow import RebuildProgress, progress_after
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.projections.catalogue import CATALOGUE

from ..support.processes import Program, Running
from .histories import folded_rows, projections_of, stored_rows, talk_at_length
from .watches import HandMoved

NAME = "catalogue"
WORKER = Program("tests.projecting.worker")
WITHIN_SECONDS = 20.0


def lease_of(store: refold.Store, watch: HandMoved) -> Lease:
    """Return the wish of another worker."""
    return Lease(store._projections, NAME, watch)


def test_one_holder_at_a_time(store: refold.Store) -> None:
    """Who holds it goes on holding it, however often others ask."""
    watch = HandMoved()
    holder, *others = (lease_of(store, watch) for _ in range(3))

    for _ in range(20):
        assert [holder.hold(), *(other.hold() for other in others)] == [True, False, False]
        watch.seconds += TAKE_OVER_SECONDS / 2


def test_taken_over_after_its_time(store: refold.Store) -> None:
    """Who does not show that he holds it loses it after the time and not before, and notices."""
    watch = HandMoved()
    silent, other = lease_of(store, watch), lease_of(store, watch)
    assert silent.hold()
    assert not other.hold()

    watch.seconds += TAKE_OVER_SECONDS - 0.01
    assert not other.hold()
    watch.seconds += 0.02
    assert other.hold()
    assert [silent.hold(), silent.hold(), other.hold()] == [False, False, True]
    watch.seconds += TAKE_OVER_SECONDS + 0.01
    assert [silent.hold(), other.hold()] == [True, False]


def test_a_late_holder_keeps_what_nobody_took(store: refold.Store) -> None:
    """However long he was silent: nobody wanted it, so it is still his."""
    watch = HandMoved()
    late = lease_of(store, watch)
    assert late.hold()
    watch.seconds += 100 * TAKE_OVER_SECONDS

    assert late.hold()
    assert not lease_of(store, watch).hold()


def test_who_comes_late_waits_his_own_time(store: refold.Store) -> None:
    """What counts is how long he himself has watched: the clocks of two workers need not agree."""
    mine, theirs = HandMoved(), HandMoved()
    theirs.seconds = 1_000_000.0
    assert lease_of(store, mine).hold()
    late = lease_of(store, theirs)
    assert not late.hold()

    theirs.seconds += TAKE_OVER_SECONDS - 0.01
    assert not late.hold()
    theirs.seconds += 0.02
    assert late.hold()


def test_two_take_over_at_once(store: refold.Store) -> None:
    """One gets it."""
    watch = HandMoved()
    assert lease_of(store, watch).hold()
    others = [lease_of(store, watch) for _ in range(4)]
    assert not any(other.hold() for other in others)
    watch.seconds += TAKE_OVER_SECONDS + 0.01
    held: list[bool] = []

    threads = [threading.Thread(target=lambda other=other: held.append(other.hold())) for other in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(held) == [False, False, False, True]


def test_when_a_beat_is_due() -> None:
    """Once BEAT_SECONDS have passed, and a lease is free only when more than TAKE_OVER_SECONDS have."""
    rows, watch = MemoryProjectionStore(), HandMoved()
    holder, other = (Lease(rows, NAME, watch) for _ in range(2))
    notes = list[str | None]()
    assert not holder_of(rows, NAME)
    for seconds in (0.0, BEAT_SECONDS / 2, BEAT_SECONDS / 2):
        watch.seconds += seconds
        assert holder.hold()
        notes.append(rows.note(f"lease/{NAME}"))

    assert notes[0] == notes[1] != notes[2]
    assert {str(note).rpartition(".")[0] for note in notes} == {holder_of(rows, NAME)}
    assert not other.hold()
    watch.seconds += TAKE_OVER_SECONDS
    assert not other.hold()
    watch.seconds += 0.25
    assert other.hold()


def test_when_a_worker_shows_that_it_is_there() -> None:
    """Its note is another one after BEAT_SECONDS; more than TAKE_OVER_SECONDS without another one, and it is gone."""
    rows, watch = MemoryProjectionStore(), HandMoved()
    silent, other = (Crew(rows, ["b", "a"], watch) for _ in range(2))
    assert silent.hold()
    assert other.hold()
    notes = list[dict[str, str]]()
    for seconds in (0.0, BEAT_SECONDS / 2, BEAT_SECONDS / 2):
        watch.seconds += seconds
        assert other.hold()
        notes.append(rows.notes("worker/"))
    assert notes[0] == notes[1]
    (changed,) = {name for name, note in notes[2].items() if notes[1][name] != note}
    assert changed == f"worker/{other.members[1].id}"
    assert [(one.place, one.names) for one in other.members] == [(1, ("a", "b")), (2, ("a", "b"))]

    watch.seconds += TAKE_OVER_SECONDS - BEAT_SECONDS
    assert other.hold()
    assert len(other.members) == 2
    watch.seconds += BEAT_SECONDS
    assert other.hold()
    assert [*rows.notes("worker/")] == [changed]
    other.release()
    assert rows.notes("worker/") == {}
    # It joins again at once, though its last beat was just now.
    assert other.hold()
    assert [one.place for one in members_of(rows)] == [1]
    # A note whose place is no number that Python converts is of no worker.
    rows.set_note("worker/broken", before=None, after="1" * 5_000 + " 1 a")
    watch.seconds += BEAT_SECONDS
    assert other.hold()
    assert [one.place for one in members_of(rows)] == [1]


@pytest.mark.parametrize(
    ("members", "parts"),
    [
        ({}, 1),
        ({"stays_in_slice": False}, 1),
        ({"stays_in_slice": True}, 8),
        ({"positions_of_row": 64}, 8),
        ({"stays_in_slice": False, "positions_of_row": 64}, 8),
    ],
)
def test_what_workers_may_divide(members: dict[str, Any], parts: int) -> None:
    """Projections whose rows are each of one slice, or of a range of positions."""
    projection: Any = SimpleNamespace(name="p", version=1, row=str, keys=str, evolve=str, **members)
    rows: Any = SimpleNamespace(groups=8)
    workers = [Member(place, str(place), ("p",)) for place in range(9)]

    assert parts_of(rows, projection) == parts
    assert workers_on([Member(0, "x", ("q",)), *workers], rows, projection) == [one.id for one in workers[:parts]]


def test_progress() -> None:
    """The rate is that of the last seconds, and says how long the rest takes; without one nobody knows."""
    assert progress_after("p", 30, 100, 20, 2.0) == RebuildProgress("p", 30, 100, 10.0, 7.0)
    assert progress_after("p", 30, 100, 0, 2.0) == RebuildProgress("p", 30, 100, 0.0, 0.0)
    assert progress_after("p", 30, 100, 20, 0.0) == RebuildProgress("p", 30, 100, 0.0, 0.0)


def test_released(store: refold.Store) -> None:
    """The next one need not wait; who does not hold it releases nothing."""
    watch = HandMoved()
    first, second = lease_of(store, watch), lease_of(store, watch)
    assert first.hold()
    second.release()
    assert not second.hold()

    first.release()
    assert holder_of(store._projections, NAME) is None
    assert second.hold()
    first.release()
    assert not first.hold()
    assert second.hold()


FORK = """
import os
from refold.domain.clock import REAL_SYSTEM
from refold.infrastructure.projecting.leases import Crew, Lease
from refold.infrastructure.projecting.store import MemoryProjectionStore
store = MemoryProjectionStore()
lease, crew = Lease(store, "catalogue", REAL_SYSTEM), Crew(store, ["catalogue"], REAL_SYSTEM)
assert lease.hold() and crew.hold()
if child := os.fork():
    assert os.waitpid(child, 0)[1] == 0 and lease.hold() and len(crew.members) == 1
else:
    os._exit(0 if not lease.hold() and crew.hold() and len(crew.members) == 2 else 1)
"""


def test_a_child_is_another_worker() -> None:
    """It does not hold the lease of its parent, and comes behind it."""
    subprocess.run([sys.executable, "-c", FORK], check=True, timeout=60)


def test_one_beat_in_a_while(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Holding it costs a write every BEAT_SECONDS, and nothing in between."""
    writes: list[str] = []
    set_note = store._projections.set_note

    def counted(name: str, *, before: str | None, after: str | None) -> bool:
        writes.append(name)
        return set_note(name, before=before, after=after)

    monkeypatch.setattr(store._projections, "set_note", counted)
    watch = HandMoved()
    lease = lease_of(store, watch)

    for _ in range(100):
        assert lease.hold()
        watch.seconds += BEAT_SECONDS / 10

    assert len(writes) == 10


def test_one_beat_for_all_projections(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker shows that it works by one write every BEAT_SECONDS, however many projections it keeps."""
    writes: list[str] = []
    set_note = store._projections.set_note

    def counted(name: str, *, before: str | None, after: str | None) -> bool:
        writes.append(name)
        return set_note(name, before=before, after=after)

    monkeypatch.setattr(store._projections, "set_note", counted)
    watch = HandMoved()
    worker = ProjectionWorker(store.log, store._projections, PROJECTIONS, watch=watch)

    for _ in range(100):
        worker.work()
        watch.seconds += BEAT_SECONDS / 10

    assert len(writes) == 10
    assert {one.worker for one in store.projections()} == {writes[0].removeprefix("worker/")}


def test_a_worker_that_was_taken_for_dead_comes_last(store: refold.Store) -> None:
    """Its place is lost, and its next beat fails; then it joins behind the other one."""
    watch = HandMoved()
    silent, other = (Crew(store._projections, [NAME], watch) for _ in range(2))
    assert silent.hold()
    assert other.hold()
    assert 0 in silent.share(CATALOGUE)
    assert 0 not in other.share(CATALOGUE)

    watch.seconds += TAKE_OVER_SECONDS - 0.01
    assert other.hold()
    assert len(other.members) == 2
    watch.seconds += BEAT_SECONDS
    assert other.hold()
    assert len(other.members) == 1
    assert [silent.hold(), silent.hold()] == [False, True]
    assert [one.place for one in silent.members] == [2, 3]
    other.release()
    assert [one.place for one in members_of(store._projections)] == [3]


def test_a_worker_that_lost_its_lease_stops(store: refold.Store) -> None:
    """It notices at the next page, leaves the rest to the other one, and nothing is folded twice."""
    watch = HandMoved()
    catalogue = projections_of(store)[NAME]
    talk_at_length(store, 5)
    workers = [ProjectionWorker(store.log, store._projections, [catalogue], watch=watch) for _ in range(2)]
    for worker in workers:
        worker.work()
    talk_at_length(store, 5)
    watch.seconds += TAKE_OVER_SECONDS + 0.01
    workers[1].work()
    talk_at_length(store, 5)

    workers[0].work()
    assert [row.version for row in store._projections.rows(catalogue)] == [11]
    workers[1].work()
    assert stored_rows(store, NAME)[NAME] == folded_rows(store)[NAME]


def test_a_worker_in_a_thread(store: refold.Store) -> None:
    """It brings up to date what comes, says which process it is, and lets go of everything when it ends."""
    with store.start_projections([NAME, "rollup"]):
        talk_at_length(store, 5)
        assert wait_until(lambda: behind(store, NAME, "rollup") == [0, 0])
        assert {one.name for one in store.projections() if one.worker} == {NAME, "rollup"}

    assert {one.worker for one in store.projections()} == {None}
    assert stored_rows(store, NAME)[NAME] == folded_rows(store)[NAME]


def test_a_store_that_is_closed_before_its_worker(place: str) -> None:
    """The worker ends by itself, without an error."""
    store = refold.open(place)
    talk_at_length(store, 50)
    working = store.start_projections()
    time.sleep(0.2)
    store.close()

    working.stop()
    assert not working._thread.is_alive()
    with pytest.raises(StorageClosedError):
        store.projections()


@pytest.mark.long
def test_killed_workers_are_replaced(place: str) -> None:
    """Of two processes one works; it is killed with -9, and the other one goes on within seconds."""
    with refold.open(place) as store:
        talk_at_length(store, 5)
        workers = {worker.pid: worker for worker in (start_worker(place), start_worker(place))}
        try:
            assert wait_until(lambda: behind(store, NAME) == [0])
            first = holder(store)
            workers[first].kill()
            workers[first].wait()
            talk_at_length(store, 5)
            killed_at = time.monotonic()

            assert wait_until(lambda: behind(store, NAME) == [0] and holder(store) != first)
            assert time.monotonic() - killed_at < TAKE_OVER_SECONDS + 5
            assert holder(store) == next(pid for pid in workers if pid != first)
            assert stored_rows(store, NAME)[NAME] == folded_rows(store)[NAME]
        finally:
            for worker in workers.values():
                worker.kill()
                worker.communicate()


def start_worker(place: str, *names: str) -> Running:
    """Start a worker of some projections, and wait until it works."""
    worker = WORKER.start(place, *(names or [NAME]))
    assert worker.stdout.readline() == "working\n"
    return worker


def behind(store: refold.Store, *names: str) -> list[int]:
    """Return how many events some projections have not seen."""
    standing = {one.name: one.behind for one in store.projections()}
    return [standing[name] for name in names]


def holder(store: refold.Store) -> int:
    """Return the process that has worked for the longest time."""
    return int(members_of(store._projections)[0].id.partition(".")[0])


def wait_until(holds: Callable[[], bool]) -> bool:
    """Wait until something holds, and return whether it did in time."""
    end = time.monotonic() + WITHIN_SECONDS
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False
