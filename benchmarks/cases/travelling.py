"""
What does it cost to read the past of a long log, and a page of many contexts?

Raw reads as many of the last rows of a chat, through the database alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from refold import Store
from refold.domain.chat.events import Opened
from refold.domain.log.envelope import NO_META
from refold.domain.log.ports import NewEvents
from refold.projections.catalogue import CATALOGUE
from refold.projections.growth import GROWTH

from ..bench import Bench
from ..ours import Ours
from ..rows import MILLISECONDS, Goal, Row
from ..subject import Subject
from ..timing import Task, measure
from ..workload import items

CONTEXT = "context"
CHAT = f"{CONTEXT}-0"
VIEW, TAIL, PAGE = Goal(20, absolute=True), Goal(2, absolute=True), Goal(5, absolute=True)
PAGE_CONTEXTS = 50
ITEMS_AT_ONCE = 100_000


def travel(bench: Bench, database: str) -> Iterator[Row]:
    """Look at a chat at random points of a long log; page through a catalogue of many contexts."""
    scale = bench.scale
    names = {
        f"a chat at any point of {scale.logged:,} events: counts and the last {scale.tail}": (_view, VIEW),
        f"the last {scale.tail} items at any point of {scale.logged:,} events": (_tail, TAIL),
    }
    with bench.subjects(database, ("ours", "raw")) as subjects:
        ours, raw = subjects.ours, subjects["raw"]
        _fill(ours, raw, scale.logged)
        ours.store._runner.catch_up(GROWTH)
        for label, (look, goal) in names.items():
            tasks = {
                "ours": _task(bench, partial(look, ours.store, scale.tail), _positions(ours.store)),
                "raw": _task(bench, partial(raw.tail, CHAT), lambda: scale.tail),
            }
            yield Row(label, database, MILLISECONDS, measure(tasks, blocks=scale.blocks), goal)
    yield _pages(bench, database)


def _pages(bench: Bench, database: str) -> Row:
    count = bench.scale.long
    with bench.subjects(database, ("ours", "raw")) as subjects:
        store, raw = subjects.ours.store, subjects["raw"]
        raw.build(CHAT, items(PAGE_CONTEXTS))
        for start in range(0, count, 1_000):
            store.log.append([_beginning(number) for number in range(start, min(count, start + 1_000))]).result()
        store._runner.catch_up(CATALOGUE)
        chance = random.Random(count)
        tasks = {
            "ours": _task(bench, partial(_page, store), lambda: f"chat:c{chance.randrange(count):07}"),
            "raw": _task(bench, partial(raw.tail, CHAT), lambda: PAGE_CONTEXTS),
        }
        stats = measure(tasks, blocks=bench.scale.blocks)
    return Row(f"a page of {PAGE_CONTEXTS} out of {count:,} contexts", database, MILLISECONDS, stats, PAGE)


def _task(bench: Bench, run: Callable[[Any], object], prepare: Callable[[], Any]) -> Task:
    return Task(run=run, prepare=prepare, runs=bench.scale.runs // 4 or 1)


def _fill(ours: Ours, raw: Subject, count: int) -> None:
    """Fill the log with contexts of many items. Raw has only the first one, whose past is read."""
    chat = items(min(count, ITEMS_AT_ONCE))
    for start in range(0, count, len(chat)):
        ours.build(f"{CONTEXT}-{start}", chat[: count - start])
    raw.build(CHAT, chat)


def _positions(store: Store) -> Callable[[], str]:
    """Return a function that returns the position of a random event in the second half of the chat."""
    stream = f"chat:{CHAT}"
    last = store.log.head(stream)
    chance = random.Random(last)

    def position() -> str:
        version = chance.randrange(last // 2, last)
        return f"pos:{store.log.read(stream, after=version - 1, until=version)[0].position}"

    return position


def _view(store: Store, tail: int, position: str) -> int:
    view = store.at(position).chat(CHAT)
    return view.turn_count() + view.estimated_tokens() + sum(map(len, map(str, view.tail(tail))))


def _tail(store: Store, tail: int, position: str) -> int:
    return len(store.at(position).chat(CHAT).tail(tail))


def _page(store: Store, cursor: str) -> int:
    return len(store.find_contexts(limit=PAGE_CONTEXTS, cursor=cursor).contexts)


def _beginning(number: int) -> NewEvents:
    name = f"c{number:07}"
    opened = Opened(user=f"user-{number % 100}", session=f"session-{number % 1000}", agent="triage")
    return NewEvents(stream=f"chat:{name}", expected_version=0, events=(opened,), metas=(NO_META,), root=name)
