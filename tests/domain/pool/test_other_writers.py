"""Several tasks on one container, and several handles on one stream."""

import asyncio
import threading
from typing import Any

import pytest

import refold
from refold.domain.errors import ConcurrencyError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.infrastructure.store import Store

from .containers import VetoError, Witness, contents, events, gone, item, pool_of, queue_of


@pytest.fixture
def store() -> Store:
    """An empty store in memory."""
    return refold.open(":memory:")


async def pause(*_args: Any) -> None:
    """Let others run: a hook that takes its time."""
    for _ in range(3):
        await asyncio.sleep(0)


async def test_appends_of_tasks_go_one_after_the_other() -> None:
    """P2.16: nothing is evicted twice, and nothing leaves without an event, however long hooks take."""
    queue = await queue_of(2, "1", "2")
    witness = Witness(queue)
    queue.before_append(pause)
    queue.on_evict(pause)
    await asyncio.gather(*(queue.append(ContextItem(letter)) for letter in "abc"))

    assert [told[2] for told in witness.told if told[0] == "on_evict"] == ["1", "2", "a"]
    assert (contents(queue), [content for content, _ in gone(queue)]) == (["b", "c"], ["1", "2", "a"])


async def test_changes_of_every_kind_wait_for_each_other() -> None:
    """Whatever is asked for at once is done in the order of the calls."""
    pool = await pool_of("ab", limit=2)
    pool.before_add(pause)
    pool.before_remove(pause)
    await asyncio.gather(pool.add(item("c")), pool.remove("b"), pool.add(item("a")), pool.clear(), pool.add(item("d")))

    assert events(pool, after=3) == [
        "PoolEvicted", "PoolAdded", "PoolRemoved", "PoolAdded", "PoolCleared", "PoolAdded",
    ]  # fmt: skip
    assert contents(pool) == ["d"]


