"""
How many items a second do several processes append, each to a context of its own in one store?

On PostgreSQL also where all contexts belong to one session, and so to one slice.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Iterator
from contextlib import closing
from multiprocessing.synchronize import Barrier, Event, Lock
from typing import Any

from ..bench import Bench, make_subject
from ..rows import RATE, Goal, Row
from ..subject import SHARED, Subject
from ..timing import Task, idle, measure
from ..workload import items

NAMES = ("ours", "raw", "stock")
WAIT_SECONDS_MAX = 120
IN_ONE_SESSION = Goal(0.5, at_least=True)


def processes(bench: Bench, database: str) -> Iterator[Row]:
    """Append with several processes at once."""
    yield _row(bench, database, f"{bench.scale.writers} processes, items", "process-", None)
    if database == "postgres":
        yield _row(bench, database, f"{bench.scale.writers} processes, one session, items", SHARED, IN_ONE_SESSION)


def _row(bench: Bench, database: str, label: str, prefix: str, goal: Goal | None) -> Row:
    count, appends = bench.scale.writers, bench.scale.writer_appends
    with bench.subjects(database, NAMES) as subjects:
        crews = {name: _Crew(subject, count, appends, prefix) for name, subject in subjects.items()}
        try:
            tasks = {
                name: Task(run=crew.work, prepare=crew.gather, settle=crew.settle, per=count * appends)
                for name, crew in crews.items()
            }
            measured = measure(tasks, blocks=bench.scale.blocks * bench.scale.openings)
        finally:
            for crew in crews.values():
                crew.dismiss()
    for stats in measured.values():
        # It would be that of this process, which only waits.
        stats.processor.clear()
    return Row(label, database, RATE, measured, goal)


class _Crew:
    """Processes that open one store, and write a block each time they are told to."""

    def __init__(self, subject: Subject, count: int, appends: int, prefix: str) -> None:
        context: Any = multiprocessing.get_context("spawn")
        self._opening: Lock = context.Lock()
        self._step: Barrier = context.Barrier(count + 1)
        self._over: Event = context.Event()
        shared = (subject.name, subject.location, appends, self._opening, self._step, self._over)
        names = [f"{prefix}{number}" for number in range(count)]
        self._processes = [context.Process(target=_write, args=(one, *shared)) for one in names]
        for process in self._processes:
            process.start()

    def gather(self) -> None:
        """Wait until all of them have opened the store and have something to write in hand."""
        self._step.wait(WAIT_SECONDS_MAX)

    def work(self, _: object) -> None:
        """Let them write one block."""
        self._step.wait(WAIT_SECONDS_MAX)
        self._step.wait(WAIT_SECONDS_MAX)

    def settle(self) -> None:
        """Wait until they have finished what they leave to threads of their own."""
        self._step.wait(WAIT_SECONDS_MAX)

    def dismiss(self) -> None:
        """Let them end."""
        self._over.set()
        if not self._step.broken:
            self._step.wait(WAIT_SECONDS_MAX)
        for process in self._processes:
            process.join(WAIT_SECONDS_MAX)


def _write(chat: str, name: str, location: str, appends: int, opening: Lock, step: Barrier, over: Event) -> None:
    texts = itertools.cycle(items(400))
    subject = make_subject(name, location)
    try:
        # The stock package replaces its functions whenever it is opened, which PostgreSQL refuses to two at once.
        with opening:
            subject.open()
        with closing(subject):
            write = subject.writer(chat)
            while True:
                given = [subject.ready(next(texts)) for _ in range(appends)]
                step.wait(WAIT_SECONDS_MAX)
                if over.is_set():
                    return
                step.wait(WAIT_SECONDS_MAX)
                for one in given:
                    write(one)
                step.wait(WAIT_SECONDS_MAX)
                idle()
                step.wait(WAIT_SECONDS_MAX)
    except BaseException:
        # Nobody waits for a process that is gone.
        step.abort()
        raise
