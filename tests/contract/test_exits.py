"""The end of a process with queued events, carried out within this one."""

import atexit
import gc
import multiprocessing.process
import multiprocessing.util
import os
import sys
import threading
import warnings
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.concurrency.promises import Promise
from refold.domain.context import outbox
from refold.domain.errors import (
    ConcurrencyError,
    DamagedError,
    RefoldError,
    StorageClosedError,
    StorageError,
    StorageUnavailableError,
)
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import Receipt, StreamEnd
from refold.infrastructure import exits
from refold.infrastructure.exits import _Exit, warn_of_unclosed
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store

from ..domain.chat_events import OPENED
from ..domain.fakes import LateLog, handle_on, texts
from ..support.effort import meanwhile
from .writing import new, said

LOST = "refold: {} queued events are not recorded: close the store, or flush it\n"


@pytest.fixture
def end() -> Iterator[_Exit]:
    """What is done at an end; this process does not do it again at its own."""
    end = _Exit()
    yield end
    atexit.unregister(end.flush)


def queued(log: MemoryLog, count: int, stream: str = "chat:a") -> ChatContext:
    """Return a context of a stream of its own with so many queued messages."""
    # Past the queue of a log that is late, which lands what others queued before.
    MemoryLog.append(log, [new(stream, OPENED)])
    chat = handle_on(log, stream, durability="enqueue")
    for number in range(count):
        chat.add_message("user", str(number))
    return chat


def test_it_is_done_once_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is registered, and a child begins with one of its own."""
    registered: list[Any] = []
    monkeypatch.setattr(atexit, "register", registered.append)
    end = _Exit()

    assert registered == [end.flush]


def test_nothing_is_queued(end: _Exit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is started, and nothing is said; so too where all who had something are gone."""
    monkeypatch.setattr(threading.Thread, "start", lambda _: pytest.fail("a thread was started"))
    queues: set[Any] = set()
    end.add(queues)
    end.flush()
    end.add({queued(MemoryLog(), 1)._journal})
    gc.collect()
    end.flush()

    assert capsys.readouterr() == ("", "")


def test_what_is_queued_is_flushed(end: _Exit, capsys: pytest.CaptureFixture[str]) -> None:
    """For all contexts of all lists."""
    log = MemoryLog()
    chats = [queued(log, 2, f"chat:{number}") for number in range(3)]
    lists = [{chats[0]._journal, chats[1]._journal}, {chats[2]._journal}]
    for one in lists:
        end.add(one)
    assert all(chat._journal in chat._journal.unflushed for chat in chats)

    end.flush()

    assert not any(chat._journal.unflushed for chat in chats)
    assert capsys.readouterr().err == ""


def test_others_open_stores_meanwhile(end: _Exit) -> None:
    """Threads still may at the end; what is queued is found all the same."""
    chat, kept = queued(MemoryLog(), 2), list[set[Any]]()
    queues = {chat._journal}
    end.add(queues)

    def open_another() -> None:
        kept.append(set())
        end.add(kept[-1])

    with meanwhile(open_another):
        assert end._journals() == [chat._journal]


def test_what_is_refused_is_counted(end: _Exit, capsys: pytest.CaptureFixture[str]) -> None:
    """Together, and each time anew."""
    log = LateLog()
    chats = [queued(log, count, f"chat:{count}") for count in (1, 2)]
    for chat in chats:
        MemoryLog.append(log, [new_for(chat)])
    log.land()
    queues = {chat._journal for chat in chats}
    end.add(queues)
    end.flush()
    assert capsys.readouterr().err == LOST.format(3)

    end.flush()
    assert capsys.readouterr().err == ""


def new_for(chat: ChatContext) -> Any:
    """Return another writer's event for a context's stream."""
    return new(f"chat:{chat.id}", said(99))


