"""What the recorders of one factory share: the database that its environment names, and how ids are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from eventsourcing.persistence import InterfaceError
from psycopg import Connection, Cursor
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from ..postgres_log.database import PostgresDatabase
from ..postgres_log.wire import Call, Rows, Wire
from ..recording import IdType, Stored, opened_state, translated_for_eventsourcing
from ..records import Appended, Request
from .engine import Pool, PostgresEngine


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
        """What libpq needs to connect."""
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
        """Return a state in its stored form."""
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
