"""A store that is only read: everything of it is looked at, its projections too, and nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import StorageReadOnlyError, StorageUnavailableError
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.store_id import known_lineage
from refold.infrastructure.verifying import Report
from refold.projections.catalogue import CATALOGUE
from refold.projections.search import SEARCH
from tests.support.pooler import pooler
from tests.verifying.damaging import sql, told, view_of, written

KINDS = ("sqlite", "postgres", "pooled")
TABLES = "SELECT tablename FROM pg_tables WHERE schemaname = 'public' ORDER BY tablename"


@pytest.fixture(params=KINDS)
def empty(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A place where nothing is."""
    if request.param == "sqlite":
        yield str(tmp_path / "a.db")
    elif request.param == "postgres":
        yield request.getfixturevalue("pg_url")
    else:
        with pooler(request.getfixturevalue("pg_url"), size=2) as url:
            yield url


@pytest.fixture
def place(empty: str) -> str:
    """A store with some of its projections."""
    written(empty)
    return empty


def stored(place: str) -> Any:
    """Return all that is stored at a place."""
    if not place.startswith("postgresql"):
        return Path(place).read_bytes()
    return {table: sorted(map(repr, sql(place, f"SELECT * FROM {table}"))) for (table,) in sql(place, TABLES)}


def looked_at(place: str) -> Report:
    """Return what is wrong, as it is found without changing a byte."""
    before = stored(place)
    with refold.open(place, read_only=True) as store:
        report = store.verify()
    assert stored(place) == before
    return report


@pytest.mark.long
def test_nothing_is_wrong(place: str) -> None:
    """Rows that are there are right, also where the log has gone on, and those that are not there are not missing."""
    report = looked_at(place)
    assert (report.problems, report.left_out) == ((), ())
    with refold.open(place) as store:
        store.chat("a").add_message("user", "one more")

    assert looked_at(place).problems == ()


def test_rows_that_are_wrong(place: str) -> None:
    """It is the stored rows that are compared; they can be made anew, but not here."""
    sql(place, f"UPDATE {view_of(place, CATALOGUE)} SET items = 99")

    report = looked_at(place)

    assert told(report) == ["projection catalogue"]
    assert report.problems[0].repairable
    with refold.open(place, read_only=True) as store:
        assert store.check("catalogue").differing == 3
        with pytest.raises(StorageReadOnlyError, match="reading only"):
            store.verify(repair=True)


@pytest.mark.long
def test_rows_that_are_gone(place: str) -> None:
    """A table that somebody dropped is no table that was never made."""
    sql(place, f"DROP TABLE {view_of(place, CATALOGUE)}")

    assert told(looked_at(place)) == ["projection catalogue"]


def test_the_end_of_the_log_is_gone(place: str) -> None:
    """The stored rows know of more than there is."""
    [(last,)] = sql(place, "SELECT max(position) FROM event")
    sql(place, "DELETE FROM event WHERE position = ?", last)

    assert f"position {last - 1}" in told(looked_at(place))


def test_a_server_that_is_only_read(ready_pg_url: str) -> None:
    """As one that stands by: rows that were never made need no table; without that of checkpoints all are named."""
    written(ready_pg_url)
    sql(ready_pg_url, f"DROP TABLE view_search_{SEARCH.version}")
    sql(ready_pg_url, "DELETE FROM checkpoint WHERE projection = 'search'")
    only_read = f"{ready_pg_url}&options=-cdefault_transaction_read_only%3Don"
    with refold.open(only_read) as store:
        report = store.verify(processes=1)

    assert (report.events, report.problems, report.projections) == (10, (), len(PROJECTIONS))
    assert report.left_out == ()

    sql(ready_pg_url, "DROP TABLE checkpoint")
    with refold.open(only_read) as store:
        report = store.verify(processes=1)

    assert (report.events, report.problems, report.projections) == (10, (), 0)
    assert {*report.left_out} == {one.name for one in PROJECTIONS}


