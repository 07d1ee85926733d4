"""
From which contexts does a context come? One row for each edge of the graph of forks and merges.

A context that was adopted from another log has no edge for this, because no event names the other log. Its forks and
merges have edges as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.chat.events import Forked, Merged
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.pool.events import BranchedEvent, MergedEvent, PoolBranched, PoolMerged, QueueBranched, QueueMerged
from ..domain.spans import Segment
from ..domain.trajectory.events import RoundsRestored
from .rows import envelope_columns, version_key

KINDS: dict[type[Event], str] = {
    Forked: "forked",
    QueueBranched: "branched",
    PoolBranched: "branched",
    Merged: "merged",
    QueueMerged: "merged",
    PoolMerged: "merged",
    RoundsRestored: "restored",
}


class LineageRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    An edge: `target` at `target_version` took something from `source` at `source_version`. Both are streams.

    `kind` is `forked`, `branched` (queues and pools), `merged` or `restored` (a run goes back over an earlier round);
    `how` says how a chat was forked or merged, and is empty elsewhere. The event is `target@target_version`; `lane`
    and `number` are its position, `recorded_at` is in microseconds since 1970, UTC; an empty text is "not given".
    """

    key: str
    kind: str
    how: str
    source: str
    source_version: int
    target: str
    target_version: int
    lane: int
    number: int
    recorded_at: int
    actor: str
    cause: str
    correlation_id: str


class Lineage:
    """The fold behind `store.lineage()`."""

    name = "lineage"
    version = 1
    row = LineageRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset(KINDS)

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the keys of the edges that the event adds; the keys of a target are in the order of its versions."""
        sources = _sources(event.event)
        return [f"{version_key(event.stream, event.version)}/{place:06}" for place in range(len(sources))]

    def evolve(self, key: str, row: LineageRow | None, event: RecordedEvent) -> LineageRow:
        """Return the edge, which never changes."""
        recorded = event.event
        source = _sources(recorded)[int(key.rpartition("/")[2])]
        return LineageRow(
            key=key,
            kind=KINDS[type(recorded)],
            how=getattr(recorded, "how", ""),
            source=source.stream,
            source_version=source.version,
            target=event.stream,
            target_version=event.version,
            **envelope_columns(event),
        )


def _sources(event: Event) -> tuple[Segment, ...]:
    match event:
        case RoundsRestored(rounds=rounds):
            return rounds
        case Merged(source=source, version=version) | MergedEvent(source=source, version=version):
            return (Segment(source, version),)
        case Forked(parent=parent, version=version) | BranchedEvent(parent=parent, version=version):
            return (Segment(parent, version),)
    raise AssertionError(f"{type(event).__name__} brings nothing from elsewhere")


LINEAGE = Lineage()
