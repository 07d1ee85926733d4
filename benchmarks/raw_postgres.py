"""
The limit on PostgreSQL: the same payloads through psycopg alone.

One append is one prepared, autocommitted INSERT, one round trip; many are one INSERT of many rows. Rows are read in
binary form, and decoded with msgspec into the same Structs.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import psycopg

from .database_size import postgres_bytes
from .raw import Raw
from .subject import COMMON, Write

SCHEMA = (
    "create table if not exists event (position bigint generated always as identity primary key,"
    " stream integer not null, version integer not null, recorded_at bigint not null,"
    " payload bytea not null, unique (stream, version))"
)
INSERT = "insert into event (stream, version, recorded_at, payload) values "
# Another process may have written the last version; one that writes at the same time is refused.
INSERT_LAST = INSERT.replace("values", "select %b, coalesce(max(version), 0) + 1, %b, %b from event where stream = %b")
VALUES = "(%b, %b, %b, %b)"
SELECT = "select version, recorded_at, payload from event where stream = %b and version <= %b order by version"
LAST = "select version, recorded_at, payload from event where stream = %b order by version desc limit %b"
COUNTED = "create table if not exists counted (stream bigint primary key, events bigint not null)"
COUNT = "insert into counted values (%s, %s) on conflict (stream) do update set events = excluded.events"
SCAN = (
    "select position, stream, version, recorded_at, payload from event where position > %b order by position limit %b"
)
HEAD = "select coalesce(max(version), 0) from event where stream = %b"
PAGE = 2_048
Connection = psycopg.Connection[tuple[Any, ...]]


class RawPostgres(Raw):
    """One table in one database."""

    _connection: Connection
    head, select, last, everything = HEAD, SELECT, LAST, (1 << 31) - 1

    def open(self) -> None:
        """Connect."""
        self._connection = self._connect()
        self._connection.execute("set client_min_messages = warning")
        self._connection.execute(SCHEMA)

    def _connect(self) -> Connection:
        return psycopg.connect(self.location, autocommit=True)

    def append(self, context: str, given: bytes) -> object:
        """Insert one row."""
        return self.append_batch(context, (given,))

    def append_batch(self, context: str, given: Sequence[bytes]) -> object:
        """Insert many rows with one statement."""
        first = self._next(context, len(given))
        return _insert(self._connection, self._key(context), first, given)

    def _writer(self, connection: Connection, context: str) -> Write:
        key, version = self._key(context), self._next(context, 0)

        def write(payload: Any) -> None:
            nonlocal version
            _insert(connection, key, version, (payload,))
            version += 1

        return partial(_insert_last, connection, key) if context.startswith(COMMON) else write

    def rebuild(self) -> int:
        """Read and decode everything, page by page, and store how many events each context has."""
        decode, position, counts = self._decode, 0, Counter[int]()
        while rows := self._rows(SCAN, position, PAGE):
            for row in rows:
                decode(row[4])
                counts[row[1]] += 1
            position = rows[-1][0]
        with self._connection.transaction(), self._connection.cursor() as cursor:
            cursor.execute(COUNTED)
            cursor.executemany(COUNT, list(counts.items()))
        return counts.total()

    def _rows(self, statement: str, *values: int) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:
            return cursor.execute(statement.encode(), values, prepare=True).fetchall()

    def bytes_used(self) -> int:
        """Return the bytes of the table and its indexes."""
        return postgres_bytes(self.location)


def _insert(connection: Connection, key: int, first: int, payloads: Sequence[bytes]) -> object:
    now = time.time_ns() // 1000
    statement = INSERT + ", ".join([VALUES] * len(payloads))
    values = [part for version, payload in enumerate(payloads, first) for part in (key, version, now, payload)]
    return connection.execute(statement.encode(), values, prepare=True)


def _insert_last(connection: Connection, key: int, payload: bytes) -> None:
    while True:
        values = (key, time.time_ns() // 1000, payload, key)
        with suppress(psycopg.errors.UniqueViolation):
            connection.execute(INSERT_LAST.encode(), values, prepare=True)
            return
