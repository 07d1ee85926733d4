"""
Snapshots of a foreign application's aggregates: a plain table, apart from its log.

They are made at any version and may be thrown away, so no version need follow another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from eventsourcing.persistence import AggregateRecorder, StoredEvent

from ..event_recorders import versions_of
from ..recording import originator_of, snapshot_table, stream_of, table_prefix
from .datastore import SqliteDatastore
from .recorders import NO_LIMIT, SqliteRecorder


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
