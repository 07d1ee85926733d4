"""Random lives of queues and pools that branch off each other and merge each other."""

from __future__ import annotations

import random
from typing import Any

import pytest

import refold
from refold.domain.pool.items import ContextItem
from refold.infrastructure.store import Store

RULES: list[Any] = ["ours", "theirs", "newest", lambda *_: ContextItem("both", "both")]


class Life:
    """What happens to some containers of a kind, the same for the same seed; nothing that left is restored."""

    def __init__(self, store: Store, kind: str, seed: int) -> None:
        self._store, self._kind, self._chance = store, kind, random.Random(seed)
        self._numbers = iter(range(1_000))
        self.all: list[Any] = [getattr(store, kind)("0", limit=4)]
        # The origins of all items that each of them, or what it branched off, ever held.
        self._ever: list[set[str]] = [set()]

    async def step(self) -> None:
        """Do one thing to one of them."""
        place = self._chance.randrange(len(self.all))
        one, number = self.all[place], next(self._numbers)
        match self._chance.choice(["put", "put", "leave", "branch", "merge", "merge"]):
            case "put" if self._kind == "pool":
                await one.add(ContextItem(number, "about", self._chance.choice("abcd")))
            case "put":
                await one.append(ContextItem(number))
            case "leave" if len(one):
                await one.evict(self._chance.choice(one.births))
            case "branch" if len(self.all) < 5:
                self.all.append(one.branch(f"b{number}", limit=self._chance.choice([2, 3, 9])))
                self._ever.append(set(self._ever[place]))
            case "merge":
                await self._merge(place, self._chance.choice(self.all))
        for held, container in zip(self._ever, self.all, strict=True):
            held.update(container.births)

    async def _merge(self, place: int, there: Any) -> None:
        here, rule = self.all[place], self._chance.choice(RULES)
        if here is there:
            return
        before = set(here.births)
        await (here.merge(there, rule=rule) if self._kind == "pool" else here.merge(there))
        assert not (set(here.births) - before) & self._ever[place], "it was here before, and left"

    def check(self) -> None:
        """Each is read as it is."""
        for one in self.all:
            assert getattr(self._store, self._kind)(one.id, create=False).shown_state == one.shown_state


@pytest.mark.parametrize("kind", ["queue", "pool"])
@pytest.mark.parametrize("seed", range(3))
async def test_what_left_does_not_come_back(kind: str, seed: int) -> None:
    """However they branched and merged before, with room or without; and all of it is read again as it was."""
    with refold.open(":memory:") as store:
        life = Life(store, kind, seed)
        for _ in range(60):
            await life.step()
        life.check()
