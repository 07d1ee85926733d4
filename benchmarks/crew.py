"""Processes that write to one store on request, each with separate contestants."""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Sequence
from contextlib import closing
from multiprocessing.connection import Connection
from time import process_time
from typing import Any

from . import timing
from .bench import make_subject
from .subject import Subject
from .workload import items

WAIT_SECONDS_MAX = 300


class Crew:
    """Processes that open one store; at each request the first few of them write a block."""

    def __init__(self, subject: Subject, count: int) -> None:
        context: Any = multiprocessing.get_context("spawn")
        # The processor time of each block, per item.
        self.spent: list[float] = []
        self._items = 0
        self._pipes: list[Connection] = []
        self._writing: Sequence[Connection] = ()
        self._processes = []
        for _ in range(count):
            here, there = context.Pipe()
            self._pipes.append(here)
            process = context.Process(target=_write, args=(there, subject.name, subject.location, timing.IDLE_SECONDS))
            self._processes.append(process)
            process.start()
            there.close()
        # One after the other: the stock package replaces its functions whenever it is opened, and PostgreSQL refuses
        # this to two processes at the same time.
        for pipe in self._pipes:
            _ask([pipe], "open")

    def gather(self, contexts: Sequence[Sequence[str]], appends: int) -> None:
        """Let one process for each entry open its contexts, and prepare items to write."""
        self._writing, self._items = self._pipes[: len(contexts)], len(contexts) * appends
        for pipe, some in zip(self._writing, contexts, strict=True):
            pipe.send((some, appends))
        _answers(self._writing)

    def work(self, _: object) -> None:
        """Let them write one block."""
        _ask(self._writing, "write")

    def settle(self) -> None:
        """Wait until their background threads have finished."""
        self.spent.append(sum(_ask(self._writing, "rest")) / self._items)

    def close(self) -> None:
        """End them."""
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(WAIT_SECONDS_MAX)


def _ask(pipes: Sequence[Connection], task: str) -> list[float]:
    for pipe in pipes:
        pipe.send(task)
    return _answers(pipes)


def _answers(pipes: Sequence[Connection]) -> list[float]:
    answers: list[float] = []
    for pipe in pipes:
        if not pipe.poll(WAIT_SECONDS_MAX):
            raise TimeoutError(f"a writer has not answered for {WAIT_SECONDS_MAX} seconds")
        answers.append(pipe.recv())
    return answers


def _write(pipe: Connection, name: str, location: str, idle_seconds: float) -> None:
    texts = itertools.cycle(items(400))
    subject = make_subject(name, location)
    writers: dict[str, Callable[[Any], object]] = {}
    given: list[Any] = []
    before = 0.0
    pipe.recv()
    subject.open()
    with closing(subject):
        pipe.send(0.0)
        while True:
            try:
                task = pipe.recv()
            except EOFError:
                return
            if task == "write":
                for write, one in given:
                    write(one)
            elif task == "rest":
                timing.idle(idle_seconds)
            else:
                contexts, appends = task
                new = [context for context in contexts if context not in writers]
                writers |= zip(new, subject.writers(new), strict=True)
                turns = itertools.islice(itertools.cycle(contexts), appends)
                given = [(writers[context], subject.ready(next(texts))) for context in turns]
                before = process_time()
            pipe.send(process_time() - before)
