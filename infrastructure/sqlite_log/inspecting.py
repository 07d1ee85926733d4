"""
Looking a log on SQLite over: which files and streams it has, and whether its large texts are what was stored.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ...domain.errors import DamagedError
from ..compression import Compression
from ..texts import text_of

__all__ = ["damaged_pages", "damaged_texts", "database_files", "stream_ids"]

BESIDE = ("-wal", "-shm", "-journal")
FAULTS_TOLD = 10
LAST = "\U0010ffff"


def stream_ids(connection: sqlite3.Connection, prefix: str) -> list[str]:
    """
    Return the ids of the streams that begin with `prefix`, in order.
    """
    # No text is above all others; behind a prefix comes nothing higher than this.
    rows = connection.execute("SELECT id FROM stream WHERE id >= ? AND id < ? ORDER BY id", (prefix, prefix + LAST))
    return [row[0] for row in rows]


def database_files(connection: sqlite3.Connection) -> list[str]:
    """
    Return the file of a database, and those that SQLite keeps beside it; nothing where it lies in memory.
    """
    path = connection.execute("PRAGMA database_list").fetchone()[2]
    return [path, *(path + name for name in BESIDE)] if path else []


def damaged_pages(connection: sqlite3.Connection) -> list[DamagedError]:
    """
    Return an error for each of the first faults that SQLite finds in the file.
    """
    rows = connection.execute(f"PRAGMA integrity_check({FAULTS_TOLD})").fetchall()
    return [DamagedError("the database file", str(row[0])) for row in rows if row[0] != "ok"]


def damaged_texts(connection: sqlite3.Connection, compression: Compression) -> Iterator[DamagedError]:
    """
    Yield an error for each large text that does not match its hash.
    """
    for key, digest, data in connection.execute("SELECT key, hash, data FROM blob ORDER BY key"):
        what = f"blob {key}"
        try:
            text_of(compression.expand(data, what), digest, what)
        except DamagedError as error:
            yield error
        except UnicodeDecodeError as error:
            yield DamagedError(what, str(error))
