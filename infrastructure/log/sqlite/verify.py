"""Checks of a log on SQLite: its files and streams, damaged pages and rows, and large texts that changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Any

import msgspec

from ....domain.concurrency.known_types import known
from ....domain.errors import DamagedError
from ....domain.ids import end_of_prefix
from ....domain.log.ports import KeyRow
from ...files import BESIDE_SQLITE
from ..compression import Compression
from ..database_log import NO_LIMIT, DatabaseLog
from ..large_texts import damage_of
from ..row_faults import ROWS_REPORTED, empty_key, foreign_object_fault, nameless_type, opening
from .blocks import Block, BlockPart, checked_body
from .connection import SqliteDatabase
from .read import BLOCK_COLUMNS
from .schema import TRIGGERS

FAULTS_REPORTED = 10
NAMELESS = f"""
    SELECT coalesce(s.id, 'stream ' || e.stream), e.version, e.tag
    FROM event AS e LEFT JOIN tag AS t ON t.key = e.tag LEFT JOIN stream AS s ON s.key = e.stream
    WHERE t.key IS NULL ORDER BY e.position LIMIT {ROWS_REPORTED}
"""
NEXT_TEXT = "SELECT key, hash, data FROM blob WHERE key > ? ORDER BY key LIMIT 1"
# Versions have no holes, so the last version implies all others.
KEYS = f"""
    SELECT * FROM (
        SELECT coalesce(s.id, 'stream ' || i.stream), i.key, i.first_version, i.last_version,
            max(coalesce((SELECT max(version) FROM event WHERE stream = i.stream), 0),
                coalesce((SELECT max(last_version) FROM part WHERE stream = i.stream), 0)) AS head
        FROM idempotency AS i LEFT JOIN stream AS s ON s.key = i.stream)
    WHERE first_version NOT BETWEEN 1 AND last_version OR last_version > head LIMIT {ROWS_REPORTED}
"""
KEY_ROWS = """
    SELECT coalesce(s.id, 'stream ' || i.stream), i.key, i.first_version, i.last_version
    FROM idempotency AS i LEFT JOIN stream AS s ON s.key = i.stream
"""


# Blocks hold the ids of streams; a part whose stream or block is gone has none.
PARTS = """
    SELECT coalesce(part.block, 0), coalesce(stream.id, ''), first_version, last_version, start, first_position,
        first_recorded_at
    FROM part LEFT JOIN stream ON stream.key = part.stream ORDER BY 1, start
"""
BLOCKS = f"SELECT {BLOCK_COLUMNS} FROM block ORDER BY key"
# Only the head of a block is decoded: its parts, positions and times.
_HEAD = msgspec.msgpack.Decoder(known(tuple[list[BlockPart], list[int], list[int], msgspec.Raw, msgspec.Raw]))


class CheckedLog(DatabaseLog):
    """The part of a log on SQLite that looks for damage, and lists what there is."""

    database: SqliteDatabase
    _compression: Compression

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        statement = "SELECT id FROM stream WHERE id >= ? AND id < ? ORDER BY id LIMIT ?"
        values = (prefix, end_of_prefix(prefix), NO_LIMIT if limit is None else limit)
        return [row[0] for row in self._rows(statement, values)]

    def files(self) -> list[str]:
        """Return the file of the database and the files that SQLite keeps beside it; empty for a database in memory."""
        path = self._rows("PRAGMA database_list")[0][2]
        return [path, *(path + name for name in BESIDE_SQLITE)] if path else []

    def damaged_files(self) -> list[DamagedError]:
        rows = self._rows(f"PRAGMA integrity_check({FAULTS_REPORTED})")
        faults = [str(row[0]) for row in rows if row[0] != "ok"]
        faults += [foreign_object_fault(*one) for one in self._rows(TRIGGERS)]
        return [DamagedError("the database file", fault) for fault in faults]

    def damaged_rows(self) -> list[DamagedError]:
        """Return errors for the first events whose type has no name, and for keys under which nothing was recorded."""
        with self.database.reading() as connection:
            nameless = [nameless_type(*row) for row in connection.execute(NAMELESS)]
            return nameless + [empty_key(*row) for row in connection.execute(KEYS)]

    def idempotency_keys(self) -> list[KeyRow]:
        return list(map(KeyRow._make, self._rows(KEY_ROWS)))

    def damaged_texts(self) -> Iterator[DamagedError]:
        """
        Yield an error for each large text that does not match its hash. No transaction stays open between two texts: it
        would keep SQLite from reusing the WAL.
        """
        last = -1 << 63
        while rows := self._rows(NEXT_TEXT, (last,)):
            ((last, digest, data),) = rows
            damage = damage_of(self._compression, data, digest, f"blob {last}")
            if damage is not None:
                yield damage

    def doubtful_streams(self) -> set[str]:
        """
        Return the streams that have events in a block whose rows in `part` are not what the block holds.

        Both tables are read once, in the order of blocks.
        """
        with self.database.reading() as connection:
            return _doubtful_streams(connection, self._compression)

    def _rows(self, statement: str, values: Sequence[object] = ()) -> list[Any]:
        with self.database.reading() as connection:
            return connection.execute(statement, values).fetchall()


def _doubtful_streams(connection: sqlite3.Connection, compression: Compression) -> set[str]:
    found: set[str] = set()
    rows = groupby(connection.execute(PARTS), itemgetter(0))
    parts = next(rows, None)
    for columns in connection.execute(BLOCKS):
        block = Block(*columns)
        while parts is not None and parts[0] < block.key:
            found.update(row[1] for row in parts[1])
            parts = next(rows, None)
        stored = []
        if parts is not None and parts[0] == block.key:
            stored = [row[1:] for row in parts[1]]
            parts = next(rows, None)
        held = _parts_of(block, compression)
        if stored != held:
            found.update(row[0] for row in (*stored, *held))
    while parts is not None:
        found.update(row[1] for row in parts[1])
        parts = next(rows, None)
    return found


def _parts_of(block: Block, compression: Compression) -> list[tuple[str, int, int, int, int, int]]:
    """Return the rows that `part` must have for a block."""
    with opening(f"block {block.key}"):
        parts, positions, times, *_ = _HEAD.decode(checked_body(compression, block))
        starts = accumulate((part.size for part in parts), initial=0)
        return [
            (part.stream, part.first_version, part.first_version + part.size - 1, start, positions[start], times[start])
            for part, start in zip(parts, starts, strict=False)
        ]
