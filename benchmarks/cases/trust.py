"""
What do keys and a witness cost in a store of 1,000,000 events, compared with the same store without them, which is
`raw`?

Every kind of store has the same events, at rest. Master keys are in memory; the witness is a file beside the database.
Rebuild and verify run in one process, because an encrypted store cannot use several.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys

from ..bench import Bench, reopen
from ..ours import Ours
from ..rows import MICROSECONDS, RATE, Goal, Row, Unit
from ..timing import Stats, Task, measure, of_values
from ..workload import items
from .large import fill

PLAIN = "plain"
LOADED = "loaded"
APPENDED = "appended"
BYTES = Unit("bytes")
APPEND_GOAL, LOAD_GOAL = Goal(1.15), Goal(1.4)
# A sync of the disk takes longer than the differences that are measured, and varies more.
APPEND_BLOCKS = 4
LONG_BLOCKS = 1


def trust(bench: Bench, database: str) -> Iterator[Row]:
    """Append to stores of each kind, load a context of them, rebuild the catalogue, and verify them."""
    count, loaded = bench.scale.logged, bench.scale.loaded
    with ExitStack() as stack:
        kinds = _stores(bench, database, stack)
        texts = items(loaded)
        for one in kinds.values():
            one.open()
            stack.callback(one.close)
            fill(one.store, count)
            one.build(LOADED, texts)
            one.build(APPENDED, texts[: bench.scale.context_items])
            one.rest()

        def rows(label: str, unit: Unit, measured: Mapping[str, Stats], goal: Goal | None = None) -> Iterator[Row]:
            for name in kinds:
                if name != PLAIN:
                    stats = {"ours": measured[name], "raw": measured[PLAIN]}
                    yield Row(f"{label}, {name}", database, unit, stats, goal)

        def timed(task: Callable[[Ours], Task], blocks: int) -> dict[str, Stats]:
            openings = 1 if blocks == LONG_BLOCKS else bench.scale.openings
            return measure({name: task(one) for name, one in kinds.items()}, blocks=blocks, openings=openings)

        blocks = bench.scale.blocks
        measured = timed(partial(_append, runs=bench.scale.runs), APPEND_BLOCKS * blocks)
        yield from rows("append 1 item", MICROSECONDS, measured, APPEND_GOAL)
        structs = timed(partial(_read, Ours.load, per=loaded), 2 * blocks)
        yield from rows(f"load {loaded:,} as Structs, per item", MICROSECONDS, structs, LOAD_GOAL)
        public = timed(partial(_read, Ours.load_public, per=loaded), 2 * blocks)
        yield from rows(f"load {loaded:,} as public items, per item", MICROSECONDS, public, LOAD_GOAL)
        events = kinds[PLAIN].store.now().events
        yield from rows(f"rebuild of the catalogue, {events:,} events, events", RATE, timed(_rebuild, LONG_BLOCKS))
        verified = {name: of_values(_verified(one) / events) for name, one in kinds.items()}
        yield from rows(f"verify, {events:,} events, events", RATE, verified)
        for one in kinds.values():
            one.close()
        sizes = {name: of_values(one.bytes_used() / events) for name, one in kinds.items()}
        yield from rows(f"bytes of an event, {events:,} events", BYTES, sizes)


def _stores(bench: Bench, database: str, stack: ExitStack) -> dict[str, Ours]:
    """Return a store of each kind, not open yet."""
    keys = MasterKeys({"m1": os.urandom(KEY_BYTES)})
    options: dict[str, dict[str, Any]] = {
        PLAIN: {},
        "keyed": {"keys": keys, "encrypt": False},
        "encrypted": {"keys": keys},
        "witness": {},
        "encrypted, witness": {"keys": keys},
    }
    places = {name: stack.enter_context(bench.location(database)) for name in options}
    # Made after the databases, because their names count the files of the folder.
    folder = Path(stack.enter_context(TemporaryDirectory(dir=bench.folder)))
    for name, given in options.items():
        if "witness" in name:
            given["witness"] = folder / name
    return {name: Ours(places[name], **given) for name, given in options.items()}


def _append(store: Ours, *, runs: int) -> Task:
    texts = itertools.cycle(items(runs))

    def open_again() -> None:
        reopen(store)
        store.warm(APPENDED)

    return Task(
        run=lambda item: store.append(APPENDED, item),
        prepare=lambda: store.ready(next(texts)),
        reopen=open_again,
        runs=runs,
    )


def _read(load: Callable[[Ours, str], object], store: Ours, *, per: int) -> Task:
    return Task(run=lambda _: load(store, LOADED), reopen=partial(reopen, store), per=per)


def _rebuild(store: Ours) -> Task:
    def rebuild(_: object) -> None:
        assert store.store.rebuild("catalogue", restart=True).is_done

    return Task(run=rebuild, reopen=partial(reopen, store), per=store.store.now().events)


def _verified(store: Ours) -> float:
    """Verify a store once, since it takes minutes; return the seconds."""
    reopen(store)
    began = perf_counter()
    assert store.store.verify(processes=1).problems == ()
    return perf_counter() - began
