"""Group commit as many threads on one connection need it: whoever is served leaves at once."""

import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext

import pytest

from refold.domain.concurrency.promises import Promise
from refold.domain.errors import DamagedError, RefoldError, StorageError
from refold.infrastructure.log.group_commit import GroupCommitter, Ticket
from refold.infrastructure.log.row_faults import KeyClosedError

SECONDS_MAX = 30


class Disk:
    """Commits a group when it is told to."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.begun = threading.Semaphore(0)
        self.go_on = threading.Semaphore(0)

    def commit(self, group: Sequence[str]) -> Sequence[str]:
        """Wait for the word, then serve everybody."""
        self.groups.append(sorted(group))
        self.begun.release()
        assert self.go_on.acquire(timeout=SECONDS_MAX)
        return group


def started(work: Callable[[], object]) -> threading.Thread:
    """Run work in a thread."""
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def test_the_served_do_not_wait_for_the_next_group() -> None:
    """While the next group is on its way, everybody of the one before has gone."""
    disk = Disk()
    committer = GroupCommitter(disk.commit)

    def submit(name: str) -> threading.Thread:
        return started(lambda: committer.submit(name, wait=True))

    first = submit("first")
    assert disk.begun.acquire(timeout=SECONDS_MAX)
    several = [submit(name) for name in ("a", "b", "c", "d")]
    while len(committer._queue) < len(several):
        pass
    disk.go_on.release()
    assert disk.begun.acquire(timeout=SECONDS_MAX)
    last = submit("last")
    while not committer._queue:
        pass
    disk.go_on.release()
    assert disk.begun.acquire(timeout=SECONDS_MAX)

    for thread in (first, *several):
        thread.join(SECONDS_MAX)
    assert not any(thread.is_alive() for thread in (first, *several))
    assert last.is_alive()
    disk.go_on.release()
    last.join(SECONDS_MAX)
    assert disk.groups == [["first"], ["a", "b", "c", "d"], ["last"]]


def test_those_who_do_not_wait_are_served_too() -> None:
    """By the thread in the background, in the order they came, among those who wait."""
    disk = Disk()
    committer = GroupCommitter(disk.commit)
    for _ in range(20):
        disk.go_on.release()

    futures = [committer.submit(str(number), wait=number % 3 == 0) for number in range(20)]

    assert [future.result(SECONDS_MAX) for future in futures] == [str(number) for number in range(20)]
    committer.close()


@pytest.mark.parametrize("error", [DamagedError("stream b", "it is damaged"), KeyClosedError("try again")])
def test_one_request_that_is_at_fault(error: RefoldError) -> None:
    """The others of its group are served, each by itself; where nobody knows what was written, nothing is repeated."""
    groups: list[list[str]] = []

    def commit(group: Sequence[str]) -> Sequence[str]:
        groups.append([*group])
        if "b" in groups[-1]:
            raise error
        return group

    committer = GroupCommitter(commit)
    with committer.turn():
        futures = [committer.submit(name, wait=False) for name in "abc"]

    assert [future.exception(SECONDS_MAX) for future in futures] == [None, error, None]
    assert groups[-4:] == [["a", "b", "c"], ["a"], ["b"], ["c"]]
    error = StorageError("it went away")
    with committer.turn():
        futures = [committer.submit(name, wait=False) for name in "abc"]
    assert [future.exception(SECONDS_MAX) for future in futures] == [error] * 3
    committer.close()


def test_one_whose_waker_never_came() -> None:
    """Who was woken to serve the rest was interrupted instead: the rest look for themselves."""
    disk = Disk()
    disk.go_on.release()
    committer = GroupCommitter(disk.commit)
    committer._turn.acquire()
    waiting = started(lambda: committer.submit("waiting", wait=True))
    while not committer._queue:
        pass

    committer._turn.release()

    waiting.join(SECONDS_MAX)
    assert not waiting.is_alive()


def test_a_thread_that_was_started_twice() -> None:
    """An interrupt of whoever started the first leaves it at work; closing ends all, and waits for none for ever."""
    disk = Disk()
    disk.go_on.release()
    committer = GroupCommitter(disk.commit)
    committer.submit("request", wait=False).result(SECONDS_MAX)
    others = [started(committer._run) for _ in range(4)]

    closing = started(committer.close)

    for thread in (closing, *others):
        thread.join(SECONDS_MAX)
    assert not any(thread.is_alive() for thread in (closing, *others))


def test_what_a_signal_handler_raises_in_one_thread() -> None:
    """It comes to the thread that commits, and to no other: they are asked to look whether theirs is recorded."""
    raised: list[type[BaseException]] = []

    def commit(group: Sequence[str]) -> Sequence[str]:
        if group:
            raise TimeoutError("the alarm of whoever commits")
        return group

    committer = GroupCommitter(commit)
    committer._turn.acquire()

    def submit() -> None:
        try:
            committer.submit("request", wait=True).result(SECONDS_MAX)
        except Exception as error:
            raised.append(type(error))

    several = [started(submit) for _ in range(3)]
    while len(committer._queue) < 3:
        pass
    committer._turn.release()

    for thread in several:
        thread.join(SECONDS_MAX)
    assert sorted(map(str, raised)) == sorted(map(str, [StorageError, StorageError, TimeoutError]))


def test_a_fork_that_is_over_twice() -> None:
    """An interrupt may end the wait before a fork: then the turn is not given back a second time, or for another."""
    disk = Disk()
    disk.go_on.release()
    committer = GroupCommitter(disk.commit)
    committer._before_fork(SECONDS_MAX)
    committer._fork_is_over()

    committer._fork_is_over()

    assert committer.submit("request", wait=True).result(SECONDS_MAX) == "request"


class Writer:
    """Commits each group at once, or is interrupted."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.threads: list[str] = []
        self.is_interrupted = False

    def commit(self, group: Sequence[str]) -> Sequence[str]:
        """Serve everybody."""
        self.groups.append([*group])
        self.threads.append(threading.current_thread().name)
        if self.is_interrupted:
            self.is_interrupted = False
            raise KeyboardInterrupt
        return group


