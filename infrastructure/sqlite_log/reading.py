"""
Reading events back: rows and blocks become events again, each checked against its digest or its block's checksum.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain, repeat
from typing import Any, TypeVar

import msgspec

from ...domain.envelope import NO_DIGEST, NO_META, Event, Meta, RecordedEvent, chain_digest
from ...domain.errors import DamagedError
from ...domain.positions import Position
from ..codec import Codec, decode_meta
from ..compression import Compression, has_references
from ..texts import resolve_references, text_of
from .sealing import SEGMENT, Block, BlockPart, checked_body, segment_of

__all__ = ["Reader"]

ONE_SEQUENCE = -1
DIGEST = 32
BLOCK_COLUMNS = "block.key, segment, checksum, digests, body"
PARTS_OF_STREAM = (
    f"SELECT first_version, last_version, start, {BLOCK_COLUMNS} FROM part JOIN block ON block.key = part.block"
    " WHERE stream = ? AND last_version >= ? AND first_version <= ? ORDER BY last_version"
)
ROWS_OF_STREAM = (
    "SELECT version, position, recorded_at, meta, payload, digest FROM event"
    " WHERE stream = ? AND version BETWEEN ? AND ? ORDER BY version"
)
BLOCKS_OF_SEGMENTS = f"SELECT {BLOCK_COLUMNS} FROM block WHERE segment BETWEEN ? AND ?"
ROWS_BETWEEN = (
    "SELECT stream, version, position, recorded_at, meta, payload, digest FROM event"
    " WHERE position BETWEEN ? AND ? ORDER BY position"
)
DIGEST_OF_ROW = "SELECT digest FROM event WHERE stream = ? AND version = ?"
DIGEST_IN_BLOCK = (
    "SELECT substr(digests, 32 * (start + ? - first_version) + 1, 32) FROM part JOIN block"
    " ON block.key = part.block WHERE stream = ? AND last_version >= ? ORDER BY last_version LIMIT 1"
)
BLOCKS_KEPT = 4
Row = tuple[int, int, int, bytes | None, bytes, bytes]
Columns = tuple[list[BlockPart], list[int], list[int], list[Meta | None], list[Any]]
T = TypeVar("T")
BlockOpener = Callable[[sqlite3.Connection, Block, tuple[BlockPart, int] | None], list[T]]
RowOpener = Callable[[sqlite3.Connection, str, Row, bytes], T]


class Reader:
    """Decodes what lies in one log, through a connection that shows one moment of it."""

    def __init__(self, codec: Codec, compression: Compression) -> None:
        self._codec = codec
        self._compression = compression
        # The blocks that were opened last, replaced as a whole: several threads read at once.
        self._opened: tuple[tuple[Block, Columns], ...] = ()
        shape = tuple[list[BlockPart], list[int], list[int], list[Meta | None], list[codec.events]]  # type: ignore[name-defined]
        raw_shape = tuple[list[BlockPart], list[int], list[int], list[Meta | None], list[msgspec.Raw]]
        self._block_decoder = msgspec.msgpack.Decoder(shape)
        self._raw_decoder = msgspec.msgpack.Decoder(raw_shape)

    def read_stream(
        self, connection: sqlite3.Connection, key: int, stream: str, *, after: int, until: int
    ) -> list[RecordedEvent]:
        """
        Return events `after + 1` to `until` (or the last) of a stream, in order.

        Raises:
            DamagedError: an event is missing, or does not match its digest.
        """
        return self._read(connection, (key, stream), after, until, (self._recorded_block, self._recorded_row))

    def read_events(
        self, connection: sqlite3.Connection, key: int, stream: str, *, after: int, until: int
    ) -> list[Event]:
        """
        Return what `read_stream` does without the envelopes.
        """
        return self._read(connection, (key, stream), after, until, (self._events_of_block, self._event_of_row))

    def read_between(
        self, connection: sqlite3.Connection, names: Callable[[int], str], *, after: int, until: int
    ) -> list[RecordedEvent]:
        """
        Return the events at positions `after + 1` to `until` (or the last); `names` gives a key's stream.

        Raises:
            DamagedError: an event is missing, or does not match its digest.
        """
        events: list[RecordedEvent] = []
        for columns in connection.execute(BLOCKS_OF_SEGMENTS, (segment_of(after + 1), segment_of(until))):
            block = Block(*columns)
            opened = self._recorded_block(connection, block)
            if block.segment * SEGMENT < after or (block.segment + 1) * SEGMENT > until:
                opened = [event for event in opened if after < event.position.number <= until]
            events.extend(opened)
        events.extend(self._rows_between(connection, names, after, until))
        return _in_order(events, after)

    def _read(
        self,
        connection: sqlite3.Connection,
        source: tuple[int, str],
        after: int,
        until: int,
        openers: tuple[BlockOpener[T], RowOpener[T]],
    ) -> list[T]:
        """Collect parts and rows; one event more than asked for is looked at, whose digest the first needs."""
        (key, stream), (open_block, open_row) = source, openers
        pieces: list[tuple[int, list[T]]] = []
        digests = {0: NO_DIGEST}
        for first, last, start, *columns in connection.execute(PARTS_OF_STREAM, (key, max(1, after), until)):
            block, count = Block(*columns), last - first + 1
            digests[last] = block.digests[(start + count - 1) * DIGEST : (start + count) * DIGEST]
            if last > after:
                place = (BlockPart(stream, first, count), start)
                pieces.append((first, open_block(connection, block, place)[start : start + count]))
        for row in connection.execute(ROWS_OF_STREAM, (key, max(1, after), until)):
            version = row[0]
            if version > after:
                if version - 1 not in digests:
                    raise DamagedError(f"event {stream}@{version - 1}", "it is missing")
                opened = open_row(connection, stream, row, digests[version - 1])
                if pieces and pieces[-1][0] + len(pieces[-1][1]) == version:
                    pieces[-1][1].append(opened)
                else:
                    pieces.append((version, [opened]))
            digests[version] = row[5]
        return _joined(stream, pieces, after, until)

    def _rows_between(
        self, connection: sqlite3.Connection, names: Callable[[int], str], after: int, until: int
    ) -> Iterator[RecordedEvent]:
        last: dict[int, tuple[int, bytes]] = {}
        for key, *columns in connection.execute(ROWS_BETWEEN, (after + 1, until)).fetchall():
            row: Row = tuple(columns)
            version, digest = last.get(key, (-1, b""))
            if version != row[0] - 1:
                digest = _digest_of(connection, key, names(key), row[0] - 1)
            last[key] = (row[0], row[5])
            yield self._recorded_row(connection, names(key), row, digest)

    def _open_block(self, connection: sqlite3.Connection, block: Block) -> Columns:
        """A fork's ancestors are read one after the other, and a block often holds the end of one and the next."""
        for known, columns in self._opened:
            # All of it is compared: what was damaged since is not what was opened.
            if known.key == block.key and known == block:
                return columns
        opened = self._open_unknown(connection, block)
        self._opened = ((block, opened), *self._opened[: BLOCKS_KEPT - 1])
        return opened

    def _open_unknown(self, connection: sqlite3.Connection, block: Block) -> Columns:
        body = checked_body(self._compression, block)
        try:
            columns: Columns = self._block_decoder.decode(body)
        except msgspec.ValidationError:
            parts, positions, times, metas, raws = self._raw_decoder.decode(body)
            referring = has_references(block.body)
            whats = (f"event {part.stream}@{part.first_version + i}" for part in parts for i in range(part.size))
            events = [
                self._codec.decode(self._resolved(connection, raw, what) if referring else raw, what)
                for raw, what in zip(map(bytes, raws), whats, strict=True)
            ]
            return parts, positions, times, metas, events
        return columns

    def _events_of_block(
        self, connection: sqlite3.Connection, block: Block, place: tuple[BlockPart, int] | None = None
    ) -> list[Event]:
        parts, _, _, _, events = self._open_block(connection, block)
        _check_place(parts, place)
        return events

    def _recorded_block(
        self, connection: sqlite3.Connection, block: Block, place: tuple[BlockPart, int] | None = None
    ) -> list[RecordedEvent]:
        parts, positions, times, metas, events = self._open_block(connection, block)
        _check_place(parts, place)
        names = chain.from_iterable(repeat(part.stream, part.size) for part in parts)
        versions = chain.from_iterable(range(part.first_version, part.first_version + part.size) for part in parts)
        places = map(Position, repeat(ONE_SEQUENCE), positions)
        known_metas = [meta or NO_META for meta in metas]
        digests = [block.digests[start : start + DIGEST] for start in range(0, len(block.digests), DIGEST)]
        # Every log is read as a whole at times: `map` makes an envelope in two thirds of the time of a loop.
        recorded = list(map(RecordedEvent, names, versions, places, times, events, known_metas, digests))
        if len(recorded) != len(events) or len(digests) != len(events):
            raise DamagedError(f"block {block.key}", "its columns are of different lengths")
        return recorded

    def _event_of_row(self, connection: sqlite3.Connection, stream: str, row: Row, previous: bytes) -> Event:
        payload, _, _ = self._checked(connection, stream, row, previous)
        return self._codec.decode(payload, f"event {stream}@{row[0]}")

    def _recorded_row(self, connection: sqlite3.Connection, stream: str, row: Row, previous: bytes) -> RecordedEvent:
        payload, position, meta = self._checked(connection, stream, row, previous)
        event = self._codec.decode(payload, f"event {stream}@{row[0]}")
        return RecordedEvent(stream, row[0], position, row[2], event, meta, row[5])

    def check_rows(self, connection: sqlite3.Connection, rows: list[tuple[int, str, Row]]) -> None:
        """
        See to it that rows, each with its stream's key and id, in the order of streams and versions, are whole.

        Raises:
            DamagedError: one does not match its digest.
        """
        before: tuple[int, int, bytes] = (0, 0, b"")
        for key, stream, row in rows:
            is_next = before[:2] == (key, row[0] - 1)
            previous = before[2] if is_next else _digest_of(connection, key, stream, row[0] - 1)
            self._checked(connection, stream, row, previous)
            before = (key, row[0], row[5])

    def _checked(
        self, connection: sqlite3.Connection, stream: str, row: Row, previous: bytes
    ) -> tuple[bytes, Position, Meta]:
        version, number, recorded_at, packed_meta, stored, digest = row
        payload = stored[1:] if stored[:1] == b"\x00" else self._payload(connection, stream, row)
        meta = NO_META if packed_meta is None else decode_meta(packed_meta, f"event {stream}@{version}")
        position = Position(ONE_SEQUENCE, number)
        if chain_digest(previous, stream, version, position, recorded_at, meta, payload) != digest:
            raise DamagedError(f"event {stream}@{version}", "it does not match its digest")
        return payload, position, meta

    def _payload(self, connection: sqlite3.Connection, stream: str, row: Row) -> bytes:
        what, stored = f"event {stream}@{row[0]}", row[4]
        payload = self._compression.expand(stored, what)
        return self._resolved(connection, payload, what) if has_references(stored) else payload

    def _resolved(self, connection: sqlite3.Connection, payload: bytes, what: str) -> bytes:
        return resolve_references(payload, lambda key: self._text(connection, key, what))

    def _text(self, connection: sqlite3.Connection, key: int, what: str) -> str:
        found = connection.execute("SELECT hash, data FROM blob WHERE key = ?", (key,)).fetchone()
        if not found:
            raise DamagedError(f"blob {key}", f"it is missing, and {what} refers to it")
        return text_of(self._compression.expand(found[1], f"blob {key}"), found[0], f"blob {key}")


