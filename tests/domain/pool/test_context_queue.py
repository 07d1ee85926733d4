"""A queue without hooks: what it takes, what it shows (SPEC P2)."""

from typing import Any

import pytest

from refold.domain.errors import InvalidInputError, RefusedError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.queue import ContextQueue

from .containers import contents, events, gone, queue_of


@pytest.mark.parametrize("limit", [0, -1])
def test_a_limit_too_small(limit: int) -> None:
    """P2.1: a ValueError with the words of the original."""
    with pytest.raises(ValueError, match=r"^limit must be >= 1$"):
        ContextQueue(limit)


@pytest.mark.parametrize("limit", [1.5, "3", None, [1]])
def test_a_limit_that_is_no_number(limit: Any) -> None:
    """P2.2: a TypeError, and one of ours that names it."""
    with pytest.raises(TypeError, match="take a whole number") as caught:
        ContextQueue(limit)

    assert isinstance(caught.value, RefusedError)


def test_limits_are_plain_numbers() -> None:
    """P2.2: True counts as 1, and is 1; what no log can keep is refused."""
    assert type(ContextQueue(True).limit) is int
    assert ContextQueue(2**63 - 1).limit == 2**63 - 1
    with pytest.raises(InvalidInputError, match="limit must be <="):
        ContextQueue(2**63)


def test_tags() -> None:
    """P2.3: a frozenset; a plain text is its characters; what is no text is refused."""
    wrong: Any = [5, [5], ["\ud800"]]

    assert ContextQueue(1, ["b", "a", "b"]).tags == ContextQueue(1, "ab").tags == frozenset("ab")
    assert ContextQueue(1).tags == frozenset()
    for tags in wrong:
        with pytest.raises(InvalidInputError):
            ContextQueue(1, tags)


async def test_what_it_shows() -> None:
    """P2.4, P2.5, P2.22: hooks, limit, len, iteration, truth, repr."""
    empty, queue = ContextQueue[Any](4), await queue_of(4, "a", "b")

    assert (empty.hooks, bool(empty), len(empty), list(empty)) == ([], False, 0, [])
    assert (bool(queue), len(queue), [one.content for one in queue]) == (True, 2, ["a", "b"])
    assert (repr(queue), queue.limit) == ("ContextQueue(limit=4, len=2)", 4)
    with pytest.raises(AttributeError):
        queue.limit = 5  # type: ignore[misc]  # that is what is refused


async def test_items_are_a_copy() -> None:
    """P2.6: changing the list changes nothing."""
    queue = await queue_of(3, "a")
    queue.items.append(ContextItem("b"))

    assert contents(queue) == ["a"]


async def test_items_can_be_set() -> None:
    """P2.7: the last ones stay; what was there leaves with an event, and all of it is one step."""
    queue = await queue_of(2, "a", "b")
    queue.items = [ContextItem(letter) for letter in "cde"]

    assert contents(queue) == ["d", "e"]
    assert gone(queue) == [("a", "clear"), ("b", "clear")]
    assert events(queue, after=3) == ["QueueCleared", "QueueAppended", "QueueAppended"]
    queue.items = []
    assert contents(queue) == []


async def test_setting_items_is_all_or_nothing() -> None:
    """P2.7: one that cannot be put in leaves everything as it was."""
    queue = await queue_of(2, "a")
    wrong: Any = [ContextItem("b"), "c"]

    with pytest.raises(TypeError):
        queue.items = wrong
    assert (contents(queue), queue.version) == (["a"], 2)


async def test_only_items_are_taken() -> None:
    """P2.8: all are looked at before the first is put in."""
    queue = await queue_of(3, "a")
    wrong: Any = "text"

    with pytest.raises(TypeError, match=r"^ContextQueue only accepts ContextItem instances, got 'str'$"):
        await queue.append(ContextItem("b"), wrong)
    assert (contents(queue), queue.version) == (["a"], 2)


@pytest.mark.parametrize(("field", "value"), [("id", 5), ("description", b"x"), ("id", "\ud800")])
async def test_ids_and_descriptions_are_texts(field: str, value: Any) -> None:
    """The error names the field, and nothing is put in."""
    queue = await queue_of(3)
    fields: Any = {field: value}

    with pytest.raises(InvalidInputError, match=f"the {field} of an item"):
        await queue.append(ContextItem("a", **fields))
    assert queue.version == 1


async def test_the_oldest_makes_room() -> None:
    """P2.9, P2.11: also one of the same call; at no version are there more than the limit."""
    queue = await queue_of(2, 1, 2, 3, 4, 5)

    assert contents(queue) == [4, 5]
    assert gone(queue) == [(1, "evict"), (2, "evict"), (3, "evict")]
    assert max(len(queue.at(version)) for version in range(queue.version + 1)) == 2


async def test_items_with_ids() -> None:
    """P2.18: they are nothing special here; one id may be there twice."""
    queue = await queue_of(3)
    await queue.append(ContextItem("a", "d", "i"), ContextItem("b", "d", "i"))

    assert queue.items == [ContextItem("a", "d", "i"), ContextItem("b", "d", "i")]


async def test_no_items() -> None:
    """P2.17: nothing is recorded."""
    queue = await queue_of(3, "a")
    await queue.append()

    assert queue.version == 2


async def test_history() -> None:
    """P2.20, P2.21: the newest, as lines; none is none, and a negative number is refused."""
    queue = await queue_of(4, "a", 2, None, {"b": [1]})

    assert queue.history() == "a\n2\nNone\n{'b': [1]}"
    assert [queue.history(last=last) for last in (2, 5, 9, 0)] == ["None\n{'b': [1]}", *[queue.history()] * 2, ""]
    assert ContextQueue(1).history() == ""
    with pytest.raises(ValueError, match="last is -1"):
        queue.history(last=-1)


async def test_what_a_queue_is_not() -> None:
    """P2.23: items have no index, and `in` compares them one by one."""
    queue: Any = await queue_of(2, "a")

    assert ContextItem("a") in queue
    assert ContextItem("b") not in queue
    with pytest.raises(TypeError):
        queue[0]
    assert not hasattr(queue, "remove")


async def test_clearing() -> None:
    """P2.19: one event for all of it; where nothing is nothing is recorded."""
    queue = await queue_of(3, "a", "b")
    await queue.clear()
    await queue.clear()

    assert (contents(queue), events(queue, after=3)) == ([], ["QueueCleared"])
    assert gone(queue) == [("a", "clear"), ("b", "clear")]
