"""
How many items a second do several processes append to one store?

They append to separate contexts; to separate contexts of one session, which is one slice on PostgreSQL; or all to one
context. Each case is measured again with a sync that takes a millisecond. Processor time is that of the writing
processes, and not of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from functools import partial
from typing import NamedTuple

from ..bench import Bench
from ..crew import Crew
from ..rows import PLAIN, RATE, Goal, Row
from ..slow_sync import slowly
from ..subject import COMMON, SHARED
from ..timing import Stats, Task, measure, of_values

NAMES = ("ours", "raw", "stock")
IN_ONE_SLICE = Goal(0.5, at_least=True)
WHERE_ONE_IS_HOT = Goal(0.6, at_least=True, absolute=True)
# The stock aggregate is read again whenever another process was first, which is nearly every time.
STOCK_COMMON = (8, 4)


class _Sharing(NamedTuple):
    """The name of a distribution of writers, and the contexts of each writer, by its number."""

    label: str
    contexts: Callable[[int], Sequence[str]]
    goal: Goal | None = None


def processes(bench: Bench, database: str) -> Iterator[Row]:
    """Append with several processes at once."""
    yield from _rows(bench, database, "")
    with slowly(bench, database) as slow:
        if slow is not None:
            yield from _rows(slow, database, ", a sync of 1 ms")


def _rows(bench: Bench, database: str, ending: str) -> Iterator[Row]:
    scale = bench.scale
    with ExitStack() as stack:
        subjects = stack.enter_context(bench.subjects(database, NAMES))
        crews = {
            name: stack.enter_context(closing(Crew(subject, max(scale.processes))))
            for name, subject in subjects.items()
        }
        row = partial(_row, bench, database, ending, crews)
        for count in scale.processes:
            yield row(count, _Sharing("contexts of their own", lambda number: [f"process-{number}"]))
        several = [count for count in scale.processes if count <= 16][-1]
        many = _Sharing(
            f"{scale.many} contexts each",
            lambda number: [f"many-{number}-{one}" for one in range(scale.many)],
            IN_ONE_SLICE if database == "postgres" else None,
        )
        yield row(several, many)
        if database == "postgres":
            session = _Sharing("one session", lambda number: [f"{SHARED}{number}"])
            yield from _and_by_one(row(count, session) for count in scale.processes)
        context = _Sharing("one context", lambda _: [f"{COMMON}0"])
        yield from _and_by_one(row(count, context) for count in scale.processes)


def _and_by_one(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield rows of rates, the first of one writer, and each other one also as multiples of its rates."""
    single: Row | None = None
    for row in rows:
        yield row
        if single is not None:
            yield _by_one(row, single)
        single = single or row


def _by_one(row: Row, single: Row) -> Row:
    """Return a row of rates as multiples of those of one writer."""
    stats = {name: of_values(single.stats[name].median / stats.median) for name, stats in row.stats.items()}
    return Row(f"{row.label} / one writer", row.database, PLAIN, stats, WHERE_ONE_IS_HOT)


def _row(bench: Bench, database: str, ending: str, crews: dict[str, Crew], count: int, sharing: _Sharing) -> Row:
    tasks: dict[str, Task] = {}
    for name, crew in crews.items():
        # Each of many contexts is written at least twice: before the first write, nobody knows which processes write to
        # its slice.
        appends = max(2 * len(sharing.contexts(0)), bench.scale.process_appends // count)
        if name == "stock" and sharing.contexts(0) == sharing.contexts(1):
            if count > STOCK_COMMON[0]:
                continue
            appends = min(appends, STOCK_COMMON[1])
        given = [sharing.contexts(number) for number in range(count)]
        tasks[name] = Task(
            run=crew.work, prepare=partial(crew.gather, given, appends), settle=crew.settle, per=count * appends
        )
    measured = measure(tasks, blocks=bench.scale.blocks)
    for name, stats in measured.items():
        _by_crew(stats, crews[name])
    return Row(f"{count} processes, {sharing.label}{ending}, items", database, RATE, measured, sharing.goal)


def _by_crew(stats: Stats, crew: Crew) -> None:
    """Replace the processor time of this process, which only waits, by that of the crew."""
    stats.processor[:] = crew.spent[-len(stats.processor) :]
