"""The journal with durability "enqueue": what is queued, what is refused, and when it is told."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import RLock
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.concurrency.promises import Settled
from refold.domain.context.folded_stream import UNKNOWN
from refold.domain.context.outbox import Outbox
from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, StorageError
from refold.domain.log.envelope import Meta
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import NewEvents, Pending, Receipt, StreamEnd

from ..support.effort import CountedLock
from .chat_events import OPENED, STREAM, said
from .fakes import LateLog, handle_on, kept, record, texts

NEW = NewEvents(stream=STREAM, expected_version=0, events=(OPENED,), metas=(Meta(),), root=STREAM)


def queued(log: MemoryLog) -> ChatContext:
    """Open a stream with one message and return a loaded handle that enqueues."""
    record(log, OPENED, said("m1", "one"))
    chat = handle_on(log, durability="enqueue")
    _ = chat.items
    return chat


def test_a_queued_call_shows_at_once() -> None:
    """The view has it before the disk has; `flush` waits for the disk."""
    log = LateLog()
    chat = queued(log)

    chat.add_message("user", "two")

    assert (texts(chat), log.head(STREAM)) == (["one", "two"], 2)
    log.land()
    chat.flush()
    assert log.head(STREAM) == 3


def test_a_queued_call_shows_where_it_was_not_loaded() -> None:
    """A context that is read for the first time while its queue is on the way has lost nothing."""
    log = LateLog()
    record(log, OPENED, said("m1", "one"))
    chat = handle_on(log, durability="enqueue")
    chat.add_message("user", "two")

    seen = texts(chat)
    log.land()

    assert (seen, texts(chat)) == (["one", "two"], ["one", "two"])


def test_a_refused_entry_is_told_at_flush() -> None:
    """The error carries the events that did not get in, and the view is what the log holds."""
    log = LateLog()
    chat = queued(log)
    chat.add_message("user", "mine", message_id="x1")
    log._queue.insert(0, log._queue.pop())
    MemoryLog.append(log, [new_by_other()])
    log.land()

    with pytest.raises(ConcurrencyError) as caught:
        chat.flush()

    assert [event.id for event in caught.value.refused] == ["x1"]
    assert (texts(chat), chat.version) == (["one", "other"], 3)


def new_by_other() -> Any:
    """Return another writer's message for the stream."""
    from refold.domain.log.envelope import Meta
    from refold.domain.log.ports import ANY_VERSION, NewEvents

    event = said("o1", "other")
    return NewEvents(stream=STREAM, expected_version=ANY_VERSION, events=(event,), metas=(Meta(),))


def test_what_follows_a_refused_entry_is_refused() -> None:
    """
    It was decided on the entry that did not get in, so it must not get in either.

    One entry by another writer moves the head to where the second queued entry expects it.
    """
    log = LateLog()
    chat = queued(log)
    MemoryLog.append(log, [new_by_other()])
    chat.add_message("user", "first", message_id="x1")
    chat.add_message("user", "second", message_id="x2")
    log.land()

    with pytest.raises(ConcurrencyError) as caught:
        chat.flush()

    assert [event.id for event in caught.value.refused] == ["x1", "x2"]
    assert texts(handle_on(log)) == texts(chat) == ["one", "other"]


def test_after_a_refusal_life_goes_on() -> None:
    """The error is told once; the context goes on from what the log holds."""
    log = LateLog()
    chat = queued(log)
    chat.add_message("user", "mine")
    MemoryLog.append(log, [new_by_other()])
    log.land()
    with pytest.raises(ConcurrencyError):
        chat.flush()

    chat.add_message("user", "again")
    log.land()
    chat.flush()

    assert texts(chat) == texts(handle_on(log)) == ["one", "other", "again"]


def refused_before(log: LateLog) -> ChatContext:
    """Return a handle with a queued entry, "x1", that another writer's entry will have refused."""
    chat = queued(log)
    MemoryLog.append(log, [new_by_other()])
    chat.add_message("user", "mine", message_id="x1")
    log.land()
    return chat


def refused_ids(error: ConcurrencyError) -> list[str]:
    """Return the ids of the events that did not get in."""
    return [event.id for event in error.refused]


