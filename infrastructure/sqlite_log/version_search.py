"""Which version did a stream have at a position or a time? Both rise with its versions, so that halving finds it."""

from __future__ import annotations

import bisect
import sqlite3
from typing import Literal

from ...domain.errors import DamagedError

Column = Literal["position", "recorded_at"]


def version_at(
    connection: sqlite3.Connection, stream: tuple[int, str], head: int, column: Column, bound: int
) -> tuple[int, int]:
    """
    Return the last version of a stream, given by its key and id, whose `column` is not above `bound`; 0 for none.

    Of an event in a block only the part's first one is looked at: then what comes back is the last version of that
    part, and behind it the part's first, from which on the events are to be looked at; otherwise a 0 comes behind.

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
