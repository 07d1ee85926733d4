"""What the hooks of a queue are told, and what becomes of a change that one of them refuses (SPEC P2.9 to P2.19)."""

import asyncio
from typing import Any

import pytest

from refold.domain.errors import DecisionRefusedError, LimitExceededError, NotFoundError
from refold.domain.hooks.hook import ContextQueueHook
from refold.domain.hooks.registry import hook
from refold.domain.pool.items import ContextItem
from refold.domain.pool.queue import ContextQueue

from .containers import VetoError, Witness, contents, gone, queue_of


async def test_an_append_within_the_limit() -> None:
    """P2.9, P2.12: what comes and what is there, before; what came and what is there, after, without the queue."""
    queue = await queue_of(3, "a")
    witness = Witness(queue)
    await queue.append(ContextItem("b"), ContextItem("c"))

    assert witness.told == [
        ("before_append", "a", ["b", "c"], ["a"]),
        ("after_append", ["b", "c"], ["a", "b", "c"]),
    ]


async def test_an_append_beyond_the_limit() -> None:
    """P2.10, P2.11: each that makes room is told of while it is there, those of the same call too."""
    queue = await queue_of(2)
    witness = Witness(queue)
    await queue.append(*map(ContextItem, "12345"))

    assert witness.told == [
        ("before_append", "", ["1", "2", "3", "4", "5"], []),
        ("on_evict", "12", "1"),
        ("on_evict", "23", "2"),
        ("on_evict", "34", "3"),
        ("after_append", ["1", "2", "3", "4", "5"], ["4", "5"]),
    ]


async def test_no_items_are_told_of() -> None:
    """P2.17: hooks are called with empty lists."""
    queue = await queue_of(3, "a")
    witness = Witness(queue)
    await queue.append()

    assert witness.told == [("before_append", "a", [], ["a"]), ("after_append", [], ["a"])]


async def test_lists_are_the_hooks_own() -> None:
    """P2.13: what a hook does to them is nothing to the queue."""
    queue = await queue_of(3, "a")

    @queue.before_append
    async def spoil(_queue: Any, incoming: list[Any], current: list[Any]) -> None:
        incoming.clear()
        current.append("x")

    await queue.append(ContextItem("b"))

    assert contents(queue) == ["a", "b"]


@pytest.mark.parametrize("kind", ["before_append", "on_evict"])
async def test_a_hook_that_refuses_an_append(kind: str) -> None:
    """P2.14, P2.15: nothing of it was recorded, also where it came in the middle; the error is the caller's."""
    queue = await queue_of(2, "a")
    witness = Witness(queue)
    witness.refuses = {kind}

    with pytest.raises(VetoError, match=kind):
        await queue.append(*map(ContextItem, "bcd"))
    assert (contents(queue), queue.version, gone(queue)) == (["a"], 2, [])
    assert "after_append" not in witness.kinds


async def test_a_refusal_half_way() -> None:
    """P2.15: the second eviction is refused, so the first did not happen either; the next call is none the worse."""
    queue = await queue_of(2, "a", "b")
    seen: list[Any] = []

    async def refuse(_queue: Any, item: ContextItem[Any]) -> None:
        seen.append(item.content)
        if item.content == "b":
            raise VetoError

    queue.on_evict(refuse)
    with pytest.raises(VetoError):
        await queue.append(ContextItem("c"), ContextItem("d"))

    assert (contents(queue), seen) == (["a", "b"], ["a", "b"])
    await queue.append(ContextItem("e"))
    assert contents(queue) == ["b", "e"]


async def test_clearing_is_told() -> None:
    """P2.19: all that leaves, before; the empty queue, after; no item of its own leaves by ON_EVICT."""
    queue = await queue_of(2, "a", "b")
    witness = Witness(queue)
    await queue.clear()

    assert witness.told == [("before_clear", "ab", ["a", "b"]), ("after_clear", "")]
    witness.refuses = {"before_clear"}
    await queue.append(ContextItem("c"))
    with pytest.raises(VetoError):
        await queue.clear()
    assert contents(queue) == ["c"]


async def test_a_raising_hook_behind_the_change() -> None:
    """P6.8: the caller hears of it, but what was recorded stays."""
    queue = await queue_of(2)
    Witness(queue).refuses = {"after_append"}

    with pytest.raises(VetoError):
        await queue.append(ContextItem("a"))
    assert contents(queue) == ["a"]


async def test_evicting_and_restoring_are_told() -> None:
    """By ON_EVICT, and as of items that come in."""
    queue = await queue_of(2, "a", "b")
    witness = Witness(queue)
    born = queue.births[0]
    await queue.evict(born)
    await queue.append(ContextItem("c"))
    await queue.restore(born)

    assert witness.told == [
        ("on_evict", "ab", "a"),
        ("before_append", "b", ["c"], ["b"]),
        ("after_append", ["c"], ["b", "c"]),
        ("before_append", "bc", ["a"], ["b", "c"]),
        ("on_evict", "bc", "b"),
        ("after_append", ["a"], ["c", "a"]),
    ]


async def test_a_smaller_limit_is_told() -> None:
    """By ON_EVICT for each that has no room any more; one that refuses keeps the limit."""
    queue = await queue_of(3, "a", "b", "c")
    witness = Witness(queue)
    witness.refuses = {"on_evict"}
    with pytest.raises(VetoError):
        await queue.change_settings(limit=1)
    witness.refuses.clear()
    await queue.change_settings(limit=1)

    assert [told for told in witness.told if told[1] != "abc"] == [("on_evict", "bc", "b")]
    assert (queue.limit, contents(queue)) == (1, ["c"])


