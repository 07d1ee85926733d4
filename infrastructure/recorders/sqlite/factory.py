"""
The factory that `PERSISTENCE_MODULE=refold.infrastructure.sqlite` names.

The variables are those of `eventsourcing.sqlite` and mean the same. Unlike there, tables are named after the
application.
"""

from __future__ import annotations

from eventsourcing.utils import Environment, EnvType

from ..factory import RecorderFactory, chosen_id_type, refuse_many_tracking_rows, whole_number
from .datastore import SqliteDatastore
from .recorders import (
    SqliteAggregateRecorder,
    SqliteApplicationRecorder,
    SqliteProcessRecorder,
    SqliteSnapshotRecorder,
    SqliteTrackingRecorder,
)


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
