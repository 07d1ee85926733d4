"""
One PostgreSQL database of foreign applications: who appends, who has transactions of his own, and how it ends.

Events go over one connection and are committed in groups, as in Refold's own log. Transactions for rows of the
users' own have connections from a pool, so they hold up no event.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import psycopg
from eventsourcing.persistence import InterfaceError
from psycopg import Connection, Cursor
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from ....domain.clock import REAL_SYSTEM
from ....domain.concurrency.locks import News
from ....domain.errors import DamagedError, StorageError
from ...log.compression import Compression
from ...log.group_commit import GroupCommitter, Ticket
from ...log.postgres.append import Appender
from ...log.postgres.connection import PostgresDatabase
from ...log.postgres.wire import Call, Rows, Wire
from ...log.records import Appended, Request
from ..closing_guard import ClosingGuard
from ..stored_events import IdType, Stored, no_dictionary, opened_state, translated_for_eventsourcing

Pool = ConnectionPool[psycopg.Connection[DictRow]]


class _Job(NamedTuple):
    """A request, the appender of the application it is for, and that application's slice."""

    appender: Appender
    lane: int
    request: Request


JobTicket = Ticket[_Job, Appended]


class PostgresEngine:
    """The connections to one database and the queue of those who append to it."""

    def __init__(self, database: PostgresDatabase, pool: Pool) -> None:
        self.news = News()
        self.compression = Compression(no_dictionary)
        self._database = database
        self._pool = pool
        self._appenders: dict[str, Appender] = {}
        self._committer: GroupCommitter[_Job, Appended] = GroupCommitter(self._commit, self._commit_alone)
        self._guard = ClosingGuard(database.where, self._close, is_single=False)

    def append(self, prefix: str, lane: int, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing, and return where everything lies.

        Raises:
            ConcurrencyError: a version is taken or would leave a hole.
        """
        with self._guard.at_work(writes=True):
            appender = self._appenders.get(prefix)
            if appender is None:
                appender = Appender(self._database, prefix, REAL_SYSTEM, self.compression)
                appender = self._appenders.setdefault(prefix, appender)
            return self._committer.submit(_Job(appender, lane, request), wait=True).result()

    def ask(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, carried out in one round trip."""
        with self._guard.at_work(writes=False):
            return self._database.ask(*calls)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[psycopg.Connection[DictRow]]:
        """Lend a connection for one transaction."""
        with self._guard.at_work(writes=commit):
            self._pool.open()
            with self._pool.connection() as connection, connection.transaction(force_rollback=not commit):
                yield connection
            if commit:
                self.news.announce()

    def close(self) -> None:
        """Take nothing more, wait for those at work, then close the connections; may be called twice."""
        self._guard.close()

    def _close(self) -> None:
        self._committer.close()
        self._database.close()
        self._pool.close()

    def _commit_alone(self, job: _Job) -> Appended:
        answer = self._append([job])[0]
        self.news.announce()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _commit(self, group: list[JobTicket]) -> None:
        for run in _runs(group):
            answers = self._append([ticket.request for ticket in run])
            for ticket, answer in zip(run, answers, strict=True):
                if isinstance(answer, Exception):
                    ticket.future.set_exception(answer)
                else:
                    ticket.future.set_result(answer)
        self.news.announce()

    def _append(self, jobs: Sequence[_Job]) -> Sequence[Appended | Exception]:
        """Append in one transaction; what the server refuses for one job's sake is tried again one by one."""
        try:
            return jobs[0].appender.append({jobs[0].lane}, lambda: [job.request for job in jobs])
        except Exception as error:
            # Not so where the server is gone, busy or full.
            is_refusal = type(error) in (DamagedError, StorageError) and isinstance(error.__cause__, psycopg.Error)
            if len(jobs) == 1 or not (is_refusal or isinstance(error, psycopg.Error)):
                return [error for _ in jobs]
            return [self._append([job])[0] for job in jobs]


def _runs(group: Sequence[JobTicket]) -> Iterator[list[JobTicket]]:
    """Return those that follow each other and go together: of one application, with nothing beside events."""
    run: list[JobTicket] = []
    for ticket in group:
        together = [*run[-1:], ticket]
        is_alike = len({one.request.appender for one in together}) == 1
        if run and not (is_alike and not any(one.request.request.also for one in together)):
            yield run
            run = []
        run.append(ticket)
    yield run


@dataclass(frozen=True, kw_only=True)
class PostgresSettings:
    """Where a database is, and how to go about with it; times are in seconds, 0 is for ever."""

    dbname: str
    host: str
    user: str
    port: str = "5432"
    password: str | None = None
    get_password: Callable[[], str] | None = None
    schema: str = ""
    originator_id_type: IdType = "uuid"
    connect_timeout: int = 30
    lock_timeout: int = 0
    idle_in_transaction_session_timeout: int = 5
    pool_size: int = 5
    max_overflow: int = 10
    max_waiting: int = 0
    conn_max_age: float = 60 * 60
    pre_ping: bool = False

    @property
    def conninfo(self) -> str:
        """The parameters with which libpq connects."""
        options = f"-c lock_timeout={self.lock_timeout * 1000}" if self.lock_timeout else None
        return make_conninfo(
            dbname=self.dbname,
            host=self.host,
            port=self.port,
            user=self.user,
            password=self.password,
            connect_timeout=self.connect_timeout,
            options=options,
        )


class PostgresDatastore:
    """A database for recorders."""

    def __init__(self, settings: PostgresSettings) -> None:
        self.originator_id_type = settings.originator_id_type
        self.qualifier = '"{}".'.format(settings.schema.replace('"', '""')) if settings.schema else ""
        engine = PostgresEngine(_database_of(settings), _pool_of(settings))
        self._engine: PostgresEngine | None = engine
        # Subscriptions must be able to stop when the database is closed already.
        self.news = engine.news
        self._compression = engine.compression

    def append(self, prefix: str, lane: int, request: Request) -> Appended:
        """
        Append to the log whose tables have this prefix, all or nothing.

        Raises:
            IntegrityError: a version is taken or would leave a hole, or `also` refused; nothing was written.
        """
        with translated_for_eventsourcing(psycopg.Error):
            return self._open_engine().append(prefix, lane, request)

    @contextmanager
    def transaction(self, *, commit: bool = False) -> Iterator[Cursor[DictRow]]:
        """
        Lend a cursor for one transaction, whose rows are dictionaries.

        With `commit` it is committed at the end, or rolled back on any error; without, always rolled back.
        """
        lent = self._open_engine().transaction(commit=commit)
        with translated_for_eventsourcing(psycopg.Error), lent as connection:
            yield connection.cursor()

    def ask(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, carried out in one round trip."""
        with translated_for_eventsourcing(psycopg.Error):
            return self._open_engine().ask(*calls)

    def shrink(self, state: bytes) -> bytes:
        return self._compression.shrink(state)

    def opened(self, rows: Sequence[Stored]) -> list[bytes]:
        """
        Return the states in rows, checked against their digests.

        Raises:
            DataError: one is damaged.
        """
        with translated_for_eventsourcing(psycopg.Error):
            return [opened_state(row, self._compression.expand) for row in rows]

    def close(self) -> None:
        """Let go of the database, once nobody uses it; may be called twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close()

    def __del__(self) -> None:
        self.close()

    def _open_engine(self) -> PostgresEngine:
        engine = self._engine
        if engine is None:
            raise InterfaceError("the datastore is closed: construct another")
        return engine


class _FreshPasswordDatabase(PostgresDatabase):
    """Asks for the password each time it connects: such passwords hold for minutes only."""

    def __init__(self, conninfo: str, get_password: Callable[[], str]) -> None:
        super().__init__(conninfo)
        self._get_password = get_password

    def _connect(self) -> Wire:
        self._conninfo = make_conninfo(self._conninfo, password=self._get_password())
        return super()._connect()


def _database_of(settings: PostgresSettings) -> PostgresDatabase:
    if settings.get_password is None:
        return PostgresDatabase(settings.conninfo)
    return _FreshPasswordDatabase(settings.conninfo, settings.get_password)


def _pool_of(settings: PostgresSettings) -> Pool:
    get_password = settings.get_password
    return ConnectionPool(
        settings.conninfo,
        connection_class=_fresh_password_class(get_password) if get_password else Connection[DictRow],
        kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": None},
        min_size=0,
        max_size=settings.pool_size + settings.max_overflow,
        open=False,
        configure=_configuration(settings.idle_in_transaction_session_timeout),
        check=ConnectionPool.check_connection if settings.pre_ping else None,
        timeout=settings.connect_timeout,
        max_waiting=settings.max_waiting,
        max_lifetime=settings.conn_max_age,
        num_workers=1,
    )


def _fresh_password_class(get_password: Callable[[], str]) -> type[Connection[DictRow]]:
    class FreshPasswordConnection(Connection[DictRow]):
        @classmethod
        def connect(cls, conninfo: str = "", **options: Any) -> Any:
            return super().connect(conninfo, password=get_password(), **options)

    return FreshPasswordConnection


def _configuration(idle_seconds: int) -> Callable[[Connection[DictRow]], None]:
    def configure(connection: Connection[DictRow]) -> None:
        connection.execute(f"SET idle_in_transaction_session_timeout = {int(idle_seconds * 1000)}".encode())

    return configure
