"""
Reading events on SQLite: from rows and blocks, each checked against its digest; also versions by position or time.
"""

from __future__ import annotations

import bisect
import json
import sqlite3
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from operator import attrgetter
from typing import Any, Literal, TypeVar

from ....domain.erasure.events import STREAM as ERASURES
from ....domain.erasure.events import Seals, seal_of
from ....domain.errors import DamagedError
from ....domain.log.envelope import NO_DIGEST, NO_META, Chain, Event, Meta, RecordedEvent
from ....domain.log.ports import Range
from ....domain.positions import ONE_SEQUENCE, Partition, Position
from ..block_body import BLOCK_EVENTS, DIGEST_BYTES
from ..codec import Codec, decode_meta
from ..compression import Compression, has_references
from ..database_log import NO_LIMIT
from ..evidence import SEGMENT, Evidence, segment_of
from ..records import Batch, batches
from ..row_faults import VALUE_FAULTS, digest_of_row, opening, unreadable
from .blocks import ALL, Block, BlockPart, BlockReader, Place, resolved
from .connection import first_value

Column = Literal["position", "recorded_at"]
KEY_OF_STREAM = "SELECT key FROM stream WHERE id = ?"
KNOWN_KEY = "SELECT first_version, last_version FROM idempotency WHERE stream = ? AND key = ?"
BLOCK_COLUMNS = "block.key, segment, checksum, digests, body"
PARTS_OF_STREAM = (
    f"SELECT first_version, last_version, start, first_position, first_recorded_at, {BLOCK_COLUMNS}"
    # LEFT JOIN: a part whose block is missing is reported, not left out.
    " FROM part LEFT JOIN block ON block.key = part.block"
    # No part is longer than a block, so later parts of the stream need not be read.
    f" WHERE stream = ? AND last_version BETWEEN ? AND ? + {BLOCK_EVENTS} AND first_version <= ?"
    " ORDER BY last_version"
)
ROWS_OF_STREAM = (
    "SELECT version, position, recorded_at, meta, payload, digest FROM event"
    " WHERE stream = ? AND version BETWEEN ? AND ? ORDER BY version"
)
# Up to this many single rows, each with the digest before it, are selected by version: that is cheaper than reading the
# rows between them.
ROWS_APART_MAX = 64
ROWS_APART = (
    "SELECT one.version, one.position, one.recorded_at, one.meta, one.payload, one.digest, previous.digest"
    " FROM event AS one"
    " LEFT JOIN event AS previous ON previous.stream = one.stream AND previous.version = one.version - 1"
    f" WHERE one.stream = ? AND one.version IN ({', '.join('?' * ROWS_APART_MAX)})"
)
BLOCKS_OF_SEGMENTS = f"SELECT {BLOCK_COLUMNS} FROM block WHERE segment BETWEEN ? AND ?"
ROWS_BETWEEN = (
    "SELECT stream, version, position, recorded_at, meta, payload, digest FROM event"
    " WHERE position BETWEEN ? AND ? ORDER BY position"
)
# Streams whose slice has this remainder: they make up a partition of the log.
IN_PARTITION = "stream.slice % ? = ?"
STREAMS_OF_PARTITION = (
    "SELECT DISTINCT stream.id FROM block JOIN part ON part.block = block.key JOIN stream ON stream.key = part.stream"
    f" WHERE segment BETWEEN ? AND ? AND {IN_PARTITION}"
)
BLOCKS_OF_PARTITION = (
    f"SELECT {BLOCK_COLUMNS} FROM block WHERE segment BETWEEN ? AND ? AND EXISTS (SELECT 1 FROM part"
    f" JOIN stream ON stream.key = part.stream WHERE part.block = block.key AND {IN_PARTITION})"
)
ROWS_OF_PARTITION = (
    "SELECT stream, version, position, recorded_at, meta, payload, digest FROM event"
    f" JOIN stream ON stream.key = event.stream WHERE position BETWEEN ? AND ? AND {IN_PARTITION} ORDER BY position"
)
DIGEST_OF_ROW = "SELECT digest FROM event WHERE stream = ? AND version = ?"
DIGEST_IN_BLOCK = (
    f"SELECT substr(digests, {DIGEST_BYTES} * (start + ? - first_version) + 1, {DIGEST_BYTES}) FROM part JOIN block"
    " ON block.key = part.block WHERE stream = ? AND last_version >= ? AND first_version <= ?"
    " ORDER BY last_version LIMIT 1"
)
# For several streams and versions, with the streams given by their ids.
DIGESTS_IN_BLOCKS = (
    f"SELECT (SELECT substr(digests, {DIGEST_BYTES} * (start + wanted.version - first_version) + 1, {DIGEST_BYTES})"
    " FROM part JOIN block ON block.key = part.block WHERE stream = (SELECT key FROM stream WHERE id = wanted.id)"
    " AND last_version >= wanted.version AND first_version <= wanted.version ORDER BY last_version LIMIT 1)"
    " FROM (SELECT key AS place, json_extract(value, '$[0]') AS id, json_extract(value, '$[1]') AS version"
    " FROM json_each(?)) AS wanted ORDER BY wanted.place"
)
T = TypeVar("T")
INDEX_OF_BLOCKS = "CREATE INDEX IF NOT EXISTS part_block ON part (block)"