CHANGES: dict[str, Callable[[refold.Store, Path], object]] = {
    "append": lambda store, _: store.chat("a").add_message("user", "hello"),
    "new context": lambda store, _: store.chat("new"),
    "transaction": lambda store, _: in_transaction(store),
    "adopt": lambda store, _: store.adopt(refold.ChatContext(), "adopted"),
    "name": lambda store, _: store.name_moment("then"),
    "erase": lambda store, _: store.erase(context="a", why="ticket 7", dry_run=False),
    "hold": lambda store, _: store.hold("a", why="ticket 8"),
    "retain": lambda store, _: store.retain("chats", "90 days", kind="chat", why="notice"),
    "archive": lambda store, folder: store.archive(folder / "cold.jsonl", "a", "f", why="cold"),
    "rebuild": lambda store, _: store.rebuild("catalogue"),
    "discard": lambda store, _: store.discard_rebuild("catalogue"),
    "acknowledge": lambda store, _: acknowledge(store),
    "vacuum": lambda store, _: store.vacuum(),
    "repair": lambda store, _: store.verify(repair=True),
}


def in_transaction(store: refold.Store) -> None:
    """Change two contexts together."""
    with store.transaction():
        store.chat("a").add_message("user", "one")
        store.chat("b").add_message("user", "two")


def acknowledge(store: refold.Store) -> None:
    """Acknowledge an event."""
    with store.subscribe(name="mailer") as events:
        next(events)
        events.ack()


def test_what_would_change_it_is_refused(place: str, tmp_path: Path) -> None:
    """Each call raises the same error on each database, and leaves all as it was, also beside the store."""
    folder, before = tmp_path / "beside", stored(place)
    folder.mkdir()

    with refold.open(place, read_only=True) as store:
        for change in (*CHANGES.values(), *CHANGES.values()):
            with pytest.raises(StorageReadOnlyError, match="reading only"):
                change(store, folder)
        assert len(store.chat("a").items) == 3

    assert (stored(place), [*folder.iterdir()]) == (before, [])


def test_questions_are_answered_from_memory(place: str) -> None:
    """Also those whose rows were never stored; others who write meanwhile are seen."""
    before = stored(place)
    with refold.open(place, read_only=True) as store:
        assert [row.key for row in store.contexts()] == ["chat:a", "chat:b", "chat:f"]
        assert [row.messages for row in store.usage()] == [7]
        assert len(store.search("text")) == 4
        assert {one.behind for one in store.projections()} >= {0}
        assert stored(place) == before
        with refold.open(place) as writer:
            writer.chat("a").add_message("user", "one more text")
        assert len(store.search("text")) == 5


def test_a_queue_of_events_is_refused(place: str) -> None:
    """Nobody waits for them, and the flush says so."""
    store = refold.open(place, read_only=True, durability="enqueue")
    store.chat("a").add_message("user", "hello")
    with pytest.raises(StorageReadOnlyError, match="reading only") as caught:
        store.flush()
    assert len(caught.value.refused) == 1
    store.close()


def test_a_place_without_a_store(empty: str) -> None:
    """No table is made there."""
    with pytest.raises(StorageUnavailableError):
        refold.open(empty, read_only=True)

    if empty.startswith("postgresql"):
        assert stored(empty) == {}


@pytest.mark.long
def test_other_clients_of_a_pooler_may_write(pg_url: str) -> None:
    """What forbids changes ends with each transaction."""
    with pooler(pg_url, size=1) as url:
        written(url)
        with refold.open(url, read_only=True) as reader, refold.open(url) as writer:
            for number in range(3):
                assert len(reader.chat("a").items) == 3 + number
                writer.chat("a").add_message("user", "hello")
                assert reader.verify().problems == ()


def test_a_backup_of_it(place: str, tmp_path: Path) -> None:
    """It is taken without giving the store an id, which others do."""
    before = stored(place)
    with refold.open(place, read_only=True) as store:
        assert (store.backup(tmp_path / "a.backup").events, stored(place)) == (10, before)
    with refold.open(place) as store:
        assert store.backup(tmp_path / "a.backup").lineage == known_lineage(store._projections) != ""
