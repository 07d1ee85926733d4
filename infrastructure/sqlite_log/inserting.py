"""
Inserting rows behind the end of the log as it is remembered: behind the event with this digest.

The rows are ready before the database is touched; what goes in does so only where the log still ends there. One
INSERT is all that it takes for rows of streams that are there already. New streams, which lie in a table of their
own, and many rows take a short transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import chain

from .database import in_transaction

# Up to so many rows go in one statement, which spares BEGIN, a SELECT and COMMIT.
ROWS_IN_ONE_MAX = 16
COLUMNS = ("position", "stream", "version", "recorded_at", "tag", "meta", "payload", "digest")
# A digest, not a position: a log that was restored from an older copy may have come to the same position again.
_END = "SELECT digest FROM {p}event ORDER BY position DESC LIMIT 1"
# The n-th new stream has no key before it is there, and is -n in the rows until then.
Row = tuple[int, int, int, int, int, bytes | None, bytes, bytes]
# The id of a stream, and its slice.
NewStream = tuple[str, int]


class Inserter:
    """The statements that write events into the tables with one prefix."""

    def __init__(self, prefix: str) -> None:
        self._end = _END.format(p=prefix)
        self._add = f"INSERT INTO {prefix}event VALUES ({', '.join('?' * len(COLUMNS))})"
        self._add_stream = f"INSERT INTO {prefix}stream (id, slice) VALUES (?, ?)"
        # Adds nothing where the log does not end at its last parameter, a digest: an id must not be NULL.
        self._add_stream_behind = (
            f"INSERT INTO {prefix}stream (id, slice) VALUES (iif(({self._end}) = ?3, ?1, NULL), ?2)"
        )
        self._add_behind = [_add_behind(prefix, count) for count in range(ROWS_IN_ONE_MAX + 1)]

    def add(self, connection: sqlite3.Connection, rows: Sequence[Row]) -> None:
        """Insert rows, within a transaction that has looked at the end of the log."""
        if len(rows) == 1:
            connection.execute(self._add, rows[0])
        else:
            connection.executemany(self._add, rows)

    def add_stream(self, connection: sqlite3.Connection, stream: NewStream) -> int:
        """Insert a stream, within such a transaction, and return its key."""
        return int(connection.execute(self._add_stream, stream).lastrowid or 0)

    def add_behind(self, connection: sqlite3.Connection, last: bytes, rows: Sequence[Row]) -> bool:
        """Insert rows if the log still ends at `last`, in a transaction of their own; say whether it does."""
        if len(rows) > ROWS_IN_ONE_MAX:
            return self._add_many_behind(connection, last, rows)
        values = rows[0] if len(rows) == 1 else chain.from_iterable(rows)
        try:
            # One statement is a transaction of its own: all of its rows, or none.
            connection.execute(self._add_behind[len(rows)], (*values, last))
        except sqlite3.IntegrityError:
            return False
        return True

    def _add_many_behind(self, connection: sqlite3.Connection, last: bytes, rows: Sequence[Row]) -> bool:
        def add(connection: sqlite3.Connection) -> bool:
            is_end = bool(connection.execute(self._end).fetchone() == (last,))
            if is_end:
                self.add(connection, rows)
            return is_end

        return in_transaction(connection, add)

    def open_behind(
        self, connection: sqlite3.Connection, last: bytes, streams: Sequence[NewStream], rows: Sequence[Row]
    ) -> list[int] | None:
        """
        Insert new streams and rows, some of them theirs, if the log still ends at `last` and their ids are free;
        return their keys, or None.
        """

        def add(connection: sqlite3.Connection) -> list[int]:
            keys = [
                int(connection.execute(self._add_stream_behind, (*stream, last)).lastrowid or 0) for stream in streams
            ]
            self.add(connection, [(row[0], keys[-row[1] - 1], *row[2:]) if row[1] < 0 else row for row in rows])
            return keys

        try:
            return in_transaction(connection, add)
        except sqlite3.IntegrityError:
            return None


def _add_behind(prefix: str, count: int) -> str:
    """
    Return the INSERT of `count` rows that fails where the log does not end at the digest in its last parameter.

    The first row's stream is then NULL, which it must not be, and no row is added.
    """
    last = len(COLUMNS) * count + 1
    rows = [[f"?{len(COLUMNS) * row + place}" for place in range(1, len(COLUMNS) + 1)] for row in range(count)]
    if rows:
        rows[0][1] = f"iif(({_END.format(p=prefix)}) = ?{last}, {rows[0][1]}, NULL)"
    return f"INSERT INTO {prefix}event VALUES " + ", ".join(f"({', '.join(row)})" for row in rows)
