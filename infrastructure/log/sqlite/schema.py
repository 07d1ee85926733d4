"""
The tables of a log on SQLite: made at first use, in one transaction, and recognised ever after.

A file of Refold's carries its application id; another program's file is refused rather than written into.
"""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ....domain.errors import StorageReadOnlyError, StorageUnavailableError
from .connection import SqliteDatabase

APPLICATION_ID = 0x5265466F  # "ReFo"
# 2: an envelope may have the fingerprint of a call, and a digest that a Refold of version 1 finds wrong. The tables
# are those of version 1.
SCHEMA_VERSION = 2
HEADER = ("journal_mode", "application_id", "page_count")


def refuse_foreign_file(path: str | Path) -> None:
    """
    Look at a file before it is opened for writing: to open another program's database is to change it already.

    Only one that is not in WAL mode can be told so; there the file itself holds the application id.

    Raises:
        StorageUnavailableError: the file is another program's database.
    """
    # SQLite itself looks. To open and close the file here would drop the locks of every other connection that this
    # process has to it (so POSIX has it), and another process would take the WAL away from under them.
    name = f"file:{quote(os.path.abspath(path))}?mode=ro"
    try:
        # Twice: another process may be making the file, which is in WAL mode from its first page on.
        is_foreign = _is_foreign(name) and _is_foreign(name)
    except (sqlite3.Error, ValueError):
        return
    if is_foreign:
        raise StorageUnavailableError(f"{path} is a database of another program: name another file")


def _is_foreign(name: str) -> bool:
    with closing(sqlite3.connect(name, uri=True)) as connection:
        mode, application, pages = (_pragma(connection, what) for what in HEADER)
    return bool(pages and mode != "wal" and application & 0xFFFFFFFF != APPLICATION_ID)


def _pragma(connection: sqlite3.Connection, what: str) -> Any:
    return connection.execute(f"PRAGMA {what}").fetchone()[0]


def prepare_schema(database: SqliteDatabase) -> None:
    """
    Make the tables in a new file; bring an older file forward, unless it is opened for reading only.

    Raises:
        StorageUnavailableError: the file is another program's, or a newer Refold's.
    """
    with database.reading() as connection:
        application, version, tables = _identity(connection)
    where = database.where
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise StorageUnavailableError(f"{where} was written by a newer Refold: update this one")
        if version < SCHEMA_VERSION and not database.read_only:
            _bring_forward(database)
        return
    if tables:
        raise StorageUnavailableError(f"{where} is a database of another program: name another file")
    if database.read_only:
        raise StorageUnavailableError(f"{where} is empty: import something into it first")
    _create_tables(database)


def _identity(connection: sqlite3.Connection) -> tuple[int, int, int]:
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()[0]
    return application, version, tables


def _bring_forward(database: SqliteDatabase) -> None:
    """Say that the file is of this version now; one that cannot be written stays as it is, and so do its events."""
    with suppress(StorageReadOnlyError), database.writing() as connection:
        # A newer Refold may have been here meanwhile.
        if _identity(connection)[1] < SCHEMA_VERSION:
            connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def _create_tables(database: SqliteDatabase) -> None:
    with database.writing() as connection:
        for statement in schema_statements():
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version={SCHEMA_VERSION}")


def schema_statements(prefix: str = "") -> list[str]:
    """Return the statements that create a log's tables, each name with `prefix`."""
    text = resources.files(__package__).joinpath("schema.sql").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("--")]
    return [part.format(p=prefix) for part in "\n".join(lines).split(";") if part.strip()]
