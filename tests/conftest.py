"""Fixtures for every test. The PostgreSQL ones start their server when a test first asks for it."""

import gc
import os
from collections.abc import Iterator
from contextlib import closing
from typing import cast

import psycopg
import pytest
from hypothesis import HealthCheck, settings
from psycopg.conninfo import conninfo_to_dict

from refold.infrastructure.databases import open_database
from refold.infrastructure.log import background
from refold.infrastructure.log.sqlite.connection import SqliteDatabase
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.rows.postgres import PostgresProjectionStore
from tests.support import citus
from tests.support.effort import IS_DEEP
from tests.support.postgres import Lent, MissingServerError, Server, running_server

# Contracts lie in modules that are no test modules. Pytest explains their assertions only if it is told so before a
# test imports one of them.
CHAT = ("chat", "chat_checking", "chat_editing", "chat_forking", "chat_merging", "chat_streaming", "chat_summaries")
CONTAINERS = ("containers", "containers_racing", "containers_shared")
RUNS = ("runs", "runs_shared", "runs_threads")
LOGS = (
    "appending", "reading", "repeating", "following", "durable", "exits", "forks", "processes", "damage", "restores",
    "writing",
)  # fmt: skip
for part in (*LOGS, *CHAT, *CONTAINERS, "windows", "limits", "memories", "agents", "agents_shared", *RUNS):
    pytest.register_assert_rewrite(f"tests.contract.{part}")

# How much is drawn where the test does not say: what every change waits for, and what scripts/soak takes its time for.
settings.register_profile(
    "ci",
    max_examples=10,
    deadline=None,
    database=None,
    derandomize=os.environ.get("CI") == "true",
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("deep", settings.get_profile("ci"), max_examples=1_000, derandomize=False)
settings.load_profile("deep" if IS_DEEP else "ci")
# Tests count statements and threads; those of the watch itself set it anew.
background.LOOK_SECONDS = None


# The tests that `scripts/test` leaves to `scripts/test --long`, with those that are marked and those in a browser. They
# come first, or one process would still be at one of them when the others have ended; and before them those of the
# benchmarks, which collect all garbage for each figure, while there is little.
FIRST = ("tests/benchmarks/",)
LONG = (
    *FIRST,
    *(f"tests/{folder}/" for folder in ("crash", "dask", "demo", "interrupts", "model")),
    "tests/contract/test_sealed.py",
    "tests/house/test_archives.py",
    "tests/projecting/test_ahead",
    "tests/projecting/test_any_",
    "tests/trust/test_killed.py",
)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that take long, and put them before all others."""
    for item in items:
        if item.nodeid.startswith(LONG) or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: 0 if item.nodeid.startswith(FIRST) else 1 if item.get_closest_marker("long") else 2)


def pytest_collection() -> None:
    """Let the garbage collector rest while thousands of tests are collected, which all stay."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep what was collected out of every later look of the garbage collector's: nearly all of it stays."""
    gc.freeze()
    gc.enable()


@pytest.fixture
def brief_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for a busy SQLite file for a moment only, where nobody will let it go."""
    defaults = SqliteDatabase.__init__.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "busy_timeout_seconds", 0.1)


@pytest.fixture(scope="session")
def pg_server() -> Iterator[Server]:
    """A PostgreSQL server of this test process alone: with pytest-xdist, each worker has its own."""
    yield from _server(durable=False)


@pytest.fixture(scope="session")
def durable_pg_server() -> Iterator[Server]:
    """The same, which syncs to disk what it commits: for tests of what is kept."""
    yield from _server(durable=True)


def _server(*, durable: bool) -> Iterator[Server]:
    try:
        with running_server(durable=durable) as server:
            with psycopg.connect(server.url()) as connection:
                row = connection.execute("show data_directory").fetchone()
            assert row == (str(server.data),), "another server answered"
            yield server
    except MissingServerError as missing:
        if os.environ.get("CI") == "true":
            pytest.fail(f"no PostgreSQL server: {missing}")
        pytest.skip(f"no PostgreSQL server: {missing}")


@pytest.fixture(scope="session")
def _ready_template(pg_server: Server) -> Iterator[str]:
    with pg_server.database() as url:
        log, rows = open_database(url)
        with closing(log):
            cast(PostgresProjectionStore, rows).prepare(PROJECTIONS)
        yield conninfo_to_dict(url)["dbname"]  # type: ignore[misc]  # it is a str


@pytest.fixture(scope="session")
def _lent(pg_server: Server, _ready_template: str) -> Iterator[Lent]:
    with pg_server.lent(_ready_template) as lent:
        yield lent


@pytest.fixture
def ready_pg_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """
    The URL of a database as `refold init` leaves it: the one of the test before, where that changed no more than rows.
    """
    if citus.CLUSTER_URL:
        with citus.cluster_database() as url:
            yield url
        return
    with request.getfixturevalue("_lent").out() as url, citus.rules_kept():
        yield url


@pytest.fixture
def pg_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a fresh, empty database, dropped after the test; on a cluster, tables are there and distributed."""
    if citus.CLUSTER_URL:
        with citus.cluster_database() as url:
            yield url
        return
    with request.getfixturevalue("pg_server").database() as url, citus.rules_kept():
        yield url
