"""Fixtures for every test. The PostgreSQL ones start their server when a test first asks for it."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import closing, suppress
from importlib import import_module
from pathlib import Path
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


ROOT = Path(__file__).parents[1]
# They need packages that may not be there.
FRAMEWORKS = "/frameworks/"


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the files of which no test would run: to load those of all tests takes each process ten seconds."""
    match config.getoption("markexpr"):
        case "long" if collection_path.match("test_*.py") and not _may_be_long(collection_path):
            return True
        case "not long" if _place_of(collection_path).startswith(LONG):
            return True
    return None


def _place_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else ""


def _may_be_long(path: Path) -> bool:
    """Return whether a file may have a test that takes long: contracts bring some of theirs with them."""
    text = path.read_text("utf-8")
    is_contract = path.parent.name == "contract" and "Contract" in text
    return is_contract or _place_of(path).startswith(LONG) or "mark.long" in text or "browser" in text


# The files of which `scripts/test --long` would miss a test.
MISSED = pytest.StashKey[set[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that take long, and put them before all others."""
    for item in items:
        if item.nodeid.startswith(LONG) or "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: 0 if item.nodeid.startswith(FIRST) else 1 if item.get_closest_marker("long") else 2)
    long = {item.path for item in items if item.get_closest_marker("long")}
    config.stash[MISSED] = {_place_of(path) for path in long if not _may_be_long(path)}


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Let the garbage collector rest while thousands of tests are collected, which all stay."""
    gc.disable()
    _load_share(session.config)


def _load_share(config: pytest.Config) -> None:
    """
    Load some of the tests before all of them are collected, each of several processes its own.

    Where nothing is compiled yet, as in a fresh clone, each would compile all of them otherwise, at the same time.
    """
    given = getattr(config, "workerinput", None)
    if given is None or sys.dont_write_bytecode:
        return
    number, count = int(given["workerid"].removeprefix("gw")), given["workercount"]
    folders = [Path(argument.partition("::")[0]).absolute() for argument in config.args]
    found = {path for folder in folders for path in (folder.rglob("test_*.py") if folder.is_dir() else [folder])}
    places = (_place_of(path) for path in sorted(found) if not pytest_ignore_collect(path, config))
    for place in [place for place in places if place.startswith("tests/") and FRAMEWORKS not in place][number::count]:
        # Whoever collects it reports what is wrong with it, or why it is skipped.
        with suppress(Exception, pytest.skip.Exception):
            import_module(place.removesuffix(".py").replace("/", "."))


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
