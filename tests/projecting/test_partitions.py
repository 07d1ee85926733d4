"""Rebuilding in partitions: several workers together make what one fold gives, whoever of them is lost."""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError, ProjectionError, StorageBusyError
from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.ports import PartitionedLog
from refold.domain.positions import BEGINNING, Moment, Partition
from refold.infrastructure.log.codec import CODEC, Codec
from refold.infrastructure.projecting import leases, partitions
from refold.infrastructure.projecting.partitions import PartitionTask, build_partition
from refold.infrastructure.projecting.rows import sqlite as sqlite_keeping
from refold.infrastructure.projecting.shadow import RebuildProgress, shadow_of
from refold.infrastructure.projecting.store import Checkpoint, Save
from refold.projections.catalogue import CATALOGUE

from ..contract.stores import log_at
from ..contract.writing import append, everything, said
from ..support.processes import loaded_processes
from ..verifying.damaging import sql
from .counts import POISONED, Count, Counts
from .histories import folded_rows, live_rows, projections_of, something_of_everything, stored_rows, talk_at_length
from .test_set_aside import store_on, whisper

PROCESSES = loaded_processes(f"{__package__}.histories", "pytest")


class Partitioned(Counts):
    """Counts by context, which is within a slice."""

    stays_in_slice = True


class Untrue(Partitioned):
    """Says that its rows stay in a slice, and has one for all contexts."""

    def keys(self, event: RecordedEvent) -> list[str]:
        """Return the one key."""
        return ["all"]


