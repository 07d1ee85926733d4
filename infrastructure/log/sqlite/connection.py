"""
One SQLite file: opening it safely, one connection that writes, a few that read, and translated errors.

WAL with `synchronous=FULL`: a commit survives a power cut, and readers and the writer do not wait for each other. No
call waits longer than `busy_timeout_seconds`.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, TypeVar
from urllib.parse import quote
from weakref import WeakSet

from ....domain.concurrency.locks import keep_for_ever, locked, renew_in_child
from ....domain.errors import (
    DamagedError,
    LogWentBackError,
    Lost,
    RefoldError,
    StorageBusyError,
    StorageClosedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from ..row_faults import KEY_DESTROYED, RETIRED, MissingTableError, key_closed, opened_for_reading, opening, retired
from .open_files import WAL_BYTES, OpenFiles, fill_wal, has_room, is_shut, require_place, why_not_opened, why_read_only

T = TypeVar("T")

BUSY_TIMEOUT_SECONDS = 10.0
READERS_KEPT_MAX = 8
HAS_TABLE = "SELECT 1 FROM sqlite_schema WHERE name = ?"
PAUSE_SECONDS = 0.005
# VACUUM of such a file takes a tenth of a second or two; in a longer file the free pages are a small part.
VACUUM_BYTES_MAX = 64 << 20
# For a new file, or before a VACUUM writes the file again: see infrastructure/space.py.
SHORTENED_LATER = "PRAGMA auto_vacuum = INCREMENTAL"
# Filling the WAL takes as long as about forty syncs of a growing one, and most programs write less than that.
WRITES_BEFORE_FILLING = 32


@contextmanager
def translated(where: str) -> Iterator[None]:
    """
    Turn errors of sqlite3 and of the file system into Refold's own, with the file's name and a way out.

    Errors about a wrong use of a statement are bugs of Refold and stay as they are.
    """
    try:
        yield
    except sqlite3.ProgrammingError as error:
        if "closed" in str(error):
            raise StorageClosedError(f"{where} was closed while it was in use") from error
        raise
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise translate(error, where) from error
    except OSError as error:
        reason = error.strerror or error
        raise StorageUnavailableError(f"{where} cannot be opened ({reason}): check its folder and rights") from error


def translate(error: sqlite3.Error | UnicodeDecodeError, where: str) -> RefoldError:
    """Return Refold's error for an error of sqlite3 on this file."""
    code = getattr(error, "sqlite_errorcode", 0)
    match code if code == sqlite3.SQLITE_IOERR_SHMSIZE else code & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return StorageBusyError(f"{where} stayed locked by another process: try again, or close it there")
        case sqlite3.SQLITE_FULL | sqlite3.SQLITE_IOERR_SHMSIZE:  # the latter of `-shm`, which readers need as well
            # A statement that changes much also writes a temporary file, which may be on another disk.
            also = " or for temporary files (SQLITE_TMPDIR)" if has_room(where) else ""
            return StorageFullError(f"no room left on the disk of {where}{also}: make some, then try again")
        case sqlite3.SQLITE_CANTOPEN if not is_shut(where):
            return StorageUnavailableError(f"{where} cannot be opened: {why_not_opened()}")
        case sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_CANTOPEN:
            return StorageReadOnlyError(f"{where} cannot be written: {why_read_only(code)}")
        case sqlite3.SQLITE_NOTADB:
            return StorageUnavailableError(f"{where} is not an SQLite database: name another file")
        case sqlite3.SQLITE_CORRUPT:
            return DamagedError(where, str(error))
        case sqlite3.SQLITE_IOERR:
            # SQLite gives the same error for a disk that fails, a quota that is used up, and a file that may not grow.
            remedy = "look for a quota or a limit on the size of files, then at the disk"
            return StorageError(f"the disk of {where} failed: {error}: {remedy}")
        case sqlite3.SQLITE_CONSTRAINT if str(error) == RETIRED:
            return retired(where)
        case sqlite3.SQLITE_CONSTRAINT if str(error) == KEY_DESTROYED:
            return key_closed(where)
        case sqlite3.SQLITE_CONSTRAINT:
            return DamagedError(where, f"it refuses a row that it should take ({error})")
        case sqlite3.SQLITE_ERROR if str(error).startswith(("no such table", "no such column")):
            return MissingTableError(f"{where} lacks a table of Refold's ({error}): restore it from a copy")
        case _ if "decode" in str(error):
            return DamagedError(where, str(error))
        case _:
            return StorageError(f"{where} failed ({error}): look at the file with `refold verify`")


