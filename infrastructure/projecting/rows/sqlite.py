"""
Rows of projections on SQLite: the connection, its errors, and the tables of this database.

Searched rows have an index, FTS5 over their words. Triggers keep it up to date within the same transaction. The words
are separated by blanks, and the tokenizer `ascii` splits them only there: it treats all other characters as letters.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, partial
from typing import TypeVar

import msgspec

from ....domain.errors import DamagedError, StorageError, StorageUnavailableError
from ....domain.log.envelope import RecordedEvent
from ....domain.positions import BEGINNING, Moment
from ....domain.words import Term
from ....projections.contract import Projection, SearchedRow, SearchQuery
from ...log.row_faults import REBUILD, opening
from ...log.sqlite.connection import translated
from ...log.sqlite.log import SqliteLog
from ...log.sqlite.read import stored_digest
from ..store import Checkpoint, ProjectionStore, Values, candidates_max, twice_made
from .checkpoints import CHECKPOINT, DELETE_NOTE, NOTE, PUT_NOTE, Stored, moment_of, text_noted
from .database import (
    DatabaseProjectionStore,
    Dialect,
    Statement,
    Transaction,
    Work,
    columns,
    searched_columns,
    without_nul,
)

T = TypeVar("T")
ROWS_AT_ONCE = 10_000
SCRATCH, SCRATCH_CACHE_KIB = "the temporary rows", 16_384
KEYS_MAX = 500
CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS checkpoint (projection TEXT PRIMARY KEY, version INTEGER NOT NULL,"
    " moment TEXT NOT NULL)"
)
NOTES = "CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
COLUMNS = 'SELECT name, type, "notnull" FROM pragma_table_info(?)'
# A missing table or column, an index whose own tables were changed, or text that is not UTF-8.
BROKEN_TABLE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT_VTAB)
# How the tokenizer reads the characters of ASCII.
BORDERS = {code: chr(code).lower() if chr(code).isalnum() else " " for code in range(128)}
FIND = """
    WITH within (stream, last) AS MATERIALIZED
        (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?))
    SELECT {columns}
    FROM {table}_words JOIN {table} AS r ON r.number = {table}_words.rowid
    WHERE {table}_words MATCH ?
        AND (? IS NULL OR r.kind = ?)
        AND (? IS NULL
            OR EXISTS (SELECT 1 FROM within WHERE within.stream = r.stream AND r.version <= within.last))
    -- Rows get their numbers in the order of the log, and the index is read backwards until there are enough.
    ORDER BY {table}_words.rowid DESC
    LIMIT ?
