"""
How long does it take to copy a store of 1,000,000 events into another database, and back, compared at the end?

Raw is not measured, because no other program keeps times, positions and digests. The rate is that of the whole command.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from time import perf_counter

import refold
from refold.infrastructure.exchange import CopyReport, copy_store

from ..bench import Bench
from ..rows import RATE, Row
from ..timing import of_values
from .large import fill


def moving(bench: Bench, database: str) -> Iterator[Row]:
    """Fill a file, copy it into another file or onto the server, and move that into a third one."""
    count = bench.scale.logged
    with bench.subjects("sqlite", ("ours",)) as first, bench.subjects(database, ("ours",)) as second:
        source, target = first["ours"].location, second["ours"].location
        with closing(refold.open(source)) as store:
            fill(store, count)
        back = str(bench.folder / "back.db")
        for label, one, other in (("from a file", source, target), ("back into a file", target, back)):
            began = perf_counter()
            report = copy_store(one, other, move=other == back)
            yield _row(f"copying {label}, {count:,} events", database, report, perf_counter() - began)
        for left in bench.folder.glob("back.db*"):
            left.unlink()


def _row(label: str, database: str, report: CopyReport, seconds: float) -> Row:
    assert report.copied == report.events
    return Row(label, database, RATE, {"ours": of_values(seconds / report.events)})