def ticket(name: str, *, waits: bool = True) -> Ticket[str, str]:
    """Return the request of a caller, who waits for it or not."""
    return Ticket(name, Promise[str](), waits)


def test_an_interrupted_group_is_settled_once() -> None:
    """Its callers get an error, wherever the interrupt came; the others in the queue are committed, each once."""
    writer = Writer()
    committer = GroupCommitter(writer.commit)
    writer.is_interrupted = True
    with pytest.raises(KeyboardInterrupt):
        committer.submit("first", wait=True)

    assert committer.submit("second", wait=True).result() == "second"

    begun, other = ticket("begun"), ticket("other")
    # An interrupt came when the group was chosen, and was not yet taken out of the queue.
    committer._group = [begun]
    committer._queue.extend([begun, other])
    assert committer.submit("last", wait=True).result() == "last"
    assert writer.groups == [["first"], ["second"], ["other", "last"]]
    assert other.future.result() == "other"
    assert isinstance(begun.future.exception(), StorageError)
    committer.close()


def test_who_does_not_wait_does_not_commit() -> None:
    """The thread in the background does, and who waits does so itself."""
    writer = Writer()
    committer = GroupCommitter(writer.commit)

    for waits in (False, True):
        assert committer.submit("request", wait=waits).result(SECONDS_MAX) == "request"

    assert writer.threads == ["refold-writer", threading.current_thread().name]
    committer.close()


def test_who_does_not_wait_is_served_by_the_thread() -> None:
    """A caller behind it who waits commits nothing for it, not even an empty group."""
    writer = Writer()
    committer = GroupCommitter(writer.commit)
    committer._queue.append(ticket("queued", waits=False))

    assert committer.submit("waits", wait=True).result() == "waits"

    assert writer.groups == [["queued", "waits"]]
    committer.close()


@pytest.mark.parametrize("is_block", [True, False])
def test_the_first_in_the_queue_is_woken(is_block: bool) -> None:
    """By whoever gives the turn back."""
    committer = GroupCommitter(Writer().commit)
    tickets = [ticket("first"), ticket("second")]
    committer._queue.extend(tickets)

    with committer.turn() if is_block else nullcontext():
        assert is_block or committer.exclusively(lambda: "done") == "done"

    assert [one.future._sleep.locked() for one in tickets] == [False, True]
    committer.close()


def test_who_came_meanwhile_is_woken() -> None:
    """By the caller whose group is done, and who leaves."""
    later = ticket("later")

    def commit(group: Sequence[str]) -> Sequence[str]:
        committer._queue.append(later)
        return ["done" for _ in group]

    committer: GroupCommitter[str, str] = GroupCommitter(commit)

    assert committer.submit("first", wait=True).result() == "done"

    assert not later.future._sleep.locked()
    committer._queue.clear()
    committer.close()
