"""Each error of sqlite3 becomes one of Refold's, which names the file and says what to do."""

import os
import resource
import sqlite3
from pathlib import Path
from types import SimpleNamespace

import pytest

import refold
from refold.domain.errors import (
    DamagedError,
    RefoldError,
    StorageBusyError,
    StorageClosedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from refold.infrastructure.log.row_faults import MissingTableError
from refold.infrastructure.log.sqlite.connection import translate, translated

TABLE: list[tuple[int, str, type[RefoldError], str]] = [
    (sqlite3.SQLITE_BUSY, "database is locked", StorageBusyError, "a.db stayed locked by another process: try again"),
    (sqlite3.SQLITE_LOCKED, "table is locked", StorageBusyError, "a.db stayed locked by another process: try again"),
    (sqlite3.SQLITE_BUSY_SNAPSHOT, "locked", StorageBusyError, "a.db stayed locked by another process: try again"),
    (sqlite3.SQLITE_FULL, "full", StorageFullError, "no room left on the disk of a.db: make some"),
    (sqlite3.SQLITE_IOERR_SHMSIZE, "disk I/O error", StorageFullError, "no room left on the disk of a.db: make some"),
    (sqlite3.SQLITE_READONLY_ROLLBACK, "readonly", StorageReadOnlyError, "a.db cannot be written: a process was kill"),
    (sqlite3.SQLITE_READONLY, "readonly", StorageReadOnlyError, "a.db cannot be written: check the rights"),
    (sqlite3.SQLITE_PERM, "permission", StorageReadOnlyError, "a.db cannot be written: check the rights"),
    (sqlite3.SQLITE_CANTOPEN, "unable", StorageUnavailableError, "a.db cannot be opened: check that it exists"),
    (sqlite3.SQLITE_NOTADB, "not a database", StorageUnavailableError, "a.db is not an SQLite database"),
    (sqlite3.SQLITE_CORRUPT, "malformed", DamagedError, "a.db is damaged: malformed"),
    (sqlite3.SQLITE_IOERR, "disk I/O error", StorageError, "the disk of a.db failed: disk I/O error: look for a quota"),
    (sqlite3.SQLITE_IOERR_FSYNC, "disk I/O error", StorageError, "the disk of a.db failed: disk I/O error"),
    (sqlite3.SQLITE_CONSTRAINT, "UNIQUE", DamagedError, "it refuses a row that it should take (UNIQUE)"),
    (
        sqlite3.SQLITE_ERROR,
        "no such table: event",
        MissingTableError,
        "lacks a table of Refold's (no such table",
    ),
    (sqlite3.SQLITE_ERROR, "no such column: x", MissingTableError, "lacks a table of Refold's (no such column"),
    (sqlite3.SQLITE_ERROR, "Could not decode to UTF-8 column 'id'", DamagedError, "a.db is damaged: Could not decode"),
    (sqlite3.SQLITE_ERROR, "syntax", StorageError, "a.db failed (syntax): look at the file with `refold verify`"),
]


@pytest.mark.parametrize(("code", "text", "kind", "told"), TABLE)
def test_each_code(code: int, text: str, kind: type[RefoldError], told: str) -> None:
    """The extended codes as well, which begin with another."""
    error = sqlite3.OperationalError(text)
    error.sqlite_errorcode = code

    translation = translate(error, "a.db")

    assert type(translation) is kind
    assert told in str(translation)


@pytest.mark.parametrize(("free", "also"), [(100, ""), (1 << 30, " or for temporary files (SQLITE_TMPDIR)")])
def test_a_disk_that_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, also: str) -> None:
    """It may be that of temporary files, where the disk of the file has room."""
    (tmp_path / "a.db").touch()
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=free))
    error = sqlite3.OperationalError("database or disk is full")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL

    told = str(translate(error, str(tmp_path / "a.db")))

    assert told == f"no room left on the disk of {tmp_path / 'a.db'}{also}: make some, then try again"


def test_a_file_on_a_disk_that_is_read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite says only that it cannot open a file: it means those beside it, so that the file can still be read."""
    (tmp_path / "a.db").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK and os.path.exists(path))
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN

    assert type(translate(error, str(tmp_path / "a.db"))) is StorageReadOnlyError
    # As a new one, which is still to be made; but not where its folder is gone.
    assert type(translate(error, str(tmp_path / "new.db"))) is StorageReadOnlyError
    assert type(translate(error, str(tmp_path / "gone" / "new.db"))) is StorageUnavailableError


def test_a_connection_that_was_closed_in_use() -> None:
    """As by a thread that closes the store; any other wrong use is a fault of Refold's, and stays as it is."""
    with pytest.raises(StorageClosedError, match=r"^a\.db was closed while it was in use$"), translated("a.db"):
        raise sqlite3.ProgrammingError("Cannot operate on a closed database.")
    with pytest.raises(sqlite3.ProgrammingError), translated("a.db"):
        raise sqlite3.ProgrammingError("Incorrect number of bindings supplied.")


def test_an_error_of_the_file_system() -> None:
    """Its reason is told; where the system gives none, the error itself."""
    for error, reason in ((OSError(2, "No such file"), "No such file"), (OSError("strange"), "strange")):
        with pytest.raises(StorageUnavailableError, match=rf"^a\.db cannot be opened \({reason}\)"), translated("a.db"):
            raise error


def test_too_many_open_files(tmp_path: Path) -> None:
    """The error says so, since SQLite does not; what is open already goes on, and all does with a higher limit."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with refold.open(tmp_path / "a.db") as store:
        chat = store.chat("a")
        # Before the limit, since modules are loaded at their first use.
        chat.add_message("user", "one")
        # Of those that are open already, none is closed.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            chat.add_message("user", "one")
            with pytest.raises(
                StorageUnavailableError, match=r"b\.db cannot be opened: too many files are open: close"
            ):
                refold.open(tmp_path / "b.db")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        chat.add_message("user", "three")

        assert len(store.chat("a").items) == 3
