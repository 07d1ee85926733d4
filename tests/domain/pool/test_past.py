"""The past of queues and pools, and views that cannot be changed."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

from refold.domain.errors import DecisionRefusedError, InvalidInputError, NotFoundError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue

from .containers import Container, contents, gone, item, pool_of, queue_of


async def test_every_version() -> None:
    """What was there, under which limit; nothing before it was opened."""
    queue = await queue_of(2, "a", "b", "c")
    await queue.change_settings(limit=5, tags="x")

    assert [contents(queue.at(version)) for version in range(7)] == [
        [], [], ["a"], ["a", "b"], ["b"], ["b", "c"], ["b", "c"],
    ]  # fmt: skip
    past = queue.at(-1)
    assert (past.version, past.limit, past.tags, queue.limit) == (5, 2, frozenset(), 5)


async def test_every_address() -> None:
    """By number, by name, by time, by position."""
    pool = await pool_of("ab")
    pool.name_version("two")
    await pool.clear()
    recorded = pool.recorded_events()
    seconds, microseconds = divmod(recorded[2].recorded_at, 1_000_000)
    time = datetime.fromtimestamp(seconds, UTC).replace(microsecond=microseconds)

    for address in (3, -2, "3", "two", f"pos:{recorded[2].position}"):
        assert contents(pool.at(address)) == ["a", "b"]
    by_then = max(one.version for one in recorded if one.recorded_at <= recorded[2].recorded_at)
    assert pool.at(time).version == pool.at(time.isoformat()).version == by_then
    assert pool.names() == {"two": 3}
    for nowhere in (9, -9, "nobody"):
        with pytest.raises(NotFoundError):
            pool.at(nowhere)
    with pytest.raises(InvalidInputError):
        pool.at("2026-11-21T10:00")


async def test_the_past_knows_what_had_left_by_then() -> None:
    """And can be asked all that the present can."""
    pool = await pool_of("abc", limit=2)
    await pool.remove("c")
    past = pool.at(-1)

    assert (gone(past), gone(pool)) == ([("a", "evict")], [("a", "evict"), ("c", "remove")])
    assert (past["c"], past.catalogue()) == (item("c"), "- [b] about b\n- [c] about c")
    assert past.to_dict()["items"] == [one.to_dict() for one in (item("b"), item("c"))]


async def test_a_name_is_moved() -> None:
    """The same name given to another version moves it; a version that is not there cannot have one."""
    queue = await queue_of(3, "a")
    queue.name_version("here", 1)
    assert queue.name_version("here") == 3

    assert queue.names() == {"here": 3}
    with pytest.raises(NotFoundError):
        queue.name_version("there", 99)
    with pytest.raises(InvalidInputError):
        queue.name_version("1st")


CHANGES: dict[str, Any] = {
    "append": lambda view: view.append(ContextItem("x")),
    "clear": lambda view: view.clear(),
    "evict": lambda view: view.evict("2"),
    "restore": lambda view: view.restore("2"),
    "change_settings": lambda view: view.change_settings(limit=1),
}
POOL_CHANGES: dict[str, Any] = {
    **{name: change for name, change in CHANGES.items() if name != "append"},
    "add": lambda view: view.add(item("x")),
    "remove": lambda view: view.remove("a"),
}


async def in_turn(call: Any, arguments: tuple[Any, ...]) -> None:
    """Call it, and await what is to be awaited."""
    made = call(*arguments)
    if asyncio.iscoroutine(made):
        await made


async def refused(view: Any, changes: dict[str, Any]) -> None:
    """Try all changes of a view, those of all kinds too."""
    for change in changes.values():
        with pytest.raises(RuntimeError, match=r"is a view and cannot be changed"):
            await change(view)
    for name, arguments in (("name_version", ("x",)), ("cleanup", ()), ("rebase", (print,))):
        with pytest.raises(DecisionRefusedError):
            await in_turn(getattr(view, name), arguments)


@pytest.mark.parametrize("is_past", [False, True])
async def test_a_view_of_a_queue_cannot_be_changed(is_past: bool) -> None:
    """Whether of the past or live; it is a queue all the same."""
    queue = await queue_of(2, "a")
    view = queue.at(2) if is_past else queue.readonly

    await refused(view, CHANGES)
    with pytest.raises(RuntimeError):
        view.items = []
    assert isinstance(view, ContextQueue)
    assert (contents(queue), queue.version) == (["a"], 2)


@pytest.mark.parametrize("is_past", [False, True])
async def test_a_view_of_a_pool_cannot_be_changed(is_past: bool) -> None:
    """Whether of the past or live; it is a pool all the same."""
    pool = await pool_of("a")
    view = pool.at(2) if is_past else pool.readonly

    await refused(view, POOL_CHANGES)
    assert isinstance(view, ContextPool)
    assert (contents(pool), pool.version) == (["a"], 2)


async def test_a_live_view_follows() -> None:
    """It shows what is; a view of it shows the same; one of the past stays as it is."""
    queue = await queue_of(2, "a")
    live, past = queue.readonly, queue.at(2)
    further = live.readonly
    await queue.append(ContextItem("b"))

    assert (contents(live), contents(further), contents(past)) == (["a", "b"], ["a", "b"], ["a"])
    assert (live.version, past.version, repr(live)) == (3, 2, "ReadOnlyQueue(limit=2, len=2)")


async def test_a_live_view_within_a_hook() -> None:
    """It shows what the hook sees."""
    queue = await queue_of(1, "a")
    live = queue.readonly
    seen: list[Any] = []

    @queue.on_evict
    async def look(*_args: Any) -> None:
        seen.append(contents(live))

    await queue.append(ContextItem("b"), ContextItem("c"))

    assert seen == [["a"], ["b"]]


@pytest.mark.parametrize("make", [lambda: queue_of(2, "a"), lambda: pool_of("a")])
async def test_a_branch_of_a_view_can_be_changed(make: Any) -> None:
    """It is a plain queue or pool of its own."""
    container: Container = await make()
    child: Any = container.readonly.branch()
    await child.clear()

    assert type(child) is type(container)
    assert (contents(child), contents(container)) == ([], ["a"])


def test_detached_containers_need_no_loop() -> None:
    """They are made and read outside of any, and changed by one loop after the other."""
    queue: ContextQueue[Any] = ContextQueue(2)
    for content in "abc":
        asyncio.run(queue.append(ContextItem(content)))

    assert contents(queue) == ["b", "c"]
