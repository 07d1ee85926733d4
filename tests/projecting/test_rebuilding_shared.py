"""Rebuilding while others are at it: they read, write, bring rows up to date, check, or rebuild the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import refold
from refold.domain.errors import StorageBusyError
from refold.domain.log.ports import LiveLog, Page
from refold.domain.positions import Moment
from refold.infrastructure.projecting import shadow
from refold.infrastructure.projecting.rebuild import check, rebuild
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.worker import ProjectionWorker

from ..contract.writing import append, at_once, said
from .histories import folded_rows, live_rows, projections_of, something_of_everything, stored_rows, talk_at_length
from .small_pages import SMALL_PAGE
from .watches import HandMoved

pytestmark = pytest.mark.usefixtures("small_pages")
REBUILDS = 6
REBUILDS_MAX = 200


@contextmanager
def meanwhile(*works: Callable[[], object]) -> Iterator[None]:
    """Do each of some things again and again, in a thread of its own, until the block ends; errors come out there."""
    is_over = threading.Event()
    raised: list[BaseException] = []

    def again_and_again(work: Callable[[], object]) -> None:
        try:
            # Whoever never pauses can keep others from the lock of an SQLite file for as long as they will wait.
            while not is_over.wait(0.001):
                work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=again_and_again, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert raised == []


def test_readers_see_no_gap(place: str) -> None:
    """Whoever reads rows while they are swapped sees all of them each time, in this process or by another handle."""
    with refold.open(place) as store, refold.open(place) as other:
        something_of_everything(store)
        live = live_rows(store)
        names = ("catalogue", "search", "growth")
        looks = dict.fromkeys(names, 0)

        def look(at: refold.Store) -> None:
            for name in names:
                assert stored_rows(at, name)[name] == live[name]
                looks[name] += 1

        def ask() -> None:
            assert len(other.search("question", limit=100)) == 4
            assert sum(row.kind == "pool" for row in other.contexts()) == 1

        with meanwhile(lambda: look(store), lambda: look(other), ask):
            for _ in range(REBUILDS):
                for name in names:
                    assert store.rebuild(name).is_done

        assert min(looks.values()) > REBUILDS
        assert stored_rows(other) == live


@pytest.mark.long
def test_readers_never_go_back(place: str) -> None:
    """What was seen once stays seen, while rows are rebuilt and others write and bring them up to date."""
    with refold.open(place) as store, refold.open(place) as other:
        talk_at_length(store, 5 * SMALL_PAGE)
        seen = [0]
        rollup = projections_of(store)["rollup"]

        def look() -> None:
            events = sum(row.events for row in other._projections.rows(rollup))
            assert events >= seen[-1]
            seen.append(events)

        rebuilds = 0
        with meanwhile(look, lambda: append(other.log, "chat:long", said(0)), lambda: other.rows("rollup")):
            # On a busy machine the others get their turns later.
            while rebuilds < REBUILDS or (len(set(seen)) <= REBUILDS and rebuilds < REBUILDS_MAX):
                assert store.rebuild("rollup").is_done
                rebuilds += 1

        assert len(set(seen)) > REBUILDS
        assert live_rows(store)["rollup"] == folded_rows(store)["rollup"]


def test_a_check_while_others_write(place: str) -> None:
    """However far the rows are brought meanwhile: they are compared with what was built up to the same moment."""
    with refold.open(place) as store, refold.open(place) as other:
        talk_at_length(store, 5 * SMALL_PAGE)

        with meanwhile(lambda: append(other.log, "chat:long", said(0)), lambda: other.rows("rollup")):
            reports = [store.check("rollup") for _ in range(REBUILDS)]

        assert [(report.is_done, report.differing) for report in reports] == [(True, 0)] * REBUILDS


class Restless:
    """A log to which events are added whenever somebody reads it."""

    def __init__(self, log: LiveLog, events: int) -> None:
        self._log, self._events = log, events

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        """Read a page, which is not the end any more when it is there."""
        page = self._log.read_all(after=after, limit=limit, until=until)
        append(self._log, "chat:long", *[said(number) for number in range(self._events)])
        return page


@pytest.mark.parametrize("events", [1, SMALL_PAGE])
def test_writers_never_pause(store: refold.Store, events: int) -> None:
    """Whoever brings rows up to date, rebuilds or checks comes to an end all the same."""
    talk_at_length(store, 5 * SMALL_PAGE)
    log: Any = Restless(store.log, events)
    catalogue = projections_of(store)["catalogue"]
    runner = ProjectionRunner(log, store._projections, [catalogue])

    assert runner.rows(catalogue)[0].version > 5 * SMALL_PAGE
    assert rebuild(log, store._projections, catalogue).is_done
    report = check(log, store._projections, catalogue)
    assert (report.is_done, report.differing) == (True, 0)


def test_writers_are_quicker(store: refold.Store) -> None:
    """A worker that is never up to date leaves no projection aside, and rows are as new as the question for them."""
    talk_at_length(store, 5 * SMALL_PAGE)
    log: Any = Restless(store.log, 3 * SMALL_PAGE)
    catalogue, rollup = (projections_of(store)[name] for name in ("catalogue", "rollup"))

    ProjectionWorker(log, store._projections, [catalogue, rollup]).work()
    assert store._projections.count(rollup) >= 1
    before = store.chat("long").version
    [row] = ProjectionRunner(log, store._projections, [catalogue]).rows(catalogue)
    assert row.version >= before


def test_two_at_once(place: str) -> None:
    """Whether they rebuild or check: one waits for the other, and all come to the same end."""
    with refold.open(place) as one, refold.open(place) as another:
        something_of_everything(one)
        live = live_rows(one)
        reports: list[Any] = []

        def work(store: refold.Store) -> None:
            for name in ("catalogue", "search"):
                reports.extend((store.rebuild(name), store.check(name)))

        assert at_once(lambda: work(one), lambda: work(another)) == []
        assert [(report.is_done, report.differing) for report in reports] == [(True, 0)] * 8
        assert stored_rows(one) == stored_rows(another) == live


def test_what_one_began_and_another_ended(place: str) -> None:
    """The first one makes it anew: it is not confused by what is gone; a check leaves the half of a rebuild alone."""
    with refold.open(place) as one, refold.open(place) as another:
        talk_at_length(one, 3 * SMALL_PAGE)
        live = live_rows(one)
        assert not one.rebuild("search", stop=lambda: True).is_done
        assert another.check("search").is_done

        assert another.rebuild("search").events == 2 * SMALL_PAGE + 1
        assert one.rebuild("search").events == 3 * SMALL_PAGE + 1
        assert not one.rebuild("search", stop=lambda: True).is_done
        assert another.rebuild("search", restart=True).is_done
        assert (one.check("search").differing, stored_rows(one)) == (0, live)


def test_somebody_is_at_it(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who does not want to wait for ever is told that a process rebuilds it already; a check goes on beside it."""
    monkeypatch.setattr(shadow, "PATIENCE_SECONDS", 0.1)
    with refold.open(place) as one, refold.open(place) as another:
        talk_at_length(one, 3 * SMALL_PAGE)
        told: list[str] = []

        def meddle(_: object) -> None:
            assert another.check("catalogue").is_done
            with pytest.raises(StorageBusyError) as error:
                another.rebuild("catalogue")
            told.append(str(error.value))

        assert one.rebuild("catalogue", progress=meddle).is_done
        assert len(told) == 4
        assert told[0].startswith("the projection catalogue is being rebuilt or checked by ")


