"""Fixtures for every test. The PostgreSQL ones start their server when a test first asks for it."""

import os
from collections.abc import Iterator

import psycopg
import pytest

from tests.support.postgres import MissingServerError, Server, running_server


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Server]:
    """A PostgreSQL server of this test process alone: with pytest-xdist, each worker has its own."""
    try:
        with running_server() as server:
            with psycopg.connect(server.url()) as connection:
                row = connection.execute("show data_directory").fetchone()
            assert row == (str(server.data),), "another server answered"
            yield server
    except MissingServerError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no PostgreSQL server: {missing}")
        pytest.skip(f"no PostgreSQL server: {missing}")


@pytest.fixture
def pg_url(pg_server: Server) -> Iterator[str]:
    """The URL of a fresh, empty database, dropped after the test."""
    with pg_server.database() as url:
        yield url
