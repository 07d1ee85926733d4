"""
The database that recorders share: the queue of appends, its tables, and how it is closed.

Events go through the same group commit and the same `Appender` as those of Refold's own log. A database provides the
recorders' statements in its own SQL, and transactions for users' own rows.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from eventsourcing.persistence import IntegrityError, InterfaceError, PersistenceError, ProgrammingError, Tracking

from ...domain.concurrency.locks import News
from ...domain.errors import DamagedError, RefoldError, StorageClosedError, StorageError
from ..log.compression import Compression, no_dictionary
from ..log.group_commit import GroupCommitter, Leavable
from ..log.records import Appended, Part, Request
from .stored_events import IdType, Stored, opened_state, require_storable, translated_for_eventsourcing

Appender = TypeVar("Appender")


class _Presence(threading.local):
    """How many calls of the present thread are using the database, and whether one of them writes."""

    depth = 0
    writes = False


class ClosingGuard:
    """
    Notes which threads use a database, so that it is closed when no thread uses it.

    `close` is called at the end, and must itself wait for the other threads. With `is_single` all threads share one
    connection.
    """

    def __init__(self, where: str, close: Callable[[], None], *, is_single: bool) -> None:
        self._where = where
        self._close = close
        self._is_single = is_single
        self._presence = _Presence()
        self._closing = False

    @contextmanager
    def using(self, *, writes: bool) -> Iterator[None]:
        """
        Note that this thread uses the database.

        Raises:
            StorageClosedError: the database was closed.
            ProgrammingError: the thread would wait for itself.
        """
        me = self._presence
        if self._closing:
            raise StorageClosedError(f"{self._where} is closed: open it again")
        if writes and (me.writes or (me.depth and self._is_single)):
            raise ProgrammingError("this thread is in a transaction already: use that one's cursor")
        me.depth += 1
        me.writes = writes or me.writes
        try:
            yield
        finally:
            me.depth -= 1
            me.writes = me.writes and not writes
            if self._closing and not me.depth:
                self._close()

    def close(self) -> None:
        """
        Accept no further calls, and close; may be called twice.

        If the calling thread itself uses the database (a finaliser may run anywhere), it closes the database when that
        use ends.
        """
        self._closing = True
        if not self._presence.depth:
            self._close()


class Job(NamedTuple, Generic[Appender]):
    """A request, and the appender of its application."""

    appender: Appender
    request: Request


class Engine(ABC, Generic[Appender]):
    """The connections to one database, and the queue of appends to it."""

    driver_error: ClassVar[type[Exception]]

    def __init__(self, where: str, *, is_single: bool = False, paused: Leavable | None = None) -> None:
        self.news = News()
        self.compression = Compression(no_dictionary("it is missing, and states were compressed with it"))
        self.committer: GroupCommitter[Job[Appender], Appended] = GroupCommitter(self._commit, paused)
        self.guard = ClosingGuard(where, self._close, is_single=is_single)
        self._appenders: dict[str, Appender] = {}

    @abstractmethod
    def _appender_of(self, prefix: str) -> Appender:
        """Return the object that appends to the log whose tables have this prefix."""

    @abstractmethod
    def _append(self, appender: Appender, requests: Sequence[Request]) -> Sequence[Appended | Exception]:
        """
        Append requests in one transaction; return the places of each request's events, or its conflict.

        Raises:
            Exception: the database refused all of them.
        """

    @abstractmethod
    def _close_connections(self) -> None:
        """Close the connections, after waiting for those in use."""

    def append(self, prefix: str, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing, and return the places of the events.

        Raises:
            ConcurrencyError: a version is taken or would leave a gap.
        """
        with self.guard.using(writes=True):
            appender = self._appenders.get(prefix)
            if appender is None:
                appender = self._appenders.setdefault(prefix, self._appender_of(prefix))
            return self.committer.submit(Job(appender, request), wait=True).result()

    def _commit(self, jobs: Sequence[Job[Appender]]) -> Iterator[Appended | Exception]:
        for run in _runs(jobs):
            yield from self._answers(run[0].appender, [job.request for job in run])
        self.news.announce()

    def _answers(self, appender: Appender, requests: Sequence[Request]) -> Sequence[Appended | Exception]:
        """Append requests; if the database refuses them because of one, append them one by one."""
        try:
            return self._append(appender, requests)
        except (RefoldError, PersistenceError, self.driver_error) as error:
            # A database that is gone, busy or full did not refuse one of the requests.
            is_refusal = type(error) in (DamagedError, StorageError) and isinstance(error.__cause__, self.driver_error)
            if len(requests) == 1 or not (is_refusal or isinstance(error, self.driver_error)):
                return [error for _ in requests]
            return [self._answers(appender, [request])[0] for request in requests]

    def _close(self) -> None:
        self.committer.close()
        self._close_connections()


