"""What lies beside events and projections: names of types, idempotency keys, and the index of what is searched."""

from __future__ import annotations

import sqlite3
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import psycopg
import pytest

import refold
from refold.domain.chat.context import ChatContext
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import Call
from refold.infrastructure.projecting.rows import sqlite as sqlite_rows
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys
from refold.projections.search import SEARCH
from tests.verifying.damaging import rows_of, sql, told, verified, view_of, written


@pytest.fixture
def place(place: str) -> str:
    """Where a store lies with some chats, one of which took a call with a key, and with texts of every sort."""
    return filled(place)


def filled(place: str) -> str:
    """Return the place of a store, once it is filled."""
    written(place)
    with refold.open(place) as store:
        chat = store.chat("keyed")
        with refold.acting(actor="mia"):
            chat.add_message("user", "Once, \x00 over; ÉCLAIR 漢字 thrice thrice " + "long" * 50, idempotency_key="k1")
        chat.add_message("user", "?!")
        chat.add_message("assistant", "again " * 400)
        assert store.search("thrice")
    return place


def test_nothing_is_wrong(place: str) -> None:
    """Whatever words there are, and where there are none."""
    assert told(verified(place)) == []


def test_a_type_without_a_name(place: str) -> None:
    """Each of its events is named."""
    [(tag,)] = sql(place, f"SELECT tag FROM event WHERE {rows_of(place, 'chat:f')} AND version = 1")
    sql(place, "DELETE FROM tag WHERE key = ?", tag)

    report = verified(place)

    assert told(report) == ["row chat:f@1"]
    assert report.problems[0].reason == f"there is no row with the name of its type, {tag}"


@pytest.mark.parametrize("last", [0, 5, 99])
def test_a_key_of_what_is_not_there(place: str, last: int) -> None:
    """The context, the key, and which versions it names."""
    first = 2 if last == 0 else last
    sql(place, "UPDATE idempotency SET first_version = ?, last_version = ?", first, last)

    report = verified(place)

    assert told(report) == ["row chat:keyed"]
    assert report.problems[0].reason == f"its key 'k1' names versions {first} to {last}, and it ends at version 4"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("DELETE FROM idempotency", "its key 'k1' has no row, and versions 2 to 2 were recorded under it"),
        (
            "UPDATE idempotency SET first_version = 3, last_version = 3",
            "its key 'k1' names versions 3 to 3, and 2 to 2 were recorded under it",
        ),
        (
            "UPDATE idempotency SET key = 'k2'",
            "its key 'k2' names versions 2 to 2, and none were recorded under it",
        ),
    ],
)
def test_a_key_that_says_something_else(place: str, change: str, reason: str) -> None:
    """What the events say was recorded under each key is what the rows must say."""
    sql(place, change)

    report = verified(place)

    assert (told(report)[0], report.problems[0].reason) == ("row chat:keyed", reason)
    assert not any(problem.repairable for problem in report.problems)


def test_a_repetition_by_a_row_that_lies(place: str) -> None:
    """What was not recorded under a key is not given for it."""
    sql(place, "UPDATE idempotency SET first_version = 3, last_version = 3")

    with refold.open(place) as store, pytest.raises(refold.DamagedError, match="were not recorded under it"):
        store.chat("keyed").add_message("user", "x", idempotency_key="k1")


def test_keys_that_need_no_row(place: str) -> None:
    """A context that was adopted, and one that an earlier version wrote keep the keys of calls made elsewhere."""
    detached = ChatContext()
    detached.add_message("user", "x", idempotency_key="k")
    with refold.open(place) as store:
        store.adopt(detached, "adopted")
        assert detached.recorded_events()[-1].meta.idempotency_key == "k"

    assert told(verified(place)) == []


