"""Measures how many bytes a store takes at rest."""

from __future__ import annotations

from pathlib import Path

import psycopg

TABLES_BYTES = """
    select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where c.relkind in ('r', 'p') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
"""


def sqlite_bytes(path: Path) -> int:
    """Return the bytes of the file, and of its WAL if there is one."""
    files = [path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")]
    return sum(file.stat().st_size for file in files if file.exists())


def postgres_bytes(url: str) -> int:
    """Return the bytes of all tables of a database with their indexes and TOAST tables, after a VACUUM FULL."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("vacuum (full, analyze)")
        row = connection.execute(TABLES_BYTES).fetchone()
    return int(row[0]) if row else 0
