"""The status of the projections of a store."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import msgspec

from ...domain.clock import REAL_SYSTEM, Stopwatch
from ...domain.errors import DamagedError
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING
from ...projections.contract import Projection
from ..log.row_faults import MissingTableError
from .folding import fault_of
from .leases import members_of, workers_on
from .partitions import events_in_partitions
from .shadow import shadow_of
from .store import ProjectionStore, SetAside, kept_by


class ProjectionStatus(msgspec.Struct, frozen=True, kw_only=True):
    """
    A projection: how many rows it has, and how many events it has not seen yet.

    `worker` is the process that keeps it up to date, as `PID.ID`, or several of them with commas between. `rebuilt` is
    the number of events that an unfinished rebuild has folded. `stopped_at` is the event that the projection cannot
    fold, and `error` the reason; without an event, it says what of the projection is damaged. The rows are made without
    the events that were `set_aside`.
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


# Returns how many rows a projection has.
Count = Callable[[ProjectionStore, Projection], int]
# A table with at most this many rows is counted each time.
FEW_ROWS = 100_000
# A count is used again for this many times as long as it took.
USED_FOR = 100


def counted(store: ProjectionStore, projection: Projection) -> int:
    """Return how many rows a projection has; a database reads all of them for it."""
    return store.count(projection)


def uncounted(store: ProjectionStore, projection: Projection) -> int:
    """Return 0, for callers that ask often and show no number; like a count, it fails if the table cannot be read."""
    store.page(projection, after="", limit=1)
    return 0


class RowCounts:
    """Counts of rows, for callers that ask often and show them; that of a large table is used again for a while."""

    def __init__(self, watch: Stopwatch = REAL_SYSTEM) -> None:
        self._watch = watch
        # The last count of each projection, and until when it is used again.
        self._known: dict[str, tuple[int, float]] = {}

    def of(self, store: ProjectionStore, projection: Projection) -> int:
        """Return how many rows a projection has, or had a while ago."""
        began = self._watch.monotonic()
        rows, until = self._known.get(projection.name, (0, -math.inf))
        if began >= until:
            rows = store.count(projection)
            took = self._watch.monotonic() - began
            self._known[projection.name] = rows, (began + took * USED_FOR if rows > FEW_ROWS else -math.inf)
        return rows


def status_of(
    log: LiveLog, store: ProjectionStore, projection: Projection, *, count: Count = counted
) -> ProjectionStatus:
    """Return the present status of a projection; in a store that is open for reading only, of its stored rows."""
    look = partial(_status, log, kept_by(store), projection, count)
    try:
        try:
            return look()
        except MissingTableError:
            # An erasure or a rebuild dropped the table meanwhile: ask again for what is there now.
            return look()
    except (DamagedError, MissingTableError) as error:
        # The other projections can be asked, and a rebuild makes these rows again.
        behind, nothing = log.now().events, str(BEGINNING)
        return ProjectionStatus(
            name=projection.name, version=projection.version, rows=0, position=nothing, behind=behind, error=str(error)
        )


def _status(log: LiveLog, store: ProjectionStore, projection: Projection, count: Count) -> ProjectionStatus:
    checkpoint = store.checkpoint(projection)
    seen = dict(checkpoint.heads)
    behind = sum(number - seen.get(lane, 0) for lane, number in log.now().heads)
    # If a projection has seen all events, a noted fault is old: some process went past it.
    fault = fault_of(log, store, projection) if behind else None
    built = store.checkpoint(shadow_of(projection)).events or events_in_partitions(store, projection)
    return ProjectionStatus(
        name=projection.name,
        version=projection.version,
        rows=count(store, projection),
        position=str(checkpoint),
        behind=behind,
        worker=", ".join(workers_on(members_of(store), store, projection)) or None,
        rebuilt=built or None,
        stopped_at=None if fault is None else fault.event,
        error=None if fault is None else fault.error,
        set_aside=tuple(store.set_aside(projection)),
    )
