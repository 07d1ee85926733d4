"""Rows that go away between the moment when they are up to date and the moment when they are read."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import psycopg
import pytest

import refold
from refold.domain.errors import StorageBusyError, StorageError
from refold.domain.positions import BEGINNING
from refold.infrastructure.log.row_faults import MissingTableError
from refold.infrastructure.projecting import runner
from refold.infrastructure.projecting.runner import CATCH_UPS_MAX
from refold.infrastructure.projecting.shadow import Build, shadow_of
from refold.projections.catalogue import CATALOGUE
from refold.projections.entries import ENTRIES
from refold.projections.validity import VALIDITY

from ..contract.stores import KEYS
from .counts import Count, Counts
from .histories import something_of_everything

READS = ("load", "rows", "rows_under", "page", "search")
Question = Callable[[refold.Store], Any]


@pytest.fixture(params=["plain", "sealed"])
def stores(request: pytest.FixtureRequest, place: str) -> Iterator[list[refold.Store]]:
    """Two stores on one place, in which something of everything happened."""
    keys = None if request.param == "plain" else KEYS
    with refold.open(place, keys=keys) as store, refold.open(place, keys=keys) as other:
        something_of_everything(store)
        yield [store, other]


def before_reads(monkeypatch: pytest.MonkeyPatch, store: refold.Store, act: Callable[[], object], times: int) -> None:
    """Do something before each of the first few times that rows of a store are read after they are up to date."""
    left, rows, catch_up = [0], store._projections, store._runner.catch_up

    def caught_up(*projections: Any) -> None:
        left[0] = 0
        catch_up(*projections)
        left[0] = 1

    def acting(read: Callable[..., Any]) -> Callable[..., Any]:
        def reading(*arguments: Any, **options: Any) -> Any:
            nonlocal times
            if left[0] and times:
                left[0], times = 0, times - 1
                act()
            return read(*arguments, **options)

        return reading

    monkeypatch.setattr(store._runner, "catch_up", caught_up)
    for name in READS:
        monkeypatch.setattr(rows, name, acting(getattr(rows, name)))


QUESTIONS: dict[str, tuple[Any, Question]] = {
    "contexts": (CATALOGUE, lambda store: store.contexts()),
    "found": (CATALOGUE, lambda store: store.find_contexts(limit=2)),
    "under": (CATALOGUE, lambda store: store.rows("catalogue", under="chat:")),
    "then": (CATALOGUE, lambda store: store.at("pos:9").contexts() if not store.log.has_slices else store.contexts()),
    "validity": (VALIDITY, lambda store: store.validity("c0")),
    "entries": (ENTRIES, lambda store: store.entries("pool:b0", with_gone=True)),
    "why": (VALIDITY, lambda store: store.why_gone("c0", store.chat("c0").evicted_items()[0].item.id)),
}


@pytest.mark.parametrize("step", ["load", "save"])
def test_dropped_while_they_are_brought_up_to_date(
    stores: list[refold.Store], monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """The question begins again."""
    store, other = stores
    store.contexts()
    store.chat("late").add_message("user", "x")
    taken = getattr(store._projections, step)

    def dropping(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(store._projections, step, taken)
        other._projections.drop(CATALOGUE)
        return taken(*arguments, **options)

    monkeypatch.setattr(store._projections, step, dropping)
    assert store.contexts() == other.contexts()


@pytest.mark.parametrize("name", QUESTIONS)
def test_dropped_by_an_erasure(stores: list[refold.Store], monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """The question is asked again, and its answer is whole."""
    store, other = stores
    projection, ask = QUESTIONS[name]
    expected = ask(store)
    assert expected
    before_reads(monkeypatch, store, lambda: other._projections.drop(projection), 2)

    assert ask(store) == expected


def test_another_version(stores: list[refold.Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """A program with an older version goes on while a newer one makes the rows anew."""
    store, other = stores
    newer: Any = Counts()
    newer.version = 2
    store.add_projection(Counts())
    other.add_projection(newer)
    expected = store.rows("counts")
    before_reads(monkeypatch, store, lambda: other.rows("counts"), 3)

    assert store.rows("counts") == expected == other.rows("counts")
    assert Count("memory:b0", 2) in expected


def test_dropped_all_the_time(stores: list[refold.Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends with an error, and never with an answer that lacks them."""
    store, other = stores
    monkeypatch.setattr(runner, "READS_MAX", 3)
    before_reads(monkeypatch, store, lambda: other._projections.drop(CATALOGUE), 5)

    with pytest.raises(StorageError) as raised:
        store.contexts()
    assert not isinstance(raised.value, StorageBusyError) or "catalogue are dropped all the time" in str(raised.value)


