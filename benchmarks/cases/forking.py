"""
What does a fork with one item cost, in time and in bytes, and does it depend on N?

The parent is loaded, as in an agent that reads it. A fork of a parent that must be read first is a separate row.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial

from ..bench import CONTEXT, Bench, reopen
from ..fork_bytes import BYTES, fork_bytes
from ..forks import fork_once, fork_tasks, grow
from ..rows import MICROSECONDS, MILLISECONDS, PLAIN, Goal, Row
from ..timing import Stats, Task, measure, ratio
from ..workload import items

NAMES = ("ours", "raw")
COST = Goal(1.3)
COST_FROM = 1_000
FLAT = Goal(1.15, absolute=True)
SMALL = Goal(1_024, absolute=True)


def fork(bench: Bench, database: str) -> Iterator[Row]:
    """Fork contexts of all lengths; compare the longest with the shortest; fork one that is not loaded; count bytes."""
    lengths, count = bench.scale.lengths, bench.scale.loaded
    measured = _measured(bench, database)
    for length in lengths:
        stats = {name: measured[f"{name} {length}"] for name in NAMES}
        goal = COST if length > COST_FROM else None
        yield Row(f"fork and 1 item at N = {length:,}", database, MICROSECONDS, stats, goal)
    ratios = {name: ratio(measured[f"{name} {lengths[-1]}"], measured[f"{name} {lengths[0]}"]) for name in NAMES}
    yield Row(f"fork at N = {lengths[-1]:,} / at N = {lengths[0]:,}", database, PLAIN, ratios, FLAT)
    yield _unloaded(bench, database)
    with bench.subjects(database, NAMES) as subjects:
        ours = subjects.ours
        used = fork_bytes(ours, subjects["raw"], grow(ours, 0, items(count)), count)
    yield Row(f"bytes of a fork and 1 item at N = {count:,}", database, BYTES, used, SMALL)


def _measured(bench: Bench, database: str) -> dict[str, Stats]:
    scale = bench.scale
    base = items(max(scale.lengths))
    with ExitStack() as stack:
        tasks: dict[str, Task] = {}
        for length in scale.lengths:
            subjects = stack.enter_context(bench.subjects(database, NAMES, base[:length]))
            for name, task in fork_tasks(subjects, CONTEXT, base, scale.runs).items():
                tasks[f"{name} {length}"] = task
        return measure(tasks, blocks=scale.blocks, openings=scale.openings)


def _unloaded(bench: Bench, database: str) -> Row:
    """The first fork of a context that this process has not read yet; the bare database has nothing to read."""
    count = bench.scale.loaded
    base = items(count)
    with bench.subjects(database, NAMES, base) as subjects:
        ours = subjects.ours
        tasks = fork_tasks(subjects, CONTEXT, base, runs=1)
        tasks["ours"] = Task(
            run=lambda item: fork_once(ours.store.chat(CONTEXT), item),
            prepare=partial(next, itertools.cycle(base)),
            reopen=partial(reopen, ours),
        )
        measured = measure(tasks, blocks=2 * bench.scale.blocks, openings=bench.scale.openings)
    return Row(f"first fork and 1 item of an unloaded {count:,}", database, MILLISECONDS, measured)
