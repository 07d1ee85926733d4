"""
Forks with one item each, and lines of forks of forks, by Refold and by a bare database.

The bare database writes what Refold does, two rows with a commit each: the payload of the fork, and that of the item.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import refold
from refold.domain.log.envelope import encode_payload

from .bench import Subjects, reopen
from .ours import Ours, add
from .recorded import event_of
from .subject import Subject, batches
from .timing import Task
from .workload import Item

_NAMES = (f"child-{number}" for number in itertools.count())


def fork_once(parent: refold.ChatContext, item: Item) -> refold.ChatContext:
    """Fork a context and add an item to the child."""
    child = parent.fork()
    add(child, item)
    return child


def raw_fork_once(raw: Subject, child: str, forked: bytes, item: bytes) -> None:
    """Write the same two rows, committed one by one."""
    raw.append(child, forked)
    raw.append(child, item)


def first_payload(chat: refold.ChatContext) -> bytes:
    """Return the bytes of the event with which a context begins."""
    return encode_payload(chat.history(until=1)[0].event)


def fork_tasks(subjects: Subjects, context: str, texts: Sequence[Item], runs: int) -> dict[str, Task]:
    """Return the tasks that fork a context: a loaded one, as in an agent that reads it, and raw."""
    ours = subjects.ours
    forked = first_payload(ours.store.chat(context).fork())
    return {"ours": _task(ours, context, texts, runs), "raw": _raw_task(subjects["raw"], forked, texts, runs)}


def _task(ours: Ours, context: str, texts: Sequence[Item], runs: int) -> Task:
    given = itertools.cycle(texts)
    parent: refold.ChatContext

    def open_again() -> None:
        nonlocal parent
        reopen(ours)
        parent = ours.store.chat(context)
        parent.recorded_items()

    return Task(run=lambda item: fork_once(parent, item), prepare=lambda: next(given), reopen=open_again, runs=runs)


def _raw_task(raw: Subject, forked: bytes, texts: Sequence[Item], runs: int) -> Task:
    given = itertools.cycle(texts)

    def prepare() -> tuple[str, bytes]:
        child = next(_NAMES)
        # Refold does not ask the database whether a child is new, either.
        raw.warm(child)
        return child, raw.ready(next(given))

    return Task(
        run=lambda one: raw_fork_once(raw, one[0], forked, one[1]),
        prepare=prepare,
        reopen=lambda: reopen(raw),
        runs=runs,
    )


def grow(ours: Ours, depth: int, items: Sequence[Item]) -> list[str]:
    """
    Make `depth` forks, each of the fork before it, with the items spread over root and forks; return the contexts, the
    root first.
    """
    contexts = [f"generation-{number}" for number in range(depth + 1)]
    chat = ours.store.chat(contexts[0])
    for generation, context in enumerate(contexts):
        chat = chat.fork(context) if generation else chat
        share = items[generation * len(items) // (depth + 1) : (generation + 1) * len(items) // (depth + 1)]
        for batch in batches(share):
            chat.record_items([event_of(item) for item in batch])
    return contexts


def copy_streams(ours: Ours, raw: Subject, contexts: Sequence[str]) -> None:
    """Write all events that Refold has of some contexts into a bare database."""
    for context in contexts:
        payloads = [encode_payload(one.event) for one in ours.store.chat(context).history()]
        for start in range(0, len(payloads), 1_000):
            raw.append_batch(context, payloads[start : start + 1_000])