def test_loops_of_several_threads_share_a_container() -> None:
    """Each thread has a loop of its own; everything is there once."""
    pool: ContextPool[Any] = ContextPool()
    pool.before_add(pause)

    async def fill(thread: int) -> None:
        for number in range(10):
            await pool.add(item(f"{thread}-{number}"))

    threads = [threading.Thread(target=lambda thread=thread: asyncio.run(fill(thread))) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(contents(pool)) == sorted(f"{thread}-{number}" for thread in range(4) for number in range(10))


@pytest.mark.parametrize("kind", ["before_append", "on_evict", "after_append"])
async def test_a_cancelled_append(kind: str) -> None:
    """All or nothing: before it is recorded nothing is, behind it everything; the next one goes through."""
    queue = await queue_of(1, "a")
    asked = asyncio.Event()

    async def wait(*_args: Any) -> None:
        asked.set()
        await asyncio.sleep(60)

    getattr(queue, kind)(wait)
    task = asyncio.create_task(queue.append(ContextItem("b"), ContextItem("c")))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    queue.hooks.clear()

    assert contents(queue) == (["c"] if kind == "after_append" else ["a"])
    await asyncio.wait_for(queue.append(ContextItem("d")), 5)
    assert contents(queue) == ["d"]


async def test_cancelled_while_it_waits_its_turn() -> None:
    """It leaves no trace, and those behind it are served."""
    queue = await queue_of(9)
    queue.before_append(pause)
    first, second, third = (asyncio.create_task(queue.append(ContextItem(letter))) for letter in "abc")
    await asyncio.sleep(0)
    second.cancel()
    await asyncio.gather(first, second, third, return_exceptions=True)

    assert contents(queue) == ["a", "c"]


async def test_an_append_catches_up(store: Store) -> None:
    """It is put behind what came first, and that can be asked for."""
    one, other = store.queue("q", limit=3), store.queue("q")
    await one.append(ContextItem("a"), ContextItem("b"))
    await other.append(ContextItem("c"), ContextItem("d"))

    assert contents(other) == ["b", "c", "d"]
    assert [one.reference for one in other.came_between] == ["queue:q@2", "queue:q@3"]
    await other.append(ContextItem("e"))
    assert other.came_between == ()


async def test_hooks_are_asked_again(store: Store) -> None:
    """What they were told of first is not what would have happened."""
    one, other = store.queue("q", limit=2), store.queue("q")
    await one.append(ContextItem("a"), ContextItem("b"))
    witness = Witness(other)
    await other.append(ContextItem("c"))

    assert witness.told == [
        ("before_append", "", ["c"], []),
        ("before_append", "ab", ["c"], ["a", "b"]),
        ("on_evict", "ab", "a"),
        ("after_append", ["c"], ["b", "c"]),
    ]


async def test_a_refusal_at_the_second_time(store: Store) -> None:
    """Nothing is added, and the view has caught up."""
    one, other = store.pool("p", limit=1), store.pool("p")
    await one.add(item("a"))
    Witness(other).refuses = {"on_evict"}

    with pytest.raises(VetoError):
        await other.add(item("b"))
    assert contents(one) == contents(other) == ["a"]
    assert store.log.head("pool:p") == 2


EDITS: dict[str, Any] = {
    "clear": lambda pool: pool.clear(),
    "remove": lambda pool: pool.remove("a"),
    "evict": lambda pool: pool.evict(pool.births[0]),
    "restore": lambda pool: pool.restore("b"),
    "settings": lambda pool: pool.change_settings(limit=1),
}


@pytest.mark.parametrize("edit", EDITS)
async def test_an_edit_is_told(store: Store, edit: str) -> None:
    """P8: no writer is silently overwritten; the view stays as it was, and a rebase goes through."""
    one, other = store.pool("p", limit=5), store.pool("p")
    for item_id in "ab":
        await other.add(item(item_id))
    await other.remove("b")
    one.refresh()
    await one.add(item("c"))

    with pytest.raises(ConcurrencyError) as caught:
        await EDITS[edit](other)
    assert (caught.value.expected, caught.value.actual) == (4, 5)
    assert (contents(other), other.version) == (["a"], 4)
    await other.rebase(EDITS[edit])
    assert other.version > 5
    assert contents(store.pool("p")) == contents(other)


async def test_setting_items_is_an_edit(store: Store) -> None:
    """It is told as well."""
    one, other = store.queue("q"), store.queue("q")
    await one.append(ContextItem("a"))

    with pytest.raises(ConcurrencyError):
        other.items = [ContextItem("b")]
    assert store.log.head("queue:q") == 2


@pytest.mark.parametrize("durability", ["commit", "enqueue"])
async def test_a_rebase_again_and_again(store: Store, durability: Any) -> None:
    """As often as another writer comes first, which a queued change finds when it is flushed; its result comes back."""
    one, other = store.pool("p"), store.pool("p", durability=durability)
    await one.add(item("a"))
    rounds: list[int] = []

    async def change(pool: ContextPool[Any]) -> str:
        rounds.append(pool.version)
        if len(rounds) < 3:
            await one.add(item(f"b{len(rounds)}"))
        await pool.remove("a")
        return "done"

    assert await other.rebase(change) == "done"
    assert rounds == [2, 3, 4]
    assert contents(other) == ["b1", "b2"]


async def test_a_rebase_that_is_refused(store: Store) -> None:
    """Other errors end it at once."""
    pool = store.pool("p")

    with pytest.raises(KeyError):
        await pool.rebase(lambda one: one.remove("nobody"))


async def test_a_rebase_without_end(store: Store) -> None:
    """After a hundred attempts the last conflict is the caller's."""
    queue = store.queue("q")
    await queue.append(ContextItem("a"))
    attempts: list[int] = []

    async def change(one: ContextQueue[Any]) -> None:
        attempts.append(one.version)
        await store.queue("q").append(ContextItem("theirs"))
        await one.clear(expected_version=one.version)

    with pytest.raises(ConcurrencyError):
        await queue.rebase(change)
    assert len(attempts) == 100


async def test_strictly(store: Store) -> None:
    """With an expected version an append is an edit too; hooks are not asked in vain."""
    one, other = store.queue("q"), store.queue("q")
    await one.append(ContextItem("a"))
    witness = Witness(other)

    for version in (1, 2, 99):
        with pytest.raises(ConcurrencyError):
            await other.append(ContextItem("b"), expected_version=version)
    other.refresh()
    await other.append(ContextItem("b"), expected_version=2)
    assert contents(other) == ["a", "b"]
    assert [told for told in witness.told if told[0] == "after_append"] == [("after_append", ["b"], ["a", "b"])]


async def test_the_view_moves_on_while_hooks_are_asked(store: Store) -> None:
    """What is recorded is decided on what the hooks were last told, and an edit of one's own view is none of others."""
    one, other = store.queue("q", limit=2), store.queue("q")
    await one.append(ContextItem("a"), ContextItem("b"))
    witness = Witness(one)

    @one.before_append
    async def disturb(*_args: Any) -> None:
        if other.version == 1:
            await other.append(ContextItem("x"))
            one.refresh()

    await one.append(ContextItem("c"))

    told = [told[1:] for told in witness.told if told[0] == "on_evict"]
    assert told == [("ab", "a"), ("bx", "b")]
    assert (contents(one), gone(one)) == (["x", "c"], [("a", "evict"), ("b", "evict")])


async def test_an_edit_of_a_view_that_moves_on(store: Store) -> None:
    """Whoever refreshed in the meantime knows what came; the hooks are told anew, and the edit goes through."""
    one, other = store.pool("p"), store.pool("p")
    await one.add(item("a"))
    witness = Witness(one)

    @one.before_clear
    async def look(*_args: Any) -> None:
        if other.version == 1:
            await other.add(item("b"))
            one.refresh()

    await one.clear()

    assert [told[1] for told in witness.told] == ["a", "ab", ""]
    assert (contents(one), gone(one)) == ([], [("a", "clear"), ("b", "clear")])


async def test_one_id_from_two_sides(store: Store) -> None:
    """The later add takes the earlier one's place; that one is listed, and what came between is told."""
    one, other = store.pool("p"), store.pool("p")
    await one.add(item("a", "first"))
    await other.add(item("a", "second"))

    assert (contents(other), gone(other)) == (["second"], [("first", "replace")])
    assert len(other.came_between) == 1


async def test_reading_a_queue_that_others_write(store: Store) -> None:
    """A view shows what it has seen until it is refreshed, which gives back what was missing."""
    one = store.queue("q")
    other: ContextQueue[Any] = store.queue("q")
    await one.append(ContextItem("a"))
    before = contents(other)
    news = other.refresh()

    assert (before, contents(other), [type(one.event).__name__ for one in news]) == ([], ["a"], ["QueueAppended"])
