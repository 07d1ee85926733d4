"""
How many bytes does a store take at rest, for each byte of text that was appended item by item?

On SQLite this is the closed file (its WAL is gone); on PostgreSQL all tables with their indexes and TOAST tables after
`refold seal` and a VACUUM FULL, without WAL and system catalogues. Text is contents, arguments and outputs.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..bench import Bench
from ..real_runs import real_runs
from ..rows import PLAIN, Goal, Row
from ..subject import Subject
from ..timing import of_values
from ..workload import Item, compressibility, items, text_bytes

NAMES = ("ours", "raw", "stock")
GOAL = Goal(0.6, absolute=True)
REAL_RUNS_QUICK = 3


def size(bench: Bench, database: str) -> Iterator[Row]:
    """Measure generated text, and half of the real runs with and without their one system prompt."""
    count = bench.scale.single_appends
    yield _row(bench, database, f"{count:,} single appends", [items(count)])
    runs = real_runs(measured=True)
    if bench.scale.single_appends < 1_000:
        runs = runs[:REAL_RUNS_QUICK]
    if runs:
        yield _row(bench, database, f"{len(runs)} real runs", runs)
        bare = [[item for item in run if item.kind != "system"] for run in runs]
        yield _row(bench, database, f"{len(runs)} real runs without system prompts", bare)


def _row(bench: Bench, database: str, label: str, contexts: list[list[Item]]) -> Row:
    everything = [item for context in contexts for item in context]
    text = text_bytes(everything)
    with bench.subjects(database, NAMES) as subjects:
        stats = {name: of_values(_bytes(subject, contexts) / text) for name, subject in subjects.items()}
    ratio = compressibility(everything)
    what = f"zstd-3 {ratio.single:.2f} singly, {ratio.blocks:.2f} by 64"
    return Row(f"bytes / text, {label} ({text / 1e6:.1f} MB; {what})", database, PLAIN, stats, GOAL)


def _bytes(subject: Subject, contexts: list[list[Item]]) -> int:
    for number, context in enumerate(contexts):
        write = subject.writer(f"context-{number}")
        for item in context:
            write(subject.ready(item))
    subject.close()
    used = subject.bytes_used()
    subject.open()
    return used
