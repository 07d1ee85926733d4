"""
The tables of a log on SQLite: created at the first use, in one transaction, and recognised afterwards.

A file of Refold has its application id; a file of another program is refused, not written to.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ....domain.errors import StorageReadOnlyError, StorageUnavailableError
from .connection import PAUSE_SECONDS, SqliteDatabase

APPLICATION_ID = 0x5265466F  # "ReFo"
# 2: an envelope may have the fingerprint of a call, and a digest that Refold with version 1 considers wrong. The tables
# are those of version 1.
SCHEMA_VERSION = 2
# The statements that bring tables to a version from the one before it.
STEPS: dict[int, Sequence[str]] = {2: ()}
FOREIGN_ATTEMPTS_MAX = 40
HEADER = ("journal_mode", "application_id", "page_count")


def refuse_foreign_file(path: str | Path) -> None:
    """
    Check a file before it is opened for writing: opening another program's database already changes it.

    This works only for a file that is not in WAL mode. In WAL mode the application id is checked after opening.

    Raises:
        StorageUnavailableError: the file is another program's database.
    """
    # SQLite itself reads the file. If this process opened and closed the file directly, POSIX would drop the locks of
    # all its other connections to it, and another process could remove their WAL.
    name = f"file:{quote(os.path.abspath(path))}?mode=ro"
    try:
        # Again for a moment: another process may be creating the file, which is in WAL mode soon after its first page.
        for _ in range(FOREIGN_ATTEMPTS_MAX):
            if not _is_foreign(name):
                return
            time.sleep(PAUSE_SECONDS)
    except (sqlite3.Error, ValueError):
        return
    raise StorageUnavailableError(f"{path} is a database of another program: name another file")


def _is_foreign(name: str) -> bool:
    with closing(sqlite3.connect(name, uri=True)) as connection:
        mode, application, pages = (_pragma(connection, what) for what in HEADER)
    return bool(pages and mode != "wal" and application & 0xFFFFFFFF != APPLICATION_ID)


def _pragma(connection: sqlite3.Connection, what: str) -> Any:
    return connection.execute(f"PRAGMA {what}").fetchone()[0]


def prepare_schema(database: SqliteDatabase) -> None:
    """
    Create the tables in a new file; upgrade an older file, unless it is opened for reading only.

    Raises:
        StorageUnavailableError: the file belongs to another program, or to a newer Refold.
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
    """
    Take all steps from the present version in one transaction; a file that cannot be written stays as it is.
    """
    with suppress(StorageReadOnlyError), database.writing() as connection:
        # Another process may have upgraded the file meanwhile.
        version = _identity(connection)[1]
        for number in range(version + 1, SCHEMA_VERSION + 1):
            for step in STEPS[number]:
                connection.execute(step)
        connection.execute(f"PRAGMA user_version={max(version, SCHEMA_VERSION)}")


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
