"""Stores of an earlier version: their keys replay as before, and they are brought forward when they are opened."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import psycopg
import pytest

import refold
from refold.domain.chat.events import Opened
from refold.domain.errors import DamagedError, InvalidInputError, StorageUnavailableError
from refold.infrastructure.exchange.restore import restore
from refold.infrastructure.log.postgres import schema as postgres_schema
from refold.infrastructure.log.sqlite import schema as sqlite_schema
from tests.contract.stores import log_at
from tests.contract.writing import append, said
from tests.verifying.damaging import bytes_of_log, sql, told, verified

READ_VERSION = {True: "SELECT value FROM refold_meta WHERE name = 'schema_version'", False: "PRAGMA user_version"}
MAKE_OLD = {
    True: (
        "UPDATE refold_meta SET value = '1' WHERE name = 'schema_version'",
        "ALTER TABLE event RENAME COLUMN stream_key TO stream",
        "DROP TABLE block, part",
    ),
    False: ("PRAGMA user_version = 1",),
}
NEWEST = {True: postgres_schema.SCHEMA_VERSION, False: sqlite_schema.SCHEMA_VERSION}


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store of version 1 lies: with a key, and nothing that says which call it stands for."""
    place = str(tmp_path / "store.db") if request.param == "sqlite" else str(request.getfixturevalue("pg_url"))
    log = log_at(place)
    append(log, "chat:a", Opened(), root="a")
    append(log, "chat:a", said(1, ("pay 10",)), key="k")
    log.close()
    make_old(place)
    return place


def make_old(place: str) -> None:
    """Give a store the tables of version 1."""
    for statement in MAKE_OLD[is_postgres(place)]:
        sql(place, statement)


def is_postgres(place: str) -> bool:
    """Return whether a store lies on PostgreSQL."""
    return place.startswith("postgresql")


def version(place: str) -> int:
    """Return the version of the tables."""
    return int(sql(place, READ_VERSION[is_postgres(place)])[0][0])


def test_an_older_store_is_brought_forward(place: str) -> None:
    """By whoever opens it to write: its events stay as they are, and what comes then says of which call it is."""
    before = bytes_of_log(place)

    with refold.open(place) as store:
        store.chat("a").add_message("user", "pay 20", idempotency_key="new")

    assert version(place) == NEWEST[is_postgres(place)]
    assert bytes_of_log(place)["event"][: len(before["event"])] == before["event"]
    with refold.open(place) as store, pytest.raises(refold.IdempotencyError):
        store.chat("a").add_message("user", "pay 30", idempotency_key="new")
    assert told(verified(place)) == []


def test_an_older_key_replays_as_before(place: str) -> None:
    """Nobody knows which call it was, so whichever comes is taken for it."""
    with refold.open(place) as store:
        chat = store.chat("a")
        for text in ("pay 10", "pay 99"):
            assert chat.add_message("user", text, idempotency_key="k").id == "m1"
        with store.transaction(idempotency_key="k"):
            chat.add_message("user", "pay 99")

        assert [message.content for message in chat.messages()] == [["pay 10"]]


def test_an_older_file_that_is_only_read(tmp_path: Path) -> None:
    """It is read as it is, and stays so; also by a backup, and by a restore that finds events in it."""
    place = str(tmp_path / "store.db")
    log = log_at(place)
    append(log, "chat:a", Opened(), root="a")
    append(log, "chat:a", said(1), key="k")
    log.close()
    make_old(place)
    before = Path(place).read_bytes()

    with refold.open(place, read_only=True) as store:
        assert len(store.chat("a").items) == 1
        assert store.verify().is_whole
        store.backup(tmp_path / "store.backup")
    with pytest.raises(InvalidInputError, match="has events"):
        restore(tmp_path / "store.backup", place)

    assert (version(place), Path(place).read_bytes()) == (1, before)


def test_an_older_log_that_may_not_be_written(pg_url: str) -> None:
    """On a server that takes no writing, such as a standby, it is refused: the tables cannot be made there."""
    log_at(pg_url).close()
    make_old(pg_url)

    with pytest.raises(StorageUnavailableError, match="let their owner run `refold init`"):
        log_at(f"{pg_url}&options=-cdefault_transaction_read_only%3Don")

    assert version(pg_url) == 1


def test_a_store_of_a_newer_version(tmp_path: Path) -> None:
    """It is refused, and not touched: so does a Refold of version 1 with one of version 2."""
    place = str(tmp_path / "store.db")
    log_at(place).close()
    sql(place, "PRAGMA user_version = 3")

    with pytest.raises(StorageUnavailableError, match="was written by a newer Refold: update this one"):
        refold.open(place)

    assert version(place) == 3
    sql(place, "PRAGMA user_version = -5")
    with pytest.raises(DamagedError, match="its tables have the version -5"):
        refold.open(place)


STEP = ("CREATE TABLE added (one int)", "INSERT INTO added VALUES (3)")


@pytest.mark.parametrize("fails", [False, True])
def test_steps_to_a_newer_version(place: str, fails: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them are taken in one transaction, by one process; where one fails, the store is what it was."""
    for module in (postgres_schema, sqlite_schema):
        newer = NEWEST[module is postgres_schema] + 1
        monkeypatch.setattr(module, "SCHEMA_VERSION", newer)
        monkeypatch.setitem(module.STEPS, newer, (*STEP, *(["INSERT INTO nowhere VALUES (1)"] * fails)))
    if fails:
        with pytest.raises(StorageUnavailableError, match="nowhere"):
            refold.open(place)
        assert version(place) == 1
        with pytest.raises((psycopg.errors.UndefinedTable, sqlite3.OperationalError)):
            sql(place, "SELECT one FROM added")
        return

    refold.open(place).close()
    refold.open(place).close()

    assert version(place) == NEWEST[is_postgres(place)] + 1
    assert sql(place, "SELECT one FROM added") == [(3,)]
