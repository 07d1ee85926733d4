"""Queues and pools in a store: opening them, adopting detached ones, and no hook for the past."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold import to_async
from refold.domain.errors import ConcurrencyError, InvalidInputError, NotFoundError
from refold.domain.hooks.hook import ContextPoolHook, ContextQueueHook, Hook
from refold.domain.hooks.registry import HookRegistry
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.infrastructure.store import Store

from .containers import Witness, contents, events, gone, item, pool_of, queue_of


@pytest.fixture
def store() -> Store:
    """An empty store in memory."""
    return refold.open(":memory:")


def test_opened_or_created(store: Store) -> None:
    """A queue holds ten, a pool what it is given; settings are those it was created with."""
    queue, pool = store.queue("a"), store.pool("a", limit=3, tags=["x"])

    assert (queue.limit, pool.limit, store.pool("a").limit, store.pool("a").tags) == (10, 3, 3, frozenset("x"))
    assert (queue.stream_id, pool.stream_id, queue.id, queue.is_detached) == ("queue:a", "pool:a", "a", False)
    with pytest.raises(NotFoundError):
        store.queue("b", create=False)
    for wrong in (0, "3"):
        with pytest.raises((InvalidInputError, TypeError)):
            store.queue("c", limit=wrong)  # type: ignore[arg-type]  # that is what is refused
    assert store.log.head("queue:c") == 0


async def test_other_settings_are_refused(store: Store) -> None:
    """A container that exists keeps its own; what they are is said."""
    pool = store.pool("a", limit=3, user="mia", session="s1")

    for options in ({"limit": 4}, {"tags": ["x"]}, {"user": "bob"}, {"session": "s2"}):
        with pytest.raises(InvalidInputError):
            store.pool("a", **options)
    await pool.change_settings(limit=4, tags=["x"])
    assert store.pool("a", limit=4, tags="x", user="mia").limit == 4


async def test_from_a_running_loop(store: Store) -> None:
    """The async side does the same."""
    opened = to_async(store)
    queue, pool = await opened.queue("a", limit=2), await opened.pool("a")
    adopted = await opened.adopt(await queue_of(3, "x"), "b")

    assert (await queue.limit, pool.stream_id, contents(adopted)) == (2, "pool:a", ["x"])


async def test_a_detached_container_is_adopted(store: Store) -> None:
    """With its past, its names and what left it; it goes on in the store, the same object."""
    pool = await pool_of("abc", limit=2)
    pool.name_version("then", 2)
    await pool.restore("a")
    witness = Witness(pool)
    store.adopt(pool, "kept")
    await pool.add(item("d"))

    again = store.pool("kept")
    assert contents(pool) == contents(again) == ["a", "d"]
    assert (contents(again.at("then")), gone(again)) == (["a"], [("b", "evict"), ("c", "evict")])
    assert (pool.is_detached, pool.births, witness.kinds) == (
        False,
        ["pool:kept@2", again.births[1]],
        ["on_evict", "before_add", "after_add"],
    )


async def test_a_branch_brings_its_ancestors_along(store: Store) -> None:
    """Under names made from its own, so that what it has from them is there."""
    grandchild = (await queue_of(3, "a", "b", "c", "d")).branch(2).branch()
    await grandchild.append(ContextItem("e"))
    live = grandchild.births
    store.adopt(grandchild, "kept")

    again = store.queue("kept")
    assert contents(grandchild) == contents(again) == ["d", "e"]
    assert [born.partition("@")[2] for born in again.births] == [born.partition("@")[2] for born in live]
    await again.restore(again.evicted()[0].born)
    assert contents(again) == ["e", "c"]


async def test_views_follow_into_the_store(store: Store) -> None:
    """One that was made before shows what is there now, and its branches lie where the container lies."""
    queue = await queue_of(3, "a")
    live, past = queue.readonly, queue.at(2)
    store.adopt(queue, "kept")
    await queue.append(ContextItem("b"))
    child = live.branch(context_id="child")
    past.branch(context_id="grandchild")

    assert (contents(live), contents(past), live.is_detached) == (["a", "b"], ["a"], False)
    assert contents(child) == contents(store.queue("child", create=False)) == ["a", "b"]
    assert contents(store.queue("grandchild", create=False)) == ["a"]


async def test_what_cannot_be_adopted(store: Store) -> None:
    """What is kept already, and an id that is taken; nothing is changed."""
    queue = store.adopt(await queue_of(3, "a"), "kept")

    with pytest.raises(InvalidInputError, match="kept in a store already"):
        store.adopt(queue, "again")
    other = await queue_of(3, "b")
    with pytest.raises(ConcurrencyError, match="decided on version 0: adopt the context under another id"):
        store.adopt(other, "kept")
    assert (contents(other), other.is_detached, contents(store.queue("kept"))) == (["b"], True, ["a"])


async def test_hooks_are_not_called_for_the_past(tmp_path: Path) -> None:
    """Neither by loading nor by reading the past, rebuilding views, adopting, refreshing or a repetition."""
    calls: list[str] = []

    async def called(*_args: Any) -> None:
        calls.append("called")

    with refold.open(tmp_path / "a.db") as store:
        pool, queue = store.pool("p", limit=1), store.queue("q", limit=1)
        for letter in "ab":
            await pool.add(item(letter), idempotency_key=letter)
            await queue.append(ContextItem(letter))
        await pool.restore("a")
    for number, kind in enumerate([*ContextPoolHook, *ContextQueueHook]):
        called.__name__ = f"called_{number}"
        HookRegistry.register_global(Hook(called, kind))
    with refold.open(tmp_path / "a.db") as store:
        pool, queue = store.pool("p"), store.queue("q")
        assert [contents(one) for one in (pool, queue, pool.at(2), queue.at(2))] == [["a"], ["b"], ["a"], ["a"]]
        await pool.add(item("b"), idempotency_key="b")
        pool.refresh()
        pool.cleanup()
        queue.branch(context_id="c")
        ContextPool.from_dict(pool.to_dict())
        assert (len(store.contexts()), gone(pool)) == (3, [("b", "evict")])

    assert calls == []


async def test_what_the_catalogue_counts(store: Store) -> None:
    """Items as they are, whatever came and went."""
    pool = store.pool("p", limit=2)
    for letter in "abc":
        await pool.add(item(letter, "x" * 40))
    await pool.add(item("c", "y"))
    await pool.remove("b")
    await pool.restore("a")
    await pool.branch(1, context_id="child").clear()

    rows = {(row.kind, row.id): row for row in store.contexts()}
    assert [rows["pool", context].items for context in ("p", "child")] == [len(pool), 0]
    assert rows["pool", "p"].tokens == sum(held.totals.tokens for held in pool.shown_state.items.values())
    assert events(pool)[-1] == "PoolRestored"
