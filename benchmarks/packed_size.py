"""
Measures the bytes of a closed store after its tables were written again without holes, so that small differences are
visible.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import psycopg

from .database_size import postgres_bytes, sqlite_bytes


def packed_bytes(location: str) -> int:
    """Return the bytes of a path or URL; an SQLite file is left as it is, PostgreSQL's tables are rewritten."""
    return _postgres(location) if "://" in location else _sqlite(Path(location))


def _sqlite(path: Path) -> int:
    packed = path.with_name(path.name + "-packed")
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("VACUUM INTO ?", (str(packed),))
    used = sqlite_bytes(packed)
    packed.unlink()
    return used


def _postgres(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum full")
    return postgres_bytes(url)
