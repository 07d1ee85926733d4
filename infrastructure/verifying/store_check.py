"""The check of a whole store: first its events, then whether its projections match them."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import msgspec

from ...domain.arguments import require_callable, require_functions
from ...domain.chat.rules.decide import CHAT
from ...domain.context.decider import Decider
from ...domain.erasure.events import STREAM, Erasures, decoded, fold
from ...domain.errors import DamagedError, InvalidInputError, LogWentBackError, ProjectionError, StorageReadOnlyError
from ...domain.log.ports import LiveLog
from ...domain.memory.rules import MEMORIES
from ...domain.pool.rules import POOLS, QUEUES
from ...domain.positions import BEGINNING, Moment
from ...domain.trajectory.rules import RUNS
from ...domain.window.rules import WINDOWS
from ...projections.catalogue import CatalogueRow
from ...projections.contract import Projection, SearchedRow
from ..projecting.comparison import checkpoints_or_errors
from ..projecting.rebuild import rebuild
from ..projecting.runner import ProjectionRunner, contradictions, keep_trace, traces
from ..projecting.shadow import Progress, Stop
from ..projecting.store import ProjectionStore, kept_by, require_kept
from .event_check import EventCheck, Problem, Report, damage_of
from .shares import SharedComparison

T = TypeVar("T")
# How often a store is looked at while texts are erased, and the pause between.
LOOKS, PAUSE_SECONDS = 3, 1.0
# The kinds of contexts that have snapshots.
PACKED: dict[str, Decider[Any]] = {
    "chat": CHAT,
    "queue": QUEUES,
    "pool": POOLS,
    "window": WINDOWS,
    "memory": MEMORIES,
    "run": RUNS,
}


def verify(
    log: LiveLog,
    store: ProjectionStore,
    projections: Collection[Projection],
    *,
    repair: bool = False,
    progress: Progress | None = None,
    stop: Stop = lambda: False,
    processes: int | None = None,
) -> Report:
    """
    Return what is wrong with a store; with `repair`, wrong projections are rebuilt, unless the file itself is broken.

    `stop` is called after each page of the log, and before each projection. Rows of a projection may be the only sign
    of lost events, so that sign is stored permanently before a rebuild. While texts are erased, rows are wrong for a
    moment, so everything is looked at again then.

    Raises:
        InvalidInputError: fewer than one of `processes` are asked for.
        StorageReadOnlyError: `repair` was asked for in a store that was opened for reading only.
    """
    require_callable(stop, "stop")
    require_functions(progress=progress)
    if repair:
        require_kept(store, "repaired")
    for looks_left in reversed(range(LOOKS)):
        erasures = _erasures(log)
        with SharedComparison(log, kept_by(store), projections, progress=progress, processes=processes) as comparison:
            report = _verified(log, store, projections, comparison, repair, progress, stop)
        is_erasing = not report.is_whole and report.is_done and looks_left and _is_erased_since(log, erasures)
        if not is_erasing:
            return report
        time.sleep(PAUSE_SECONDS)
    raise AssertionError("the loop returns")


def _erasures(log: LiveLog) -> tuple[int, bool]:
    """Return how many events of erasures there are, and whether all erasures are finished."""
    try:
        events: Any = log.read_events(STREAM)
        return len(events), not fold(Erasures(), map(decoded, events)).unfinished
    except Exception as error:
        damage_of(error, STREAM)
        return 0, True


def _is_erased_since(log: LiveLog, before: tuple[int, bool]) -> bool:
    """Return whether an erasure is not finished, or was not before."""
    now = _erasures(log)
    return now != before or not now[1]


def _verified(
    log: LiveLog,
    store: ProjectionStore,
    projections: Collection[Projection],
    comparison: SharedComparison,
    repair: bool,
    progress: Progress | None,
    stop: Stop,
) -> Report:
    events = EventCheck(log)
    is_done = events.run(lambda look: comparison.read(look, stop))
    problems = list(events.problems)
    if not is_done:
        return Report(streams=events.streams, events=events.events, projections=0, problems=(*problems,), is_done=False)
    left_out: list[str] = []
    # The content of a broken file cannot be trusted, and the file must not be written to.
    repair = repair and not any(problem.kind == "file" for problem in problems)
    gone = _traces(log, kept_by(store), projections)
    problems += gone
    if events.damage is None:
        said = {problem.where for problem in gone}
        behind = [one for one in _ahead_of(log, events, kept_by(store), projections) if one.where not in said]
        if repair:
            # After a rebuild the rows no longer show that there were more events.
            for problem in (*gone, *behind):
                keep_trace(store, problem.where, problem.reason)
        snapshots = list(_wrong_snapshots(log, repair=repair))
        of_each = {one.name: list[Problem]() for one in projections}
        # Helpers are waited for last.
        for projection in sorted(projections, key=comparison.is_own_share, reverse=True):
            if is_done and (stop() or not comparison.is_ready(projection, stop)):
                is_done = False
            if not is_done:
                left_out.append(projection.name)
                continue
            try:
                found = _ProjectionCheck(log, store, projection, comparison, progress)
                of_each[projection.name] += found.wrong(repair)
                of_each[projection.name] += found.set_aside(repair)
            except StorageReadOnlyError:
                left_out.append(projection.name)
        problems += chain.from_iterable(of_each.values())
        problems += behind
        problems += snapshots
    else:
        reason = f"none was compared, as the log cannot be read: {events.damage.what}: {events.damage.reason}"
        problems.append(Problem("projection", "all", reason))
    return Report(
        streams=events.streams,
        events=events.events,
        projections=0 if events.damage else len(projections) - len(left_out),
        problems=tuple(problems),
        left_out=tuple(left_out),
        is_done=is_done,
    )


def _traces(log: LiveLog, store: ProjectionStore, projections: Collection[Projection]) -> list[Problem]:
    """
    Return a problem for each place where a record shows that there were more events; the log alone cannot show that.
    """
    found = dict(_readable_items(lambda: traces(store)))
    moments = zip(projections, _checkpoints(store, projections), strict=True)
    seen = [(f"the projection {one.name}", moment) for one, moment in moments]
    seen += [
        (name.replace("/", " "), _parsed(text)) for name, text in _readable_items(lambda: store.notes("subscription/"))
    ]
    end = log.now()
    ahead = [f"{who} has seen it up to {moment}" for who, moment in seen if not end.includes(moment)]
    if ahead:
        found[str(end)] = f"the log ends here, and {', '.join(ahead)}"
    for where, reason in _readable_items(lambda: dict(contradictions(log, store))):
        # The problem above already covers readers that have seen more events than there are.
        if not ahead or end.includes(Moment.parse(where)):
            found.setdefault(where, reason)
    return [Problem("version" if ":" in where else "position", where, reason) for where, reason in found.items()]


def _ahead_of(
    log: LiveLog, events: EventCheck, store: ProjectionStore, projections: Collection[Projection]
) -> list[Problem]:
    """
    Return a problem for each context that is longer in the catalogue than in the log, and for each without any event.
    """
    nothing = "it has no event, and no stream is made without one"
    problems = [Problem("version", stream, nothing) for stream in events.empty]
    for projection in projections:
        if not issubclass(projection.row, CatalogueRow):
            continue
        for key, version in _readable_items(
            partial(store.walk, projection, partial(_longer_in_rows, projection, events))
        ):
            # Others may have written since the check.
            if version > (end := log.head(key)):
                reason = f"the projection {projection.name} knows it up to version {version}, and it ends at {end}"
                problems.append(Problem("version", f"{key}@{version}", reason))
    return problems


def _longer_in_rows(
    projection: Projection, events: EventCheck, _: Moment, pages: Iterable[Sequence[Sequence[Any]]]
) -> dict[str, int]:
    """Return the versions of the contexts that are longer in the rows of a catalogue than in the events."""
    place = projection.row.__struct_fields__.index("version")
    return {row[0]: row[place] for page in pages for row in page if row[place] > events.end_of(row[0])}


def _readable_items(ask: Callable[[], Mapping[str, T]]) -> Iterable[tuple[str, T]]:
    """Return rows kept outside the log; none if they cannot be read, which the comparison of projections reports."""
    try:
        return ask().items()
    except StorageReadOnlyError:
        return ()
    except Exception as error:
        damage_of(error, "its rows")
        return ()


def _parsed(text: str) -> Moment:
    try:
        return Moment.parse(text)
    except InvalidInputError:
        return BEGINNING


def _wrong_snapshots(log: LiveLog, *, repair: bool) -> Iterator[Problem]:
    """Yield a problem for each snapshot that is wrong; with `repair`, the right one takes its place."""
    try:
        streams = list(log.streams_with_snapshot())
    except Exception as error:
        damage = damage_of(error, "the table of snapshots")
        yield Problem("snapshot", "all", f"{damage.what}: {damage.reason}")
        return
    for stream in streams:
        decider = PACKED.get(stream.partition(":")[0])
        if decider is None or (packing := decider.packing) is None:
            continue
        try:
            found = packing.fitting(log, stream)
            if found is None:
                continue
            state = decider.state_at(log, stream, found.version)
            if packing.is_of(found, state):
                continue
            if repair:
                packing.keep(log, stream, state, found.end)
        except Exception as error:
            damage = damage_of(error, f"the snapshot of {stream}")
            yield Problem("snapshot", stream, f"{damage.what}: {damage.reason}")
        else:
            yield Problem("snapshot", stream, "it is not what the events give", repairable=True, is_repaired=repair)


class _Fault(NamedTuple):
    """The fault of a projection's rows, and whether the rows can be read at all."""

    reason: str
    is_readable: bool = True


