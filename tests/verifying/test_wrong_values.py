"""
Whatever stands in a column, whichever row or table is gone: the right answer, or an error of Refold's.

It is a sample of all cases that is tried, unless REFOLD_DEEP is 1: then it is all of them.
"""

from __future__ import annotations

import asyncio
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar
from unittest.mock import patch

import psycopg
import pytest

import refold
from refold.domain.errors import DamagedError, RefoldError, StorageError
from refold.infrastructure.log import evidence
from refold.infrastructure.log.sqlite import append, blocks, log, read, seal
from tests.support.effort import IS_DEEP
from tests.support.every_kind import fill
from tests.support.postgres import Server
from tests.verifying.answers import ANSWERS, wrong_answers
from tests.verifying.damaging import sql

T = TypeVar("T")
# A way of reading, a projection and each way of appending: a database for each case takes long enough.
SHORT = (
    "heads",
    "read_all",
    "chats",
    "contexts",
    "search",
    "append",
    "append again",
    "append both",
    "open new",
    "acknowledge",
)
# They take as long as all others together, and ask for what those ask for.
LONG = ("verify", "check", "rebuild")
VALUES = {
    "NULL": "NULL",
    "text": "'x'",
    "blob": "x'ff00'",
    "no UTF-8": "cast(x'ff' AS TEXT)",
    "negative": "-5",
    "huge": "9223372036854775807",
    "cut": "substr({column}, 1, length({column}) / 2)",
}
SQLITE_TABLES = ("stream", "tag", "event", "block", "part", "blob", "idempotency", "checkpoint", "note")
# Few answers look into these.
BESIDE = ("tag", "checkpoint", "note")
VIEWS = ("catalogue", "search", "validity", "entries", "run_table")
POSTGRES_TABLES = (
    "refold_meta", "slice_lock", "stream", "tag", "event", "blob", "idempotency", "checkpoint", "note"
)  # fmt: skip


def sampled(cases: Sequence[T], every: int) -> Sequence[T]:
    """Return one case of so many, or all of them where there is time."""
    return cases if IS_DEEP else cases[::every]


@contextmanager
def short_segments() -> Iterator[None]:
    """Let so few events be sealed as a store of a test has."""
    with ExitStack() as patches:
        for module in (evidence, append, blocks, log, read, seal):
            patches.enter_context(patch.object(module, "SEGMENT", 16))
        yield


def write_all(place: str) -> None:
    """Write some of everything, and have everything asked: so all projections have rows, and some notes are there."""
    with refold.open(place) as store:
        asyncio.run(fill(store))
        store.name_moment("before")
    with refold.open(place) as store:
        for answer in ANSWERS.values():
            answer(store)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store on SQLite with events in rows and in blocks, to be copied."""
    path = tmp_path_factory.mktemp("whole") / "store.db"
    with short_segments():
        write_all(str(path))
        assert sql(str(path), "SELECT count(*) > 3 FROM block") == [(1,)]
        yield path


def told_of(label: str, place: str, without: Collection[str] = ()) -> Counter[type[Exception]]:
    """Ask everything, require errors of Refold's alone, and count them by type."""
    errors = dict(wrong_answers(place, without))
    wrong = {name: error for name, error in errors.items() if not isinstance(error, RefoldError)}
    assert wrong == {}, label
    # A message says what is wrong, and behind it what to do.
    faults = [error for error in errors.values() if isinstance(error, DamagedError | StorageError)]
    assert all(re.search(r": .+", str(error)) for error in faults), label
    return Counter(type(error) for error in errors.values())


def changed(whole: Path, place: Path, table: str, column: str, value: str, end: str) -> bool:
    """Copy a store and put a value into one column of its first or its last row; say whether it is there now."""
    shutil.copy(whole, place)
    key = sql(str(place), f"SELECT name FROM pragma_table_info('{table}') WHERE pk = 1")[0][0]
    with closing(sqlite3.connect(place, isolation_level=None)) as opened:
        opened.execute("PRAGMA writable_schema = 1")
        opened.execute("UPDATE sqlite_schema SET sql = replace(sql, ' NOT NULL', '') WHERE name = ?", (table,))
    with closing(sqlite3.connect(place, isolation_level=None)) as opened, suppress(sqlite3.IntegrityError):
        row = f'"{key}" = (SELECT {end}("{key}") FROM {table})'
        wanted = value.format(column=f'"{column}"')
        return opened.execute(f'UPDATE OR REPLACE {table} SET "{column}" = {wanted} WHERE {row}').rowcount > 0
    return False


def columns_of(whole: Path, table: str) -> list[str]:
    """Return the columns of a table."""
    return [row[0] for row in sql(str(whole), f"SELECT name FROM pragma_table_info('{table}')")]


@pytest.mark.parametrize("table", SQLITE_TABLES)
def test_values_on_sqlite(whole: Path, tmp_path: Path, table: str) -> None:
    """Of every type, in every column of the log's tables and of those beside the projections."""
    names = ("NULL", "blob", "no UTF-8") if table in BESIDE else tuple(VALUES)
    cases = [(column, name) for column in columns_of(whole, table) for name in names]
    counts: Counter[type[Exception]] = Counter()
    # Of seven values each column gets another one.
    for number, (column, name) in enumerate(sampled(cases, 8 if len(names) == len(VALUES) else 2)):
        place = tmp_path / f"{column} {name}.db"
        if changed(whole, place, table, column, VALUES[name], ("min", "max")[number % 2]):
            counts += told_of(f"{name} in {column}", str(place), LONG if name != "NULL" or not IS_DEEP else ())

    assert counts[DamagedError] > 0 or table in BESIDE


