"""
What does it cost to truncate a context to half of its tokens, and is the time linear in the number of items?

The context is loaded; after each run everything is restored, untimed. The bare database writes the one event. If the
published package of the seed is installed, it truncates 4,000 items: its time grows with the square.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from refold.domain.log.envelope import encode_payload

from ..bench import CONTEXT, Bench, reopen
from ..ours import Ours
from ..peers import seed_context
from ..rows import MILLISECONDS, PLAIN, Goal, Row, Table
from ..subject import Subject
from ..timing import Stats, Task, measure, of_values
from ..workload import items

NAMES = ("ours", "raw")
SEED_ITEMS = 4_000
# With ten times the items the caches of the processor may be too small, but the time must not grow with the square.
LINEAR = Goal(1.5, absolute=True)


def truncate(bench: Bench, database: str) -> Iterator[Row | Table]:
    """Truncate a short context and a long one, and compare what an item costs."""
    counts = (bench.scale.loaded, bench.scale.long)
    measured = [_measured(bench, database, count) for count in counts]
    for count, stats in zip(counts, measured, strict=True):
        yield Row(f"truncate {count:,} items to half of their tokens", database, MILLISECONDS, stats)
    short, long = counts
    ratios = {name: of_values(measured[1][name].median / long / (measured[0][name].median / short)) for name in NAMES}
    yield Row(f"truncate, an item of {long:,} / of {short:,}", database, PLAIN, ratios, LINEAR)
    if database == "sqlite":
        yield from _seed(min(SEED_ITEMS, short))


def _measured(bench: Bench, database: str, count: int) -> dict[str, Stats]:
    with bench.subjects(database, NAMES, items(count)) as subjects:
        ours, raw = subjects.ours, subjects["raw"]
        chat = ours.store.chat(CONTEXT)
        tokens = chat.estimated_tokens() // 2
        chat.truncate(max_tokens=tokens)
        payload = encode_payload(chat.history(after=chat.version - 1)[0].event)
        tasks = {"ours": _task(ours, count, tokens), "raw": _raw_task(raw, payload)}
        return measure(tasks, blocks=2 * bench.scale.blocks, openings=bench.scale.openings)


def _task(ours: Ours, count: int, tokens: int) -> Task:
    chat: Any = None

    def open_again() -> None:
        nonlocal chat
        reopen(ours)
        chat = ours.store.chat(CONTEXT)

    def restore() -> None:
        chat.restore()
        assert len(chat.recorded_items()) == count

    def truncate_half(_: object) -> None:
        chat.truncate(max_tokens=tokens)

    return Task(run=truncate_half, prepare=restore, reopen=open_again)


def _raw_task(raw: Subject, payload: bytes) -> Task:
    return Task(run=lambda _: raw.append(CONTEXT, payload), reopen=partial(reopen, raw))


def _seed(count: int) -> Iterator[Table]:
    make = seed_context(items(count))
    if make is None:
        return
    task = Task(run=lambda context: context.truncate(max_tokens=context.estimated_tokens() // 2), prepare=make)
    seconds = measure({"seed": task}, blocks=1)["seed"].median
    line = [f"{count:,}", f"{seconds * 1e3:,.1f} ms"]
    yield Table("Truncating in the seed's package", ("items", "to half of their tokens"), [line])