def version_at(
    connection: sqlite3.Connection, stream: tuple[int, str], head: int, column: Column, bound: int
) -> tuple[int, int]:
    """
    Return the last version of a stream, given by its key and id, whose `column` is not above `bound`; 0 if there is
    none.

    The second value is 0 if the version is exact. In a block only the first event of each part is compared. Then the
    first value is the last version of that part, and the second value is the first version of the part: the caller must
    search from there.

    Raises:
        DamagedError: a version is missing.
    """
    key, name = stream
    row = f"SELECT {column} FROM event WHERE stream = ? AND version = ?"
    part = (
        f"SELECT first_{column}, first_version FROM part WHERE stream = ? AND last_version >= ?"
        " ORDER BY last_version LIMIT 1"
    )

    def place(version: int) -> int:
        wanted = (key, version)
        found = connection.execute(row, wanted).fetchone() or connection.execute(part, wanted).fetchone()
        if found is None:
            raise DamagedError(f"event {name}@{version}", "it is missing")
        return int(found[0])

    version = bisect.bisect_right(range(1, head + 1), bound, key=place)
    if not version or connection.execute(row, (key, version)).fetchone():
        return version, 0
    return version, int(connection.execute(part, (key, version)).fetchone()[1])


_place = attrgetter("position.number")
Row = tuple[int, int, int, bytes | None, bytes, bytes]
BlockOpener = Callable[[sqlite3.Connection, Block, slice, Place], list[T]]
RowOpener = Callable[[sqlite3.Connection, str, Row, bytes], T]


