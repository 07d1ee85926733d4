"""Connections to PostgreSQL: a pool, and reads that are repeated."""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ....domain.concurrency.locks import News, locked, renew_in_child
from ....domain.errors import StorageBusyError, StorageClosedError, StorageReadOnlyError, StorageUnavailableError
from ..row_faults import opened_for_reading, opening
from .errors import READ_ONLY, is_called_off, is_outdated, is_passing, is_silent, refusal, translated
from .wire import PATIENCE_SECONDS, Call, Rows, Wire

T = TypeVar("T")
CONNECT_SECONDS = 10
READERS_MAX = 8
READ_ATTEMPTS_MAX = 3
PAUSE_SECONDS = 0.1
CLOSING_PAUSE_SECONDS = 0.05
DEFAULTS: dict[str, Any] = {
    "connect_timeout": CONNECT_SECONDS,
    "application_name": "refold",
    "client_encoding": "utf8",
}
# A process that is stopped, or whose machine is gone, in the middle of a transaction holds the lock of a slice: the
# server takes it back after this time.
END_IF_IDLE = Call(
    "SELECT set_config('idle_in_transaction_session_timeout', '60s', false)"
    " WHERE current_setting('idle_in_transaction_session_timeout') = '0'"
)
NOT_OWNER = re.compile("permission denied to vacuum|skipping .* only")
# A name is read like one in a statement: without quotes, large letters would become small ones.
IN_SCHEMA = "relnamespace = quote_ident(current_schema())::regnamespace"
# The tables of the schema, quoted; and the transactions on the server that began before one and may see old rows.
TABLES = f"SELECT oid::regclass::text FROM pg_class WHERE relkind = 'r' AND {IN_SCHEMA}"
OLDER = """
    SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
        AND backend_xmin IS NOT NULL AND age(backend_xmin) > age(%s::text::xid8::xid)
"""
SCRUB_SECONDS = 30.0
# While a statement waits for a whole table, all later ones wait behind it, those that only read too.
WAIT_FOR_TABLE = b"SET lock_timeout = '5s'"


def is_pooled(connection: psycopg.Connection[Any]) -> bool:
    """Return whether a pooler lends the connection: it gives every client a process id of its own making."""
    return connection.execute("SELECT pg_backend_pid()").fetchone() != (connection.info.backend_pid,)


def _vacuumed(connection: psycopg.Connection[Any]) -> list[str]:
    """Vacuum all tables of a schema; return the server's notices about it."""
    notices = _noted(connection)
    for (table,) in connection.execute(TABLES).fetchall():
        connection.execute(f"VACUUM {table}".encode())
    return notices


def _scrubbed(connection: psycopg.Connection[Any]) -> Iterator[str]:
    """Write all tables of a schema anew; yield where old versions of rows may still be."""
    if is_pooled(connection):
        # The limit of the wait for a table cannot be set there: the next client would have it, too.
        yield "old versions of rows in the tables, until VACUUM FULL is run without a pooler"
    else:
        yield from _rewritten(connection)
    yield "the server's write-ahead log and its archives, until they are overwritten"


def _rewritten(connection: psycopg.Connection[Any]) -> Iterator[str]:
    horizon = connection.execute("SELECT pg_current_xact_id()").fetchone()
    deadline = time.monotonic() + SCRUB_SECONDS
    while connection.execute(OLDER, horizon).fetchone() != (0,):
        # An older transaction may still see the old versions, so the server would keep them.
        if time.monotonic() >= deadline:
            yield "old versions of rows, which an older transaction on the server keeps"
            break
        time.sleep(PAUSE_SECONDS)
    left_out = _noted(connection)
    connection.execute(WAIT_FOR_TABLE)
    in_use: list[str] = []
    for (table,) in connection.execute(TABLES).fetchall():
        try:
            connection.execute(f"VACUUM (FULL, ANALYZE) {table}".encode())
        except psycopg.errors.UndefinedTable:
            # Another erasure has dropped it, and makes its rows again.
            continue
        except psycopg.errors.LockNotAvailable:
            in_use.append(table)
    connection.execute("RESET lock_timeout")
    if in_use:
        yield f"old versions of rows in {', '.join(in_use)}, which a transaction keeps in use: run VACUUM FULL after it"
    if left_out:
        yield "old versions of rows in the tables, until their owner writes them anew (VACUUM FULL): this user may not"
    for statement, what in ((b"VACUUM FULL pg_catalog.pg_statistic", "statistics"), (b"CHECKPOINT", "files")):
        try:
            connection.execute(statement)
        except psycopg.Error:
            yield f"the server's {what}, until it has written them anew: this user may not have it do so"


def _noted(connection: psycopg.Connection[Any]) -> list[str]:
    """Return a list that gets notices: in them alone the server says which tables this user may not vacuum."""
    notices: list[str] = []
    connection.add_notice_handler(lambda notice: notices.append(notice.message_primary or ""))
    return notices


class _ReaderSlot:
    """The right to one of the reading connections, and whether the server refused one to it at its last try."""

    is_refused = False


