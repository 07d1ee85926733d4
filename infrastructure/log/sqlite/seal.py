"""
Sealing: what is behind the end of the log is packed into compressed blocks of up to 64 events.

Positions come in segments of 512. Once a segment is complete, its events are taken out of `event` in the order
of streams and versions, 64 at a time, and become one row each time: a block, and for each stream in it a part
that says which versions it holds. A block takes a quarter of the bytes of its events, and reading it costs one
row, one decompression, one checksum and one decoding instead of 64. Nothing of an event is lost or changed:
payloads and digests are kept byte for byte (docs/adr/0003).

A thread works in small slices, and writers wait only while one is stored; a crash between two slices costs
nothing, for the next process sees which segment is the oldest that still has rows.
"""

from __future__ import annotations

import hashlib
import sqlite3
from typing import Any, NamedTuple, Protocol

import msgspec

from ....domain.errors import DamagedError, RefoldError
from ..codec import decode_meta
from ..compression import Compression, expanded_size, has_references, mark_references

SEGMENT = 512
SLICE_EVENTS = 64
BLOCK_BYTES_MAX = 1 << 20
# Asked for in one SELECT, the two would be looked for in every row.
FIRST_AND_LAST = "SELECT (SELECT min(position) FROM event), (SELECT max(position) FROM event)"
_ENCODER = msgspec.msgpack.Encoder()
Row = tuple[int, int, int, int, bytes | None, bytes, bytes]
Span = tuple[int, tuple[int, int, int, int, int]]


class OvertakenError(RefoldError):
    """Another process was quicker; there is nothing left to do."""


class BlockPart(NamedTuple):
    """The events of one stream in a block: `size` of them, from `first_version` on."""

    stream: str
    first_version: int
    size: int


class BlockBody(NamedTuple):
    """The content of a block, column by column; payloads are msgpack maps as they were."""

    parts: list[BlockPart]
    positions: list[int]
    times: list[int]
    metas: list[msgspec.Raw | None]
    payloads: list[msgspec.Raw]


class Block(NamedTuple):
    """A block as its row holds it; `digests` are those of its events, 32 bytes each."""

    key: int
    segment: int
    checksum: bytes
    digests: bytes
    body: bytes


def segment_of(position: int) -> int:
    """Return the number of the segment that a position lies in."""
    return (position - 1) // SEGMENT


class RowChecker(Protocol):
    """The check that rows are as they were written; the reader has it."""

    def check_rows(self, connection: sqlite3.Connection, rows: list[tuple[int, str, Any]]) -> None:
        """Raise DamagedError when one of the rows does not match its digest."""


class SealedSlice(NamedTuple):
    """A block before it has its key: its parts, and the positions of the rows that it stands for."""

    segment: int
    digests: bytes
    body: bytes
    spans: list[Span]
    positions: list[int]


