"""The contract of queues and pools that several handles write: limits hold, and no item is lost without an event."""

import asyncio
from collections.abc import Iterable
from typing import Any

import pytest

from refold.domain.log.ports import LiveLog
from refold.domain.pool.items import ContextItem

from ..domain.pool.containers import Witness, contents, gone, item, pool_on, queue_on
from .writing import at_once, check_chain

WRITERS, ITEMS = 4, 12


def check_race(log: LiveLog, container: Any, written: Iterable[str]) -> None:
    """
    Require that everything written is there or listed as gone, once, and that no version holds more than the limit.
    """
    accounted = [*contents(container), *(content for content, _ in gone(container))]
    assert sorted(accounted) == sorted(written)
    check_chain(log.read(container.stream_id))
    over = [
        version for version in range(1, container.version + 1) if len(container.at(version)) > (container.limit or 0)
    ]
    assert over == []


def texts(writer: int) -> list[str]:
    """Return what a writer writes."""
    return [f"{writer}-{number}" for number in range(ITEMS)]


ALL = [text for writer in range(WRITERS) for text in texts(writer)]


class RacingContainersContract:
    """What holds for several handles on one stream, in threads and tasks."""

    @pytest.mark.parametrize("kind", ["queue", "pool"])
    def test_threads_with_handles_of_their_own(self, log: LiveLog, kind: str) -> None:
        """Nobody is refused; each writer's items came in its order."""
        on: Any = queue_on if kind == "queue" else pool_on
        on(log, limit=3)

        async def write(writer: int) -> None:
            container = on(log)
            for text in texts(writer):
                await (container.append(ContextItem(text)) if kind == "queue" else container.add(item(text)))

        raised = at_once(*(lambda writer=writer: asyncio.run(write(writer)) for writer in range(WRITERS)))

        container = on(log)
        assert (raised, len(container)) == ([], 3)
        check_race(log, container, ALL)
        came = [one.item.content for one in container.evicted()] + contents(container)
        for writer in range(WRITERS):
            assert [text for text in came if text.startswith(f"{writer}-")] == texts(writer)

    def test_threads_share_a_handle(self, log: LiveLog) -> None:
        """Each with a loop of its own, on one object."""
        queue = queue_on(log)

        async def write(writer: int) -> None:
            for text in texts(writer):
                await queue.append(ContextItem(text))

        raised = at_once(*(lambda writer=writer: asyncio.run(write(writer)) for writer in range(WRITERS)))

        assert (raised, contents(queue)) == ([], contents(queue_on(log)))
        check_race(log, queue, ALL)

    async def test_tasks_with_handles_of_their_own(self, log: LiveLog) -> None:
        """In one loop; several items at a time, and hooks that take their time."""
        queue_on(log)
        witnesses = []

        async def pause(*_args: Any) -> None:
            await asyncio.sleep(0)

        async def write(writer: int) -> None:
            queue = queue_on(log)
            queue.before_append(pause)
            witnesses.append(Witness(queue))
            for start in range(0, ITEMS, 4):
                await queue.append(*map(ContextItem, texts(writer)[start : start + 4]))

        await asyncio.gather(*(write(writer) for writer in range(WRITERS)))

        queue = queue_on(log)
        check_race(log, queue, ALL)
        # Hooks may be asked in vain, where another came first; but what left had been told of.
        asked = {told[2] for witness in witnesses for told in witness.told if told[0] == "on_evict"}
        assert asked >= {content for content, _ in gone(queue)}

    def test_one_id_from_many_sides(self, log: LiveLog) -> None:
        """Each takes the place of the one before; every one of them stays readable."""
        pool_on(log, limit=3)

        async def write(writer: int) -> None:
            pool = pool_on(log)
            for text in texts(writer):
                await pool.add(item("same", text))

        raised = at_once(*(lambda writer=writer: asyncio.run(write(writer)) for writer in range(WRITERS)))

        pool = pool_on(log)
        assert (raised, len(pool)) == ([], 1)
        assert {how for _, how in gone(pool)} == {"replace"}
        check_race(log, pool, ALL)

    def test_items_move_from_one_to_the_other(self, log: LiveLog) -> None:
        """Each item is removed by one of several who want it; an edit that came second is done again."""
        pool = pool_on(log, limit=ITEMS)

        async def fill() -> None:
            for text in texts(0):
                await pool.add(item(text))

        asyncio.run(fill())
        taken: list[str] = []

        async def take() -> None:
            mine = pool_on(log)

            async def first(one: Any) -> str | None:
                if not one:
                    return None
                wanted = str(one.items[0].id)
                await one.remove(wanted)
                return wanted

            while (got := await mine.rebase(first)) is not None:
                taken.append(got)

        raised = at_once(*[lambda: asyncio.run(take())] * 3)

        assert (raised, sorted(taken)) == ([], sorted(texts(0)))
        assert contents(pool_on(log)) == []
