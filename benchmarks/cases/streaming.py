"""
What does it cost to record an answer while it arrives: 10,000 deltas of 20 bytes, written one after the other?

Raw inserts the events into which the deltas are joined, each with a separate commit. The context has items already.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from refold import ChatContext
from refold.domain.log.envelope import encode_payload

from ..bench import CONTEXT, Bench
from ..rows import MILLISECONDS, Goal, Row
from ..subject import Subject
from ..timing import Task, measure
from ..workload import items

NAMES = ("ours", "raw")
DELTA_BYTES = 20


def stream(bench: Bench, database: str) -> Iterator[Row]:
    """Write a message piece by piece; then insert the events that it made."""
    scale = bench.scale
    deltas = [f"{number:>{DELTA_BYTES - 1}} " for number in range(scale.deltas)]
    with bench.subjects(database, NAMES, items(scale.loaded)) as subjects:
        ours = subjects.ours
        for subject in subjects.values():
            subject.warm(CONTEXT)
        chat = ours.store.chat(CONTEXT)
        before = chat.version
        _write(chat, deltas)
        payloads = [encode_payload(one.event) for one in chat.history(after=before)]
        runs = max(1, scale.runs // 8)
        tasks = {
            "ours": Task(run=partial(_write, chat), prepare=lambda: deltas, runs=runs),
            "raw": Task(run=partial(_insert, subjects["raw"]), prepare=lambda: payloads, runs=runs),
        }
        measured = measure(tasks, blocks=scale.blocks, openings=1)
    yield Row(f"a stream of {len(deltas):,} deltas of 20 bytes", database, MILLISECONDS, measured, Goal(3))


def _write(chat: ChatContext, deltas: list[str]) -> None:
    with chat.stream() as out:
        for delta in deltas:
            out.write(delta)


def _insert(raw: Subject, payloads: list[bytes]) -> None:
    for payload in payloads:
        raw.append(CONTEXT, payload)
