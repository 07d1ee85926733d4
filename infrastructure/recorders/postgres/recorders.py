"""
Recorders for applications of the `eventsourcing` package, on the append core of Refold's own log.

Each application has tables of its own, told apart by their prefix, and in them one slice, so its notification
ids are the integers from 1, without a gap, in the order of commits. Versions are checked against the stream's
head: none may be left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    IntegrityError,
    OperationalError,
    Recorder,
    StoredEvent,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic, strtobool
from psycopg import Cursor, errors
from psycopg.rows import DictRow

from ....domain.ids import SLICES
from ...log.postgres.schema import CREATE_ATTEMPTS_MAX, TAKEN, schema_statements
from ...log.postgres.wire import Call, Rows, int4, int8
from ...log.records import Appended, Part, Request
from ..event_recorders import LogRecorder, ProcessingRecorder, SequenceRecorder, Versions, versions_of
from ..factory import RecorderFactory, chosen_id_type, refuse_many_tracking_rows, whole_number
from ..stored_events import Stored, originator_of, safe_name, snapshot_table, stream_of, table_prefix
from .datastore import PostgresDatastore, PostgresSettings

# Outer joins: a missing row must show as damage, not make the event invisible.
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
# Nothing comes back from within an append; a number that does not rise becomes none, which the column refuses.
TRACK_OR_FAIL = f"{TRACK} CASE WHEN {HIGHER} THEN excluded.notification_id END"
TRACK_OR_PASS = f"{TRACK} excluded.notification_id WHERE {HIGHER}"


class PostgresRecorder(Recorder):
    """A recorder of one application; a subclass adds what it needs to `create_table_statements`."""

    def __init__(self, datastore: PostgresDatastore, *, application_name: str = "") -> None:
        self.datastore: PostgresDatastore = datastore
        self.prefix = datastore.qualifier + table_prefix(application_name)
        self.lane = lane_of(application_name)
        self.create_table_statements = self.construct_create_table_statements()

    def construct_create_table_statements(self) -> list[str]:
        """Return the statements that make this recorder's tables where they are missing."""
        return []

    def create_table(self) -> None:
        """Make this recorder's tables where they are missing; others may be doing so at the same time."""
        for _ in range(CREATE_ATTEMPTS_MAX):
            try:
                with self.datastore.transaction(commit=True) as cursor:
                    self._create_table(cursor)
                return
            except Exception as error:
                if getattr(error.__cause__, "sqlstate", None) not in TAKEN:
                    raise
        raise OperationalError(f"the tables {self.prefix}... could not be made: another program's have their names")

    def _create_table(self, cursor: Cursor[DictRow]) -> None:
        for statement in self.create_table_statements:
            cursor.execute(statement.encode())


class PostgresAggregateRecorder(PostgresRecorder, LogRecorder):
    """Records and selects the events of aggregates."""

    datastore: PostgresDatastore

    def _create_table(self, cursor: Cursor[DictRow]) -> None:
        # All of a log's tables are made at once, so one tells of the others.
        cursor.execute("SELECT to_regclass(%s) IS NULL AS missing", (f"{self.prefix}event",))
        row = cursor.fetchone()
        if row is not None and row["missing"]:
            for statement in schema_statements(self.prefix):
                cursor.execute(statement.encode())
            cursor.execute(f"INSERT INTO {self.prefix}slice_lock VALUES (%s)".encode(), (self.lane,))
        super()._create_table(cursor)

    def _append(self, parts: Sequence[Part], tracking: Tracking | None) -> Appended:
        return self._append_in_lane(Request(parts))

    def _append_in_lane(self, request: Request) -> Appended:
        parts = [part._replace(slice=self.lane) for part in request.parts]
        return self.datastore.append(self.prefix, self.lane, request._replace(parts=parts))

    def _stream_rows(self, stream: str, versions: Versions) -> list[Stored]:
        place = f"e.slice = $1 AND e.stream = (SELECT key FROM {self.prefix}stream WHERE id = $2)"
        span = f"e.version > $3 AND e.version <= $4 ORDER BY e.version {versions.order} LIMIT $5"
        limit = None if versions.limit is None else int8(versions.limit)
        values = (int4(self.lane), stream.encode(), int4(versions.after), int4(versions.until), limit)
        return _stored(self.datastore.ask(self._rows(f"{place} AND {span}", *values))[0])

    def _rows(self, where: str, *values: bytes | None) -> Call:
        return Call(f"{STORED.format(p=self.prefix)} WHERE {where}", values)


