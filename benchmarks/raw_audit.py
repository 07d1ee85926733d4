"""
The limit of an audit: a table made for it, of one row for each change, through sqlite3 or psycopg alone.

The answer is a range of its primary key, with values parsed.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import psycopg

from .watched import Change

SCHEMA = (
    "CREATE TABLE IF NOT EXISTS change (node {text} NOT NULL, attribute {text} NOT NULL, number {number} NOT NULL,"
    " old {text} NOT NULL, new {text} NOT NULL, recorded_at {number} NOT NULL, actor {text} NOT NULL,"
    " cause {text} NOT NULL, correlation_id {text} NOT NULL, PRIMARY KEY (node, attribute, number)){ending}"
)
ASKED = (
    "SELECT old, new, number, recorded_at, actor, cause, correlation_id FROM change"
    " WHERE node = {mark} AND attribute = {mark} ORDER BY number"
)
RECORDED_AT = 1_790_000_000_000_000
WHO = ("analyst", "trace-0001", "chat:support-42@7")
Answer = list[tuple[Any, ...]]


class RawAudit(ABC):
    """A table of changes in one database."""

    def __init__(self, location: str) -> None:
        self._location = location
        self._count = 0

    @abstractmethod
    def open(self) -> None:
        """Connect, and make the table where there is none."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection."""

    def reopen(self) -> None:
        """Close the connection, and open another."""
        self.close()
        self.open()

    def add(self, changes: Iterable[Change]) -> None:
        """Put changes into the table, in one transaction."""
        rows: Answer = []
        for node, attribute, old, new in changes:
            self._count += 1
            rows.append((node, attribute, self._count, old.decode(), new.decode(), RECORDED_AT + self._count, *WHO))
        self._insert(rows)

    @abstractmethod
    def _insert(self, rows: Answer) -> None: ...

    def audit(self, node: str, attribute: str) -> Answer:
        """Return all changes of an attribute of a node."""
        return [(json.loads(old), json.loads(new), *rest) for old, new, *rest in self._select(node, attribute)]

    @abstractmethod
    def _select(self, node: str, attribute: str) -> Iterable[tuple[Any, ...]]: ...


class _SqliteAudit(RawAudit):
    _connection: sqlite3.Connection

    def open(self) -> None:
        self._connection = sqlite3.connect(self._location, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL").fetchone()
        self._connection.execute(SCHEMA.format(text="TEXT", number="INTEGER", ending=" WITHOUT ROWID"))

    def close(self) -> None:
        self._connection.close()

    def _insert(self, rows: Answer) -> None:
        self._connection.execute("BEGIN")
        self._connection.executemany("INSERT INTO change VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        self._connection.execute("COMMIT")

    def _select(self, node: str, attribute: str) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(ASKED.format(mark="?"), (node, attribute))


class _PostgresAudit(RawAudit):
    _connection: psycopg.Connection[tuple[Any, ...]]

    def open(self) -> None:
        self._connection = psycopg.connect(self._location, autocommit=True)
        self._connection.execute("SET client_min_messages = warning")
        self._connection.execute(SCHEMA.format(text='text COLLATE "C"', number="bigint", ending=""))

    def close(self) -> None:
        self._connection.close()

    def _insert(self, rows: Answer) -> None:
        with self._connection.cursor() as cursor, cursor.copy("COPY change FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)

    def _select(self, node: str, attribute: str) -> Iterable[tuple[Any, ...]]:
        return self._connection.execute(ASKED.format(mark="%b"), (node, attribute), binary=True)


def raw_audit(location: str) -> RawAudit:
    """Return the table at a path or a URL, not yet open."""
    return _PostgresAudit(location) if "://" in location else _SqliteAudit(location)
