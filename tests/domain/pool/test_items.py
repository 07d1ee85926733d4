"""The item that queues and pools take and give (SPEC P1)."""

import dataclasses
from typing import Any, assert_type

import pytest

from refold.domain.content import Content
from refold.domain.errors import DecisionRefusedError
from refold.domain.pool.events import QueueAppended
from refold.domain.pool.items import ContextItem, Held
from refold.domain.pool.queue import ContextQueue
from refold.domain.spans import Ref

from .containers import queue_of


def test_only_the_content_is_needed() -> None:
    """P1.1: frozen, the fields in this order."""
    bare: ContextItem[Any] = ContextItem("c")

    assert ContextItem("c", "d", "i") == ContextItem(content="c", description="d", id="i")
    assert (bare.description, bare.id) == (None, None)
    assert [field.name for field in dataclasses.fields(ContextItem)] == ["content", "description", "id"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        bare.content = "x"  # type: ignore[misc]  # that is what is refused


def test_the_type_of_contents_may_be_left_out() -> None:
    """mypy refuses the annotations of this unless a bare name is one of contents of any type."""

    def first(given: ContextQueue, otherwise: ContextItem) -> ContextItem:
        return next(iter(given), otherwise)

    queue = ContextQueue(limit=2)

    assert_type(queue, ContextQueue[Any])
    assert_type(ContextItem("c"), ContextItem[str])
    assert first(queue, ContextItem("c")).content == "c"


def test_as_a_dict() -> None:
    """P1.2: in this order, and the content passed through whatever it is."""
    content = object()
    given = ContextItem(content, "d", "i").to_dict()

    assert list(given.items()) == [("id", "i"), ("description", "d"), ("content", content)]


def test_from_a_dict() -> None:
    """P1.3: content must be there, the rest need not."""
    assert ContextItem.from_dict({"content": 1}) == ContextItem(1)
    assert ContextItem.from_dict({"content": 1, "id": "i", "description": "d"}) == ContextItem(1, "d", "i")
    with pytest.raises(KeyError):
        ContextItem.from_dict({"id": "i"})


def test_equal_by_value() -> None:
    """P1.4: and hashed by it, so that content without a hash has none."""
    assert ContextItem([1], "d") == ContextItem([1], "d") != ContextItem([2], "d")
    assert hash(ContextItem("a", "d")) == hash(ContextItem("a", "d"))
    with pytest.raises(TypeError):
        hash(ContextItem({}))


async def test_type_parameters_are_not_checked() -> None:
    """P1.5: a queue of texts takes numbers, and gives them back."""
    queue: ContextQueue[Any] = ContextQueue[str](limit=2)
    await queue.append(ContextItem(42), ContextItem[str]("a"))

    assert queue.items == [ContextItem(42), ContextItem("a")]


async def test_content_comes_back_read_only() -> None:
    """P3.5: equal to what was given, but nobody can change what the log says."""
    given = {"a": [1, {"b": 2}]}
    queue = await queue_of(3, given)
    given["a"].append(3)

    kept = queue.items[0].content
    assert kept == {"a": [1, {"b": 2}]}
    with pytest.raises(DecisionRefusedError, match="cannot be changed in place"):
        kept["a"].append(3)


def test_equal_entries_are_one_in_a_set() -> None:
    """Equal ones have equal hashes, and one of another version is another one."""
    first, again, other = (Held(Ref(version), QueueAppended(content=Content(text="a"))) for version in (2, 2, 3))

    assert first == again != other
    assert {first, again, other} == {first, other}


async def test_attributes_of_ones_own_can_be_deleted() -> None:
    """Of a queue; a view refuses it."""
    queue: Any = await queue_of(3, "a")
    queue.note = "mine"
    del queue.note

    assert not hasattr(queue, "note")
    with pytest.raises(DecisionRefusedError, match="is a view and cannot be changed"):
        del queue.readonly.note