@pytest.mark.parametrize("view", VIEWS)
def test_values_in_projections_on_sqlite(whole: Path, tmp_path: Path, view: str) -> None:
    """The projection is named, and how to make it anew, which mends it."""
    values = ("'x'", "cast(x'ff' AS TEXT)")
    cases = [(column, value) for column in columns_of(whole, f"view_{view}") for value in values]
    mended = 0
    for column, value in sampled(cases, 11):
        place = tmp_path / f"{mended} {column}.db"
        if changed(whole, place, f"view_{view}", column, value, "min"):
            told_of(f"{value} in {column}", str(place), LONG)
            with refold.open(place) as store:
                assert store.rebuild(view).is_done
                assert store.rows(view)
            mended += 1
    assert mended > (6 if IS_DEEP else 0)


@pytest.mark.parametrize("view", VIEWS)
def test_a_projection_with_a_text_for_a_number(whole: Path, tmp_path: Path, view: str) -> None:
    """It says so, whatever is done with the rows."""
    place = str(shutil.copy(whole, tmp_path / "store.db"))
    numbers = sql(
        place, f"SELECT name FROM pragma_table_info('view_{view}') WHERE type = 'INTEGER' AND name != 'number'"
    )
    sql(place, f"UPDATE view_{view} SET {numbers[0][0]} = 'many'")

    with refold.open(place) as store:
        with pytest.raises(DamagedError, match=f"the table of {view} is damaged: 'many' is in its column .*`rebuild`"):
            store.rows(view)
        assert [one.where for one in store.verify(repair=True).problems] == [view]
        assert store.rows(view)


# Nobody needs these, or they are made anew.
HARMLESS = [
    *("DROP TABLE checkpoint", "DROP TABLE note", "DROP INDEX block_segment"),
    *(f"DELETE FROM {table}" for table in ("tag", "idempotency", "checkpoint", "note")),
]
REST = [f"DROP TABLE {table}" for table in SQLITE_TABLES] + [f"DELETE FROM {table}" for table in SQLITE_TABLES]
REST += [
    f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})" for table in ("stream", "event", "block")
]
REST += [
    f"DELETE FROM {table} WHERE rowid = (SELECT max(rowid) FROM {table})" for table in ("stream", "event", "block")
]
REST += [f"DROP TABLE view_{view}" for view in VIEWS]
REST += ["DROP INDEX block_segment", "DROP TABLE view_search_words"]
REST += ["UPDATE checkpoint SET moment = 'nowhere'", "UPDATE checkpoint SET moment = '999999999999999999999'"]
REST += ["UPDATE note SET value = 'nothing'"]


@pytest.mark.parametrize("statement", sampled(REST, 4))
def test_rows_and_tables_that_are_gone_on_sqlite(whole: Path, tmp_path: Path, statement: str) -> None:
    """One row, all rows of a table, or the table, its index, its trigger."""
    place = str(shutil.copy(whole, tmp_path / "store.db"))
    sql(place, statement)

    counts = told_of(statement, place, () if "view" in statement or "TABLE" in statement else LONG)

    assert (sum(counts.values()) > 0) == (statement not in HARMLESS)


@pytest.fixture(scope="module")
def template(pg_server: Server) -> Iterator[str]:
    """The name of a database with some of everything, to be copied."""
    with pg_server.database() as url:
        write_all(url)
        yield psycopg.conninfo.conninfo_to_dict(url)["dbname"]  # type: ignore[misc]  # it has one


def changes_of(url: str, table: str) -> Iterator[tuple[str, list[str]]]:
    """Yield what can be done to each column of a table: what it is called, and the statements for it."""
    asked = "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = ?"
    for column, kind in sql(url, asked, table):
        is_number = kind in ("integer", "bigint")
        last = f"ctid = (SELECT max(ctid) FROM {table})" if table != "note" else "name LIKE 'subscription/%'"
        unbound = f"ALTER TABLE {table} ALTER {column} DROP NOT NULL"
        yield f"NULL in {column}", [unbound, f"UPDATE {table} SET {column} = NULL WHERE {last}"]
        if is_number:
            most = (1 << 31) - 1 if kind == "integer" else (1 << 63) - 1
            for number in (most, -5):
                yield f"{number} in {column}", [f"UPDATE {table} SET {column} = {number} WHERE {last}"]
        elif kind == "bytea":
            yield f"nothing in {column}", [f"UPDATE {table} SET {column} = '' WHERE {last}"]
        else:
            yield (
                f"a text in {column}",
                [f"ALTER TABLE {table} ALTER {column} TYPE text", f"UPDATE {table} SET {column} = 'x' WHERE {last}"],
            )
    yield "no table", [f"DROP TABLE {table}"]
    yield "no rows", [f"DELETE FROM {table}"]


@pytest.mark.parametrize("table", POSTGRES_TABLES)
def test_values_on_postgres(pg_server: Server, template: str, table: str) -> None:
    """The server refuses values of other types; those that it takes, and tables that were altered, are told of."""
    counts: Counter[type[Exception]] = Counter()
    for label, statements in sampled(list(changes_of(pg_server.url(template), table)), 8):
        with pg_server.database(template) as url:
            # What a key forbids the server refuses.
            with suppress(psycopg.Error):
                for statement in statements:
                    sql(url, statement)
            counts += told_of(f"{label} of {table}", url, [name for name in ANSWERS if name not in SHORT])

    assert sum(counts.values()) > 0 or not IS_DEEP


def test_each_answer_answers(whole: Path, tmp_path: Path) -> None:
    """In a store that is whole nothing fails, so that what fails elsewhere says something."""
    found: Any = dict(wrong_answers(str(shutil.copy(whole, tmp_path / "store.db"))))
    assert found == {}
