"""
Looking at a whole store: first its events, then whether its projections are what those give.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from ...domain.errors import ProjectionError, StorageReadOnlyError
from ...domain.ports import LiveLog
from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Projection, SearchedRow
from ..projecting.read_only import kept_by
from ..projecting.rebuilding import Progress, check, rebuild
from ..projecting.store import ProjectionStore
from .damage import damage_of
from .events import EventCheck
from .report import Problem, Report

__all__ = ["verify"]


def verify(
    log: LiveLog,
    store: ProjectionStore,
    projections: Collection[Projection],
    *,
    repair: bool = False,
    progress: Progress | None = None,
) -> Report:
    """
    Return what is wrong with a store; with `repair` projections that are wrong are made anew, but for a broken file.

    Raises:
        StorageReadOnlyError: something is to be repaired in a store that was opened for reading only.
    """
    if repair and kept_by(store) is not store:
        raise StorageReadOnlyError("nothing can be repaired in a store that was opened for reading only")
    events = EventCheck(log)
    events.run()
    problems = list(events.problems)
    left_out: list[str] = []
    # What lies in a file that is broken is not to be trusted, and not to be written to.
    repair = repair and not any(problem.kind == "file" for problem in problems)
    if events.damage is None:
        problems += _missing_end(log, kept_by(store), projections)
        for projection in projections:
            try:
                problems += _wrong_with(log, store, projection, repair, progress)
            except StorageReadOnlyError:
                left_out.append(projection.name)
    else:
        reason = f"none was compared, as the log cannot be read: {events.damage.what}: {events.damage.reason}"
        problems.append(Problem("projection", "all", reason))
    return Report(
        streams=events.streams,
        events=events.events,
        projections=len(projections) - len(left_out),
        problems=tuple(problems),
        left_out=tuple(left_out),
    )


def _missing_end(log: LiveLog, store: ProjectionStore, projections: Collection[Projection]) -> list[Problem]:
    """Return a problem where a projection has seen more than there is: a log alone cannot tell that its end is gone."""
    for projection in projections:
        seen = _checkpoint(store, projection)
        end = log.now()
        if _is_ahead(seen, end):
            reason = f"the log ends here, and the projection {projection.name} has seen it up to {seen}"
            return [Problem("position", str(end), reason)]
    return []


def _wrong_with(
    log: LiveLog, store: ProjectionStore, projection: Projection, repair: bool, progress: Progress | None
) -> list[Problem]:
    try:
        fault = _fault_of(log, store, projection, progress)
    except ProjectionError as error:
        return [Problem("projection", projection.name, f"it cannot fold {error.event}: {error.reason}")]
    if fault is None:
        return []
    is_repaired = repair and _is_made_anew(log, store, projection, fault, progress)
    return [Problem("projection", projection.name, fault.reason, repairable=True, is_repaired=is_repaired)]


class _Fault(NamedTuple):
    """What is wrong with a projection, and whether its rows can be read at all."""

    reason: str
    is_readable: bool = True


def _fault_of(log: LiveLog, store: ProjectionStore, projection: Projection, progress: Progress | None) -> _Fault | None:
    try:
        report = check(log, store, projection, progress=progress)
    except ProjectionError:
        raise
    except Exception as error:
        damage = damage_of(error, "its rows")
        return _Fault(f"{damage.what}: {damage.reason}", is_readable=False)
    if not report.is_done:
        return _Fault(f"it stands at {_checkpoint(kept_by(store), projection)}, and the log at {log.now()}")
    if not report.differing:
        return _index_fault_of(kept_by(store), projection)
    keys = ", ".join(difference.key for difference in report.differences[:3])
    return _Fault(f"{report.differing:,} rows are not what the events give: {keys}")


def _index_fault_of(store: ProjectionStore, projection: Projection) -> _Fault | None:
    if not issubclass(projection.row, SearchedRow):
        return None
    try:
        reason = store.index_fault(projection)
    except StorageReadOnlyError:
        raise
    except Exception as error:
        damage = damage_of(error, "its index")
        return _Fault(f"{damage.what}: {damage.reason}", is_readable=False)
    return None if reason is None else _Fault(reason)


def _is_made_anew(
    log: LiveLog, store: ProjectionStore, projection: Projection, fault: _Fault, progress: Progress | None
) -> bool:
    try:
        if not fault.is_readable:
            # They are of no use to anybody, and nothing can take the place of what cannot be read.
            store.drop(projection)
        return rebuild(log, store, projection, restart=True, progress=progress).is_done
    except Exception as error:
        damage_of(error, "its rows")
        return False


def _checkpoint(store: ProjectionStore, projection: Projection) -> Moment:
    try:
        return store.checkpoint(projection)
    except StorageReadOnlyError:
        # To look for it takes a table, which is made where there is none; the projection will be left out.
        return BEGINNING
    except Exception as error:
        # Comparing its rows, which comes later, tells of it.
        damage_of(error, "its checkpoint")
        return BEGINNING


def _is_ahead(seen: Moment, end: Moment) -> bool:
    return any(number > end.head(lane) for lane, number in seen.heads)
