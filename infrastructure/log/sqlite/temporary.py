"""
A temporary database of SQLite, for whose calls a fork waits.

SQLite has locks for all its databases of a process. A child that is forked while another thread holds one of them waits
for it for ever, at whatever it does with SQLite.
"""

import sqlite3
from collections.abc import Iterable
from typing import Any, Self

from ....domain.concurrency.locks import fork_safe_lock, locked


def temporary_database() -> sqlite3.Connection:
    """Return a connection to a new database that nobody else sees; it is a file once its cache is full."""
    return sqlite3.connect("", isolation_level=None, check_same_thread=False, factory=_Connection)


class _Cursor(sqlite3.Cursor):
    connection: "_Connection"

    def execute(self, sql: str, values: Any = (), /) -> Self:
        return locked(self.connection.calls, super().execute, sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> Self:
        return locked(self.connection.calls, super().executemany, sql, rows)

    def fetchone(self) -> Any:
        return locked(self.connection.calls, super().fetchone)

    def fetchall(self) -> list[Any]:
        return locked(self.connection.calls, super().fetchall)


class _Connection(sqlite3.Connection):
    def __init__(self, *given: Any, **named: Any) -> None:
        self.calls = fork_safe_lock()
        locked(self.calls, lambda: sqlite3.Connection.__init__(self, *given, **named))

    # Those of `sqlite3` make a cursor of its own.
    def execute(self, sql: str, values: Any = (), /) -> sqlite3.Cursor:
        return self.cursor(_Cursor).execute(sql, values)

    def executemany(self, sql: str, rows: Iterable[Any], /) -> sqlite3.Cursor:
        return self.cursor(_Cursor).executemany(sql, rows)

    def close(self) -> None:
        locked(self.calls, super().close)
