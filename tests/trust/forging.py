"""What somebody does who may write to the database: change events, and compute digests and checksums anew."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import refold
from refold.domain.log.envelope import NO_DIGEST, UNKEYED
from refold.domain.positions import Position
from refold.infrastructure.log.codec import decode_meta
from refold.infrastructure.log.compression import Compression, no_dictionary
from tests.verifying.damaging import sql

EXPAND = Compression(no_dictionary()).expand


class EventRow(NamedTuple):
    """A row of the table `event`, in the same columns for each database."""

    slice: int
    stream: int
    version: int
    position: int
    recorded_at: int
    meta: bytes | None
    payload: bytes
    digest: bytes


class Place:
    """Where a store and its witness lie."""

    def __init__(self, url: str, witness: Path) -> None:
        self.url, self.witness = url, witness
        self.is_file = not url.startswith("postgresql")
        self._slice, self._stream = ("-1", "stream") if self.is_file else ("slice", "stream_key")

    def open(self, **options: Any) -> refold.Store:
        """Open the store with its witness."""
        return refold.open(self.url, witness=self.witness, **options)

    def sql(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        """Run a statement behind the store's back."""
        return sql(self.url, statement.replace("{stream}", self._stream), *values)

    def rows(self, stream: str) -> list[EventRow]:
        """Return the rows of a stream that are in no block."""
        columns = f"{self._slice}, e.{self._stream}, version, position, recorded_at, meta, payload, digest"
        if not self.is_file:
            columns = "e." + columns
        found = self.sql(
            f"SELECT {columns} FROM event e JOIN stream s ON s.key = e.{self._stream}"
            f"{'' if self.is_file else ' AND s.slice = e.slice'} WHERE s.id = ? ORDER BY version",
            stream,
        )
        return [EventRow(*row) for row in found]

    def put(self, row: EventRow) -> None:
        """Put a row in the place of the one with its position."""
        where = "position = ?" if self.is_file else "position = ? AND slice = ?"
        place = (row.position,) if self.is_file else (row.position, row.slice)
        self.sql(
            f"UPDATE event SET {{stream}} = ?, version = ?, recorded_at = ?, meta = ?, payload = ?, digest = ?"
            f" WHERE {where}",
            *(row.stream, row.version, row.recorded_at, row.meta, row.payload, row.digest, *place),
        )

    def remove(self, row: EventRow) -> None:
        """Remove a row."""
        where = "" if self.is_file else " AND slice = ?"
        self.sql(f"DELETE FROM event WHERE position = ?{where}", row.position, *(() if self.is_file else (row.slice,)))

    def add(self, row: EventRow) -> None:
        """Add a row."""
        tag = self.sql("SELECT max(tag) FROM event")[0][0]
        if self.is_file:
            values: tuple[object, ...] = (
                row.position,
                row.stream,
                row.version,
                row.recorded_at,
                tag,
                row.meta,
                row.payload,
                row.digest,
            )
            self.sql(f"INSERT INTO event VALUES ({', '.join('?' * 8)})", *values)
            return
        event_id = (row.position * 1_000_003).to_bytes(16, "big").hex()
        head = (row.slice, row.stream, row.position, row.version, tag, row.recorded_at)
        values = (*head, event_id, row.meta, row.payload, row.digest)
        self.sql(f"INSERT INTO event VALUES ({', '.join('?' * 10)})", *values)


def with_text(row: EventRow, old: str, new: str) -> EventRow:
    """Return a row with another text of the same length."""
    plain = EXPAND(row.payload, "the payload")
    assert old.encode() in plain
    return row._replace(payload=b"\0" + plain.replace(old.encode(), new.encode()))


def rechained(stream: str, rows: list[EventRow], before: bytes = NO_DIGEST) -> Iterator[EventRow]:
    """Return rows with the digests that they must have, computed anew."""
    for row in rows:
        place, payload = Position(row.slice, row.position), EXPAND(row.payload, "the payload")
        before = UNKEYED.digest(before, stream, row.version, place, row.recorded_at, decode_meta(row.meta), payload)
        yield row._replace(digest=before)


def rewrite(place: Place, stream: str, change: Callable[[list[EventRow]], list[EventRow]]) -> None:
    """Change the rows of a stream, and compute all of its digests anew."""
    for row in rechained(stream, change(place.rows(stream))):
        place.put(row)
