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
from ..postgres_log.wire import Call, int4, int8
from ..recording import originator_of, snapshot_table, stream_of, table_prefix
from .datastore import PostgresDatastore
from .recorders import PostgresRecorder


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
