"""
What does it cost to add an item to a full queue or pool, and does it depend on how many items were added before?

Each item evicts the oldest: two events in one commit. For comparison the same payloads go into a raw database, also in
one transaction: 64 of ours and then 64 raw, in turn. In memory nothing is kept, so raw is only the encoding. Calls are
awaited in one event loop, so the figures include the switch to a thread and back.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from refold import ContextPool, ContextQueue, PoolItem
from refold.domain.log.envelope import encode_payload

from ..bench import Bench
from ..rows import MICROSECONDS, PLAIN, Goal, Row
from ..timing import Stats, idle, of_values
from ..workload import Item, items

NAMES = ("ours", "raw")
KINDS = ("queue", "pool")
CONTEXT = "context"
TURN = 64
SHARE = 10
FLAT = Goal(1.15, absolute=True)
# The events for an item in a full container: one item leaves, and another one comes.
EVENTS = 2
Put = Callable[[PoolItem[str]], Any]
Write = Callable[[Sequence[bytes]], object]


def containers(bench: Bench, database: str) -> Iterator[Row]:
    """Fill a queue and a pool, and continue to add; compare the last tenth of the additions with the first."""
    count = bench.scale.single_appends
    for kind in KINDS:
        with bench.subjects(database, NAMES) as subjects:
            store = subjects.ours.store
            kept = getattr(store, kind)(CONTEXT, limit=count // SHARE)
            yield from _rows(kind, database, _lived(kept, partial(subjects["raw"].append_turn, CONTEXT), count))
        if database == "sqlite":
            detached: Any = ContextQueue(count // SHARE) if kind == "queue" else ContextPool(count // SHARE)
            yield from _rows(kind, "memory", _lived(detached, lambda payloads: None, count))


def _rows(kind: str, database: str, made: dict[str, list[float]]) -> Iterator[Row]:
    count = len(made["ours"])
    share = count // SHARE
    taken = {name: Stats(blocks=[times[start : start + TURN] for start in range(0, count, TURN)])
             for name, times in made.items()}  # fmt: skip
    yield Row(f"add to a full {kind} of {share:,}, {count:,} in a row", database, MICROSECONDS, taken)
    yield Row(
        f"add to a full {kind}: the last {share:,} / the first {share:,}",
        database,
        PLAIN,
        {name: of_values(_median(times[-share:]) / _median(times[:share])) for name, times in made.items()},
        FLAT,
    )


def _median(times: Sequence[float]) -> float:
    return Stats(blocks=[list(times)]).median


def _lived(container: Any, write: Write, count: int) -> dict[str, list[float]]:
    """Return the time of each of `count` additions to the full container, ours and raw."""
    put: Put = container.append if isinstance(container, ContextQueue) else container.add
    limit = container.limit
    given = [_item(item, number) for number, item in enumerate(items(limit + count))]
    made: dict[str, list[float]] = {name: [] for name in NAMES}
    with asyncio.Runner() as runner:
        runner.run(_fill(container, given[:limit]))
        for start in range(limit, limit + count, TURN):
            before = container.version
            idle()
            made["ours"] += runner.run(_timed(put, given[start : min(start + TURN, limit + count)]))
            events = [one.event for one in container.recorded_events(after=before)]
            made["raw"] += [_raw(write, events[pair : pair + EVENTS]) for pair in range(0, len(events), EVENTS)]
    return made


def _item(item: Item, number: int) -> PoolItem[str]:
    return PoolItem(item.text, item.name or item.kind, f"item-{number}")


async def _fill(container: Any, given: Sequence[PoolItem[str]]) -> None:
    if isinstance(container, ContextQueue):
        await container.append(*given)
        return
    for item in given:
        await container.add(item)


async def _timed(put: Put, given: Sequence[PoolItem[str]]) -> list[float]:
    taken: list[float] = []
    for item in given:
        start = perf_counter()
        await put(item)
        taken.append(perf_counter() - start)
    return taken


def _raw(write: Write, events: Sequence[Any]) -> float:
    start = perf_counter()
    write([encode_payload(event) for event in events])
    return perf_counter() - start
