"""
How fast does a store of 2,000,000 events answer, and how long do first questions take?

Each question has a separate process, which opens the store before it. So a figure includes the opening of the context,
but not the opening of the store, and the memory is that of the whole process.
"""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import refold
from refold import Store
from refold.domain.positions import Position

from ..bench import FULL, Bench
from ..recorded import event_of, public_item
from ..rows import MILLISECONDS, Goal, Row, Unit
from ..timing import of_values
from ..workload import items

USER, SESSION = "user-0", "session-0"
LONG, QUEUE, POOL = "long", "queue", "pool"
SECONDS, MEGABYTES = Unit("s"), Unit("MB")
# The number of events of a context; and the numbers of events of which one is an edit of the long chat, or a node of
# the run.
CHAT_EVENTS, EDITED, NODES = 100, 1_000, 100
AT_ONCE = 1_000
CHANGES = 500
# `ru_maxrss` cannot be used: a process begins with the value of its parent, which filled the store.
PEAK, KIB_PER_MEGABYTE = "VmHWM:", 1_024
SOON, VERIFIED_IN = Goal(50, absolute=True), Goal(150, absolute=True)
VERIFIED = "verify()"
# The first word of most texts of the workload begins like this.
COMMON = "ok"
ADDED = [public_item(item) for item in items(4)]


class Question(NamedTuple):
    """A question to the store. `prepare` is not timed; `ask` gets the value that it returns."""

    unit: Unit
    goal: Goal | None
    ask: Callable[[Store, Any], object]
    prepare: Callable[[Store], Any] = lambda _: None


def large(bench: Bench, database: str) -> Iterator[Row]:
    """Fill a store, and ask it each question in a process of its own."""
    count = bench.scale.stored
    with bench.subjects(database, ("ours",)) as subjects:
        location = subjects["ours"].location
        began = perf_counter()
        with closing(refold.open(location)) as store:
            fill(store, count)
        yield Row(
            f"filling a store with {count:,} events", database, SECONDS, {"ours": of_values(perf_counter() - began)}
        )
        for name, question in QUESTIONS.items():
            # Opened again, so that no question uses what another one keeps in memory.
            seconds, memory = _ask_elsewhere(location, name) if bench.scale is FULL else _ask(location, name)
            label = f"{name}, {count:,} events"
            yield Row(label, database, question.unit, {"ours": of_values(seconds)}, question.goal)
            if name == VERIFIED:
                yield Row(f"{label}: memory", database, MEGABYTES, {"ours": of_values(memory)}, VERIFIED_IN)


def _ask_elsewhere(location: str, name: str) -> tuple[float, float]:
    """Return the result of `_ask`, called in a separate process."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as process:
        return process.submit(_ask, location, name).result()


def _ask(location: str, name: str) -> tuple[float, float]:
    """Return the seconds that a question takes, and the megabytes that this process took at most."""
    question = QUESTIONS[name]
    with closing(refold.open(location)) as store:
        given = question.prepare(store)
        began = perf_counter()
        question.ask(store, given)
        seconds = perf_counter() - began
    return seconds, _peak_megabytes()


def _peak_megabytes() -> float:
    """Return the most memory that this process took so far, as Linux says it."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(PEAK)) / KIB_PER_MEGABYTE


