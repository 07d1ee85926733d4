"""
Recorders for applications of the `eventsourcing` package, on the append core of Refold's own log.

Each application has a log of its own in the database, told apart by the prefix of its tables; so its
notification ids are the integers from 1, without a gap. Versions are checked against the stream's head: none
may be left out.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    IntegrityError,
    Recorder,
    StoredEvent,
    Tracking,
    TrackingRecorder,
)
from eventsourcing.utils import Environment, EnvType

from ...log.records import Appended, Part, Request
from ...log.sqlite.schema import schema_statements
from ..event_recorders import LogRecorder, ProcessingRecorder, SequenceRecorder, Versions, versions_of
from ..factory import RecorderFactory, chosen_id_type, refuse_many_tracking_rows, whole_number
from ..stored_events import Stored, originator_of, snapshot_table, stream_of, table_prefix
from .datastore import SqliteDatastore

ONE_SEQUENCE = -1
NO_LIMIT = -1
# Outer joins: a missing row must show as damage, not make the event invisible.
STORED = (
    f"SELECT {ONE_SEQUENCE}, e.position, s.id, e.version, e.recorded_at, t.name, e.meta, e.payload, e.digest,"
    " before.digest FROM {p}event e"
    " LEFT JOIN {p}stream s ON s.key = e.stream LEFT JOIN {p}tag t ON t.key = e.tag"
    " LEFT JOIN {p}event before ON before.stream = e.stream AND before.version = e.version - 1"
)


class SqliteRecorder(Recorder):
    """A recorder of one application; a subclass adds what it needs to `create_table_statements`."""

    def __init__(self, datastore: SqliteDatastore, *, application_name: str = "") -> None:
        self.datastore: SqliteDatastore = datastore
        self.prefix = table_prefix(application_name)
        self.create_table_statements = self.construct_create_table_statements()

    def construct_create_table_statements(self) -> list[str]:
        """Return the statements that make this recorder's tables where they are missing."""
        return []

    def create_table(self) -> None:
        """Make this recorder's tables where they are missing."""
        with self.datastore.transaction(commit=True) as cursor:
            for statement in self.create_table_statements:
                cursor.execute(statement)


class SqliteAggregateRecorder(SqliteRecorder, LogRecorder):
    """Records and selects the events of aggregates."""

    datastore: SqliteDatastore

    def construct_create_table_statements(self) -> list[str]:
        """Return the statements that make the application's log where it is missing."""
        return [*super().construct_create_table_statements(), *schema_statements(self.prefix)]

    def _append(self, parts: Sequence[Part], tracking: Tracking | None) -> Appended:
        return self.datastore.append(self.prefix, Request(parts))

    def _stream_rows(self, stream: str, versions: Versions) -> list[Stored]:
        where = f" WHERE e.stream = (SELECT key FROM {self.prefix}stream WHERE id = ?)"
        order = f" AND e.version > ? AND e.version <= ? ORDER BY e.version {versions.order} LIMIT ?"
        limit = NO_LIMIT if versions.limit is None else versions.limit
        with self.datastore.reading() as connection:
            return self._rows(connection, where + order, stream, versions.after, versions.until, limit)

    def _rows(self, connection: sqlite3.Connection, clauses: str, *values: object) -> list[Stored]:
        rows = connection.execute(STORED.format(p=self.prefix) + clauses, values)
        return [Stored._make(row) for row in rows]


class SqliteApplicationRecorder(SqliteAggregateRecorder, SequenceRecorder):
    """Records the events of an application in one sequence, which can be read and followed."""

    def max_notification_id(self) -> int | None:
        """Return the id of the last event; None where there is none."""
        with self.datastore.reading() as connection:
            return self._head(connection)

    def _head(self, connection: sqlite3.Connection) -> int | None:
        row = connection.execute(f"SELECT max(position) FROM {self.prefix}event").fetchone()
        return None if row is None else row[0]

    def _sequence_rows(self, after: int, until: int, limit: int, topics: Sequence[str]) -> tuple[list[Stored], int]:
        chosen = f"(SELECT key FROM {self.prefix}tag WHERE name IN ({','.join('?' * len(topics))}))"
        where = " WHERE e.position > ? AND e.position <= ?" + (f" AND e.tag IN {chosen}" if topics else "")
        clauses = where + " ORDER BY e.position LIMIT ?"
        with self.datastore.reading() as connection:
            head = self._head(connection) or 0
            return self._rows(connection, clauses, after, until, *topics, limit), head