def test_a_refusal_is_told_by_a_transaction() -> None:
    """A transaction that comes first to wait for the queue does not swallow what happened to it."""
    log = LateLog()
    chat = refused_before(log)

    def later() -> None:
        with transaction(log):
            chat.add_message("user", "later")
        chat.flush()

    with pytest.raises(ConcurrencyError) as caught:
        later()

    assert refused_ids(caught.value) == ["x1"]


def test_a_refusal_is_told_by_a_full_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor does a call that has to wait because the queue is full."""
    monkeypatch.setattr("refold.domain.context.journal.PENDING_MAX", 1)
    log = LateLog()
    chat = queued(log)
    MemoryLog.append(log, [new_by_other()])
    told: list[str] = []
    for number in range(4):
        try:
            chat.add_message("user", "mine", message_id=f"x{number}")
        except ConcurrencyError as error:
            told += refused_ids(error)
        log.land()
    try:
        chat.flush()
    except ConcurrencyError as error:
        told += refused_ids(error)

    kept = [item.id for item in handle_on(log).items]
    assert sorted(told + kept) == ["m1", "o1", "x0", "x1", "x2", "x3"]


def test_a_repetition_before_a_transaction() -> None:
    """A queued call that turns out to be a repetition does not put the transaction behind it in conflict."""
    log = LateLog()
    chat = queued(log)
    handle_on(log).add_message("user", "two", idempotency_key="k")
    chat.refresh()
    chat.add_message("user", "two", idempotency_key="k")
    log.land()

    with transaction(log):
        chat.add_message("user", "three")

    assert texts(chat) == texts(handle_on(log)) == ["one", "two", "three"]


class FullLog(MemoryLog):
    """A log on a disk without room."""

    full = False

    def append(self, batch: Any, *, wait: bool = True) -> Any:
        """Refuse while the disk is full."""
        return Settled(None, StorageError("no room left")) if self.full else super().append(batch)


def test_a_full_disk_at_once() -> None:
    """With durability commit the call raises, and the view is as it was."""
    log = FullLog()
    chat = kept(log)
    log.full = True

    with pytest.raises(StorageError, match="no room"):
        chat.add_message("user", "two")
    assert (texts(chat), chat.version) == (["one"], 2)


def test_a_full_disk_at_flush() -> None:
    """With durability enqueue `flush` raises, with everything that did not get in."""
    log = FullLog()
    chat = queued(log)
    log.full = True
    chat.add_message("user", "two", message_id="x1")
    chat.add_message("user", "three", message_id="x2")

    with pytest.raises(StorageError) as caught:
        chat.flush()

    assert [event.id for event in caught.value.refused] == ["x1", "x2"]
    assert texts(chat) == ["one"]


def test_looking_back_waits_for_the_disk() -> None:
    """`at` and `history` show what is recorded, so they flush first."""
    log = LateLog()
    chat = queued(log)
    chat.add_message("user", "two")
    log.land()

    assert texts(chat.at(3)) == ["one", "two"]
    assert [event.version for event in chat.history()] == [1, 2, 3]


async def test_a_merge_names_nothing_that_was_refused() -> None:
    """What the other side has queued is waited for first, in a log of its own as well; the merge is not recorded."""
    for is_shared in (True, False):
        log = LateLog()
        theirs = refused_before(log)
        own = log if is_shared else MemoryLog()
        record(own, OPENED, stream="chat:ours")
        ours = handle_on(own, "chat:ours")

        with pytest.raises(ConcurrencyError):
            await ours.merge(theirs)
        assert (ours.version, own.head("chat:ours")) == (1, 1)


@pytest.mark.parametrize(
    ("do", "times"),
    [
        (lambda box: box.is_ahead, 1),
        (lambda box: box.events, 1),
        (lambda box: box.settlement, 1),
        (lambda box: box.forget_if_settled(list), 1),
        (lambda box: box.start_afresh(), 1),
        (lambda box: box.wait(), 1),
        # To queue it, to hand it to the log, to settle it, and to hand over what was queued meanwhile.
        (lambda box: box.put(NEW, list), 4),
    ],
)
def test_what_is_queued_is_looked_at_and_changed_under_a_lock(do: Callable[[Outbox], object], times: int) -> None:
    """The thread that commits settles what other threads queue."""
    box = Outbox(MemoryLog())
    box._lock = lock = CountedLock()  # type: ignore[assignment]

    do(box)

    assert lock.taken == times


def test_the_thread_that_commits_takes_the_lock_too() -> None:
    """Once to settle what it appended, and once to take the next."""
    log = LateLog()
    box = Outbox(log)
    box._lock = lock = CountedLock()  # type: ignore[assignment]
    box.put(NEW, list)
    before = lock.taken
    log.land()

    assert (before, lock.taken) == (2, 4)


FORKS: dict[str, Callable[[ChatContext], object]] = {
    "fork": lambda chat: chat.fork("child"),
    "last turns": lambda chat: chat.fork_filtered(1, context_id="child"),
    "brief": lambda chat: chat.fork_brief("Do it.", context_id="child"),
    "copy": lambda chat: chat.copy(context_id="child"),
}


@pytest.mark.parametrize("fork", FORKS.values(), ids=FORKS)
def test_a_fork_names_nothing_that_was_refused(fork: Callable[[ChatContext], object]) -> None:
    """What its parent has queued is waited for first; the child is not begun."""
    log = LateLog()
    chat = refused_before(log)

    with pytest.raises(ConcurrencyError):
        fork(chat)
    assert log.streams() == [STREAM]


@pytest.mark.parametrize("durability", ["commit", "enqueue"])
def test_when_a_state_is_let_go_of(durability: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the first event behind the bound that nobody looked for; a look begins anew, and counts as much again."""
    monkeypatch.setattr("refold.domain.context.journal.UNUSED_EVENTS_MAX", 4)
    log = MemoryLog()
    record(log, OPENED)
    chat = handle_on(log, durability=durability)
    loaded = []
    for version in range(2, 20):
        if version in (2, 9):
            _ = chat.items
        chat.add_message("user", "hello")
        loaded.append(chat._journal.is_loaded)

    assert [version for version, is_so in enumerate(loaded, 2) if is_so] == [2, 3, 4, 5, *range(9, 17)]


