"""A materialised view as a user would write it: rows of its own and the tracking, in one transaction."""

from abc import abstractmethod
from typing import Any

from eventsourcing.persistence import Tracking
from eventsourcing.tests.projection import EventCountersView

from refold.infrastructure.recorders.datastore import Datastore
from refold.infrastructure.recorders.recorders import TrackingRecorder


class Counters(EventCountersView):
    """What both have in common."""

    def get_created_event_counter(self) -> int:
        """Return how many aggregates were created."""
        return self.number_of("created")

    def get_subsequent_event_counter(self) -> int:
        """Return how many other events there were."""
        return self.number_of("subsequent")

    def incr_created_event_counter(self, tracking: Tracking) -> None:
        """Count a created aggregate."""
        self.count("created", tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking) -> None:
        """Count another event."""
        self.count("subsequent", tracking)

    @abstractmethod
    def number_of(self, name: str) -> int:
        """Return what was counted under a name."""

    @abstractmethod
    def count(self, name: str, tracking: Tracking) -> None:
        """Count one more, and note how far this view has come."""


class SqliteEventCounters(TrackingRecorder, Counters):
    """Counts events on SQLite."""

    def __init__(self, datastore: Datastore, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        self.create_table_statements.append(
            f"CREATE TABLE IF NOT EXISTS {self.prefix}counter (name TEXT PRIMARY KEY, number INTEGER NOT NULL)"
        )

    def number_of(self, name: str) -> int:
        """Return what was counted under a name."""
        with self.datastore.transaction(commit=False) as cursor:
            cursor.execute(f"SELECT number FROM {self.prefix}counter WHERE name = ?", (name,))
            row = cursor.fetchone()
        return row["number"] if row else 0

    def count(self, name: str, tracking: Tracking) -> None:
        """Count one more, and note how far this view has come."""
        with self.datastore.transaction(commit=True) as cursor:
            cursor.execute(
                f"INSERT INTO {self.prefix}counter VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET number = number + 1",
                (name,),
            )
            self._insert_tracking(cursor, tracking)


class PostgresEventCounters(TrackingRecorder, Counters):
    """Counts events on PostgreSQL."""

    def __init__(self, datastore: Datastore, **kwargs: Any) -> None:
        super().__init__(datastore, **kwargs)
        self.create_table_statements.append(
            f"CREATE TABLE IF NOT EXISTS {self.prefix}counter (name text PRIMARY KEY, number int NOT NULL)"
        )

    def number_of(self, name: str) -> int:
        """Return what was counted under a name."""
        statement = f"SELECT number FROM {self.prefix}counter WHERE name = %s".encode()
        with self.datastore.transaction(commit=False) as cursor:
            row = cursor.execute(statement, (name,)).fetchone()
        return row["number"] if row else 0

    def count(self, name: str, tracking: Tracking) -> None:
        """Count one more, and note how far this view has come."""
        insert = f"INSERT INTO {self.prefix}counter AS c VALUES (%s, 1)"
        update = " ON CONFLICT (name) DO UPDATE SET number = c.number + 1"
        with self.datastore.transaction(commit=True) as cursor:
            cursor.execute((insert + update).encode(), (name,))
            self._insert_tracking(cursor, tracking)
