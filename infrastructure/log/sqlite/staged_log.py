"""
A log that is made in a file beside another one, and then put in its place in one step.

The new file gets its name by a rename, which either happens or not. Before, the old file takes in its WAL, so that none
is left that SQLite would read as a part of the new one.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from ....domain.errors import InvalidInputError, StorageBusyError
from ...files import BESIDE_SQLITE, file_beside, sync_folder
from .connection import translated
from .open_files import require_place
from .schema import refuse_foreign_file

BROKEN = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
HAS_EVENTS = "SELECT EXISTS (SELECT 1 FROM event) OR EXISTS (SELECT 1 FROM block)"


@contextmanager
def made_aside(path: str, *, overwrite: bool) -> Iterator[tuple[str, Callable[[], None]]]:
    """
    Yield a path at which a log is to be made, and a function that puts it, when it is closed, in the place of `path`.

    Raises:
        InvalidInputError: without `overwrite`, when it is put in place and there are events.
        StorageBusyError: when it is put in place, and another process has the file open.
        StorageUnavailableError: there is no such folder, or the file is another program's.
    """
    target = Path(os.path.realpath(path))
    require_place(target, path)
    refuse_foreign_file(target)
    with translated(path), file_beside(target) as file:
        aside = Path(file.name)
        try:
            yield str(aside), lambda: _put_in_place(aside, target, overwrite=overwrite)
        finally:
            _delete_beside(aside)


def _put_in_place(aside: Path, target: Path, *, overwrite: bool) -> None:
    _checkpoint_wal(aside)
    with aside.open("rb") as written:
        os.fsync(written.fileno())
    try:
        with _locked(target, overwrite=overwrite):
            aside.replace(target)
    except sqlite3.DatabaseError as error:
        if error.sqlite_errorcode & 0xFF not in BROKEN or not overwrite:
            raise
        # A broken file does not take in its WAL, and SQLite would read that as a part of the new one.
        _delete_beside(target)
        aside.replace(target)
    sync_folder(target.parent)


def _checkpoint_wal(database: Path) -> None:
    """Move the WAL into the file: when SQLite does this at a close, it does not report a full disk."""
    if not database.with_name(f"{database.name}-wal").exists():
        return
    with closing(sqlite3.connect(database, timeout=0)) as connection:
        if connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]:
            raise StorageBusyError(f"{database} is open in another process: close it there, then restore")


def _delete_beside(database: Path) -> None:
    for ending in BESIDE_SQLITE:
        database.with_name(database.name + ending).unlink(missing_ok=True)


@contextmanager
def _locked(target: Path, *, overwrite: bool) -> Iterator[None]:
    """Hold the lock of a file that may be replaced, and that has taken in its WAL; nobody else has it open."""
    if not target.exists():
        yield
        return
    with closing(sqlite3.connect(target, isolation_level=None, timeout=1)) as connection:
        _require_replaceable(connection, target, overwrite=overwrite)
        try:
            connection.execute("PRAGMA journal_mode = DELETE").fetchone()
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise StorageBusyError(f"{target} is open in another process: close it there, then restore") from error
        _require_replaceable(connection, target, overwrite=overwrite)
        yield


def _require_replaceable(connection: sqlite3.Connection, target: Path, *, overwrite: bool) -> None:
    if not overwrite and has_events(connection):
        raise InvalidInputError(f"{target} has events: restore into a new file, or overwrite it")


def has_events(connection: sqlite3.Connection) -> bool:
    """Return whether a file holds a log with events."""
    with suppress(sqlite3.OperationalError):
        return bool(connection.execute(HAS_EVENTS).fetchone()[0])
    return False
