"""
Rows of projections on SQLite: the connection, its errors, and the tables of this database.

Searched rows have an index, which is written in the same transaction: see `sqlite_words.py`.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from functools import cache, partial
from itertools import islice
from typing import Any, Self, TypeVar

import msgspec

from ....domain.concurrency.locks import fork_safe_lock, locked
from ....domain.errors import DamagedError, StorageError, StorageUnavailableError
from ....domain.ids import end_of_prefix
from ....domain.log.envelope import RecordedEvent
from ....domain.positions import BEGINNING, Moment
from ....projections.contract import Projection, SearchedRow, SearchQuery
from ...log.compression import Compression, no_dictionary
from ...log.row_faults import REBUILD, opening
from ...log.sqlite.connection import HAS_TABLE, first_value, translated
from ...log.sqlite.log import SqliteLog
from ...log.sqlite.read import stored_digest
from ..store import Checkpoint, Plan, ProjectionStore, Values, duplicate_key_error, rows_of
from .checkpoints import CHECKPOINT, DELETE_NOTE, PUT_NOTE, STORED_NAME, Stored, moment_of
from .database import DatabaseProjectionStore, Dialect, Statement, Transaction, Work, columns, without_nul
from .sqlite_words import KEYS_MAX, expanded_bytes, indexed, put_searched, with_all_words, wrong_in_index

T = TypeVar("T")
ROWS_AT_ONCE, MATCHES_AT_ONCE = 10_000, 64
SCRATCH, SCRATCH_CACHE_KIB = "the temporary rows", 16_384
PRAGMAS = f"page_size = 16384,journal_mode = MEMORY,synchronous = OFF,cache_size = -{SCRATCH_CACHE_KIB}".split(",")
CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS checkpoint (projection TEXT PRIMARY KEY, version INTEGER NOT NULL,"
    " moment TEXT NOT NULL)"
)
NOTES = "CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"
DROP_NOTES = "DELETE FROM note WHERE name >= ? AND name < ?"
PARTITION = re.compile("(.+_shadow)_[0-9]+")
COLUMNS = 'SELECT name, type, "notnull" FROM pragma_table_info(?)'
# A missing table or column, an index whose own tables were changed, or text that is not UTF-8.
BROKEN_TABLE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT_VTAB)
# Each save is a segment of the index. The defaults of FTS5 suit tables that are written row by row, and merge the same
# words three times as often.
INDEX_OPTIONS = {"automerge": 16, "crisismerge": 64, "hashsize": 16 << 20}
# Earlier releases kept the index up to date by triggers.
TRIGGERED = "SELECT tbl_name FROM sqlite_schema WHERE type = 'trigger' AND name = tbl_name || '_added'"
FIND = """
    WITH within (stream, first, last) AS MATERIALIZED
        (SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?))
    SELECT {columns}
    FROM {table}_words JOIN {table} AS r ON r.number = {table}_words.rowid
    WHERE {table}_words MATCH ?
        AND (? IS NULL OR r.kind = ?)
        AND (? IS NULL
            OR EXISTS (SELECT 1 FROM within WHERE stream = r.stream AND r.version BETWEEN first AND last))
    -- Rows get their numbers in the order of the log, and the index is read backwards until there are enough.
    ORDER BY {table}_words.rowid DESC
