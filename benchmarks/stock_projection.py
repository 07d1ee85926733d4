"""
A projection as the stock `eventsourcing` package runs it: each event changes the view in a transaction of its own.

Its runner needs an application with subscriptions, which the package's SQLite recorder does not have. So events are
passed to it page by page here, which costs less than its subscription.
"""

from __future__ import annotations

import itertools
from typing import Any
from uuid import UUID

from eventsourcing.application import Application
from eventsourcing.persistence import InfrastructureFactory, Tracking
from eventsourcing.postgres import PostgresTrackingRecorder
from eventsourcing.sqlite import SQLiteTrackingRecorder

PAGE = 2_048
TABLE = "CREATE TABLE IF NOT EXISTS counted (context TEXT PRIMARY KEY, items INTEGER NOT NULL)"
COUNT = (
    "INSERT INTO counted VALUES ({mark}, 1) ON CONFLICT (context) DO UPDATE SET items = counted.items + excluded.items"
)
_NAMES = itertools.count()


class CountsOnSqlite(SQLiteTrackingRecorder):
    """How many items each context has, on SQLite."""

    def construct_create_table_statements(self) -> list[str]:
        """Return the statements that create its tables."""
        return [*super().construct_create_table_statements(), TABLE]

    def count(self, context: str, tracking: Tracking) -> None:
        """Count one more, and how far that is."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(COUNT.format(mark="?"), (context,))


class CountsOnPostgres(PostgresTrackingRecorder):
    """How many items each context has, on PostgreSQL."""

    def create_table(self) -> None:
        """Create its tables."""
        super().create_table()
        with self.datastore.transaction(commit=True) as cursor:
            cursor.execute(TABLE)

    def count(self, context: str, tracking: Tracking) -> None:
        """Count one more, and how far that is."""
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(COUNT.format(mark="%s"), (context,))


class StockProjection:
    """The view of an application, which can be made again from the beginning any number of times."""

    def __init__(self, app: Application[UUID], environment: dict[str, str]) -> None:
        self._app = app
        view: Any = CountsOnPostgres if "POSTGRES_DBNAME" in environment else CountsOnSqlite
        factory: Any = InfrastructureFactory.construct(app.construct_env(name="counts", env=environment))
        self._view = factory.tracking_recorder(view)

    def run(self, events: int) -> int:
        """Fold so many events from the beginning on; return how many there were."""
        name, start, done = f"run-{next(_NAMES)}", 1, 0
        recorder, mapper = self._app.recorder, self._app.mapper
        while done < events:
            found = recorder.select_notifications(start=start, limit=min(PAGE, events - done))
            for one in found:
                event = mapper.to_domain_event(one)
                self._view.count(str(event.originator_id), Tracking(name, one.id))
            if not found:
                break
            done, start = done + len(found), found[-1].id + 1
        return done
