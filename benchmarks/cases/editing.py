"""
What do an edit, the last items, the past and the whole view cost in a long context that was edited very often?

Edits are made one by one through one handle, 64 of ours and then the same payloads raw, in turn. Everything is read
with a new handle each time, including every item.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from time import perf_counter
from typing import cast

from refold.domain.log.envelope import encode_payload

from ..bench import Bench, Scale, Subjects, reopen
from ..edits import Editor, dated_events
from ..ours import Ours
from ..rows import MICROSECONDS, MILLISECONDS, Goal, Row
from ..subject import BASE_BATCH, Subject
from ..timing import Stats, Task, measure
from ..workload import items

NAMES = ("ours", "raw")
CONTEXT = "context"
TURN = 64
QUICK_TAIL = Goal(2, absolute=True)
PAST = Goal(1.6)
QUICK_EDIT = Goal(5, absolute=True)
QUICK_ITEMS = Goal(100, absolute=True)
Read = Callable[[Subject], object]


def edit(bench: Bench, database: str) -> Iterator[Row]:
    """Edit a context many times; then read it in every way."""
    scale = bench.scale
    count, edits = scale.long, scale.single_appends
    with bench.subjects(database, NAMES) as subjects:
        made = _edited(subjects.ours, subjects["raw"], count, edits)
        reading = partial(_measured, scale, subjects)
        last = reading(lambda one: one.tail(CONTEXT, scale.tail), blocks=scale.blocks, runs=scale.runs)
        half = reading(lambda one: _all(one.load_until(CONTEXT, count // 2)), per=count // 2)
        midway = reading(lambda one: _all(one.load_until(CONTEXT, count + edits // 2)), per=count + edits // 2)
        whole = reading(lambda one: _all(one.load(CONTEXT)), per=count + edits)
        evicted, shown = _half_gone(subjects.ours, subjects["raw"], scale)
    after = f"after {edits:,} edits"
    yield Row(f"an edit of {count:,} items, {edits:,} in a row", database, MILLISECONDS, made)
    yield Row(f"last {scale.tail} of {count:,} {after}", database, MILLISECONDS, last, QUICK_TAIL)
    yield Row(f"view as of {count // 2:,} of {count:,} {after}, per item", database, MICROSECONDS, half, PAST)
    yield Row(
        f"view of {count:,} items as of {edits // 2:,} of {edits:,} edits, per event", database, MICROSECONDS, midway
    )
    yield Row(f"load {count:,} {after}, per event", database, MICROSECONDS, whole)
    yield Row(f"evict one of {count:,} {after}, half of them gone", database, MILLISECONDS, evicted, QUICK_EDIT)
    yield Row("items behind that", database, MILLISECONDS, shown, QUICK_ITEMS)


def _half_gone(ours: Ours, raw: Subject, scale: Scale) -> tuple[dict[str, Stats], dict[str, Stats]]:
    """Evict every second item; then evict one at a time, and read the items each time."""
    chat = ours.store.chat(CONTEXT)
    chat.evict([item.id for item in chat.items[::2]])
    # An item leaves together with its call or output, so only messages are evicted.
    ids = iter([item.id for item in chat.messages()])
    evicted, shown = ({name: Stats() for name in NAMES} for _ in range(2))
    for _ in range(scale.blocks):
        for _ in range(scale.runs):
            before = chat.version
            evicted["ours"].blocks.append([_timed(lambda: chat.evict(next(ids)))])
            shown["ours"].blocks.append([_timed(lambda: chat.items)])
            (payload,) = [encode_payload(one.event) for one in chat.history(after=before)]
            evicted["raw"].blocks.append([_timed(partial(raw.append, CONTEXT, payload))])
        shown["raw"].blocks.append([_timed(partial(raw.load_until, CONTEXT, len(chat)))])
    return evicted, shown


def _edited(ours: Ours, raw: Subject, count: int, edits: int) -> dict[str, Stats]:
    chat = ours.store.chat(CONTEXT)
    events = dated_events(items(count))
    for start in range(0, count, BASE_BATCH):
        batch = events[start : start + BASE_BATCH]
        chat.record_items(batch)
        raw.append_batch(CONTEXT, [encode_payload(event) for event in batch])
    editor = Editor(chat, [event.id for event in events])
    made = {name: Stats() for name in NAMES}
    for start in range(0, edits, TURN):
        before = chat.version
        made["ours"].blocks.append([_timed(editor.edit) for _ in range(min(TURN, edits - start))])
        payloads = [encode_payload(one.event) for one in chat.history(after=before)]
        made["raw"].blocks.append([_timed(partial(raw.append, CONTEXT, payload)) for payload in payloads])
    return made


def _timed(call: Callable[[], object]) -> float:
    start = perf_counter()
    call()
    return perf_counter() - start


def _all(read: object) -> list[object]:
    """The items of an edited view are put in order when they are iterated over, so this iterates over them."""
    return list(cast(Iterable[object], read))


def _measured(
    scale: Scale, subjects: Subjects, read: Read, *, blocks: int = 1, runs: int = 1, per: int = 1
) -> dict[str, Stats]:
    tasks = {
        name: Task(
            run=lambda _, subject=subject: read(subject),  # type: ignore[misc]
            reopen=partial(reopen, subject),
            runs=runs,
            per=per,
        )
        for name, subject in subjects.items()
    }
    return measure(tasks, blocks=blocks, openings=scale.openings)
