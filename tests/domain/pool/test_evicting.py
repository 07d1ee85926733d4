"""What leaves a queue or a pool stays readable and comes back; other settings."""

import random
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError, LimitExceededError, NotFoundError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from tests.support.effort import calls_of

from .containers import contents, events, gone, item, pool_of, queue_of


async def test_evicting_by_birth() -> None:
    """Any item, several at once, in one event; the reason is kept."""
    queue = await queue_of(5, "a", "b", "c")
    births = queue.births
    await queue.evict(births[2], births[0], reason="too long")

    assert (contents(queue), events(queue, after=4)) == (["b"], ["QueueEvicted"])
    assert [(left.item.content, left.how, left.reason, left.version, left.born) for left in queue.evicted()] == [
        ("c", "evict", "too long", 5, births[2]),
        ("a", "evict", "too long", 5, births[0]),
    ]


async def test_a_birth_named_twice() -> None:
    """Once is enough, however it is spelt."""
    queue = await queue_of(5, "a", "b")
    born = queue.births[0]
    await queue.evict(born, born, born.rpartition("@")[2])
    left = contents(queue)
    await queue.restore(born, born.rpartition("@")[2], born)

    assert (left, contents(queue)) == (["b"], ["b", "a"])
    assert [one.event.change.items for one in queue.recorded_events(after=3)] == [-1, 1]


async def test_an_empty_id() -> None:
    """It is an id like any other (P4.2): its item can be evicted, removed, replaced, taken back and merged."""
    pool: ContextPool[Any] = ContextPool()
    for each in (item("", "one"), item("b", "two")):
        await pool.add(each)

    await pool.evict(pool.births[0])
    assert gone(pool) == [("one", "evict")]
    await pool.restore("")
    await pool.remove("")
    assert gone(pool) == [("one", "remove")]
    await pool.restore("")
    branch = pool.branch()
    await branch.remove("")
    await pool.merge(branch)
    assert (contents(pool), gone(pool)) == (["two"], [("one", "merge")])


@pytest.mark.parametrize("name", ["", "a", "queue:detached@x", "@2", "x"])
async def test_what_names_no_item(name: str) -> None:
    """A text that is no birth is told from one of an item that is not there."""
    queue = await queue_of(5, "a")

    with pytest.raises(InvalidInputError, match="does not name an item"):
        await queue.evict(name)
    for birth in ("1", "99", "queue:other@2"):
        with pytest.raises(NotFoundError, match="does not hold the item"):
            await queue.evict(birth)
    assert queue.version == 2


async def test_evicting_nothing() -> None:
    """Nothing is recorded."""
    queue = await queue_of(5, "a")
    await queue.evict()
    await queue.restore()

    assert queue.version == 2


async def test_restored_items_are_the_newest() -> None:
    """In the order in which they are named; those that then have no room leave."""
    queue = await queue_of(3, "a", "b", "c", "d", "e")
    [a, b] = [left.born for left in queue.evicted()]
    await queue.restore(b, a)

    assert (contents(queue), gone(queue)) == (["e", "b", "a"], [("c", "evict"), ("d", "evict")])
    queue.cleanup()
    assert contents(queue) == ["e", "b", "a"]


async def test_a_restored_item_keeps_its_name() -> None:
    """It leaves and comes back under it, as often as you like."""
    queue = await queue_of(3, "a", "b")
    born = queue.births[0]
    for _ in range(3):
        await queue.evict(born)
        await queue.restore(born)

    assert queue.births == [f"{queue.stream_id}@3", born]


@pytest.mark.parametrize("how", ["evict", "remove", "replace", "clear", "limit"])
async def test_whatever_took_an_item_away(how: str) -> None:
    """It is listed with how it went, and comes back by its id."""
    pool = await pool_of("ab", limit=2)
    match how:
        case "evict":
            await pool.evict(pool.births[0])
        case "remove":
            await pool.remove("a")
        case "replace":
            await pool.add(item("a", "new"))
            await pool.remove("a", reason="to make way")
        case "clear":
            await pool.clear()
        case _:
            await pool.add(item("c"))
    listed = dict(gone(pool))
    await pool.restore(pool.evicted()[0].born)

    assert listed["a"] == ("evict" if how == "limit" else how)
    assert pool["a"] == item("a")


async def test_an_id_means_what_left_last() -> None:
    """A pool's items may be named by their ids; the older one of an id by its birth."""
    pool = await pool_of("a")
    await pool.add(item("a", "new"))
    await pool.remove("a")
    [old, new] = pool.evicted()
    await pool.restore("a")
    last = pool["a"].content
    await pool.remove("a")
    await pool.restore(old.born)

    assert (old.item.content, new.item.content, last, pool["a"].content) == ("a", "new", "new", "a")


