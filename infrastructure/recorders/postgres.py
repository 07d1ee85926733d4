"""
A PostgreSQL database of other applications: its connections, its statements, and the factory that opens it.

Each application has its own tables, distinguished by their prefix, and one slice in them. Events use one connection.
Transactions for users' own rows use connections from a pool, so they do not delay events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from eventsourcing.persistence import IntegrityError, OperationalError, Tracking
from eventsourcing.utils import resolve_topic, strtobool
from psycopg import Connection, Cursor
from psycopg.conninfo import make_conninfo
from psycopg.rows import DictRow, dict_row
from psycopg_pool import ConnectionPool

from ...domain.clock import REAL_SYSTEM
from ...domain.concurrency.locks import keep_for_ever, renew_in_child
from ...domain.ids import SLICES
from ..log.postgres.append import Appender
from ..log.postgres.connection import PostgresDatabase
from ..log.postgres.schema import CREATE_ATTEMPTS_MAX, MADE_BY_ANOTHER, schema_statements
from ..log.postgres.wire import Call, Rows, Wire, int4, int8, let_go
from ..log.records import Appended, Part, Request
from .datastore import Datastore, Engine, Tables, Versions, not_above
from .recorders import RecorderFactory, whole_number
from .stored_events import IdType, Stored, safe_name, table_prefix, translated_for_eventsourcing

Pool = ConnectionPool[psycopg.Connection[DictRow]]
# Outer joins: if a row is missing, the event must show as damaged, not be invisible.
STORED = (
    "SELECT e.slice, e.position, s.id, e.version, e.recorded_at, t.name, e.meta, e.payload, e.digest,"
    " before.digest FROM {p}event e LEFT JOIN {p}stream s ON s.slice = e.slice AND s.key = e.stream"
    " LEFT JOIN {p}tag t ON t.key = e.tag LEFT JOIN {p}event before"
    " ON before.slice = e.slice AND before.stream = e.stream AND before.version = e.version - 1"
)
TRACK = (
    "INSERT INTO {p}tracking AS t VALUES ({values}) ON CONFLICT (slice, application_name)"
    " DO UPDATE SET notification_id ="
)
HIGHER = "t.notification_id < excluded.notification_id"
# An append returns no rows of its statements. So a number that does not rise becomes NULL, which the column refuses.
TRACK_OR_FAIL = f"{TRACK} CASE WHEN {HIGHER} THEN excluded.notification_id END"
TRACK_OR_PASS = f"{TRACK} excluded.notification_id WHERE {HIGHER}"
# If a variable is empty, the default of the setting applies.
NUMBERS = (
    "CONNECT_TIMEOUT",
    "LOCK_TIMEOUT",
    "IDLE_IN_TRANSACTION_SESSION_TIMEOUT",
    "POOL_SIZE",
    "MAX_OVERFLOW",
    "MAX_WAITING",
    "CONN_MAX_AGE",
)


class PostgresEngine(Engine[Appender]):
    """The connections to one database."""

    driver_error = psycopg.Error

    def __init__(self, database: PostgresDatabase, new_pool: Callable[[], Pool]) -> None:
        self._database = database
        self._new_pool = new_pool
        self._pool = new_pool()
        super().__init__(database.where)
        renew_in_child(self)

    def _after_fork(self) -> None:
        # The threads of a pool end with a fork, and its locks may be those of other threads.
        keep_for_ever(self._pool)
        self._pool = self._new_pool()

    def _appender_of(self, prefix: str) -> Appender:
        return Appender(self._database, prefix, REAL_SYSTEM, self.compression)

    def _append(self, appender: Appender, requests: Sequence[Request]) -> Sequence[Appended | Exception]:
        return appender.append({part.slice for request in requests for part in request.parts}, lambda: requests)

    def ask(self, *calls: Call) -> list[Rows]:
        """Return the rows of each statement, run in one round trip."""
        with self.guard.using(writes=False):
            return self._database.ask(*calls)

    @contextmanager
    def transaction(self, *, commit: bool) -> Iterator[psycopg.Connection[DictRow]]:
        """Lend a connection for one transaction."""
        with self.guard.using(writes=commit):
            self._pool.open()
            with self._pool.connection() as connection, connection.transaction(force_rollback=not commit):
                yield connection
            if commit:
                self.news.announce()

    def _close_connections(self) -> None:
        self._database.close()
        self._pool.close()


@dataclass(frozen=True, kw_only=True)
class PostgresSettings:
    """The address of a database, and options for its connections; times are in seconds, 0 means no limit."""

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


class PostgresDatastore(Datastore):
    """A database for recorders."""

    tracking_table = (
        'CREATE TABLE IF NOT EXISTS {p}tracking (slice int, application_name text COLLATE "C",'
        " notification_id bigint NOT NULL, PRIMARY KEY (slice, application_name))"
    )
    snapshot_table = (
        'CREATE TABLE IF NOT EXISTS {table} (slice int, originator_id text COLLATE "C", originator_version int,'
        " topic text NOT NULL, state bytea NOT NULL, PRIMARY KEY (slice, originator_id, originator_version))"
    )

    def __init__(self, settings: PostgresSettings) -> None:
        self._qualifier = '"{}".'.format(settings.schema.replace('"', '""')) if settings.schema else ""
        super().__init__(
            PostgresEngine(_database_of(settings), partial(_pool_of, settings)), settings.originator_id_type
        )

    @contextmanager
    def transaction(self, *, commit: bool = False) -> Iterator[Cursor[DictRow]]:
        lent = self._open_engine().transaction(commit=commit)
        with translated_for_eventsourcing(psycopg.Error), lent as connection:
            yield connection.cursor()

    def _ask(self, *calls: Call) -> list[Rows]:
        with translated_for_eventsourcing(psycopg.Error):
            rows: list[Rows] = self._open_engine().ask(*calls)
        return rows

    def append(self, tables: Tables, parts: Sequence[Part], tracking: Tracking | None = None) -> Appended:
        try:
            return super().append(tables, parts, tracking)
        except IntegrityError as error:
            # The error of the driver is behind that of the log.
            refused = error.__cause__ and error.__cause__.__cause__
            if tracking is not None and isinstance(refused, psycopg.errors.NotNullViolation):
                raise not_above(tracking) from error
            raise

    def tables_of(self, application: str) -> Tables:
        return Tables(self._qualifier + table_prefix(application), lane_of(application))

    def create_tables(self, tables: Tables, statements: Sequence[str], *, with_log: bool) -> None:
        for _ in range(CREATE_ATTEMPTS_MAX):
            try:
                with self.transaction(commit=True) as cursor:
                    for statement in [*(_log_statements(cursor, tables) if with_log else ()), *statements]:
                        cursor.execute(statement.encode())
                return
            except Exception as error:
                if not isinstance(error.__cause__, MADE_BY_ANOTHER):
                    raise
        raise OperationalError(f"the tables {tables.prefix}... could not be made: another program's have their names")

    def stream_rows(self, tables: Tables, stream: str, versions: Versions) -> list[Stored]:
        statement = (
            f"{STORED} WHERE e.slice = $1 AND e.stream = (SELECT key FROM {{p}}stream WHERE id = $2)"
            f" AND e.version > $3 AND e.version <= $4 ORDER BY e.version {versions.order} LIMIT $5"
        )
        values = (int4(tables.lane), stream.encode(), *_bounds(versions))
        return _stored(self._ask(Call(statement.format(p=tables.prefix), values))[0])

    def sequence_rows(
        self, tables: Tables, after: int, until: int, limit: int, topics: Sequence[str]
    ) -> tuple[list[Stored], int]:
        names = ", ".join(f"${number}" for number in range(5, 5 + len(topics)))
        chosen = f"e.tag IN (SELECT key FROM {{p}}tag WHERE name IN ({names})) AND " if topics else ""
        place = "e.slice = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position LIMIT $4"
        statement = f"{STORED} WHERE {chosen}{place}"
        values = (int4(tables.lane), int8(after), int8(until), int8(limit), *(topic.encode() for topic in topics))
        # The last id is read first: an event that is committed between the two must not count as searched.
        head, rows = self._ask(_last(tables), Call(statement.format(p=tables.prefix), values))
        return _stored(rows), _number(head) or 0

    def last_position(self, tables: Tables) -> int | None:
        return _number(self._ask(_last(tables))[0])

    def tracked(self, tables: Tables, application: str) -> int | None:
        statement = f"SELECT notification_id FROM {tables.prefix}tracking WHERE slice = $1 AND application_name = $2"
        return _number(self._ask(Call(statement, (int4(tables.lane), application.encode())))[0])

    def track(self, cursor: Cursor[DictRow], tables: Tables, tracking: Tracking) -> None:
        statement = TRACK_OR_PASS.format(p=tables.prefix, values="%s, %s, %s")
        values = (tables.lane, tracking.application_name, tracking.notification_id)
        if cursor.execute(statement.encode(), values).rowcount != 1:
            raise not_above(tracking)

    def _tracking_after_events(self, tables: Tables, tracking: Tracking) -> Callable[[list[Call]], None]:
        statement = TRACK_OR_FAIL.format(p=tables.prefix, values="$1, $2, $3")
        values = (int4(tables.lane), tracking.application_name.encode(), int8(tracking.notification_id))
        return lambda calls: calls.append(Call(statement, values))

    def add_snapshots(self, tables: Tables, table: str, rows: Sequence[tuple[str, int, str, bytes]]) -> None:
        with self.transaction(commit=True) as cursor:
            statement = f"INSERT INTO {table} VALUES (%s, %s, %s, %s, %s)"
            cursor.executemany(statement.encode(), [(tables.lane, *row) for row in rows])

    def snapshots(self, tables: Tables, table: str, stream: str, versions: Versions) -> Rows:
        statement = (
            f"SELECT originator_version, topic, state FROM {table} WHERE slice = $1 AND originator_id = $2"
            f" AND originator_version > $3 AND originator_version <= $4 ORDER BY 1 {versions.order} LIMIT $5"
        )
        return self._ask(Call(statement, (int4(tables.lane), stream.encode(), *_bounds(versions))))[0]


def lane_of(application: str) -> int:
    """Return the slice of an application, which is not one of Refold's own slices."""
    return SLICES + int.from_bytes(hashlib.blake2b(safe_name(application).encode()).digest()[:3], "big")


