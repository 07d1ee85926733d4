"""The contract of queues and pools that are kept in a log: read again, read in the past, branched, adopted."""

import asyncio
import json
import random
import threading
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import pytest

from refold import to_async
from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, InvalidInputError, LimitExceededError, NotFoundError
from refold.domain.log.ports import LiveLog
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.domain.pool.state import EMPTY, complete, fold

from ..domain.fakes import appending_threads
from ..domain.pool.containers import contents, gone, item, pool_on, queue_of, queue_on
from .containers_racing import RacingContainersContract
from .writing import check_chain

LARGE = "a text that is stored once, beside its event; " * 400
CHANCES = 120


@dataclass
class Finding:
    """A content of its own class."""

    text: str
    seen: set[int] = field(default_factory=set)


async def some_life(container: Any, *, seed: int, steps: int = CHANCES) -> None:
    """Do anything that can be done to a queue or a pool, again and again; what is refused is refused."""
    chance = random.Random(seed)
    for step in range(steps):
        with suppress(InvalidInputError, LimitExceededError, NotFoundError):
            await some_change(container, chance, step)


async def some_change(container: Any, chance: random.Random, step: int) -> None:
    """Put something in more often than not, else take something out or back, or change the settings."""
    what = chance.choices(["put", "evict", "restore", "remove", "settings", "clear"], [60, 8, 12, 10, 8, 2])[0]
    match what:
        case "evict":
            await container.evict(*chance.sample(container.births, min(2, len(container))))
        case "restore":
            await container.restore(*[left.born for left in container.evicted()][-2:][:1])
        case "remove" if isinstance(container, ContextPool):
            await container.remove(f"i{chance.randrange(8)}")
        case "settings":
            await container.change_settings(limit=chance.randint(2, 7), tags=chance.choice(["", "a", "ab"]))
        case "clear":
            await container.clear()
        case _:
            made = item(f"i{chance.randrange(8)}", {"step": step, "text": "x" * chance.randrange(30)})
            await (container.add(made) if isinstance(container, ContextPool) else container.append(made))


def checked(log: LiveLog, live: Any, again: Any) -> None:
    """Compare a container with another handle on the same stream, with a fold of its events, and its past with both."""
    assert again.shown_state == live.shown_state
    assert again.to_dict() == live.to_dict()
    assert (again.births, again.evicted()) == (live.births, live.evicted())
    recorded = log.read_events(live.stream_id)
    assert fold(EMPTY, complete(log, recorded)) == live.shown_state
    for version in range(1, live.version + 1):
        past = again.at(version)
        assert past.shown_state == fold(EMPTY, complete(log, recorded[:version]))
        assert past.limit is None or len(past) <= past.limit


