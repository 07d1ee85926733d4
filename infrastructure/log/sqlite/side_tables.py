"""
Tables beside the log on SQLite: snapshots, and what the evidence keeps of segments.

They belong to no version of the schema. Each is made with its first row: a file without them is whole, and an earlier
Refold does not look at them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..block_body import DIGEST_BYTES
from ..evidence import SegmentRow
from ..row_faults import opening
from .connection import HAS_TABLE, SqliteDatabase, first_value

MAKE_SNAPSHOTS = "CREATE TABLE IF NOT EXISTS snapshot (stream INTEGER PRIMARY KEY, packed BLOB NOT NULL)"
SNAPSHOT = "SELECT packed FROM snapshot WHERE stream = ?"
KEEP_SNAPSHOT = "INSERT OR REPLACE INTO snapshot (stream, packed) VALUES (?, ?)"
WITH_SNAPSHOT = "SELECT id FROM snapshot JOIN stream ON stream.key = snapshot.stream"
MAKE_SEGMENTS = """
    CREATE TABLE IF NOT EXISTS segment (
        number INTEGER PRIMARY KEY, root BLOB NOT NULL, contents BLOB NOT NULL, ends BLOB NOT NULL)
"""
SEGMENTS = "SELECT number, root, contents, ends FROM segment WHERE number < ? ORDER BY number"
KEEP_SEGMENT = "INSERT OR REPLACE INTO segment VALUES (?, ?, ?, ?)"
DIGESTS_OF_ROWS = "SELECT digest FROM event WHERE position BETWEEN ? AND ?"
# The segments of the evidence are those of blocks.
DIGESTS_OF_BLOCKS = "SELECT digests FROM block WHERE segment = ?"
Write = Callable[[Callable[[sqlite3.Connection], Any]], Any]


def delete_snapshots(connection: sqlite3.Connection, streams: Iterable[int]) -> None:
    """Delete the snapshots of streams, given their keys."""
    if first_value(connection, HAS_TABLE, "snapshot"):
        connection.executemany("DELETE FROM snapshot WHERE stream = ?", [(key,) for key in streams])


class Snapshots:
    """The stored snapshots; `key_of` returns the key of a stream, and `write` runs work in one transaction."""

    def __init__(
        self, database: SqliteDatabase, write: Write, key_of: Callable[[sqlite3.Connection, str], int | None]
    ) -> None:
        self._database, self._write, self._key_of = database, write, key_of

    def read(self, stream: str) -> bytes | None:
        with self._database.reading() as connection:
            key = self._key_of(connection, stream) if first_value(connection, HAS_TABLE, "snapshot") else None
            row = connection.execute(SNAPSHOT, (key,)).fetchone() if key else None
        return row[0] if row and isinstance(row[0], bytes) else None

    def store(self, stream: str, packed: bytes) -> None:
        def store(connection: sqlite3.Connection) -> None:
            key = self._key_of(connection, stream)
            if key is not None:
                connection.execute(MAKE_SNAPSHOTS)
                connection.execute(KEEP_SNAPSHOT, (key, packed))

        self._write(store)

    def streams(self) -> list[str]:
        with self._database.reading() as connection:
            is_there = first_value(connection, HAS_TABLE, "snapshot")
            return [row[0] for row in connection.execute(WITH_SNAPSHOT)] if is_there else []


class Segments:
    """The rows that the evidence keeps of complete segments."""

    def __init__(self, database: SqliteDatabase, write: Write) -> None:
        self._database, self._write = database, write

    def segments(self, lane: int, until: int) -> list[SegmentRow]:
        """Return the rows of the first segments, in order; those with a value that cannot be one are left out."""
        with self._database.reading() as connection:
            is_there = first_value(connection, HAS_TABLE, "segment")
            found = connection.execute(SEGMENTS, (until,)).fetchall() if is_there else []
        return [SegmentRow(*row) for row in found if all(isinstance(one, bytes) for one in row[1:])]

    def keep(self, lane: int, rows: Sequence[SegmentRow]) -> None:
        def keep(connection: sqlite3.Connection) -> None:
            connection.execute(MAKE_SEGMENTS)
            connection.executemany(KEEP_SEGMENT, rows)

        self._write(keep)

    def digests(self, lane: int, first: int, last: int) -> list[bytes]:
        """Return the digests of the events of a segment, from its first to its last position, in no order."""
        with self._database.reading() as connection, opening(f"positions {first} to {last}"):
            found = [bytes(row[0]) for row in connection.execute(DIGESTS_OF_ROWS, (first, last))]
            for (joined,) in connection.execute(DIGESTS_OF_BLOCKS, ((first - 1) // (last - first + 1),)):
                found += [joined[start : start + DIGEST_BYTES] for start in range(0, len(joined), DIGEST_BYTES)]
        return found