def _log_statements(cursor: Cursor[DictRow], tables: Tables) -> list[str]:
    # All tables of a log are created at once, so checking one is enough.
    cursor.execute("SELECT to_regclass(%s) IS NULL AS missing", (f"{tables.prefix}event",))
    row = cursor.fetchone()
    if row is None or not row["missing"]:
        return []
    return [*schema_statements(tables.prefix), f"INSERT INTO {tables.prefix}slice_lock VALUES ({tables.lane})"]


def _last(tables: Tables) -> Call:
    return Call(f"SELECT max(position) FROM {tables.prefix}event WHERE slice = $1", (int4(tables.lane),))


def _bounds(versions: Versions) -> tuple[bytes, bytes, bytes | None]:
    limit = None if versions.limit is None else int8(versions.limit)
    return int4(versions.after), int4(versions.until), limit


def _stored(rows: Rows) -> list[Stored]:
    return [Stored._make(row) for row in rows]


def _number(rows: Rows) -> int | None:
    return rows[0][0] if rows else None


class _FreshPasswordDatabase(PostgresDatabase):
    """Asks for the password at each connection: such passwords are valid for minutes only."""

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
        connection_class=_fresh_password_class(get_password) if get_password else _PooledConnection,
        kwargs={"autocommit": True, "row_factory": dict_row, "prepare_threshold": None},
        min_size=0,
        max_size=settings.pool_size + settings.max_overflow,
        open=False,
        configure=partial(_configure, settings.idle_in_transaction_session_timeout),
        check=ConnectionPool.check_connection if settings.pre_ping else None,
        timeout=settings.connect_timeout,
        max_waiting=settings.max_waiting,
        max_lifetime=settings.conn_max_age,
        num_workers=1,
    )


