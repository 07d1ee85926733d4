"""Rebuilding: what is made anew equals what was kept, for every projection, whatever ended the work half way."""

from __future__ import annotations

from typing import Any

import pytest

import refold
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.projecting import shadow
from refold.infrastructure.projecting.shadow import RebuildProgress

from ..contract.writing import at_once
from ..support.processes import Program
from .counts import Count, Counts
from .histories import folded_rows, live_rows, projections_of, something_of_everything, stored_rows, talk_at_length
from .small_pages import SMALL_PAGE

REBUILDER = Program("tests.projecting.rebuilder")
pytestmark = pytest.mark.usefixtures("small_pages")


def recorded(store: refold.Store) -> int:
    """Return the number of events."""
    return sum(number for _, number in store.now().heads)


@pytest.mark.long
def test_rebuilt_equals_live(store: refold.Store) -> None:
    """Byte for byte, for every projection, and again when it is done a second time."""
    for seed in range(2):
        something_of_everything(store, seed)
        live_rows(store)
    live = live_rows(store)

    for _ in range(2):
        reports = [store.rebuild(name) for name in projections_of(store)]
        assert live_rows(store) == live == folded_rows(store)

    assert {report.is_done for report in reports} == {True}
    assert [(one.projection, one.rows) for one in reports] == [(one.name, one.rows) for one in store.projections()]


