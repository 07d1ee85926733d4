"""
One PostgreSQL database: one connection that writes, a few that read, each opened when it is first needed.

Nothing relies on what a connection remembers from one transaction to the next, so all of it works through a
pooler in transaction mode; statements are prepared only where no pooler stands between.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, TypeVar
from weakref import WeakSet

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from ...domain.concurrency.locks import News, locked
from ...domain.concurrency.process_forks import renew_in_child
from ...domain.errors import StorageBusyError, StorageClosedError, StorageUnavailableError
from ..row_faults import opening
from .translation import first_line, is_lost_connection, translated
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
ENCODINGS = ("UTF8", "SQL_ASCII")


class _Seat:
    """The right to one of the reading connections."""


class PostgresDatabase:
    """
    The connections to the database of a URL (or of libpq's `key=value` form).

    Raises:
        StorageUnavailableError: the URL cannot be read; whether it leads anywhere shows at the first use.
    """

    def __init__(self, url: str, *, patience_seconds: float = PATIENCE_SECONDS) -> None:
        self.url = url
        self._conninfo, self.where = _parse(url)
        self._patience = patience_seconds
        self._closed = False
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # The connections are the parent's; each lets go of its socket by itself.
        self._news = News()
        self._idle: deque[Wire] = deque()
        # Weakly: a seat that an interrupted call did not give back is free when its frame is gone.
        self._seats: WeakSet[_Seat] = WeakSet()
        self._lock = threading.Lock()
        self._writer: Wire | None = None

    def reading(self, work: Callable[[Wire], T]) -> T:
        """
        Return what `work` makes of a connection; it is called again when the connection breaks.

        Raises:
            StorageBusyError: all connections stayed in use.
            StorageUnavailableError: the database cannot be reached.
        """
        with translated(self.where), opening(self.where):
            for attempt in range(READ_ATTEMPTS_MAX):
                try:
                    return self._read_once(work)
                except (psycopg.Error, StorageUnavailableError) as error:
                    # That a server cannot be reached is waited out only where it could be a moment ago.
                    was_reached = attempt > 0 or (isinstance(error, psycopg.Error) and is_lost_connection(error))
                    if not was_reached or attempt == READ_ATTEMPTS_MAX - 1:
                        raise
                    self._drop_idle()
                    pause_before(attempt)
        raise AssertionError("the loop returns or raises")

    def ask(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, carried out in one round trip."""
        return self.reading(lambda wire: wire.run(*calls))

    def _read_once(self, work: Callable[[Wire], T]) -> T:
        seat = self._wait_for_seat()
        wire: Wire | None = None
        try:
            wire = self._idle_or_new()
            return work(wire)
        finally:
            self._leave(seat, wire)

    def _wait_for_seat(self) -> _Seat:
        deadline = time.monotonic() + self._patience
        while True:
            seen = self._news.count
            self._require_open()
            seat = locked(self._lock, self._free_seat)
            if seat is not None:
                return seat
            if time.monotonic() >= deadline:
                raise StorageBusyError(
                    f"all READERS_MAX ({READERS_MAX}) connections to {self.where} stayed in use: try again"
                )
            self._news.wait_past(seen, timeout_seconds=deadline - time.monotonic())

    def _free_seat(self) -> _Seat | None:
        if len(self._seats) >= READERS_MAX:
            return None
        seat = _Seat()
        self._seats.add(seat)
        return seat

    def _idle_or_new(self) -> Wire:
        try:
            return self._idle.pop()
        except IndexError:
            return self._connect()

    def _leave(self, seat: _Seat, wire: Wire | None) -> None:
        if wire is not None and wire.settle():
            self._idle.append(wire)
        elif wire is not None:
            wire.close()
        self._seats.discard(seat)
        self._news.announce()
        if self._closed:
            self._drop_idle()

    def _drop_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def writer(self, *, under_way: bool = False) -> Wire:
        """
        Return the writing connection, and with `under_way` a trip that was begun on it; the caller sees to it that
        one thread at a time uses it, and calls `settle_writer` when something goes wrong.

        Errors come out as psycopg's own: the caller can tell which of them leave something to be found out.
        """
        self._require_open()
        if self._writer is not None and self._writer.is_under_way and not under_way:
            # Whoever began it was interrupted.
            self.settle_writer()
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def settle_writer(self) -> None:
        """Roll back what an error left open on the writing connection, and let go of it if it is broken."""
        writer, self._writer = self._writer, None
        if writer is not None and writer.settle():
            self._writer = writer

    @contextmanager
    def writing(self, *, under_way: bool = False) -> Iterator[Wire]:
        """Lend the writing connection for a block, and settle it if that fails."""
        try:
            yield self.writer(under_way=under_way)
        except BaseException:
            self.settle_writer()
            raise

    def close(self) -> None:
        """Close all connections, once those in use have been given back; may be called twice."""
        self._closed = True
        deadline = time.monotonic() + self._patience
        while self._seats and time.monotonic() < deadline:
            self._news.wait_past(self._news.count, timeout_seconds=CLOSING_PAUSE_SECONDS)
        self._drop_idle()
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()

    def _require_open(self) -> None:
        if self._closed:
            raise StorageClosedError(f"{self.where} is closed: open it again")

    def _connect(self) -> Wire:
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            raise StorageUnavailableError(
                f"{self.where} cannot be opened ({first_line(error)}): check address, name and login"
            ) from error
        encoding = connection.info.parameter_status("server_encoding")
        if encoding not in ENCODINGS:
            connection.close()
            raise StorageUnavailableError(f"{self.where} is encoded in {encoding}: make one in UTF8")
        wire = Wire(connection, patience_seconds=self._patience)
        try:
            with translated(self.where):
                # A pooler gives every client a number of its own making.
                ((pid,),) = wire.run(Call("SELECT pg_backend_pid()"))[0]
        except BaseException:
            wire.close()
            raise
        wire.prepares = pid == connection.info.backend_pid
        return wire


def pause_before(attempt: int) -> None:
    """Wait before trying again, each time twice as long."""
    time.sleep(PAUSE_SECONDS * 2**attempt)


def _parse(url: str) -> tuple[str, str]:
    """Return what to connect with, and the name to use in messages, which has no password in it."""
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
    if "@" in host + port:
        # The password had a character that ends it; what is left of it stands where the host should be.
        raise unreadable
    address = f"{host}:{port}" if port else host
    where = f"postgresql:///{name}?host={host}" if host.startswith("/") else f"postgresql://{address}/{name}"
    return make_conninfo(**{**DEFAULTS, **given}), where