class Reader:
    """Decodes the events of one log, through a connection that shows one moment of it."""

    def __init__(self, codec: Codec, compression: Compression, chain: Chain) -> None:
        self._chain = chain
        self._codec = codec
        self._compression = compression
        self._seals = Seals()
        self._blocks = BlockReader(codec, compression, self._is_erased, chain)
        self._evidence: Evidence | None = None

    def use_evidence(self, evidence: Evidence) -> None:
        """Compare with this evidence what is read from now on."""
        self._evidence = self._blocks.evidence = evidence

    def read_stream(self, connection: sqlite3.Connection, key: int, wanted: Range) -> list[RecordedEvent]:
        """
        Return the events of a range, as far as they exist, in order; `key` is the key of its stream.

        Raises:
            DamagedError: an event is missing, or does not match its digest.
        """
        return self._read(connection, key, Batch([wanted]), (self._blocks.recorded, self._recorded_row))

    def read_events(self, connection: sqlite3.Connection, key: int, wanted: Range) -> list[Event]:
        return self._read(connection, key, Batch([wanted]), (self._blocks.events, self._event_of_row))

    def read_under(
        self, connection: sqlite3.Connection, key: int, stream: str, idempotency_key: str
    ) -> list[RecordedEvent]:
        """Return the events of a stream that were appended under an idempotency key."""
        span = connection.execute(KNOWN_KEY, (key, idempotency_key)).fetchone()
        return self.read_stream(connection, key, Range(stream, span[0] - 1, span[1])) if span else []

    def read_ranges(
        self, connection: sqlite3.Connection, keys: Callable[[str], int | None], ranges: Sequence[Range]
    ) -> list[list[Event]]:
        found: list[list[Event]] = []
        for batch in batches(ranges):
            key = keys(batch.stream)
            found += [[] for _ in batch.ranges] if key is None else self._read_batch(connection, key, batch)
        return found

    def _read_batch(self, connection: sqlite3.Connection, key: int, batch: Batch) -> list[list[Event]]:
        if len(batch.ranges) > 1 and batch.count <= ROWS_APART_MAX:
            apart = self._read_apart(connection, key, batch)
            if apart is not None:
                return apart
        events = self._read(connection, key, batch, (self._blocks.events, self._event_of_row))
        return [events[start:end] for start, end in batch.places(len(events))]

    def _read_apart(self, connection: sqlite3.Connection, key: int, batch: Batch) -> list[list[Event]] | None:
        """Fetch only the wanted rows; None if one of them is missing, since it may be in a block."""
        stream = batch.stream
        if not connection.execute(DIGEST_OF_ROW, (key, batch.after + 1)).fetchone():
            return None
        versions = [range(max(one.after, 0) + 1, one.until + 1) for one in batch.ranges]
        named = [*chain.from_iterable(versions), *repeat(-1, ROWS_APART_MAX - batch.count)]
        events: dict[int, Event] = {}
        for *row, previous in connection.execute(ROWS_APART, (key, *named)):
            version = row[0]
            before = previous or _digest_of(connection, key, stream, version - 1)
            events[version] = self._event_of_row(connection, stream, tuple(row), before)
        return [[events[version] for version in some] for some in versions] if len(events) == batch.count else None

    def read_between(
        self, connection: sqlite3.Connection, names: Callable[[int], str], *, after: int, until: int
    ) -> list[RecordedEvent]:
        """
        Return the events at positions `after + 1` to `until` (or the last); `names` returns the stream of a key.

        Raises:
            DamagedError: an event is missing, or does not match its digest.
        """
        segments = (segment_of(after + 1), segment_of(until))
        blocks = [Block(*columns) for columns in connection.execute(BLOCKS_OF_SEGMENTS, segments)]
        damaged: list[tuple[Block, DamagedError]] = []
        events = list(self._events_between(connection, blocks, after, until, damaged=damaged))
        rows = connection.execute(ROWS_BETWEEN, (after + 1, until)).fetchall()
        events.extend(self._recorded_rows(connection, names, rows))
        found = set(map(_place, events)) if damaged else set()
        for block, error in damaged:
            first, last = max(after, block.segment * SEGMENT), min(until, (block.segment + 1) * SEGMENT)
            # A position that no other block has is one of this block.
            if not found.issuperset(range(first + 1, last + 1)):
                raise error
        return _in_order(events, after)

    def read_partition(
        self,
        connection: sqlite3.Connection,
        names: Callable[[int], str],
        partition: Partition,
        *,
        after: int,
        until: int,
    ) -> list[RecordedEvent]:
        """Return the events of `read_between` that belong to one partition; blocks without any are not opened."""
        remainder, segments = (partition.of, partition.number), (segment_of(after + 1), segment_of(until))
        streams = {row[0] for row in connection.execute(STREAMS_OF_PARTITION, (*segments, *remainder))}
        blocks = [Block(*columns) for columns in connection.execute(BLOCKS_OF_PARTITION, (*segments, *remainder))]
        events = list(self._events_between(connection, blocks, after, until, streams))
        rows = connection.execute(ROWS_OF_PARTITION, (after + 1, until, *remainder)).fetchall()
        events.extend(self._recorded_rows(connection, names, rows))
        return sorted(events, key=_place)

    def _events_between(
        self,
        connection: sqlite3.Connection,
        blocks: Iterable[Block],
        after: int,
        until: int,
        streams: Container[str] | None = None,
        damaged: list[tuple[Block, DamagedError]] | None = None,
    ) -> Iterator[RecordedEvent]:
        """Yield the events of blocks between two positions; with `damaged` blocks that cannot be read are put there."""
        befores = _Ends(connection).digests_before
        for block in blocks:
            pieces = [ALL] if streams is None else self._blocks.bounds_of(block, streams)
            try:
                opened = [one for piece in pieces for one in self._blocks.recorded(connection, block, piece, befores)]
            except DamagedError as error:
                if damaged is None:
                    raise
                damaged.append((block, error))
                continue
            if block.segment * SEGMENT < after or (block.segment + 1) * SEGMENT > until:
                opened = [event for event in opened if after < event.position.number <= until]
            yield from opened

    def _read(
        self,
        connection: sqlite3.Connection,
        key: int,
        batch: Batch,
        openers: tuple[BlockOpener[T], RowOpener[T]],
    ) -> list[T]:
        """
        Collect parts and rows. One more event is read than was asked for, because the first one needs its digest.

        Events between the ranges of a batch are not opened; they are None in the result.
        """
        if batch.is_empty:
            return []
        with opening(f"stream {batch.stream}"):
            stream, after, until = batch.stream, batch.after, min(batch.until, NO_LIMIT)
            is_one, (open_block, open_row) = len(batch.ranges) == 1, openers
            pieces: list[tuple[int, list[Any]]] = []
            digests = {0: NO_DIGEST}
            for first, last, start, *columns in connection.execute(PARTS_OF_STREAM, (key, max(1, after), until, until)):
                block, count = Block(*columns[2:]), last - first + 1
                begin, end = max(first, after + 1), min(last, until) + 1
                if block.key is None:
                    if begin < end:
                        raise DamagedError(f"event {stream}@{begin}", "it is missing: its block is gone")
                    continue
                digests[last] = block.digests[(start + count - 1) * DIGEST_BYTES : (start + count) * DIGEST_BYTES]
                if begin < end:
                    wanted = batch.bounds(begin, end)
                    piece: list[Any] = [None] * (end - begin)
                    next_version = pieces[-1][0] + len(pieces[-1][1]) if pieces else after + 1
                    if begin != next_version:
                        raise DamagedError(f"event {stream}@{next_version}", "it is missing")
                    if wanted:
                        before = digests.get(first - 1, b"")
                        if wanted.start == first and not before:
                            before = _digest_of(connection, key, stream, first - 1)
                        place = Place(BlockPart(stream, first, count), start, (columns[0], columns[1]), before)
                        bounds = slice(start + wanted.start - first, start + wanted.stop - first)
                        piece[wanted.start - begin : wanted.stop - begin] = open_block(connection, block, bounds, place)
                    pieces.append((begin, piece))
            for row in connection.execute(ROWS_OF_STREAM, (key, max(1, after), until)):
                version = row[0]
                if version > after:
                    if version - 1 not in digests:
                        raise DamagedError(f"event {stream}@{version - 1}", "it is missing")
                    is_wanted = is_one or batch.wants(version)
                    opened = open_row(connection, stream, row, digests[version - 1]) if is_wanted else None
                    if pieces and pieces[-1][0] + len(pieces[-1][1]) == version:
                        pieces[-1][1].append(opened)
                    else:
                        pieces.append((version, [opened]))
                digests[version] = row[5]
            return _joined(stream, pieces, after, until)

    def _recorded_rows(
        self, connection: sqlite3.Connection, names: Callable[[int], str], rows: Iterable[tuple[Any, ...]]
    ) -> Iterator[RecordedEvent]:
        last: dict[int, tuple[int, bytes]] = {}
        for key, *columns in rows:
            row: Row = tuple(columns)
            version, digest = last.get(key, (-1, b""))
            if version != row[0] - 1:
                digest = _digest_of(connection, key, names(key), row[0] - 1)
            last[key] = (row[0], row[5])
            yield self._recorded_row(connection, names(key), row, digest)

    def _event_of_row(self, connection: sqlite3.Connection, stream: str, row: Row, previous: bytes) -> Event:
        payload, _, _ = self._checked(connection, stream, row, previous)
        return self._codec.decode(payload, f"event {stream}@{row[0]}")

    def _recorded_row(self, connection: sqlite3.Connection, stream: str, row: Row, previous: bytes) -> RecordedEvent:
        payload, position, meta = self._checked(connection, stream, row, previous)
        event = self._codec.decode(payload, f"event {stream}@{row[0]}")
        return RecordedEvent(stream, row[0], position, row[2], event, meta, row[5])

    def check_rows(self, connection: sqlite3.Connection, rows: list[tuple[int, str, Row]]) -> None:
        """
        Check rows, each with its stream's key and id, in the order of streams and versions.

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
        try:
            payload = stored[1:] if stored[:1] == b"\x00" else self._payload(connection, stream, row)
            meta = NO_META if packed_meta is None else decode_meta(packed_meta, f"event {stream}@{version}")
            position = Position(ONE_SEQUENCE, number)
            found = self._chain.digest(previous, stream, version, position, recorded_at, meta, payload)
        except VALUE_FAULTS as error:
            raise unreadable(f"event {stream}@{version}", error) from error
        if found != digest and not self._is_erased(
            connection,
            stream,
            version,
            seal_of(previous, digest, (stream, version, position), recorded_at, meta, payload),
        ):
            raise DamagedError(f"event {stream}@{version}", "it does not match its digest")
        if self._evidence is not None:
            self._evidence.require_one(ONE_SEQUENCE, number, digest)
        return payload, position, meta

    def _is_erased(self, connection: sqlite3.Connection, stream: str, version: int, seal: bytes) -> bool:
        """Return whether an erasure of the log says that this is left of an event."""
        return self._seals.has_after_reading(stream, version, seal, partial(self._erasures, connection))

    def _erasures(self, connection: sqlite3.Connection) -> Sequence[Event]:
        key = first_value(connection, KEY_OF_STREAM, ERASURES)
        return self.read_events(connection, key, Range(ERASURES, 0, NO_LIMIT)) if key else ()

    def forget(self) -> None:
        """Drop the opened blocks, which have texts."""
        self._blocks.forget()

    def _payload(self, connection: sqlite3.Connection, stream: str, row: Row) -> bytes:
        what, stored = f"event {stream}@{row[0]}", row[4]
        payload = self._compression.expand(stored, what)
        return resolved(connection, self._compression, payload, what) if has_references(stored) else payload


def _in_order(events: list[RecordedEvent], after: int) -> list[RecordedEvent]:
    """Sort events into the order of the log, if needed, and check that none is missing."""
    numbers = list(map(_place, events))
    if numbers == list(range(after + 1, after + 1 + len(events))):
        return events
    events = sorted(events, key=_place)
    for place, event in enumerate(events, after + 1):
        if event.position.number != place:
            raise DamagedError(f"position {place}", "there is no event at it")
    return events


class _Ends:
    """Ends of streams in the blocks read so far: the next block of a page usually begins there."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        # Version and digest.
        self._ends: dict[str, tuple[int, bytes]] = {}

    def digests_before(self, block: Block, parts: Mapping[int, BlockPart]) -> list[bytes]:
        """
        Return the digests before parts of a block, given by their places; remember where the parts end.

        Raises:
            DamagedError: the event before one of them is missing.
        """
        ends = self._ends
        wanted = [(part.stream, part.first_version - 1) for part in parts.values() if part.first_version > 1]
        unknown = [one for one in wanted if ends.get(one[0], (0, b""))[0] != one[1]]
        found = self._connection.execute(DIGESTS_IN_BLOCKS, (json.dumps(unknown),)) if unknown else ()
        for (stream, version), (digest,) in zip(unknown, found, strict=True):
            if digest is None:
                raise DamagedError(f"event {stream}@{version}", "it is missing")
            ends[stream] = (version, digest)
        befores = [ends[part.stream][1] if part.first_version > 1 else NO_DIGEST for part in parts.values()]
        for place, part in parts.items():
            last = (place + part.size - 1) * DIGEST_BYTES
            ends[part.stream] = (part.first_version + part.size - 1, block.digests[last : last + DIGEST_BYTES])
        return befores


