"""Queues and pools as dicts, and back (SPEC P5)."""

import json
from typing import Any

import msgspec
import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.hooks.hook import (
    ContextPoolHook,
    ContextQueueHook,
    Hook,
    UnregisteredHookError,
    UnserializableHookError,
)
from refold.domain.hooks.registry import HookRegistry
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue

from .containers import Witness, contents, gone, item, pool_of, queue_of


class Note(msgspec.Struct):
    """A content of its own class."""

    text: str


async def noted(*_args: Any, **_kwargs: Any) -> None:
    """A hook that can be found by its name."""


async def test_a_queue_as_a_dict() -> None:
    """P5.1, P5.2, P5.3: these keys, tags sorted, and JSON whatever it holds."""
    queue: ContextQueue[Any] = ContextQueue(3, ["b", "a", "c"])
    queue.before_append(noted)
    await queue.append(ContextItem({"a": [1]}, "d"), ContextItem(Note("x"), id="i"))

    assert json.loads(json.dumps(queue.to_dict())) == {
        "limit": 3,
        "items": [
            {"id": None, "description": "d", "content": {"a": [1]}},
            {"id": "i", "description": None, "content": {"text": "x"}, "content_type": f"{__name__}:Note"},
        ],
        "hooks": {"before_append": ["noted"]},
        "tags": ["a", "b", "c"],
    }


async def test_a_pool_as_a_dict() -> None:
    """P5.1: the same keys."""
    pool = await pool_of("a")
    pool.on_evict(noted)

    assert pool.to_dict() == {
        "limit": None,
        "items": [{"id": "a", "description": "about a", "content": "a"}],
        "hooks": {"on_evict": ["noted"]},
        "tags": [],
    }


async def test_there_and_back() -> None:
    """P5.4, P5.11: through JSON; hooks are the same objects, in one process."""
    queue: ContextQueue[Any] = ContextQueue(3, ["a"])
    queue.before_append(note="n")(noted)
    await queue.append(ContextItem({"a": [1]}), ContextItem(Note("x"), "d", "i"))
    pool = await pool_of("ab", limit=4)

    queue_again = ContextQueue.from_dict(json.loads(json.dumps(queue.to_dict())))
    pool_again = ContextPool.from_dict(json.loads(json.dumps(pool.to_dict())))

    assert (queue_again.to_dict(), pool_again.to_dict()) == (queue.to_dict(), pool.to_dict())
    assert (queue_again.items, pool_again.items) == (queue.items, pool.items)
    assert queue_again.hooks == queue.hooks
    assert queue_again.hooks[0].fixed_kwargs == {"note": "n"}


def test_what_may_be_left_out() -> None:
    """P5.4, P5.5: all but a queue's limit."""
    empty = ContextPool.from_dict({})

    assert (empty.limit, empty.items, empty.hooks, empty.tags) == (None, [], [], frozenset())
    assert (ContextQueue.from_dict({"limit": 2}).limit, len(ContextQueue.from_dict({"limit": 2}))) == (2, 0)
    with pytest.raises(KeyError, match="limit"):
        ContextQueue.from_dict({})
    with pytest.raises(KeyError, match="content"):
        ContextQueue.from_dict({"limit": 1, "items": [{"id": "a"}]})


def test_items_of_a_saved_pool() -> None:
    """P5.5: an id is needed, a description is not; the last of one id stays."""
    items = [{"id": "a", "content": 1}, {"id": "a", "content": 2}]

    assert ContextPool.from_dict({"items": items}).items == [ContextItem(2, None, "a")]
    for wrong in ({"content": 1}, {"content": 1, "id": None}):
        with pytest.raises(ValueError, match=r"^ContextPool requires a ContextItem with 'id' set$"):
            ContextPool.from_dict({"items": [wrong]})


@pytest.mark.parametrize("kind", [ContextQueue, ContextPool])
def test_the_limit_holds(kind: Any) -> None:
    """P5.4, P5.6: where there are more, the newest stay, and the others left with an event."""
    items = [item(letter).to_dict() for letter in "abcde"]
    made = kind.from_dict({"limit": 2, "items": items})

    assert (contents(made), gone(made)) == (["d", "e"], [("a", "evict"), ("b", "evict"), ("c", "evict")])
    with pytest.raises(ValueError, match="limit must be >= 1"):
        kind.from_dict({"limit": 0})


async def test_no_hook_is_called() -> None:
    """P5.4: neither the restored ones nor those for every queue."""
    calls: list[str] = []

    async def seen(*_args: Any) -> None:
        calls.append("called")

    for kind in ContextQueueHook:
        seen.__name__ = f"seen_{kind.value}"
        HookRegistry.register_global(Hook(seen, kind))
    saved = {"limit": 1, "items": [{"content": 1}, {"content": 2}], "hooks": {"on_evict": ["seen_on_evict"]}}
    queue = ContextQueue.from_dict(saved)

    assert (calls, len(queue.hooks)) == ([], 1)
    await queue.append(ContextItem(3))
    assert calls == ["called"] * 3


async def test_a_hook_of_several_types() -> None:
    """P5.8: listed under each, restored once."""
    both = Hook(noted, (ContextPoolHook.BEFORE_ADD, ContextPoolHook.AFTER_ADD))
    HookRegistry.register(both)
    pool = await pool_of("a")
    pool.hooks.append(both)

    assert pool.to_dict()["hooks"] == {"before_add": ["noted"], "after_add": ["noted"]}
    assert ContextPool.from_dict(pool.to_dict()).hooks == [both]


async def test_hooks_by_the_owners_types() -> None:
    """A queue and a pool both have a before_clear: each gets its own."""
    queue, pool = await queue_of(1), await pool_of("")
    queue.before_clear(noted)
    pool.before_clear(noted)

    assert ContextQueue.from_dict(queue.to_dict()).hooks == queue.hooks
    assert ContextPool.from_dict(pool.to_dict()).hooks == pool.hooks


def test_a_hook_that_nobody_registered() -> None:
    """P5.7: an UnregisteredHookError, which is a KeyError."""
    with pytest.raises(UnregisteredHookError, match="nobody"):
        ContextPool.from_dict({"hooks": {"before_add": ["nobody"]}})

    assert issubclass(UnregisteredHookError, KeyError)


async def test_a_hook_that_could_not_be_found() -> None:
    """P5.9: a closure of a name that is taken cannot be saved; what has no type is left out."""
    queue = await queue_of(1)
    queue.hooks.append(noted)  # type: ignore[arg-type]  # the original takes any callable
    saved = queue.to_dict()["hooks"]
    Witness(queue)

    assert saved == {}
    with pytest.raises(UnserializableHookError):
        queue.to_dict()
    assert issubclass(UnserializableHookError, ValueError)


class Notes(ContextQueue[str]):
    """A queue of somebody's own."""


def test_what_is_restored_is_plain() -> None:
    """P5.10: neither a subclass nor the type of the elements is saved."""
    assert type(Notes.from_dict({"limit": 1})) is ContextQueue


async def test_a_content_whose_class_is_gone() -> None:
    """It is written without need of its class, and refused when it is to be read back."""
    queue = await queue_of(1, Note("x"))
    saved = queue.to_dict()
    saved["items"][0]["content_type"] = "refold_plugin:Note"

    with pytest.raises(InvalidInputError, match="import refold_plugin first"):
        ContextQueue.from_dict(saved)
