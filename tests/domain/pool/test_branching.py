"""Branches of queues and pools: what they begin with, and that they are their own (SPEC P3, P4.14, P4.15)."""

from typing import Any

import pytest

from refold.domain.context.context import Attachment
from refold.domain.errors import IdempotencyError, InvalidInputError
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.domain.pool.rules import Add
from refold.domain.pool.state import EMPTY, complete, fold

from .containers import Witness, contents, events, gone, item, pool_of, queue_of


async def test_the_limit_of_a_branch() -> None:
    """P3.1: the parent's unless one is given; a smaller one keeps the newest."""
    queue = await queue_of(3, "a", "b", "c")

    assert [(child.limit, contents(child)) for child in (queue.branch(), queue.branch(2), queue.branch(limit=9))] == [
        (3, ["a", "b", "c"]),
        (2, ["b", "c"]),
        (9, ["a", "b", "c"]),
    ]
    with pytest.raises(ValueError, match="limit must be >= 1"):
        queue.branch(0)


async def test_the_limit_of_a_pools_branch() -> None:
    """P4.14: none unbounds it."""
    pool = await pool_of("abc", limit=3)

    assert [(child.limit, contents(child)) for child in (pool.branch(), pool.branch(None), pool.branch(limit=1))] == [
        (3, ["a", "b", "c"]),
        (None, ["a", "b", "c"]),
        (1, ["c"]),
    ]
    with pytest.raises(ValueError, match="limit must be >= 1"):
        pool.branch(0)


async def test_hooks_of_a_branch() -> None:
    """P3.2, P3.7: a copy of the parent's list with the same hooks; or those that are given, or none."""
    queue = await queue_of(2, "a")
    Witness(queue)
    other = list(queue.hooks[:1])

    assert queue.branch().hooks == queue.hooks
    assert queue.branch().hooks is not queue.hooks
    assert [queue.branch(hooks=[]).hooks, queue.branch(hooks=None).hooks] == [[], []]
    given = queue.branch(hooks=other).hooks
    assert given == other
    assert given is not other


async def test_no_hook_is_called() -> None:
    """P3.3, P4.14: neither where all fits nor where the limit is smaller."""
    queue, pool = await queue_of(2, "a", "b"), await pool_of("ab")
    witness = Witness(queue, pool)
    queue.branch(1)
    pool.branch(1)

    assert witness.told == []


async def test_tags_are_copied() -> None:
    """P3.4."""
    assert ContextQueue(1, ["x"]).branch().tags == ContextPool(1, ["x"]).branch().tags == frozenset("x")


async def test_each_goes_its_own_way() -> None:
    """P3.5: what happens to one is nothing to the other, nor to a branch of the branch."""
    parent = await pool_of("ab")
    child = parent.branch()
    grandchild = child.branch()
    await parent.remove("a")
    await child.add(item("c"))
    await grandchild.add(item("b", "B"))

    assert [contents(pool) for pool in (parent, child, grandchild)] == [["b"], ["a", "b", "c"], ["a", "B"]]


class Notes(ContextQueue[Any]):
    """A queue of somebody's own."""


class Drawer(ContextPool[Any]):
    """A pool of somebody's own, with something more to say."""

    def __init__(self, limit: int | None = None, tags: Any = None, *, label: str = "none") -> None:
        super().__init__(limit, tags)
        self.label = label


async def test_classes_of_branches() -> None:
    """P3.6, P4.15: a plain queue, but a pool of the same class, made of limit and tags alone."""
    drawer: Any = Drawer(3, label="top").branch(2)

    assert type(Notes(1).branch()) is ContextQueue
    assert (type(drawer), drawer.label, drawer.limit) == (Drawer, "none", 2)


async def test_a_branch_costs_one_event() -> None:
    """Whatever the parent's length, and the depth; and it is there again when it is read anew."""
    container: ContextQueue[Any] = await queue_of(50, *range(200))
    for depth in range(5):
        container = container.branch()
        await container.append(ContextItem(f"d{depth}"))
    child = container.branch()
    live = contents(child)

    assert events(child, after=0) == ["QueueBranched"]
    child.cleanup()
    assert contents(child) == live == [*range(155, 200), "d0", "d1", "d2", "d3", "d4"]


async def test_a_branch_of_the_past() -> None:
    """It begins as the parent was, and can be told from one of the present only by that."""
    queue = await queue_of(3, "a", "b", "c", "d")
    child = queue.at(3).branch()
    await child.append(ContextItem("x"))

    assert (contents(queue.at(3)), contents(child)) == (["a", "b"], ["a", "b", "x"])
    child.cleanup()
    assert contents(child) == ["a", "b", "x"]


