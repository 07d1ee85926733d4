"""The contract on PostgreSQL."""

import os
from collections.abc import Iterator
from contextlib import nullcontext

import pytest
from psycopg.conninfo import conninfo_to_dict

from tests.postgres.roles import users
from tests.postgres.sealing import sealed_at_once
from tests.support import citus
from tests.support.postgres import Server

from .agents import AgentsContract
from .agents_shared import SharedAgentsContract
from .appending import AppendingContract
from .calls import CallsContract
from .calls_in_transactions import TransactionsContract
from .chat import ChatContextContract
from .containers import ContainersContract
from .containers_shared import SharedContainersContract
from .contract import LogContract
from .durable import DurableContract
from .exits import ExitsContract
from .forks import ForksContract
from .limits import LimitsContract
from .memories import MemoryContract
from .processes import ProcessesContract
from .repeating import RepeatingContract
from .runs import RunsContract
from .runs_shared import SharedRunsContract
from .runs_threads import RunThreadsContract
from .snapshots import KeptSnapshotsContract, SnapshotsContract
from .stores import Store, store_at
from .windows import WindowContract

# With REFOLD_TEST_SEALED=1 all of these tests have their events packed as soon as they are recorded.
SEALED = os.environ.get("REFOLD_TEST_SEALED") == "1"


@pytest.fixture
def store(ready_pg_url: str) -> Iterator[Store]:
    """An empty database."""
    store = store_at(ready_pg_url)
    with sealed_at_once() if SEALED else nullcontext():
        yield store
        store.close()


class TestPostgresLog(LogContract):
    """A log in a database."""


@pytest.fixture(scope="module")
def writers(request: pytest.FixtureRequest) -> Iterator[tuple[str, str]]:
    """A database to be copied, with its rights, and a user of the server who is a writer there."""
    if citus.CLUSTER_URL:
        pytest.skip("roles of a cluster are made on each server")
    server, template = (request.getfixturevalue(name) for name in ("pg_server", "_ready_template"))
    with server.database(template) as url, users(url) as urls:
        yield str(conninfo_to_dict(url)["dbname"]), str(conninfo_to_dict(urls["writer"])["user"])


class TestPostgresLogAsWriter(AppendingContract, RepeatingContract):
    """A log that is written with the rights of the role for writers, and no others."""

    @pytest.fixture
    def store(self, writers: tuple[str, str], pg_server: Server) -> Iterator[Store]:
        """An empty database, for a user who is a writer."""
        template, user = writers
        with pg_server.database(template) as url:
            store = store_at(url.replace("user=refold", f"user={user}"))
            yield store
            store.close()


class TestPackedPostgresLog(LogContract, DurableContract):
    """A log in a database whose events are in blocks, all but the last of a slice."""

    @pytest.fixture
    def store(self, ready_pg_url: str) -> Iterator[Store]:
        """An empty database, and each append of this process packs what it can."""
        store = store_at(ready_pg_url)
        with sealed_at_once():
            yield store
            store.close()


class TestPostgresLogOnDisk(DurableContract, ProcessesContract):
    """What is more: it is kept, and shared by processes."""


class TestPostgresForks(ForksContract):
    """Forks of processes that have it open."""


class TestPostgresExits(ExitsContract):
    """Programs that leave it open."""


class TestPostgresChat(ChatContextContract):
    """Chat contexts on it."""


class TestPostgresContainers(ContainersContract, SharedContainersContract):
    """Queues and pools on it."""


class TestPostgresWindows(WindowContract):
    """Context windows on it."""


class TestPostgresLimits(LimitsContract):
    """What calls cost on it."""


class TestPostgresMemories(MemoryContract):
    """Memories of agents on it."""


class TestPostgresAgents(AgentsContract, SharedAgentsContract):
    """Agents whose queues and pools lie on it."""


class TestPostgresRuns(RunsContract, SharedRunsContract):
    """Runs on it."""


class TestPostgresRunThreads(RunThreadsContract):
    """Threads and portraits on one run of it."""


class TestPostgresCalls(CallsContract, TransactionsContract):
    """Calls with idempotency keys on it."""


class TestPostgresSnapshots(SnapshotsContract, KeptSnapshotsContract):
    """Snapshots of contexts on it."""
