"""Changes of several containers as one, and changes that are queued."""

import asyncio
import contextvars

import pytest

import refold
from refold.domain.errors import ConcurrencyError, DecisionRefusedError
from refold.domain.pool.items import ContextItem
from refold.infrastructure.store import Store

from ..fakes import LateLog
from .containers import VetoError, Witness, contents, gone, item, queue_on


@pytest.fixture
def store() -> Store:
    """An empty store in memory."""
    return refold.open(":memory:")


async def test_a_transaction_over_two_containers(store: Store) -> None:
    """What leaves the one and comes into the other does both, or neither."""
    queue, pool = store.queue("q", limit=1), store.pool("p")
    await queue.append(ContextItem("a"))
    with store.transaction():
        await queue.append(ContextItem("b"))
        await pool.add(item("a"))
        assert (contents(queue), contents(store.queue("q"))) == (["b"], ["a"])

    async def fail() -> None:
        with store.transaction():
            await queue.append(ContextItem("c"))
            await pool.clear()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert (contents(queue), contents(pool)) == (["b"], ["a"])
    assert (contents(store.queue("q")), contents(store.pool("p"))) == (["b"], ["a"])


async def test_a_transaction_that_a_hook_refuses(store: Store) -> None:
    """The call is refused alone; the transaction goes on as whoever began it wants."""
    queue = store.queue("q")
    witness = Witness(queue)
    with store.transaction():
        await queue.append(ContextItem("a"))
        witness.refuses = {"before_append"}
        with pytest.raises(VetoError):
            await queue.append(ContextItem("b"))

    assert contents(store.queue("q")) == ["a"]


async def test_a_transaction_in_conflict(store: Store) -> None:
    """Another writer came first to one of them: neither is changed."""
    queue, pool = store.queue("q"), store.pool("p")

    async def conflict() -> None:
        with store.transaction():
            await queue.append(ContextItem("a"))
            await pool.add(item("a"))
            # A task in a context of its own knows nothing of the transaction.
            other = store.pool("p")
            await asyncio.create_task(other.add(item("b")), context=contextvars.Context())

    with pytest.raises(ConcurrencyError):
        await conflict()

    pool.refresh()
    assert (contents(queue), contents(pool)) == ([], ["b"])


async def test_the_past_within_a_transaction(store: Store) -> None:
    """What came and left in it can be read, listed, restored, branched, before it is in the log."""
    pool = store.pool("p")
    await pool.add(item("a"))
    with store.transaction():
        await pool.add(item("b"))
        await pool.remove("b")
        await pool.restore("b")
        await pool.remove("a")
        inside = (gone(pool), contents(pool.at(3)), contents(pool.at(-1)))
        await pool.restore("a")
        child = pool.branch(context_id="child")

    assert inside == ([("a", "remove")], ["a", "b"], ["a", "b"])
    assert contents(store.pool("p")) == contents(store.pool("child")) == contents(child) == ["b", "a"]


async def test_a_container_whose_beginning_was_rolled_back(store: Store) -> None:
    """It says so, and can be begun again."""
    begun = []

    async def fail() -> None:
        with store.transaction():
            begun.append(store.queue("q"))
            await begun[0].append(ContextItem("a"))
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    with pytest.raises(DecisionRefusedError, match="rolled back"):
        await begun[0].append(ContextItem("b"))
    assert contents(store.queue("q")) == []


async def test_queued_changes(store: Store) -> None:
    """Seen at once, on disk after `aflush`."""
    queue = store.queue("q", limit=3, durability="enqueue")
    for number in range(20):
        await queue.append(ContextItem(number))
    seen = contents(queue)
    await queue.aflush()

    assert seen == contents(store.queue("q")) == [17, 18, 19]


async def test_a_refused_queue_entry(store: Store) -> None:
    """A conflict is told by the flush, with what did not get in, and the view is set back."""
    queue = store.queue("q", durability="enqueue")
    await store.queue("q").append(ContextItem("theirs"))
    await queue.append(ContextItem("mine"))
    await queue.append(ContextItem("mine too"))

    with pytest.raises(ConcurrencyError) as caught:
        await queue.aflush()
    assert [refused.content.text for refused in caught.value.refused] == ["mine", "mine too"]
    assert contents(queue) == ["theirs"]


async def test_queued_items_come_and_go(store: Store) -> None:
    """What is on its way can be evicted, listed and restored like anything else."""
    queue = store.queue("q", limit=2, durability="enqueue")
    for letter in "abc":
        await queue.append(ContextItem(letter))
    [left] = queue.evicted()
    await queue.restore(left.born)
    await queue.evict(queue.births[0])
    await queue.aflush()

    assert contents(queue) == contents(store.queue("q")) == ["a"]
    assert gone(store.queue("q")) == [("b", "evict"), ("c", "evict")]


async def test_the_past_of_what_is_on_its_way() -> None:
    """What no log holds yet can be listed and restored; it is the same when it has landed."""
    log = LateLog()
    queue = queue_on(log, durability="enqueue")
    await queue.append(ContextItem("a"), ContextItem("b"))
    await queue.evict(queue.births[0])
    await queue.restore(queue.evicted()[0].born)
    await queue.evict(queue.births[0])
    ahead = (log.head(queue.stream_id), gone(queue), contents(queue))
    log.land()
    log.land()
    queue.flush()

    assert ahead == (1, [("b", "evict")], ["a"])
    assert (contents(queue_on(log)), gone(queue_on(log))) == (["a"], [("b", "evict")])


async def test_a_task_that_outlives_the_block() -> None:
    """What it writes once the block is over is recorded like anything else; it does not join what is over."""
    with refold.open(":memory:") as store:
        queue, gate = store.queue("q"), asyncio.Event()

        async def late() -> None:
            await gate.wait()
            await queue.append(ContextItem("late"))

        with store.transaction():
            task = asyncio.create_task(late())
            await queue.append(ContextItem("early"))
            await asyncio.sleep(0)
        gate.set()
        await task

        assert contents(store.queue("q")) == contents(queue) == ["early", "late"]
