"""From async code into sync code, without holding up the loop."""

import asyncio
import sys
import threading
from types import ModuleType
from typing import Any

import pytest

from refold import to_async
from refold.domain.chat.context import ChatContext
from refold.domain.concurrency.threads import in_thread
from refold.domain.errors import DuplicateItemError
from refold.domain.log.memory_log import MemoryLog

from .chat_events import OPENED
from .fakes import appending_threads, handle_on, record, texts


def opened() -> MemoryLog:
    """Return a log with a context."""
    log = MemoryLog()
    record(log, OPENED)
    return log


def test_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append waits for its disk in a thread, and not in that of the loop."""
    log = opened()
    chat: Any = to_async(handle_on(log))
    threads = appending_threads(log, monkeypatch)

    asyncio.run(chat.add_message("user", "hi"))

    assert len(chat.sync.items) == len(threads) == 1
    assert threading.get_ident() not in threads


def test_without_the_wrapper_the_loop_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same append, called in a coroutine."""
    log = opened()
    chat = handle_on(log)
    threads = appending_threads(log, monkeypatch)

    async def blocking() -> None:
        chat.add_message("user", "hi")

    asyncio.run(blocking())
    assert threads == {threading.get_ident()}


def test_flushing_does_not_hold_up_the_loop() -> None:
    """`aflush` waits in a thread."""
    log = opened()
    chat = handle_on(log, durability="enqueue")

    async def write() -> None:
        chat.add_message("user", "hi")
        await chat.aflush()

    asyncio.run(write())

    assert log.head("chat:a") == 2


def test_results_and_errors_come_through() -> None:
    """What a method returns or raises is what awaiting it gives."""
    chat: Any = to_async(ChatContext())

    message = asyncio.run(chat.add_message("user", "hi", message_id="m1"))

    assert message.id == "m1"
    with pytest.raises(DuplicateItemError):
        asyncio.run(chat.add_message("user", "other", message_id="m1"))


def test_what_is_no_method() -> None:
    """Properties that may read from disk are awaited, others are given as they are; async methods stay so."""
    wrapped = ChatContext()
    chat: Any = to_async(wrapped)
    asyncio.run(chat.add_message("user", "hi"))

    asyncio.run(chat.aflush())

    async def read() -> tuple[int, list[Any]]:
        return await chat.version, await chat.items

    assert (asyncio.run(read()), chat.id, texts(wrapped)) == ((2, wrapped.items), wrapped.id, ["hi"])


def test_what_is_not_there_is_not_there() -> None:
    """An unknown name is an AttributeError at once."""
    chat: Any = to_async(ChatContext())

    with pytest.raises(AttributeError):
        chat.add_telepathy()


def test_any_call_can_be_put_in_a_thread() -> None:
    """Positional and keyword arguments are passed on."""
    assert asyncio.run(in_thread(int, "ff", base=16)) == 255


def test_a_scope_of_anyio_is_waited_for_without_turns_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """It cancels in each turn, as a server does for a request that is taken back: the loop would do nothing else."""
    anyio = pytest.importorskip("anyio")
    may_end, turns = threading.Event(), []

    async def main() -> None:
        loop = asyncio.get_running_loop()
        call_soon = loop.call_soon

        def counted(*args: Any, **kwargs: Any) -> asyncio.Handle:
            turns.append(args)
            return call_soon(*args, **kwargs)

        with anyio.CancelScope() as scope:
            loop.call_later(0.05, scope.cancel)
            loop.call_later(0.2, may_end.set)
            monkeypatch.setattr(loop, "call_soon", counted)
            await in_thread(may_end.wait, 20)
        assert scope.cancelled_caught
        assert may_end.is_set()

    asyncio.run(main())
    assert len(turns) < 50


@pytest.mark.parametrize("anyio", [None, ModuleType("anyio")])
def test_a_call_that_is_cancelled_again_and_again_is_waited_for(
    anyio: ModuleType | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A framework cancels a call, and then its clean-up: the thread must have ended before they go on."""
    # Where anyio is not used, and while it is being imported.
    monkeypatch.setitem(sys.modules, "anyio", anyio)
    may_go_on, ended = threading.Event(), threading.Event()

    def work() -> None:
        may_go_on.wait(10)
        ended.set()

    async def run() -> None:
        task = asyncio.create_task(in_thread(work))
        for _ in range(3):
            await asyncio.sleep(0)
            task.cancel()
        await asyncio.sleep(0)
        assert not task.done()
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended.is_set()

    asyncio.run(run())