class PostgresDatabase:
    """
    The connections to the database of a URL (or of libpq's `key=value` form); with `read_only` none of them changes it.

    Raises:
        StorageUnavailableError: the URL cannot be read; the database itself is reached at the first use.
    """

    def __init__(self, url: str, *, patience_seconds: float = PATIENCE_SECONDS, read_only: bool = False) -> None:
        self.url, self.read_only = url, read_only
        self._conninfo, self.where = _parse(url)
        self._patience = patience_seconds
        self._closed = False
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # The connections belong to the parent; each `Wire` lets go of its socket.
        self._news = News()
        self._idle: deque[Wire] = deque()
        # Weak references: a slot that an interrupted call did not give back is free once its frame is gone.
        self._slots: WeakSet[_ReaderSlot] = WeakSet()
        self._lock = threading.Lock()
        self._writer: Wire | None = None

    def reading(self, work: Callable[[Wire], T]) -> T:
        """
        Return the result of `work` on a connection; `work` is called again if the connection breaks.

        Raises:
            StorageBusyError: all connections stayed in use.
            StorageUnavailableError: the database cannot be reached.
        """
        with translated(self.where), opening(self.where):
            for attempt in range(READ_ATTEMPTS_MAX):
                try:
                    return self._read_once(work)
                except (psycopg.Error, StorageUnavailableError) as error:
                    # Wait for an unreachable server only if it was reachable a moment ago.
                    was_reached = attempt > 0 or (isinstance(error, psycopg.Error) and is_passing(error))
                    if isinstance(error, psycopg.errors.ReadOnlySqlTransaction):
                        # Those that are idle would be refused, too.
                        self._drop_idle()
                    if not was_reached or attempt == READ_ATTEMPTS_MAX - 1 or is_silent(error):
                        raise
                    if not is_called_off(error):
                        self._drop_idle()
                    pause_before(attempt)
        raise AssertionError("the loop returns or raises")

    def ask(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, run in one round trip."""
        return self.reading(lambda wire: wire.run(*calls))

    def transacting(self, work: Callable[[Wire], T]) -> T:
        """
        Return the result of `work`, a transaction on a connection that nobody else uses meanwhile.

        It is not repeated if the connection breaks: it is unknown then whether it was committed.
        """
        with translated(self.where), opening(self.where):
            try:
                return self._read_once(work)
            except psycopg.Error:
                # The other connections may be broken, too.
                self._drop_idle()
                raise

    def _read_once(self, work: Callable[[Wire], T]) -> T:
        slot = self._wait_for_slot()
        wire: Wire | None = None
        try:
            wire = self._idle_or_new(slot)
            return work(wire)
        except psycopg.Error as error:
            if wire is not None and is_outdated(error):
                wire.close()
            if self.read_only and error.sqlstate == READ_ONLY:
                raise opened_for_reading(self.where) from error
            raise
        finally:
            self._leave(slot, wire)

    def _wait_for_slot(self) -> _ReaderSlot:
        deadline = time.monotonic() + self._patience
        while True:
            seen = self._news.count
            self._require_open()
            slot = locked(self._lock, self._free_slot)
            if slot is not None:
                return slot
            if time.monotonic() >= deadline:
                raise StorageBusyError(
                    f"all READERS_MAX ({READERS_MAX}) connections to {self.where} stayed in use: try again"
                )
            self._news.wait_past(seen, timeout_seconds=deadline - time.monotonic())

    def _free_slot(self) -> _ReaderSlot | None:
        if len(self._slots) >= READERS_MAX:
            return None
        slot = _ReaderSlot()
        self._slots.add(slot)
        return slot

    def _idle_or_new(self, slot: _ReaderSlot) -> Wire:
        deadline = time.monotonic() + self._patience
        while True:
            seen = self._news.count
            slot.is_refused = False
            with suppress(IndexError):
                # A transaction that found its connection closed would fail: it is not repeated.
                while (wire := self._idle.pop()).has_ended():
                    wire.close()
                return wire
            try:
                return self._connect()
            except StorageBusyError:
                # The server lets no more in; another thread may be done with its connection soon, or is by now, or
                # just gets one.
                is_last = locked(self._lock, self._is_last_refused, slot)
                if time.monotonic() >= deadline or (is_last and self._news.count == seen):
                    raise
            self._news.wait_past(seen, timeout_seconds=deadline - time.monotonic())
            self._require_open()

    def _is_last_refused(self, slot: _ReaderSlot) -> bool:
        slot.is_refused = True
        return all(other.is_refused for other in self._slots)

    def _leave(self, slot: _ReaderSlot, wire: Wire | None) -> None:
        if wire is not None and wire.settle():
            self._idle.append(wire)
        elif wire is not None:
            wire.close()
        locked(self._lock, self._slots.discard, slot)
        self._news.announce()
        if self._closed:
            self._drop_idle()

    def _drop_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def writer(self, *, under_way: bool = False) -> Wire:
        """
        Return the writing connection, and with `under_way` a trip that was begun on it. The caller makes sure that one
        thread at a time uses it, and calls `settle_writer` after an error.

        Errors are psycopg's own, so that the caller can see which of them leave the result unknown.
        """
        self._require_open()
        self.require_writable()
        if self._writer is not None and self._writer.is_under_way and not under_way:
            # The caller that began the trip was interrupted.
            self.settle_writer()
        if self._writer is None:
            try:
                self._writer = self._connect()
            except StorageBusyError:
                if not (self._idle or self._slots):
                    raise
                # Readers have all the connections that the server lets this process have.
                self._writer = self._idle_or_new(_ReaderSlot())
        return self._writer

    def settle_writer(self) -> None:
        """
        Roll back the transaction that an error left open on the writing connection; release the connection if it is
        broken.
        """
        writer, self._writer = self._writer, None
        if writer is not None and writer.settle():
            self._writer = writer

    @contextmanager
    def writing(self, *, under_way: bool = False) -> Iterator[Wire]:
        """Lend the writing connection for a block, and settle it if the block fails."""
        try:
            yield self.writer(under_way=under_way)
        except BaseException:
            self.settle_writer()
            raise

    def vacuum(self) -> None:
        """Free the room of deleted rows in all tables of the schema, beside readers and writers."""
        notices = self._apart(_vacuumed)
        if left_out := [*filter(NOT_OWNER.search, notices)]:
            raise StorageReadOnlyError(f"{self.where} forbids it ({left_out[0]}): let the owner of the tables do it")

    def scrub(self) -> list[str]:
        """
        Write all tables of the schema anew, without the versions of rows that were replaced or deleted; return where
        these may still be. Each table is locked while it is written, which takes as long as copying it.
        """
        self.require_writable()
        return self._apart(lambda connection: [*_scrubbed(connection)])

    def _apart(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        def run(wire: Wire) -> T:
            with wire.given_up() as connection:
                return work(connection)

        with translated(self.where):
            return self._read_once(run)

    def close(self) -> None:
        """Close all connections, after waiting for those in use; may be called twice."""
        self._closed = True
        deadline = time.monotonic() + self._patience
        while self._slots and time.monotonic() < deadline:
            self._news.wait_past(self._news.count, timeout_seconds=CLOSING_PAUSE_SECONDS)
        self._drop_idle()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

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

    def _connect(self) -> Wire:
        connection = connected(self._conninfo, self.where)
        encoding = connection.info.parameter_status("server_encoding")
        # A server that takes any bytes cuts texts within characters; contexts can be read, and so copied, all the same.
        if encoding != "UTF8" and not (encoding == "SQL_ASCII" and self.read_only):
            connection.close()
            if encoding == "SQL_ASCII":
                way_out = "make one in UTF8; `refold copy --lag 0` takes a store that is here into it"
                raise StorageReadOnlyError(f"{self.where} cannot be written, being encoded in SQL_ASCII: {way_out}")
            raise StorageUnavailableError(f"{self.where} is encoded in {encoding}: make one in UTF8")
        wire = Wire(connection, patience_seconds=self._patience, read_only=self.read_only)
        try:
            with translated(self.where):
                # A pooler gives every client a process id of its own making.
                ((pid,),) = wire.run(Call("SELECT pg_backend_pid()"))[0]
                wire.prepares = pid == connection.info.backend_pid
                if wire.prepares:
                    # A pooler would hand this setting on to others.
                    wire.run(END_IF_IDLE)
        except BaseException:
            wire.close()
            raise
        return wire


def connected(conninfo: str, where: str) -> psycopg.Connection:
    """
    Return a new connection; `where` names the database.

    Raises:
        StorageError: there is none; the error says why, and what to do.
    """
    try:
        return psycopg.connect(conninfo, autocommit=True, prepare_threshold=None)
    except (psycopg.Error, OSError) as error:
        raise refusal(error, where) from error


def pause_before(attempt: int) -> None:
    """Wait before another attempt, each time twice as long."""
    time.sleep(PAUSE_SECONDS * 2**attempt)


def _parse(url: str) -> tuple[str, str]:
    """Return the connection string, and a name for messages that has no password in it."""
    unreadable = StorageUnavailableError(
        "the URL of the database cannot be read: write postgresql://user:password@host:port/name,"
        " with special characters as %XX"
    )
    try:
        given = conninfo_to_dict(url)
    except psycopg.Error:
        # Neither the URL nor libpq's message is repeated: both may hold the password.
        raise unreadable from None
    host, port, name = (str(given.get(key) or "") for key in ("host", "port", "dbname"))
    path = url.partition("://")[2].partition("/")[2].partition("?")[0]
    if "@" in host + port + path or not re.fullmatch("[0-9,]*", port):
        # The password has a character that ends it, so the rest of it is where host, port or name should be.
        raise unreadable
    # There may be several servers, of which the first that answers is taken: their ports are in a second list.
    hosts, ports = host.split(","), port.split(",")
    ports = ports * len(hosts) if len(ports) == 1 else ports
    address = ",".join(f"{one}:{number}" if number else one for one, number in zip(hosts, ports, strict=False))
    where = f"postgresql:///{name}?host={host}" if host.startswith("/") else f"postgresql://{address}/{name}"
    return make_conninfo(**{**DEFAULTS, **given}), where