"""


class _Transaction:
    def __init__(self, connection: sqlite3.Connection, *, has_nul: bool = True) -> None:
        self.connection, self._has_nul = connection, has_nul

    def ask(self, *statements: Statement) -> list[list[Values]]:
        return [self.connection.execute(*one).fetchall() for one in statements]

    def put(self, projection: Projection, rows: Iterable[msgspec.Struct]) -> None:
        put_row = SqliteProjectionStore.sql.put_rows(projection, 1)
        values: Iterable[Values] = map(msgspec.structs.astuple, rows)
        if not self._has_nul:
            values = ([without_nul(one) for one in row] for row in values)
        self.connection.executemany(put_row, values)


class SqliteProjectionStore(DatabaseProjectionStore):
    """One table per projection, named `view_` and the projection's name."""

    sql = Dialect(
        mark="?",
        types={int: "INTEGER", str: "TEXT", bytes: "BLOB", float: "REAL"},
        rows_at_once=(KEYS_MAX,),
        add="INSERT OR REPLACE",
    )

    def __init__(self, log: SqliteLog) -> None:
        self._log = log

    def _lent(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection that sees one state of the database."""
        return self._log.database.reading()

    @contextmanager
    def _reading(self, projection: Projection) -> Iterator[sqlite3.Connection]:
        """Lend a connection; name the projection where its rows or its index cannot be read."""
        with self._lent() as connection, self._named(projection):
            yield connection

    @contextmanager
    def _named(self, projection: Projection) -> Iterator[None]:
        what = f"the table of {projection.name}"
        with opening(what, remedy=REBUILD):
            try:
                yield
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) not in BROKEN_TABLE:
                    raise
                raise DamagedError(what, f"it cannot be read ({error})", remedy=REBUILD) from error

    def checkpoints(self, *projections: Projection) -> list[Checkpoint]:
        found = []
        for projection in projections:
            with self._reading(projection) as connection:
                if _has_table(connection, "checkpoint") and _has_table(connection, "note"):
                    found += self._stored(_Transaction(connection), projection)
                else:
                    # Both are made with the first rows, but one of them may have been dropped since.
                    found.append(Stored(Checkpoint(self._moment(connection, projection)), False))
        return [one.checkpoint for one in found]

    def _moment(self, connection: sqlite3.Connection, projection: Projection) -> Moment:
        if not _has_table(connection, "checkpoint"):
            return BEGINNING
        statement = self.sql.statement(CHECKPOINT, projection.name, of=projection)
        return moment_of(projection, connection.execute(*statement).fetchall())

    def columns(self, projection: Projection) -> dict[str, str] | None:
        with self._reading(projection) as connection:
            # A table of an older version is replaced with the first rows of this one.
            if self._moment(connection, projection) == BEGINNING:
                return None
            return self.sql.stored_columns(projection.row, connection.execute(COLUMNS, (self.sql.table(projection),)))

    def _ask(self, projection: Projection, *statements: Statement) -> list[list[Values]]:
        with self._reading(projection) as connection:
            # Without a checkpoint the table may be missing, or belong to an older version.
            if self._moment(connection, projection) == BEGINNING:
                return [[] for _ in statements]
            return _Transaction(connection).ask(*statements)

    def walk(self, projection: Projection, visit: Callable[[Moment, Iterator[list[Values]]], T]) -> T:
        with self._lent() as connection:
            # An error of `visit` is not one of these rows.
            def ask(statement: Statement) -> list[Values]:
                with self._named(projection):
                    return connection.execute(*statement).fetchall()

            with self._named(projection):
                moment = self._moment(connection, projection)
            return visit(moment, iter(()) if moment == BEGINNING else self._pages(projection, ask))

    def _ask_notes(self, statement: Statement) -> list[Values]:
        with self._lent() as connection:
            return connection.execute(*statement).fetchall() if _has_table(connection, "note") else []

    def _transact(self, work: Work) -> list[list[Values]] | None:
        def carried_out(connection: sqlite3.Connection) -> list[list[Values]] | None:
            transaction = _Transaction(connection)
            transaction.ask(Statement(CHECKPOINTS), Statement(NOTES))
            last = work(transaction)
            return None if last is None else transaction.ask(*last)

        return self._log.write(carried_out)

    def _locked(
        self, transaction: Transaction, *projections: Projection, seen: Sequence[RecordedEvent] = ()
    ) -> list[Stored] | None:
        assert isinstance(transaction, _Transaction)
        if any(stored_digest(transaction.connection, one.stream, one.version) != one.digest for one in seen):
            return None
        return self._stored(transaction, *projections)

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        def change(transaction: Transaction) -> Iterable[Statement] | None:
            if text_noted(name, transaction.ask(self.sql.statement(NOTE, name))[0]) != before:
                return None
            values = (name,) if after is None else (name, after)
            return [self.sql.statement(DELETE_NOTE if after is None else PUT_NOTE, *values)]

        return self._transact(change) is not None

    # Tables

    def _make_table(self, projection: Projection) -> Sequence[Statement]:
        return _making(self.sql, self.sql.table(projection), projection.row, issubclass(projection.row, SearchedRow))

    def _drop_table(self, projection: Projection) -> Sequence[Statement]:
        return _dropping(self.sql.table(projection))

    def _rename_table(self, shadow: Projection, projection: Projection) -> list[Statement]:
        built, live = self.sql.table(shadow), self.sql.table(projection)
        rows = Statement(f"ALTER TABLE {built} RENAME TO {live}")
        if not issubclass(projection.row, SearchedRow):
            return [rows]
        words = Statement(f"ALTER TABLE {built}_words RENAME TO {live}_words")
        return [*_drop_triggers(built), rows, words, *_triggers(live)]

    def _copy_rows(self, shadow: Projection, parts: Sequence[Projection]) -> list[Statement]:
        self._transact(lambda _: self._make_table(shadow))
        for part in parts:
            after: str | None = ""
            # Copied in batches, so that other writers wait only for one batch.
            while after is not None:
                after = self._log.write(partial(self._copy_some, part=part, shadow=shadow, after=after))
        return []

    def _copy_some(
        self, connection: sqlite3.Connection, *, part: Projection, shadow: Projection, after: str
    ) -> str | None:
        """Copy rows of `part` with keys after `after`, and return the last key copied; None if none are left."""
        source, names = self.sql.table(part), columns(part)
        if not _has_table(connection, source):
            return None
        ahead = f"SELECT key FROM {source} WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
        found = connection.execute(ahead, (after, ROWS_AT_ONCE - 1)).fetchone()
        last: str | None = found[0] if found else None
        bounds = "key > ?" if last is None else "key > ? AND key <= ?"
        copy = f"INSERT INTO {self.sql.table(shadow)} ({names}) SELECT {names} FROM {source} WHERE {bounds}"
        try:
            connection.execute(copy, (after,) if last is None else (after, last))
        except sqlite3.IntegrityError as error:
            raise twice_made(shadow) from error
        return last

    # Searching

    def _find(self, projection: Projection, query: SearchQuery) -> Statement:
        sql = FIND.format(table=self.sql.table(projection), columns=searched_columns(projection))
        phrases = " AND ".join(map(_phrase, query.terms))
        streams = None if query.streams is None else json.dumps(list(query.streams.items()))
        return Statement(sql, (streams, phrases, query.kind, query.kind, streams, candidates_max(query)))

    def index_fault(self, projection: Projection) -> str | None:
        """
        Return how the index of searched rows differs from the rows; None if it does not.

        SQLite's own check of an index needs the write lock, and compares nothing if the index has no content.
        """
        with self._reading(projection) as connection:
            if self._moment(connection, projection) == BEGINNING:
                return None
            wrong = _wrong_in_index(connection, self.sql.table(projection))
            return f"{wrong:,} rows are not in its index as they are" if wrong else None


class ScratchProjectionStore(SqliteProjectionStore):
    """
    Rows in a temporary database, which spills to disk and ends with this object; searched rows have no index.

    It changes texts as the store `like`, whose rows they are compared with, would change them. One thread uses it.
    """

    def __init__(self, like: ProjectionStore) -> None:
        # With an empty name, SQLite makes a file that nobody else sees, once its cache is full.
        self._connection = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode = MEMORY", "synchronous = OFF", f"cache_size = -{SCRATCH_CACHE_KIB}"):
            self._connection.execute(f"PRAGMA {pragma}")
        self._has_nul = not isinstance(like, DatabaseProjectionStore) or like.sql.has_nul

    def close(self) -> None:
        """Drop all rows."""
        self._connection.close()

    def _lent(self) -> AbstractContextManager[sqlite3.Connection]:
        return nullcontext(self._connection)

    @contextmanager
    def _named(self, projection: Projection) -> Iterator[None]:
        with _scratching():
            yield

    def _transact(self, work: Work) -> list[list[Values]] | None:
        with _scratching():
            self._connection.execute("BEGIN")
            try:
                transaction = _Transaction(self._connection, has_nul=self._has_nul)
                transaction.ask(Statement(CHECKPOINTS), Statement(NOTES))
                last = work(transaction)
                return None if last is None else transaction.ask(*last)
            finally:
                # Nobody uses the rows after an error.
                self._connection.execute("COMMIT")

    def _locked(
        self, transaction: Transaction, *projections: Projection, seen: Sequence[RecordedEvent] = ()
    ) -> list[Stored]:
        return self._stored(transaction, *projections)

    def _values(self, projection: Projection, found: Iterable[Values]) -> list[Values]:
        # Their types were checked before they were stored, and nobody else can change them.
        return [*map(tuple, found)]

    def _make_table(self, projection: Projection) -> Sequence[Statement]:
        return _making(self.sql, self.sql.table(projection), projection.row, False)


@contextmanager
def _scratching() -> Iterator[None]:
    """Name the temporary rows in an error, which says nothing about rows that are stored."""
    try:
        with translated(SCRATCH):
            yield
    except StorageError as error:
        remedy = "make room in the folder for temporary files, or set SQLITE_TMPDIR to another one"
        raise StorageUnavailableError(f"{error}: {remedy}") from error


def _wrong_in_index(connection: sqlite3.Connection, table: str) -> int:
    """
    Return the number of rows that differ from the index of their table, by the number of their words.

    SQLite compares, so that neither rows nor words are held here. Words that were replaced by as many others are not
    noticed.
    """
    words = 0

    def size(text: str) -> bytes:
        nonlocal words
        count = sum(map(bool, text.translate(BORDERS).split(" ")))
        words += count
        return _varint(count)

    connection.create_function("index_size", 1, size)
    differing = f"SELECT count(*) FROM {table} LEFT JOIN {table}_words_docsize ON id = number WHERE sz IS NOT"
    missing = f"SELECT count(*) FROM {table}_words_docsize WHERE id NOT IN (SELECT number FROM {table})"
    wrong = sum(connection.execute(sql).fetchone()[0] for sql in (f"{differing} index_size({table}.words)", missing))
    # The index counts the places of each word: this reads all of it.
    made = f"CREATE VIRTUAL TABLE IF NOT EXISTS temp.{table}_found"
    connection.execute(f"{made} USING fts5vocab(main, {table}_words, row)")
    found = connection.execute(f"SELECT coalesce(sum(cnt), 0) FROM temp.{table}_found").fetchone()[0]
    return int(wrong) or int(found != words)


def _varint(count: int) -> bytes:
    """Return a number as FTS5 stores it: seven bits in a byte, the highest first, all but the last marked."""
    packed = bytes([count & 127])
    while count := count >> 7:
        packed = bytes([count & 127 | 128]) + packed
    return packed


# Each save asks for these statements, and most run none of them: to make them takes 130 us.
@cache
def _making(sql: Dialect, table: str, row: type[msgspec.Struct], is_indexed: bool) -> Sequence[Statement]:
    """Return the statements that make the table of rows of a class, in the place of an older one."""
    types = sql.column_types(row)
    # Rows of an older version are of no use: the fold starts from the beginning.
    drops = _dropping(table)
    if not is_indexed:
        return (*drops, Statement(f"CREATE TABLE {table} ({types}, PRIMARY KEY (key)) WITHOUT ROWID"))
    # The index refers to rows by number. The number is a column, because VACUUM changes implicit row numbers.
    rows = f"CREATE TABLE {table} (number INTEGER PRIMARY KEY, {types}, UNIQUE (key))"
    # The index has no content of its own and no link to the table, so that it can be renamed.
    index = f"CREATE VIRTUAL TABLE {table}_words USING fts5(words, content='', tokenize='ascii')"
    return (*drops, Statement(rows), Statement(index), *_triggers(table))


def _dropping(table: str) -> Sequence[Statement]:
    """Return the statements that drop a table of rows and its index."""
    drops = [Statement(f"DROP TABLE IF EXISTS {name}") for name in (f"{table}_words", table)]
    return [*_drop_triggers(table), *drops]


def _triggers(table: str) -> list[Statement]:
    """Return the statements that make the triggers that keep the index of a table up to date."""
    add = f"INSERT INTO {table}_words (rowid, words) VALUES (new.number, new.words);"
    # To delete a row from an index without content, its words must be given once more.
    forget = f"INSERT INTO {table}_words ({table}_words, rowid, words) VALUES ('delete', old.number, old.words);"
    return [
        Statement(f"CREATE TRIGGER {table}_added AFTER INSERT ON {table} BEGIN {add} END"),
        Statement(f"CREATE TRIGGER {table}_changed AFTER UPDATE ON {table} BEGIN {forget} {add} END"),
    ]


def _drop_triggers(table: str) -> list[Statement]:
    return [Statement(f"DROP TRIGGER IF EXISTS {table}_{trigger}") for trigger in ("added", "changed")]


def _phrase(term: Term) -> str:
    # No escaping is needed: words contain no quotation marks.
    return f'"{term.words}"' + " *" * term.is_prefix


def _has_table(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone() is not None
