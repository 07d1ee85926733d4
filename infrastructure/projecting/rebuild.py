"""
Rebuilding a projection: new rows are made in a shadow; readers see the old rows until the shadow replaces them.

If a rebuild is stopped or killed, its shadow stays, and the next rebuild continues it. A complete shadow may wait, too,
until a person has seen how it differs from the live rows. A check makes no shadow: see `comparison.py`.
"""

from __future__ import annotations

import os
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import NamedTuple

import msgspec

from ...domain.arguments import require_callable, require_functions
from ...domain.clock import REAL_SYSTEM, Stopwatch
from ...domain.errors import DamagedError, InvalidInputError, ProjectionError
from ...domain.log.ports import LiveLog
from ...domain.positions import BEGINNING
from ...projections.contract import Projection
from ..log.row_faults import MissingTableError
from .comparison import Compared, Comparison, Difference, compared_with
from .folding import note_fault
from .partitions import PartitionedBuild, forget_partitions, has_partitions, is_partitionable
from .runner import ProjectionRunner
from .shadow import Build, Progress, Stop, shadow_of
from .shape import code_of
from .store import ProjectionStore, kept_by, require_kept

# Writers and workers go on meanwhile, so the shadow is brought up to date up to this many times before giving up.
MEETINGS_MAX = 100
PARTITIONS_MAX = 1_024
# The note of the code that made a shadow.
CODE = "code/"


class Workers(NamedTuple):
    """The workers that build partitions of a log, and the number of partitions."""

    executor: Executor
    partitions: int

    @classmethod
    def of(cls, executor: Executor | None, partitions: int | None) -> Workers | None:
        """
        Return workers for a number of partitions, by default one for each core of this machine; None for no executor.

        Raises:
            InvalidInputError: they are fewer than 1, or more than PARTITIONS_MAX, or there is no executor for them.
        """
        if executor is None:
            if partitions is not None:
                raise InvalidInputError(f"partitions is {partitions}, and no executor is given that would fold them")
            return None
        if partitions is None:
            return cls(executor, os.cpu_count() or 1)
        if not 1 <= partitions <= PARTITIONS_MAX:
            raise InvalidInputError(f"partitions is {partitions}: take 1 to {PARTITIONS_MAX:,}")
        return cls(executor, partitions)


class RebuildReport(msgspec.Struct, frozen=True, kw_only=True):
    """
    The result of a rebuild or a check.

    `is_done` is False if it was stopped, or if the live rows changed all the time. A check, and a rebuild without the
    swap, have the number of rows that differ, and the first few of them; `fault` is the reason why the live rows could
    not be compared. `set_aside` is the number of events that the rows are made without.
    """

    projection: str
    is_done: bool
    rows: int = 0
    events: int = 0
    seconds: float = 0.0
    differing: int = 0
    differences: tuple[Difference, ...] = ()
    set_aside: int = 0
    fault: str | None = None


def rebuild(
    log: LiveLog,
    store: ProjectionStore,
    projection: Projection,
    *,
    restart: bool = False,
    progress: Progress | None = None,
    stop: Stop = lambda: False,
    workers: Workers | None = None,
    swap: bool = True,
    watch: Stopwatch = REAL_SYSTEM,
) -> RebuildReport:
    """
    Rebuild the rows of a projection and replace the live rows by them; readers see the old rows until then.

    Without `swap`, the new rows are compared with the live rows and stay beside them: the next rebuild replaces the
    live rows, and `discard` drops the new ones.

    It continues a shadow that an earlier rebuild left, unless `restart` is set, or the code of the projection has
    changed since. `stop` and `progress` are called after each page. With `workers` the log is folded in partitions, if
    the projection allows it.

    Raises:
        ProjectionError: it cannot fold an event; the live rows stay.
        StorageBusyError: another process is rebuilding it.
        StorageReadOnlyError: the store was opened for reading only.
    """
    require_callable(stop, "stop")
    require_functions(progress=progress)
    require_kept(store, "rebuilt")
    began = watch.monotonic()
    with Build(log, store, projection, shadow_of(projection), watch=watch, progress=progress) as build:
        _begin(store, projection, build, restart)
        if swap:
            _forget_unreadable(store, projection)
        found: Compared | None = Compared()
        try:
            is_done = _build_in_partitions(log, store, projection, build, stop, workers)
            if is_done and swap:
                is_done = _build_and_replace(store, projection, build, stop)
            elif is_done:
                found = _build_and_compare(log, store, projection, build, stop)
        except ProjectionError:
            # The fold is at fault, so all rows that it made are useless.
            _forget_shadow(store, projection, build)
            raise
        if not is_done or found is None:
            return RebuildReport(projection=projection.name, is_done=False, events=build.folded)
        made = projection if swap else build.shadow
        if swap:
            note_fault(store, projection, None)
        return RebuildReport(
            projection=projection.name,
            is_done=True,
            rows=_count(store, made),
            events=build.folded,
            seconds=watch.monotonic() - began,
            differing=found.differing,
            differences=found.differences,
            set_aside=len(store.set_aside(made)),
            fault=found.fault,
        )


