"""
Does a node cost the same for any number of nodes, and what does the graph of a run cost at any moment?

Raw writes the payload of each node as it is; for the graph it reads and decodes the events up to the same version.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any, cast

from refold.domain.log.envelope import encode_payload
from refold.trajectory import Run

from ..bench import Bench, Subjects, reopen
from ..rows import MICROSECONDS, MILLISECONDS, PLAIN, Goal, Row
from ..subject import Subject
from ..timing import Task, measure, ratio

NAMES = ("ours", "raw")
USER, SESSION = "mia", "support"
FLAT = Goal(1.15, absolute=True)
QUICK_ENOUGH = Goal(100, absolute=True)
FEW = 50


def graph(bench: Bench, database: str) -> Iterator[Row]:
    """Register nodes in a small run and in a large one; look at a graph of so many nodes at random versions."""
    many = bench.scale.long // 2
    with ExitStack() as stack:
        tasks: dict[str, Task] = {}
        for count in (FEW, many):
            subjects = stack.enter_context(bench.subjects(database, NAMES))
            fill(subjects, count)
            tasks[f"ours {count}"], tasks[f"raw {count}"] = _registering(bench, subjects)
        measured = measure(tasks, blocks=bench.scale.blocks, openings=bench.scale.openings)
    for count in (FEW, many):
        stats = {name: measured[f"{name} {count}"] for name in NAMES}
        yield Row(f"register the node behind {count:,}", database, MICROSECONDS, stats)
    ratios = {name: ratio(measured[f"{name} {many}"], measured[f"{name} {FEW}"]) for name in NAMES}
    yield Row(f"register behind {many:,} / behind {FEW}", database, PLAIN, ratios, FLAT)
    yield _as_of(bench, database)


def _as_of(bench: Bench, database: str) -> Row:
    """The graph is asked for at versions near the end, so that it has nearly all of its nodes."""
    count = bench.scale.loaded
    with bench.subjects(database, NAMES) as subjects:
        fill(subjects, count)
        tasks = {
            "ours": Task(run=partial(_graph_of, opened_run(subjects)), prepare=_versions(count), runs=4),
            "raw": Task(run=partial(_read, subjects["raw"]), prepare=_versions(count), runs=4),
        }
        stats = measure(tasks, blocks=bench.scale.blocks)
    return Row(f"graph of {count:,} nodes as of any moment", database, MILLISECONDS, stats, QUICK_ENOUGH)


def _versions(count: int) -> Callable[[], int]:
    chance = random.Random(count)
    return lambda: chance.randrange(count - max(1, count // 100), count)


def _graph_of(run: Run, version: int) -> int:
    return len(run.at(version).graph().edges)


def _read(raw: Subject, version: int) -> int:
    return len(cast("list[object]", raw.load_until(SESSION, version)))


def fill(subjects: Subjects, count: int) -> None:
    """Register nodes, and give raw the same payloads."""
    run = opened_run(subjects)
    _ = run.register_query("Which orders are late?")
    grow = growing(run)
    for _ in range(count):
        grow()
    payloads = [encode_payload(event) for event in run._journal.events(until=run.version)]
    raw = subjects["raw"]
    for start in range(0, len(payloads), 1_000):
        raw.append_batch(SESSION, payloads[start : start + 1_000])


def opened_run(subjects: Subjects) -> Run:
    return subjects.ours.store.run(USER, SESSION)


def growing(run: Run) -> Callable[[], str]:
    """
    Return a function that registers another node, of each kind in turn: an action, a table that it found, a conclusion.
    """
    last = [next(iter(run.get_active_branch()))]
    kinds = itertools.cycle(("Action", "Table", "State"))

    def grow() -> str:
        kind = next(kinds)
        if kind == "Action":
            fields: dict[str, Any] = {"action": "lookup", "params": {"id": 7}, "output": "shipped", "success": True}
            last[0] = run.register_node(kind, "Look it up.", last, "triggers", **fields)
        elif kind == "Table":
            return run.register_node(kind, "All orders.", last, path="/data/orders.csv", edge_type="outputs")
        else:
            last[0] = run.register_node(kind, "Concluded.", last, "has_conclusion", state="It was shipped.")
        return last[0]

    return grow


def _registering(bench: Bench, subjects: Subjects) -> tuple[Task, Task]:
    ours, raw = subjects.ours, subjects["raw"]
    grow: Callable[[], str]

    def open_again() -> None:
        nonlocal grow
        reopen(ours)
        grow = growing(opened_run(subjects))

    payload = encode_payload(opened_run(subjects)._journal.events(until=3)[2])
    return (
        Task(run=lambda _: grow(), reopen=open_again, runs=bench.scale.runs),
        Task(run=lambda _: raw.append(SESSION, payload), reopen=partial(reopen, raw), runs=bench.scale.runs),
    )