def test_whoever_ends_soon_is_waited_for(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild that another one is about to end begins behind it, and raises nothing."""
    talk_at_length(store, 1)
    note, waits = "lease/catalogue_shadow", []
    assert store._projections.set_note(note, before=None, after="another.1.1")

    def let_go(seconds: float) -> None:
        waits.append(seconds)
        store._projections.set_note(note, before="another.1.1", after=None)

    monkeypatch.setattr(time, "sleep", let_go)
    rebuild(store.log, store._projections, projections_of(store)["catalogue"], watch=HandMoved(step=0.001))
    assert waits == [shadow.LOOK_SECONDS]


def test_who_stood_still_gives_up(store: refold.Store) -> None:
    """Where another process took a rebuild over meanwhile, this one ends, and what is read is as it was."""
    talk_at_length(store, 3 * SMALL_PAGE)
    live = live_rows(store)
    catalogue = projections_of(store)["catalogue"]

    def take_over(_: object) -> None:
        note = "lease/catalogue_shadow"
        assert store._projections.set_note(note, before=store._projections.note(note), after="another.1.1")

    with pytest.raises(StorageBusyError, match=r"by another\.1"):
        rebuild(store.log, store._projections, catalogue, progress=take_over, watch=HandMoved(step=1.0))
    assert (stored_rows(store), store._projections.note("lease/catalogue_shadow")) == (live, "another.1.1")
