"""
What does it cost to append one item to a context that has N already, and does it depend on N?

Every N has a separate database; all of them take turns. The context is loaded, as in an agent that reads it. For an N
of at most a hundred, each block of runs begins with a new context, because the runs would change N much.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import ExitStack

from ..bench import ALL, Bench, reopen
from ..rows import MICROSECONDS, PLAIN, Goal, Row
from ..subject import Subject
from ..timing import Task, measure, ratio
from ..workload import Item, items

GOALS = {("sqlite", 10_000): Goal(1.25), ("postgres", 10_000): Goal(1.25)}
FLAT = Goal(1.15, absolute=True)
FEW = 100


def append(bench: Bench, database: str) -> Iterator[Row]:
    """Append to contexts of all lengths; then compare the longest with the shortest."""
    scale = bench.scale
    base = items(max(scale.lengths))
    with ExitStack() as stack:
        tasks: dict[str, Task] = {}
        for length in scale.lengths:
            for name, subject in stack.enter_context(bench.subjects(database)).items():
                tasks[f"{name} {length}"] = _task(subject, base[:length], _runs(name, length, scale.runs))
        measured = measure(tasks, blocks=scale.blocks, openings=scale.openings)
    for length in scale.lengths:
        stats = {name: measured[f"{name} {length}"] for name in ALL}
        yield Row(f"append 1 item at N = {length:,}", database, MICROSECONDS, stats, GOALS.get((database, length)))
    shortest, longest = scale.lengths[0], scale.lengths[-1]
    yield Row(
        f"append at N = {longest:,} / at N = {shortest:,}",
        database,
        PLAIN,
        {name: ratio(measured[f"{name} {longest}"], measured[f"{name} {shortest}"]) for name in ALL},
        FLAT,
    )


def _runs(name: str, length: int, runs: int) -> int:
    """The aggregate is read before each append, so only a few runs are made."""
    return runs if name != "stock" or length <= FEW else max(1, min(runs, 10_000 // length))


def _task(subject: Subject, base: list[Item], runs: int) -> Task:
    contexts = (f"context-{number}" for number in itertools.count())
    texts = itertools.cycle(base)
    context = ""

    def new_context() -> None:
        nonlocal context
        if not context or len(base) <= FEW:
            context = next(contexts)
            subject.build(context, base)
        subject.warm(context)

    def open_again() -> None:
        new_context()
        reopen(subject)
        subject.warm(context)

    return Task(
        run=lambda given: subject.append(context, given),
        prepare=lambda: subject.ready(next(texts)),
        reopen=open_again,
        start_block=new_context,
        runs=runs,
    )