"""


class _Transaction:
    """A transaction; with a compression of words, searched rows have an index."""

    def __init__(
        self, connection: sqlite3.Connection, compression: Compression | None = None, *, has_nul: bool = True
    ) -> None:
        self.connection, self._compression, self._has_nul = connection, compression, has_nul

    def ask(self, *statements: Statement) -> list[list[Values]]:
        return [self.connection.execute(*one).fetchall() for one in statements]

    def put(self, projection: Projection, rows: Iterable[msgspec.Struct]) -> None:
        sql = SqliteProjectionStore.sql
        if self._compression is not None and issubclass(projection.row, SearchedRow):
            put_searched(self.connection, self._compression, sql.table(projection), projection, [*rows])
            return
        values: Iterable[Values] = map(msgspec.structs.astuple, rows)
        if not self._has_nul:
            values = ([without_nul(one) for one in row] for row in values)
        self.connection.executemany(sql.put_rows(projection, 1), values)


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
        self._compression = Compression(no_dictionary("there are none for words", remedy=REBUILD))
        # Whether tables that earlier releases indexed by triggers are gone.
        self._has_no_triggers = False

    def _lent(self) -> AbstractContextManager[sqlite3.Connection]:
        """Lend a connection that sees one state of the database."""
        return self._log.database.reading()

    @contextmanager
    def _reading(self, projection: Projection) -> Iterator[sqlite3.Connection]:
        """Lend a connection; name the projection where its rows or its index cannot be read."""
        with self._lent() as connection, self._translated(projection):
            yield connection

    @contextmanager
    def _translated(self, projection: Projection) -> Iterator[None]:
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
                if first_value(connection, HAS_TABLE, "checkpoint") and first_value(connection, HAS_TABLE, "note"):
                    found += self._stored(_Transaction(connection), projection)
                else:
                    # Both are made with the first rows, but one of them may have been dropped since.
                    found.append(Stored(Checkpoint(self._moment(connection, projection)), False))
        return [one.checkpoint for one in found]

    def _moment(self, connection: sqlite3.Connection, projection: Projection) -> Moment:
        if not first_value(connection, HAS_TABLE, "checkpoint"):
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
                with self._translated(projection):
                    return connection.execute(*statement).fetchall()

            with self._translated(projection):
                moment = self._moment(connection, projection)
            return visit(moment, iter(()) if moment == BEGINNING else self._pages(projection, ask))

    def _ask_notes(self, statement: Statement) -> list[Values]:
        with self._lent() as connection:
            return connection.execute(*statement).fetchall() if first_value(connection, HAS_TABLE, "note") else []

    def _transact(self, work: Work) -> list[list[Values]] | None:
        def carried_out(connection: sqlite3.Connection) -> list[list[Values]] | None:
            transaction = _Transaction(connection, self._compression)
            transaction.ask(Statement(CHECKPOINTS), Statement(NOTES))
            if not self._has_no_triggers:
                # Drop them, so that their rows are made again: this version would index their words twice.
                for (table,) in transaction.ask(Statement(TRIGGERED))[0]:
                    if not STORED_NAME.fullmatch(table):
                        continue
                    gone = Statement("DELETE FROM checkpoint WHERE 'view_' || projection = ?", (table,))
                    transaction.ask(*_dropping(table), gone)
            last = work(transaction)
            return None if last is None else transaction.ask(*last)

        done = self._log.write(carried_out)
        self._has_no_triggers = True
        return done

    def _locked(
        self, transaction: Transaction, *projections: Projection, seen: Sequence[RecordedEvent] = ()
    ) -> list[Stored] | None:
        assert isinstance(transaction, _Transaction)
        if any(stored_digest(transaction.connection, one.stream, one.version) != one.digest for one in seen):
            return None
        return self._stored(transaction, *projections)

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        def change(transaction: Transaction) -> Iterable[Statement] | None:
            if not self._is_noted(transaction, name, before):
                return None
            values = (name,) if after is None else (name, after)
            return [self.sql.statement(DELETE_NOTE if after is None else PUT_NOTE, *values)]

        return self._transact(change) is not None

    # Tables

    def _make_table(self, projection: Projection) -> Sequence[Statement]:
        return _making(self.sql, self.sql.table(projection), projection.row, issubclass(projection.row, SearchedRow))

    def _drop_table(self, projection: Projection) -> Sequence[Statement]:
        return _dropping(self.sql.table(projection))

    def drop_others(self, *known: Projection) -> None:
        def dropping(transaction: Transaction) -> list[Statement]:
            kept = {(one.name, one.version) for one in known}
            stored = transaction.ask(Statement("SELECT projection, version FROM checkpoint"))[0]
            others = {str(name) for name, version in stored if (name, version) not in kept}
            others = {*filter(STORED_NAME.fullmatch, others)}
            # Rows that are put together from partitions have a table without a checkpoint; the partitions have theirs.
            others |= {found[1] for found in map(PARTITION.fullmatch, others) if found}
            gone = [Statement("DELETE FROM checkpoint WHERE projection = ?", (name,)) for name in others]
            return [*gone, *(drop for name in others for drop in _dropping(self.sql.table_of(name, 0)))]

        self._transact(dropping)

    def _rename_table(self, shadow: Projection, projection: Projection) -> list[Statement]:
        built, live = self.sql.table(shadow), self.sql.table(projection)
        ends = ("", "_words") if issubclass(projection.row, SearchedRow) else ("",)
        return [Statement(f"ALTER TABLE {built}{end} RENAME TO {live}{end}") for end in ends]

    def _copy_rows(self, shadow: Projection, parts: Sequence[Projection], plan: Plan) -> Callable[[Transaction], bool]:
        self._transact(lambda transaction: self._make_table(shadow) if self._is_noted(transaction, *plan) else None)
        for part in parts:
            after: str | None = ""
            # Copied in batches, so that other writers wait only for one batch.
            while after is not None:
                after = self._log.write(partial(self._copy_some, part, shadow, after, plan))
        return lambda _: True

    def _copy_some(
        self, part: Projection, shadow: Projection, after: str, plan: Plan, connection: sqlite3.Connection
    ) -> str | None:
        """Copy rows of `part` with keys after `after`, and return the last key copied; None if none are left."""
        source, names = self.sql.table(part), columns(part)
        are_there = all(first_value(connection, HAS_TABLE, name) for name in (source, self.sql.table(shadow)))
        if not (are_there and self._is_noted(_Transaction(connection), *plan)):
            return None
        ahead = f"SELECT key FROM {source} WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
        found = connection.execute(ahead, (after, ROWS_AT_ONCE - 1)).fetchone()
        last: str | None = found[0] if found else None
        bounds = "key > ?" if last is None else "key > ? AND key <= ?"
        copy = f"INSERT INTO {self.sql.table(shadow)} ({names}) SELECT {names} FROM {source} WHERE {bounds}"
        try:
            connection.execute(copy, (after,) if last is None else (after, last))
        except sqlite3.IntegrityError as error:
            raise duplicate_key_error(shadow) from error
        return last

    # Searching

    def _values(self, projection: Projection, found: Iterable[Values]) -> list[Values]:
        if issubclass(projection.row, SearchedRow):
            with opening(f"the table of {projection.name}", remedy=REBUILD):
                found = with_all_words(self._compression, projection, [*found])
        return super()._values(projection, found)

    def _candidates(self, projection: Projection, query: SearchQuery) -> list[Any]:
        with self._reading(projection) as connection:
            # Without a checkpoint the table may be missing, or belong to an older version.
            if self._moment(connection, projection) == BEGINNING:
                return []
            with closing(connection.execute(*self._find(projection, query))) as found:
                return [*islice(self._matching(projection, query, found), query.candidates)]

    def _matching(self, projection: Projection, query: SearchQuery, found: sqlite3.Cursor) -> Iterator[Any]:
        """Yield the rows of those found, which have all words, that have the phrases, too."""
        phrases = [term for term in query.terms if " " in term.words]
        place = projection.row.__struct_fields__.index("words")
        while some := found.fetchmany(MATCHES_AT_ONCE):
            values = self._values(projection, some)
            matching = [one for one in values if all(term.count_in(one[place]) for term in phrases)]
            yield from rows_of(projection.row, matching)

    def _find(self, projection: Projection, query: SearchQuery) -> Statement:
        sql = FIND.format(table=self.sql.table(projection), columns=columns(projection, "r."))
        terms = " AND ".join(map(indexed, query.terms))
        within = ((stream, one.start, one.stop - 1) for stream, many in (query.streams or {}).items() for one in many)
        streams = None if query.streams is None else json.dumps([*within])
        return Statement(sql, (streams, terms, query.kind, query.kind, streams))

    def index_fault(self, projection: Projection) -> str | None:
        """
        Return how the index of searched rows differs from the rows; None if it does not.

        SQLite's own check of an index needs the write lock, and compares nothing if the index has no content.
        """
        with self._reading(projection) as connection:
            if self._moment(connection, projection) == BEGINNING:
                return None
            table, expand = self.sql.table(projection), partial(expanded_bytes, self._compression, projection)
            wrong = wrong_in_index(connection, table, expand)
            return f"{wrong:,} rows are not in its index as they are" if wrong else None


class ScratchProjectionStore(SqliteProjectionStore):
    """
    Rows in a temporary database, which spills to disk and ends with this object; searched rows have no index.

    It changes texts as the store `like`, whose rows they are compared with, would change them. One thread uses it.
    """

    def __init__(self, like: ProjectionStore) -> None:
        self._connection = temporary_database()
        # Rows of many words do not fit into smaller pages, and would be spread over several.
        for pragma in PRAGMAS:
            self._connection.execute(f"PRAGMA {pragma}")
        self._has_nul = not isinstance(like, DatabaseProjectionStore) or like.sql.has_nul

    def close(self) -> None:
        """Drop all rows."""
        self._connection.close()

    def _lent(self) -> AbstractContextManager[sqlite3.Connection]:
        return nullcontext(self._connection)

    @contextmanager
    def _translated(self, projection: Projection) -> Iterator[None]:
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
                # Nobody uses the rows after an error. At a full disk the transaction is over already.
                if self._connection.in_transaction:
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


def temporary_database() -> sqlite3.Connection:
    """
    Return a connection to a new database that nobody else sees; it is a file once its cache is full.

    A fork of the process waits until no call is running. SQLite has locks that all its databases share: a child that is
    forked while another thread holds one of them would wait for it for ever.
    """
    return sqlite3.connect("", isolation_level=None, check_same_thread=False, factory=_Connection)


class _Cursor(sqlite3.Cursor):
    connection: _Connection

    def execute(self, sql: str, values: Any = (), /) -> Self:
        return locked(self.connection.calls, super().execute, sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Self:
        return locked(self.connection.calls, super().executemany, sql, rows)

    def fetchone(self) -> Any:
        return locked(self.connection.calls, super().fetchone)

    def fetchall(self) -> list[Any]:
        return locked(self.connection.calls, super().fetchall)


class _Connection(sqlite3.Connection):
    def __init__(self, *given: Any, **named: Any) -> None:
        self.calls = fork_safe_lock()
        locked(self.calls, lambda: sqlite3.Connection.__init__(self, *given, **named))

    # The `execute` of `sqlite3` would make a cursor of its own class.
    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        return self.cursor(_Cursor).executemany(sql, rows)

    def close(self) -> None:
        locked(self.calls, super().close)


@contextmanager
def _scratching() -> Iterator[None]:
    """Name the temporary rows in an error, which says nothing about rows that are stored."""
    try:
        with translated(SCRATCH):
            yield
    except StorageError as error:
        remedy = "make room in the folder for temporary files, or set SQLITE_TMPDIR to another one"
        raise StorageUnavailableError(f"{error}: {remedy}") from error


# Each save asks for these statements, and most saves run none of them; making them takes 130 us.
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
    index = f"CREATE VIRTUAL TABLE {table}_words USING fts5(words, content='', detail=none, tokenize='ascii')"
    option = f"INSERT INTO {table}_words ({table}_words, rank) VALUES (?, ?)"
    return (*drops, Statement(rows), Statement(index), *(Statement(option, one) for one in INDEX_OPTIONS.items()))


def _dropping(table: str) -> Sequence[Statement]:
    """Return the statements that drop a table of rows and its index, and the notes about the rows of any version."""
    projection = table.removeprefix("view_")
    drops = (Statement(f"DROP TABLE IF EXISTS {name}") for name in (f"{table}_words", table))
    prefixes = (f"{kind}/{projection}." for kind in ("aside", "save"))
    return [*drops, *(Statement(DROP_NOTES, (prefix, end_of_prefix(prefix))) for prefix in prefixes)]