def test_the_status_of_rows_that_go_away(stores: list[refold.Store], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are dropped after their checkpoint was read: the status says what is there then, and ends nothing."""
    store, other = stores
    rows = len(store.contexts())
    count, asked = store._projections.count, list[str]()

    def counted(projection: Any) -> int:
        if not asked:
            other._projections.drop_others()
        asked.append(projection.name)
        return count(projection)

    monkeypatch.setattr(store._projections, "count", counted)
    found = {one.name: one for one in store.projections()}

    assert {one.error for one in found.values()} == {None}
    assert rows > 0 == found["catalogue"].rows
    assert len(store.contexts()) == rows


def test_without_any_event(place: str) -> None:
    """There is nothing to wait for."""
    with refold.open(place) as store:
        assert store.contexts() == []
        assert store.search("word") == []


def test_rows_of_another_version_than_is_known(stores: list[refold.Store]) -> None:
    """An erasure cannot know what they are made of, so it drops them."""
    store, _ = stores
    newer: Any = Counts()
    newer.version = 2
    store.add_projection(newer)
    assert store.rows("counts")

    store._projections.drop_others(Counts())

    assert store._projections.rows(newer) == []


def test_a_checkpoint_whose_name_is_a_statement(place: str) -> None:
    """Who may write rows there does not choose what an erasure runs."""
    names = ("x; DROP TABLE event; --", 'x" (', "x_1, note")
    with refold.open(place) as store:
        store.chat("a")
        assert len(store.contexts()) == 1
        server: Any = sqlite3.connect(place) if place.endswith(".db") else psycopg.connect(place)
        with closing(server), server:
            for name in names:
                server.execute(
                    f"INSERT INTO checkpoint VALUES ({'' if place.endswith('.db') else '0, '}'{name}', 1, '0')"
                )

        store._projections.drop_others()

        assert (store.chat("a", create=False).version, len(store.contexts())) == (1, 1)


def test_tables_of_others_with_such_a_name(ready_pg_url: str) -> None:
    """They are no rows of projections, and stay."""
    others = [("view__event",), ("view_reports",), ("view_shop__event",)]
    with refold.open(ready_pg_url) as store, psycopg.connect(ready_pg_url, autocommit=True) as server:
        something_of_everything(store)
        assert store.contexts()
        for (name,) in others:
            server.execute(f"CREATE TABLE {name} (a int)".encode())

        store._projections.drop_others()

        found = "SELECT tablename::text FROM pg_tables WHERE tablename LIKE 'view%' ORDER BY 1"
        assert server.execute(found).fetchall() == others


def test_a_shadow_that_is_begun_while_others_are_dropped(ready_pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An erasure drops its checkpoint with its table, and the next rebuild begins anew."""
    with refold.open(ready_pg_url) as store, refold.open(ready_pg_url) as other:
        something_of_everything(store)
        rows: Any = store._projections
        rows._make_table(shadow_of(CATALOGUE))
        transact = rows._transact

        def late(work: Any) -> Any:
            assert not other.rebuild("catalogue", stop=lambda: True).is_done
            return transact(work)

        monkeypatch.setattr(rows, "_transact", late)
        rows.drop_others(CATALOGUE)

        assert other._projections.checkpoint(shadow_of(CATALOGUE)) == BEGINNING


def test_the_first_rows_come_while_they_are_dropped(ready_pg_url: str) -> None:
    """Their checkpoint goes with them."""
    with refold.open(ready_pg_url) as store, psycopg.connect(ready_pg_url) as server:
        rows: Any = store._projections
        rows._make_table(CATALOGUE)
        server.execute(f"LOCK TABLE view_catalogue_{CATALOGUE.version} IN ROW EXCLUSIVE MODE".encode())
        server.execute("INSERT INTO checkpoint VALUES (0, 'catalogue', %s, '0.1')", [CATALOGUE.version])
        dropping = threading.Thread(target=rows.drop, args=(CATALOGUE,))
        dropping.start()
        dropping.join(0.2)

        server.commit()
        dropping.join()

        assert rows.checkpoint(CATALOGUE) == BEGINNING


def test_a_rebuild_beside_many_erasures(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on after each as long as it gets further, and looks once more for rows that it cannot count."""
    with refold.open(place) as store:
        something_of_everything(store)
        run, count, failures = Build._run, store._projections.count, [2 * CATCH_UPS_MAX]

        def failing(build: Build, stop: Any, until: Any, at_once: int) -> bool:
            if failures[0]:
                failures[0] -= 1
                build.folded += 1
                raise MissingTableError("an erasure dropped it")
            return run(build, stop, until, at_once)

        def counting(projection: Any) -> int:
            monkeypatch.setattr(store._projections, "count", count)
            raise MissingTableError("an erasure dropped it")

        monkeypatch.setattr(Build, "_run", failing)
        monkeypatch.setattr(store._projections, "count", counting)

        report = store.rebuild("catalogue")

        assert (report.is_done, report.rows) == (True, len(store.contexts()))
