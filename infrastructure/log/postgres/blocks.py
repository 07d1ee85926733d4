"""
Blocks on PostgreSQL: old events of a slice, packed up to 64 at a time and compressed.

The last events of a slice stay rows: appends, the end of the log and what was acknowledged last are read from these
alone. All before a position are in blocks, all after it are rows. Rows and their blocks change places in one
transaction, and each statement of a reader takes both, as of one moment (docs/adr/0030).

A block is opened into the rows that it replaced, so they are checked and decoded as rows are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate, repeat
from operator import itemgetter
from struct import Struct
from typing import Any, NamedTuple

import msgspec

from ....domain.concurrency.known_types import known
from ....domain.errors import DamagedError
from ..block_body import (
    BLOCK_EVENTS,
    DIGEST_BYTES,
    OvertakenError,
    block_checksum,
    in_blocks,
    packed,
    require_one_size,
    runs,
)
from ..compression import FLAGS, PLAIN, Compression
from ..row_faults import opening
from .connection import PostgresDatabase
from .planning import inserts
from .schema import WAIT_BRIEFLY
from .stored_events import COLUMNS, Row
from .wire import BEGIN, COMMIT, Call, Rows, Wire, int4, int8

# The last events of a slice that stay rows.
ROWS_KEPT = 64
# So many positions change places in one transaction, and are packed together at most: more than BLOCK_EVENTS where many
# streams take turns, so that their parts have PART_EVENTS events and a load opens few blocks.
SEGMENT_EVENTS_MAX = 512
PART_EVENTS = 16
ID_BYTES = 16
_place = Struct("!iqqi").pack
# A block in the columns of a row: the stream is NULL, then follow `place`, `last`, `first`, digests, body and checksum.
BLOCK_AS_ROW = "{0}.slice, NULL::int, {0}.place, {0}.last, b.first, b.digests, b.body, b.checksum"
# LEFT JOIN: a part whose block is missing is reported, not left out.
PARTS = "part AS p LEFT JOIN block AS b ON b.slice = $1 AND b.last = p.last AND b.place = p.place WHERE p.slice = $1"
# No part is longer than a block, so later parts of the stream need not be read.
PART_OF_VERSION = (
    "{stream} = p.stream AND p.last_version >= {version} AND p.first_version <= {version}"
    f" AND p.last_version < least({{version}}, 2147483000) + {BLOCK_EVENTS}"
)
DIGEST_IN_BLOCK = f"substr(b.digests, {DIGEST_BYTES} * (p.start + {{version}} - p.first_version) + 1, {DIGEST_BYTES})"
# The last version of stream `$2`: rows are younger than blocks.
HEAD = (
    "coalesce((SELECT max(version) FROM event WHERE slice = $1 AND stream_key = $2),"
    " (SELECT max(last_version) FROM part WHERE slice = $1 AND stream = $2), 0)"
)
# The end of stream `s.key` in slice `s.slice`, which is `$1`: the part is looked up only where there is no row.
LAST_EVENT = "SELECT version, digest FROM event WHERE slice = $1 AND stream_key = s.key ORDER BY version DESC LIMIT 1"
LAST_PART = (
    f"SELECT p.last_version AS version, {DIGEST_IN_BLOCK.format(version='p.last_version')} AS digest FROM {PARTS}"
    " AND p.stream = s.key AND e.version IS NULL ORDER BY p.last_version DESC LIMIT 1"
)
STREAM_END = (
    "coalesce(e.version, b.version) AS version, coalesce(e.digest, b.digest) AS digest FROM {streams} AS s"
    f" LEFT JOIN LATERAL ({LAST_EVENT}) AS e ON s.slice = $1 LEFT JOIN LATERAL ({LAST_PART}) AS b ON s.slice = $1"
)
ROWS_OF_STREAM = (
    f"(SELECT {BLOCK_AS_ROW.format('p')} FROM {PARTS} AND p.stream = $2 AND p.last_version >= $3 AND"
    f" p.last_version < least($4, 2147483000) + {BLOCK_EVENTS} AND p.first_version <= $4 ORDER BY p.last_version)"
    f" UNION ALL (SELECT {COLUMNS} FROM event"
    " WHERE slice = $1 AND stream_key = $2 AND version BETWEEN $3 AND $4 ORDER BY version)"
)
ROWS_OF_POSITIONS = (
    f"(SELECT {BLOCK_AS_ROW.format('b')} FROM block AS b WHERE b.slice = $1 AND b.last > $2"
    f" AND b.last < $3::bigint + {SEGMENT_EVENTS_MAX} AND b.first <= $3 ORDER BY b.last, b.place)"
    f" UNION ALL (SELECT {COLUMNS} FROM event"
    " WHERE slice = $1 AND position > $2 AND position <= $3 ORDER BY position)"
)
# The blocks that hold events of a stream since a time.
BLOCKS_SINCE = (
    f"SELECT {BLOCK_AS_ROW.format('p')} FROM {PARTS}"
    " AND p.stream = (SELECT key FROM stream WHERE id = $2 AND slice = $1)"
    " AND p.last_version >= coalesce((SELECT q.last_version FROM part AS q WHERE q.slice = $1 AND q.stream = p.stream"
    " AND q.recorded_at < $3 ORDER BY q.last_version DESC LIMIT 1), 0)"
)
SEALED_TO = "SELECT slice, (SELECT max(last) FROM block AS b WHERE b.slice = s.slice) FROM slice_lock AS s"
# Whether each slice has blocks, or parts whose blocks may be gone.
IS_PACKED = (
    "SELECT slice, EXISTS (SELECT FROM block AS b WHERE b.slice = s.slice)"
    " OR EXISTS (SELECT FROM part AS p WHERE p.slice = s.slice) FROM slice_lock AS s"
)
TO_SEAL = (
    f"SELECT event_id, {COLUMNS} FROM event WHERE slice = $1 AND position > $2 AND position <= $3 ORDER BY position"
)
# It also returns the columns that an erasure changes: a second erasure may replace what a first one left.
REMOVE = (
    "DELETE FROM event WHERE slice = $1 AND position > $2 AND position <= $3"
    " RETURNING position, digest, meta, sha256(payload)"
)
# Whether what `seal` knew of a slice still holds: its blocks end where they did, and rows come after those removed.
# An older copy of the database may have been put back since, and the next position is counted on from the last row.
STILL_SO = (
    "SELECT coalesce((SELECT max(last) FROM block WHERE slice = $1), 0) = $2"
    " AND EXISTS (SELECT FROM event WHERE slice = $1 AND position > $3)"
)
BLOCKS_OF_SLICE = (
    f"SELECT {BLOCK_AS_ROW.format('b')} FROM block AS b WHERE b.slice = $1 AND (b.last, b.place) > ($2, $3)"
    f" ORDER BY b.last, b.place LIMIT {BLOCK_EVENTS}"
)
PARTS_OF_SLICE = (
    "SELECT p.last, p.place, p.stream, p.last_version, p.first_version, p.position, p.recorded_at, p.start"
    " FROM part AS p WHERE p.slice = $1"
)
_by_version = itemgetter(2)
_by_position = itemgetter(3)
_by_stream = itemgetter(2, 3)


def digest_of(stream: str, version: str) -> str:
    """Return an expression for the digest of a version in slice `$1`, in a row or a block; NULL if there is none."""
    is_wanted = PART_OF_VERSION.format(stream=stream, version=version)
    return (
        f"coalesce((SELECT digest FROM event WHERE slice = $1 AND stream_key = {stream} AND version = {version}),"
        f" (SELECT {DIGEST_IN_BLOCK.format(version=version)} FROM {PARTS} AND {is_wanted}"
        " ORDER BY p.last_version LIMIT 1))"
    )


class _Body(NamedTuple):
    """
    The content of a block, column by column. A part is the key of a stream, the first of its versions, and how many
    there are. Payloads have their mark before them and are not compressed by themselves.
    """

    parts: list[tuple[int, int, int]]
    positions: list[int]
    times: list[int]
    metas: list[bytes | None]
    payloads: list[bytes]
    ids: bytes


_DECODER = msgspec.msgpack.Decoder(known(_Body))


class Blocks:
    """Opens the blocks of one log."""

    def __init__(self, compression: Compression) -> None:
        self._compression = compression

    def rows_of_stream(self, found: Rows, stream: int, first: int, last: int) -> list[Row]:
        """
        Return what ROWS_OF_STREAM found as rows of the stream, in order.

        Raises:
            DamagedError: a block is missing, was changed, or lacks the versions that its part names.
        """
        blocks = [row for row in found if row[1] is None]
        if not blocks:
            return found
        rows: list[Row] = [row for row in found if row[1] is not None]
        for block in blocks:
            part = self._rows(block, lambda key, start, end: key == stream and start <= last and end >= first)
            within = [row for row in part if first <= row[2] <= last]
            if not within:
                raise DamagedError(_name(block), "it lacks versions that it should have")
            rows += within
        return sorted(rows, key=_by_version)

    def rows_of_positions(self, found: Rows, after: int, until: int) -> list[Row]:
        """
        Return what ROWS_OF_POSITIONS found as rows, in order, from `after` on, and all that the blocks have to `until`.
        """
        blocks = [row for row in found if row[1] is None]
        if not blocks:
            return found
        rows: list[Row] = [row for row in found if row[1] is not None]
        for block in blocks:
            rows += [row for row in self._rows(block) if after < row[3] <= until]
        return sorted(rows, key=_by_position)

    def ids(self, block: Row) -> Iterator[tuple[int, Row]]:
        """Yield the id of each event of a block, and its row."""
        for one, row in zip(_cut(self.opened(block).ids, ID_BYTES), self._rows(block), strict=True):
            yield int.from_bytes(one, "big"), row

    def parts(self, block: Row) -> list[tuple[int, ...]]:
        """Return the rows that `part` must have for a block, as PARTS_OF_SLICE selects them."""
        return _parts(self.opened(block), block[3], block[2])

    def _rows(
        self, block: Row, is_wanted: Callable[[int, int, int], bool] = lambda key, first, last: True
    ) -> list[Row]:
        body, rows, start = self.opened(block), list[Row](), 0
        digests = _cut(block[5] or b"", DIGEST_BYTES)
        for key, first, size in body.parts:
            some = slice(start, start + size)
            if is_wanted(key, first, first + size - 1):
                columns = (body.positions[some], body.times[some], body.metas[some], body.payloads[some], digests[some])
                rows += zip(repeat(block[0]), repeat(key), range(first, first + size), *columns, strict=False)
            start += size
        return rows

    def opened(self, block: Row) -> _Body:
        """
        Return the content of a block.

        Raises:
            DamagedError: it is missing, or was changed.
        """
        lane, _, place, last, first, digests, body, checksum = block
        what = _name(block)
        with opening(what):
            if body is None or digests is None:
                raise DamagedError(what, "it is missing, and parts belong to it")
            if checksum_of(lane, first, last, place, digests, body) != checksum:
                raise DamagedError(what, "its bytes do not match its checksum")
            opened = _DECODER.decode(self._compression.expand(body, what))
            require_one_size(what, digests, *opened[:-1])
            if len(opened.ids) * DIGEST_BYTES != len(digests) * ID_BYTES:
                raise DamagedError(what, "its columns are of different lengths")
        return opened


def checksum_of(number: int, first: int, last: int, place: int, digests: bytes, body: bytes) -> bytes:
    """Return the checksum of a block of a slice with this content."""
    return block_checksum(_place(number, first, last, place), digests, body)


def _cut(joined: bytes, size: int) -> list[bytes]:
    return [joined[start : start + size] for start in range(0, len(joined), size)]


def _parts(body: _Body, last: int, place: int) -> list[tuple[int, ...]]:
    """Return the parts of a block; see PARTS_OF_SLICE for the values."""
    starts = accumulate((size for _, _, size in body.parts), initial=0)
    return [
        (last, place, key, first + size - 1, first, body.positions[start], body.times[start], start)
        for (key, first, size), start in zip(body.parts, starts, strict=False)
    ]


def _name(block: Row) -> str:
    return f"block {block[0]}.{block[3]}.{block[2]}"


class Sealer:
    """
    Packs the old events of a log, a segment of a slice at a time.

    `check` takes rows in the order of streams and versions, and raises DamagedError if one was changed.
    """

    def __init__(
        self, database: PostgresDatabase, compression: Compression, check: Callable[[Sequence[Row]], object]
    ) -> None:
        self._database = database
        self._compression = compression
        self._check = check

    def sealed(self) -> dict[int, int]:
        """Return the last position in blocks of each slice."""
        return {number: last or 0 for number, last in self._database.ask(Call(SEALED_TO))[0]}

    def seal(self, number: int, after: int, end: int) -> int:
        """
        Pack the next events of a slice that is packed up to `after` and ends at `end`, if there are enough of them;
        return the position up to which it is packed then.

        Raises:
            DamagedError: one of them is missing or was changed; nothing is packed.
            OvertakenError: another process packs them.
        """
        ready = (end - ROWS_KEPT - after) // BLOCK_EVENTS * BLOCK_EVENTS
        if ready <= 0:
            return after
        until = after + min(ready, SEGMENT_EVENTS_MAX)
        rows: list[_Row] = self._database.ask(Call(TO_SEAL, (int4(number), int8(after), int8(until))))[0]
        with opening(f"slice {number}"):
            if [row[4] for row in rows] != [*range(after + 1, until + 1)]:
                raise OvertakenError(f"another process seals slice {number}, or position {number}.{after + 1} is empty")
            calls: list[Call] = []
            for segment in _segments(rows):
                # Damage must not be sealed: under the checksum of the block it would look sound.
                self._check([row[1:] for row in segment])
                calls += self._blocks(segment)
            gone = {(row[4], row[8], row[6], hashlib.sha256(row[7]).digest()) for row in rows}
        place = (int4(number), int8(after), int8(until))
        self._database.transacting(lambda wire: _replace(wire, place, gone, calls))
        return until

    def _blocks(self, rows: Sequence[_Row]) -> Iterator[Call]:
        """Yield the statements that write each block of a segment and its parts."""
        lane = rows[0][1]
        first, last = min(row[4] for row in rows), max(row[4] for row in rows)
        for place, some in enumerate(in_blocks(rows, lambda row: (row[7], row[6]))):
            starts = [*runs([row[2:4] for row in some])]
            body = _Body(
                parts=[(some[start][2], some[start][3], end - start) for start, end in starts],
                positions=[row[4] for row in some],
                times=[row[5] for row in some],
                metas=[row[6] for row in some],
                payloads=[self._plain(row) for row in some],
                ids=b"".join(row[0].bytes for row in some),
            )
            stored, digests = packed(self._compression, body), b"".join(row[8] for row in some)
            checksum = checksum_of(lane, first, last, place, digests, stored)
            block = (int4(lane), int4(place), int8(last), int8(first), checksum, digests, stored)
            yield from inserts("block", [block])
            yield from inserts("part", [_packed_part(lane, part) for part in _parts(body, last, place)])

    def _plain(self, row: _Row) -> bytes:
        expanded = self._compression.expand(row[7], f"position {row[1]}.{row[4]}")
        return bytes([PLAIN | (row[7][0] & FLAGS)]) + expanded


# The id of an event, and its row.
_Row = tuple[Any, ...]


def _segments(rows: Sequence[_Row]) -> Iterator[list[_Row]]:
    """Yield rows of consecutive positions in segments, each in the order of streams and versions."""
    while rows:
        size = BLOCK_EVENTS
        while size < len(rows) and size < PART_EVENTS * len({row[2] for row in rows[:size]}):
            size += BLOCK_EVENTS
        yield sorted(rows[:size], key=_by_stream)
        rows = rows[size:]


def _packed_part(lane: int, part: tuple[int, ...]) -> tuple[bytes, ...]:
    last, place, stream, last_version, first_version, position, recorded_at, start = part
    return (
        *map(int4, (lane, stream, last_version, first_version)),
        *map(int8, (position, recorded_at, last)),
        *map(int4, (place, start)),
    )


def _replace(wire: Wire, place: tuple[bytes, ...], gone: set[tuple[Any, ...]], calls: Sequence[Call]) -> None:
    """Let rows and their blocks change places; what fails is rolled back."""
    # Only another process that seals the same rows has them locked.
    *_, removed, is_still_so = wire.run(BEGIN, WAIT_BRIEFLY, Call(REMOVE, place), Call(STILL_SO, place))
    if set(removed) != gone or is_still_so != [(True,)]:
        raise OvertakenError("another process seals the same events, or an older copy of the database was put back")
    wire.dispatch_all(calls)
    # Not in one trip with COMMIT: a trigger of another program may have dropped a block, and its events would be lost.
    wire.conclude()
    wire.run(COMMIT)
