"""The runner: several projections in one pass over the log, and what a range of keys is, on every kind of store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import DamagedError
from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.ports import Page
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure.log.postgres import wire
from refold.infrastructure.projecting import runner as runner_module
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.rows import postgres_transaction
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.store import Checkpoint, Save
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.projections.catalogue import CATALOGUE
from refold.projections.contract import SelectiveProjection
from refold.projections.rollup import ROLLUP
from refold.projections.trajectory_tables import RUN_TABLES
from refold.projections.transitions import TRANSITIONS

from .telling import told

PAGE = 10


class Counting:
    """A log that counts the pages that were read of it."""

    def __init__(self, log: Any) -> None:
        self._log = log
        self.pages = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        """Read a page, and count it if there is something in it."""
        page: Page = self._log.read_all(after=after, limit=limit, until=until)
        self.pages += bool(page.events)
        return page


class WordRow(msgspec.Struct, frozen=True, kw_only=True):
    """A text, under itself."""

    key: str
    half: float


class Words:
    """Rows under the texts of messages, but for those that say nothing."""

    name, version, row = "words", 1, WordRow

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the text of a message."""
        return (event.event.content[0],) if hasattr(event.event, "content") else ()

    def evolve(self, key: str, row: WordRow | None, event: RecordedEvent) -> WordRow | None:
        """Return a row, or none."""
        return WordRow(key=key, half=event.version / 2) if key != "nothing" else None


@pytest.fixture
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of a few events, so that there are many."""
    monkeypatch.setattr(runner_module, "PAGE_EVENTS", PAGE)


def counting(store: refold.Store) -> tuple[Counting, ProjectionRunner]:
    """Return a runner on a log that counts."""
    log = Counting(store.log)
    return log, ProjectionRunner(log, store._runner._store, [])


@pytest.mark.usefixtures("small_pages")
def test_many_projections_read_the_log_once(store: refold.Store) -> None:
    """Each page is read once for all, however many they are; who is behind reads on its own until it is level."""
    told(store, *["x"] * (4 * PAGE - 1))
    log, runner = counting(store)
    runner.catch_up(ROLLUP)
    assert log.pages == 4

    runner.catch_up(CATALOGUE, ROLLUP, TRANSITIONS, *RUN_TABLES)
    assert log.pages == 8
    told(store, *["y"] * (2 * PAGE))
    runner.catch_up(CATALOGUE, ROLLUP, TRANSITIONS, *RUN_TABLES)

    assert log.pages == 10
    assert [row.version for row in runner.rows(CATALOGUE)] == [6 * PAGE]
    assert sum(row.events for row in runner.rows(ROLLUP)) == 6 * PAGE
    assert runner.rows(TRANSITIONS) == []


def test_rows_of_many_bytes_on_a_server(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is too large for one trip goes row by row, and all of it is there."""
    for module in (postgres_transaction, wire):
        monkeypatch.setattr(module, "TRIP_BYTES_MAX", 100)
    with refold.open(ready_pg_url) as store:
        for number in range(9):
            told(store, "x", context=f"c{number}")

        assert sorted(row.id for row in store.contexts()) == [f"c{number}" for number in range(9)]
        assert store.check("catalogue").differing == 0


