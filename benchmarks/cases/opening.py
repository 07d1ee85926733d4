"""
What does it cost to open a long-lived queue, pool or run, and to add to a chat that nobody has read?

Each run opens a store's context anew, as another process does. The events are written in batches; the queue and the
pool are full from the beginning, so that each item evicts the oldest. Raw reads as many payloads as there are present
items, and appends the payload of the added item.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from refold.chat import ChatMessage, ChatRole
from refold.domain.chat.events import MessageAdded, Opened
from refold.domain.content import stored_content
from refold.domain.log.envelope import NO_META, encode_payload
from refold.domain.log.ports import LiveLog, NewEvents
from refold.domain.pool.events import PoolAdded, PoolEvicted, PoolOpened, QueueAppended, QueueEvicted, QueueOpened
from refold.domain.spans import Ref, span_of
from refold.domain.totals import Totals

from ..bench import Bench
from ..ours import Ours
from ..rows import MILLISECONDS, Goal, Row
from ..subject import BASE_BATCH, Subject
from ..timing import Stats, Task, measure
from ..workload import items
from .graphs import SESSION, fill, opened_run

NAMES = ("ours", "raw")
CONTEXT = "context"
SHARE = 100
# The events for an item in a full container: one item leaves, and another one comes.
EVENTS = 2
CHAT_EVENTS = 100
QUICK_OPENING = Goal(50, absolute=True)
QUICK_ADDITION = Goal(1, absolute=True)


def opening(bench: Bench, database: str) -> Iterator[Row]:
    """Open a queue, a pool and a run, and add an item to each of many chats."""
    count = bench.scale.long
    limit = max(2, count // SHARE)
    for kind in ("queue", "pool"):
        opened = _opened(bench, database, kind, _container(kind, count, limit), limit)
        yield Row(f"open a {kind} of {limit:,} after {count:,} adds", database, MILLISECONDS, opened, QUICK_OPENING)
    yield _run(bench, database, count // 5)
    yield _additions(bench, database)


def _opened(bench: Bench, database: str, kind: str, events: Sequence[Any], present: int) -> dict[str, Stats]:
    with bench.subjects(database, NAMES) as subjects:
        ours, raw = subjects.ours, subjects["raw"]
        for start in range(0, len(events), BASE_BATCH):
            batch = events[start : start + BASE_BATCH]
            _append(ours.store.log, f"{kind}:{CONTEXT}", start, batch)
            raw.append_batch(CONTEXT, [encode_payload(event) for event in batch])
        tasks = {
            "ours": Task(run=lambda _: getattr(ours.store, kind)(CONTEXT).items, runs=4),
            "raw": Task(run=lambda _: raw.tail(CONTEXT, EVENTS * present), runs=4),
        }
        return measure(tasks, blocks=bench.scale.blocks, openings=1)


def _append(log: LiveLog, stream: str, version: int, events: Sequence[Any]) -> None:
    metas, root = (NO_META,) * len(events), stream.partition(":")[2]
    new = NewEvents(stream=stream, expected_version=version, events=tuple(events), metas=metas, root=root)
    log.append([new]).result()


def _container(kind: str, count: int, limit: int) -> list[Any]:
    opened, added, evicted = (
        (QueueOpened, QueueAppended, QueueEvicted) if kind == "queue" else (PoolOpened, PoolAdded, PoolEvicted)
    )
    events: list[Any] = [opened(limit=limit)]
    present: list[int] = []
    for number, item in zip(range(count), itertools.cycle(items(4_000)), strict=False):
        if len(present) == limit:
            events.append(evicted(items=(span_of(Ref(present.pop(0))),), change=Totals(items=-1)))
        item_id = None if kind == "queue" else f"item-{number}"
        events.append(added(content=stored_content(item.text[:200]), description=item.kind, id=item_id))
        present.append(len(events))
    return events


def _run(bench: Bench, database: str, nodes: int) -> Row:
    with bench.subjects(database, NAMES) as subjects:
        fill(subjects, nodes)
        tasks = {
            "ours": Task(run=lambda _: opened_run(subjects).get_active_branch(), runs=4),
            "raw": Task(run=lambda _: subjects["raw"].load(SESSION), runs=4),
        }
        measured = measure(tasks, blocks=bench.scale.blocks, openings=1)
    return Row(f"open a run of {nodes:,} nodes, and its branch", database, MILLISECONDS, measured, QUICK_OPENING)


def _additions(bench: Bench, database: str) -> Row:
    """The events of the chats lie one after the other in the log, so that each chat is scattered over all of it."""
    chats = bench.scale.contexts
    texts = items(CHAT_EVENTS)
    numbers = itertools.cycle(range(chats))
    with bench.subjects(database, NAMES) as subjects:
        ours, raw = subjects.ours, subjects["raw"]
        for version in range(CHAT_EVENTS):
            text = (texts[version].text[:200],)
            event = MessageAdded(id=f"m{version}", created_at=1.0, role="user", content=text) if version else Opened()
            for number in range(chats):
                _append(ours.store.log, f"chat:c{number}", version, [event])
                raw.append(f"c{number}", encode_payload(event))
        add = partial(_add, ours, numbers)
        for _ in range(chats):
            # The first add to a chat that nobody has read makes later adds faster.
            add(None)
        payload = encode_payload(MessageAdded(id="m", created_at=1.0, role="user", content=("And then?",)))
        tasks = {
            "ours": Task(run=add, runs=bench.scale.runs),
            "raw": Task(run=partial(_add_raw, raw, payload), prepare=lambda: next(numbers), runs=bench.scale.runs),
        }
        measured = measure(tasks, blocks=bench.scale.blocks, openings=1)
    label = f"add_items to an unread chat of {CHAT_EVENTS}, one of {chats:,}"
    return Row(label, database, MILLISECONDS, measured, QUICK_ADDITION)


def _add(ours: Ours, numbers: Iterator[int], _: object) -> object:
    message = ChatMessage(role=ChatRole.USER, content=["And then?"])
    return ours.store.chat(f"c{next(numbers)}").add_items([message])


def _add_raw(raw: Subject, payload: bytes, number: int) -> object:
    return raw.append(f"c{number}", payload)
