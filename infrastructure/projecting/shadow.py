"""The shadow of a projection: its rows, rebuilt under another name, by one process at a time, page by page."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from types import SimpleNamespace
from typing import NamedTuple, cast

from ...domain.clock import REAL_SYSTEM, Stopwatch
from ...domain.errors import ProjectionError, StorageBusyError, StorageError
from ...domain.log.ports import PagedLog
from ...domain.positions import Moment
from ...projections.contract import Projection
from ..log.row_faults import MissingTableError
from .leases import TAKE_OVER_SECONDS, Lease, holder_of
from .runner import CATCH_UPS_MAX, ProjectionRunner
from .store import ProjectionStore

# The lease of a process that was killed is free after TAKE_OVER_SECONDS.
PATIENCE_SECONDS = TAKE_OVER_SECONDS + 1.0
LOOK_SECONDS = 0.1
PARTS = ("version", "row", "keys", "evolve", "events", "evolve_all", "stays_in_slice", "on_fault")


def shadow_of(projection: Projection, *, partition: int | None = None) -> Projection:
    """Return the same projection under another name: that of its shadow, or of one partition of it."""
    # Assembled from the projection's attributes, because a projection may not allow a copy with another name.
    parts = {part: getattr(projection, part) for part in PARTS if hasattr(projection, part)}
    number = "" if partition is None else f"_{partition}"
    return cast(Projection, SimpleNamespace(name=f"{projection.name}_shadow{number}", **parts))


class RebuildProgress(NamedTuple):
    """The number of folded events, of all events, of events per second, and the estimated seconds that are left."""

    projection: str
    done: int
    total: int
    rate: float
    seconds_left: float


def progress_after(projection: str, done: int, total: int, folded: int, seconds: float) -> RebuildProgress:
    """Return the progress: `done` of `total` events are folded, `folded` of them in the last `seconds`."""
    rate = folded / seconds if seconds else 0.0
    return RebuildProgress(projection, done, total, rate, (total - done) / rate if rate else 0.0)


Progress = Callable[[RebuildProgress], None]
Stop = Callable[[], bool]


class Build:
    """The shadow of a projection; within a `with` block no other process builds or drops it."""

    def __init__(
        self,
        log: PagedLog,
        store: ProjectionStore,
        projection: Projection,
        shadow: Projection,
        *,
        watch: Stopwatch = REAL_SYSTEM,
        progress: Progress | None = None,
    ) -> None:
        self.shadow = shadow
        self._log, self._store, self._projection = log, store, projection
        self._watch, self._progress = watch, progress
        self._lease = Lease(store, self.shadow.name, watch)
        self._runner = ProjectionRunner(log, store, [self.shadow])
        self.folded = 0

    def __enter__(self) -> Build:
        end = self._watch.monotonic() + PATIENCE_SECONDS
        while not self._lease.hold():
            if self._watch.monotonic() > end:
                raise self.taken()
            time.sleep(LOOK_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        # The lease also expires by itself, and an error of the block must not be replaced.
        with suppress(StorageError):
            self._lease.release()

    def run(self, stop: Stop, *, until: Moment | None = None, at_once: int = 1) -> bool:
        """
        Build up to the end of the log or to a moment, `at_once` pages at a time; return False if it was stopped.

        Raises:
            ProjectionError: the projection cannot fold an event.
            StorageBusyError: this process paused for so long that another process took over.
        """
        left = CATCH_UPS_MAX
        while True:
            folded = self.folded
            try:
                return self._run(stop, until, at_once)
            except ProjectionError as error:
                raise ProjectionError(self._projection.name, error.event, error.reason) from error.__cause__ or error
            except MissingTableError:
                # An erasure dropped the table of the shadow: begin again. Only attempts that folded nothing count.
                left = CATCH_UPS_MAX if self.folded > folded else left - 1
                if not left:
                    raise
                if stop():
                    return False

    def _run(self, stop: Stop, until: Moment | None, at_once: int) -> bool:
        began, before = self._watch.monotonic(), self._store.checkpoint(self.shadow).events
        total, folded = self._log.now().events, self.folded
        for moment in self._runner.pages(self.shadow, until=until, at_once=at_once):
            done = moment.events
            self.folded = folded + done - before
            self.report(done, max(total, done), done - before, self._watch.monotonic() - began)
            self.hold()
            if stop():
                return False
        return True

    def hold(self) -> None:
        """
        Renew the lease of the shadow.

        Raises:
            StorageBusyError: this process paused for so long that another process took over.
        """
        if not self._lease.hold():
            raise self.taken()

    def report(self, done: int, total: int, folded: int, seconds: float) -> None:
        """Report the progress: `done` of `total` events are in the shadow, `folded` of them in the last `seconds`."""
        if self._progress is not None:
            self._progress(progress_after(self._projection.name, done, total, folded, seconds))

    def taken(self) -> StorageBusyError:
        """Return the error for a build that another process has taken over."""
        holder = holder_of(self._store, self.shadow.name) or "another process"
        return StorageBusyError(
            f"the projection {self._projection.name} is being rebuilt or checked by {holder}: try again after that"
        )
