"""The contract on memory: the executable specification."""

from collections.abc import Iterator

import pytest

import refold
from refold.domain.clock import RealSystem
from refold.domain.errors import LogWentBackError, StorageClosedError, StorageReadOnlyError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import StreamEnd
from refold.domain.positions import BEGINNING, ONE_SEQUENCE, Moment

from ..support.effort import CountedLock
from .agents import AgentsContract
from .calls import CallsContract
from .calls_in_transactions import TransactionsContract
from .chat import ChatContextContract
from .containers import ContainersContract
from .contract import LogContract
from .forks import ForksContract
from .limits import KindsContract
from .memories import MemoryContract
from .runs import RunsContract
from .runs_threads import RunThreadsContract
from .snapshots import SnapshotsContract
from .stores import Store, memory_store
from .windows import WindowContract
from .writing import append, new, said


@pytest.fixture
def store() -> Iterator[Store]:
    """A store whose every log is a new one."""
    store = memory_store()
    yield store
    store.close()


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


class TestMemoryLimits(KindsContract):
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


def test_an_append_takes_the_lock() -> None:
    """To record all of a batch, and to list it under its streams; who reads takes it only where that is not done."""
    log = MemoryLog()
    log._lock = lock = CountedLock()  # type: ignore[assignment]
    append(log, "chat:a", said(1))
    assert (log.head("chat:a"), lock.taken) == (1, 2)

    # As an interrupt leaves it.
    log._indexed, log._streams = 0, {}
    assert (log.head("chat:a"), log.head("chat:a"), lock.taken) == (1, 1, 3)


def test_a_closed_log_takes_no_events() -> None:
    """As in a database, so that a test with a store in memory finds who uses one that was closed."""
    with refold.open(":memory:") as store:
        chat = store.chat("a")
    with pytest.raises(StorageClosedError, match="the store in memory is closed"):
        chat.add_message("user", "hello")
    assert (chat.version, len(chat.items)) == (1, 0)


@pytest.mark.parametrize("after", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("limit", [1, 2, 9])
def test_where_a_page_ends(after: int, limit: int) -> None:
    """Behind its last event; one without any ends where it began, or at the end of the log where that lies before."""
    log = MemoryLog()
    append(log, "chat:a", *map(said, range(3)))
    page = log.read_all(after=Moment(((ONE_SEQUENCE, after),)) if after else BEGINNING, limit=limit)

    assert [one.position.number for one in page.events] == list(range(after + 1, min(3, after + limit) + 1))
    assert page.moment.head(ONE_SEQUENCE) == min(3, after + limit)
    assert MemoryLog().read_all(after=BEGINNING, limit=limit).moment == BEGINNING


def test_a_log_that_lacks_what_a_reader_knows() -> None:
    """An event that is not there, or is another one, is noticed; a version without its digest says less."""
    log = MemoryLog()
    log.append([new("chat:a", said(1), said(2))])
    end = log.end("chat:a")

    for known in (StreamEnd(3, b"x"), StreamEnd(3), StreamEnd(2, b"x"), StreamEnd(1, end.digest)):
        with pytest.raises(LogWentBackError) as caught:
            log.read("chat:a", after=2, known=known)
        assert (caught.value.acknowledged, caught.value.found) == (known.version, 2)
    for known in (end, StreamEnd(2), StreamEnd(0)):
        assert log.read("chat:a", after=2, known=known) == []


def test_a_store_in_memory_that_is_opened_for_reading() -> None:
    """It takes no change, like one in a file; questions are answered."""
    with refold.open(":memory:", read_only=True) as store:
        with pytest.raises(StorageReadOnlyError, match="the log in memory was opened for reading only"):
            store.chat("a")
        with pytest.raises(StorageReadOnlyError, match="nothing can be rebuilt"):
            store.rebuild("catalogue")
        assert (store.contexts(), store.now()) == ([], BEGINNING)


class TestMemoryCalls(CallsContract, TransactionsContract):
    """Calls with idempotency keys on it."""


class TestMemorySnapshots(SnapshotsContract):
    """Snapshots of contexts on it."""
