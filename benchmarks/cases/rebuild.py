"""
How fast is a projection made anew from the whole log?

Ours reads and checks every event, folds the catalogue and stores its rows and checkpoints; raw only reads and
decodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from ..bench import Bench, reopen
from ..rows import RATE, Goal, Row
from ..timing import Task, measure
from ..workload import items

__all__ = ["rebuild"]

NAMES = ("ours", "raw", "stock")


def rebuild(bench: Bench, database: str) -> Iterator[Row]:
    """
    Rebuild the catalogue of many contexts.
    """
    scale = bench.scale
    texts = items(scale.contexts * scale.context_items)
    with bench.subjects(database, NAMES) as subjects:
        for number in range(scale.contexts):
            some = texts[number * scale.context_items : (number + 1) * scale.context_items]
            for subject in subjects.values():
                subject.build(f"context-{number}", some)
        tasks = {
            name: Task(
                run=lambda _, subject=subject: subject.rebuild(),  # type: ignore[misc]
                reopen=partial(reopen, subject),
                per=len(texts),
            )
            for name, subject in subjects.items()
        }
        measured = measure(tasks, blocks=2, openings=scale.openings)
    label = f"rebuild of {scale.contexts} x {scale.context_items} items, events"
    yield Row(label, database, RATE, measured, Goal(0.7, at_least=True))