def _runs(jobs: Sequence[Job[Any]]) -> Iterator[list[Job[Any]]]:
    """Yield runs of requests that share a transaction: consecutive, of one application, with no `also`."""
    run: list[Job[Any]] = []
    for job in jobs:
        # The database may refuse an `also`, which would undo the events of others.
        if run and (run[0].appender is not job.appender or run[0].request.also or job.request.also):
            yield run
            run = []
        run.append(job)
    yield run


class Tables(NamedTuple):
    """The tables of one application: the prefix of their names, and its slice if the database has slices."""

    prefix: str
    lane: int = 0


class Versions(NamedTuple):
    """Versions of a stream: those above `after`, up to `until`, at most `limit`, ASC or DESC."""

    after: int
    until: int
    limit: int | None
    order: str


class Datastore(ABC):
    """
    A database for recorders: each method works on the tables of one application.

    Its errors are those of `eventsourcing.persistence`.
    """

    # Statements that create a table of a recorder, given the prefix or the name of the table.
    tracking_table: ClassVar[str]
    snapshot_table: ClassVar[str]
    # Closing is safe even if opening failed.
    _engine: Engine[Any] | None = None

    def __init__(self, engine: Engine[Any], originator_id_type: IdType) -> None:
        self.originator_id_type: IdType = originator_id_type
        self._engine = engine
        self.driver_error = engine.driver_error
        # Subscriptions must be able to stop when the database is already closed.
        self.news = engine.news
        self._compression = engine.compression

    def append(self, tables: Tables, parts: Sequence[Part], tracking: Tracking | None = None) -> Appended:
        """
        Append to an application's log, and record the tracking, all or nothing.

        Raises:
            IntegrityError: a version is taken or would leave a gap, or the position is not above the last recorded one;
                nothing was written.
        """
        with translated_for_eventsourcing(self.driver_error):
            also = None
            if tracking is not None:
                require_storable(tracking)
                also = self._tracking_after_events(tables, tracking)
            answer: Appended = self._open_engine().append(tables.prefix, Request(parts, also))
        return answer

    def shrink(self, state: bytes) -> bytes:
        """Return a state in its stored form."""
        return self._compression.shrink(state)

    def opened(self, rows: Sequence[Stored]) -> list[bytes]:
        """
        Return the states in rows, checked against their digests.

        Raises:
            DataError: one is damaged.
        """
        with translated_for_eventsourcing(self.driver_error):
            return [opened_state(row, self._compression.expand) for row in rows]

    @abstractmethod
    def transaction(self, *, commit: bool) -> AbstractContextManager[Any]:
        """
        Lend a cursor for one transaction, whose rows can be read by column name.

        With `commit` it may write; it is committed at the end, or rolled back on any error. Without `commit` it only
        reads.
        """

    @abstractmethod
    def tables_of(self, application: str) -> Tables:
        """Return the tables of an application."""

    @abstractmethod
    def create_tables(self, tables: Tables, statements: Sequence[str], *, with_log: bool) -> None:
        """
        Run statements that create missing tables; with `with_log`, also create an application's log if it is missing.
        """

    @abstractmethod
    def stream_rows(self, tables: Tables, stream: str, versions: Versions) -> list[Stored]:
        """Return rows of one stream."""

    @abstractmethod
    def sequence_rows(
        self, tables: Tables, after: int, until: int, limit: int, topics: Sequence[str]
    ) -> tuple[list[Stored], int]:
        """Return rows in the order of the application, and its last id, read no later than the rows."""

    @abstractmethod
    def last_position(self, tables: Tables) -> int | None:
        """Return the last id of an application; None if it has no event."""

    @abstractmethod
    def tracked(self, tables: Tables, application: str) -> int | None:
        """Return the last tracked position of another application."""

    @abstractmethod
    def track(self, cursor: Any, tables: Tables, tracking: Tracking) -> None:
        """
        Record a position within a transaction.

        Raises:
            IntegrityError: it is not above the last recorded one.
        """

    @abstractmethod
    def _tracking_after_events(self, tables: Tables, tracking: Tracking) -> Callable[[Any], None]:
        """Return the `also` of a `Request`, which records a position after its events."""

    @abstractmethod
    def add_snapshots(self, tables: Tables, table: str, rows: Sequence[tuple[str, int, str, bytes]]) -> None:
        """Record snapshots: originator, version, topic and state."""

    @abstractmethod
    def snapshots(self, tables: Tables, table: str, stream: str, versions: Versions) -> Sequence[tuple[Any, ...]]:
        """Return version, topic and state of snapshots of an originator."""

    def close(self) -> None:
        """Close the database when nobody uses it; may be called twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            self._release(engine)

    def _release(self, engine: Engine[Any]) -> None:
        engine.guard.close()

    def __del__(self) -> None:
        self.close()

    def _open_engine(self) -> Any:
        if self._engine is None:
            raise InterfaceError("the datastore is closed: construct another")
        return self._engine


def not_above(tracking: Tracking) -> IntegrityError:
    """Return the error for a position that is not above the last recorded one."""
    name, position = tracking.application_name, tracking.notification_id
    return IntegrityError(f"{position} of {name} does not lie above the position tracked last")