class PostgresApplicationRecorder(PostgresAggregateRecorder, SequenceRecorder):
    """Records the events of an application in one sequence, which can be read and followed."""

    def max_notification_id(self) -> int | None:
        """Return the id of the last event; None where there is none."""
        return _number(self.datastore.ask(self._head())[0])

    def _head(self) -> Call:
        return Call(f"SELECT max(position) FROM {self.prefix}event WHERE slice = $1", (int4(self.lane),))

    def _sequence_rows(self, after: int, until: int, limit: int, topics: Sequence[str]) -> tuple[list[Stored], int]:
        names = ", ".join(f"${number}" for number in range(5, 5 + len(topics)))
        chosen = f"e.tag IN (SELECT key FROM {self.prefix}tag WHERE name IN ({names})) AND " if topics else ""
        where = f"{chosen}e.slice = $1 AND e.position > $2 AND e.position <= $3 ORDER BY e.position LIMIT $4"
        values = (int4(self.lane), int8(after), int8(until), int8(limit), *(topic.encode() for topic in topics))
        # The last id is looked up first: what is committed in between must not count as searched.
        head, rows = self.datastore.ask(self._head(), self._rows(where, *values))
        return _stored(rows), _number(head) or 0


class PostgresTrackingRecorder(PostgresRecorder, TrackingRecorder):
    """
    Records how far other applications have been processed, one row for each.

    A materialised view is a subclass: in one `self.datastore.transaction(commit=True)` it writes its rows and
    calls `self._insert_tracking(cursor, tracking)`.
    """

    def construct_create_table_statements(self) -> list[str]:
        """Return the statement that makes the table where it is missing."""
        return [
            *super().construct_create_table_statements(),
            f'CREATE TABLE IF NOT EXISTS {self.prefix}tracking (slice int, application_name text COLLATE "C",'
            " notification_id bigint NOT NULL, PRIMARY KEY (slice, application_name))",
        ]

    def insert_tracking(self, tracking: Tracking) -> None:
        """
        Record a position.

        Raises:
            IntegrityError: it is not above the one recorded last.
        """
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return the position recorded last; None where there is none."""
        statement = f"SELECT notification_id FROM {self.prefix}tracking WHERE slice = $1 AND application_name = $2"
        return _number(self.datastore.ask(Call(statement, (int4(self.lane), application_name.encode())))[0])

    def _insert_tracking(self, cursor: Cursor[DictRow], tracking: Tracking) -> None:
        statement = TRACK_OR_PASS.format(p=self.prefix, values="%s, %s, %s")
        values = (self.lane, tracking.application_name, tracking.notification_id)
        if cursor.execute(statement.encode(), values).rowcount != 1:
            raise _not_above(tracking)


class PostgresProcessRecorder(PostgresTrackingRecorder, PostgresApplicationRecorder, ProcessingRecorder):
    """Records the events of an application and how far another one was processed for them, in one."""

    def _append(self, parts: Sequence[Part], tracking: Tracking | None) -> Appended:
        if tracking is None:
            return super()._append(parts, None)
        statement = TRACK_OR_FAIL.format(p=self.prefix, values="$1, $2, $3")
        values = (int4(self.lane), tracking.application_name.encode(), int8(tracking.notification_id))
        try:
            return self._append_in_lane(Request(parts, lambda calls: calls.append(Call(statement, values))))
        except IntegrityError as error:
            if isinstance(error.__cause__, errors.NotNullViolation):
                raise _not_above(tracking) from error
            raise


def lane_of(application: str) -> int:
    """Return the slice of an application, which is none of Refold's own."""
    return SLICES + int.from_bytes(hashlib.blake2b(safe_name(application).encode()).digest()[:3], "big")


def _stored(rows: Rows) -> list[Stored]:
    return [Stored._make(row) for row in rows]


def _number(rows: Rows) -> int | None:
    return rows[0][0] if rows else None