def test_another_fingerprint(tmp_path: Path) -> None:
    """It is covered by the digest, so that no call can be made to pass for another."""
    place = filled(str(tmp_path / "store.db"))
    [(position, meta)] = sql(
        place, f"SELECT position, meta FROM event WHERE {rows_of(place, 'chat:keyed')} AND version = 2"
    )
    sql(place, "UPDATE event SET meta = ? WHERE position = ?", meta[:-1] + bytes([meta[-1] ^ 1]), position)

    assert [where for where in told(verified(place)) if where.startswith("event")] == ["event chat:keyed@2"]


def unindexed() -> tuple[str, str, str]:
    """
    Return statements that leave a row out of the index, put words more into it, and, of a row that was left out, as
    many words as it has.
    """
    table = view_of("", SEARCH)
    # A short row is stored plainly, behind a NUL.
    words = "CAST(substr(words, 2) AS TEXT)"
    row = f"FROM {table} WHERE key = (SELECT min(key) FROM {table} WHERE length(words) > 1)"
    taken_out = f"INSERT INTO {table}_words ({table}_words, rowid, words) SELECT 'delete', number, {words} {row}"
    put_in = f"INSERT INTO {table}_words (rowid, words) SELECT number, "
    return taken_out, f"{put_in} 'another' {row}", f"{put_in} 'un' || {words} {row}"


@pytest.mark.parametrize("numbers", [(0,), (1,), (0, 2)])
def test_an_index_that_says_something_else(tmp_path: Path, numbers: tuple[int, ...]) -> None:
    """On SQLite: that it is another than its rows is found, though the rows are right; and it is made anew."""
    place = filled(str(tmp_path / "store.db"))
    for number in numbers:
        sql(place, unindexed()[number])

    report, repaired, after = verified(place), verified(place, repair=True), verified(place)

    assert told(report) == ["projection search"]
    assert report.problems[0].reason == "1 rows are not in its index as they are"
    assert (repaired.is_whole, after.problems) == (True, ())


def test_an_index_of_more(tmp_path: Path) -> None:
    """On SQLite, where it is a table of its own, it may name a row that is not there, or be gone."""
    place, table = filled(str(tmp_path / "store.db")), view_of("", SEARCH)
    sql(place, f"INSERT INTO {table}_words (rowid, words) VALUES (999, 'nobody')")
    assert told(verified(place, repair=True)) == ["projection search"]
    assert verified(place).is_whole

    sql(place, f"DROP TABLE {table}_words")
    assert told(verified(place, repair=True)) == ["projection search"]
    assert verified(place).is_whole


def test_an_index_without_the_places_of_its_pages(tmp_path: Path) -> None:
    """On SQLite: a search finds no word of a page whose first word is not noted, though a scan reads the page."""
    place, table = str(tmp_path / "store.db"), view_of("", SEARCH)
    with refold.open(place) as store:
        store.chat("long").add_message("user", " ".join(f"word{number}" for number in range(3_000)))
        assert store.search("word2999")
        assert store.verify().is_whole
    ((first,),) = sql(place, f"SELECT max(term) FROM {table}_words_idx")
    sql(place, f"DELETE FROM {table}_words_idx WHERE term = ?", first)

    assert told(verified(place, repair=True)) == ["projection search"]
    assert verified(place).is_whole
    with refold.open(place) as store:
        assert store.search("word2999")


def test_words_that_ask_for_a_dictionary(tmp_path: Path) -> None:
    """Words are compressed without, so the rows are damaged; they are made anew."""
    place = filled(str(tmp_path / "store.db"))
    sql(place, f"UPDATE {view_of('', SEARCH)} SET words = x'020007616263'")

    with refold.open(place) as store:
        with pytest.raises(refold.DamagedError, match=r"dictionary 7 is damaged: there are none for words.*`rebuild`"):
            store.rows("search")
        assert store.rebuild("search").is_done
        assert store.search("thrice")


