"""A fresh database for each test, as the environment variables of an `eventsourcing` application name it."""

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.eventsourcing.opening import NewFactory, factory_for, postgres_variables

DATABASES = ("sqlite", "postgres")


@pytest.fixture(params=DATABASES)
def variables(request: pytest.FixtureRequest) -> dict[str, str]:
    """The variables that name a database with text ids."""
    if request.param == "postgres":
        named = postgres_variables(request.getfixturevalue("pg_url"))
        return named | {"PERSISTENCE_MODULE": "refold.infrastructure.postgres", "ORIGINATOR_ID_TYPE": "text"}
    folder = request.getfixturevalue("tmp_path")
    return {
        "PERSISTENCE_MODULE": "refold.infrastructure.sqlite",
        "SQLITE_DBNAME": str(folder / "events.db"),
        "ORIGINATOR_ID_TYPE": "text",
    }


@pytest.fixture
def factory(variables: dict[str, str]) -> Iterator[NewFactory]:
    """A function that constructs the factory of an application, given its name; all are closed at the end."""
    with ExitStack() as closing:

        def construct(name: str = "Shop", **changes: str) -> object:
            constructed = factory_for(variables | changes, name)
            closing.callback(constructed.close)
            return constructed

        yield construct
