"""The entries of queues and pools: from rows alone, what each version of a container held."""

from __future__ import annotations

from asyncio import run
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import rule

import refold
from refold.domain.errors import DamagedError, InvalidInputError, NotFoundError
from refold.domain.log.ports import LiveLog
from refold.domain.pool.items import ContextItem
from refold.infrastructure.queries.entries import LEFT, EntryStay, _Held, _Step
from refold.infrastructure.queries.intervals import holds
from refold.projections.entries import EntryRow
from refold.projections.intervals import rows_prefix

from ..model.container_life import NUMBER
from ..model.container_machine import ContainerMachine
from ..model.container_model import Gone, Row, Veto
from ..model.lives import live


def held(stays: list[EntryStay], version: int) -> list[tuple[str, str]]:
    """Return what is held at a version: births and ids."""
    return [(stay.birth, stay.item) for stay in stays if holds(stay, version)]


def gone(stays: list[EntryStay], version: int) -> set[tuple[str, str, str, int]]:
    """Return what left up to a version and is not back: births, how, why, and with which version."""
    last = {stay.birth: stay for stay in sorted(stays, key=lambda stay: stay.v0) if stay.v0 <= version}
    there = {birth for birth, _ in held(stays, version)}
    return {(birth, stay.how, stay.reason, stay.v1) for birth, stay in last.items() if birth not in there}