class Sealer:
    """Seals the complete segments of one log, a slice at a time."""

    def __init__(self, compression: Compression, reader: RowChecker) -> None:
        self._compression = compression
        self._reader = reader

    def next_slice(self, connection: sqlite3.Connection) -> SealedSlice | None:
        """Return the first slice of the oldest complete segment that still has rows, or None; changes nothing."""
        first, last = connection.execute(FIRST_AND_LAST).fetchone()
        if first is None or segment_of(first) == segment_of(last):
            return None
        segment = segment_of(first)
        rows: list[Row] = connection.execute(
            "SELECT position, stream, version, recorded_at, meta, payload, digest FROM event"
            " WHERE position BETWEEN ? AND ? ORDER BY stream, version LIMIT ?",
            (segment * SEGMENT + 1, (segment + 1) * SEGMENT, SLICE_EVENTS),
        ).fetchall()
        rows = _bounded(rows)
        names = {key: _name(connection, key) for key in {row[1] for row in rows}}
        # Damage must not be sealed in: under a block's own checksum it would look whole.
        self._reader.check_rows(connection, [(row[1], names[row[1]], (*row[2:3], row[0], *row[3:])) for row in rows])
        digests = b"".join(row[6] for row in rows)
        return SealedSlice(segment, digests, self._body(rows, names), _spans(rows), [row[0] for row in rows])

    def store(self, connection: sqlite3.Connection, sealed: SealedSlice) -> None:
        """
        Put a block in the place of its rows.

        Raises:
            OvertakenError: another process has sealed rows of this slice; the transaction must be rolled back.
        """
        first, last = min(sealed.positions), max(sealed.positions)
        deleted = connection.execute(
            "DELETE FROM event WHERE position BETWEEN ? AND ? AND (? OR position IN (SELECT value FROM json_each(?)))",
            (first, last, last - first + 1 == len(sealed.positions), str(sealed.positions)),
        ).rowcount
        if deleted != len(sealed.positions):
            raise OvertakenError(f"another process is sealing segment {sealed.segment} too")
        block = connection.execute(
            "INSERT INTO block (segment, checksum, digests, body) VALUES (?, ?, ?, ?)",
            (
                sealed.segment,
                block_checksum(sealed.segment, sealed.digests, sealed.body),
                sealed.digests,
                sealed.body,
            ),
        ).lastrowid
        connection.executemany(
            "INSERT INTO part (stream, last_version, first_version, first_recorded_at, first_position, block, start)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            [(*part, block, start) for start, part in sealed.spans],
        )

    def _body(self, rows: list[Row], names: dict[int, str]) -> bytes:
        spans = [part for _, part in _spans(rows)]
        body = BlockBody(
            parts=[BlockPart(names[key], first, last - first + 1) for key, last, first, *_ in spans],
            positions=[row[0] for row in rows],
            times=[row[3] for row in rows],
            metas=[_checked_meta(row[4]) for row in rows],
            payloads=[msgspec.Raw(self._payload(names[row[1]], row)) for row in rows],
        )
        packed = self._compression.shrink_block(_ENCODER.encode(body))
        return mark_references(packed) if any(has_references(row[5]) for row in rows) else packed

    def _payload(self, stream: str, row: Row) -> bytes:
        return self._compression.expand(row[5], f"event {stream}@{row[2]}")


def _checked_meta(stored: bytes | None) -> msgspec.Raw | None:
    """Return a meta as it is stored, if it is one."""
    decode_meta(stored)
    return None if stored is None else msgspec.Raw(stored)


def _bounded(rows: list[Row]) -> list[Row]:
    """As many rows as stay within BLOCK_BYTES_MAX, but at least one."""
    size = 0
    for count, row in enumerate(rows):
        size += expanded_size(row[5]) + len(row[4] or b"")
        if count and size > BLOCK_BYTES_MAX:
            return rows[:count]
    return rows


def _spans(rows: list[Row]) -> list[Span]:
    """
    Return, for each run of consecutive versions of one stream, where it starts among the rows, and its stream,
    last and first version, first time and first position.
    """
    spans: list[Span] = []
    for index, (position, stream, version, recorded_at, *_) in enumerate(rows):
        if spans and spans[-1][1][:2] == (stream, version - 1):
            start, (_, _, *first) = spans[-1]
            spans[-1] = (start, (stream, version, first[0], first[1], first[2]))
        else:
            spans.append((index, (stream, version, version, recorded_at, position)))
    return spans


def _name(connection: sqlite3.Connection, key: int) -> str:
    return str(connection.execute("SELECT id FROM stream WHERE key = ?", (key,)).fetchone()[0])


def block_checksum(segment: int, digests: bytes, body: bytes) -> bytes:
    """Return what a block's checksum must be: blake2b-256 over its segment, its digests and its body."""
    return hashlib.blake2b(segment.to_bytes(8, "big") + digests + body, digest_size=32).digest()


def checked_body(compression: Compression, block: Block) -> bytes:
    """
    Return the expanded body of a block.

    Raises:
        DamagedError: the block does not match its checksum; it is named by its key and its positions.
    """
    first = block.segment * SEGMENT + 1
    what = f"block {block.key} (of positions {first} to {first + SEGMENT - 1})"
    if block_checksum(block.segment, block.digests, block.body) != block.checksum:
        raise DamagedError(what, "its bytes do not match its checksum")
    return compression.expand(block.body, what)
