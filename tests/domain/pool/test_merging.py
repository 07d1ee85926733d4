"""What a merge takes: of a queue what came in, of a pool what changed, three-way."""

import time
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.domain.pool.events import PoolConflictResolved, PoolMerged, QueueMerged
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.domain.positions import BEGINNING

from ...times.cuts import store_of


def item(item_id: str, content: Any = "base") -> ContextItem[Any]:
    """Return an item for a pool."""
    return ContextItem(content, f"about {item_id}", item_id)


def contents(pool: ContextPool[Any]) -> dict[str, Any]:
    """Return what a pool holds."""
    return {str(one.id): one.content for one in pool}


async def filled(pool: ContextPool[Any], ids: str, content: Any = "base") -> ContextPool[Any]:
    """Put items with these ids into a pool, and return it."""
    for item_id in ids:
        await pool.add(item(item_id, content))
    return pool


async def said(queue: ContextQueue[Any], texts: str) -> ContextQueue[Any]:
    """Append each word, and return the queue."""
    await queue.append(*(ContextItem(text) for text in texts.split()))
    return queue


class TestQueues:
    """Both sides' items end up in one queue, each once."""

    async def test_what_came_in_on_the_other_side(self) -> None:
        """Items of before the branch are not taken again, nor is anything at the second merge."""
        queue = await said(ContextQueue(10), "a b")
        branch = await said(queue.branch(), "x y")
        await said(queue, "c")

        await queue.merge(branch)
        await queue.merge(branch)

        assert queue.history().split() == ["a", "b", "c", "x", "y"]
        assert [type(one.event) for one in queue.recorded_events()].count(QueueMerged) == 1
        await said(branch, "z")
        await queue.merge(branch)
        assert queue.history().split() == ["a", "b", "c", "x", "y", "z"]

    async def test_both_ways(self) -> None:
        """After each took from the other, both hold the same, though not in one order."""
        queue = await said(ContextQueue(10), "a")
        branch = await said(queue.branch(), "x")
        await said(queue, "b")

        await queue.merge(branch)
        await branch.merge(queue)
        await queue.merge(branch)

        assert queue.history().split() == ["a", "b", "x"]
        assert branch.history().split() == ["a", "x", "b"]

    async def test_what_was_let_go_of_stays_away(self) -> None:
        """An item that this queue evicted does not come back from a branch that still has it."""
        queue = await said(ContextQueue(2), "a b")
        branch = queue.branch(limit=9)
        await said(queue, "c")

        await said(branch, "x")
        await queue.merge(branch)

        assert queue.history().split() == ["c", "x"]
        assert [one.item.content for one in queue.evicted()] == ["a", "b"]

    async def test_what_an_ancestor_took_and_let_go_of(self) -> None:
        """A branch does not take again what the queue before it had taken and evicted."""
        queue = ContextQueue[Any](10)
        one, other = queue.branch(), await said(queue.branch(), "x")
        await one.merge(other)
        await one.evict(one.births[0])

        branch = one.branch()
        await branch.merge(other)

        assert branch.history() == ""

    async def test_siblings(self) -> None:
        """Branches of one queue take from each other what the parent never had."""
        queue = await said(ContextQueue(10), "a")
        one, other = await said(queue.branch(), "x"), await said(queue.branch(), "y")

        await one.merge(other)

        assert one.history().split() == ["a", "x", "y"]
        one.cleanup()
        assert one.history().split() == ["a", "x", "y"]

    async def test_from_another_log(self) -> None:
        """It comes along with its past, in the transaction of the merge; a past version still reads."""
        with refold.open(":memory:") as store:
            queue = await said(store.queue("q", limit=5), "a")
            before = queue.version

            await queue.merge(await said(await said(ContextQueue(2), "x y"), "z"), idempotency_key="once")

            assert store.queue("q").history().split() == ["a", "y", "z"]
            assert queue.at(before).history() == "a"
            adopted = [row.id for row in store.contexts() if row.id.startswith("q~")]
            assert store.queue(adopted[0]).history().split() == ["y", "z"]

    async def test_again_from_another_log(self) -> None:
        """What was taken is known, and only what is new is imported; the same holds for what a what-if branched."""
        with refold.open(":memory:") as store:
            queue, other = store.queue("q"), await said(ContextQueue(9), "x y")
            for text in ("z", "w"):
                await queue.merge(other)
                version = queue.version
                await queue.merge(other)
                assert queue.version == version
                await said(other, text)
            same = store_of(store.log.read_all(after=BEGINNING, limit=99).events)
            with pytest.raises(InvalidInputError, match="into itself"):
                await queue.merge(same.queue("q"))
            branch = store.what_if(store.now()).queue("q", "q2")
            await said(queue, "own")
            for text in ("v", "u"):
                await queue.merge(await said(branch, text))

            assert queue.history().split() == ["x", "y", "z", "own", "v", "u"]
            assert sum(row.id.startswith("q~") for row in store.contexts()) == 2
            assert store.verify().is_whole

    async def test_a_copy_that_went_its_own_way(self) -> None:
        """If somebody wrote to what was imported, the other side is imported anew: nothing of it is mixed up."""
        with refold.open(":memory:", allow=lambda *_: True) as store:
            queue, other = store.queue("q"), await said(ContextQueue(9), "x")
            with store.transaction():
                await queue.merge(other)
                await queue.merge(await said(other, "y"))
            await said(store.queue(queue.recorded_events()[-1].event.source.partition(":")[2]), "z")
            await queue.merge(await said(other, "w"))

            assert queue.history().split() == ["x", "y", "x", "y", "w"]
            assert store.verify().is_whole

    async def test_hooks_are_asked(self) -> None:
        """They see what comes as if it were appended, and one that raises stops all of it."""
        queue = await said(ContextQueue(2), "a b")
        branch = await said(queue.branch(), "x")
        told: list[Any] = []

        @queue.on_evict
        async def evicted(_queue: Any, leaving: ContextItem[Any]) -> None:
            told.append(("evict", leaving.content))

        @queue.after_append
        async def appended(items: list[Any], current: list[Any]) -> None:
            told.append(([one.content for one in items], [one.content for one in current]))

        await queue.merge(branch)
        assert told == [("evict", "a"), (["x"], ["b", "x"])]

        @queue.before_append
        async def refuse(*_: Any) -> None:
            raise RuntimeError("no")

        version = queue.version
        await said(branch, "y")
        with pytest.raises(RuntimeError, match="no"):
            await queue.merge(branch)
        assert (queue.version, queue.history()) == (version, "b\nx")


