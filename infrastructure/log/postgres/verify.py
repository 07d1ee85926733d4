"""The rows of a log on PostgreSQL beside its events: names of streams, keys, large texts, and parts of blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from ....domain.errors import DamagedError
from ....domain.ids import SLICES, end_of_prefix
from ....domain.log.ports import KeyRow
from ..compression import Compression
from ..database_log import DatabaseLog
from ..large_texts import damage_of
from ..row_faults import ROWS_REPORTED, empty_key, foreign_object_fault, nameless_type
from .blocks import BLOCKS_OF_SLICE, IS_PACKED, PARTS_OF_SLICE, Blocks
from .connection import PostgresDatabase
from .read import NAME
from .schema import FOREIGN
from .wire import BEGIN_STILL, ROLLBACK, Call, Rows, Wire, int4, int8

PAGE_ROWS = 256
STREAMS = "SELECT id FROM stream WHERE id > $1 AND id >= $2 AND id < $3 ORDER BY id LIMIT 10000"
SLICES_AT_ONCE = 64
# A damaged row may have the number of a slice that there is not.
ANY_NUMBER = (-(1 << 31), (1 << 31) - 1)
NAMELESS = f"""
    SELECT s.id, e.slice, e.stream_key, e.version, e.tag
    FROM event AS e LEFT JOIN tag AS t ON t.key = e.tag
    LEFT JOIN stream AS s ON s.slice = e.slice AND s.key = e.stream_key
    WHERE t.key IS NULL AND e.slice BETWEEN $1 AND $2 ORDER BY e.slice, e.position LIMIT {ROWS_REPORTED}
"""
# Versions have no holes, so the last version implies all others.
KEYS = f"""
    SELECT id, slice, stream, key, first_version, last_version, head FROM (
        SELECT s.id, i.slice, i.stream, i.key, i.first_version, i.last_version,
            coalesce(
                (SELECT max(e.version) FROM event AS e WHERE e.slice = i.slice AND e.stream_key = i.stream),
                (SELECT max(p.last_version) FROM part AS p WHERE p.slice = i.slice AND p.stream = i.stream), 0) AS head
        FROM idempotency AS i LEFT JOIN stream AS s ON s.slice = i.slice AND s.key = i.stream
        WHERE i.slice BETWEEN $1 AND $2) AS keyed
    WHERE first_version NOT BETWEEN 1 AND last_version OR last_version > head LIMIT {ROWS_REPORTED}
"""
TEXTS = f"SELECT slice, key, hash, data FROM blob WHERE (slice, key) > ($1, $2) ORDER BY slice, key LIMIT {PAGE_ROWS}"

KEY_ROWS = """
    SELECT i.slice, i.stream, i.key, s.id, i.first_version, i.last_version
    FROM idempotency AS i LEFT JOIN stream AS s ON s.slice = i.slice AND s.key = i.stream
    WHERE (i.slice, i.stream, i.key) > ($1, $2, $3) ORDER BY i.slice, i.stream, i.key LIMIT 10000
"""


class CheckedLog(DatabaseLog):
    """The part of a log on PostgreSQL that looks for damage, and lists what there is."""

    database: PostgresDatabase
    _compression: Compression
    _blocks: Blocks

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        found: list[str] = []
        end = end_of_prefix(prefix).encode()
        while rows := self._rows(STREAMS, (found[-1] if found else "").encode(), prefix.encode(), end):
            found += [row[0] for row in rows]
            if limit is not None and len(found) >= limit:
                break
        return found[:limit]

    def files(self) -> Sequence[str]:
        return ()

    def damaged_files(self) -> Iterable[DamagedError]:
        return [DamagedError("the database", foreign_object_fault(*one)) for one in self._rows(FOREIGN)]

    def damaged_rows(self) -> Iterator[DamagedError]:
        """Yield errors for the first events whose type has no name, and for keys under which nothing was recorded."""
        for statement, error in ((NAMELESS, nameless_type), (KEYS, empty_key)):
            for stream, number, key, *rest in islice(self._rows_of_slices(statement), ROWS_REPORTED):
                yield error(stream or f"stream {number}.{key}", *rest)

    def _rows_of_slices(self, statement: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement, some slices at a time: the wire gives up a server that is silent for long."""
        firsts = [ANY_NUMBER[0], *range(SLICES_AT_ONCE, SLICES, SLICES_AT_ONCE)]
        lasts = [*(first - 1 for first in firsts[1:]), ANY_NUMBER[1]]
        for first, last in zip(firsts, lasts, strict=True):
            yield from self._rows(statement, int4(first), int4(last))

    def idempotency_keys(self) -> Iterator[KeyRow]:
        place = (-1, 0, "")
        while rows := self._rows(KEY_ROWS, int4(place[0]), int4(place[1]), place[2].encode()):
            for number, stream, key, name, first, last in rows:
                yield KeyRow(name or f"stream {number}.{stream}", key, first, last)
                place = (number, stream, key)

    def damaged_texts(self) -> Iterator[DamagedError]:
        place = (-1, 0)
        while rows := self._rows(TEXTS, int4(place[0]), int8(place[1])):
            for number, key, digest, data in rows:
                damage = damage_of(self._compression, data, digest, f"blob {number}.{key}")
                if damage is not None:
                    yield damage
            place = (rows[-1][0], rows[-1][1])

    def doubtful_streams(self) -> set[str]:
        """Return the streams whose parts are not where the blocks have their events."""
        found: set[tuple[int, int]] = set()
        # Most slices of a small log are empty, and a look at one takes three round trips.
        for number in (number for number, is_packed in self._rows(IS_PACKED) if is_packed):
            parts = self.database.reading(lambda wire, number=number: self._unlike_blocks(wire, int4(number)))  # type: ignore[misc]  # bound at once
            found |= {(number, part[2]) for part in parts}
        names = [self._rows(NAME, int4(number), int4(key)) for number, key in found]
        return {rows[0][0] for rows in names if rows}

    def _unlike_blocks(self, wire: Wire, number: bytes) -> set[tuple[Any, ...]]:
        """Return the parts of a slice that are in its table or in its blocks alone, as of one moment."""
        parts = {tuple(row) for row in wire.run(BEGIN_STILL, Call(PARTS_OF_SLICE, (number,)))[1]}
        place = (0, 0)
        while rows := wire.run(Call(BLOCKS_OF_SLICE, (number, int8(place[0]), int4(place[1]))))[0]:
            parts ^= {part for block in rows for part in self._blocks.parts(block)}
            place = (rows[-1][3], rows[-1][2])
        wire.run(ROLLBACK)
        return parts

    def _rows(self, statement: str, *values: bytes) -> Rows:
        return self.database.ask(Call(statement, values))[0]
