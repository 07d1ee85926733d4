"""
The tables of a log on SQLite: created at the first use, in one transaction, and recognised afterwards.

A file of Refold has its application id; a file of another program is refused, not written to.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ....domain.errors import DamagedError, StorageReadOnlyError, StorageUnavailableError
from ..row_faults import KEY_DESTROYED, RETIRED, ROWS_REPORTED, foreign_object_fault
from .connection import SqliteDatabase, translated

APPLICATION_ID = 0x5265466F  # "ReFo"
# 2: an envelope may have the fingerprint of a call, and a digest that Refold with version 1 considers wrong. The tables
# are those of version 1.
SCHEMA_VERSION = 2
# The statements that bring tables to a version from the one before it.
STEPS: dict[int, Sequence[str]] = {2: ()}
TABLES = "SELECT count(*) FROM sqlite_schema"
# The tables of a log, and those beside it. A view in the place of a table could return anything, also to checks.
OWN_TABLES = (
    "('stream', 'tag', 'event', 'block', 'part', 'blob', 'idempotency', 'snapshot', 'segment', 'checkpoint', 'note', "
    "'data_key', 'sealed_page')"
)
REPLACED = f"""
    SELECT type, name FROM sqlite_schema WHERE lower(name) IN {OWN_TABLES} AND (type <> 'table' OR rootpage = 0)
"""
# The trigger of a store that was moved: its text behind the name.
RETIRES = f" BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, '{RETIRED}'); END"
# A trigger can change or drop what an append records, or what is packed into blocks.
TRIGGERS = f"""
    SELECT type, name, tbl_name FROM sqlite_schema WHERE type = 'trigger' AND lower(tbl_name) IN {OWN_TABLES}
    AND sql <> 'CREATE TRIGGER ' || name || '{RETIRES.replace("'", "''")}' AND name NOT GLOB '{KEY_DESTROYED}*'
    LIMIT {ROWS_REPORTED}
"""
# Whether the tables that every log has are there.
UNNAMED = "SELECT count(*) = 5 FROM sqlite_schema WHERE name IN ('stream', 'tag', 'event', 'blob', 'idempotency')"
APPLICATION, JOURNAL_MODE = "PRAGMA application_id", "PRAGMA journal_mode"


def refuse_foreign_file(path: str | Path) -> None:
    """
    Check a file before it is opened for writing: opening another program's database already changes it.

    This works only for a file that is not in WAL mode. In WAL mode the application id is checked after opening.

    Raises:
        StorageUnavailableError: the file is another program's database.
    """
    with translated(str(path)):
        place = Path(path).absolute()
        if not place.is_file():
            # Opening a pipe could wait for ever; it is refused when it is opened for writing.
            return
    # SQLite itself reads the file. If this process opened and closed the file directly, POSIX would drop the locks of
    # all its other connections to it, and another process could remove their WAL.
    name = f"file:{quote(str(place))}?mode=ro"
    try:
        with closing(sqlite3.connect(name, uri=True)) as connection:
            # In this order: a process that is making the file switches it to WAL, and then makes its tables and its id.
            tables, application, mode = (_ask(connection, what) for what in (TABLES, APPLICATION, JOURNAL_MODE))
            # A process that was killed, or found the disk full, may have left a first page without tables.
            if mode != "wal" and application != APPLICATION_ID and (tables or application):
                raise _foreign_file_error(connection, str(path))
    except (sqlite3.Error, ValueError):
        return


def _foreign_file_error(connection: sqlite3.Connection, where: str) -> StorageUnavailableError:
    """Return the error for a file that does not have the application id of Refold."""
    if _ask(connection, UNNAMED):
        return StorageUnavailableError(
            f"{where} has the tables of Refold, but not its application_id, as after .dump: restore the file itself"
        )
    return StorageUnavailableError(f"{where} is a database of another program: name another file")


def _ask(connection: sqlite3.Connection, what: str) -> Any:
    return connection.execute(what).fetchone()[0]


def prepare_schema(database: SqliteDatabase) -> None:
    """
    Create the tables in a new file; upgrade an older file, unless it is opened for reading only or cannot be written.

    Raises:
        StorageUnavailableError: the file belongs to another program, or to a newer Refold.
        DamagedError: there never was such a version, or something else is in the place of a table.
        StorageReadOnlyError: it is opened for writing, and has a trigger that is not Refold's.
    """
    with database.reading() as connection:
        application, version, tables = _identity(connection)
        replaced = connection.execute(REPLACED).fetchone() if application == APPLICATION_ID else None
        trigger = None if database.read_only else connection.execute(TRIGGERS).fetchone()
        foreign = _foreign_file_error(connection, database.where) if tables and application != APPLICATION_ID else None
    where = database.where
    if application == APPLICATION_ID:
        if version > SCHEMA_VERSION:
            raise StorageUnavailableError(f"{where} was written by a newer Refold: update this one")
        if version < 1:
            raise DamagedError(where, f"its tables have the version {version}, which there never was")
        if replaced:
            raise DamagedError(where, f"a {replaced[0]} has the place of the table {replaced[1]}")
        if trigger:
            raise StorageReadOnlyError(f"{where} cannot be written: {foreign_object_fault(*trigger)}")
        if version < SCHEMA_VERSION and not database.read_only:
            with suppress(StorageReadOnlyError):
                bring_forward(database)
        return
    if foreign is not None:
        raise foreign
    if database.read_only:
        raise StorageUnavailableError(f"{where} is empty: import something into it first")
    _create_tables(database)


def _identity(connection: sqlite3.Connection) -> tuple[int, int, int]:
    return _ask(connection, APPLICATION), _ask(connection, "PRAGMA user_version"), _ask(connection, TABLES)


def bring_forward(database: SqliteDatabase) -> None:
    """
    Take all steps from the present version in one transaction.

    Raises:
        StorageReadOnlyError: the file cannot be written, also where no step is left to take.
    """
    with database.writing() as connection:
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