async def test_what_the_rules_refuse_no_hook_hears_of() -> None:
    """A birth that is not there, more than there is room for: hooks are asked about what can be done alone."""
    queue = await queue_of(1, "a", "b")
    await queue.clear()
    witness = Witness(queue)

    with pytest.raises(NotFoundError):
        await queue.evict("2")
    with pytest.raises(LimitExceededError):
        await queue.restore(*(left.born for left in queue.evicted()))
    assert witness.told == []


async def test_everybody_else_sees_what_is() -> None:
    """A hook sees what will be, a task beside it what is in the log."""
    queue = await queue_of(1, "a")
    asked, told = asyncio.Event(), asyncio.Event()
    seen: list[list[Any]] = []

    async def look() -> None:
        await asked.wait()
        seen.append(contents(queue))
        told.set()

    beside = asyncio.create_task(look())

    @queue.on_evict
    async def wait(hooked: Any, item: ContextItem[Any]) -> None:
        if item.content == "b":
            seen.append(contents(hooked))
            asked.set()
            await told.wait()

    await queue.append(ContextItem("b"), ContextItem("c"))
    await beside

    assert seen == [["b"], ["a"]]
    assert contents(queue) == ["c"]


@pytest.mark.parametrize("kind", ["before_append", "on_evict"])
async def test_a_hook_before_a_change_cannot_make_another(kind: str) -> None:
    """It would change what it is asked about; neither the one nor the other is recorded."""
    queue = await queue_of(1, "a")

    async def change(*_args: Any) -> None:
        await queue.append(ContextItem("x"))

    getattr(queue, kind)(change)
    with pytest.raises(DecisionRefusedError, match="cannot change it"):
        await queue.append(ContextItem("b"))

    assert (contents(queue), queue.version) == (["a"], 2)


async def test_a_hook_before_a_change_cannot_set_items() -> None:
    """Nor by the setter, which calls no hook."""
    queue = await queue_of(1, "a")

    @queue.before_append
    async def change(*_args: Any) -> None:
        queue.items = []

    with pytest.raises(DecisionRefusedError):
        await queue.append(ContextItem("b"))
    assert contents(queue) == ["a"]


async def test_a_hook_behind_a_change_makes_another() -> None:
    """The lock is free by then; what it adds is told of as well."""
    queue = await queue_of(5)

    @queue.after_append
    async def answer(appended: list[ContextItem[Any]], _current: Any) -> None:
        if appended[0].content != "answer":
            await queue.append(ContextItem("answer"))

    await asyncio.wait_for(queue.append(ContextItem("question")), 5)

    assert contents(queue) == ["question", "answer"]


async def test_a_hook_changes_another_queue() -> None:
    """What left the one comes into the other, as part of its caller's work."""
    small, large = await queue_of(1, "a"), await queue_of(9)

    @small.on_evict
    async def keep(_queue: Any, item: ContextItem[Any]) -> None:
        await large.append(item)

    await small.append(ContextItem("b"), ContextItem("c"))

    assert (contents(small), contents(large)) == (["c"], ["a", "b"])


async def test_a_hook_gives_a_version_a_name() -> None:
    """That changes nothing that hooks were told of, so they are called once, and the change goes through."""
    queue = await queue_of(2, "a", "b")
    calls: list[str] = []

    @queue.before_clear
    async def remember(*_args: Any) -> None:
        calls.append("asked")
        queue.name_version("before-clear")

    await queue.clear()

    assert (calls, contents(queue)) == (["asked"], [])
    assert contents(queue.at("before-clear")) == ["a", "b"]


async def test_a_task_that_outlives_its_hook() -> None:
    """Once the change is recorded the task sees what is, and may change it."""
    queue = await queue_of(2, "a")
    started: list[asyncio.Task[None]] = []
    recorded = asyncio.Event()

    async def later() -> None:
        await recorded.wait()
        await queue.append(ContextItem(f"after {contents(queue)}"))

    @queue.before_append
    async def start(*_args: Any) -> None:
        if not started:
            started.append(asyncio.create_task(later()))

    await queue.append(ContextItem("b"))
    recorded.set()
    await asyncio.gather(*started)

    assert contents(queue) == ["b", "after ['a', 'b']"]


async def test_a_task_of_a_hook_while_it_is_asked() -> None:
    """It belongs to the hook, so it cannot change the queue either, and nobody waits for nobody."""
    queue = await queue_of(2, "a")

    @queue.before_append
    async def start(*_args: Any) -> None:
        await asyncio.create_task(queue.clear())

    with pytest.raises(DecisionRefusedError):
        await asyncio.wait_for(queue.append(ContextItem("b")), 5)
    assert contents(queue) == ["a"]


async def test_global_hooks_go_by_tags() -> None:
    """P6.7: one with tags is called for queues that share one; the queue's own come first."""
    plain, tagged = ContextQueue[Any](1), ContextQueue[Any](1, ["x", "y"])
    calls: list[str] = []

    @hook(ContextQueueHook.BEFORE_APPEND, tags=["y", "z"])
    async def everywhere(*_args: Any) -> None:
        calls.append("global")

    @tagged.before_append
    async def here(*_args: Any) -> None:
        calls.append("own")

    await plain.append(ContextItem(1))
    await tagged.append(ContextItem(2))

    assert calls == ["own", "global"]