def check_entries(store: refold.Store, container: Any) -> None:
    """Require that rows say of every version what a container says itself, and of some what had left."""
    name = container.stream_id
    stays = store.entries(name, with_gone=True)
    for version in range(container.version + 1):
        then = container.at(version)
        assert held(stays, version) == [(birth, one.id or "") for birth, one in zip(then.births, then, strict=True)]
    for version in (container.version // 2, container.version):
        left = container.at(version).evicted()
        assert gone(stays, version) == {(one.born, one.how, one.reason or "", one.version) for one in left}
    assert store.entries(name) == [stay for stay in stays if not stay.v1]


class EntriesMachine(ContainerMachine):
    """A random life of queues and pools, merged as well, that are looked at now and then."""

    can_reopen = False
    opened_at = ":memory:"

    def open_log(self) -> LiveLog:
        """Open the store's log."""
        self.store = refold.open(self.opened_at)
        return self.store.log

    @rule(number=NUMBER, other=NUMBER, conflicts=st.sampled_from(["ours", "theirs", "newest"]))
    def merge(self, number: int, other: int, conflicts: str) -> None:
        """
        Merge one into another, and take the outcome for what should be: that merges are right is tested elsewhere.
        """
        place = self.pick(number)
        others = [one for one, model in enumerate(self.models) if model.is_pool == self.models[place].is_pool]
        source: Any = self.containers[others[other % len(others)]]
        container: Any = self.containers[place]
        if source is container:
            return
        model = self.models[place]
        self.gates[place].veto = Veto()
        self.run(container.merge(source, rule=conflicts) if model.is_pool else container.merge(source))
        model.rows = [Row(one.content, one.id) for one in container.items]
        model.gone = [Gone(Row(one.item.content, one.item.id), one.how, one.reason) for one in container.evicted()]
        self.settle(place)

    @rule(number=NUMBER)
    def look_back(self, number: int) -> None:
        """Rows say of every version what was held; at that of a merge it may be more than the limit."""
        check_entries(self.store, self.containers[self.pick(number)])

    def teardown(self) -> None:
        """Look at all containers once more, and close the store."""
        if hasattr(self, "containers"):
            for container in self.containers:
                check_entries(self.store, container)
        if hasattr(self, "store"):
            self.store.close()
        super().teardown()


def test_any_history(location: str) -> None:
    """Rows say what the containers say themselves, whatever happened to them."""

    class EntriesMachineThere(EntriesMachine):
        opened_at = location

    live(EntriesMachineThere, examples=4 if location == ":memory:" else 1, steps=20)


def item(number: int) -> ContextItem[str]:
    """Return an item with a number."""
    return ContextItem(f"content {number}", f"about {number}", f"k{number}")


def stays_of(store: refold.Store, context: str, entry: str) -> list[tuple[int, int, str, str]]:
    """Return the stays of an entry: from, before, how it ended, and why."""
    stays = store.entries(context, with_gone=True)
    return [(stay.v0, stay.v1, stay.how, stay.reason) for stay in stays if stay.item == entry]


def test_a_description_that_just_fits(store: refold.Store) -> None:
    """One of 200 characters is whole; a longer one has 200 with the mark that it goes on."""
    for length in (199, 200, 201):
        run(store.pool("a").add(ContextItem("x", "x" * length, f"{length}")))

    shown = {stay.item: stay.description for stay in store.entries("pool:a")}

    assert shown == {"199": "x" * 199, "200": "x" * 200, "201": "x" * 199 + "…"}


def test_what_a_stay_tells(store: refold.Store) -> None:
    """The entry, how much it is, where it came from, and how its stay ended."""
    pool = store.pool("a", limit=1)
    with refold.acting(actor="triage"):
        run(pool.add(ContextItem("x" * 38, " Terms\n of delivery ", "terms")))
    run(pool.add(ContextItem({"a": [1]}, "w " * 200, "json")))

    first, second = store.entries("pool:a", with_gone=True)

    assert first == EntryStay(
        context="pool:a",
        place=0,
        item="terms",
        description="Terms of delivery",
        type="text",
        agent="triage",
        tokens=14,
        birth="pool:a@2",
        v0=2,
        v1=3,
        how="evict",
        reason="limit",
    )
    assert (second.type, second.birth, second.v1, second.description) == ("json", "pool:a@4", 0, "w " * 99 + "w…")
    assert store.entries("a") == [second]


def test_an_entry_that_comes_and_goes(store: refold.Store) -> None:
    """Each of its stays is one, and comes back as the newest; a cleared pool ends those of all."""
    pool = store.pool("a")
    run(pool.add(item(1)))
    run(pool.add(item(2)))
    run(pool.remove("k1", reason="old"))
    run(pool.restore("k1"))
    run(pool.add(item(1)))
    run(pool.clear())

    first, second = [(2, 4, "remove", "old"), (5, 6, "replace", "")], (6, 7, "clear", "")
    assert stays_of(store, "a", "k1") == [*first, second]
    assert [stay.item for stay in store.entries("a", -1)] == ["k2", "k1"]


def test_a_branch_copies_no_rows(store: refold.Store) -> None:
    """It has one row for what it began with, and one for each entry that it let go of; its limit counts."""
    queue = store.queue("a", limit=500)
    run(queue.append(*map(item, range(500))))
    branch = queue.branch(100)
    run(branch.evict("queue:a@402", reason="no use"))
    run(queue.clear())

    assert len(store.rows("entries", under=rows_prefix(branch.stream_id))) == 2
    check_entries(store, branch)
    assert stays_of(store, branch.stream_id, "k399") == [(1, 1, "evict", "limit")]
    assert stays_of(store, branch.stream_id, "k400") == [(1, 2, "evict", "no use")]


def test_what_a_merge_takes(store: refold.Store) -> None:
    """It takes the place of what has its id, and what it has let go of leaves; its rows are told where it was born."""
    pool = store.pool("a")
    for number in range(3):
        run(pool.add(item(number)))
    other = pool.branch()
    run(other.add(ContextItem("new", "changed", "k0")))
    run(other.remove("k1"))
    run(pool.merge(other))

    assert [(stay.item, stay.description, stay.birth) for stay in store.entries("pool:a")] == [
        ("k0", "changed", f"{other.stream_id}@2"),
        ("k2", "about 2", "pool:a@4"),
    ]
    assert stays_of(store, "pool:a", "k0") == [(2, 5, "merge", ""), (5, 0, "", "")]
    assert stays_of(store, "pool:a", "k1") == [(3, 5, "merge", "")]


def test_what_a_merge_takes_back(store: refold.Store) -> None:
    """An entry that had left comes once more, and leaves once more."""
    pool = store.pool("a")
    run(pool.add(item(0)))
    other = pool.branch()
    run(pool.remove("k0"))
    run(other.add(ContextItem("theirs", "theirs", "k0")))
    run(pool.merge(other, rule="theirs"))
    run(other.remove("k0"))
    run(other.restore("pool:a@2"))
    run(pool.merge(other))
    run(pool.remove("k0", reason="old"))

    first = [stay for stay in store.entries("pool:a", with_gone=True) if stay.birth == "pool:a@2"]
    assert [(stay.v0, stay.v1, stay.how, stay.reason) for stay in first] == [
        (2, 3, "remove", ""),
        (6, 7, "remove", "old"),
    ]
    check_entries(store, pool)


def test_many_leave_at_once(store: refold.Store) -> None:
    """An event that names thousands ends the stays of all; one that names none adds one row."""
    queue = store.queue("a", limit=1_000)
    run(queue.append(*map(item, range(1_000))))
    run(queue.change_settings(limit=10))
    before = len(store.rows("entries"))
    run(queue.clear())

    assert len(store.rows("entries")) == before + 1
    stays = store.entries("a", with_gone=True)
    assert [one for one, _ in held(stays, queue.version - 1)] == [f"queue:a@{one}" for one in range(992, 1_002)]
    assert {(stay.how, stay.reason) for stay in stays} == {("evict", "limit"), ("clear", "")}


def test_at_a_moment(store: refold.Store) -> None:
    """By version, time, position and name, which may move."""
    pool = store.pool("a")
    run(pool.add(item(1)))
    then, moment = datetime.now(UTC), store.now()
    pool.name_version("there", 1)
    pool.name_version("there", 2)
    run(pool.clear())

    for at in (2, "2", -3, then, then.isoformat(), moment, f"pos:{moment}", "there"):
        assert [stay.item for stay in store.entries("a", at)] == ["k1"], at
    assert store.entries("a", 1, with_gone=True) == store.entries("a", 0) == store.entries("a") == []


def test_what_is_not_there(store: refold.Store) -> None:
    """It is said: a context that is neither a queue nor a pool, two of one name, a version, a name."""
    store.chat("talk")
    store.pool("a")
    store.pool("both")
    store.queue("both")

    with pytest.raises(NotFoundError, match="there is no queue or pool 'talk'"):
        store.entries("talk")
    with pytest.raises(InvalidInputError, match="'both' can mean queue:both or pool:both"):
        store.entries("both")
    with pytest.raises(NotFoundError, match="pool:a has no version 2"):
        store.entries("a", 2)
    with pytest.raises(NotFoundError, match="pool:a has no version named 'x'"):
        store.entries("a", "x")


def test_ids_that_begin_alike(store: refold.Store) -> None:
    """The entries of one pool are not among those of another whose id goes on with another character."""
    for name in ("a", "a b", "a !", "a~1"):
        run(store.pool(name).add(ContextItem("x", "about", f"in {name}")))

    assert [stay.item for stay in store.entries("a")] == ["in a"]
    assert [stay.item for stay in store.entries("a b")] == ["in a b"]


async def test_in_an_event_loop(store: refold.Store) -> None:
    """The async side answers the same."""
    await store.pool("a").add(item(1))

    assert await refold.to_async(store).entries("a", 2, with_gone=True) == store.entries("a") != []


def test_an_entry_that_left_and_was_not_there() -> None:
    """Rows that say so are damaged, and the error names the entry."""
    held_then = _Held({"queue:a@7": EntryRow("queue:a@7", "queue:a", "queue:a@7")}, is_pool=False)

    with pytest.raises(DamagedError, match="queue:a@7 is damaged: it left, and was not there"):
        held_then.take(_Step(9, LEFT, "queue:a@7"))