def _not_above(tracking: Tracking) -> IntegrityError:
    name, position = tracking.application_name, tracking.notification_id
    return IntegrityError(f"{position} of {name} does not lie above the position tracked last")


class PostgresSnapshotRecorder(PostgresRecorder, AggregateRecorder):
    """Records snapshots, or what else an application stores apart from its events; `purpose` names it."""

    def __init__(self, datastore: PostgresDatastore, *, application_name: str = "", purpose: str = "snapshots") -> None:
        self._table = datastore.qualifier + snapshot_table(table_prefix(application_name), purpose)
        super().__init__(datastore, application_name=application_name)

    def construct_create_table_statements(self) -> list[str]:
        """Return the statement that makes the table where it is missing."""
        columns = 'slice int, originator_id text COLLATE "C", originator_version int, topic text NOT NULL'
        return [
            *super().construct_create_table_statements(),
            f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}, state bytea NOT NULL,"
            " PRIMARY KEY (slice, originator_id, originator_version))",
        ]

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        """
        Record all of these, or nothing.

        Raises:
            IntegrityError: a snapshot of the same originator and version is recorded already.
        """
        id_type = self.datastore.originator_id_type
        rows = [
            (self.lane, stream_of(event.originator_id, id_type), event.originator_version, event.topic, event.state)
            for event in stored_events
        ]
        if rows:
            with self.datastore.transaction(commit=True) as cursor:
                cursor.executemany(f"INSERT INTO {self._table} VALUES (%s, %s, %s, %s, %s)".encode(), rows)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return what was recorded for an originator, by version."""
        id_type = self.datastore.originator_id_type
        stream, versions = stream_of(originator_id, id_type), versions_of(gt, lte, limit, desc=desc)
        statement = (
            f"SELECT originator_version, topic, state FROM {self._table} WHERE slice = $1 AND originator_id = $2"
            f" AND originator_version > $3 AND originator_version <= $4 ORDER BY 1 {versions.order} LIMIT $5"
        )
        bounds = (int4(versions.after), int4(versions.until), None if limit is None else int8(limit))
        rows = self.datastore.ask(Call(statement, (int4(self.lane), stream.encode(), *bounds)))[0]
        return [StoredEvent(originator_of(stream, id_type), *row) for row in rows]


# Where a variable says nothing, the setting's own default holds.
NUMBERS = (
    "CONNECT_TIMEOUT",
    "LOCK_TIMEOUT",
    "IDLE_IN_TRANSACTION_SESSION_TIMEOUT",
    "POOL_SIZE",
    "MAX_OVERFLOW",
    "MAX_WAITING",
    "CONN_MAX_AGE",
)


class PostgresFactory(RecorderFactory[PostgresTrackingRecorder]):
    """
    Constructs recorders on one PostgreSQL database; POSTGRES_HOST may be the folder of a socket.

    Raises:
        OSError: a variable is missing or says something that cannot be done.
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

    aggregate_recorder_class = PostgresAggregateRecorder
    snapshot_recorder_class = PostgresSnapshotRecorder
    application_recorder_class = PostgresApplicationRecorder
    tracking_recorder_class = PostgresTrackingRecorder
    process_recorder_class = PostgresProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        if strtobool(self.env.get(self.POSTGRES_ENABLE_DB_FUNCTIONS) or "no"):
            raise OSError(
                f"{self.POSTGRES_ENABLE_DB_FUNCTIONS} is on: with these functions readers miss events and tracking"
                " is dropped, so they are not used here; take the variable away"
            )
        refuse_many_tracking_rows(self.env)
        self.datastore = PostgresDatastore(self._settings())

    def _settings(self) -> PostgresSettings:
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
            originator_id_type=chosen_id_type(self.env),
            pre_ping=strtobool(self.env.get(self.POSTGRES_PRE_PING) or "no"),
            **numbers,
        )

    def _required(self, variable: str) -> str:
        value = self.env.get(variable)
        if value is None:
            keys = " or ".join(self.env.create_keys(variable))
            raise OSError(f"where PostgreSQL is, is not said: set {keys}")
        return value

    def _get_password(self) -> Callable[[], str] | None:
        topic = self.env.get(self.POSTGRES_GET_PASSWORD_TOPIC)
        return resolve_topic(topic) if topic else None
