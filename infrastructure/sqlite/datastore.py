"""
What the recorders of one factory share: the database that its environment names, and how ids are written.

A shared memory database lives in SQLite under its name, for the whole process; so it has one engine here,
too, whoever opens it, and ends with the last who closes it.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import parse_qsl, unquote, urlsplit

from eventsourcing.persistence import InterfaceError

from ...domain.concurrency.locks import News, synchronized
from ...domain.concurrency.process_forks import renew_in_child
from ..recording import IdType, Stored, opened_state, translated_for_eventsourcing
from ..records import Appended, Request
from ..sqlite_log.database import BUSY_TIMEOUT_SECONDS, SqliteDatabase
from .engine import SqliteEngine

FILE_MODES = ("ro", "rw", "rwc")


class SqliteDatastore:
    """
    A database for recorders; `db_name` is a path, a `file:` URI, or names a database in memory.

    Raises:
        InterfaceError: it cannot be opened.
    """

    def __init__(self, db_name: str, *, lock_timeout: int | None = None, originator_id_type: IdType = "uuid") -> None:
        self.originator_id_type = originator_id_type
        self._engine: SqliteEngine | None = None
        with translated_for_eventsourcing(sqlite3.Error):
            self._engine = _ENGINES.engine_of(db_name, lock_timeout or BUSY_TIMEOUT_SECONDS)
        # Subscriptions must be able to stop when the database is closed already.
        self.news: News = self._engine.news
        self._compression = self._engine.compression

    def append(self, prefix: str, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing.

        Raises:
            IntegrityError: a version is taken or would leave a hole, or `also` refused; nothing was written.
        """
        with translated_for_eventsourcing(sqlite3.Error):
            return self._open_engine().append(prefix, request)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[sqlite3.Cursor]:
        """
        Lend a cursor for one transaction, whose rows can be read by column name.

        With `commit` it may write, alone, and is committed at the end, or rolled back on any error; without,
        it sees one moment of the database.
        """
        engine = self._open_engine()
        lent = engine.writing() if commit else engine.reading()
        with translated_for_eventsourcing(sqlite3.Error), lent as connection:
            cursor = connection.cursor()
            cursor.row_factory = sqlite3.Row
            yield cursor

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection for one consistent view."""
        with translated_for_eventsourcing(sqlite3.Error), self._open_engine().reading() as connection:
            yield connection

    def shrink(self, state: bytes) -> bytes:
        """Return a state in its stored form."""
        return self._compression.shrink(state)

    def opened(self, rows: Sequence[Stored]) -> list[bytes]:
        """
        Return the states in rows, checked against their digests.

        Raises:
            DataError: one is damaged.
        """
        with translated_for_eventsourcing(sqlite3.Error):
            return [opened_state(row, self._compression.expand) for row in rows]

    def close(self) -> None:
        """Let go of the database, once nobody uses it; may be called twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            _ENGINES.release(engine)

    def __del__(self) -> None:
        self.close()

    def _open_engine(self) -> SqliteEngine:
        engine = self._engine
        if engine is None:
            raise InterfaceError("the datastore is closed: construct another")
        return engine


class _Engines:
    """Opens engines, and knows those of shared memory databases with the number of their users."""

    def __init__(self) -> None:
        self._shared: dict[str, SqliteEngine] = {}
        self._users: dict[SqliteEngine, int] = {}
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
            self._shared[name] = SqliteEngine(SqliteDatabase(uri, busy_timeout_seconds=timeout))
        engine = self._shared[name]
        self._users[engine] = self._users.get(engine, 0) + 1
        return engine

    def release(self, engine: SqliteEngine) -> None:
        if not self._is_used_after(engine):
            engine.close()

    @synchronized
    def _is_used_after(self, engine: SqliteEngine) -> bool:
        """Count one user less; return whether there is another."""
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
    # WAL needs no shared cache; a connection of ours has one of its own.
    options.pop("cache", None)
    mode = options.pop("mode", "rwc")
    if options or mode not in FILE_MODES:
        raise InterfaceError(f"{db_name}: of the options of a file only mode=ro, rw or rwc can be used")
    return SqliteDatabase(unquote(uri.path), create=mode == "rwc", read_only=mode == "ro", busy_timeout_seconds=timeout)
