"""
Projection rows in the log's own SQLite file, so that rows, checkpoint and log share one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Found, Projection, SearchedRow, SearchQuery
from ..sqlite_log.log import SqliteLog
from .sqlite_search import create_searched, drop_index, find

__all__ = ["SqliteProjectionStore"]

TYPES = {int: "INTEGER", str: "TEXT", bytes: "BLOB", float: "REAL"}
KEYS_MAX = 500
CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS checkpoint (projection TEXT PRIMARY KEY, version INTEGER NOT NULL,"
    " moment TEXT NOT NULL)"
)


class SqliteProjectionStore:
    """One table per projection, named `view_` and the projection's name, a column per field of its rows."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log

    def checkpoint(self, projection: Projection) -> Moment:
        """
        Return the moment up to which the rows are made; rows of another version count as none.
        """
        with self._log.database.reading() as connection:
            return _checkpoint(connection, projection)

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """
        Return the rows under `keys` that exist.
        """
        wanted, found = sorted(keys), {}
        with self._log.database.reading() as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return {}
            for start in range(0, len(wanted), KEYS_MAX):
                some = wanted[start : start + KEYS_MAX]
                marks = ",".join("?" * len(some))
                statement = f"SELECT {_columns(projection)} FROM view_{projection.name} WHERE key IN ({marks})"
                found.update({row[0]: _row(projection, row) for row in connection.execute(statement, some)})
        return found

    def save(self, projection: Projection, rows: Mapping[str, Any], *, before: Moment, after: Moment) -> bool:
        """
        Store rows and the checkpoint in one transaction, if the checkpoint is still `before`.
        """
        saved: list[bool] = []
        self._log.exclusively(lambda: saved.append(self._save(projection, rows, before, after)))
        return saved[0]

    def _save(self, projection: Projection, rows: Mapping[str, Any], before: Moment, after: Moment) -> bool:
        with self._log.database.writing() as connection:
            if _checkpoint(connection, projection) != before:
                return False
            if before == BEGINNING:
                _create(connection, projection)
            connection.executemany(_upsert(projection), [msgspec.structs.astuple(row) for row in rows.values()])
            connection.execute(
                "INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)",
                (projection.name, projection.version, str(after)),
            )
        return True

    def rows(self, projection: Projection) -> list[Any]:
        """
        Return all rows, ordered by key.
        """
        with self._log.database.reading() as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return []
            statement = f"SELECT {_columns(projection)} FROM view_{projection.name} ORDER BY key"
            return [_row(projection, row) for row in connection.execute(statement)]

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """
        Return the rows that a query asks for, the best by BM25 first.
        """
        with self._log.database.reading() as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return []
            found = find(connection, f"view_{projection.name}", projection.row.__struct_fields__, query)
            return [Found(_row(projection, row), rank) for *row, rank in found]


def _checkpoint(connection: sqlite3.Connection, projection: Projection) -> Moment:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'checkpoint'").fetchone():
        return BEGINNING
    found = connection.execute(
        "SELECT moment FROM checkpoint WHERE projection = ? AND version = ?",
        (projection.name, projection.version),
    ).fetchone()
    return Moment.parse(found[0]) if found else BEGINNING


def _create(connection: sqlite3.Connection, projection: Projection) -> None:
    table = f"view_{projection.name}"
    fields = msgspec.structs.fields(projection.row)
    columns = ", ".join(f'"{field.name}" {TYPES[field.type]} NOT NULL' for field in fields)
    connection.execute(CHECKPOINTS)
    # Rows of an older version are of no use: the fold starts from the beginning.
    drop_index(connection, table)
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    if issubclass(projection.row, SearchedRow):
        create_searched(connection, table, columns)
    else:
        connection.execute(f"CREATE TABLE {table} ({columns}, PRIMARY KEY (key)) WITHOUT ROWID")


def _upsert(projection: Projection) -> str:
    names = projection.row.__struct_fields__
    marks = ", ".join("?" * len(names))
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name != "key")
    table = f"view_{projection.name}"
    return f"INSERT INTO {table} ({_columns(projection)}) VALUES ({marks}) ON CONFLICT (key) DO UPDATE SET {changes}"


def _columns(projection: Projection) -> str:
    return ", ".join(f'"{name}"' for name in projection.row.__struct_fields__)


def _row(projection: Projection, values: Sequence[Any]) -> Any:
    return projection.row(**dict(zip(projection.row.__struct_fields__, values, strict=True)))
