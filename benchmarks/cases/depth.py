"""
What do a fork and a view cost at a fork depth of a hundred, compared with the same items in one context?

The items are spread over the root and the forks. The bare database reads a hundred and one ranges, one after the other;
Refold reads the ranges in the lineage of the fork.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ..bench import Bench, reopen
from ..fork_bytes import BYTES, fork_bytes
from ..forks import copy_streams, fork_tasks, grow
from ..ours import Ours
from ..rows import MICROSECONDS, PLAIN, Goal, Row
from ..subject import Subject
from ..timing import Stats, Task, measure, ratio
from ..workload import items

NAMES = ("ours", "raw")
FLAT = "flat"
DEPTH = 100
COST = Goal(1.3)
SMALL = Goal(1_024, absolute=True)
VIEW = Goal(1.25, absolute=True)


def depth(bench: Bench, database: str) -> Iterator[Row]:
    """Fork the last of the forks, count the bytes, and read there."""
    scale = bench.scale
    generations = min(DEPTH, scale.loaded // 10)
    base = items(scale.loaded)
    with bench.subjects(database, NAMES) as subjects:
        ours, raw = subjects.ours, subjects["raw"]
        contexts = grow(ours, generations, base)
        copy_streams(ours, raw, contexts)
        for subject in subjects.values():
            subject.build(FLAT, base)
        views = measure(_views(ours, raw, contexts, scale.loaded), blocks=2 * scale.blocks, openings=scale.openings)
        tasks = fork_tasks(subjects, contexts[-1], base, scale.runs)
        forks = measure(tasks, blocks=scale.blocks, openings=scale.openings)
    yield Row(f"fork and 1 item at depth {generations}", database, MICROSECONDS, forks, COST)
    with bench.subjects(database, NAMES) as subjects:
        ours = subjects.ours
        used = fork_bytes(ours, subjects["raw"], grow(ours, generations, base), scale.loaded)
    yield Row(f"bytes of a fork and 1 item at depth {generations}", database, BYTES, used, SMALL)
    yield from _view_rows(database, f"view of {scale.loaded:,} at fork depth {generations}", views)


def _views(ours: Ours, raw: Subject, contexts: Sequence[str], count: int) -> dict[str, Task]:
    return {
        "ours": Task(run=lambda _: ours.load(contexts[-1]), reopen=partial(reopen, ours), per=count),
        "raw": Task(run=lambda _: [raw.load(one) for one in contexts], reopen=partial(reopen, raw), per=count),
        "ours flat": Task(run=lambda _: ours.load(FLAT), reopen=partial(reopen, ours), per=count),
        "raw flat": Task(run=lambda _: raw.load(FLAT), reopen=partial(reopen, raw), per=count),
    }


def _view_rows(database: str, label: str, views: dict[str, Stats]) -> Iterator[Row]:
    yield Row(f"{label}, per item", database, MICROSECONDS, {name: views[name] for name in NAMES})
    ratios = {name: ratio(views[name], views[f"{name} flat"]) for name in NAMES}
    yield Row(f"{label} / flat", database, PLAIN, ratios, VIEW)