class InterruptedLog(MemoryLog):
    """A log whose next append is interrupted, before it is done or behind it."""

    def __init__(self) -> None:
        super().__init__()
        self.interrupt = ""

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """Append, or raise what a signal handler would."""
        interrupt, self.interrupt = self.interrupt, ""
        if interrupt == "before":
            raise KeyboardInterrupt
        done = super().append(batch, wait=wait)
        if interrupt:
            raise KeyboardInterrupt
        return done


@pytest.mark.parametrize("when", ["before", "behind"])
@pytest.mark.parametrize("waiting", [0, 1, 2])
def test_an_interrupt_while_it_is_handed_over(when: str, waiting: int) -> None:
    """The log is asked whether it has it, and what it has not is handed over again: each event is there once."""
    log = InterruptedLog()
    record(log, OPENED, said("m1"))
    box = Outbox(log)
    first = new_by_me("m2", "m3", expected=2)
    log.interrupt = when
    with pytest.raises(KeyboardInterrupt):
        box.put(first, list)
    assert (box.is_ahead, box.events) == (True, first.events)

    later = [new_by_me(f"m{number}", expected=number) for number in range(4, 4 + waiting)]
    for one in later:
        box.put(one, list)
    box.wait()

    assert [one.event.id for one in log.read(STREAM, after=1)] == [f"m{n}" for n in range(1, 4 + waiting)]
    assert (box.is_ahead, box.settlement.failure, box.settlement.refused) == (False, None, ())
    # Of what was there already nobody knows the digest.
    is_known = waiting or when == "before"
    assert box.settlement.digest == (log.end(STREAM).digest if is_known else b"")


