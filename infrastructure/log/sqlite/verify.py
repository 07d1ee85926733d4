"""Checks of a log on SQLite: its files and streams, damaged pages and rows, and large texts that changed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import accumulate, groupby
from operator import itemgetter

import msgspec

from ....domain.concurrency.known_types import known
from ....domain.errors import DamagedError
from ....domain.log.ports import KeyRow
from ..compression import Compression
from ..large_texts import damage_of
from ..row_faults import empty_key, nameless_type, opening
from .blocks import Block, BlockPart, checked_body
from .connection import SqliteDatabase
from .read import BLOCK_COLUMNS

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


# Blocks hold the ids of streams; a part whose stream or block is gone has none.
PARTS = """
    SELECT coalesce(part.block, 0), coalesce(stream.id, ''), first_version, last_version, start, first_position,
        first_recorded_at
    FROM part LEFT JOIN stream ON stream.key = part.stream ORDER BY 1, start
"""
BLOCKS = f"SELECT {BLOCK_COLUMNS} FROM block ORDER BY key"
# Only the head of a block is decoded: its parts, positions and times.
_HEAD = msgspec.msgpack.Decoder(known(tuple[list[BlockPart], list[int], list[int], msgspec.Raw, msgspec.Raw]))


def doubtful_streams(connection: sqlite3.Connection, compression: Compression) -> set[str]:
    """
    Return the streams that have events in a block whose rows in `part` are not what the block holds.

    Both tables are read once, in the order of blocks.
    """
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