def test_words_that_are_no_text(tmp_path: Path) -> None:
    """The rows are damaged, whoever reads them: no event is to blame for that."""
    place, table = filled(str(tmp_path / "store.db")), view_of("", SEARCH)
    sql(place, f"UPDATE {table} SET words = x'00ff'")
    [(key,)] = sql(place, f"SELECT min(key) FROM {table}")

    with refold.open(place) as store:
        rows = store._projections
        for read in (lambda: store.rows("search"), lambda: store.search("thrice"), lambda: rows.load(SEARCH, [key])):
            with pytest.raises(refold.DamagedError, match=r"the table of search is damaged.*`rebuild`"):
                read()
        assert store.rebuild("search").is_done
        assert store.search("thrice")


def test_a_note_that_is_no_text(tmp_path: Path) -> None:
    """It is named, with what to do; nothing is read from it."""
    place = filled(str(tmp_path / "store.db"))
    [(name,)] = sql(place, "SELECT min(name) FROM note")
    sql(place, "UPDATE note SET value = x'ff' WHERE name = ?", name)

    with refold.open(place) as store:
        says = rf"the note {name} is damaged: b'\\xff' is no text.*delete its row from the table note"
        with pytest.raises(refold.DamagedError, match=says):
            store._projections.note(name)
        sql(place, "DELETE FROM note WHERE name = ?", name)
        assert store._projections.note(name) is None


def test_notes_that_are_null_or_do_not_open(ready_pg_url: str) -> None:
    """They are not taken for notes that are not there, after which a subscription would begin anew."""
    keys = MasterKeys({"m1": bytes(KEY_BYTES)})
    with refold.open(ready_pg_url, keys=keys) as store:
        store.chat("a").add_message("user", "Hello.")
        events = store.subscribe(name="mail")
        next(events)
        events.ack()
    for change, says in (
        ("value = 'x'", "it does not open with the key of the store"),
        ("value = NULL", "None is no text"),
    ):
        with psycopg.connect(ready_pg_url) as connection:
            connection.execute("ALTER TABLE note ALTER value DROP NOT NULL")
            connection.execute(f"UPDATE note SET {change} WHERE name = 'subscription/mail'".encode())
        wrong = f"the note subscription/mail is damaged: {says}; delete its row from the table note"
        with refold.open(ready_pg_url, keys=keys) as store, pytest.raises(refold.DamagedError, match=wrong):
            next(store.subscribe(name="mail"))


def test_a_disk_that_fails_under_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows are not to blame, so nobody is told to make them anew."""

    def fail(*_: object) -> NoReturn:
        failed = sqlite3.OperationalError("disk I/O error")
        failed.sqlite_errorcode = sqlite3.SQLITE_IOERR
        raise failed

    with refold.open(filled(str(tmp_path / "store.db"))) as store:
        monkeypatch.setattr(type(store._projections), "_moment", fail)

        with pytest.raises(refold.StorageError, match=r"^the disk of .*store\.db failed: disk I/O error"):
            store._projections.rows(SEARCH)


def test_an_interrupt_is_no_fault_of_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while the words of rows are compared ends the check; nobody is told to make the rows anew."""

    def interrupt(*_: object) -> NoReturn:
        raise KeyboardInterrupt

    with refold.open(filled(str(tmp_path / "store.db"))) as store:
        assert store.search("thrice")
        monkeypatch.setattr(sqlite_rows, "expanded_bytes", interrupt)

        with pytest.raises(KeyboardInterrupt):
            store.verify()


def test_many_keys_on_postgres() -> None:
    """No statement looks at all slices, and none is left out: the wire gives up a server that is silent for long."""
    asked: list[Call] = []

    def ask(call: Call) -> list[Any]:
        asked.append(call)
        return [[]]

    log: Any = PostgresLog.__new__(PostgresLog)
    log.database = SimpleNamespace(ask=ask)
    assert [*log.damaged_rows()] == []
    for statement in {one.sql for one in asked}:
        own = [one for one in asked if one.sql == statement]
        bounds = [[int.from_bytes(end or b"", signed=True) for end in one.values] for one in own]
        assert (len(bounds), bounds[0][0], bounds[-1][1]) == (16, -(1 << 31), (1 << 31) - 1)
        assert all(lower[1] + 1 == upper[0] for lower, upper in pairwise(bounds))