def test_another_came_first_meanwhile() -> None:
    """What lies at the place of what was handed over is another's: it is refused, and all behind it."""
    log = InterruptedLog()
    record(log, OPENED, said("m1"))
    box = Outbox(log)
    log.interrupt = "before"
    with pytest.raises(KeyboardInterrupt):
        box.put(new_by_me("m2", expected=2), list)
    record(log, said("theirs"))
    box.put(new_by_me("m3", expected=3), list)
    box.wait()

    assert isinstance(box.settlement.failure, ConcurrencyError)
    assert [getattr(event, "id", "") for event in box.settlement.refused] == ["m2", "m3"]
    assert log.read(STREAM)[-1].event.id == "theirs"


def new_by_me(*ids: str, expected: int) -> NewEvents:
    """Return messages that were decided on a version."""
    events = tuple(map(said, ids))
    return NewEvents(
        stream=STREAM, expected_version=expected, events=events, metas=(Meta(),) * len(events), root=STREAM
    )


# In a child that was forked: what the parent was at is done there, as a fork has it done.


def seen_in(chat: ChatContext) -> tuple[list[str], int, int]:
    """Return what a context shows, its version, and what it has queued."""
    return texts(chat), chat.version, chat._journal.queued


def in_another_thread(call: Callable[[], Any]) -> Any:
    """Return what a call returns in a thread that is not this one, and does not hold its locks."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(call).result(10)


def lock_of(chat: ChatContext) -> Any:
    """Return the lock of a context's view."""
    return chat._journal._lock


def test_a_child_leaves_a_queue_to_its_parent() -> None:
    """It shows what the log has, looks there when it is first used, and writes behind that."""
    log = LateLog()
    chat = queued(log)
    chat.add_message("user", "the parent's")
    journal = chat._journal
    journal._after_fork()
    assert (journal._version, journal in journal.unflushed, journal.is_ahead) == (UNKNOWN, False, False)
    MemoryLog.append(log, [new_by_other()])

    assert (chat.version, in_another_thread(lambda: chat.version)) == (3, 3)
    chat.add_message("user", "the child's")
    assert (len(texts(chat)), chat._journal.queued) == (3, 1)
    assert isinstance(journal._lock, type(RLock()))


def test_a_child_keeps_what_nobody_was_changing() -> None:
    """Its lock too, which is free."""
    chat = kept(MemoryLog())
    journal = chat._journal
    before, lock = journal.state, lock_of(chat)
    journal._after_fork()

    assert journal._lock is lock
    assert in_another_thread(lambda: lock_of(chat).acquire(blocking=False))
    assert (journal._state, journal.version) == (before, 2)


def test_a_child_reads_anew_what_another_thread_was_changing() -> None:
    """That thread is not there any more, and its lock is never given back."""
    log = MemoryLog()
    chat = kept(log)
    in_another_thread(lock_of(chat).acquire)
    chat._journal._after_fork()
    record(log, said("m2", "two"))

    assert (in_another_thread(lambda: seen_in(chat)), seen_in(chat)) == ((["one", "two"], 3, 0),) * 2


def test_a_child_within_a_transaction() -> None:
    """What it was to record is the parent's to record."""
    log = MemoryLog()
    chat = kept(log)
    with suppress(ZeroDivisionError), transaction(log):
        chat.add_message("user", "two")
        chat._journal._after_fork()
        assert not chat._journal.is_ahead
        raise ZeroDivisionError

    assert seen_in(chat) == (["one"], 2, 0)


def test_a_child_of_a_child() -> None:
    """What nobody used in between is looked at once."""
    log = LateLog()
    chat = queued(log)
    chat.add_message("user", "the parent's")
    chat._journal._after_fork()
    lock = chat._journal._lock
    chat._journal._after_fork()

    assert chat._journal._lock is lock
    assert seen_in(chat) == (["one"], 2, 0)


def test_a_child_whose_first_look_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one is its first look."""
    log = LateLog()
    chat = queued(log)
    chat.add_message("user", "the parent's")
    chat._journal._after_fork()

    def fail(_stream: str) -> StreamEnd:
        raise StorageError("the disk is gone")

    with monkeypatch.context() as patch:
        patch.setattr(log, "end", fail)
        for _ in range(2):
            with pytest.raises(StorageError):
                _ = chat.version
    assert in_another_thread(lambda: seen_in(chat)) == (["one"], 2, 0)
