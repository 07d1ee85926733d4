"""
What does the audit of one attribute cost in a long log?

The log is full of runs, and its projections are up to date. One table of a watched session was moved a hundred times,
another one a thousand times, in ten rounds. Raw is a table made for audits, with a row for each change of all nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sized
from contextlib import closing
from functools import partial

from refold import Store

from ..bench import Bench, reopen
from ..ours import Ours
from ..raw_audit import RawAudit, raw_audit
from ..rows import MILLISECONDS, Goal, Row
from ..timing import Stats, Task, measure
from ..watched import ATTRIBUTE, USER, WATCHED, changes_in, changes_of, node_of, watched_log

GOAL = Goal(20, absolute=True)


def audit(bench: Bench, database: str) -> Iterator[Row]:
    """Audit an attribute with few changes, and one with many."""
    with bench.subjects(database, ("ours", "raw")) as subjects:
        ours = subjects.ours
        # Beside the contestant's own table, in the database that was made for it.
        with closing(raw_audit(subjects["raw"].location)) as raw:
            raw.open()
            events = _fill(ours.store, raw, bench.scale.logged)
            for label, changes in changes_of(bench.scale.logged).items():
                name = f"audit, {changes:,} changes in {events:,} events"
                yield Row(name, database, MILLISECONDS, _measured(bench, ours, raw, label), GOAL)


def _fill(store: Store, raw: RawAudit, count: int) -> int:
    """Record the log, bring the audit up to date, and return how many events there are."""
    recorded = 0
    for new in watched_log(count):
        store.log.append([new]).result()
        raw.add(changes_in(new))
        recorded += len(new.events)
    for label in changes_of(count):
        assert len(_audited(store, label)) == len(_audited_raw(raw, label)), label
    return recorded


def _measured(bench: Bench, ours: Ours, raw: RawAudit, label: str) -> dict[str, Stats]:
    tasks = {
        "ours": Task(run=lambda _: _audited(ours.store, label), reopen=partial(reopen, ours), runs=bench.scale.runs),
        "raw": Task(run=lambda _: _audited_raw(raw, label), reopen=raw.reopen, runs=bench.scale.runs),
    }
    return measure(tasks, blocks=bench.scale.blocks, openings=bench.scale.openings)


def _audited(store: Store, label: str) -> Sized:
    return store.audit_node(f"Table({label})", ATTRIBUTE, user_id=USER, session_id=WATCHED)


def _audited_raw(raw: RawAudit, label: str) -> Sized:
    return raw.audit(node_of(WATCHED, label), ATTRIBUTE)
