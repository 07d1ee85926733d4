"""The random life of queues and pools: changed by tasks at once and by several handles, while hooks say no."""

import asyncio
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from refold.domain.context.transaction import transaction
from refold.domain.errors import ConcurrencyError, InvalidInputError, LimitExceededError
from refold.domain.pool.pool import ContextPool

from ..domain.pool.containers import VetoError, pool_on, queue_on
from .container_life import CONTAINERS_MAX, IDS, LIMITS, NUMBER, SOME, VETO, ContainerLife, check_shown, item_of, put
from .container_model import ContainerModel, Refused, Row, Veto

EDITS = st.sampled_from(["clear", "evict", "set_up", "restore", "remove"])


class ContainerMachine(ContainerLife):
    """Subclass it with `open_log`."""

    # Items come and go

    @rule(number=NUMBER, ids=IDS, veto=VETO)
    def put_in(self, number: int, ids: list[str], veto: Veto) -> None:
        """Put items in: into a queue at once, into a pool one by one."""
        place = self.pick(number)
        rows = self.made(place, ids)
        for batch in [[row] for row in rows] if self.models[place].is_pool else [rows]:
            self.put(place, batch, veto)

    @rule(number=NUMBER, batches=st.lists(IDS, min_size=2, max_size=4), veto=VETO)
    def put_in_at_once(self, number: int, batches: list[list[str]], veto: Veto) -> None:
        """Put items in by several tasks: it is as if they had come one after the other."""
        place = self.pick(number)
        container, model, gate = self.containers[place], self.models[place], self.gates[place]
        gate.veto = veto
        calls = [self.made(place, ids[:1] if model.is_pool else ids) for ids in batches]
        refused = []
        for rows in calls:
            try:
                model.put(rows, veto)
                refused.append(False)
            except Refused:
                refused.append(True)

        async def all_at_once() -> list[Any]:
            return await asyncio.gather(*(put(container, rows) for rows in calls), return_exceptions=True)

        assert [isinstance(result, VetoError) for result in self.run(all_at_once())] == refused
        # Hooks that come after a change no longer hold up others: when they are called is open, and what they see.
        for kind in (False, True):
            heard, expected = (
                [told if not kind else (told[0], told[-1 if model.is_pool else 1]) for told in every]
                for every in (
                    [told for told in gate.told if told[0].startswith("after") == kind],
                    [told for told in model.told if told[0].startswith("after") == kind],
                )
            )
            assert sorted(heard) == sorted(expected) if kind else heard == expected
        self.settle(place)

    @rule(number=NUMBER, chosen=NUMBER, veto=VETO)
    def remove(self, number: int, chosen: int, veto: Veto) -> None:
        """Take an item out of a pool; what is not there is refused, and no hook hears of it."""
        place = self.pick(number, of_pools=True)
        model = self.models[place]
        if not model.rows:
            with pytest.raises(KeyError):
                self.run(self.containers[place].remove("k0"))  # type: ignore[union-attr]  # it is a pool
            assert self.gates[place].told == []
            return
        row = model.rows[chosen % len(model.rows)]
        self.act(place, lambda pool: pool.remove(row.id), lambda m: m.remove(row, veto), veto)

    @rule(number=NUMBER, veto=VETO)
    def clear(self, number: int, veto: Veto) -> None:
        """Take everything out."""
        self.act(self.pick(number), lambda one: one.clear(), lambda m: m.clear(veto), veto)

    @rule(number=NUMBER, chosen=SOME, reason=st.sampled_from(["old", "limit"]), veto=VETO)
    def evict(self, number: int, chosen: list[int], reason: str, veto: Veto) -> None:
        """Have some leave, named by their births."""
        place = self.pick(number)
        container, model = self.containers[place], self.models[place]
        places = list(dict.fromkeys(one % len(model.rows) for one in chosen)) if model.rows else []
        births, rows = [container.births[one] for one in places], [model.rows[one] for one in places]
        self.act(place, lambda one: one.evict(*births, reason=reason), lambda m: m.evict(rows, reason, veto), veto)

    @rule(number=NUMBER, chosen=SOME, veto=VETO)
    def restore(self, number: int, chosen: list[int], veto: Veto) -> None:
        """Take some back; more than there is room for, or of an id that is there, is refused as a whole."""
        place = self.pick(number)
        model, left = self.models[place], self.containers[place].evicted()
        places = list(dict.fromkeys(one % len(left) for one in chosen)) if left else []
        rows, births = [model.gone[one].row for one in places], [left[one].born for one in places]
        error = refusal(model, rows)
        if error is not None:
            with pytest.raises(error):
                self.run(self.containers[place].restore(*births))
            assert self.gates[place].told == []
            self.check(place)
            return
        self.act(place, lambda one: one.restore(*births), lambda m: restored(m, rows, veto), veto)

    @rule(number=NUMBER, limit=st.none() | LIMITS, tags=st.sampled_from(["", "a", "ab"]), veto=VETO)
    def set_up(self, number: int, limit: int | None, tags: str, veto: Veto) -> None:
        """Set limit and tags."""
        place = self.pick(number)
        wanted = 3 if limit is None and not self.models[place].is_pool else limit
        self.act(
            place,
            lambda one: one.change_settings(limit=wanted, tags=tags),
            lambda m: m.set_up(wanted, frozenset(tags), veto),
            veto,
        )

    @rule(number=NUMBER, ids=IDS)
    def set_items(self, number: int, ids: list[str]) -> None:
        """Set the items of a queue: no hook hears of it."""
        place = self.pick(number, of_pools=False)
        rows = self.made(place, ids)

        async def change(queue: Any) -> None:
            queue.items = [item_of(row) for row in rows]

        self.act(place, change, lambda m: m.refill(rows), Veto())

    # Branches, the past

    @precondition(lambda self: len(self.containers) < CONTAINERS_MAX)
    @rule(number=NUMBER, version=NUMBER, is_past=st.booleans(), limit=st.none() | LIMITS)
    def branch(self, number: int, version: int, is_past: bool, limit: int | None) -> None:
        """Branch the present, or any version of the past; no hook hears of it."""
        place = self.pick(number)
        container, versions = self.containers[place], list(self.past[place])
        chosen = versions[version % len(versions)] if is_past else container.version
        parent: Any = container.at(chosen) if is_past else container
        model = self.past[place][chosen]
        child = parent.branch() if limit is None else parent.branch(limit)
        self.take_in(child, model.branched(model.limit if limit is None else limit))
        assert self.gates[place].told == []

    @rule(number=NUMBER, version=NUMBER)
    def look_back(self, number: int, version: int) -> None:
        """Every version that was looked at shows what it showed then; at none were there more than the limit."""
        place = self.pick(number)
        container, versions = self.containers[place], list(self.past[place])
        chosen = versions[version % len(versions)]
        past = container.at(chosen)
        check_shown(past, self.past[place][chosen])
        assert sorted([*(one.content for one in past), *(left.item.content for left in past.evicted())]) == (
            self.past[place][chosen].ever()
        )
        for number in range(max(1, container.version - 20), container.version + 1):
            one = container.at(number)
            assert one.limit is None or len(one) <= one.limit

    @rule(number=NUMBER, word=st.sampled_from("xyz"))
    def give_a_name(self, number: int, word: str) -> None:
        """Name the present."""
        place = self.pick(number)
        container = self.containers[place]
        named = container.name_version(word)
        check_shown(container.at(word), self.past[place][named])
        self.settle(place)

    # Other handles

    @rule(number=NUMBER, ids=IDS, others=IDS, veto=VETO)
    def put_in_from_behind(self, number: int, ids: list[str], others: list[str], veto: Veto) -> None:
        """A handle that has not seen what came first adds behind it; its hooks are told of both."""
        place = self.pick(number)
        behind, stale = self.handle(place), self.models[place].copy()
        self.put(place, self.made(place, others[:1]), Veto())
        rows = self.made(place, ids[:1])
        model, went_through = self.models[place], False
        gate = type(self.gates[place])(behind)
        gate.veto = veto
        try:
            stale.change(veto, announced(rows))
            model.put(rows, veto)
            went_through = True
        except Refused:
            with pytest.raises(VetoError):
                self.run(put(behind, rows))
        if went_through:
            self.run(put(behind, rows))
            assert len(behind.came_between) > 0
        assert gate.told == stale.told + model.told
        self.containers[place].refresh()
        self.settle(place)

    @rule(number=NUMBER, edit=EDITS, others=IDS)
    def edit_from_behind(self, number: int, edit: str, others: list[str]) -> None:
        """It is told that another writer came first, and its view stays as it was."""
        place = self.pick(number)
        behind = self.handle(place)
        before, version, left = behind.items, behind.version, [one.born for one in behind.evicted()]
        self.put(place, self.made(place, others[:1]), Veto())
        calls: dict[str, Any] = {
            "clear": behind.clear if before else None,
            "evict": (lambda: behind.evict(behind.births[0])) if before else None,
            "set_up": lambda: behind.change_settings(limit=9, tags="z"),
            "restore": (lambda: behind.restore(left[-1])) if left else None,
            "remove": (lambda: behind.remove(before[0].id)) if before and isinstance(behind, ContextPool) else None,
        }
        if calls[edit] is None:
            return
        with pytest.raises((ConcurrencyError, InvalidInputError)):
            self.run(calls[edit]())
        assert (behind.items, behind.version) == (before, version)
        self.check(place)

    @rule(number=NUMBER, ids=IDS)
    def enqueue(self, number: int, ids: list[str]) -> None:
        """Queue changes and flush: seen at once, and in the log after it."""
        place = self.pick(number)
        model, on = self.models[place], pool_on if self.models[place].is_pool else queue_on
        queued: Any = on(self.log, self.containers[place].id, durability="enqueue")
        for row in self.made(place, ids):
            model.put([row], Veto())
            self.run(put(queued, [row]))
            check_shown(queued, model)
        self.run(queued.aflush())
        self.containers[place].refresh()
        self.settle(place)

    @rule(numbers=st.tuples(NUMBER, NUMBER), ids=st.tuples(IDS, IDS), fate=st.sampled_from(["commit", "roll back"]))
    def in_a_transaction(self, numbers: tuple[int, int], ids: tuple[list[str], list[str]], fate: str) -> None:
        """Change two containers as one, or not at all."""
        places = sorted({self.pick(number) for number in numbers})
        rows = [self.made(place, some[:1]) for place, some in zip(places, ids, strict=False)]

        async def change() -> None:
            with transaction(self.log):
                for place, batch in zip(places, rows, strict=True):
                    await put(self.containers[place], batch)
                if fate == "roll back":
                    raise ZeroDivisionError

        for place in places:
            self.gates[place].veto = Veto()
        if fate == "roll back":
            with pytest.raises(ZeroDivisionError):
                self.run(change())
        else:
            self.run(change())
            for place, batch in zip(places, rows, strict=True):
                self.models[place].put(batch, Veto())
        for place in places:
            self.settle(place)

    @precondition(lambda self: self.can_reopen)
    @rule()
    def reopen(self) -> None:
        """Close the log, open it again, and go on with new handles."""
        ids = [container.id for container in self.containers]
        self.log.close()
        self.log = self.open_log()
        for place, (context_id, model) in enumerate(zip(ids, self.models, strict=True)):
            self.containers[place] = (pool_on if model.is_pool else queue_on)(self.log, context_id)
            self.gates[place] = type(self.gates[place])(self.containers[place])
            self.check(place)


def announced(rows: list[Row]) -> Any:
    """Return a trial that tells hooks what would be, and then comes to nothing."""

    def trial(model: ContainerModel, tell: Any) -> list[Any]:
        told: list[Any] = []
        twin = model.copy()
        twin.told = told
        try:
            twin.put(rows, Veto())
        finally:
            for kind, *args in [one for one in told if not one[0].startswith("after")]:
                tell(kind, *args)
        return []

    return trial


def refusal(model: ContainerModel, rows: list[Row]) -> type[Exception] | None:
    """Return the error that restoring these items is refused with, if any."""
    ids = [row.id for row in rows]
    if model.is_pool and (len(set(ids)) < len(ids) or any(model.find(one) is not None for one in ids)):
        return InvalidInputError
    if model.limit is not None and len(rows) > model.limit:
        return LimitExceededError
    return None


def restored(model: ContainerModel, rows: list[Row], veto: Veto) -> None:
    """Put items back; where there are none nobody hears of it."""
    if rows or not model.is_pool:
        model.put(rows, veto)
