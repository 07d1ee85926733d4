"""
Tables beside the log on PostgreSQL: snapshots, and what the evidence keeps of segments.

They belong to no version of the schema. Each is made with its first row: a schema without them is whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..evidence import SegmentRow, place
from ..row_faults import opening
from .blocks import ROWS_OF_POSITIONS, Blocks
from .connection import PostgresDatabase
from .schema import run_making
from .stored_events import PLACE
from .wire import BEGIN, COMMIT, Call, Rows, int4, int8

MAKE_SNAPSHOTS = """
    CREATE TABLE IF NOT EXISTS snapshot (
        slice int NOT NULL, stream int NOT NULL, packed bytea NOT NULL, PRIMARY KEY (slice, stream))
"""
HAS_TABLE = "SELECT to_regclass('{table}')::text"
READ_SNAPSHOT = "SELECT packed FROM snapshot WHERE slice = $1 AND stream = $2"
KEEP_SNAPSHOT = """
    INSERT INTO snapshot VALUES ($1, $2, $3) ON CONFLICT (slice, stream) DO UPDATE SET packed = excluded.packed
"""
WITH_SNAPSHOT = "SELECT s.id FROM snapshot AS p JOIN stream AS s ON s.slice = p.slice AND s.key = p.stream"

MAKE_SEGMENTS = """
    CREATE TABLE IF NOT EXISTS segment (
        slice int NOT NULL, number int NOT NULL, root bytea NOT NULL, contents bytea NOT NULL, ends bytea NOT NULL,
        PRIMARY KEY (slice, number))
"""
SEGMENTS = "SELECT number, root, contents, ends FROM segment WHERE slice = $1 AND number < $2 ORDER BY number"
KEEP_SEGMENT = """
    INSERT INTO segment VALUES ($1, $2, $3, $4, $5) ON CONFLICT (slice, number)
    DO UPDATE SET root = excluded.root, contents = excluded.contents, ends = excluded.ends
"""
DIGEST = 7


class _Table:
    """
    A table that may be missing.

    Each call looks for it, in the same round trip as its other statements: another process may have restored a schema
    without it.
    """

    def __init__(self, database: PostgresDatabase, name: str) -> None:
        self._database, self._look = database, Call(HAS_TABLE.format(table=name))

    def _ask(self, *calls: Call) -> tuple[bool, list[Rows]]:
        """Return whether it is there, and the rows of other statements, which do not need it."""
        look, *answers = self._database.ask(self._look, *calls)
        return look[0][0] is not None, answers

    def _write(self, *calls: Call, make: str, is_there: bool) -> None:
        """Write rows in one transaction, which makes the table if it is not there."""
        made = [] if is_there else [Call(make)]
        self._database.transacting(lambda wire: run_making(wire, BEGIN, *made, *calls, COMMIT))


class Snapshots(_Table):
    """The stored snapshots."""

    def __init__(self, database: PostgresDatabase) -> None:
        super().__init__(database, "snapshot")

    def read(self, stream: str) -> bytes | None:
        is_there, (places,) = self._ask(Call(PLACE, (stream.encode(),)))
        where = _place(places) if is_there else None
        rows = self._database.ask(Call(READ_SNAPSHOT, where))[0] if where else []
        return bytes(rows[0][0]) if rows else None

    def store(self, stream: str, packed: bytes) -> None:
        is_there, (places,) = self._ask(Call(PLACE, (stream.encode(),)))
        where = _place(places)
        if where:
            self._write(Call(KEEP_SNAPSHOT, (*where, packed)), make=MAKE_SNAPSHOTS, is_there=is_there)

    def streams(self) -> list[str]:
        is_there, _ = self._ask()
        return [row[0] for row in self._database.ask(Call(WITH_SNAPSHOT))[0]] if is_there else []


def _place(rows: Rows) -> tuple[bytes, bytes] | None:
    return (int4(rows[0][0]), int4(rows[0][1])) if rows else None


class Segments(_Table):
    """The rows that the evidence keeps of complete segments of slices."""

    def __init__(self, database: PostgresDatabase, blocks: Blocks) -> None:
        super().__init__(database, "segment")
        self._blocks = blocks

    def segments(self, lane: int, until: int) -> list[SegmentRow]:
        if not until or not self._ask()[0]:
            return []
        rows: list[Any] = self._database.ask(Call(SEGMENTS, (int4(lane), int4(until))))[0]
        return [*map(SegmentRow._make, rows)]

    def keep(self, lane: int, rows: Sequence[SegmentRow]) -> None:
        keep = [Call(KEEP_SEGMENT, (int4(lane), int4(row.number), *row[1:])) for row in rows]
        self._write(*keep, make=MAKE_SEGMENTS, is_there=self._ask()[0])

    def digests(self, lane: int, first: int, last: int) -> list[bytes]:
        with opening(f"positions {place(lane, first)} to {place(lane, last)}"):
            found = self._database.ask(Call(ROWS_OF_POSITIONS, (int4(lane), int8(first - 1), int8(last))))[0]
            rows: list[Any] = self._blocks.rows_of_positions(found, first - 1, last)
            return [row[DIGEST] for row in rows]
