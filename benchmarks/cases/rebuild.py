"""
How fast is a projection rebuilt from the whole log, and how much memory does this take?

Ours reads and checks every event, folds the catalogue and stores its rows and checkpoints; raw reads and decodes all
events, counts them by context and stores these rows. Both logs are at rest: all events that are sealed later are sealed
already.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from functools import partial
from typing import cast

from ..bench import Bench, Subjects, reopen
from ..ours import Ours
from ..rebuilding import memory_of
from ..rows import PLAIN, RATE, Goal, Row
from ..stock import Stock
from ..subject import Subject
from ..timing import Stats, Task, measure, of_values
from ..workload import Item, items

NAMES = ("ours", "raw", "stock")
FAST, TENFOLD, SMALL = Goal(0.7, at_least=True), Goal(10, at_least=True, absolute=True), Goal(200, absolute=True)
FOLLOWING = Goal(5_000, at_least=True, absolute=True)
FOLLOWED_EVENTS, FOLLOWED_CONTEXTS = 20_000, 40
# The number of events that the stock projection folds: it takes long, and the same time for each event.
STOCK_EVENTS = 5_000


def rebuild(bench: Bench, database: str) -> Iterator[Row]:
    """Rebuild the catalogue of many contexts, by one process and by all cores."""
    scale = bench.scale
    texts = items(scale.contexts * scale.context_items)
    with bench.subjects(database, NAMES) as subjects:
        _fill(subjects, texts, scale.contexts, repeated=1)
        stock_events = min(STOCK_EVENTS, len(texts))
        tasks = {
            "ours": _task(subjects["ours"], len(texts)),
            "raw": _task(subjects["raw"], len(texts)),
            "stock": Task(lambda _: cast(Stock, subjects["stock"]).project(stock_events), per=stock_events),
        }
        measured = measure(tasks, blocks=2, openings=scale.openings)
    label = f"rebuild of {scale.contexts} x {scale.context_items} items"
    yield Row(f"{label}, events", database, RATE, measured, FAST)
    times = {"ours": _times(measured, "ours"), "raw": _times(measured, "raw")}
    yield Row(f"{label}, x the stock projection", database, PLAIN, times, TENFOLD)
    yield from _following(bench, database, texts[:FOLLOWED_EVENTS])
    yield from _large(bench, database, texts)


def _following(bench: Bench, database: str, texts: list[Item]) -> Iterator[Row]:
    """All projections of a store at once, from the beginning: a worker must be faster than the writers."""
    with bench.subjects(database, NAMES[:2]) as subjects:
        _fill(subjects, texts, min(bench.scale.contexts, FOLLOWED_CONTEXTS), repeated=1)
        ours = subjects.ours
        tasks = {
            "ours": Task(run=lambda _: ours.follow(), reopen=partial(reopen, ours), per=len(texts)),
            "raw": _task(subjects["raw"], len(texts)),
        }
        measured = measure(tasks, blocks=2)
    yield Row(f"all projections, {len(texts):,} events, by one process, events", database, RATE, measured, FOLLOWING)


def _large(bench: Bench, database: str, texts: list[Item]) -> Iterator[Row]:
    """A log of the same contexts again and again, until it has as many events as a large one."""
    repeated = max(1, bench.scale.logged // len(texts))
    events = repeated * len(texts)
    with bench.subjects(database, NAMES[:2]) as subjects:
        _fill(subjects, texts, bench.scale.contexts, repeated=repeated)
        memory = {name: of_values(memory_of(name, subject.location)) for name, subject in subjects.items()}
        yield Row(f"memory of a rebuild of {events:,} events, MiB", database, PLAIN, memory, SMALL)
        cores = os.cpu_count() or 1
        # The new process gets no threads and no locks of this process, as it would by a fork.
        with ProcessPoolExecutor(cores, mp_context=multiprocessing.get_context("spawn")) as executor:
            tasks = {
                "ours": _task(subjects["ours"], events, executor),
                "raw": _task(subjects["raw"], events),
            }
            measured = measure(tasks, blocks=2)
    yield Row(f"rebuild of {events:,} items by {cores} processes, events", database, RATE, measured, FAST)


def _fill(subjects: Subjects, texts: list[Item], contexts: int, *, repeated: int) -> None:
    size = len(texts) // contexts
    for number in range(contexts * repeated):
        start = number % contexts * size
        for subject in subjects.values():
            subject.build(f"context-{number}", texts[start : start + size])
    subjects.ours.rest()


def _task(subject: Subject, events: int, executor: Executor | None = None) -> Task:
    run = subject.rebuild if executor is None else partial(cast(Ours, subject).rebuild_by, executor)
    return Task(run=lambda _: run(), reopen=partial(reopen, subject), per=events)


def _times(measured: dict[str, Stats], name: str) -> Stats:
    """How many times as fast as the stock projection."""
    return of_values(measured["stock"].median / measured[name].median)