class Fatal(Partitioned):
    """Ends every process that folds with it, but for the one that wrote the events."""

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count in the one process, and end any other."""
        if event.event.content != (str(os.getpid()),):
            os._exit(9)
        return super().evolve(key, row, event)


class First(Executor):
    """Who does the first thing at once, and never comes to the others."""

    def __init__(self) -> None:
        self._futures: list[Future[Any]] = []

    def submit(self, call: Any, /, *given: Any, **_: Any) -> Future[Any]:
        """Return what is done, or waits."""
        future: Future[Any] = Future()
        if not self._futures:
            future.set_result(call(*given))
        self._futures.append(future)
        return future


class Gone(Executor):
    """Whose workers all are gone."""

    def submit(self, *_: Any, **__: Any) -> Future[Any]:
        """Return what fails."""
        future: Future[Any] = Future()
        future.set_exception(OSError("the worker is gone"))
        return future


@pytest.fixture
def threads() -> Iterator[Executor]:
    """Two workers in this process, each with a connection of its own."""
    with ThreadPoolExecutor(2) as executor:
        yield executor


@pytest.fixture
def processes() -> Iterator[Executor]:
    """Two workers in processes of their own."""
    with ProcessPoolExecutor(2, mp_context=PROCESSES) as executor:
        yield executor


def written(store: refold.Store) -> None:
    """Let something happen in contexts of every kind and of several slices."""
    for seed in range(2):
        something_of_everything(store, seed)


def recorded(store: refold.Store) -> int:
    """Return the number of events."""
    return sum(number for _, number in store.now().heads)


def rebuilt(store: refold.Store) -> dict[str, int | None]:
    """Return which projections are half rebuilt."""
    return {one.name: one.rebuilt for one in store.projections() if one.rebuilt}


@pytest.mark.usefixtures("small_pages")
def test_equals_live(store: refold.Store, threads: Executor) -> None:
    """Byte for byte, for every projection; nothing is left of the partitions."""
    written(store)
    live = live_rows(store)

    reports = [store.rebuild(name, executor=threads, partitions=3) for name in projections_of(store)]

    assert {report.is_done for report in reports} == {True}
    assert stored_rows(store) == live == folded_rows(store)
    assert (rebuilt(store), dict(store._projections.notes("partitions/"))) == ({}, {})


@pytest.mark.usefixtures("small_pages")
def test_stopped_half_way(place: str, threads: Executor) -> None:
    """The partitions are left as they are, and others go on there, with workers or without; or begin again."""
    with refold.open(place) as store:
        written(store)
        live, events = live_rows(store), recorded(store)
        ways: list[dict[str, Any]] = [{"executor": threads, "partitions": 7}, {}, {"restart": True}]
        for way in ways:
            stopped = store.rebuild("catalogue", executor=First(), partitions=3, stop=lambda: True)
            left = rebuilt(store)["catalogue"] or 0
            assert not stopped.is_done
            # About, on a log with one sequence: each partition goes by the events of all.
            assert abs(stopped.events - left) <= 3
            assert 0 < left < events
            assert stored_rows(store) == live

            done = store.rebuild("catalogue", **way)

            assert done.is_done
            assert rebuilt(store) == {}
            assert stored_rows(store) == live
        assert done.events == events


def test_stopped_when_all_partitions_are_done(place: str) -> None:
    """They are put together, and no other process is taken for one that went on with them."""
    with refold.open(place) as store:
        talk_at_length(store, 9)

        assert store.rebuild("catalogue", executor=First(), partitions=1, stop=lambda: True).is_done
        assert stored_rows(store)["catalogue"] == folded_rows(store)["catalogue"]


@pytest.mark.usefixtures("small_pages")
def test_what_is_written_meanwhile(place: str, threads: Executor) -> None:
    """It is in the result."""
    with refold.open(place) as store:
        written(store)

        def write(progress: RebuildProgress) -> None:
            if not told:
                talk_at_length(store, 3, "meanwhile")
            told.append(progress)

        told: list[RebuildProgress] = []
        before = recorded(store)
        assert store.rebuild("catalogue", executor=threads, partitions=2, progress=write).is_done

        assert stored_rows(store)["catalogue"] == folded_rows(store)["catalogue"]
        assert [one.done for one in told] == sorted(one.done for one in told)
        assert (told[0].total, told[-1].done) == (before, recorded(store))


def test_a_partition_without_events(place: str, threads: Executor) -> None:
    """It is done when it has gone by all of them: none of the events is missing in what is told and reported."""
    with refold.open(place) as store:
        talk_at_length(store, 50)
        told: list[RebuildProgress] = []

        report = store.rebuild("catalogue", executor=threads, partitions=3, progress=told.append)

        assert (report.events, told[-1].done) == (recorded(store), recorded(store))
        assert stored_rows(store)["catalogue"] == folded_rows(store)["catalogue"]


def test_a_store_without_events(place: str, threads: Executor) -> None:
    """There is nothing to share, and the rebuild is done."""
    with refold.open(place) as store:
        report = store.rebuild("catalogue", executor=threads, partitions=2)

        assert (report.is_done, report.rows, report.events) == (True, 0, 0)
        assert dict(store._projections.notes("partitions/")) == {}


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("is_copied", [False, True])
def test_taken_over_at_the_end(place: str, threads: Executor, monkeypatch: pytest.MonkeyPatch, is_copied: bool) -> None:
    """Who paused before or while the parts were put together leaves all to the process that goes on with them."""

    def take_over() -> None:
        ((name, value),) = store._projections.notes("partitions/").items()
        assert store._projections.set_note(name, before=value, after="2.another")
        if not is_copied:
            one = store._projections.rows(CATALOGUE)[0]
            store._projections.save(Save(shadow_of(CATALOGUE), {one.key: one}, Checkpoint(), store.now()))

    def paused(*given: Any) -> Any:
        if not is_copied:
            take_over()
        finish = copied(*given)
        if is_copied:
            take_over()
        return finish

    with refold.open(place) as store:
        talk_at_length(store, 30)
        live = live_rows(store)["catalogue"]
        copied = type(store._projections)._copy_rows  # type: ignore[attr-defined]
        monkeypatch.setattr(type(store._projections), "_copy_rows", paused)

        with pytest.raises(StorageBusyError, match="try again after that"):
            store.rebuild("catalogue", executor=threads, partitions=2)

        assert is_copied or len(store._projections.rows(shadow_of(CATALOGUE))) == 1
        assert (rebuilt(store)["catalogue"] or 0) > 0
        assert stored_rows(store)["catalogue"] == live
        monkeypatch.undo()
        store._projections.drop(shadow_of(CATALOGUE))
        assert store.rebuild("catalogue", executor=threads).is_done
        assert stored_rows(store)["catalogue"] == folded_rows(store)["catalogue"] == live


@pytest.mark.parametrize("when", ["before", "between"])
def test_partitions_that_go_away(place: str, threads: Executor, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """An erasure by a program that does not know the projection drops them before, or while, they are put together."""
    monkeypatch.setattr(sqlite_keeping, "ROWS_AT_ONCE", 2)
    with refold.open(place) as store, refold.open(place) as other:
        written(store)
        store.add_projection(Partitioned())
        live = live_rows(store)
        kind: Any = type(store._projections)
        write, copy, writes = getattr(store.log, "write", None), kind._copy_rows, list[object]()

        def dropped() -> None:
            other._projections.drop_others(*other._runner.projections.values())

        def copied(*given: Any) -> Any:
            if not writes:
                writes.append(None)
                dropped()
            return copy(*given)

        def written_in_lots(work: Any) -> Any:
            # One lot of rows is copied already.
            if isinstance(work, partial):
                writes.append(work)
                if len(writes) == 2:
                    dropped()
            assert write is not None
            return write(work)

        if when == "between" and write is not None:
            monkeypatch.setattr(store.log, "write", written_in_lots)
        else:
            monkeypatch.setattr(kind, "_copy_rows", copied)

        assert store.rebuild("counts", executor=threads, partitions=3).is_done
        assert stored_rows(store) == live
        assert rebuilt(store) == {}


def test_partitions_that_are_put_together_by_one_process_and_dropped_by_another(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An erasure leaves none of the rows that are made of them, whenever that happens."""
    with refold.open(place) as store:
        written(store)
        store.contexts()
        rows, drop = store._projections, type(store._projections).drop
        plan, until = (f"partitions/catalogue.{CATALOGUE.version}", "2.another"), store.now()
        assert rows.set_note(plan[0], before=None, after=plan[1])
        parts = [Partition(number, 2) for number in range(2)]
        for part in parts:
            task = PartitionTask(store.log.location, CATALOGUE, part, part.share(until), plan[1], b"")  # type: ignore[attr-defined]
            assert build_partition(task)
            # Executors log what fails.
            assert "secret" not in repr(task._replace(location="postgresql://mia:secret@db", chain_key=b"secret"))
        shadows, gathered = [shadow_of(CATALOGUE, partition=part.number) for part in parts], list[bool]()

        def dropped(self: Any, projection: Any) -> None:
            drop(self, projection)
            if projection.name == "catalogue_shadow" and not gathered:
                gathered.append(rows.gather(shadow_of(CATALOGUE), shadows, moment=until, plan=plan))

        monkeypatch.setattr(type(rows), "drop", dropped)
        store.erase(context="c0", why="asked for", dry_run=False)

        assert gathered == [False]
        assert rows.rows(shadow_of(CATALOGUE)) == []