def first_value(connection: sqlite3.Connection, statement: str, *values: object) -> Any:
    """Return the first value of the first row of a statement; None if there is no row."""
    row = connection.execute(statement, values).fetchone()
    return None if row is None else row[0]


# fmt: off
def in_transaction(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    """
    Return the result of `work`, run in a transaction that has the file's write lock from the start.

    The connection itself commits it, or rolls it back on any error, so no interrupt can come in between.
    """
    with connection: return _begun(connection, work)  # noqa: E701
# fmt: on


def _begun(connection: sqlite3.Connection, work: Callable[[sqlite3.Connection], T]) -> T:
    connection.execute("BEGIN IMMEDIATE")
    return work(connection)


class _ReaderSlot:
    """The right to read, and its connection. Slots are held weakly: an interrupted call may not give its own back."""

    connection: sqlite3.Connection | None = None


class SqliteDatabase:
    """The connections to the file at `path`, or the one to a database in memory: ":memory:" or, `is_uri`, its URI."""

    # The files that this process cannot use: it was forked while the parent used connections to them.
    _torn_files: ClassVar[set[str]] = set()

    def __init__(
        self,
        path: str | Path,
        *,
        create: bool = True,
        read_only: bool = False,
        busy_timeout_seconds: float = BUSY_TIMEOUT_SECONDS,
        synchronous: str = "FULL",
        is_uri: bool = False,
    ) -> None:
        self.where = str(path)
        self.in_memory = is_uri or self.where == ":memory:"
        self.read_only = read_only
        # Connections are made at any time, also by other processes, and a program may change its working folder.
        self.path = str(Path(self.where).absolute())
        self._timeout = busy_timeout_seconds
        self._synchronous = synchronous
        self._closed = False
        self._is_warm = False
        self._writes = 0
        self._wal_filled = False
        self._writer: sqlite3.Connection | None = None
        self._files: OpenFiles | None = None
        # Returns the events that are lost if the file is deleted or replaced; the log of the file sets it.
        self.lost: Callable[[], Sequence[Lost]] = tuple
        self._lost: Sequence[Lost] | None = None
        self._renew()
        with translated(self.where):
            if not self.in_memory:
                require_place(self.path, self.where, may_be_missing=create and not read_only)
            self._open_writer()
        renew_in_child(self)

    def _renew(self) -> None:
        self._readers: deque[sqlite3.Connection] = deque()
        self._slots: WeakSet[_ReaderSlot] = WeakSet()
        self.memory_lock = threading.RLock()
        self._is_left = False

    @property
    def writer(self) -> sqlite3.Connection:
        """The connection that writes; a new one after a fork."""
        return self._writer or self._open_writer()

    def _open_writer(self) -> sqlite3.Connection:
        self._require_open()
        writer = self._writer = self._connect()
        if not self.in_memory:
            self._files = OpenFiles(self.path)
        return writer

    def _close_writer(self) -> None:
        files, self._files = self._files, None
        if files is not None:
            files.close()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _connect(self) -> sqlite3.Connection:
        if self.path in self._torn_files:
            raise StorageUnavailableError(
                f"{self.where} was in use when this process was forked, for longer than a fork waits, and cannot be"
                " used here: fork while nothing is read or written, or start the process by 'spawn'"
            )
        is_new = not os.path.exists(self.path) or os.path.getsize(self.path) == 0
        connection = sqlite3.connect(
            self._uri(),
            uri=True,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=256,
        )
        try:
            if not self.read_only and not self.in_memory:
                if is_new:
                    connection.execute(SHORTENED_LATER)
                self._use_wal(connection)
                connection.execute(f"PRAGMA synchronous={self._synchronous}")
                # A reader that stays open keeps the WAL growing; the first write after it has closed cuts it to this.
                connection.execute(f"PRAGMA journal_size_limit={WAL_BYTES}").fetchone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        """Switch the file to WAL mode; a new file is in another mode."""
        deadline = time.monotonic() + self._timeout
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL").fetchone()
                return
            except sqlite3.OperationalError as error:
                # If several open a new file at once, SQLite does not wait for the others, whatever the timeout.
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() >= deadline:
                    raise
            time.sleep(PAUSE_SECONDS)

    def _uri(self) -> str:
        if self.in_memory:
            return self.where
        name = "file:" + quote(self.path)
        if not self.read_only:
            return name + "?mode=rwc"
        # A finished file on a read-only disk has no WAL, and cannot get one: it is opened as immutable.
        frozen = not Path(self.path + "-wal").exists() and not os.access(Path(self.path).parent, os.W_OK)
        return name + ("?immutable=1" if frozen else "?mode=ro")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Lend a connection with one consistent view of the file; several statements see the same moment."""
        if self.in_memory:
            with self.memory_lock, translated(self.where), opening(self.where):
                self._require_open()
                yield self.writer
            return
        slot, is_over = self._take_slot(), False
        try:
            # After taking the slot: a thread that forks or closes releases the folder only when no slot is taken.
            self.require_files()
            connection = slot.connection = self._idle_or_new()
            with translated(self.where), opening(self.where):
                connection.execute("BEGIN")
                yield connection
                is_over = True
        finally:
            self._leave(slot, is_over)

    def _take_slot(self) -> _ReaderSlot:
        while True:
            self._require_open()
            slot = _ReaderSlot()
            self._slots.add(slot)
            # Checked after the entry above: either the forking thread waits for this slot, or this thread for the fork.
            if not self._is_left:
                return slot
            self._slots.discard(slot)
            time.sleep(PAUSE_SECONDS)

    def _idle_or_new(self) -> sqlite3.Connection:
        try:
            return self._readers.popleft()
        except IndexError:
            with translated(self.where):
                return self._connect()

    def _leave(self, slot: _ReaderSlot, is_over: bool) -> None:
        connection, slot.connection = slot.connection, None
        if connection is not None:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            # An error's traceback keeps an unfinished statement alive. With it, the connection would read the file for
            # ever as it was when the statement began.
            if not is_over or len(self._readers) >= READERS_KEPT_MAX:
                connection.close()
            else:
                self._readers.append(connection)
        self._slots.discard(slot)
        if self._closed:
            self._close_readers()

    def _close_readers(self) -> None:
        with suppress(IndexError):
            while True:
                self._readers.popleft().close()

    def write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """
        Return the result of `work`, called with the writing connection in one transaction, which has the file's write
        lock from the start and is rolled back on any error.

        The caller makes sure that one thread at a time calls this.
        """
        self._require_open()
        self.require_writable()
        with translated(self.where):
            return locked(self.memory_lock, self._transact, work)

    def _transact(self, work: Callable[[sqlite3.Connection], T]) -> T:
        self._settle_writer()
        self._prepare_wal(self.writer)
        result = in_transaction(self.writer, work)
        self.require_files()
        return result

    def _settle_writer(self) -> None:
        """Roll back a transaction that an interrupt left open."""
        if self.writer.in_transaction:
            self.writer.execute("ROLLBACK")

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """Lend the writing connection for a `with` block, in one transaction like that of `write`."""
        self._require_open()
        self.require_writable()
        with self.memory_lock, translated(self.where):
            self._settle_writer()
            self._prepare_wal(self.writer)
            with self.writer:
                self.writer.execute("BEGIN IMMEDIATE")
                yield self.writer
            self.require_files()

    def require_files(self) -> None:
        """
        Require that the open files are still the ones at their paths; to be called after each commit.

        Raises:
            LogWentBackError: the file, or its WAL, was deleted or replaced, so nobody will find what is written here.
        """
        files = self._files
        # Each commit calls this. Most of the time the modification time of the folder suffices.
        if files is None or (files.folder >= 0 and os.fstat(files.folder).st_mtime_ns == files.trusted):
            return
        if missing := files.missing():
            if self._lost is None:
                self._lost = self.lost()
            raise LogWentBackError(
                self.where,
                lost=self._lost,
                reason=f"{missing} was deleted or replaced while it was open, and nobody will find what is written now",
                remedy="close the store, see to it that the right file is there, and open it again",
            )

    def connection_to_path(self) -> sqlite3.Connection:
        """Return a connection for reading the file that is at the path now; its first use fails if there is none."""
        path = self.path
        # Without a WAL the database is only the file, and no WAL may be created.
        name = "file:" + quote(path) + ("?mode=ro" if os.path.exists(path + "-wal") else "?immutable=1")
        return sqlite3.connect(name, uri=True, timeout=self._timeout)

    def warm_writer(self) -> sqlite3.Connection | None:
        """
        Return the writing connection, outside of any transaction; None before the first transaction, if one was left
        open, and when the WAL is to be filled by the next one.
        """
        writer = self._writer
        if self._closed or not self._is_warm or writer is None:
            self._require_open()
            return None
        if not self._wal_filled:
            self._writes += 1
            if self._writes >= WRITES_BEFORE_FILLING:
                return None
        if writer.in_transaction:
            # A transaction that an interrupt left open must not get other events: they would never be committed.
            self._settle_writer()
            return None
        return writer

    def _prepare_wal(self, connection: sqlite3.Connection) -> None:
        """Watch the WAL from the first transaction on, and fill it before the one behind many."""
        if not self._is_warm:
            if self._files is not None:
                # The transaction that follows, or the next one, keeps the WAL in use until the end.
                connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                self._files.watch(self.path + "-wal")
            self._is_warm = True
        if not self._wal_filled:
            self._writes += 1
            if self._writes > WRITES_BEFORE_FILLING:
                if not self.in_memory:
                    fill_wal(connection, self.path + "-wal")
                self._wal_filled = True

    def give_back_space(self) -> None:
        """
        Make a small file as short as its content: sealed rows leave free pages, which may never be needed again.
        If another process uses the file, it stays as it is, and the free pages are used again.
        """
        if self._closed or self._writer is None or self._writer.in_transaction:
            return
        with suppress(sqlite3.Error):
            names = ("page_count", "freelist_count", "page_size")
            pages, free, size = (self.writer.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
            if free * 4 < pages or pages * size > VACUUM_BYTES_MAX:
                return
            self.writer.execute("PRAGMA busy_timeout = 0")
            self.writer.execute(SHORTENED_LATER)
            self.writer.execute("VACUUM")

    def scrub(self) -> bool:
        """Write the file again, without the bytes of deleted rows; empty the WAL, and return whether it is empty."""
        self._require_open()
        with translated(self.where):
            self._settle_writer()
            self.writer.execute("VACUUM")
            self._wal_filled = False
            # It waits for readers of old pages as long as any call waits; if that was too short, its first value is 1.
            return not self.writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]

    def close(self) -> None:
        """Close all connections, after waiting for those in use; may be called twice."""
        self._closed = True
        self._wait_for_readers(self._timeout)
        self._close_readers()
        # Wait for a transaction of another thread: SQLite would crash if its connection were closed.
        locked(self.memory_lock, self._close_writer)

    def _wait_for_readers(self, seconds: float) -> bool:
        """Wait up to `seconds` until nobody reads; return whether nobody does."""
        deadline = time.monotonic() + seconds
        while self._slots and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
        return not self._slots

    def leave(self, seconds: float) -> None:
        """
        Close all connections and lend none until `come_back`; the caller keeps others from writing.

        SQLite forbids carrying a connection over a fork. The child has none of its locks and does not know it. Its own
        connections would rely on these locks, and would write to a WAL that others have removed.
        """
        deadline = time.monotonic() + seconds
        self._is_left = True
        if not self._wait_for_readers(seconds):
            self._is_left = False
        elif self.in_memory:
            # The child gets a copy of the database.
            self._is_left = self.memory_lock.acquire(timeout=max(0.0, deadline - time.monotonic()))
        else:
            self._close_readers()
            self._close_writer()
            self._is_warm = self._wal_filled = False

    def come_back(self) -> None:
        """Lend connections again; they are opened when they are needed."""
        if self._is_left and self.in_memory:
            self.memory_lock.release()
        self._is_left = False

    def _after_fork(self) -> None:
        lent = [slot.connection for slot in self._slots]
        open_ones = [one for one in (*self._readers, *lent, None if self._closed else self._writer) if one is not None]
        if open_ones and not self.in_memory:
            # They were in use for longer than a fork waits. Closing them would end the parent's work on them.
            for connection in open_ones:
                keep_for_ever(connection)
            self._writer = None
            self._torn_files.add(self.path)
        self._renew()

    def require_writable(self) -> None:
        """
        Require that it was not opened for reading only.

        Raises:
            StorageReadOnlyError: it was.
        """
        if self.read_only:
            raise opened_for_reading(self.where)

    def _require_open(self) -> None:
        if self._closed:
            raise StorageClosedError(f"{self.where} is closed: open it again")
