"""A log for Citus: its tables are distributed by slice, and so is each statement, or it is meant for all servers."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator

import psycopg
import pytest

import refold
from refold.infrastructure.cli import main
from refold.infrastructure.log.postgres.schema import SEQUENTIAL
from tests.support import citus
from tests.support.every_kind import fill


@pytest.fixture
def url(pg_url: str) -> Iterator[str]:
    """A database with a stand-in for Citus, and nothing of Refold's."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute(citus.STAND_IN.encode())
        yield pg_url


def placements(url: str) -> dict[str, tuple[str, str]]:
    """Return how each table is distributed, and beside which other one."""
    with psycopg.connect(url) as connection:
        rows = connection.execute("select logicalrelid::text, partmethod, beside from pg_dist_partition")
        return {name: (method, beside) for name, method, beside in rows}


def work(url: str) -> list[tuple[str, int]]:
    """Do something of everything in a store, and return what it lists."""
    with refold.open(url) as store:
        asyncio.run(fill(store))
        with store.transaction():
            store.chat("one").add_message("user", "hello world")
            store.chat("two").add_message("user", "hello again")
        found = store.search("hello")
        store.name_moment("then")
        store.at("then").contexts()
        store.rebuild("catalogue")
        store.rebuild("search")
        assert store.verify().problems == ()
        assert len(found) == 2
        return [(row.key, row.version) for row in store.contexts()]


def test_every_table_is_placed(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Those with the slice in their primary key are co-located; those that every server needs are copied to each."""
    assert main(["init", "--citus", "--db", url]) == 0
    placed = placements(url)

    assert {name for name, (method, _) in placed.items() if method == "n"} == {
        "refold_meta", "stream", "tag", "dictionary",
    }  # fmt: skip
    assert placed["slice_lock"] == ("h", "none")
    others = {name: place for name, place in placed.items() if place[0] == "h" and name != "slice_lock"}
    assert set(others.values()) == {("h", "slice_lock")}
    assert {"event", "blob", "idempotency", "checkpoint", "note"} < others.keys()
    assert any(name.startswith("view_catalogue_") for name in others)
    with psycopg.connect(url) as connection:
        tables = connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()
    assert {name for (name,) in tables} == {*placed, "pg_dist_partition"}
    assert main(["init", "--citus", "--db", url]) == 0
    assert "is ready" in capsys.readouterr().out


def test_all_statements_keep_the_rules(url: str, ready_pg_url: str) -> None:
    """A store on a cluster answers as one on a server does; its rows are spread, and each statement gives its slice."""
    with citus.recorded() as statements:
        assert main(["init", "--citus", "--db", url]) == 0
        listed = work(url)

    assert citus.faults(statements) == {}
    assert SEQUENTIAL.sql in statements
    assert listed == work(ready_pg_url)
    made = {name for name in placements(url) if name.startswith("view_")}
    with psycopg.connect(url) as connection:
        table = next(name for name in made if name.startswith("view_catalogue_"))
        slices = connection.execute(f"select distinct slice from {table}".encode()).fetchall()
    assert len(slices) > 1


def test_a_store_that_is_there_is_distributed(url: str) -> None:
    """Its events stay; its rows are made anew, each in its own slice."""
    before = work(url)

    assert main(["init", "--citus", "--db", url]) == 0

    with refold.open(url) as store:
        assert [(row.key, row.version) for row in store.contexts()] == before
        store.chat("one").add_message("user", "more")
        assert store.verify().problems == ()


def test_a_server_without_citus_is_named(pg_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The message says what its owner must do."""
    assert main(["init", "--citus", "--db", pg_url]) == 1
    assert "CREATE EXTENSION citus" in capsys.readouterr().err


def test_a_file_cannot_be_distributed(capsys: pytest.CaptureFixture[str]) -> None:
    """And no file appears."""
    assert main(["init", "--citus", "--db", "some.db"]) == 2
    assert "--citus needs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sql", "fault"),
    [
        ("SELECT payload FROM event WHERE slice = $1 AND position > $2", None),
        ("SELECT payload FROM event WHERE stream = $1", "names event"),
        ("SELECT 1 FROM event e JOIN blob b ON b.key = e.position WHERE e.slice = $1", "names event, blob"),
        ("SELECT 1 FROM event e JOIN blob b ON b.slice = e.slice WHERE e.slice = $1", None),
        ("DELETE FROM note WHERE name = $1", "names note"),
        ("INSERT INTO event VALUES ($1, $2)", None),
        ("INSERT INTO note SELECT 0, name FROM tag", "names note"),
        ("CREATE TABLE view_a_1 (slice int, key text, PRIMARY KEY (key))", "does not hold the slice"),
        ("ALTER TABLE view_a_1 RENAME CONSTRAINT a TO b", "RENAME CONSTRAINT"),
    ],
)
def test_the_rules_notice(sql: str, fault: str | None) -> None:
    """The check of all statements can fail."""
    found = citus.fault_of(sql)

    assert found is None if fault is None else fault in str(found)


def test_a_moment_does_not_cut_a_transaction(ready_pg_url: str) -> None:
    """Where all slices are on one server, a moment has both halves of a change to two slices, or none."""
    with refold.open(ready_pg_url) as store, refold.open(ready_pg_url) as other:
        one, two = (store.chat(name, session=name) for name in ("one", "two"))
        slices = [chat.history()[0].position.slice for chat in (one, two)]
        ended = threading.Event()

        def write() -> None:
            for number in range(60):
                with store.transaction():
                    one.add_message("user", f"message {number}")
                    two.add_message("user", f"message {number}")
            ended.set()

        thread = threading.Thread(target=write)
        thread.start()
        seen: Counter[bool] = Counter()
        while not ended.is_set():
            moment = other.now()
            seen[moment.head(slices[0]) == moment.head(slices[1])] += 1
        thread.join()

    assert slices[0] != slices[1]
    assert seen[False] == 0 < seen[True]
