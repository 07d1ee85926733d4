"""Merging queues and pools, and saying what was taken, what left and what was in dispute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...domain.pool.container import Container
from ...domain.pool.events import MergedEvent, PoolConflictResolved
from ...domain.pool.joining import Merging
from ...domain.pool.rules import Side
from .changes import note, report
from .containers import born, changed, departures_of, made_room, named_shapes, totals_of
from .naming import counted
from .terminal import one_line


def merge_containers(target: Container[Any], source: Container[Any], *, rule: str, as_json: bool) -> None:
    """Take what is new in a queue or a pool into another one of its kind, and print what that did."""
    departures = departures_of(source)
    theirs = Side(source.stream, source.version, departures.state, departures.gone())
    merging = Merging(theirs, source.log, rule, source)
    events = changed(target, lambda state: merging.prepare(target, state))
    merged = [event for event in events if isinstance(event, MergedEvent)]
    conflicts = [event for event in events if isinstance(event, PoolConflictResolved)]
    taken = born(target, [span for one in merged for span in one.taken])
    dropped = born(target, [span for one in merged for span in one.dropped])
    evicted, tokens = made_room(target, events), totals_of(taken).tokens
    shape = {
        "source": {"context": source.id, "version": source.version},
        "how": "full",
        "items": len(taken),
        "tokens": tokens,
        "conflicts": [{"kind": "item", "item": one.id, "rule": one.rule, "kept": one.kept} for one in conflicts],
        "dropped": named_shapes(dropped, target.stream),
        "evicted": named_shapes(evicted, target.stream),
    }
    said = f"{counted(len(taken), 'item')} taken from {one_line(source.id)}@{source.version}, about {tokens:,} tokens"
    said += f"; {counted(len(dropped), 'item')} dropped" if dropped else ""
    said += f"; {counted(len(evicted), 'item')} left to make room" if evicted else ""
    report(target, said, shape, as_json=as_json)
    _explain(target, merged, conflicts)


def _explain(target: Container[Any], merged: Sequence[MergedEvent], conflicts: Sequence[PoolConflictResolved]) -> None:
    if not merged:
        note(f"{target.stream} has nothing to take from there that it did not have before: nothing was changed")
    for one in conflicts:
        other = "theirs" if one.kept == "ours" else "ours"
        note(f"both sides changed {one.id!r}: {one.kept} kept (--on-conflict {other} would have kept the other)")