class TestPools:
    """Three-way: what one side changed alone is taken, what both did is a conflict."""

    async def parted(self) -> tuple[ContextPool[Any], ContextPool[Any]]:
        """Return a pool and its branch: each changed something, both changed `d`."""
        pool = await filled(ContextPool(), "abcd")
        branch = pool.branch()
        await filled(branch, "adn", "theirs")
        await branch.remove("b")
        await filled(pool, "cdm", "ours")
        return pool, branch

    @pytest.mark.parametrize(
        ("rule", "kept", "expected"),
        [("ours", "ours", "ours"), ("theirs", "theirs", "theirs"), ("newest", "ours", "ours")],
    )
    async def test_three_ways(self, rule: str, kept: str, expected: str) -> None:
        """Added, replaced and removed there; the conflict is recorded with both sides."""
        pool, branch = await self.parted()

        await pool.merge(branch, rule=rule)

        wanted = {"a": "theirs", "c": "ours", "d": expected, "m": "ours", "n": "theirs"}
        assert contents(pool) == wanted
        conflicts = [one.event for one in pool.recorded_events() if isinstance(one.event, PoolConflictResolved)]
        assert [(one.id, one.rule, one.kept) for one in conflicts] == [("d", rule, kept)]
        pool.cleanup()
        assert contents(pool) == wanted
        assert [left.how for left in pool.evicted() if left.item.id == "b"] == ["merge"]

    async def test_a_function_decides(self) -> None:
        """It sees both items, and may make a third of them."""
        pool, branch = await self.parted()

        def both(_id: str, ours: Any, theirs: Any) -> ContextItem[Any]:
            return ContextItem(f"{ours.content}+{theirs.content}", "both")

        await pool.merge(branch, rule=both)

        assert contents(pool)["d"] == "ours+theirs"
        assert pool["d"].description == "both"
        with pytest.raises(InvalidInputError, match="the rule gave 'mine'"):
            await self.merged_again(pool, branch, lambda *_: "mine")

    async def merged_again(self, pool: ContextPool[Any], branch: ContextPool[Any], rule: Any) -> None:
        """Change one item on both sides, and merge."""
        await filled(branch, "d", "theirs again")
        await filled(pool, "d", "ours again")
        await pool.merge(branch, rule=rule)

    async def test_a_function_decides_where_there_is_no_room(self) -> None:
        """What it makes may leave at once; no version holds more than the limit, and the pool is read as it was."""
        with refold.open(":memory:") as store:
            pool = await filled(store.pool("p"), "abr")
            small, branch = pool.branch(limit=3, context_id="small"), pool.branch(context_id="branch")
            for one in (small, branch):
                await filled(one, "ab", one.id)
            await small.remove("r")
            await filled(branch, "rcd", "theirs")

            await small.merge(branch, rule=lambda *_: ContextItem("both", "both"))

            shown = {"c": "theirs", "d": "theirs", "r": "both"}
            assert contents(small) == contents(store.pool("small")) == shown
            assert [left.item.content for left in small.evicted() if left.how == "evict"] == ["both", "both"]
            assert max(len(small.at(version)) for version in range(1, small.version + 1)) == 3

    async def test_removed_here_and_changed_there(self) -> None:
        """That is a conflict too; a function is given None for what is gone."""
        pool = await filled(ContextPool(), "a")
        branch = await filled(pool.branch(), "a", "theirs")
        await pool.remove("a")
        seen: list[Any] = []

        def rule(item_id: str, ours: Any, theirs: Any) -> Any:
            seen.append((item_id, ours, theirs.content))
            return "theirs"

        await pool.merge(branch, rule=rule)

        assert (seen, contents(pool)) == ([("a", None, "theirs")], {"a": "theirs"})

    @pytest.mark.parametrize("removed", ["ours", "theirs"])
    @pytest.mark.parametrize("last", ["removed", "changed"])
    async def test_the_newest_may_be_a_removal(self, removed: str, last: str) -> None:
        """It counts from when the item was removed, on either side, and not from what was done to others since."""
        pool = await filled(ContextPool(), "ab")
        branch = pool.branch()
        remover, changer = (pool, branch) if removed == "ours" else (branch, pool)
        await remover.remove("b")

        async def remove() -> None:
            await remover.remove("a")

        async def change() -> None:
            await filled(changer, "a", "changed")

        for step in (change, remove) if last == "removed" else (remove, change):
            time.sleep(0.002)
            await step()
        time.sleep(0.002)
        await filled(remover, "z", "later than both")
        await pool.merge(branch, rule="newest")

        assert contents(pool).get("a") == (None if last == "removed" else "changed")

    async def test_again_and_back(self) -> None:
        """The second merge takes nothing, the way back takes what is new since, and conflicts do not come again."""
        pool, branch = await self.parted()
        await pool.merge(branch, rule="ours")
        version = pool.version

        await pool.merge(branch)
        assert pool.version == version
        await branch.merge(pool)

        assert contents(branch) == contents(pool)
        assert [type(one.event) for one in branch.recorded_events()][-1] is PoolMerged

    async def test_branches_of_sides_that_merged(self) -> None:
        """What one side took and removed does not come back from a branch of the other, nor into one of its own."""
        pool = ContextPool[Any]()
        one, other = pool.branch(), await filled(pool.branch(), "x")
        await one.merge(other)
        had_it = one.branch()
        await one.remove("x")

        for here, there in ((one, other.branch()), (one.branch(), other)):
            await here.merge(there, rule="theirs")
            assert contents(here) == {}
        late = other.branch()
        await late.remove("x")
        await had_it.merge(late)
        assert contents(had_it) == {}

    async def test_removed_in_a_branch_and_changed_there(self) -> None:
        """That is a conflict, though the item came by a merge into what was branched."""
        pool = ContextPool[Any]()
        one, other = pool.branch(), await filled(pool.branch(), "x")
        await one.merge(other)
        branch = one.branch()
        await branch.remove("x")

        await branch.merge(await filled(other, "x", "theirs"), rule="ours")

        assert contents(branch) == {}
        assert isinstance(branch.recorded_events()[-2].event, PoolConflictResolved)

    async def test_by_way_of_a_third(self) -> None:
        """What a third pool brought and was removed stays away from where it came from, unless it was restored."""
        with refold.open(":memory:") as store:
            pool = store.pool("p")
            one, other, third = (pool.branch(context_id=name) for name in ("one", "other", "third"))
            await other.merge(await filled(third, "xy"))
            await one.merge(other)
            await one.remove("x")
            await filled(one, "y", "ours")

            await one.merge(third, rule="theirs")
            assert contents(one) == {"y": "ours"}
            await third.merge(one, rule="ours")
            assert contents(third) == {"y": "ours"}

            await one.restore("x")
            await one.merge(third)
            await third.merge(one)
            assert contents(one) == contents(third) == {"y": "ours", "x": "base"}

    async def test_restored_after_the_other_side_removed_it(self) -> None:
        """It stays, and an older version of the other side changes nothing."""
        pool = await filled(ContextPool(), "ab")
        branch = pool.branch()
        await branch.remove("a")
        await pool.merge(branch)
        await pool.restore("a")

        for there in (branch, branch.at(1), branch):
            await pool.merge(there)
            assert contents(pool) == {"b": "base", "a": "base"}

    async def test_want_of_room_before_the_branch(self) -> None:
        """What left the other side's ancestor for want of room stays here as well."""
        pool = await filled(ContextPool(), "ab")
        early = pool.branch()
        await pool.change_settings(limit=1)

        await early.merge(pool.branch(limit=None))

        assert contents(early) == {"a": "base", "b": "base"}

    async def test_within_a_transaction(self) -> None:
        """A merge takes what the other side shows, also what is not recorded yet."""
        with refold.open(":memory:") as store:
            pool, queue = await filled(store.pool("p"), "a"), store.queue("q")
            branch, said_there = pool.branch(context_id="p2"), queue.branch(context_id="q2")
            with store.transaction():
                await branch.remove("a")
                await pool.merge(await filled(branch, "x"))
                child = pool.branch(context_id="p3")
                await pool.merge(await filled(child, "y"))
                await queue.merge(await said(said_there, "z"))

            assert contents(store.pool("p")) == {"x": "base", "y": "base"}
            assert store.queue("q").history() == "z"
            assert store.verify().is_whole

    async def test_want_of_room_is_no_statement(self) -> None:
        """What the branch let go of for want of room stays here, and what this pool did comes if it changed there."""
        pool = await filled(ContextPool(3), "abc")
        branch = pool.branch(limit=1)
        await filled(branch, "x", "theirs")

        await pool.merge(branch)
        assert contents(pool) == {"b": "base", "c": "base", "x": "theirs"}

    async def test_from_another_log(self) -> None:
        """Items of a detached pool come in; what both know by one id is a conflict."""
        with refold.open(":memory:") as store:
            pool = await filled(store.pool("p"), "ab")
            await pool.merge(await filled(ContextPool(), "bz", "theirs"), rule="theirs")

            assert contents(store.pool("p")) == {"a": "base", "b": "theirs", "z": "theirs"}

    async def test_again_from_another_log(self) -> None:
        """The sides are compared with the last merge, and those of a what-if with where it branched."""
        with refold.open(":memory:") as store:
            pool, other = store.pool("p"), await filled(ContextPool(), "ab")
            await pool.merge(other)
            await pool.remove("a")
            await pool.merge(await filled(other, "c"))
            branch = store.what_if(store.now()).pool("p", "p2")
            await branch.remove("b")
            await pool.merge(branch)

            assert contents(pool) == {"c": "base"}
            assert not any(isinstance(one.event, PoolConflictResolved) for one in pool.recorded_events())

    async def test_what_cannot_be_merged(self) -> None:
        """Itself, another kind, an unknown rule."""
        pool: Any = await filled(ContextPool(), "a")

        with pytest.raises(InvalidInputError, match="into itself"):
            await pool.merge(pool)
        with pytest.raises(InvalidInputError, match="a queue cannot be merged into a pool"):
            await pool.merge(ContextQueue(1))
        with pytest.raises(InvalidInputError, match="there is no rule 'mine'"):
            await pool.merge(pool.branch(), rule="mine")
        assert contents(pool) == {"a": "base"}
