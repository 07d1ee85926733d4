"""
Measures several ways of doing one thing, in turn.

A block is a number of runs of one contestant. Blocks of all contestants take turns, so other work of the machine
affects all of them alike. The figure of a contestant is the median of its blocks' medians. The first run after each
opening is kept apart from the warm ones.

Work that a contestant leaves to a background thread would slow down the next contestant. So a block ends when the
process has no more work, and the processor time until then belongs to the block.
"""

from __future__ import annotations

import gc
import math
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from time import perf_counter, process_time, sleep
from typing import Any

# Longer than the pause for which background work waits. Otherwise this work would begin while the next contestant is
# measured.
IDLE_SECONDS = 0.12
BUSY_SHARE = 0.1
SETTLE_SECONDS_MAX = 60.0


def _nothing() -> None:
    return None


def idle(seconds: float | None = None) -> None:
    """Wait until no thread of this process has had work for IDLE_SECONDS, or for so many seconds."""
    pause, end = seconds or IDLE_SECONDS, perf_counter() + SETTLE_SECONDS_MAX
    while perf_counter() < end:
        before = process_time()
        sleep(pause)
        if process_time() - before < pause * BUSY_SHARE:
            return


@dataclass(frozen=True)
class Task:
    """
    One contestant. Only `run` is timed; it gets the value that `prepare` returned. One run stands for `per` items.

    `reopen` comes before the first run, `start_block` before each block of `runs` warm ones, `settle` after it.
    """

    run: Callable[[Any], object]
    prepare: Callable[[], Any] = _nothing
    reopen: Callable[[], object] = _nothing
    start_block: Callable[[], object] = _nothing
    settle: Callable[[], object] = idle
    runs: int = 1
    per: int = 1


@dataclass
class Stats:
    """The measurements of one contestant, per item, in seconds, or in another unit if the case says so."""

    first: list[float] = field(default_factory=list)
    blocks: list[list[float]] = field(default_factory=list)
    processor: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The median of the medians of the blocks."""
        return statistics.median(statistics.median(block) for block in self.blocks)

    @property
    def mean(self) -> float:
        """The mean of all warm runs. It includes work that a median hides, such as work at every 64th run."""
        return statistics.fmean(value for block in self.blocks for value in block)

    @property
    def first_run(self) -> float | None:
        """The median of the first runs after opening."""
        return statistics.median(self.first) if self.first else None

    @property
    def processor_time(self) -> float | None:
        """The median processor time of an item, work in the background included; of this process alone."""
        return statistics.median(self.processor) if self.processor else None

    def percentile(self, percent: int) -> float:
        """Return a percentile of all warm runs."""
        values = sorted(value for block in self.blocks for value in block)
        return values[math.ceil(len(values) * percent / 100) - 1]


def of_values(*values: float) -> Stats:
    """Return figures that were counted, not timed."""
    return Stats(blocks=[[value] for value in values])


def ratio(one: Stats, other: Stats) -> Stats:
    """Return the ratio of one figure to another."""
    return of_values(one.median / other.median)


def measure(tasks: Mapping[str, Task], *, blocks: int, openings: int = 1) -> dict[str, Stats]:
    """Measure all tasks, `blocks` blocks each after each of `openings` openings."""
    measured = {name: Stats() for name in tasks}
    for _ in range(openings):
        for name, task in tasks.items():
            task.reopen()
            _first_run(task, measured[name])
        for _ in range(blocks):
            for name, task in tasks.items():
                task.start_block()
                _block(task, measured[name])
    return measured


def _first_run(task: Task, stats: Stats) -> None:
    given = task.prepare()
    gc.collect()
    idle()
    stats.first.append(_time(task, given))
    task.settle()


def _block(task: Task, stats: Stats) -> None:
    given = [task.prepare() for _ in range(task.runs)]
    gc.collect()
    idle()
    before = process_time()
    stats.blocks.append([_time(task, one) for one in given])
    task.settle()
    stats.processor.append((process_time() - before) / task.runs / task.per)


def _time(task: Task, given: object) -> float:
    start = perf_counter()
    task.run(given)
    return (perf_counter() - start) / task.per