class _ProjectionCheck(NamedTuple):
    """The check of one projection, and its repair."""

    log: LiveLog
    store: ProjectionStore
    projection: Projection
    comparison: SharedComparison
    progress: Progress | None

    def wrong(self, repair: bool) -> list[Problem]:
        """Return the problem of the rows, if there is one."""
        try:
            fault = self._fault() or (self._storing_fault() if repair else None)
        except ProjectionError as error:
            return [self._problem(f"it cannot fold {error.event}: {error.reason}", repairable=False)]
        if fault is None:
            return []
        return [self._problem(fault.reason, is_repaired=repair and self._is_made_anew(fault.is_readable))]

    def set_aside(self, repair: bool) -> list[Problem]:
        """Return a problem for each event that the rows were made without; a repair folds such events again."""
        try:
            # Rows that were never made would be made without the same events.
            aside = self.store.set_aside(self.projection) or self.comparison.set_aside(self.projection)
        except DamagedError:
            # The problem of the rows already says so.
            return []
        is_anew = repair and bool(aside) and self._is_made_anew()
        # Rows that were never made lack none of the events yet.
        left = self.store.set_aside(self.projection) if is_anew else aside
        made = "its rows are made without"
        return [self._problem(f"{made} {one.event}: {one.error}", is_repaired=one not in left) for one in aside]

    def _problem(self, reason: str, *, repairable: bool = True, is_repaired: bool = False) -> Problem:
        return Problem("projection", self.projection.name, reason, repairable=repairable, is_repaired=is_repaired)

    def _fault(self) -> _Fault | None:
        kept = kept_by(self.store)
        try:
            report = self.comparison.compared(self.projection)
            # Without this, nobody knows which events the rows lack.
            kept.set_aside(self.projection)
            is_met = report.is_met
        except ProjectionError:
            raise
        except LogWentBackError:
            is_met = False
        except Exception as error:
            return _unreadable(error, "its rows")
        if not is_met:
            return _Fault(f"it stands at {_checkpoints(kept, [self.projection])[0]}, and the log at {self.log.now()}")
        if report.differing:
            keys = ", ".join(difference.key for difference in report.differences[:3])
            return _Fault(f"{report.differing:,} rows are not what the events give: {keys}")
        return self._index_fault() if issubclass(self.projection.row, SearchedRow) else None

    def _storing_fault(self) -> _Fault | None:
        """Return the fault that keeps rows from being stored: only storing some shows it, as in a changed column."""
        if self.store.checkpoint(self.projection) == BEGINNING:
            return None
        try:
            ProjectionRunner(self.log, self.store, [self.projection]).catch_up(self.projection)
        except DamagedError as error:
            return _unreadable(error, "its rows")
        return None

    def _index_fault(self) -> _Fault | None:
        try:
            reason = self.comparison.index_fault(self.projection)
        except StorageReadOnlyError:
            raise
        except Exception as error:
            return _unreadable(error, "its index")
        return None if reason is None else _Fault(reason)

    def _is_made_anew(self, is_readable: bool = True) -> bool:
        try:
            if not is_readable:
                # Rows that cannot be read are useless, and a rebuild cannot replace them.
                self.store.drop(self.projection)
            return rebuild(self.log, self.store, self.projection, restart=True, progress=self.progress).is_done
        except Exception as error:
            damage_of(error, "its rows")
            return False


def _unreadable(error: Exception, what: str) -> _Fault:
    damage = damage_of(error, what)
    return _Fault(f"{damage.what}: {damage.reason}", is_readable=False)


def _checkpoints(store: ProjectionStore, projections: Collection[Projection]) -> list[Moment]:
    found = checkpoints_or_errors(store, projections)
    for one in found:
        # Of a table that would have to be created first, the projection will be left out. Other errors are reported by
        # the comparison of the rows, which comes later.
        if isinstance(one, Exception) and not isinstance(one, StorageReadOnlyError):
            damage_of(one, "its checkpoint")
    return [BEGINNING if isinstance(one, Exception) else one for one in found]


def with_faults(report: Report, faults: Iterable[tuple[str, str]]) -> Report:
    """Return a report with what differs from the witness, each with its place and the reason."""
    found = [Problem("witness", where, reason) for where, reason in faults]
    return msgspec.structs.replace(report, problems=(*report.problems, *found))
