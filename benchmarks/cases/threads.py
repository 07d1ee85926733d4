"""
How many items a second do the threads of one process append, each to a context of its own?

Raw threads have a connection each and take turns, one commit each. On SQLite there are two more cases: threads that do
not take turns but wait for SQLite's lock, and one thread alone.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any

from ..bench import Bench, reopen
from ..rows import RATE, Goal, Row
from ..subject import Subject, Write
from ..timing import Task, measure
from ..workload import items

NAMES = ("ours", "raw", "stock")
GOALS = {"sqlite": Goal(2, at_least=True), "postgres": Goal(0.85, at_least=True)}


def threads(bench: Bench, database: str) -> Iterator[Row]:
    """Append with several threads at once."""
    count, appends = bench.scale.writers, bench.scale.writer_appends
    with ExitStack() as stack:
        subjects = stack.enter_context(bench.subjects(database, NAMES))
        tasks = {name: _task(subject, count, appends) for name, subject in subjects.items()}
        single = stack.enter_context(bench.subjects(database, ("raw",)))
        tasks["raw single"] = _task(single["raw"], 1, count * appends)
        if database == "sqlite":
            waiting = stack.enter_context(bench.subjects(database, ("raw waiting",)))
            tasks |= {name: _task(subject, count, appends) for name, subject in waiting.items()}
        measured = measure(tasks, blocks=bench.scale.blocks, openings=bench.scale.openings)
    rivals = {name: stats for name, stats in measured.items() if name.startswith("raw ")}
    figures = {name: measured[name] for name in NAMES}
    yield Row(f"{count} threads, items", database, RATE, figures, GOALS[database])
    for name, stats in rivals.items():
        yield Row(f"{count} threads, items; {name}", database, RATE, {**figures, "raw": stats})


def _task(subject: Subject, count: int, appends: int) -> Task:
    texts = itertools.cycle(items(400))
    writers: list[Write] = []

    def open_again() -> None:
        reopen(subject)
        writers[:] = [subject.writer(f"thread-{number}") for number in range(count)]

    def prepare() -> _Crew:
        given = [[subject.ready(next(texts)) for _ in range(appends)] for _ in writers]
        return _Crew(writers, given)

    return Task(run=lambda crew: crew.work(), prepare=prepare, reopen=open_again, per=count * appends)


class _Crew:
    """Threads that are ready to write, and that start together."""

    def __init__(self, writers: Sequence[Write], given: Sequence[Sequence[Any]]) -> None:
        self._start = threading.Barrier(len(writers) + 1)
        self._errors: list[Exception] = []
        self._threads = [
            threading.Thread(target=self._write, args=(write, some)) for write, some in zip(writers, given, strict=True)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, write: Write, given: Sequence[Any]) -> None:
        self._start.wait()
        try:
            for one in given:
                write(one)
        except Exception as error:
            self._errors.append(error)

    def work(self) -> None:
        """Let them start and wait for all of them."""
        self._start.wait()
        for thread in self._threads:
            thread.join()
        if self._errors:
            raise self._errors[0]
