"""
What does it cost to read: a whole view, as Structs and as public items, its last items, and its past?

Every run opens the context again in an open store, so no part of it is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ..bench import ALL, CONTEXT, Bench, Subjects, reopen
from ..rows import MICROSECONDS, MILLISECONDS, Goal, Row
from ..subject import Subject
from ..timing import Stats, Task, measure
from ..workload import items

READ_BLOCKS = 2
Read = Callable[[Subject], object]


def load(bench: Bench, database: str) -> Iterator[Row]:
    """Load a context, as Structs and as public items."""
    count = bench.scale.loaded
    with bench.subjects(database, base=items(count)) as subjects:
        structs = _measure(bench, subjects, lambda subject: subject.load(CONTEXT), per=count)
        public = _measure(bench, subjects, lambda subject: subject.load_public(CONTEXT), per=count)
    yield Row(f"load {count:,} as Structs, per item", database, MICROSECONDS, structs, Goal(1.6))
    yield Row(f"load {count:,} as public items, per item", database, MICROSECONDS, public, Goal(2.5))


def tail(bench: Bench, database: str) -> Iterator[Row]:
    """Read the last items of a long context."""
    count, last = bench.scale.long, bench.scale.tail
    with bench.subjects(database, base=items(count)) as subjects:
        measured = _measure(
            bench, subjects, lambda subject: subject.tail(CONTEXT, last), blocks=1, runs=bench.scale.runs
        )
    yield Row(f"last {last} of {count:,}", database, MILLISECONDS, measured, Goal(2, absolute=True))


def past(bench: Bench, database: str) -> Iterator[Row]:
    """Read the first half of a context, by its version."""
    half = bench.scale.loaded // 2
    with bench.subjects(database, base=items(2 * half)) as subjects:
        measured = _measure(bench, subjects, lambda subject: subject.load_until(CONTEXT, half), per=half)
    yield Row(f"view as of {half:,} of {2 * half:,}, per item", database, MICROSECONDS, measured, Goal(1.6))


def _measure(
    bench: Bench, subjects: Subjects, read: Read, *, blocks: int = READ_BLOCKS, per: int = 1, runs: int = 1
) -> dict[str, Stats]:
    tasks = {
        name: Task(
            run=lambda _, subject=subjects[name]: read(subject),  # type: ignore[misc]
            reopen=partial(reopen, subjects[name]),
            runs=1 if name == "stock" else runs,
            per=per,
        )
        for name in ALL
    }
    return measure(tasks, blocks=blocks * bench.scale.blocks, openings=bench.scale.openings)