class ContainersContract(RacingContainersContract):
    """What holds for queues and pools, whatever log they lie in. Needs the fixture `log`."""

    @pytest.mark.parametrize("kind", ["queue", "pool"])
    @pytest.mark.parametrize("durability", ["commit", "enqueue"])
    async def test_read_again_it_is_the_same(self, log: LiveLog, kind: str, durability: Any) -> None:
        """After whatever happened: what is there, what left, and every version of the past."""
        on = queue_on if kind == "queue" else pool_on
        live: Any = on(log, limit=4, durability=durability)
        await some_life(live, seed=len(kind) + len(durability))
        await live.aflush()

        checked(log, live, on(log))
        check_chain(log.read(live.stream_id))

    async def test_contents_are_kept(self, log: LiveLog) -> None:
        """Texts of every size and script, JSON, instances of classes, and values that JSON has no form for."""
        given = [LARGE, "漢字 \x00\U0001f600", "", {"a": [1, 2.5, None, {"ü": LARGE}]}, 10**30, None, Finding("x", {2})]
        given += [LARGE.encode(), {("漢", 1): {Decimal("1.10"), b"\x00"}}]
        queue = queue_on(log, limit=9)
        await queue.append(*(ContextItem(one, LARGE, "漢") for one in given))

        again = queue_on(log)
        assert contents(again) == contents(queue) == given
        assert {(one.description, one.id) for one in again} == {(LARGE, "漢")}

    async def test_a_long_life_in_a_small_room(self, log: LiveLog) -> None:
        """Five hundred items through room for three; the first one is restored from far back."""
        queue = queue_on(log)
        for start in range(0, 500, 50):
            await queue.append(*(ContextItem(f"{number} {'x' * 50}") for number in range(start, start + 50)))

        again = queue_on(log)
        left = again.evicted()
        assert [one.item.content.split()[0] for one in left] == [str(number) for number in range(497)]
        await again.restore(left[0].born, left[250].born)
        assert [content.split()[0] for content in contents(queue_on(log))] == ["499", "0", "250"]

    async def test_branches_of_branches(self, log: LiveLog) -> None:
        """Each is there under its own id, reads through its ancestors, and goes its own way."""
        pools: list[Any] = [pool_on(log, limit=6)]
        for depth in range(8):
            await some_life(pools[-1], seed=depth, steps=15)
            pools.append(pools[-1].branch(context_id=f"depth{depth}"))
        for pool in pools:
            await pool.add(item("own", pool.id))

        for pool in pools:
            again = pool_on(log, pool.id)
            checked(log, pool, again)
            assert again["own"].content == pool.id

    async def test_a_branch_of_every_version(self, log: LiveLog) -> None:
        """It begins with what was there then, under a smaller limit with the newest of it."""
        queue = queue_on(log)
        await queue.append(*map(ContextItem, "abcdef"))

        for version in range(1, queue.version + 1):
            whole = queue.at(version).branch(context_id=f"w{version}")
            small = queue.at(version).branch(1, context_id=f"s{version}")
            assert contents(queue_on(log, whole.id)) == contents(queue.at(version))
            assert contents(queue_on(log, small.id)) == contents(queue.at(version))[-1:]
        assert contents(queue) == ["d", "e", "f"]

    async def test_what_was_made_without_a_store(self, log: LiveLog) -> None:
        """A branch of a branch, with all that it stands on; restored items and the past included."""
        root = await queue_of(3, *"abcde")
        child = root.branch(2).branch()
        await some_life(child, seed=1)
        before = [contents(child.at(version)) for version in range(child.version + 1)]
        log.append(child.adopted_events("queue:kept", root="kept")).result()

        again: ContextQueue[Any] = queue_on(log, "kept")
        assert [contents(again.at(version)) for version in range(again.version + 1)] == before
        assert gone(again) == gone(child)
        await again.restore(again.evicted()[-1].born)

    async def test_keys(self, log: LiveLog) -> None:
        """By the handle that wrote, by one that is behind, by a new one: done once."""
        pool, behind = pool_on(log), pool_on(log)
        await pool.add(item("a"))
        for handle in (pool, pool, behind, pool_on(log)):
            await handle.remove("a", idempotency_key="k")
            await handle.add(item("b"), idempotency_key="l")

        assert contents(pool_on(log)) == ["b"]
        assert log.head("pool:a") == 4

    async def test_a_transaction_over_two_containers(self, log: LiveLog) -> None:
        """Both changes or none: committed, rolled back, in conflict."""
        queue, pool = queue_on(log, limit=1), pool_on(log)
        await queue.append(ContextItem("a"))

        async def move(content: str, *, fails: bool = False) -> None:
            with transaction(log):
                await pool.add(item(queue.items[0].content))
                await queue.append(ContextItem(content))
                if fails:
                    raise ZeroDivisionError

        await move("b")
        with pytest.raises(ZeroDivisionError):
            await move("c", fails=True)
        await pool_on(log).add(item("theirs"))
        with pytest.raises(ConcurrencyError):
            await move("d")

        assert contents(queue) == contents(queue_on(log)) == ["b"]
        pool.refresh()
        assert contents(pool) == contents(pool_on(log)) == ["a", "theirs"]

    async def test_a_change_waits_for_the_transaction_of_another_task(self, log: LiveLog) -> None:
        """The calls of the transaction do not wait for those that wait for it."""
        pool = pool_on(log)
        other = None
        with transaction(log):
            await pool.add(item("a"))
            other = asyncio.get_running_loop().create_task(pool.add(item("other")), context=Context())
            await asyncio.sleep(0.05)
            await pool.add(item("b"))
            assert not other.done()
        await other

        assert contents(pool) == contents(pool_on(log)) == ["a", "b", "other"]

    async def test_a_saved_dict_of_what_is_kept(self, log: LiveLog) -> None:
        """It is JSON, and gives a detached container that shows the same."""
        pool = pool_on(log)
        await pool.add(ContextItem(Finding(LARGE, {1, 2}), "d", "a"))
        await pool.add(item("b", {"a": [1]}))

        saved = json.loads(json.dumps(pool_on(log).to_dict()))
        assert ContextPool.from_dict(saved).items == pool.items

    async def test_a_cancelled_append_is_whole(self, log: LiveLog) -> None:
        """Cancelled at any moment: all of its items are in the log or none, and the view says the same."""
        queue = queue_on(log, limit=50)
        for number in range(20):
            task = asyncio.create_task(queue.append(ContextItem(number), ContextItem(number)))
            await asyncio.sleep(number / 10_000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

        kept = contents(queue)
        assert kept == contents(queue_on(log))
        assert kept[::2] == kept[1::2] == sorted(set(kept))
        await queue.append(ContextItem("more"))
        assert contents(queue_on(log))[-1] == "more"

    def test_the_loop_goes_on(self, log: LiveLog, monkeypatch: pytest.MonkeyPatch) -> None:
        """An append waits for its disk in a thread, and not in that of the loop, also with large items."""
        queue, pool = queue_on(log, limit=50), pool_on(log, limit=50)
        threads = appending_threads(log, monkeypatch)

        asyncio.run(queue.append(*(ContextItem(LARGE) for _ in range(20))))
        asyncio.run(pool.add(item("a", LARGE)))

        assert threads
        assert threading.get_ident() not in threads
        assert (len(queue), len(pool)) == (20, 1)

    def test_from_async_code_by_the_wrapper(self, log: LiveLog) -> None:
        """Async methods stay what they are, sync ones can be awaited."""
        queue = queue_on(log)
        wrapped: Any = to_async(queue)

        async def use() -> None:
            await wrapped.append(ContextItem("a"))
            await wrapped.name_version("here")
            assert contents((await wrapped.at("here")).sync) == ["a"]

        asyncio.run(use())
        assert contents(queue_on(log)) == ["a"]
