"""What the hooks of a pool are told, and what becomes of a change that one of them refuses (SPEC P4.4 to P4.9)."""

from typing import Any

import pytest

from refold.domain.errors import DecisionRefusedError, NotFoundError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool

from .containers import VetoError, Witness, contents, gone, item, pool_of


async def test_an_item_that_has_room() -> None:
    """P4.4: told of before it is there and when it is."""
    pool = await pool_of("a", limit=2)
    witness = Witness(pool)
    await pool.add(item("b"))

    assert witness.told == [("before_add", "a", "b"), ("after_add", "ab", "b")]


async def test_an_item_that_has_no_room() -> None:
    """P4.4: first the oldest goes, while it is there; then the new one comes."""
    pool = await pool_of("ab", limit=2)
    witness = Witness(pool)
    await pool.add(item("c"))

    assert witness.told == [("on_evict", "ab", "a"), ("before_add", "b", "c"), ("after_add", "bc", "c")]


async def test_an_item_in_the_place_of_another() -> None:
    """P4.5: nothing is evicted."""
    pool = await pool_of("ab", limit=2)
    witness = Witness(pool)
    await pool.add(item("a", "A"))

    assert witness.told == [("before_add", "ab", "A"), ("after_add", "Ab", "A")]


@pytest.mark.parametrize("kind", ["before_add", "on_evict"])
async def test_a_refused_item_costs_nothing(kind: str) -> None:
    """P4.6: the item that would have made room is still there."""
    pool = await pool_of("ab", limit=2)
    Witness(pool).refuses = {kind}

    with pytest.raises(VetoError, match=kind):
        await pool.add(item("c"))
    assert (contents(pool), pool.version, gone(pool)) == (["a", "b"], 3, [])


async def test_removing_is_told() -> None:
    """P4.8: while it is there, and when it is gone; for what is not there no hook is called."""
    pool = await pool_of("ab")
    witness = Witness(pool)
    await pool.remove("a")
    with pytest.raises(NotFoundError):
        await pool.remove("a")

    assert witness.told == [("before_remove", "ab", "a"), ("after_remove", "b", "a")]


async def test_a_merge_is_told() -> None:
    """Of each item that leaves or comes: before the change while the one is there, and of all when it is done."""
    pool = await pool_of("abc")
    branch = pool.branch()
    await branch.remove("a")
    await branch.add(item("d"))
    witness = Witness(pool)
    await pool.merge(branch)

    assert witness.told == [
        ("before_remove", "abc", "a"),
        ("before_add", "bc", "d"),
        ("after_remove", "bcd", "a"),
        ("after_add", "bcd", "d"),
    ]
    await pool.merge(branch)
    assert len(witness.told) == 4


async def test_a_merge_of_another_log_is_told() -> None:
    """Behind the transaction in which it was taken in."""
    pool = await pool_of("a")
    witness = Witness(pool)
    await pool.merge(await pool_of("b"))

    assert witness.told == [("before_add", "a", "b"), ("after_add", "ab", "b")]


async def test_a_refused_removal() -> None:
    """P4.8: the item stays."""
    pool = await pool_of("a")
    Witness(pool).refuses = {"before_remove"}

    with pytest.raises(VetoError):
        await pool.remove("a")
    assert contents(pool) == ["a"]


async def test_clearing_is_told() -> None:
    """P4.9: with a dict of what there was, by id and in order, which is the hook's own."""
    pool = await pool_of("ba")
    seen: list[dict[str, Any]] = []

    @pool.before_clear
    async def spoil(_pool: Any, items: dict[str, Any]) -> None:
        seen.append(dict(items))
        items.clear()

    await pool.clear()

    assert [list(items.items()) for items in seen] == [[("b", item("b")), ("a", item("a"))]]
    assert gone(pool) == [("b", "clear"), ("a", "clear")]


async def test_the_cleared_pool_is_shown() -> None:
    """P4.9: AFTER_CLEAR gets it empty."""
    pool = await pool_of("ab")
    witness = Witness(pool)
    await pool.clear()

    assert [told[:2] for told in witness.told] == [("before_clear", "ab"), ("after_clear", "")]


async def test_restoring_is_told() -> None:
    """As of an item that is new."""
    pool = await pool_of("abc", limit=2)
    witness = Witness(pool)
    await pool.restore("a")

    assert witness.told == [("on_evict", "bc", "b"), ("before_add", "c", "a"), ("after_add", "ca", "a")]


@pytest.mark.parametrize("kind", ["before_add", "on_evict"])
async def test_a_hook_before_a_change_cannot_make_another(kind: str) -> None:
    """It would change what it is asked about."""
    pool = await pool_of("a", limit=1)

    async def change(*_args: Any) -> None:
        await pool.remove("a")

    getattr(pool, kind)(change)
    with pytest.raises(DecisionRefusedError, match="cannot change it"):
        await pool.add(item("b"))
    assert (contents(pool), pool.version) == (["a"], 2)


async def test_a_hook_behind_a_change_makes_another() -> None:
    """What it does is told of as well."""
    pool = await pool_of("")

    @pool.after_add
    async def keep_one(changed: ContextPool[Any], added: ContextItem[Any]) -> None:
        for one in changed.items:
            if one.id != added.id:
                await changed.remove(str(one.id))

    for item_id in "abc":
        await pool.add(item(item_id))

    assert (contents(pool), gone(pool)) == (["c"], [("a", "remove"), ("b", "remove")])


async def test_a_hook_reads_the_pool_it_is_called_for() -> None:
    """All that reading shows is the pool as it will be: ids, catalogue, length."""
    pool = await pool_of("ab", limit=2)
    seen: list[Any] = []

    @pool.before_add
    async def look(asked: ContextPool[Any], _item: Any) -> None:
        seen.append(("a" in asked, len(asked), asked.catalogue(), list(asked._items)))

    await pool.add(item("c"))

    assert seen == [(False, 1, "- [b] about b", ["b"])]
