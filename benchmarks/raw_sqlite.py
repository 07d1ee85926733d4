"""
The limit on SQLite: the same payloads through sqlite3 alone.

WAL, synchronous=FULL, and the WAL filled once at the first write, as Refold does it. One append is one
autocommitted INSERT; rows are decoded with msgspec into the same Structs.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

from .database_size import sqlite_bytes
from .raw import Raw
from .subject import COMMON, Write

WAL_BYTES = 4 * 1024 * 1024 + 4096
SCHEMA = (
    "CREATE TABLE IF NOT EXISTS event (position INTEGER PRIMARY KEY, stream INTEGER NOT NULL,"
    " version INTEGER NOT NULL, recorded_at INTEGER NOT NULL, payload BLOB NOT NULL, UNIQUE (stream, version))"
)
INSERT = "INSERT INTO event (stream, version, recorded_at, payload) VALUES (?, ?, ?, ?)"
SELECT = "SELECT version, recorded_at, payload FROM event WHERE stream = ? AND version <= ? ORDER BY version"
LAST = "SELECT version, recorded_at, payload FROM event WHERE stream = ? ORDER BY version DESC LIMIT ?"
SCAN = "SELECT position, stream, version, recorded_at, payload FROM event ORDER BY position"
COUNTED = "CREATE TABLE IF NOT EXISTS counted (stream INTEGER PRIMARY KEY, events INTEGER NOT NULL)"
# Another process may have written the last version.
INSERT_LAST = (
    "INSERT INTO event (stream, version, recorded_at, payload)"
    " SELECT ?1, coalesce(max(version), 0) + 1, ?2, ?3 FROM event WHERE stream = ?1"
)
HEAD = "SELECT coalesce(max(version), 0) FROM event WHERE stream = ?"


class RawSqlite(Raw):
    """One table in one file."""

    _connection: sqlite3.Connection
    head, select, last, everything = HEAD, SELECT, LAST, 1 << 62

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._turn: AbstractContextManager[object] = threading.Lock()
        self._filled = False

    def open(self) -> None:
        """Connect."""
        self._connection = self._connect()
        self._connection.execute(SCHEMA)
        self._filled = False

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.location, isolation_level=None, check_same_thread=False, timeout=60)
        connection.execute("PRAGMA journal_mode=WAL").fetchone()
        connection.execute("PRAGMA synchronous=FULL")
        return connection

    def _fill_wal(self) -> None:
        self._filled = True
        wal = Path(self.location + "-wal")
        if wal.exists() and wal.stat().st_size >= WAL_BYTES:
            return
        connection = self._connection
        connection.execute("PRAGMA cache_size=10")
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("CREATE TABLE filler (data BLOB)")
        connection.execute("INSERT INTO filler VALUES (zeroblob(?))", (WAL_BYTES,))
        connection.execute("ROLLBACK")
        connection.execute("PRAGMA cache_size=-2000")

    def append(self, context: str, given: bytes) -> object:
        """Insert one row."""
        if not self._filled:
            self._fill_wal()
        values = (self._key(context), self._next(context), time.time_ns() // 1000, given)
        return self._connection.execute(INSERT, values)

    def append_batch(self, context: str, given: Sequence[bytes]) -> object:
        """Insert many rows in one transaction."""
        if not self._filled:
            self._fill_wal()
        key, first, now = self._key(context), self._next(context, len(given)), time.time_ns() // 1000
        self._connection.execute("BEGIN IMMEDIATE")
        rows = [(key, version, now, payload) for version, payload in enumerate(given, first)]
        self._connection.executemany(INSERT, rows)
        return self._connection.execute("COMMIT")

    def _writer(self, connection: sqlite3.Connection, context: str) -> Write:
        if not self._filled:
            self._fill_wal()
        key, version, is_common = self._key(context), self._next(context, 0), context.startswith(COMMON)

        def write(payload: Any) -> None:
            nonlocal version
            with self._turn:
                now = time.time_ns() // 1000
                if is_common:
                    connection.execute(INSERT_LAST, (key, now, payload))
                else:
                    connection.execute(INSERT, (key, version, now, payload))
            version += 1

        return write

    def _rows(self, statement: str, *values: int) -> list[tuple[Any, ...]]:
        return self._connection.execute(statement, values).fetchall()

    def rebuild(self) -> int:
        """Read and decode everything, and store how many events each context has."""
        decode, counts = self._decode, Counter[int]()
        for row in self._connection.execute(SCAN):
            decode(row[4])
            counts[row[1]] += 1
        self._connection.execute(COUNTED)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany("INSERT OR REPLACE INTO counted VALUES (?, ?)", counts.items())
        self._connection.execute("COMMIT")
        return counts.total()

    def bytes_used(self) -> int:
        """Return the bytes on disk."""
        return sqlite_bytes(Path(self.location))


class RawSqliteUnordered(RawSqlite):
    """The same with threads that do not take turns: a thread that finds the file locked sleeps in SQLite."""

    name = "raw waiting"

    def __init__(self, location: str) -> None:
        super().__init__(location)
        self._turn = nullcontext()