def _digest_of(connection: sqlite3.Connection, key: int, stream: str, version: int) -> bytes:
    if version < 1:
        return NO_DIGEST
    found = stored_digest(connection, stream, version, key)
    if found is None:
        raise DamagedError(f"event {stream}@{version}", "it is missing")
    return found


def stored_digest(connection: sqlite3.Connection, stream: str, version: int, key: int | None = None) -> bytes | None:
    """
    Return the digest of a version of a stream, whose key is looked up if it is not given; None if there is no event.
    """
    if key is None:
        key = first_value(connection, KEY_OF_STREAM, stream)
    found = (
        connection.execute(DIGEST_OF_ROW, (key, version)).fetchone()
        or connection.execute(DIGEST_IN_BLOCK, (version, key, version, version)).fetchone()
    )
    return digest_of_row(f"event {stream}@{version}", found[0]) if found else None


def _joined(stream: str, pieces: list[tuple[int, list[T]]], after: int, until: int) -> list[T]:
    """Join the pieces, each with its first version, in order, and check that nothing is missing."""
    pieces.sort(key=lambda piece: piece[0])
    joined: list[T] = []
    start = min(pieces[0][0], after + 1) if pieces else after + 1
    for first, events in pieces:
        if first != start + len(joined):
            raise DamagedError(f"event {stream}@{start + len(joined)}", "it is missing")
        joined.extend(events)
    return joined[after + 1 - start : until + 1 - start]


class CurrentFile:
    """A file as it is now, through one connection."""

    def __init__(self, connection: sqlite3.Connection, head: Callable[[str], int]) -> None:
        self._connection, self._head = connection, head

    def heads(self, streams: Sequence[str]) -> list[int]:
        return list(map(self._head, streams))

    def digests(self, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        return [stored_digest(self._connection, stream, version) for stream, version in places]
