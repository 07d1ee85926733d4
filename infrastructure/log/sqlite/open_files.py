"""The open files of a database: whether each is still at its path, and a WAL of full length."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
from pathlib import Path

from ....domain.errors import StorageUnavailableError
from ..row_faults import TOO_MANY_FILES, lacks_files

# The resolution of a folder's times: on most file systems, and on those that count whole seconds or two.
TICK_NANOSECONDS = 20_000_000
COARSE_TICK_NANOSECONDS = 2_000_000_000
SECOND_NANOSECONDS = 1_000_000_000
WAL_BYTES = 4 * 1024 * 1024 + 4096


class OpenFiles:
    """
    The files of one folder, as they were when they were opened. If one of them is deleted or replaced, a program goes
    on writing to a file that nobody finds, and SQLite does not notice.

    Reading the modification time of the folder takes less than a microsecond; reading that of each file takes two. The
    time is trusted once it is older than the resolution of the file system's clock: `trusted` is the time of `folder`,
    an open folder, at the last check that found no file missing.
    """

    def __init__(self, path: str) -> None:
        self._opened = {path: _identity(path)}
        self.trusted = 0
        self.folder = -1
        with contextlib.suppress(OSError):
            # Windows opens no folders, and does not delete open files either.
            self.folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY | os.O_CLOEXEC)

    def watch(self, path: str) -> None:
        """Remember another file of the folder."""
        self._opened[path] = _identity(path)
        self.trusted = 0

    def missing(self) -> str | None:
        """Return the path of a file that is not at its place any more, or None."""
        changed = self._changed()
        # A copy: another thread may open its file while this one reads the disk.
        missing = next((path for path, opened in [*self._opened.items()] if _identity(path) != opened), None)
        tick = TICK_NANOSECONDS if changed % SECOND_NANOSECONDS else COARSE_TICK_NANOSECONDS
        if missing is None and time.time_ns() - changed > tick:
            self.trusted = changed
        return missing

    def _changed(self) -> int:
        """Return the time of the folder's last change; the present time if it cannot be read."""
        return os.fstat(self.folder).st_mtime_ns if self.folder >= 0 else time.time_ns()

    def close(self) -> None:
        """Close the folder."""
        folder, self.folder = self.folder, -1
        if folder >= 0:
            os.close(folder)


def _identity(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a file, which distinguish it from a replacement; None if there is no file."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def require_place(path: str | Path, shown: str, *, may_be_missing: bool = True) -> None:
    """
    Require that a database may lie at a path, which is shown as it was given.

    Raises:
        StorageUnavailableError: there is something else than a file, no folder, or nothing.
    """
    path = Path(path)
    if path.is_dir():
        raise StorageUnavailableError(f"{shown} is a folder: name a file in it")
    if path.exists():
        # Opening a pipe could wait for ever, and a device would be replaced.
        if not path.is_file():
            raise StorageUnavailableError(f"{shown} is a device or a pipe: name a file")
    elif not may_be_missing:
        raise StorageUnavailableError(f"there is no database {shown}: check the name, or import into it")
    elif not path.parent.is_dir():
        raise StorageUnavailableError(f"there is no folder {path.parent}: make it first")


def is_shut(path: str) -> bool:
    """
    Return whether the folder of a file takes no new files, though the file can be read, or is still to be made.

    SQLite's error does not say that a disk is read-only, or that the right to write in a folder is missing.
    """
    folder = os.path.dirname(path) or "."
    is_read = os.access(path, os.R_OK) or (os.path.isdir(folder) and not os.path.lexists(path))
    return is_read and not os.access(folder, os.W_OK)


def why_not_opened() -> str:
    """Return the remedy where SQLite could open no file: it does not say that the process has too many of them."""
    return TOO_MANY_FILES if lacks_files() else "check that it exists and may be read, with -wal and -shm beside it"


def why_read_only(code: int) -> str:
    """Return the remedy where SQLite could not write: a reader cannot undo what a killed process had begun."""
    if code == sqlite3.SQLITE_READONLY_ROLLBACK:
        return "a process was killed while it wrote, which `refold init` undoes"
    return "check the rights of the file and its folder"


def has_room(path: str) -> bool:
    """Return whether the disk of a file has room for much more than a WAL of full length; False if there is no file."""
    # Imported here, so that a program that writes little does not load it.
    from shutil import disk_usage

    return os.path.isfile(path) and disk_usage(os.path.dirname(path) or ".").free >= 2 * WAL_BYTES


def fill_wal(connection: sqlite3.Connection, wal: str) -> None:
    """
    Write the WAL once to its full length and roll back: overwriting a file syncs faster than growing it. Where the disk
    is nearly full, it stays as it is, since events need the room.
    """
    with contextlib.suppress(OSError):
        if os.path.getsize(wal) >= WAL_BYTES or not has_room(wal):
            return
    ((cache_size,),) = connection.execute("PRAGMA cache_size")
    # With a small cache SQLite writes pages to the WAL before the commit, so a rollback leaves the WAL full.
    connection.execute("PRAGMA cache_size=10")
    try:
        with contextlib.suppress(_UndoneError), connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("CREATE TABLE refold_wal_filler (data BLOB)")
            connection.execute("INSERT INTO refold_wal_filler VALUES (zeroblob(?))", (WAL_BYTES,))
            raise _UndoneError
    except sqlite3.OperationalError as error:
        # A limit on the file, or a quota, may leave no room for a full WAL, but enough for the next events.
        if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            raise
    finally:
        connection.execute(f"PRAGMA cache_size={cache_size}")


class _UndoneError(Exception):
    """The WAL is filled; the transaction that filled it is to be rolled back."""