def fill(store: Store, count: int) -> None:
    """Fill a store with about `count` events: many chats, a long one with edits, a queue, a pool and a run."""
    texts = items(CHAT_EVENTS * 10)
    chats, long, added, nodes = 7 * count // 10 // CHAT_EVENTS, count // 10, count // 20, count // NODES
    for number in range(chats):
        first = number % 10 * CHAT_EVENTS
        chat = store.chat(_name(number), user=f"user-{number % 100}", session=f"session-{number // 5}", agent="triage")
        chat.record_items([event_of(item) for item in texts[first : first + CHAT_EVENTS - 1]])
    chat = store.chat(LONG, user=USER, session=SESSION)
    for start in range(0, long, AT_ONCE):
        chat.record_items([event_of(item) for item in texts[: min(AT_ONCE, long - start)]])
    for item in chat.items[:: max(1, long // (count // EDITED))]:
        chat.evict(item.id)
    for container in (store.queue(QUEUE), store.pool(POOL, limit=100)):
        asyncio.run(_add(store, container, added))
    run = store.run(USER, SESSION)
    query = run.register_query("where to?")
    for start in range(0, nodes, AT_ONCE):
        with store.transaction():
            for number in range(start, min(nodes, start + AT_ONCE)):
                run.register_node("State", f"step {number}", [query], state="on its way")


async def _add(store: Store, container: Any, count: int) -> None:
    add = container.append if isinstance(container, refold.ContextQueue) else container.add
    for start in range(0, count, AT_ONCE):
        with store.transaction():
            for number in range(start, min(count, start + AT_ONCE)):
                await add(
                    refold.PoolItem(
                        id=f"note-{number}", content=f"note {number}", description=f"what was noted as {number}"
                    )
                )


def _name(number: int) -> str:
    return f"chat-{number:06}"


def _position(store: Store, version: int) -> Position:
    """Return the position of an event of the long chat."""
    return store.log.read(f"chat:{LONG}", after=version - 1, until=version)[0].position


def _end(store: Store) -> int:
    return store.log.head(f"chat:{LONG}")


def _pair(store: Store) -> tuple[Position, Position]:
    """Return the positions between which the last events of the long chat were recorded."""
    return _position(store, max(1, _end(store) - CHANGES)), _position(store, _end(store))


def _loaded(store: Store) -> tuple[refold.ChatContext, str]:
    """Return the long chat, which has been edited once, and the id of an item in it."""
    chat = store.chat(LONG, create=False)
    chat.evict(chat.items[-1].id)
    return chat, chat.items[-1].id


def _first_position(store: Store) -> Position:
    return _position(store, 1)


def _contexts_at(store: Store, position: Position) -> object:
    return store.at(position).contexts()


def _add_items(store: Store, number: int) -> None:
    """Add items to a chat that nobody opened before."""
    store.chat(_name(number), create=False).add_items(ADDED)


def _verify(store: Store) -> None:
    problems = list(store.verify().problems)
    if problems:
        raise AssertionError(problems)


QUESTIONS = {
    "where the log ends": Question(
        MILLISECONDS, Goal(1, absolute=True), lambda store, _: store.now(), lambda store: (store.now(), store.now())
    ),
    "the first contexts()": Question(SECONDS, None, lambda store, _: store.contexts()),
    "the first audit_node()": Question(
        SECONDS, None, lambda store, name: store.audit_node(name, user_id=USER, session_id=SESSION),
        lambda store: store.run(USER, SESSION, create=False).nodes()[0],
    ),
    "the first search": Question(SECONDS, Goal(60, absolute=True), lambda store, _: store.search("nowhere")),
    "search, a very common word": Question(MILLISECONDS, SOON, lambda store, _: store.search(COMMON)),
    "the first at(moment).contexts()": Question(SECONDS, None, _contexts_at, _first_position),
    "at(moment).contexts()": Question(MILLISECONDS, Goal(100, absolute=True), _contexts_at, _first_position),
    f"diff over {CHANGES} events": Question(MILLISECONDS, SOON, lambda store, pair: store.diff(*pair), _pair),
    "the last 50 items of a chat with many edits": Question(
        MILLISECONDS, None, lambda store, _: store.chat(LONG, create=False).tail(50)
    ),
    "the first .items there": Question(
        MILLISECONDS, Goal(100, absolute=True), lambda store, _: store.chat(LONG, create=False).items
    ),
    "an eviction there": Question(
        MILLISECONDS, Goal(5, absolute=True), lambda _, loaded: loaded[0].evict(loaded[1]), _loaded
    ),
    "add_items to a chat of 100": Question(
        MILLISECONDS, Goal(1, absolute=True), lambda store, _: _add_items(store, 1), lambda store: _add_items(store, 2)
    ),
    "opening a queue": Question(MILLISECONDS, SOON, lambda store, _: store.queue(QUEUE, create=False).items),
    "opening a pool": Question(MILLISECONDS, SOON, lambda store, _: store.pool(POOL, create=False).items),
    "opening a run": Question(MILLISECONDS, SOON, lambda store, _: len(store.run(USER, SESSION, create=False).nodes())),
    VERIFIED: Question(SECONDS, Goal(90, absolute=True), lambda store, _: _verify(store)),
}  # fmt: skip