@pytest.mark.usefixtures("small_pages")
def test_pages_without_a_row(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page does not change is not stored after every page, but after a number of them, and at the end."""
    monkeypatch.setattr(runner_module, "BARE_PAGES_MAX", 2)
    told(store, *["x"] * (5 * PAGE))
    _, runner = counting(store)
    saved: list[Moment] = []
    save = runner._store.save

    def counted(*saves: Save, **seen: Any) -> list[Checkpoint | None]:
        saved.extend(one.after for one in saves)
        return save(*saves, **seen)

    monkeypatch.setattr(runner._store, "save", counted)
    runner.catch_up(TRANSITIONS)

    assert isinstance(TRANSITIONS, SelectiveProjection)
    assert len(saved) == 2
    assert runner._store.checkpoint(TRANSITIONS) == store.now()


@pytest.mark.usefixtures("small_pages")
def test_writers_that_never_pause_are_left_behind(store: refold.Store) -> None:
    """It reads to where the log ended when it began, though every page that it reads is full."""
    told(store, *["x"] * (3 * PAGE))
    log, runner = counting(store)
    read_all = log.read_all

    def read_while_others_write(**given: Any) -> Page:
        told(store, *["y"] * PAGE)
        return read_all(**given)

    log.read_all = read_while_others_write  # type: ignore[method-assign]
    runner.catch_up(ROLLUP)

    assert log.pages <= 6


@pytest.mark.usefixtures("small_pages")
def test_a_worker_reads_the_log_once(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page is read once for all projections, and stored in one transaction."""
    told(store, *["x"] * (3 * PAGE - 1))
    saves: list[int] = []
    save = store._projections.save

    def counted(*some: Save, **seen: Any) -> list[Checkpoint | None]:
        saves.append(len(some))
        return save(*some, **seen)

    monkeypatch.setattr(store._projections, "save", counted)
    log, _ = counting(store)

    ProjectionWorker(log, store._projections, PROJECTIONS).work()

    assert (log.pages, len(saves), saves[-1]) == (3, 3, len(PROJECTIONS))
    assert {store._projections.checkpoint(one) for one in PROJECTIONS} == {store.now()}


@pytest.mark.usefixtures("small_pages")
def test_who_was_ahead_shares_pages_again(store: refold.Store) -> None:
    """However far apart they began, and though others write all the time: all end at the same moment."""
    log, runner = counting(store)
    told(store, *["x"] * PAGE)
    runner.catch_up(ROLLUP)
    told(store, *["y"] * PAGE)
    runner.catch_up(CATALOGUE)
    read_all = log.read_all

    def read_while_others_write(**given: Any) -> Page:
        told(store, "z")
        return read_all(**given)

    log.read_all = read_while_others_write  # type: ignore[method-assign]
    runner.catch_up(TRANSITIONS, CATALOGUE, ROLLUP)

    assert len({runner._store.checkpoint(one) for one in (TRANSITIONS, CATALOGUE, ROLLUP)}) == 1
    del log.read_all
    assert [row.version for row in runner.rows(CATALOGUE)] == [row.version for row in store.contexts()]
    assert sum(row.events for row in runner.rows(ROLLUP)) == store.now().events


@pytest.mark.usefixtures("small_pages")
def test_how_far_a_question_is(store: refold.Store) -> None:
    """It says after each page how many events are folded, and of how many; until nobody wants to know any more."""
    told(store, *["x"] * (3 * PAGE - 1))
    said: list[tuple[int, int]] = []
    store.on_folding(lambda done, total: said.append((done, total)))
    store.contexts()
    store.contexts()
    store.on_folding(None)
    store.rollup()

    assert said == [(PAGE, 3 * PAGE), (2 * PAGE, 3 * PAGE), (3 * PAGE, 3 * PAGE)]


def test_one_that_cannot_be_stored_stops_no_other(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are stored without it, and its error is raised then."""
    told(store, "x")
    save = store._projections.save

    def refusing(*saves: Save, **seen: Any) -> list[Checkpoint | None]:
        if any(one.projection is ROLLUP for one in saves):
            raise DamagedError("the table of rollup", "it refuses a row")
        return save(*saves, **seen)

    monkeypatch.setattr(store._projections, "save", refusing)
    with pytest.raises(DamagedError, match="rollup"):
        store._runner.catch_up(CATALOGUE, ROLLUP, TRANSITIONS)

    checkpoints = [store._projections.checkpoint(one) for one in (CATALOGUE, ROLLUP, TRANSITIONS)]
    assert checkpoints == [store.now(), BEGINNING, store.now()]


def test_no_row(store: refold.Store) -> None:
    """A projection may say that there is nothing under a key; a row may have numbers that are no whole ones."""
    told(store, "a", "nothing", "b")

    assert store._runner.rows(Words()) == [WordRow(key="a", half=1.0), WordRow(key="b", half=2.0)]


def test_rows_under_a_prefix(store: refold.Store) -> None:
    """Those whose keys begin with it, in order, and none beside; of several prefixes one after the other."""
    told(store, "b/2", "a/", "b", "b/", "b0", "b/10", "b/é", "b/\U0010ffff", "c/", "B/")

    def under(*prefixes: str) -> list[str]:
        return [row.key for row in store._runner.rows_under([Words()], prefixes)]

    assert under("b/") == ["b/", "b/10", "b/2", "b/é", "b/\U0010ffff"]
    assert under("c/", "a/", "d/") == ["c/", "a/"]
    assert under("b") == ["b", *under("b/"), "b0"]
    told(store, "a/1")
    assert under("a/") == ["a/", "a/1"]


def test_a_prefix_of_nothing(store: refold.Store) -> None:
    """Where nothing was recorded there are no rows."""
    assert store._runner.rows_under([Words(), CATALOGUE], ["a/"]) == []
