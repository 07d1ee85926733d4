"""The contract on memory: the executable specification."""

from collections.abc import Iterator

import pytest

from refold.domain.clock import RealSystem
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog
from refold.domain.positions import BEGINNING

from .agents import AgentsContract
from .calls import CallsContract
from .calls_in_transactions import TransactionsContract
from .chat import ChatContextContract
from .containers import ContainersContract
from .contract import LogContract
from .forks import ForksContract
from .limits import LimitsContract
from .memories import MemoryContract
from .runs import RunsContract
from .runs_threads import RunThreadsContract
from .stores import Store, memory_store
from .windows import WindowContract
from .writing import new, said


@pytest.fixture
def store() -> Iterator[Store]:
    """A store whose every log is a new one."""
    store = memory_store()
    yield store
    store.close()


@pytest.fixture
def log(store: Store) -> LiveLog:
    """An empty log."""
    return store.open()


class TestMemoryLog(LogContract):
    """A log in memory."""


class TestMemoryForks(ForksContract):
    """Forks of processes that have it open."""


class TestMemoryChat(ChatContextContract):
    """Chat contexts on it."""


class TestMemoryContainers(ContainersContract):
    """Queues and pools on it."""


class TestMemoryWindows(WindowContract):
    """Context windows on it."""


class TestMemoryLimits(LimitsContract):
    """What calls cost on it."""


class TestMemoryMemories(MemoryContract):
    """Memories of agents on it."""


class TestMemoryAgents(AgentsContract):
    """Agents whose queues and pools lie on it."""


class TestMemoryRuns(RunsContract):
    """Runs on it."""


class TestMemoryRunThreads(RunThreadsContract):
    """Threads and portraits on one run of it."""


class LookingSystem(RealSystem):
    """A clock that looks at the log whenever it is asked for the time, as another thread may at any moment."""

    def __init__(self) -> None:
        self.log: MemoryLog | None = None
        self.seen: set[tuple[int, int]] = set()

    def now(self) -> float:
        """Note how much of the log and of a stream can be seen, then tell the time."""
        if self.log is not None:
            seen = self.log.read_all(after=BEGINNING, limit=99).events
            self.seen.add((len(seen), len(self.log.read("chat:a"))))
        return super().now()


def test_a_batch_comes_into_sight_as_one() -> None:
    """In the midst of an append a reader sees all of it or nothing."""
    system = LookingSystem()
    system.log = log = MemoryLog(system)

    log.append([new("chat:a", said(1), said(2)), new("chat:b", said(3))])

    assert system.seen <= {(0, 0), (3, 2)}


class TestMemoryCalls(CallsContract, TransactionsContract):
    """Calls with idempotency keys on it."""
