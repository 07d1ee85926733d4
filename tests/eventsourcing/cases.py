"""
The cases that `eventsourcing` ships, each made to run on any database of ours.

A case becomes a test where it is joined with a `Backend`, which says which database, and how ids are written.
"""

from typing import Any, ClassVar
from unittest import TestCase
from uuid import UUID, uuid4

import pytest
from eventsourcing.persistence import InfrastructureFactory, ProcessRecorder
from eventsourcing.tests import application, persistence, projection
from eventsourcing.tests.projection import EventCountersView
from eventsourcing.utils import Environment, get_topic

ID_TYPES = ("uuid", "text")


class Backend(TestCase):
    """A fresh database for each test, named in the environment, with factories on it."""

    id_type: ClassVar[str]
    factory_class: ClassVar[type[InfrastructureFactory[Any]]]
    view_class: ClassVar[type[EventCountersView]]
    variables: dict[str, str]

    def name_database(self, request: pytest.FixtureRequest) -> dict[str, str]:
        """Return the variables that name a new database."""
        raise NotImplementedError

    @pytest.fixture(autouse=True)
    def _environment(self, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
        module = self.factory_class.__module__.replace(".recorders.", ".")
        self.variables = {
            "PERSISTENCE_MODULE": module,
            "ORIGINATOR_ID_TYPE": self.id_type,
            **self.name_database(request),
        }
        for name, value in self.variables.items():
            monkeypatch.setenv(name, value)

    def new_factory(self, name: str = "Shop") -> InfrastructureFactory[Any]:
        """Construct a factory as an application of that name would; closed at the end of the test."""
        factory: InfrastructureFactory[Any]
        factory = InfrastructureFactory.construct(Environment(name, self.variables))
        self.addCleanup(factory.close)
        return factory

    def new_originator_id(self) -> UUID | str:
        """Make an id of the kind that the database holds."""
        return uuid4() if self.id_type == "uuid" else f"shop:ö:{uuid4()}"


class AggregateRecorderCase(Backend, persistence.AggregateRecorderTestCase):
    """Aggregates."""

    def create_recorder(self) -> Any:
        """Make a recorder of the events of aggregates."""
        return self.new_factory().aggregate_recorder()


class SnapshotRecorderCase(AggregateRecorderCase):
    """Snapshots."""

    def create_recorder(self) -> Any:
        """Make a recorder of snapshots."""
        return self.new_factory().aggregate_recorder("snapshots")


class ApplicationRecorderCase(Backend, persistence.ApplicationRecorderTestCase[Any]):
    """Applications."""

    # Shipped, but not named so that it runs.
    test_insert_subscribe = persistence.ApplicationRecorderTestCase.optional_test_insert_subscribe

    def create_recorder(self) -> Any:
        """Make a recorder of an application."""
        return self.new_factory().application_recorder()


class TrackingRecorderCase(Backend, persistence.TrackingRecorderTestCase):
    """Projections."""

    def create_recorder(self) -> Any:
        """Make a recorder of a projection."""
        return self.new_factory().tracking_recorder()


class ProcessRecorderCase(Backend, persistence.ProcessRecorderTestCase):
    """Applications that process another's events."""

    def create_recorder(self) -> ProcessRecorder:
        """Make a recorder that tracks."""
        return self.new_factory().process_recorder()


class ProcessAsApplicationCase(ApplicationRecorderCase):
    """What tracks does all else that an application's recorder does."""

    def create_recorder(self) -> Any:
        """Make a recorder that tracks."""
        return self.new_factory().process_recorder()


class NonInterleavingCase(Backend, persistence.NonInterleavingNotificationIDsBaseCase):
    """Two writers at once."""

    def create_recorder(self) -> Any:
        """Make a recorder of an application."""
        return self.new_factory().application_recorder()


class InfrastructureFactoryCase(Backend, persistence.InfrastructureFactoryTestCase[Any]):
    """The factory."""

    recorder_classes: ClassVar[dict[str, type[Any]]]

    def setUp(self) -> None:
        """Make the environment that the case changes as it goes."""
        self.env = Environment("", self.variables)
        super().setUp()

    def expected_factory_class(self) -> type[Any]:
        """Name the factory."""
        return self.factory_class

    def expected_aggregate_recorder_class(self) -> type[Any]:
        """Name the recorder of aggregates."""
        return self.recorder_classes["aggregate"]

    def expected_application_recorder_class(self) -> type[Any]:
        """Name the recorder of applications."""
        return self.recorder_classes["application"]

    def expected_tracking_recorder_class(self) -> type[Any]:
        """Name the recorder of projections."""
        return self.recorder_classes["tracking"]

    def tracking_recorder_subclass(self) -> type[Any]:
        """Name a recorder that a user wrote."""
        return self.view_class

    def expected_process_recorder_class(self) -> type[Any]:
        """Name the recorder that tracks."""
        return self.recorder_classes["process"]


class ExampleApplicationCase(Backend, application.ExampleApplicationTestCase):
    """An application with snapshots."""

    @property
    def expected_factory_topic(self) -> str:  # type: ignore[override]  # a plain attribute there
        """Where the factory is."""
        return get_topic(self.factory_class)


# One of its tests looks for a warning of the package's own, which must not be an error then.
@pytest.mark.filterwarnings("default:'log' is deprecated:DeprecationWarning")
class ApplicationCase(Backend, application.ApplicationTestCase):
    """Applications with a cache."""


class EventCountersViewCase(Backend, projection.EventCountersViewTestCase):
    """A materialised view."""

    def construct_event_counters_view(self) -> EventCountersView:
        """Make the view."""
        view = self.new_factory("counters").tracking_recorder(self.view_class)
        assert isinstance(view, EventCountersView)
        return view


class EventCountersProjectionCase(Backend, projection.AggregateEventCountersProjectionTestCase):
    """A view that follows an application."""


class EventSourcedProjectionCase(Backend, projection.EventSourcedProjectionTestCase):
    """An application that follows another."""


CASES: tuple[type[Backend], ...] = (
    AggregateRecorderCase,
    SnapshotRecorderCase,
    ApplicationRecorderCase,
    TrackingRecorderCase,
    ProcessRecorderCase,
    ProcessAsApplicationCase,
    NonInterleavingCase,
    InfrastructureFactoryCase,
    ExampleApplicationCase,
    ApplicationCase,
    EventCountersViewCase,
    EventCountersProjectionCase,
    EventSourcedProjectionCase,
)


def cases_on(backend: type[Backend], *, id_type: str) -> dict[str, type[TestCase]]:
    """Make a test class of each case, for one database and one kind of ids."""
    return {
        name: type(name, (backend, case), {"id_type": id_type, "__test__": True})
        for case in CASES
        for name in [f"{case.__name__}{backend.__name__}{id_type.title()}"]
    }