def test_live_rows_that_are_always_ahead(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go on with them all the time: after some attempts the rebuild says that it is not done, and they stay."""
    something_of_everything(store)
    live = live_rows(store)
    monkeypatch.setattr(type(store._projections), "replace", lambda *_, **__: False)

    assert not store.rebuild("catalogue").is_done

    assert stored_rows(store) == live
    monkeypatch.undo()
    assert store.rebuild("catalogue").is_done


def test_stopped_half_way(store: refold.Store) -> None:
    """What is read has not changed then; it goes on where it was, and begins again only where it is told to."""
    something_of_everything(store)
    live, events = live_rows(store), recorded(store)
    for name in projections_of(store):
        stopped = store.rebuild(name, stop=iter((False, True)).__next__)
        assert (stopped.is_done, stopped.events) == (False, 2 * SMALL_PAGE)
    assert live_rows(store) == live
    assert {"rollup": 2 * SMALL_PAGE}.items() <= {one.name: one.rebuilt for one in store.projections()}.items()

    assert store.rebuild("rollup").events == events - 2 * SMALL_PAGE
    assert store.rebuild("catalogue", restart=True).events == events
    for name in projections_of(store):
        assert store.rebuild(name).is_done
    assert live_rows(store) == live == folded_rows(store)
    assert {one.rebuilt for one in store.projections()} == {None}


@pytest.mark.long
def test_killed_half_way(place: str) -> None:
    """A process that rebuilds everything is killed with -9: what is read has not changed, and others can go on."""
    with refold.open(place) as store:
        something_of_everything(store)
        live, names = live_rows(store), list(projections_of(store))
        killed = REBUILDER.start(place)
        assert sorted(killed.stdout.readline().strip() for _ in names) == sorted(names)
        killed.kill()
        killed.communicate()
        assert live_rows(store) == live

        reports: dict[str, Any] = {}
        raised = at_once(*(lambda name=name: reports.update({name: store.rebuild(name)}) for name in names))

        assert (raised, {report.is_done for report in reports.values()}) == ([], {True})
        assert live_rows(store) == live == folded_rows(store)
        assert reports["rollup"].events <= recorded(store) / 2 + SMALL_PAGE


def test_what_is_written_between_the_halves(store: refold.Store) -> None:
    """It is in the result."""
    something_of_everything(store)
    for name in projections_of(store):
        store.rebuild(name, stop=lambda: True)
    something_of_everything(store, 1)

    for name in projections_of(store):
        store.rebuild(name)

    assert stored_rows(store) == folded_rows(store)


@pytest.mark.long
def test_what_is_written_meanwhile(store: refold.Store) -> None:
    """It is in the result, also where the rows that are read have it already."""
    something_of_everything(store)
    for name in projections_of(store):
        before = recorded(store)

        def write(_: object, name: str = name, before: int = before) -> None:
            if recorded(store) == before:
                talk_at_length(store, 3, f"while-{name}")
                store.rows(name)

        assert store.rebuild(name, progress=write).is_done
        assert stored_rows(store)[name] == folded_rows(store)[name]


def test_what_is_erased_meanwhile(place: str) -> None:
    """An erasure by another program drops the new rows: they are begun anew, without what was erased."""
    with refold.open(place) as store, refold.open(place) as other:
        talk_at_length(store, 3 * SMALL_PAGE)
        store.chat("secret").add_message("user", "zanzibar")
        erased: list[object] = []

        def erase(_: RebuildProgress) -> None:
            if not erased:
                erased.append(other.erase(context="secret", why="she asked", dry_run=False))

        assert store.rebuild("search", progress=erase).is_done
        assert store.search("zanzibar") == []
        assert stored_rows(store)["search"] == folded_rows(store)["search"]


def test_rows_never_go_back(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that were brought further right before the swap are not replaced by what is behind them."""
    talk_at_length(store, 10)
    rollup = projections_of(store)["rollup"]
    late: list[int] = []
    run = shadow.Build.run

    def run_and_be_late(build: shadow.Build, stop: Any) -> bool:
        is_done = run(build, stop)
        if len(late) < 3:
            late.append(talk_at_length(store, 1).version)
            store.rows("rollup")
        return is_done

    monkeypatch.setattr(shadow.Build, "run", run_and_be_late)

    assert store.rebuild("rollup").is_done
    assert late == [12, 13, 14]
    assert store._projections.checkpoint(rollup) == store.now()
    assert stored_rows(store)["rollup"] == folded_rows(store)["rollup"]


def test_stopped_while_it_catches_up(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and the rows stay the live ones."""
    talk_at_length(store, 3)
    store.rows("rollup")
    run, runs = shadow.Build.run, iter((True, False))
    monkeypatch.setattr(shadow.Build, "run", lambda build, stop: run(build, stop) and next(runs))

    assert not store.rebuild("rollup").is_done
    assert {one.name: one.rebuilt for one in store.projections()}["rollup"] == recorded(store)


def test_progress(store: refold.Store) -> None:
    """It rises to the end and never beyond it, also where more is written meanwhile."""
    talk_at_length(store, 5 * SMALL_PAGE)
    total = recorded(store)
    told: list[RebuildProgress] = []

    def write_on(progress: RebuildProgress) -> None:
        told.append(progress)
        if len(told) == 2:
            talk_at_length(store, SMALL_PAGE)

    store.rebuild("rollup", progress=write_on)

    assert [one.done for one in told] == sorted({one.done for one in told})
    assert all(one.done <= one.total and one.rate > 0 and one.seconds_left >= 0 for one in told)
    assert {one.projection for one in told} == {"rollup"}
    assert (told[0].total, told[-1].done, told[-1].seconds_left) == (total, total + SMALL_PAGE, 0)


def test_an_empty_log(store: refold.Store) -> None:
    """There is nothing to make, and nothing is wrong with that."""
    assert [store.rebuild(name).is_done for name in projections_of(store)].count(True) == len(store.projections())
    assert store.check("catalogue").is_done
    assert set(stored_rows(store).values()) == {b"\x90"}


class ByTens(Counts):
    """It counted wrong, and was mended without a new version."""

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count ten more."""
        return Count(key, (row.events if row else 0) + 10)


def test_mended_half_way(store: refold.Store) -> None:
    """A half that other code made is dropped; one that the same code made is continued."""
    talk_at_length(store, 3 * SMALL_PAGE)
    store.add_projection(ByTens())
    assert not store.rebuild("counts", stop=lambda: True).is_done
    assert store.rebuild("counts", stop=lambda: True).events == SMALL_PAGE

    mended = refold.Store(store.log, store._projections)
    mended.add_projection(Counts())

    assert mended.rebuild("counts").events == recorded(store) == 3 * SMALL_PAGE + 1
    assert mended.rows("counts") == [Count("chat:long", 3 * SMALL_PAGE + 1)]