@pytest.mark.parametrize("has_stderr", [True, False])
def test_a_disk_that_does_not_answer(
    end: _Exit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, has_stderr: bool
) -> None:
    """It is waited for no longer than the bound, and what was queued is counted, where anybody can be told."""
    monkeypatch.setattr(exits, "EXIT_SECONDS_MAX", 0.05)
    log = LateLog()
    chat = queued(log, 4)
    queues = {chat._journal}
    end.add(queues)
    with monkeypatch.context() as patch:
        if not has_stderr:
            patch.setattr(sys, "stderr", None)
        end.flush()
    (waiting,) = (thread for thread in threading.enumerate() if thread.name == "refold-exit")

    assert waiting.daemon
    while waiting.is_alive():
        log.land()
    assert capsys.readouterr().err == (LOST.format(4) if has_stderr else "")


def test_no_thread_starts(end: _Exit, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the end of a program since Python 3.12: this thread flushes, and all batches together have one bound."""
    monkeypatch.setattr(threading.Thread, "start", no_thread)
    log = MemoryLog()
    kept = queued(log, 3)
    queues = {kept._journal}
    end.add(queues)
    end.flush()
    assert not kept._journal.unflushed
    assert capsys.readouterr().err == ""

    monkeypatch.setattr(exits, "EXIT_SECONDS_MAX", 0.05)
    late = queued(LateLog(), 4)
    queues.add(late._journal)
    end.flush()
    assert capsys.readouterr().err == LOST.format(4)


def test_all_batches_have_one_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is sent after another one is waited for as long as is left, not as long again."""
    clock, granted = [100.0], []

    class Landing(Promise[list[Receipt]]):
        def exception(self, timeout: float | None = None) -> BaseException | None:
            if not self.done():
                granted.append(timeout)
                clock[0] += 6
                log.land()
            return super().exception(timeout)

    log = LateLog(Landing)
    chat = queued(log, 4)
    monkeypatch.setattr(outbox, "REAL_SYSTEM", SimpleNamespace(monotonic=lambda: clock[0]))
    chat._journal.flush(110.0)

    assert granted == [10, 4]
    assert not chat._journal.unflushed


def no_thread(_: threading.Thread) -> None:
    """Refuse as Python does at the end of a program since 3.12."""
    raise RuntimeError("can't create new thread at interpreter shutdown")


def test_a_worker_of_multiprocessing(end: _Exit, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends without `atexit`: the flush is put behind all else that it does at its end, once in each process."""
    hooked: list[tuple[Any, ...]] = []
    monkeypatch.setattr(
        multiprocessing.util, "Finalize", lambda _, call, exitpriority: hooked.append((call, exitpriority))
    )
    queues: set[Any] = set()
    end.add(queues)
    assert hooked == []
    monkeypatch.setattr(multiprocessing.process, "parent_process", lambda: object())
    for _ in range(2):
        end.add(queues)
    assert hooked == [(end.flush, -1_000)]

    monkeypatch.setattr(os, "getpid", lambda: -7)
    end.add(queues)
    assert len(hooked) == 2


def test_a_child_of_multiprocessing(end: _Exit, monkeypatch: pytest.MonkeyPatch) -> None:
    """It empties its list of what is to be done after a fork first, so the hook goes into it anew."""
    registered: list[Any] = []
    monkeypatch.setattr(multiprocessing.util, "register_after_fork", lambda *given: registered.append(given))
    end._after_fork()
    assert registered == [(end, _Exit._hook_worker)]

    monkeypatch.delitem(sys.modules, "multiprocessing.util")
    end._after_fork()
    assert len(registered) == 1


class Thing:
    """Something that is to be closed."""


def test_what_was_not_closed_is_warned_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is gone; not where it was closed, and not in a child, which has nothing to close."""
    open_thing = Thing()
    warn_of_unclosed(open_thing, "a.db")
    with pytest.warns(ResourceWarning, match="the store a.db was not closed: open it in a `with` block"):
        del open_thing

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closed, inherited = Thing(), Thing()
        warn_of_unclosed(closed, "a.db").detach()
        warn_of_unclosed(inherited, "a.db")
        del closed
        monkeypatch.setattr(os, "getpid", lambda: -7)
        del inherited


@pytest.mark.parametrize("failed", [StorageError("the server went away"), DamagedError("event chat:a@1", "it is gone")])
def test_contexts_whose_events_failed_together(failed: RefoldError) -> None:
    """A log gives one error to all of them; each lists its own events, and that of the store all."""
    log = LateLog()
    chats = [queued(log, 2, stream) for stream in ("chat:a", "chat:b", "chat:c")]
    failed.__cause__ = cause = OSError()
    for _batch, promise in log._queue:
        promise.set_exception(failed)
    log._queue.clear()

    with pytest.raises(type(failed)) as of_one:
        chats[0].flush()
    with pytest.raises(type(failed)) as of_all:
        exits.flush_all({chat._journal for chat in chats[1:]})

    assert (len(of_one.value.refused), len({id(event) for event in of_all.value.refused})) == (2, 4)
    assert of_one.value.__cause__ is of_all.value.__cause__ is cause


class DownLog(LateLog):
    """A log that cannot be asked while it is down."""

    failure: StorageError | None = None

    def end(self, stream: str) -> StreamEnd:
        """Return the end, if it is not down."""
        if self.failure is not None:
            raise self.failure
        return super().end(stream)

    def go_down(self, failure: StorageError) -> None:
        """Refuse what is queued, and every question."""
        self.failure = failure
        for _batch, promise in self._queue:
            promise.set_exception(failure)
        self._queue.clear()


@pytest.mark.parametrize("kind", [StorageUnavailableError, StorageClosedError])
def test_refused_by_a_database_that_is_away(kind: type[StorageError]) -> None:
    """The flush lists the events, the view has those that were recorded, and goes on behind others once it is back."""
    log = DownLog()
    chat = queued(log, 1)
    log.land()
    chat.add_message("user", "lost")
    log.go_down(kind("it is away"))

    with pytest.raises(kind) as caught:
        chat.flush()
    assert [event.content for event in caught.value.refused] == [("lost",)]
    assert (chat.version, texts(chat)) == (2, ["0"])

    log.failure = None
    MemoryLog.append(log, [new_for(chat)])
    chat.add_message("user", "again")
    log.land()
    chat.flush()
    assert texts(chat)[::2] == ["0", "again"]


def test_a_conflict_of_a_database_that_is_away() -> None:
    """It is told as such, since nobody can say whether the log went back."""
    log = DownLog()
    chat = queued(log, 1)
    MemoryLog.append(log, [new_for(chat)])
    log.land()
    log.failure = StorageUnavailableError("it is away")

    with pytest.raises(ConcurrencyError) as caught:
        chat.flush()
    assert len(caught.value.refused) == 1


@pytest.mark.parametrize("conflicts", [False, True])
def test_queued_while_the_store_is_closed(monkeypatch: pytest.MonkeyPatch, conflicts: bool) -> None:
    """By another thread, behind the flush: `close` lists what is refused then, with what was refused before."""
    log = DownLog()
    store = Store(log, MemoryProjectionStore(), durability="enqueue")
    chat, other = store.chat("a"), store.chat("b")
    if conflicts:
        other.add_message("user", "second", message_id="second")
        MemoryLog.append(log, [new_for(other)])
        log.land()

    def close() -> None:
        chat.add_message("user", "late", message_id="late")
        log.go_down(StorageClosedError("it is closed"))

    monkeypatch.setattr(log, "close", close)
    with pytest.raises(ConcurrencyError if conflicts else StorageClosedError) as caught:
        store.close()
    refused: Any = caught.value
    assert [event.id for event in refused.refused] == ["second", "late"][not conflicts :]
