"""The cases that `eventsourcing` ships, on PostgreSQL."""

from typing import ClassVar

import pytest

from refold.infrastructure.postgres import PostgresFactory
from refold.infrastructure.recorders.recorders import (
    AggregateRecorder,
    ApplicationRecorder,
    ProcessRecorder,
    TrackingRecorder,
)
from tests.eventsourcing.cases import ID_TYPES, Backend, cases_on
from tests.eventsourcing.counters import PostgresEventCounters
from tests.eventsourcing.opening import postgres_variables


class Postgres(Backend):
    """A database of a server."""

    __test__ = False
    factory_class = PostgresFactory
    view_class = PostgresEventCounters
    recorder_classes: ClassVar = {
        "aggregate": AggregateRecorder,
        "application": ApplicationRecorder,
        "tracking": TrackingRecorder,
        "process": ProcessRecorder,
    }

    def name_database(self, request: pytest.FixtureRequest) -> dict[str, str]:
        """Name a database that is empty."""
        return postgres_variables(request.getfixturevalue("pg_url"))


BACKENDS = [(Postgres, id_type) for id_type in ID_TYPES]

for backend, id_type in BACKENDS:
    globals().update(cases_on(backend, id_type=id_type))
