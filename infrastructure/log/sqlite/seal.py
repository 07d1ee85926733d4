"""
Packing events into blocks; `blocks.py` says what a block is.

A thread packs the rows of complete segments, one block at a time, and writers wait only while it is stored. A crash
between two blocks costs nothing: the next process finds the oldest segment that still has rows.

A batch that completes segments by itself never becomes rows there: its blocks are written by the append.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

import msgspec

from ....domain.errors import DamagedError
from ..block_body import BLOCK_EVENTS, OvertakenError, bounded, in_blocks, packed, runs
from ..compression import Compression, has_references, mark_references
from ..evidence import SEGMENT, segment_of
from .blocks import BlockBody, BlockPart, checksum_of

# In a single SELECT of both, SQLite would scan every row for them.
FIRST_AND_LAST = "SELECT (SELECT min(position) FROM event), (SELECT max(position) FROM event)"
COLUMNS = "position, stream, version, recorded_at, meta, payload, digest"
ROWS_OF_STREAM = f"SELECT {COLUMNS} FROM event WHERE stream = ? ORDER BY version LIMIT {SEGMENT + 1}"
Row = tuple[int, int, int, int, bytes | None, bytes, bytes]
NewRow = tuple[int, int, int, int, int, bytes | None, bytes, bytes]
# The start of a part among the rows of a block; its stream, last and first version, first time and first position.
Span = tuple[int, tuple[int, int, int, int, int]]
_by_version = itemgetter(1, 2)


class RowChecker(Protocol):
    """The check that rows are unchanged; the reader implements it."""

    def check_rows(self, connection: sqlite3.Connection, rows: list[tuple[int, str, Any]]) -> None:
        """Raise DamagedError when one of the rows does not match its digest."""


class NewBlock(NamedTuple):
    """A block that is not stored yet, and its parts, each with its start in the block."""

    segment: int
    digests: bytes
    body: bytes
    spans: list[Span]


class SealedSlice(NamedTuple):
    """A slice of a segment, not of a log: its block, and the positions of the rows that the block replaces."""

    block: NewBlock
    positions: list[int]
    # Meta and payload of each row: an erasure changes them, also those that an earlier one left.
    left: list[tuple[bytes | None, bytes]]


class Sealer:
    """Packs the events of the complete segments of one log."""

    def __init__(self, compression: Compression, reader: RowChecker) -> None:
        self._compression = compression
        self._reader = reader

    def next_slice(self, connection: sqlite3.Connection) -> SealedSlice | None:
        """Return the next block of the oldest complete segment that still has rows, or None; changes nothing."""
        first, last = connection.execute(FIRST_AND_LAST).fetchone()
        if first is None or segment_of(first) == segment_of(last):
            return None
        segment = segment_of(first)
        rows: list[Row] = connection.execute(
            f"SELECT {COLUMNS} FROM event WHERE position BETWEEN ? AND ? ORDER BY stream, version LIMIT ?",
            (segment * SEGMENT + 1, (segment + 1) * SEGMENT, BLOCK_EVENTS),
        ).fetchall()
        rows = [*bounded(rows, _payload_and_meta)]
        names = _names(connection, rows)
        self._check(connection, rows, names)
        return SealedSlice(self._block(segment, rows, names), [row[0] for row in rows], [row[4:6] for row in rows])

    def store(self, connection: sqlite3.Connection, sealed: SealedSlice) -> None:
        """
        Replace rows by their block.

        Raises:
            OvertakenError: they are not those that were read: another process has sealed them, or an older copy of the
                file was put back. The transaction must be rolled back.
        """
        first, last = min(sealed.positions), max(sealed.positions)
        which = "WHERE position BETWEEN ? AND ? AND (? OR position IN (SELECT value FROM json_each(?)))"
        values = (first, last, last - first + 1 == len(sealed.positions), str(sealed.positions))
        columns = "digest, meta, payload"
        found = connection.execute(f"SELECT {columns} FROM event {which} ORDER BY stream, version", values).fetchall()
        ((end,),) = connection.execute("SELECT max(position) FROM event")
        # The next position is counted on from the last row, so there must be one behind the segment.
        are_same = (
            b"".join(one[0] for one in found) == sealed.block.digests and [one[1:] for one in found] == sealed.left
        )
        if not are_same or segment_of(end) == sealed.block.segment:
            raise OvertakenError(f"the rows of segment {sealed.block.segment} are others by now")
        connection.execute(f"DELETE FROM event {which}", values)
        _insert(connection, sealed.block)

    def pack(self, connection: sqlite3.Connection, rows: Sequence[NewRow]) -> Sequence[NewRow]:
        """
        Store the rows of a batch that are in complete segments as blocks, and return the others.

        The rows of a stream must be younger than its blocks, so those that it has become blocks, too; where these are
        many, it gets more rows. Writing rows and packing them later takes twice the processor time of this.
        """
        end = segment_of(rows[-1][0])
        names = _names(connection, rows)
        stored = {key: self._unpacked(connection, key, name) for key, name in names.items()}
        ready = [row for some in stored.values() for row in some or ()]
        left: list[NewRow] = []
        for row in rows:
            if segment_of(row[0]) == end or stored[row[1]] is None:
                left.append(row)
            else:
                ready.append((*row[:4], *row[5:]))
        for segment, some in groupby(sorted(ready), lambda row: segment_of(row[0])):
            for block in in_blocks(sorted(some, key=_by_version), _payload_and_meta):
                _insert(connection, self._block(segment, block, names))
        connection.executemany("DELETE FROM event WHERE stream = ?", [(key,) for key, some in stored.items() if some])
        return left

    def _unpacked(self, connection: sqlite3.Connection, stream: int, name: str) -> list[Row] | None:
        """Return the rows of a stream, if they can be packed: they are few, in order, and match their digests."""
        rows: list[Row] = connection.execute(ROWS_OF_STREAM, (stream,)).fetchall()
        if len(rows) > SEGMENT:
            return None
        with suppress(DamagedError):
            self._check(connection, rows, {stream: name})
            return rows
        return None

    def _check(self, connection: sqlite3.Connection, rows: Sequence[Row], names: dict[int, str]) -> None:
        # Damage must not be sealed: under the checksum of the block it would look sound.
        self._reader.check_rows(connection, [(row[1], names[row[1]], (*row[2:3], row[0], *row[3:])) for row in rows])

    def _block(self, segment: int, rows: Sequence[Row], names: dict[int, str]) -> NewBlock:
        spans: list[Span] = []
        for start, end in runs([row[1:3] for row in rows]):
            position, stream, version, recorded_at, *_ = rows[start]
            spans.append((start, (stream, rows[end - 1][2], version, recorded_at, position)))
        body = BlockBody(
            parts=[BlockPart(names[key], first, last - first + 1) for _, (key, last, first, *_) in spans],
            positions=[row[0] for row in rows],
            times=[row[3] for row in rows],
            metas=[None if row[4] is None else msgspec.Raw(row[4]) for row in rows],
            payloads=[msgspec.Raw(self._payload(names[row[1]], row)) for row in rows],
        )
        stored = packed(self._compression, body)
        if any(has_references(row[5]) for row in rows):
            stored = mark_references(stored)
        return NewBlock(segment, b"".join(row[6] for row in rows), stored, spans)

    def _payload(self, stream: str, row: Row) -> bytes:
        return self._compression.expand(row[5], f"event {stream}@{row[2]}")


def _payload_and_meta(row: Row) -> tuple[bytes, bytes | None]:
    return row[5], row[4]


def _insert(connection: sqlite3.Connection, block: NewBlock) -> None:
    checksum = checksum_of(block.segment, block.digests, block.body)
    key = connection.execute(
        "INSERT INTO block (segment, checksum, digests, body) VALUES (?, ?, ?, ?)",
        (block.segment, checksum, block.digests, block.body),
    ).lastrowid
    connection.executemany(
        "INSERT INTO part (stream, last_version, first_version, first_recorded_at, first_position, block, start)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [(*part, key, start) for start, part in block.spans],
    )


def _names(connection: sqlite3.Connection, rows: Sequence[Row | NewRow]) -> dict[int, str]:
    """Return the names of the streams of rows, by their keys."""
    keys = {row[1] for row in rows}
    return {key: connection.execute("SELECT id FROM stream WHERE key = ?", (key,)).fetchone()[0] for key in keys}
