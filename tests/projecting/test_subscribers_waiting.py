"""Subscribers that wait: stopped by another thread, in an event loop and cancelled there, and in several processes."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from itertools import islice

import pytest

import refold
from refold.domain.errors import StorageClosedError
from refold.infrastructure import subscription as subscription_module
from refold.infrastructure.subscription import Subscription

from ..contract.writing import at_once, everything
from ..support.processes import Program
from .histories import talk_at_length

PROCESSES, EVENTS_EACH = 3, 40
FOLLOWER, WRITER = Program("tests.projecting.follower"), Program("tests.contract.writer")


def test_stopped_by_another_thread(store: refold.Store) -> None:
    """Whether it waits or has a page in its hands: it ends soon, gives nothing more, and stands where it stood."""
    talk_at_length(store, 2_000)
    for seen in (5, 2_001):
        events = store.subscribe()
        assert len(list(islice(events, seen))) == seen
        moment = events.moment
        timer = threading.Timer(0.1, events.stop)
        timer.start()
        if seen == 2_001:
            began = time.monotonic()
            assert list(events) == []
            assert time.monotonic() - began < 2
        timer.join()
        assert (list(events), events.moment) == ([], moment)


def test_stopped_at_any_moment(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whenever another thread stops it: it ends without an error, and what it gave is where it stands."""
    monkeypatch.setattr(subscription_module, "PAGE_EVENTS", 3)
    talk_at_length(store, 30)
    for _ in range(50):
        events = store.subscribe()
        seen: list[int] = []

        def follow(events: Subscription = events, seen: list[int] = seen) -> None:
            seen.extend(event.version for event in events)

        assert at_once(follow, events.stop) == []
        assert seen == list(range(1, len(seen) + 1))
        assert sum(number for _, number in events.moment.heads) == len(seen)


def test_a_store_that_is_closed(place: str) -> None:
    """Who follows it is told."""
    store = refold.open(place)
    events = store.subscribe()
    store.close()

    with pytest.raises(StorageClosedError):
        next(events)


def test_a_store_in_memory_that_is_closed() -> None:
    """What it has can still be read; who waits for more is told, and the worker of its projections ends."""
    store = refold.open(":memory:")
    worker = store.start_projections()
    store.chat("a")
    events = store.subscribe()
    closing = threading.Timer(0.05, store.close)
    closing.start()

    assert next(events).reference == "chat:a@1"
    with pytest.raises(StorageClosedError):
        next(events)
    closing.join()
    worker._thread.join(10)
    assert not worker._thread.is_alive()


async def test_in_an_event_loop(store: refold.Store) -> None:
    """The loop goes on while a subscriber waits, and what is written meanwhile arrives."""
    chat = store.chat("a")
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    async def write() -> None:
        for number in range(3):
            await asyncio.sleep(0.1)
            await refold.to_async(chat).add_message("user", str(number))

    ticking, writing = asyncio.create_task(tick()), asyncio.create_task(write())
    seen = []
    async for event in store.subscribe(kinds="chat"):
        seen.append(event.version)
        if len(seen) == 4:
            break
    await writing
    ticking.cancel()

    assert (seen, ticks > 10) == ([1, 2, 3, 4], True)


async def test_cancelled_while_it_waits(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It can be gone on with afterwards: nothing is missed, nothing comes twice, however often that happens."""
    monkeypatch.setattr(subscription_module, "PAGE_EVENTS", 3)
    chat = store.chat("a")
    events = store.subscribe()
    seen: list[int] = []

    async def follow() -> None:
        async for event in events:
            seen.append(event.version)

    for number in range(12):
        following = asyncio.create_task(follow())
        await asyncio.sleep(0.01 * (number % 3))
        await refold.to_async(chat).add_message("user", str(number))
        # The second one comes while the first one waits for its thread.
        for _ in range(1 + number % 2):
            following.cancel()
            await asyncio.sleep(0)
        with suppress(asyncio.CancelledError):
            await following
    async with asyncio.timeout(20):
        while len(seen) < 13:
            seen.append((await anext(events)).version)

    assert seen == list(range(1, 14))
    events.stop()
    assert [event async for event in events] == []


def follow_in_a_process(place: str, count: int) -> tuple[list[str], list[str]]:
    """Return the positions that a subscriber acknowledged, and those that it was given behind them."""
    follower = FOLLOWER.start(place, "mailer", str(count))
    *acknowledged, rest = follower.communicate(timeout=60)[0].split("acknowledged")
    assert follower.returncode == 0
    return " ".join(acknowledged).split(), rest.split()


@pytest.mark.long
def test_across_processes(place: str) -> None:
    """While others write, subscribers of one name follow on each other: what one did not acknowledge the next gets."""
    total = 21 + PROCESSES * EVENTS_EACH
    with refold.open(place) as store:
        talk_at_length(store, 20)
        writers = [
            WRITER.start("any", place, f"chat:{writer}", str(writer), str(EVENTS_EACH)) for writer in range(PROCESSES)
        ]
        first_done, again = follow_in_a_process(place, 17)
        second_done, more = follow_in_a_process(place, 33)
        third_done, last = follow_in_a_process(place, total - 15 - 30)
        for writer in writers:
            writer.communicate(timeout=60)

        there = [str(event.position) for event in everything(store.log)]
        assert (len(again), len(more), len(last)) == (2, 3, (total - 45) % 5)
        assert second_done[:2] == again
        assert third_done[:3] == more
        assert sorted([*first_done, *second_done, *third_done, *last]) == sorted(there)


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_subscription_after_a_fork(store: refold.Store, is_stopped: bool) -> None:
    """A thread of the parent may have read through it: the child does not wait for that, and it stays as it was."""
    store.chat("a")
    events = store.subscribe()
    if is_stopped:
        events.stop()
    thread = threading.Thread(target=events._lock.acquire)
    thread.start()
    thread.join()

    events._after_fork()

    assert [one.reference for one in islice(events, 1)] == ([] if is_stopped else ["chat:a@1"])
    events.stop()
