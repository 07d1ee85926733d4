"""Checks of a log on SQLite: its files and streams, damaged pages and rows, and large texts that changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ....domain.errors import DamagedError
from ....domain.log.ports import KeyRow
from ..compression import Compression
from ..large_texts import damage_of
from ..row_faults import empty_key, nameless_type
from .connection import SqliteDatabase

BESIDE = ("-wal", "-shm", "-journal")
FAULTS_TOLD = 10
LAST = "\U0010ffff"
ROWS_TOLD = 100
NAMELESS = f"""
    SELECT coalesce(s.id, 'stream ' || e.stream), e.version, e.tag
    FROM event AS e LEFT JOIN tag AS t ON t.key = e.tag LEFT JOIN stream AS s ON s.key = e.stream
    WHERE t.key IS NULL ORDER BY e.position LIMIT {ROWS_TOLD}
"""
NEXT_TEXT = "SELECT key, hash, data FROM blob WHERE key > ? ORDER BY key LIMIT 1"
# Versions have no holes, so the last version implies all others.
KEYS = f"""
    SELECT * FROM (
        SELECT coalesce(s.id, 'stream ' || i.stream), i.key, i.first_version, i.last_version,
            max(coalesce((SELECT max(version) FROM event WHERE stream = i.stream), 0),
                coalesce((SELECT max(last_version) FROM part WHERE stream = i.stream), 0)) AS head
        FROM idempotency AS i LEFT JOIN stream AS s ON s.key = i.stream)
    WHERE first_version NOT BETWEEN 1 AND last_version OR last_version > head LIMIT {ROWS_TOLD}
"""
KEY_ROWS = """
    SELECT coalesce(s.id, 'stream ' || i.stream), i.key, i.first_version, i.last_version
    FROM idempotency AS i LEFT JOIN stream AS s ON s.key = i.stream
"""


def stream_ids(connection: sqlite3.Connection, prefix: str, limit: int) -> list[str]:
    """Return the ids of the first `limit` streams that begin with `prefix`, in order."""
    # No text sorts above all others; after a prefix, no character is higher than this one.
    statement = "SELECT id FROM stream WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
    return [row[0] for row in connection.execute(statement, (prefix, prefix + LAST, limit))]


def database_files(connection: sqlite3.Connection) -> list[str]:
    """Return the file of a database and the files that SQLite keeps next to it; none if it is in memory."""
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    return [path, *(path + name for name in BESIDE)] if path else []


def damaged_pages(connection: sqlite3.Connection) -> list[DamagedError]:
    """Return errors for the first faults that SQLite finds in the file."""
    rows = connection.execute(f"PRAGMA integrity_check({FAULTS_TOLD})").fetchall()
    return [DamagedError("the database file", str(row[0])) for row in rows if row[0] != "ok"]


def damaged_rows(connection: sqlite3.Connection) -> list[DamagedError]:
    """Return errors for the first events whose type has no name, and for keys under which nothing was recorded."""
    nameless = [nameless_type(*row) for row in connection.execute(NAMELESS)]
    return nameless + [empty_key(*row) for row in connection.execute(KEYS)]


def key_rows(connection: sqlite3.Connection) -> list[KeyRow]:
    """Return the row of every idempotency key."""
    return list(map(KeyRow._make, connection.execute(KEY_ROWS)))


def damaged_texts(database: SqliteDatabase, compression: Compression) -> Iterator[DamagedError]:
    """
    Yield an error for each large text that does not match its hash. No transaction stays open between two texts: it
    would keep SQLite from reusing the WAL.
    """
    last = -1 << 63
    while True:
        with database.reading() as connection:
            row = connection.execute(NEXT_TEXT, (last,)).fetchone()
        if row is None:
            return
        last, digest, data = row
        damage = damage_of(compression, data, digest, f"blob {last}")
        if damage is not None:
            yield damage
