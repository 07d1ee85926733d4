"""The contract on SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from .agents import AgentsContract
from .agents_shared import SharedAgentsContract
from .calls import CallsContract
from .calls_in_transactions import TransactionsContract
from .chat import ChatContextContract
from .containers import ContainersContract
from .containers_shared import SharedContainersContract
from .contract import LogContract
from .durable import DurableContract
from .exits import ExitsContract, leave
from .forks import WARNINGS, ForksContract, check_forked
from .limits import LimitsContract
from .memories import MemoryContract
from .processes import ProcessesContract
from .runs import RunsContract
from .runs_shared import SharedRunsContract
from .runs_threads import RunThreadsContract
from .snapshots import KeptSnapshotsContract, SnapshotsContract
from .stores import Store, store_at
from .windows import WindowContract


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A file that does not exist yet."""
    store = store_at(tmp_path / "log.db")
    yield store
    store.close()


class TestSqliteLog(LogContract):
    """A log in a file."""


class TestSqliteLogOnDisk(DurableContract, ProcessesContract):
    """What is more: it is kept, and shared by processes."""


class TestSqliteForks(ForksContract):
    """Forks of processes that have it open."""

    def test_a_file_that_was_in_use(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        """A child of a parent that read for longer than a fork waits is refused the file; the parent goes on."""
        monkeypatch.setenv("PYTHONWARNINGS", WARNINGS)
        check_forked(store.place, "read_for_too_long")


class TestSqliteExits(ExitsContract):
    """Programs that leave it open."""

    @pytest.mark.parametrize("how", ["return", "sys.exit", "exception", "interrupt", "dropped", "close"])
    def test_queued_events_are_flushed(self, store: Store, how: str) -> None:
        """However the program ends, which is Python's affair and no database's."""
        super().test_queued_events_are_flushed(store, how)

    @pytest.mark.parametrize(("how", "warnings"), [("return", 1), ("dropped", 1), ("close", 0)])
    def test_a_store_that_was_not_closed(
        self, store: Store, how: str, warnings: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A ResourceWarning, once, when it goes or when the program ends."""
        monkeypatch.setenv("PYTHONWARNINGS", "always::ResourceWarning")

        said = leave(how, store.place, "commit")

        assert said.count("ResourceWarning: the store") == warnings
        assert said.count("was not closed: open it in a `with` block") == warnings


class TestSqliteChat(ChatContextContract):
    """Chat contexts on it."""


class TestSqliteContainers(ContainersContract, SharedContainersContract):
    """Queues and pools on it."""


class TestSqliteWindows(WindowContract):
    """Context windows on it."""


class TestSqliteLimits(LimitsContract):
    """What calls cost on it."""


class TestSqliteMemories(MemoryContract):
    """Memories of agents on it."""


class TestSqliteAgents(AgentsContract, SharedAgentsContract):
    """Agents whose queues and pools lie on it."""


class TestSqliteRuns(RunsContract, SharedRunsContract):
    """Runs on it."""


class TestSqliteRunThreads(RunThreadsContract):
    """Threads and portraits on one run of it."""


class TestSqliteCalls(CallsContract, TransactionsContract):
    """Calls with idempotency keys on it."""


class TestSqliteSnapshots(SnapshotsContract, KeptSnapshotsContract):
    """Snapshots of contexts on it."""
