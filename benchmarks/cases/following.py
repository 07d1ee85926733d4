"""
How much do followers of a store slow down its writers?

Both columns are Refold: `ours` writes beside followers, `raw` writes to a store that nobody follows. The followers are
separate processes: four subscribers, or one worker that keeps all projections up to date. They receive all events of a
block before the block of the other column begins. The processor time is that of the writers.
"""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from typing import Any

import refold

from ..bench import Bench
from ..crew import WAIT_SECONDS_MAX, Crew
from ..rows import RATE, Goal, Row
from ..subject import Subject
from ..timing import Task, measure

NAMES = ("ours", "raw")
LOOK_SECONDS = 0.02
LITTLE = Goal(0.85, at_least=True)


def following(bench: Bench, database: str) -> Iterator[Row]:
    """Write while subscribers follow, and while a worker follows."""
    with ExitStack() as stack:
        subjects = [stack.enter_context(bench.subjects(database, ["ours"]))["ours"] for _ in NAMES]
        crews = [stack.enter_context(closing(Crew(subject, bench.scale.writers))) for subject in subjects]
        for label, followers, goal in (
            (f"{bench.scale.subscribers} subscribers", [_subscribe] * bench.scale.subscribers, LITTLE),
            ("a worker of all projections", [_work], None),
        ):
            with _followed(subjects[0].location, followers) as seen:
                yield _row(
                    bench, database, label, {subjects[0].location: seen}, dict(zip(subjects, crews, strict=True)), goal
                )


def _row(
    bench: Bench,
    database: str,
    label: str,
    seen: Mapping[str, list[Any]],
    crews: Mapping[Subject, Crew],
    goal: Goal | None,
) -> Row:
    count, tasks = bench.scale.writers, dict[str, Task]()
    appends = max(1, bench.scale.process_appends // count)
    for name, (subject, crew) in zip(NAMES, crews.items(), strict=True):
        tasks[name] = Task(
            run=crew.work,
            prepare=partial(crew.gather, [[f"chat-{number}"] for number in range(count)], appends),
            settle=partial(_settle, crew, subject.location, seen.get(subject.location, [])),
            per=count * appends,
        )
    measured = measure(tasks, blocks=bench.scale.blocks)
    for name, crew in zip(NAMES, crews.values(), strict=True):
        # That of the writers: this process only waits.
        measured[name].processor[:] = crew.spent[-len(measured[name].processor) :]
    return Row(f"{count} processes beside {label}, items", database, RATE, measured, goal)


@contextmanager
def _followed(location: str, followers: list[Callable[..., None]]) -> Iterator[list[Any]]:
    """Yield the numbers of events that followers of a store have seen."""
    context: Any = multiprocessing.get_context("spawn")
    over, seen = context.Event(), [context.Value("q", 0) for _ in followers]
    processes = [
        context.Process(target=follow, args=(location, over, number))
        for follow, number in zip(followers, seen, strict=True)
    ]
    for process in processes:
        process.start()
    try:
        yield seen
    finally:
        over.set()
        for process in processes:
            process.join(WAIT_SECONDS_MAX)


def _settle(crew: Crew, location: str, seen: list[Any]) -> None:
    crew.settle()
    with refold.open(location) as store:
        total = store.log.now().events
    end = time.monotonic() + WAIT_SECONDS_MAX
    while any(number.value < total for number in seen):
        if time.monotonic() > end:
            raise TimeoutError(f"a follower has not seen {total:,} events for {WAIT_SECONDS_MAX} seconds")
        time.sleep(LOOK_SECONDS)


def _subscribe(location: str, over: Any, seen: Any) -> None:
    with refold.open(location) as store, store.subscribe() as events:
        threading.Thread(target=_stop_when, args=(over, events.stop), daemon=True).start()
        for _ in events:
            seen.value += 1


def _work(location: str, over: Any, seen: Any) -> None:
    with refold.open(location) as store, store.start_projections():
        known = store._runner.projections.values()
        while not over.wait(LOOK_SECONDS):
            seen.value = min(store._projections.checkpoint(one).events for one in known)


def _stop_when(over: Any, stop: Callable[[], None]) -> None:
    over.wait()
    stop()
