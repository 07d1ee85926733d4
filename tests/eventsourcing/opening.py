"""Factories by environment variables, and events to record with them."""

from collections.abc import Mapping
from typing import Any, Protocol

from eventsourcing.persistence import InfrastructureFactory, StoredEvent
from eventsourcing.utils import Environment
from psycopg.conninfo import conninfo_to_dict


def postgres_variables(url: str) -> dict[str, str]:
    """Return the variables that name a PostgreSQL database."""
    names = {"dbname": "POSTGRES_DBNAME", "host": "POSTGRES_HOST", "user": "POSTGRES_USER"}
    return {names[part]: str(value) for part, value in conninfo_to_dict(url).items()}


class NewFactory(Protocol):
    """Constructs the factory of an application."""

    def __call__(self, name: str = "Shop", **changes: str) -> Any:
        """Return a new factory, of the environment with these changes."""


def factory_for(variables: Mapping[str, str], name: str) -> InfrastructureFactory[Any]:
    """Construct the factory that an application of this name would."""
    factory: InfrastructureFactory[Any] = InfrastructureFactory.construct(Environment(name, dict(variables)))
    return factory


def event(originator: str, version: int, topic: str = "shop:Sold", state: bytes = b"{}") -> StoredEvent:
    """Make an event."""
    return StoredEvent(originator, version, topic, state)


def events(originator: str, *versions: int) -> list[StoredEvent]:
    """Make events of one originator."""
    return [event(originator, version) for version in versions]
