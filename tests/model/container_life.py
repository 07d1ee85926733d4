"""What a random life of queues and pools stands on: containers, their models, and comparing them."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from refold.domain.hooks.hook import ContextPoolHook, ContextQueueHook, Hook
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.domain.pool.state import EMPTY, complete, fold

from ..domain.pool.containers import VetoError, pool_on, queue_on
from .container_model import ContainerModel, Refused, Row, Told, Veto
from .lives import LogLife

CONTAINERS_MAX = 6
LIMITS = st.integers(1, 5)
NUMBER = st.integers(0, 1_000)
# Ids of a pool's items, few, so that they meet.
IDS = st.lists(st.integers(0, 4).map(lambda number: f"k{number}"), min_size=1, max_size=4)
SOME = st.lists(NUMBER, min_size=1, max_size=3)
KINDS = [kind.value for kind in (*ContextQueueHook, *ContextPoolHook) if not kind.value.startswith("after")]
VETO = st.just(Veto()) | st.builds(Veto, st.sampled_from(KINDS), st.integers(0, 3))
Container = ContextQueue[Any] | ContextPool[Any]


class Gate:
    """Stands at all hooks of a container: writes down what they are told, takes its time, and says no where it must."""

    def __init__(self, container: Container) -> None:
        self.told: list[Told] = []
        self.veto = Veto()
        kinds: Any = ContextQueueHook if isinstance(container, ContextQueue) else ContextPoolHook
        container.hooks = [Hook(self._at(kind.value), kind) for kind in kinds]

    def _at(self, kind: str) -> Any:
        async def see(*args: Any) -> None:
            told = [_plain(one) for one in args]
            self.told.append((kind, *told))
            await asyncio.sleep(0)
            if self.veto(kind, told):
                raise VetoError(kind)

        return see


class ContainerLife(LogLife):
    """Queues and pools of one log, each with a model."""

    @initialize(limit=LIMITS, pool_limit=st.none() | LIMITS)
    def begin(self, limit: int, pool_limit: int | None) -> None:
        """Open a queue and a pool; the others branch off them."""
        self.loop = asyncio.new_event_loop()
        self.begin_life()
        self.items_made = 0
        self.containers: list[Container] = []
        self.models: list[ContainerModel] = []
        self.gates: list[Gate] = []
        # What each was, by version.
        self.past: list[dict[int, ContainerModel]] = []
        self.take_in(queue_on(self.log, self.life, limit=limit), ContainerModel(False, limit))
        self.take_in(pool_on(self.log, self.life, limit=pool_limit), ContainerModel(True, pool_limit))

    def teardown(self) -> None:
        """Close the log, and the loop with its threads."""
        if hasattr(self, "log"):
            super().teardown()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()

    def take_in(self, container: Container, model: ContainerModel) -> None:
        """Take a new container in, and compare it at once."""
        self.containers.append(container)
        self.models.append(model)
        self.gates.append(Gate(container))
        self.past.append({container.version: model.copy()})
        self.check(len(self.containers) - 1)

    def pick(self, number: int, *, of_pools: bool | None = None) -> int:
        """Return the place of the container with a number, of one kind if wanted."""
        places = [place for place, model in enumerate(self.models) if of_pools in (None, model.is_pool)]
        return places[number % len(places)]

    def handle(self, place: int) -> Any:
        """Return another handle on a container."""
        on: Any = pool_on if self.models[place].is_pool else queue_on
        return on(self.log, self.containers[place].id)

    def made(self, place: int, ids: Sequence[str]) -> list[Row]:
        """Return new items for a container."""
        self.items_made += len(ids)
        numbers = range(self.items_made - len(ids), self.items_made)
        is_pool = self.models[place].is_pool
        return [Row(f"i{number}", item_id if is_pool else None) for number, item_id in zip(numbers, ids, strict=True)]

    def run(self, work: Awaitable[Any]) -> Any:
        """Await something in this life's loop."""
        return self.loop.run_until_complete(_awaited(work))

    def act(
        self, place: int, change: Callable[[Any], Awaitable[Any]], expect: Callable[[ContainerModel], None], veto: Veto
    ) -> None:
        """Change a container and its model: both do it, or a hook of both says no."""
        container, model, gate = self.containers[place], self.models[place], self.gates[place]
        gate.veto = veto
        version = container.version
        try:
            expect(model)
        except Refused:
            with pytest.raises(VetoError):
                self.run(change(container))
            assert container.version == version
        else:
            self.run(change(container))
        assert gate.told == model.told
        self.settle(place)

    def put(self, place: int, rows: Sequence[Row], veto: Veto) -> None:
        """Put items into a container and its model."""
        self.act(place, lambda one: put(one, rows), lambda model: model.put(rows, veto), veto)

    def settle(self, place: int) -> None:
        """Forget what was told, keep what is now for later, and compare."""
        self.gates[place].told, self.models[place].told = [], []
        self.past[place][self.containers[place].version] = self.models[place].copy()
        self.check(place)

    def check(self, place: int) -> None:
        """Compare a container with its model, with another handle, and with a fold of its events."""
        container, model = self.containers[place], self.models[place]
        check_shown(container, model)
        again = self.handle(place)
        assert again.shown_state == container.shown_state
        assert fold(EMPTY, complete(self.log, self.log.read_events(container.stream_id))) == container.shown_state
        left = [(one.item.content, one.how, one.reason) for one in again.evicted()]
        assert left == [(one.row.content, one.how, one.reason) for one in model.gone]

    @invariant()
    def nobody_else_changed(self) -> None:
        """Whatever was done to one of them, all show what they should."""
        for container, model in zip(getattr(self, "containers", []), getattr(self, "models", []), strict=True):
            check_shown(container, model)
            assert model.limit is None or len(container) <= model.limit


def check_shown(container: Any, model: ContainerModel) -> None:
    """Compare all that a container shows with a model."""
    assert [(one.content, one.id) for one in container.items] == model.rows
    assert (container.limit, container.tags, len(container)) == (model.limit, model.tags, len(model.rows))
    if model.is_pool:
        assert container.catalogue() == "\n".join(f"- [{row.id}] about" for row in model.rows)
        assert all(row.id in container and container[row.id].content == row.content for row in model.rows)
    else:
        assert container.history() == "\n".join(model.shown())


def item_of(row: Row) -> ContextItem[str]:
    """Return the item that a row stands for."""
    return ContextItem(row.content, "about", row.id)


async def put(container: Any, rows: Sequence[Row]) -> None:
    """Put items in: together where it can be."""
    if isinstance(container, ContextPool):
        for row in rows:
            await container.add(item_of(row))
    else:
        await container.append(*map(item_of, rows))


async def _awaited(work: Awaitable[Any]) -> Any:
    return await work


def _plain(value: Any) -> Any:
    if isinstance(value, ContextItem):
        return value.content
    if isinstance(value, dict):
        return [one.content for one in value.values()]
    return [one.content for one in value]