def _count(store: ProjectionStore, made: Projection) -> int:
    try:
        return store.count(made)
    except MissingTableError:
        # An erasure has dropped them since; the second call makes their table.
        return store.count(made)


def discard(log: LiveLog, store: ProjectionStore, projection: Projection) -> bool:
    """
    Drop the new rows that an unfinished rebuild left beside the live rows; return whether there were any.

    Raises:
        StorageBusyError: another process is rebuilding it.
        StorageReadOnlyError: the store was opened for reading only.
    """
    require_kept(store, "rebuilt")
    with Build(log, store, projection, shadow_of(projection)) as build:
        note = CODE + build.shadow.name
        was_there = store.checkpoint(build.shadow) != BEGINNING or has_partitions(store, projection)
        _forget_shadow(store, projection, build)
        store.set_note(note, before=store.note(note), after=None)
    return was_there


def _begin(store: ProjectionStore, projection: Projection, build: Build, restart: bool) -> None:
    """Drop the shadow that an earlier rebuild left, unless the same code made it; it is continued then."""
    note, code = CODE + build.shadow.name, code_of(projection)
    before = store.note(note)
    if restart or before != code:
        _forget_shadow(store, projection, build)
        store.set_note(note, before=before, after=code)


def _forget_shadow(store: ProjectionStore, projection: Projection, build: Build) -> None:
    # In this order: a process that was overtaken may be making the shadow of the partitions.
    forget_partitions(store, projection)
    store.drop(build.shadow)


def _forget_unreadable(store: ProjectionStore, projection: Projection) -> None:
    """Drop rows whose checkpoint cannot be read: it is unknown how far they go, so no shadow could replace them."""
    try:
        store.checkpoint(projection)
    except DamagedError:
        store.drop(projection)


def _build_in_partitions(
    log: LiveLog, store: ProjectionStore, projection: Projection, build: Build, stop: Stop, workers: Workers | None
) -> bool:
    """Build most of the shadow in partitions, if there are workers or partitions were left; False if it was stopped."""
    if store.checkpoint(build.shadow) != BEGINNING or not is_partitionable(log, projection):
        # A shadow that was begun without partitions is continued without them.
        return True
    work = PartitionedBuild(log, store, projection, build)
    if workers is not None:
        return work.run(workers.executor, workers.partitions, stop)
    if not has_partitions(store, projection):
        return True
    with ThreadPoolExecutor(1) as here:
        return work.run(here, 1, stop)


def _build_and_replace(store: ProjectionStore, projection: Projection, build: Build, stop: Stop) -> bool:
    """Build the shadow and put it in place, unless the live rows went further than the shadow in the meantime."""
    # This run does most of the work; few events are written meanwhile.
    if not build.run(stop):
        return False
    for _ in range(MEETINGS_MAX):
        before = store.checkpoint(projection)
        if not build.run(stop):
            return False
        is_empty = store.checkpoint(build.shadow) == BEGINNING
        if is_empty or store.replace(projection, build.shadow, before=before):
            return True
    return False


def _build_and_compare(
    log: LiveLog, store: ProjectionStore, projection: Projection, build: Build, stop: Stop
) -> Compared | None:
    """Build the shadow and compare it with the live rows, both at the same moment; None if it was stopped."""
    live = ProjectionRunner(log, store, [projection])
    for _ in range(MEETINGS_MAX):
        if not build.run(stop):
            return None
        try:
            live.catch_up(projection)
            until = store.checkpoint(projection)
            if not build.run(stop, until=until):
                return None
            compare = partial(compared_with, projection, build.shadow, store)
            found: Compared = store.walk(projection, compare)
        except DamagedError as error:
            return Compared(store.count(build.shadow), fault=str(error))
        if found.is_met:
            return found
    return Compared(store.count(build.shadow), fault="they changed all the time")


def check(
    log: LiveLog,
    store: ProjectionStore,
    projection: Projection,
    *,
    progress: Progress | None = None,
    stop: Stop = lambda: False,
) -> RebuildReport:
    """
    Compare the live rows of a projection with those that its events give, and leave the live rows as they are.

    They are brought up to date first, unless the database is open for reading only.

    Raises:
        ProjectionError: it cannot fold an event.
    """
    require_callable(stop, "stop")
    require_functions(progress=progress)
    began, kept = REAL_SYSTEM.monotonic(), kept_by(store)
    if kept is store:
        ProjectionRunner(log, store, [projection]).catch_up(projection)
    with closing(Comparison(log, kept, [projection], progress=progress)) as comparison:
        is_read = comparison.read(stop=stop)
        found = comparison.compared(projection) if is_read else Compared(is_met=False)
        return RebuildReport(
            projection=projection.name,
            is_done=found.is_met,
            rows=found.rows,
            events=comparison.events,
            seconds=REAL_SYSTEM.monotonic() - began,
            differing=found.differing,
            differences=found.differences,
            set_aside=len(comparison.set_aside(projection)),
        )
