"""A pool without hooks: what it takes, what it shows (SPEC P4)."""

from enum import Enum
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool

from .containers import contents, events, gone, item, pool_of


class Colour(str, Enum):  # noqa: UP042  # a StrEnum has the str() that this one lacks
    """Texts whose `str()` is another text."""

    RED = "red"


def test_limits() -> None:
    """P4.1: none is no limit; less than 1 is refused in the original's words."""
    assert (ContextPool().limit, ContextPool(3).limit) == (None, 3)
    with pytest.raises(ValueError, match=r"^limit must be >= 1$"):
        ContextPool(0)
    with pytest.raises(TypeError):
        ContextPool(1.5)  # type: ignore[arg-type]  # that is what is refused


@pytest.mark.parametrize("fields", [{"id": "i"}, {"description": "d"}, {}])
async def test_id_and_description_are_needed(fields: Any) -> None:
    """P4.2: a ValueError in the original's words; empty texts pass."""
    pool: ContextPool[Any] = ContextPool()

    with pytest.raises(ValueError, match=r"^ContextPool requires a ContextItem with both 'id' and 'description' set$"):
        await pool.add(ContextItem("c", **fields))
    await pool.add(ContextItem("c", "", ""))
    assert (pool.get("").content, pool.version) == ("c", 2)


async def test_only_items_are_taken() -> None:
    """P4.3: a TypeError, as with a queue."""
    pool: Any = ContextPool()

    with pytest.raises(TypeError, match=r"^ContextPool only accepts ContextItem instances, got 'str'$"):
        await pool.add("text")
    with pytest.raises(TypeError, match=r"got 'ContextItem': take refold\.PoolItem, another class of this name$"):
        await pool.add(refold.BudgetItem("k", "v", "s"))


async def test_the_oldest_makes_room() -> None:
    """P4.4, P4.5: a replaced item keeps its place in the row, so it is still the first to leave."""
    pool = await pool_of("ab", limit=2)
    await pool.add(item("a", "new"))
    replaced = contents(pool)
    await pool.add(item("c"))

    assert (replaced, contents(pool)) == (["new", "b"], ["b", "c"])
    assert gone(pool) == [("a", "replace"), ("new", "evict")]
    assert events(pool, after=3) == ["PoolReplaced", "PoolEvicted", "PoolAdded"]


async def test_reading_by_id() -> None:
    """P4.7, P4.13: by `get` and `[]`; `in` knows ids and items."""
    pool = await pool_of("ab")

    assert pool.get("a") == pool["a"] == item("a")
    assert ["a" in pool, "x" in pool, 5 in pool] == [True, False, False]
    assert [item("a") in pool, item("a", "other") in pool, ContextItem("a") in pool] == [True, False, False]
    for read in (pool.get, pool.__getitem__):
        with pytest.raises(KeyError, match="no item 'x'"):
            read("x")


async def test_removing() -> None:
    """P4.8: by id; what is not there is a KeyError, and changes nothing."""
    pool = await pool_of("ab")
    await pool.remove("a", reason="outdated")

    with pytest.raises(NotFoundError, match="no item 'a'"):
        await pool.remove("a")
    assert (contents(pool), events(pool, after=3)) == (["b"], ["PoolRemoved"])
    assert [(left.how, left.reason) for left in pool.evicted()] == [("remove", "outdated")]


async def test_clearing() -> None:
    """P4.9: one event for all of it."""
    pool = await pool_of("ab")
    await pool.clear()

    assert (contents(pool), events(pool, after=3)) == ([], ["PoolCleared"])
    assert "a" not in pool


async def test_what_it_shows() -> None:
    """P4.10: a list of one's own, len, iteration, truth, repr."""
    pool = await pool_of("ba", limit=3)
    pool.items.clear()

    assert (contents(pool), len(pool), [one.id for one in pool]) == (["b", "a"], 2, ["b", "a"])
    assert (bool(pool), bool(ContextPool()), repr(pool)) == (True, False, "ContextPool(limit=3, len=2)")


async def test_the_catalogue() -> None:
    """P4.11, P4.12: a line for each item, whatever its description holds; an empty pool has none."""
    pool: ContextPool[Any] = ContextPool()
    for item_id, description in (("a", "one"), ("b", "two\nlines \t and\r\nblanks"), ("c", "")):
        await pool.add(ContextItem(1, description, item_id))

    assert pool.catalogue() == "- [a] one\n- [b] two lines and blanks\n- [c] "
    assert pool["b"].description == "two\nlines \t and\r\nblanks"
    assert ContextPool().catalogue() == ""


async def test_a_text_that_is_more_than_a_text() -> None:
    """The member of a str enum is the text it holds, as id, description and content."""
    pool: ContextPool[Any] = ContextPool()
    await pool.add(ContextItem(Colour.RED, Colour.RED, Colour.RED))

    assert pool.get("red") == ContextItem("red", "red", "red")
    assert type(pool["red"].content) is str


@pytest.mark.parametrize("item_id", [5, ("a",)])
async def test_ids_are_texts(item_id: Any) -> None:
    """The original takes whatever can be hashed, and cannot save it."""
    with pytest.raises(InvalidInputError, match="take a text"):
        await ContextPool[Any]().add(ContextItem("c", "d", item_id))


async def test_items_by_id_for_those_who_look_inside() -> None:
    """Code of the original's users reads `_items` in hooks."""
    pool = await pool_of("ab")

    assert list(pool._items) == ["a", "b"]
    assert pool._items["a"] == item("a")
