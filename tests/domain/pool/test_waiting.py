"""While a change waits for its disk: the loop goes on, and a caller who leaves gets all or nothing."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from refold.domain.context.view import Durability
from refold.domain.log.memory_log import MemoryLog
from refold.domain.pool import container
from refold.domain.pool.items import ContextItem
from refold.domain.pool.queue import ContextQueue

from ..fakes import SlowLog
from ..test_to_async import ATTEMPTS, LAG_SECONDS_MAX, worst_lag
from .containers import contents, item, pool_on, queue_on

SLOW_SECONDS = 0.03


def test_the_loop_goes_on() -> None:
    """While an append, an edit or a branch of events waits the loop is never 5 ms late (each at its best)."""
    log = SlowLog(SLOW_SECONDS)
    queue, pool = queue_on(log), pool_on(log)
    lags: list[list[float]] = []
    for attempt in range(ATTEMPTS):
        calls = (
            queue.append(ContextItem(attempt)),
            pool.add(item("a", attempt)),
            pool.remove("a"),
            pool.restore("a"),
            pool.clear(idempotency_key=f"k{attempt}"),
        )
        lags.append([asyncio.run(worst_lag(call)) for call in calls])

    # A busy machine holds up some of them, whatever they do.
    assert max(map(min, zip(*lags, strict=True))) < LAG_SECONDS_MAX
    assert (len(queue), len(pool)) == (3, 0)


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
