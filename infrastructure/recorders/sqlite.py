"""One SQLite database of other applications: its connections, its statements, and the factory that opens it."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from eventsourcing.persistence import IntegrityError, InterfaceError, Tracking

from ...domain.clock import REAL_SYSTEM
from ...domain.concurrency.locks import locked, renew_in_child, synchronized
from ...domain.log.envelope import NO_META
from ...domain.log.ports import NewEvents, Receipt
from ...domain.positions import ONE_SEQUENCE
from ..log.records import Appended, AssignedPlace, Draft, Part, Request
from ..log.sqlite.append import Appender
from ..log.sqlite.connection import BUSY_TIMEOUT_SECONDS, SqliteDatabase
from ..log.sqlite.schema import schema_statements
from .datastore import Datastore, Engine, Tables, Versions, not_above
from .recorders import RecorderFactory, whole_number
from .stored_events import IdType, Stored, table_prefix, translated_for_eventsourcing

# No stream ends at this version.
NO_VERSION = -2
NO_LIMIT = -1
FILE_MODES = ("ro", "rw", "rwc")
# Outer joins: if a row is missing, the event must show as damaged, not be invisible.
STORED = (
    f"SELECT {ONE_SEQUENCE}, e.position, s.id, e.version, e.recorded_at, t.name, e.meta, e.payload, e.digest,"
    " before.digest FROM {p}event e"
    " LEFT JOIN {p}stream s ON s.key = e.stream LEFT JOIN {p}tag t ON t.key = e.tag"
    " LEFT JOIN {p}event before ON before.stream = e.stream AND before.version = e.version - 1"
)
TRACK = (
    "INSERT INTO {p}tracking VALUES (?, ?)"
    " ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id"
    " WHERE notification_id < excluded.notification_id"
)


class SqliteEngine(Engine[Appender]):
    """The connections to one file, or to one database in memory."""

    driver_error = sqlite3.Error

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        super().__init__(database.where, is_single=database.in_memory, paused=database)

    def _appender_of(self, prefix: str) -> Appender:
        return Appender(self._database, prefix, REAL_SYSTEM, self.compression, _encoded)

    def _append(self, appender: Appender, requests: Sequence[Request]) -> Sequence[Appended | Exception]:
        if any(request.also for request in requests):
            return appender.append_locked(requests)
        parts = [part for request in requests for part in request.parts]
        receipts = appender.append_cached([_new_events(part) for part in parts])
        if receipts is None:
            return appender.append_locked(requests)
        placed = iter(receipts)
        return [[_placed(next(placed)) for _ in request.parts] for request in requests]

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection for one transaction, while no events are appended."""
        with self.guard.using(writes=True):
            with self.committer.turn(), self._database.writing() as connection:
                yield connection
            self.news.announce()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one consistent view."""
        with self.guard.using(writes=False), self._database.reading() as connection:
            yield connection

    def _close_connections(self) -> None:
        locked(self._database.memory_lock, self._database.close)


def _encoded(draft: Draft, stream: str) -> tuple[str, bytes, bytes]:
    return draft.tag, draft.payload, draft.stored


def _new_events(part: Part) -> NewEvents:
    """Return a part as input of the cached append, which appends only to existing streams."""
    drafts: Any = tuple(part.drafts)
    # A new stream has another slice here than in Refold's own log, so the locked append inserts its row.
    expected = part.first_version - 1 if part.first_version > max(part.starts) else NO_VERSION
    return NewEvents(stream=part.stream, expected_version=expected, events=drafts, metas=(NO_META,) * len(drafts))


def _placed(receipt: Receipt) -> list[AssignedPlace]:
    return [
        AssignedPlace(one.version, one.position.slice, one.position.number, one.recorded_at, one.digest)
        for one in receipt.events
    ]


class SqliteDatastore(Datastore):
    """
    A database for recorders; `db_name` is a path, a `file:` URI, or names a database in memory.

    Raises:
        InterfaceError: the database cannot be opened.
    """

    tracking_table = (
        "CREATE TABLE IF NOT EXISTS {p}tracking (application_name TEXT PRIMARY KEY,"
        " notification_id INTEGER NOT NULL) WITHOUT ROWID"
    )
    snapshot_table = (
        "CREATE TABLE IF NOT EXISTS {table} (originator_id TEXT NOT NULL, originator_version INTEGER NOT NULL,"
        " topic TEXT NOT NULL, state BLOB NOT NULL, UNIQUE (originator_id, originator_version))"
    )

    def __init__(self, db_name: str, *, lock_timeout: int | None = None, originator_id_type: IdType = "uuid") -> None:
        with translated_for_eventsourcing(sqlite3.Error):
            super().__init__(_ENGINES.engine_of(db_name, lock_timeout or BUSY_TIMEOUT_SECONDS), originator_id_type)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[sqlite3.Cursor]:
        engine = self._open_engine()
        lent = engine.writing() if commit else engine.reading()
        with translated_for_eventsourcing(sqlite3.Error), lent as connection:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row
            try:
                yield cursor
            except sqlite3.IntegrityError as error:
                # Such a row is there already, as a snapshot of the same version: nothing is damaged.
                raise IntegrityError(str(error)) from error

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        with translated_for_eventsourcing(sqlite3.Error), self._open_engine().reading() as connection:
            yield connection

    def tables_of(self, application: str) -> Tables:
        return Tables(table_prefix(application))

    def create_tables(self, tables: Tables, statements: Sequence[str], *, with_log: bool) -> None:
        with self.transaction(commit=True) as cursor:
            for statement in [*(schema_statements(tables.prefix) if with_log else ()), *statements]:
                cursor.execute(statement)

    def stream_rows(self, tables: Tables, stream: str, versions: Versions) -> list[Stored]:
        statement = (
            f"{STORED} WHERE e.stream = (SELECT key FROM {{p}}stream WHERE id = ?)"
            f" AND e.version > ? AND e.version <= ? ORDER BY e.version {versions.order} LIMIT ?"
        )
        with self._reading() as connection:
            rows = connection.execute(statement.format(p=tables.prefix), (stream, *_bounds(versions)))
            return [Stored._make(row) for row in rows]

    def sequence_rows(
        self, tables: Tables, after: int, until: int, limit: int, topics: Sequence[str]
    ) -> tuple[list[Stored], int]:
        marks = ",".join("?" * len(topics))
        chosen = f" AND e.tag IN (SELECT key FROM {{p}}tag WHERE name IN ({marks}))" if topics else ""
        statement = f"{STORED} WHERE e.position > ? AND e.position <= ?{chosen} ORDER BY e.position LIMIT ?"
        with self._reading() as connection:
            rows = connection.execute(statement.format(p=tables.prefix), (after, until, *topics, limit))
            return [Stored._make(row) for row in rows], _last_position(connection, tables) or 0

    def last_position(self, tables: Tables) -> int | None:
        with self._reading() as connection:
            return _last_position(connection, tables)

    def tracked(self, tables: Tables, application: str) -> int | None:
        statement = f"SELECT notification_id FROM {tables.prefix}tracking WHERE application_name = ?"
        with self._reading() as connection:
            row = connection.execute(statement, (application,)).fetchone()
        return None if row is None else int(row[0])

    def track(self, cursor: sqlite3.Cursor | sqlite3.Connection, tables: Tables, tracking: Tracking) -> None:
        values = (tracking.application_name, tracking.notification_id)
        if cursor.execute(TRACK.format(p=tables.prefix), values).rowcount != 1:
            raise not_above(tracking)

    def _tracking_after_events(self, tables: Tables, tracking: Tracking) -> Callable[[sqlite3.Connection], None]:
        return lambda connection: self.track(connection, tables, tracking)

    def add_snapshots(self, tables: Tables, table: str, rows: Sequence[tuple[str, int, str, bytes]]) -> None:
        with self.transaction(commit=True) as cursor:
            cursor.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", rows)

    def snapshots(self, tables: Tables, table: str, stream: str, versions: Versions) -> list[tuple[int, str, bytes]]:
        statement = (
            f"SELECT originator_version, topic, state FROM {table}"
            " WHERE originator_id = ? AND originator_version > ? AND originator_version <= ?"
            f" ORDER BY originator_version {versions.order} LIMIT ?"
        )
        with self._reading() as connection:
            return connection.execute(statement, (stream, *_bounds(versions))).fetchall()

    def _release(self, engine: Engine[Appender]) -> None:
        _ENGINES.release(engine)


def _bounds(versions: Versions) -> tuple[int, int, int]:
    return versions.after, versions.until, NO_LIMIT if versions.limit is None else versions.limit


def _last_position(connection: sqlite3.Connection, tables: Tables) -> int | None:
    row = connection.execute(f"SELECT max(position) FROM {tables.prefix}event").fetchone()
    return None if row is None else row[0]


class _Engines:
    """Opens engines, and keeps those of shared in-memory databases with the number of their users."""

    def __init__(self) -> None:
        self._shared: dict[str, SqliteEngine] = {}
        self._users: dict[Engine[Appender], int] = {}
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # A finaliser may close a datastore while this thread opens one.
        self._lock = threading.RLock()

    def engine_of(self, db_name: str, timeout: float) -> SqliteEngine:
        if not _is_in_memory(db_name):
            return SqliteEngine(_opened_file(db_name, timeout))
        if "cache=shared" not in db_name:
            return SqliteEngine(SqliteDatabase(":memory:", busy_timeout_seconds=timeout))
        name = unquote(urlsplit(db_name).path)
        uri = db_name if "mode=memory" in db_name else f"{db_name}&mode=memory"
        return self._shared_engine(name, uri, timeout)

    @synchronized
    def _shared_engine(self, name: str, uri: str, timeout: float) -> SqliteEngine:
        if name not in self._shared:
            self._shared[name] = SqliteEngine(SqliteDatabase(uri, busy_timeout_seconds=timeout, is_uri=True))
        engine = self._shared[name]
        self._users[engine] = self._users.get(engine, 0) + 1
        return engine

    def release(self, engine: Engine[Appender]) -> None:
        if not self._is_used_after(engine):
            engine.guard.close()

    @synchronized
    def _is_used_after(self, engine: Engine[Appender]) -> bool:
        """Subtract one user; return whether another remains."""
        users = self._users.pop(engine, 1) - 1
        if users:
            self._users[engine] = users
            return True
        for name in [name for name, shared in self._shared.items() if shared is engine]:
            del self._shared[name]
        return False


_ENGINES = _Engines()


def _is_in_memory(db_name: str) -> bool:
    return ":memory:" in db_name or "mode=memory" in db_name


def _opened_file(db_name: str, timeout: float) -> SqliteDatabase:
    if not db_name.startswith("file:"):
        return SqliteDatabase(db_name, busy_timeout_seconds=timeout)
    uri = urlsplit(db_name)
    options = dict(parse_qsl(uri.query))
    # WAL needs no shared cache; each connection has its own.
    options.pop("cache", None)
    mode = options.pop("mode", "rwc")
    if options or mode not in FILE_MODES:
        raise InterfaceError(f"{db_name}: of the options of a file only mode=ro, rw or rwc can be used")
    return SqliteDatabase(unquote(uri.path), create=mode == "rwc", read_only=mode == "ro", busy_timeout_seconds=timeout)


class SqliteFactory(RecorderFactory):
    """
    Constructs recorders on one SQLite database.

    Raises:
        OSError: a variable is missing or has a value that cannot be used.
    """

    SQLITE_DBNAME = "SQLITE_DBNAME"
    SQLITE_LOCK_TIMEOUT = "SQLITE_LOCK_TIMEOUT"

    def _open_datastore(self, id_type: IdType) -> SqliteDatastore:
        db_name = self.env.get(self.SQLITE_DBNAME)
        if not db_name:
            keys = " or ".join(self.env.create_keys(self.SQLITE_DBNAME))
            raise OSError(f"no SQLite database is named: set {keys} to a path, or to :memory:")
        lock_timeout = whole_number(self.env, self.SQLITE_LOCK_TIMEOUT)
        return SqliteDatastore(db_name, lock_timeout=lock_timeout, originator_id_type=id_type)