class _PooledConnection(Connection[DictRow]):
    """A connection that a child process does not use, since it belongs to the parent."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        renew_in_child(self)

    def _after_fork(self) -> None:
        let_go(self)


def _fresh_password_class(get_password: Callable[[], str]) -> type[_PooledConnection]:
    class FreshPasswordConnection(_PooledConnection):
        @classmethod
        def connect(cls, conninfo: str = "", **options: Any) -> Any:
            return super().connect(conninfo, password=get_password(), **options)

    return FreshPasswordConnection


def _configure(idle_seconds: int, connection: Connection[DictRow]) -> None:
    connection.execute(f"SET idle_in_transaction_session_timeout = {int(idle_seconds * 1000)}".encode())


class PostgresFactory(RecorderFactory):
    """
    Constructs recorders on one PostgreSQL database; POSTGRES_HOST may be the folder of a socket.

    Raises:
        OSError: a variable is missing or has a value that cannot be used.
    """

    POSTGRES_DBNAME = "POSTGRES_DBNAME"
    POSTGRES_HOST = "POSTGRES_HOST"
    POSTGRES_PORT = "POSTGRES_PORT"
    POSTGRES_USER = "POSTGRES_USER"
    POSTGRES_PASSWORD = "POSTGRES_PASSWORD"
    POSTGRES_GET_PASSWORD_TOPIC = "POSTGRES_GET_PASSWORD_TOPIC"
    POSTGRES_SCHEMA = "POSTGRES_SCHEMA"
    POSTGRES_PRE_PING = "POSTGRES_PRE_PING"
    POSTGRES_ENABLE_DB_FUNCTIONS = "POSTGRES_ENABLE_DB_FUNCTIONS"

    def _open_datastore(self, id_type: IdType) -> PostgresDatastore:
        if strtobool(self.env.get(self.POSTGRES_ENABLE_DB_FUNCTIONS) or "no"):
            raise OSError(
                f"{self.POSTGRES_ENABLE_DB_FUNCTIONS} is on: with these functions readers miss events and tracking"
                " is dropped, so they are not used here; take the variable away"
            )
        return PostgresDatastore(self._settings(id_type))

    def _settings(self, id_type: IdType) -> PostgresSettings:
        found = {name.lower(): whole_number(self.env, f"POSTGRES_{name}") for name in NUMBERS}
        numbers: dict[str, Any] = {name: number for name, number in found.items() if number is not None}
        return PostgresSettings(
            dbname=self._required(self.POSTGRES_DBNAME),
            host=self._required(self.POSTGRES_HOST),
            user=self._required(self.POSTGRES_USER),
            port=self.env.get(self.POSTGRES_PORT) or PostgresSettings.port,
            password=self.env.get(self.POSTGRES_PASSWORD),
            get_password=self._get_password(),
            schema=(self.env.get(self.POSTGRES_SCHEMA) or "").strip(),
            originator_id_type=id_type,
            pre_ping=strtobool(self.env.get(self.POSTGRES_PRE_PING) or "no"),
            **numbers,
        )

    def _required(self, variable: str) -> str:
        value = self.env.get(variable)
        if value is None:
            keys = " or ".join(self.env.create_keys(variable))
            raise OSError(f"the address of PostgreSQL is incomplete: set {keys}")
        return value

    def _get_password(self) -> Callable[[], str] | None:
        topic = self.env.get(self.POSTGRES_GET_PASSWORD_TOPIC)
        return resolve_topic(topic) if topic else None
