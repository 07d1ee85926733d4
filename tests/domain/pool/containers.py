"""Queues and pools to try things on, and a witness who writes down what their hooks are told."""

import functools
from typing import Any

from refold.domain.context.context import attachment_of
from refold.domain.context.folded_stream import Durability
from refold.domain.hooks.hook import ContextPoolHook, ContextQueueHook, Hook
from refold.domain.log.ports import LiveLog
from refold.domain.pool.events import PoolOpened, QueueOpened
from refold.domain.pool.items import ContextItem
from refold.domain.pool.pool import ContextPool
from refold.domain.pool.queue import ContextQueue
from refold.domain.pool.rules import POOLS, QUEUES, Begin
from refold.infrastructure.context_streams import Opening, open_journal

Container = ContextQueue[Any] | ContextPool[Any]


def item(item_id: str, content: Any = None) -> ContextItem[Any]:
    """Return an item for a pool; it holds its own id unless a content is given."""
    return ContextItem(item_id if content is None else content, f"about {item_id}", item_id)


async def queue_of(limit: int, *contents: Any) -> ContextQueue[Any]:
    """Return a detached queue that holds these."""
    queue: ContextQueue[Any] = ContextQueue(limit)
    await queue.append(*map(ContextItem, contents))
    return queue


async def pool_of(ids: str, limit: int | None = None) -> ContextPool[Any]:
    """Return a detached pool with an item for each letter."""
    pool: ContextPool[Any] = ContextPool(limit)
    for item_id in ids:
        await pool.add(item(item_id))
    return pool


def queue_on(
    log: LiveLog, context_id: str = "a", *, limit: int = 3, durability: Durability = "commit"
) -> ContextQueue[Any]:
    """Return a queue on a log, opened or created as a store does it."""
    opening = Opening("queue", QUEUES, QueueOpened(limit=limit), Begin)
    journal = open_journal(log, context_id, opening, create=True, durability=durability, unflushed=set())
    return ContextQueue.standing_on(journal, attachment_of(journal))


def pool_on(
    log: LiveLog, context_id: str = "a", *, limit: int | None = None, durability: Durability = "commit"
) -> ContextPool[Any]:
    """Return a pool on a log."""
    opening = Opening("pool", POOLS, PoolOpened(limit=limit), Begin)
    journal = open_journal(log, context_id, opening, create=True, durability=durability, unflushed=set())
    return ContextPool.standing_on(journal, attachment_of(journal))


def contents(container: Any) -> list[Any]:
    """Return what the items of a container hold, in order."""
    return [one.content for one in container.items]


def events(container: Any, after: int = 1) -> list[str]:
    """Return what was recorded of a container, the first event apart: the names of the events."""
    return [type(one.event).__name__ for one in container.recorded_events(after=after)]


def gone(container: Any) -> list[tuple[Any, str]]:
    """Return what left a container, and how."""
    return [(left.item.content, left.how) for left in container.evicted()]


class VetoError(Exception):
    """What a witness raises."""


class Witness:
    """Stands at all hooks of a container, writes down what they are given, and raises where it is told to."""

    def __init__(self, *containers: Container) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.refuses: set[str] = set()
        for container in containers:
            kinds: Any = ContextQueueHook if isinstance(container, ContextQueue) else ContextPoolHook
            container.hooks += [Hook(self._at(kind.value), kind) for kind in kinds]

    def _at(self, kind: str) -> Any:
        @functools.wraps(self._see)
        async def see(*args: Any) -> None:
            await self._see(kind, *args)

        return see

    async def _see(self, kind: str, *args: Any) -> None:
        """Write one call down: each container as what it shows, each item as what it holds."""
        self.told.append((kind, *map(_plain, args)))
        if kind in self.refuses:
            raise VetoError(kind)

    @property
    def kinds(self) -> list[str]:
        """The types of hooks that were called, in order."""
        return [told[0] for told in self.told]


def _plain(value: Any) -> Any:
    if isinstance(value, ContextItem):
        return value.content
    if isinstance(value, ContextQueue | ContextPool):
        return "".join(map(str, contents(value)))
    return [_plain(one) for one in value] if isinstance(value, list) else value