def _check_place(parts: list[BlockPart], place: tuple[BlockPart, int] | None) -> None:
    """See to it that a part lies in its block where its row says it does."""
    if place is None:
        return
    wanted, start = place
    before = parts[: parts.index(wanted)] if wanted in parts else None
    if before is None or sum(part.size for part in before) != start:
        what = f"part {wanted.stream}@{wanted.first_version}..{wanted.first_version + wanted.size - 1}"
        raise DamagedError(what, "it is not where its row says it is")


def _in_order(events: list[RecordedEvent], after: int) -> list[RecordedEvent]:
    """Put events in the order of the log, where they are not yet, and see to it that none is missing."""
    numbers = [event.position.number for event in events]
    if numbers == list(range(after + 1, after + 1 + len(events))):
        return events
    events = sorted(events, key=lambda event: event.position.number)
    for place, event in enumerate(events, after + 1):
        if event.position.number != place:
            raise DamagedError(f"position {place}", "there is no event at it")
    return events


def _digest_of(connection: sqlite3.Connection, key: int, stream: str, version: int) -> bytes:
    if version < 1:
        return NO_DIGEST
    found = (
        connection.execute(DIGEST_OF_ROW, (key, version)).fetchone()
        or connection.execute(DIGEST_IN_BLOCK, (version, key, version)).fetchone()
    )
    if not found:
        raise DamagedError(f"event {stream}@{version}", "it is missing")
    return bytes(found[0])


def _joined(stream: str, pieces: list[tuple[int, list[T]]], after: int, until: int) -> list[T]:
    """Put the pieces, each with its first version, in order, and see to it that nothing is missing."""
    pieces.sort(key=lambda piece: piece[0])
    joined: list[T] = []
    start = min(pieces[0][0], after + 1) if pieces else after + 1
    for first, events in pieces:
        if first != start + len(joined):
            raise DamagedError(f"event {stream}@{start + len(joined)}", "it is missing")
        joined.extend(events)
    return joined[after + 1 - start : until + 1 - start]