def test_what_a_killed_process_has_put_together(
    tmp_path: Path, threads: Executor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its table has no checkpoint; an erasure by a program that does not know the projection drops it as well."""
    monkeypatch.setattr(sqlite_keeping, "ROWS_AT_ONCE", 1)
    place, copy = str(tmp_path / "store.db"), sqlite_keeping.SqliteProjectionStore._copy_some
    calls: list[object] = []

    def killed(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return copy(*given)

    tables = "SELECT name FROM sqlite_schema WHERE name LIKE 'view_counts%'"
    with refold.open(place) as store, refold.open(place) as other:
        written(store)
        store.add_projection(Partitioned())
        monkeypatch.setattr(sqlite_keeping.SqliteProjectionStore, "_copy_some", killed)
        with pytest.raises(KeyboardInterrupt):
            store.rebuild("counts", executor=threads, partitions=2)
        assert ("view_counts_shadow",) in sql(place, tables)

        other.erase(context="c0", why="asked for", dry_run=False)

        assert sql(place, tables) == []


def test_partitions_that_cannot_be_built(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this process fails at one that a worker lost, its error is told, and the rows that are read stay."""
    with refold.open(place) as store:
        talk_at_length(store, 3)
        live = live_rows(store)
        monkeypatch.setattr(partitions, "build_partition", fail)

        with pytest.raises(OSError, match="no room"):
            store.rebuild("catalogue", executor=Gone(), partitions=2)

        assert stored_rows(store) == live
        monkeypatch.undo()
        assert store.rebuild("catalogue").is_done


def fail(task: object) -> bool:
    """Raise an error, as a worker may."""
    raise OSError("no room")


def test_processes(place: str, processes: Executor) -> None:
    """They fold it as this one does, and tell what they cannot fold as this one would; a search is made here."""
    with refold.open(place) as store:
        written(store)
        store.add_projection(Partitioned())
        live = live_rows(store)
        assert {store.rebuild(name, executor=processes).is_done for name in ("validity", "counts", "search")} == {True}
        assert stored_rows(store) == live

        for number in range(8):
            store.chat(f"p{number}").add_message("user", "poison" if number == 5 else "fine")
        with pytest.raises(ProjectionError, match=f"counts cannot fold chat:p5@2: {POISONED}"):
            store.rebuild("counts", executor=processes)
        assert stored_rows(store, "counts")["counts"] == live["counts"]


def test_lost_workers(place: str, processes: Executor, caplog: pytest.LogCaptureFixture, monkeypatch: Any) -> None:
    """What they leave, dead or not to be reached, this process builds; and it is said."""
    # For so long the leases of the dead are waited for.
    monkeypatch.setattr(leases, "TAKE_OVER_SECONDS", 0.1)
    with refold.open(place) as store:
        store.add_projection(Fatal())
        for number in range(6):
            append(store.log, f"chat:c{number}", said(number, (str(os.getpid()),)), root=f"c{number}")
        live = live_rows(store)
        for executor in (processes, Gone()):
            caplog.clear()
            assert store.rebuild("counts", executor=executor, partitions=2).is_done
            assert [record.levelno for record in caplog.records] == [logging.WARNING] * 2
            assert "partition 1 of 2 of the projection counts: its worker failed" in caplog.text
            assert stored_rows(store) == live


def test_rows_of_several_slices(place: str, threads: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """A projection that says it has none is found out, and the rows that are read stay; alone it can be rebuilt."""
    monkeypatch.setattr(sqlite_keeping, "ROWS_AT_ONCE", 1)
    with refold.open(place) as store:
        written(store)
        store.add_projection(Untrue())
        live = live_rows(store)

        with pytest.raises(InvalidInputError, match="let `stays_in_slice` be False"):
            store.rebuild("counts", executor=threads, partitions=2)

        assert stored_rows(store) == live
        assert store.rebuild("counts", restart=True).is_done
        assert stored_rows(store) == live
        assert rebuilt(store) == {}


def test_many_rows(place: str, threads: Executor, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are put together some at a time."""
    monkeypatch.setattr(sqlite_keeping, "ROWS_AT_ONCE", 3)
    with refold.open(place) as store:
        written(store)
        live = live_rows(store)
        assert store.rebuild("validity", executor=threads, partitions=2).is_done
        assert stored_rows(store) == live


@pytest.mark.parametrize("partitions", [0, -1, 1_025])
def test_partitions_that_cannot_be(store: refold.Store, threads: Executor, partitions: int) -> None:
    """They are refused."""
    with pytest.raises(InvalidInputError, match=f"partitions is {partitions}: take 1 to 1,024"):
        store.rebuild("catalogue", executor=threads, partitions=partitions)
    with pytest.raises(InvalidInputError, match=f"partitions is {partitions}, and no executor is given"):
        store.rebuild("catalogue", partitions=partitions)


@pytest.mark.parametrize("limit", [7, 5_000])
@pytest.mark.parametrize("of", [1, 5])
def test_partitions_of_a_log(place: str, of: int, limit: int) -> None:
    """Each event is in one partition, with its whole slice, in the order of the log, whatever is sealed."""
    chance, log = random.Random(of), log_at(place)
    for start in range(0, 1_100, 50):
        root = f"r{chance.randrange(4)}"
        for stream in (f"chat:a-{root}", f"chat:b-{root}"):
            append(log, stream, *map(said, range(start, start + 25)), root=root)
    log.close()
    log = log_at(place)
    assert isinstance(log, PartitionedLog)
    log.prepare_partitions()
    events, end = everything(log), log.now()

    parts = [list(_read(log, Partition(number, of), limit)) for number in range(of)]

    assert sorted((one for part in parts for one in part), key=_place) == sorted(events, key=_place)
    slices = [{one.stream.rpartition("-")[2] for one in part} for part in parts]
    assert sum(map(len, slices)) == len(set.union(*slices))
    for number, part in enumerate(parts):
        assert [one for one in events if one in part] == part if of == 5 else part == sorted(part, key=_time)
        share = Partition(number, of).share(end)
        assert share == log.partition(Partition(number, of)).now()
    log.close()


def _place(event: RecordedEvent) -> tuple[str, int]:
    return event.stream, event.version


def _time(event: RecordedEvent) -> int:
    return event.recorded_at


def _read(log: PartitionedLog, partition: Partition, limit: int) -> Iterator[RecordedEvent]:
    part, moment = log.partition(partition), BEGINNING
    while True:
        page = part.read_all(after=moment, limit=limit)
        yield from page.events
        moment = page.moment
        if len(page.events) < limit:
            assert part.read_all(after=moment, limit=limit).events == []
            return


@pytest.mark.parametrize(
    ("heads", "events"), [([], 0), ([(-1, 10)], 5), ([(0, 10)], 10), ([(0, 10), (7, 3)], 13), ([(1, 1), (2, 1)], 2)]
)
def test_how_much_is_folded(monkeypatch: pytest.MonkeyPatch, heads: list[tuple[int, int]], events: int) -> None:
    """In one sequence each of two partitions counts the events of both; slices have numbers of their own."""
    monkeypatch.setattr(partitions, "_partitions", lambda *given: [("shadow", SimpleNamespace(of=2))])
    store: Any = SimpleNamespace(checkpoint=lambda shadow: Moment(tuple(heads)))

    assert partitions.events_in_partitions(store, Counts()) == events


def test_a_log_with_a_codec_of_its_own(place: str, threads: Executor) -> None:
    """Workers would decode events otherwise, so they are left out."""

    def said(payload: dict[str, Any]) -> dict[str, Any]:
        return {"t": "chat.named.v1", "name": payload["words"], "version": 1}

    whisper(place)
    with refold.open(place) as store:
        store.contexts()
    with store_on(place, Codec(CODEC.events, mended={f"chat:newer@{number}": said for number in (3, 4)})) as store:
        assert store.rebuild("catalogue", executor=threads, partitions=2).set_aside == 0
