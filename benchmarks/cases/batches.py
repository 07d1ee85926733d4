"""What does an item cost when several are appended at once: a turn of four, a batch of a hundred?"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

from ..bench import CONTEXT, Bench, reopen
from ..rows import MICROSECONDS, Goal, Row
from ..subject import Subject
from ..timing import Task, measure
from ..workload import Item, items

TURN = 4


def batch(bench: Bench, database: str) -> Iterator[Row]:
    """Append turns, then batches, to a context that has items already."""
    scale = bench.scale
    base = items(scale.loaded)
    with bench.subjects(database, base=base) as subjects:
        for count, is_turn in ((TURN, True), (scale.batch, False)):
            tasks = {
                name: _task(subject, base, count, is_turn, _runs(name, count, scale.runs))
                for name, subject in subjects.items()
            }
            measured = measure(tasks, blocks=scale.blocks, openings=scale.openings)
            label = "a turn of 4 items, per item" if is_turn else f"a batch of {count} items, per item"
            yield Row(label, database, MICROSECONDS, measured, Goal(1.15 if is_turn else 2.0))


def _runs(name: str, count: int, runs: int) -> int:
    return 1 if name == "stock" else max(1, runs * TURN // count // TURN)


def _task(subject: Subject, base: list[Item], count: int, is_turn: bool, runs: int) -> Task:
    texts = itertools.cycle(base)
    write = subject.append_turn if is_turn else subject.append_batch

    def prepare() -> Any:
        some = list(itertools.islice(texts, count))
        return [subject.ready(item) for item in some] if is_turn else subject.ready_batch(some)

    def open_again() -> None:
        reopen(subject)
        subject.warm(CONTEXT)

    return Task(
        run=lambda given: write(CONTEXT, given),
        prepare=prepare,
        reopen=open_again,
        runs=runs,
        per=count,
    )
