"""While a change waits for its disk: the loop goes on, and a caller who leaves gets all or nothing."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.context.folded_stream import Durability
from refold.domain.log.memory_log import MemoryLog
from refold.domain.pool import container
from refold.domain.pool.items import ContextItem
from refold.domain.pool.queue import ContextQueue

from ..fakes import SlowLog, appending_threads
from .containers import contents, item, pool_on, queue_on

SLOW_SECONDS = 0.03


def test_the_loop_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """An append, an edit and a branch of events wait for their disk in a thread, and not in that of the loop."""
    log = MemoryLog()
    queue, pool = queue_on(log), pool_on(log)
    threads = appending_threads(log, monkeypatch)
    for call in (
        queue.append(ContextItem(1)),
        pool.add(item("a", 1)),
        pool.remove("a"),
        pool.restore("a"),
        pool.clear(idempotency_key="k"),
    ):
        threads.clear()
        asyncio.run(call)
        assert threads
        assert threading.get_ident() not in threads
    assert (len(queue), len(pool)) == (1, 0)


async def threads_of(queue: ContextQueue[Any], monkeypatch: pytest.MonkeyPatch) -> int:
    """Return how many threads an append takes."""
    started: list[Callable[[], Any]] = []

    async def in_thread(work: Callable[[], Any]) -> Any:
        started.append(work)
        return work()

    monkeypatch.setattr(container, "in_thread", in_thread)
    await queue.append(ContextItem("a"))
    return len(started)


@pytest.mark.parametrize(
    ("durability", "is_read", "threads"),
    [("commit", True, 1), ("commit", False, 2), ("enqueue", True, 0), ("enqueue", False, 1)],
)
async def test_what_may_wait_has_a_thread(
    monkeypatch: pytest.MonkeyPatch, durability: Durability, is_read: bool, threads: int
) -> None:
    """The disk may have to be waited for when a context is read, and when a change is committed: nowhere else."""
    log = MemoryLog()
    await queue_on(log).append(ContextItem("before"))
    queue = queue_on(log, durability=durability)
    if is_read:
        assert contents(queue) == ["before"]

    assert await threads_of(queue, monkeypatch) == threads


async def test_what_has_no_disk_has_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A detached queue is in memory alone."""
    assert await threads_of(ContextQueue(3), monkeypatch) == 0


def test_a_caller_who_leaves() -> None:
    """Cancelled while its append is on its way it is recorded all the same, once; the next one comes behind it."""
    log = SlowLog(SLOW_SECONDS)
    queue = queue_on(log)

    async def leave(times: int) -> None:
        task = asyncio.create_task(queue.append(ContextItem("a"), ContextItem("b")))
        for _ in range(times):
            await asyncio.sleep(SLOW_SECONDS / 4)
            task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        await queue.append(ContextItem("c"))

    asyncio.run(leave(1))
    assert contents(queue) == contents(queue_on(log)) == ["a", "b", "c"]
    asyncio.run(leave(2))
    assert contents(queue) == contents(queue_on(log)) == ["a", "b", "c"]
    assert log.head(queue.stream_id) == 1 + 3 + 1 + 3 + 1


def test_a_caller_who_leaves_before_it_is_recorded() -> None:
    """Cancelled while a hook is asked, nothing is on its way."""
    log = SlowLog(SLOW_SECONDS)
    queue = queue_on(log)

    @queue.before_append
    async def think(*_args: object) -> None:
        await asyncio.sleep(10)

    async def leave() -> None:
        task = asyncio.create_task(queue.append(ContextItem("a")))
        await asyncio.sleep(SLOW_SECONDS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(leave())

    assert (contents(queue), log.head(queue.stream_id)) == ([], 1)
