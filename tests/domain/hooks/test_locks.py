"""One at a time: locks that outlive the loop that first waited for them (SPEC P6.10)."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from refold.domain.concurrency import threads
from refold.domain.concurrency.semaphore import CrossLoopLock, Semaphore
from refold.domain.hooks.hook import TurnHook
from refold.domain.hooks.registry import hook


class Overlap:
    """Counts how many are in at once; the most there were must stay 1."""

    def __init__(self, lock: CrossLoopLock) -> None:
        self.lock, self.now_in, self.most_in, self.order = lock, 0, 0, list[int]()

    async def enter(self, number: int = 0) -> None:
        """Be in for a moment."""
        async with self.lock.hold():
            self.now_in += 1
            self.most_in = max(self.most_in, self.now_in)
            await asyncio.sleep(0.002)
            self.now_in -= 1
            self.order.append(number)

    async def enter_together(self, count: int) -> None:
        """Have several tasks come at once."""
        await asyncio.gather(*(self.enter(number) for number in range(count)))


def test_tasks_of_one_loop_take_turns() -> None:
    """In the order in which they came."""
    overlap = Overlap(CrossLoopLock())

    asyncio.run(overlap.enter_together(5))

    assert (overlap.most_in, overlap.order) == (1, [0, 1, 2, 3, 4])


def test_a_lock_outlives_its_loop() -> None:
    """`asyncio.Lock` fails here, since the second loop has to wait for it as well."""
    overlap = Overlap(CrossLoopLock())

    asyncio.run(overlap.enter_together(3))
    asyncio.run(overlap.enter_together(3))

    assert (overlap.most_in, len(overlap.order)) == (1, 6)


class Watched(CrossLoopLock):
    """A lock whose queue and holder nobody touches without its inner lock."""

    def _after_fork(self) -> None:
        self._lock = threading.RLock()  # type: ignore[assignment]  # this one knows its owner
        with self._lock:
            self._taken = set()
            self._waiting = deque()

    def __getattribute__(self, name: str) -> Any:
        if name in ("_taken", "_waiting"):
            assert self._lock._is_owned(), f"{name} without the lock"  # type: ignore[attr-defined]  # not in the stubs
        return super().__getattribute__(name)


def test_its_queue_is_used_under_its_lock() -> None:
    """By those who take it, wait, give up, and hand it on."""
    overlap = Overlap(Watched())

    async def given_up() -> None:
        async with overlap.lock.hold():
            waiting = [asyncio.ensure_future(overlap.enter(number)) for number in range(3)]
            await asyncio.sleep(0)
            waiting[0].cancel()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(one) for one in results] == [asyncio.CancelledError, type(None), type(None)]

    asyncio.run(given_up())

    assert (overlap.most_in, overlap.order) == (1, [1, 2])


def test_loops_of_several_threads_take_turns() -> None:
    """Nobody is left waiting."""
    overlap = Overlap(CrossLoopLock())
    threads = [threading.Thread(target=lambda: asyncio.run(overlap.enter_together(4))) for _ in range(4)]

    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)

    assert (overlap.most_in, len(overlap.order)) == (1, 16)


def test_one_that_gives_up_lets_the_next_in() -> None:
    """Whether it was still waiting, or was just about to be let in."""
    lock = CrossLoopLock()
    overlap = Overlap(lock)

    async def run() -> None:
        async with lock.hold():
            waiting, next_one = (asyncio.create_task(overlap.enter(number)) for number in (1, 2))
            await asyncio.sleep(0)
            waiting.cancel()
            just_let_in = asyncio.create_task(overlap.enter(3))
            await asyncio.sleep(0)
        await next_one
        just_let_in.cancel()
        await overlap.enter(4)

    asyncio.run(run())

    assert overlap.order == [2, 4]


def test_a_loop_that_was_closed_over_a_holder_holds_nobody_up() -> None:
    """Its task will never let go."""
    lock = CrossLoopLock()
    overlap = Overlap(lock)
    loop = asyncio.new_event_loop()
    held = lock.hold()
    loop.run_until_complete(held.__aenter__())
    loop.close()

    asyncio.run(overlap.enter())

    assert overlap.order == [0]


def test_a_loop_that_was_closed_over_a_waiting_task_is_passed_over() -> None:
    """The next one is let in."""
    lock = CrossLoopLock()
    overlap = Overlap(lock)
    loop = asyncio.new_event_loop()

    async def run() -> None:
        async with lock.hold():
            # One step, in which the other loop's task begins to wait.
            given_up = lock.hold().__aenter__().__await__()
            asyncio._set_running_loop(loop)
            next(given_up)
            asyncio._set_running_loop(here)
            loop.close()
            entering = asyncio.create_task(overlap.enter(1))
            await asyncio.sleep(0)
        await entering
        given_up.close()

    here = asyncio.new_event_loop()
    here.run_until_complete(run())
    here.close()

    assert overlap.order == [1]


@pytest.mark.parametrize("make", [CrossLoopLock, partial(Semaphore, 1)])
def test_a_loop_that_is_closed_while_another_one_waits(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Any]
) -> None:
    """Also where nobody else comes, and its task is kept, so that it never lets go."""
    monkeypatch.setattr(threads, "LOOK_SECONDS", 0.01)
    lock = make()
    overlap = Overlap(lock)
    loop = asyncio.new_event_loop()
    held = lock.hold()
    loop.run_until_complete(held.__aenter__())

    async def wait() -> None:
        entering = asyncio.create_task(overlap.enter())
        await asyncio.sleep(0.02)
        assert overlap.order == []
        loop.close()
        await asyncio.wait_for(entering, 10)

    asyncio.run(wait())

    assert overlap.order == [0]


def test_a_locked_hook_runs_once_at_a_time() -> None:
    """Also in the second `asyncio.run` (SPEC P6.10)."""
    order: list[str] = []

    @hook(TurnHook.BEFORE_RUN, lock=True)
    async def slow() -> None:
        order.append("in")
        await asyncio.sleep(0.002)
        order.append("out")

    async def twice() -> None:
        await asyncio.gather(slow(), slow())

    asyncio.run(twice())
    asyncio.run(twice())

    assert order == ["in", "out"] * 4


async def test_the_lock_of_a_hook_is_one_of_asyncio() -> None:
    """Who takes hold of it keeps the hook from running, as long as it is not let go (SPEC P6.10)."""
    heard: list[str] = []

    @hook(TurnHook.BEFORE_RUN, lock=True)
    async def note() -> None:
        heard.append("hook")

    lock: Any = note.lock
    assert isinstance(lock, asyncio.Lock)
    async with lock:
        running = asyncio.create_task(note())
        await asyncio.sleep(0.002)
        heard.append("holder")
        assert (lock.locked(), repr(lock)) == (True, "LoopLock(locked)")
    await running

    assert heard == ["holder", "hook"]
    assert (lock.locked(), repr(lock)) == (False, "LoopLock(unlocked)")
    with pytest.raises(RuntimeError, match="not acquired"):
        lock.release()
