"""How the projections of a store stand."""

from __future__ import annotations

import msgspec

from ...domain.log.ports import LiveLog
from ...projections.contract import Projection
from .folding import fault_of
from .leases import holder_of
from .partitions import events_in_partitions
from .shadow import shadow_of
from .store import ProjectionStore, SetAside


class ProjectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """
    A projection: how many rows it has, and how many events it has not seen yet.

    `worker` is the process that holds its lease, as `PID.ID`; `rebuilt` is how many events a rebuild that was stopped
    has behind it; `stopped_at` is the event that it cannot fold, and `error` why. Its rows are made without the events
    that were `set_aside`.
    """

    name: str
    version: int
    rows: int
    position: str
    behind: int
    worker: str | None = None
    rebuilt: int | None = None
    stopped_at: str | None = None
    error: str | None = None
    set_aside: tuple[SetAside, ...] = ()


def status_of(log: LiveLog, store: ProjectionStore, projection: Projection) -> ProjectionStatus:
    """Return how a projection stands now."""
    checkpoint = store.checkpoint(projection)
    seen = dict(checkpoint.heads)
    behind = sum(number - seen.get(lane, 0) for lane, number in log.now().heads)
    # Nothing has stopped one that has seen everything: it went on, by whosever hand.
    fault = fault_of(store, projection) if behind else None
    built = store.checkpoint(shadow_of(projection)).events or events_in_partitions(store, projection)
    return ProjectionStatus(
        name=projection.name,
        version=projection.version,
        rows=store.count(projection),
        position=str(checkpoint),
        behind=behind,
        worker=holder_of(store, projection.name),
        rebuilt=built or None,
        stopped_at=None if fault is None else fault.event,
        error=None if fault is None else fault.error,
        set_aside=tuple(store.set_aside(projection)),
    )
