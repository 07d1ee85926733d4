"""The cases that `eventsourcing` ships, on SQLite: a file, a private and a shared memory database."""

from pathlib import Path
from typing import ClassVar
from uuid import uuid4

import pytest

from refold.infrastructure.recorders.recorders import (
    AggregateRecorder,
    ApplicationRecorder,
    ProcessRecorder,
    TrackingRecorder,
)
from refold.infrastructure.sqlite import SqliteFactory
from tests.eventsourcing.cases import ID_TYPES, Backend, cases_on
from tests.eventsourcing.counters import SqliteEventCounters


class SqliteFile(Backend):
    """A file."""

    __test__ = False
    factory_class = SqliteFactory
    view_class = SqliteEventCounters
    recorder_classes: ClassVar = {
        "aggregate": AggregateRecorder,
        "application": ApplicationRecorder,
        "tracking": TrackingRecorder,
        "process": ProcessRecorder,
    }

    def name_database(self, request: pytest.FixtureRequest) -> dict[str, str]:
        """Name a file that does not exist yet."""
        folder: Path = request.getfixturevalue("tmp_path")
        return {"SQLITE_DBNAME": str(folder / "events.db")}


class SqliteMemory(SqliteFile):
    """A database in memory, of one factory alone."""

    def name_database(self, request: pytest.FixtureRequest) -> dict[str, str]:
        """Name the one that is always new."""
        return {"SQLITE_DBNAME": ":memory:"}


class SqliteShared(SqliteFile):
    """A database in memory that all factories of the process share."""

    def name_database(self, request: pytest.FixtureRequest) -> dict[str, str]:
        """Name one that is not in use."""
        return {"SQLITE_DBNAME": f"file:{uuid4()}?mode=memory&cache=shared"}


# The shared one differs from the private one in who sees it, not in how ids are written.
BACKENDS = [
    *((backend, id_type) for backend in (SqliteFile, SqliteMemory) for id_type in ID_TYPES),
    (SqliteShared, "text"),
]

for backend, id_type in BACKENDS:
    globals().update(cases_on(backend, id_type=id_type))
