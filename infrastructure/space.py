"""
The room that a database takes and does not use, and giving it back beside readers and writers.

SQLite keeps the pages of deleted rows in a list of free pages. They are moved to the end of the file and cut off, some
at a time, each time in a transaction of its own. A file that Refold made before it could do so keeps its free pages
until SQLite writes it anew. PostgreSQL frees the room of deleted rows for new ones, and cuts off what is free at the
end of a table.
"""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from typing import Any

import msgspec

from .databases import stored_log
from .log.sqlite.connection import translated

# A step takes about a millisecond.
STEP_PAGES = 64
PAUSE_SECONDS = 0.002
FACTS = ("page_size", "page_count", "freelist_count", "auto_vacuum")
NO_VACUUM = 0
POSTGRES_SPACE = """
    SELECT coalesce(sum(size), 0)::bigint, coalesce(sum(size * dead / greatest(live + dead, 1)), 0)::bigint FROM (
        SELECT pg_total_relation_size(relid)::float8 AS size, n_dead_tup AS dead, n_live_tup AS live
        FROM pg_stat_user_tables WHERE schemaname = current_schema()) AS tables
"""


class Space(msgspec.Struct, frozen=True, kw_only=True):
    """
    The room of a database in bytes, and how much of it is `free`: on PostgreSQL as the server estimates it.

    If it is not `gives_back`, it keeps what is free until it is written anew.
    """

    size: int
    free: int
    gives_back: bool = True


def space_of(log: Any) -> Space:
    """Return the room that a log and the rows of projections take; nothing for a log in memory."""
    if not hasattr(log, "database"):
        return Space(size=0, free=0)
    if log.has_slices:
        from .log.postgres.wire import Call

        ((size, free),) = log.database.ask(Call(POSTGRES_SPACE))[0]
        return Space(size=int(size), free=int(free))
    page_size, pages, free, mode = _facts(log)
    return Space(size=page_size * pages, free=page_size * free, gives_back=mode != NO_VACUUM)


def _facts(log: Any) -> list[int]:
    with log.database.reading() as connection:
        return [int(connection.execute(f"PRAGMA {name}").fetchone()[0]) for name in FACTS]


def give_back(log: Any) -> int:
    """
    Give back what is free, beside readers and writers; return how many bytes the database takes less.

    Raises:
        StorageError: the database may not be written, or refused.
    """
    if hasattr(log, "database"):
        # Also where there is nothing to give back.
        log.database.require_writable()
    before = space_of(log)
    if hasattr(log, "database") and log.has_slices:
        log.database.vacuum()
    elif before.gives_back and before.free:
        _shorten(stored_log(log))
    return max(0, before.size - space_of(log).size)


def _shorten(log: Any) -> None:
    """Cut off the free pages of a file."""

    def step(connection: sqlite3.Connection) -> None:
        # SQLite gives a page back with each step of this statement, and sqlite3 takes one step of it.
        for _ in range(STEP_PAGES):
            connection.execute("PRAGMA incremental_vacuum(1)")

    # Pages that writers free meanwhile are left for the next time.
    for _ in range(0, _facts(log)[2], STEP_PAGES):
        log.write(step)
        # Writers of other processes get their turn.
        time.sleep(PAUSE_SECONDS)
    where = log.database.where
    with translated(where), closing(sqlite3.connect(where, timeout=0)) as connection:
        # The file gets shorter when its pages come from the WAL.
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