class SqliteTrackingRecorder(SqliteRecorder, TrackingRecorder):
    """
    Records how far other applications have been processed, one row for each.

    A materialised view is a subclass: in one `self.datastore.transaction(commit=True)` it writes its rows and
    calls `self._insert_tracking(cursor, tracking)`.
    """

    def construct_create_table_statements(self) -> list[str]:
        """Return the statement that makes the table where it is missing."""
        return [
            *super().construct_create_table_statements(),
            f"CREATE TABLE IF NOT EXISTS {self.prefix}tracking (application_name TEXT PRIMARY KEY,"
            " notification_id INTEGER NOT NULL) WITHOUT ROWID",
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
        statement = f"SELECT notification_id FROM {self.prefix}tracking WHERE application_name = ?"
        with self.datastore.reading() as connection:
            row = connection.execute(statement, (application_name,)).fetchone()
        return None if row is None else int(row[0])

    def _insert_tracking(self, cursor: sqlite3.Cursor | sqlite3.Connection, tracking: Tracking) -> None:
        done = cursor.execute(
            f"INSERT INTO {self.prefix}tracking VALUES (?, ?)"
            " ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id"
            " WHERE notification_id < excluded.notification_id",
            (tracking.application_name, tracking.notification_id),
        )
        if done.rowcount != 1:
            name, position = tracking.application_name, tracking.notification_id
            raise IntegrityError(f"{position} of {name} does not lie above the position tracked last")


class SqliteProcessRecorder(SqliteTrackingRecorder, SqliteApplicationRecorder, ProcessingRecorder):
    """Records the events of an application and how far another one was processed for them, in one."""

    def _append(self, parts: Sequence[Part], tracking: Tracking | None) -> Appended:
        if tracking is None:
            return super()._append(parts, None)
        request = Request(parts, lambda connection: self._insert_tracking(connection, tracking))
        return self.datastore.append(self.prefix, request)


class SqliteSnapshotRecorder(SqliteRecorder, AggregateRecorder):
    """Records snapshots, or what else an application stores apart from its events; `purpose` names it."""

    def __init__(self, datastore: SqliteDatastore, *, application_name: str = "", purpose: str = "snapshots") -> None:
        self._table = snapshot_table(table_prefix(application_name), purpose)
        super().__init__(datastore, application_name=application_name)

    def construct_create_table_statements(self) -> list[str]:
        """Return the statement that makes the table where it is missing."""
        columns = "originator_id TEXT NOT NULL, originator_version INTEGER NOT NULL, topic TEXT NOT NULL"
        return [
            *super().construct_create_table_statements(),
            f"CREATE TABLE IF NOT EXISTS {self._table} ({columns}, state BLOB NOT NULL,"
            " UNIQUE (originator_id, originator_version))",
        ]

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        """
        Record all of these, or nothing.

        Raises:
            IntegrityError: a snapshot of the same originator and version is recorded already.
        """
        id_type = self.datastore.originator_id_type
        rows = [
            (stream_of(event.originator_id, id_type), event.originator_version, event.topic, event.state)
            for event in stored_events
        ]
        if rows:
            with self.datastore.transaction(commit=True) as cursor:
                cursor.executemany(f"INSERT INTO {self._table} VALUES (?, ?, ?, ?)", rows)

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
            f"SELECT originator_version, topic, state FROM {self._table}"
            " WHERE originator_id = ? AND originator_version > ? AND originator_version <= ?"
            f" ORDER BY originator_version {versions.order} LIMIT ?"
        )
        limit = NO_LIMIT if limit is None else limit
        with self.datastore.reading() as connection:
            rows = connection.execute(statement, (stream, versions.after, versions.until, limit)).fetchall()
        return [StoredEvent(originator_of(stream, id_type), *row) for row in rows]


class SqliteFactory(RecorderFactory[SqliteTrackingRecorder]):
    """
    Constructs recorders on one SQLite database.

    Raises:
        OSError: a variable is missing or says something that cannot be done.
    """

    SQLITE_DBNAME = "SQLITE_DBNAME"
    SQLITE_LOCK_TIMEOUT = "SQLITE_LOCK_TIMEOUT"

    aggregate_recorder_class = SqliteAggregateRecorder
    snapshot_recorder_class = SqliteSnapshotRecorder
    application_recorder_class = SqliteApplicationRecorder
    tracking_recorder_class = SqliteTrackingRecorder
    process_recorder_class = SqliteProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        db_name = self.env.get(self.SQLITE_DBNAME)
        if not db_name:
            keys = " or ".join(self.env.create_keys(self.SQLITE_DBNAME))
            raise OSError(f"no SQLite database is named: set {keys} to a path, or to :memory:")
        refuse_many_tracking_rows(self.env)
        self.datastore = SqliteDatastore(
            db_name,
            lock_timeout=whole_number(self.env, self.SQLITE_LOCK_TIMEOUT),
            originator_id_type=chosen_id_type(self.env),
        )