async def test_a_branch_of_nothing() -> None:
    """Before it was opened a container cannot be branched."""
    with pytest.raises(InvalidInputError, match="branch a later version"):
        (await queue_of(3)).at(0).branch()


async def test_what_a_branch_let_go_of() -> None:
    """Items that had no room in it can be restored; what left its parent before was never its own."""
    queue = await queue_of(3, "z", "a", "b", "c")
    child = queue.branch(limit=2)

    assert (gone(queue), gone(child)) == ([("z", "evict")], [("a", "evict")])
    await child.restore(child.evicted()[0].born)
    assert (contents(child), gone(child)) == (["c", "a"], [("b", "evict")])


async def test_births_are_the_same_everywhere() -> None:
    """An item that a branch has from its parent is named by where it came into the world."""
    queue = await queue_of(3, "a", "b")
    child = queue.branch().branch()
    await child.append(ContextItem("c"))

    assert child.births == [*queue.births, f"{child.stream_id}@2"]
    await child.evict(queue.births[0])
    assert contents(child) == ["b", "c"]


async def test_ids_of_branches() -> None:
    """They are made up of the root's, or given; one that is taken is refused, and the parent is as it was."""
    queue = await queue_of(3, "a")
    named = queue.branch(context_id="mine")

    assert named.id == "mine"
    assert queue.branch().branch().id.startswith("detached-")
    with pytest.raises(InvalidInputError, match="exists already"):
        queue.branch(context_id="mine")
    with pytest.raises(InvalidInputError):
        queue.branch(context_id="a@b")
    assert (queue.version, contents(named)) == (2, ["a"])


async def test_a_branch_is_made_once_under_a_key() -> None:
    """A repetition gives the first one, also when both have gone on since."""
    queue = await queue_of(3, "a")
    first = queue.branch(idempotency_key="k")
    await first.append(ContextItem("b"))
    await queue.append(ContextItem("c"))
    again = queue.branch(idempotency_key="k")

    assert (again.id, contents(again)) == (first.id, ["a", "b"])
    assert queue.branch(idempotency_key="l").id != first.id


@pytest.mark.parametrize("kind", [ContextQueue, ContextPool])
async def test_a_branch_is_repeated_after_the_limit_was_changed(kind: Any) -> None:
    """The call says nothing about the limit: it is the same call, and gets the branch that it made."""
    parent = kind(limit=3)
    first = parent.branch(idempotency_key="k")
    await parent.change_settings(limit=2)

    again = parent.branch(idempotency_key="k")

    assert (again.id, again.limit) == (first.id, 3)
    with pytest.raises(IdempotencyError):
        parent.branch(limit=3, idempotency_key="k")


async def test_a_hook_branches_what_is_recorded() -> None:
    """Before a change a hook sees what will be; a branch can only begin with what is."""
    queue = await queue_of(1, "a")
    branches: list[Any] = []

    @queue.on_evict
    async def branch(asked: ContextQueue[Any], _item: Any) -> None:
        branches.append(asked.branch(hooks=[]))

    await queue.append(ContextItem("b"), ContextItem("c"))
    live = [contents(one) for one in branches]
    for one in branches:
        one.cleanup()

    assert live == [contents(one) for one in branches] == [["a"], ["a"]]


async def test_a_branch_of_a_pool_knows_items_by_their_ids() -> None:
    """Folded at once, as it is read, or event by event, as it was made."""
    pool = await pool_of("ab")
    branch = pool.branch()
    await branch.add(item("a", "A"))
    await branch.remove("b")
    read = fold(EMPTY, complete(branch.log, branch.log.read_events(branch.stream_id)))

    assert read == branch.shown_state
    assert list(read.items) == ["a"]
    assert contents(branch) == ["A"]


async def test_a_parent_that_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another thread adds to the parent while a branch is made is not in it: its event does not name it."""
    pool = await pool_of("a")
    made_up = Attachment.child_id

    def child_id(*args: Any) -> str:
        pool.put_in(Add((pool.added_event(item("b")),)))
        return made_up(*args)

    monkeypatch.setattr(Attachment, "child_id", child_id)
    child = pool.branch()
    shown = contents(child)
    child.cleanup()

    assert contents(pool) == ["a", "b"]
    assert shown == contents(child) == ["a"]