async def test_an_id_like_a_birth() -> None:
    """An id comes first, whatever it looks like."""
    pool: ContextPool[Any] = ContextPool()
    await pool.add(item("x"))
    await pool.add(item("2"))
    await pool.clear()
    await pool.restore("2")

    assert [one.id for one in pool] == ["2"]


async def test_one_id_is_there_once() -> None:
    """Neither beside one that is there nor beside another that comes back; nothing is lost by trying."""
    pool = await pool_of("a")
    await pool.add(item("a", "new"))
    [old] = pool.evicted()

    with pytest.raises(InvalidInputError, match="'a' is in the pool already"):
        await pool.restore(old.born)
    await pool.remove("a")
    with pytest.raises(InvalidInputError, match="two of the items to be restored are 'a'"):
        await pool.restore(*(left.born for left in pool.evicted()))
    assert gone(pool) == [("a", "replace"), ("new", "remove")]


async def test_what_cannot_be_restored() -> None:
    """What is there, what never was, and more than there is room for."""
    queue = await queue_of(2, "a", "b", "c")
    [a] = [left.born for left in queue.evicted()]
    await queue.clear()
    everything = [left.born for left in queue.evicted()]

    for name in ("queue:detached@99", "nonsense", ""):
        with pytest.raises(NotFoundError, match=r"no item .* left "):
            await queue.restore(a, name)
    with pytest.raises(LimitExceededError, match="limit of the queue is 2"):
        await queue.restore(*everything)
    await queue.restore(a)
    with pytest.raises(NotFoundError):
        await queue.restore(a)
    assert contents(queue) == ["a"]


async def test_other_settings() -> None:
    """Limit and tags, each alone; the same again is nothing new."""
    queue = await queue_of(3, "a", "b", "c")
    await queue.change_settings(limit=2)
    await queue.change_settings(tags=["y", "x"])
    await queue.change_settings(limit=2, tags=["x", "y"])

    assert (queue.limit, queue.tags, contents(queue)) == (2, frozenset("xy"), ["b", "c"])
    assert events(queue, after=4) == ["QueueEvicted", "QueueSettingsChanged", "QueueSettingsChanged"]
    queue.cleanup()
    assert (queue.limit, queue.tags) == (2, frozenset("xy"))


async def test_a_pool_without_limit() -> None:
    """It gets one and loses it again; a queue always has one."""
    pool = await pool_of("abc")
    await pool.change_settings(limit=1)
    await pool.change_settings(limit=None)
    await pool.add(item("d"))

    assert (pool.limit, contents(pool)) == (None, ["c", "d"])
    with pytest.raises(InvalidInputError):
        await pool.change_settings(limit=0)
    with pytest.raises(TypeError):
        await (await queue_of(1)).change_settings(limit=None)


async def test_the_limit_holds_at_every_version() -> None:
    """Whatever is done: more items than fit, a smaller limit, restored items, other items set."""
    queue = await queue_of(4, *"abcd")
    await queue.change_settings(limit=2)
    await queue.restore(queue.evicted()[0].born)
    await queue.append(*map(ContextItem, "efghi"))
    queue.items = [ContextItem(letter) for letter in "jkl"]

    pasts = [queue.at(version) for version in range(1, queue.version + 1)]
    assert [past.version for past in pasts if len(past) > past.limit] == []
    assert contents(queue) == ["k", "l"]


async def test_nothing_is_lost_without_an_event() -> None:
    """Every item ever put in is there or listed as gone, once."""
    pool = await pool_of("abcdef", limit=3)
    await pool.add(item("e", "E"))
    await pool.remove("f")
    await pool.restore("a")
    await pool.clear()
    await pool.add(item("g"))

    assert sorted([*contents(pool), *(content for content, _ in gone(pool))]) == ["E", *"abcdefg"]


async def test_what_left_is_found_in_one_pass() -> None:
    """Four times as many items, half of them removed from anywhere: not sixteen times the work."""

    async def effort(count: int) -> int:
        pool = await pool_of("")
        ids = [f"i{number}" for number in range(count)]
        for item_id in ids:
            await pool.add(item(item_id))
        random.Random(1).shuffle(ids)
        for item_id in ids[: count // 2]:
            await pool.remove(item_id)
        assert len(pool.evicted()) == count // 2
        return calls_of(pool.evicted)

    assert await effort(400) < await effort(100) * 5
