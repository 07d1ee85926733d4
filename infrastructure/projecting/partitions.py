"""
Building a shadow in partitions, by several processes of this machine or of a cluster.

Each partition of the log is folded into rows of its own, page by page. If a worker is killed, another worker goes on
after its last page. When all partitions are done, their rows become the shadow. This works only for a projection in
which no row is made from events of several partitions.

A note holds the plan: the number of partitions, and an id of the process that started the build. A worker stops if it
finds another plan.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

from ...domain.clock import REAL_SYSTEM
from ...domain.errors import RefoldError
from ...domain.ids import SLICES
from ...domain.log.ports import LiveLog, PartitionedLog
from ...domain.positions import BEGINNING, Moment, Partition
from ...projections.contract import PartitionableProjection, Projection, SearchedRow
from ..databases import open_database, stored_log
from ..log.codec import CODEC
from .leases import TAKE_OVER_SECONDS
from .shadow import Build, Stop, shadow_of
from .store import ProjectionStore

# Workers write one after the other, so several pages share a transaction; each takes some milliseconds.
PAGES_AT_ONCE = 4
LOOK_SECONDS = 0.25
# A worker that is to stop may take this long for the page that it folds.
END_SECONDS = 4 * TAKE_OVER_SECONDS
log = logging.getLogger("refold.projections")


class PartitionTask(NamedTuple):
    """
    The task of a worker: build a partition of a projection up to a moment, as long as the plan is unchanged.

    `chain_key` is the key of the digests, empty if they have none.
    """

    location: str
    projection: Projection
    partition: Partition
    until: Moment
    plan: str
    chain_key: bytes

    def __repr__(self) -> str:
        # Executors log the tasks that fail: a location may hold a password, and the key is secret.
        return f"PartitionTask({self.projection.name}, {self.partition}, until={self.until})"


def build_partition(task: PartitionTask) -> bool:
    """
    Build a partition in the current process; return False if it was stopped.

    Raises:
        ProjectionError: the projection cannot fold an event.
    """
    # Rows and their checkpoint are stored together, so rows that a power cut loses are simply built again.
    events, store = open_database(task.location, create=False, synchronous="NORMAL", chain_key=task.chain_key)
    try:
        assert isinstance(events, PartitionedLog)
        projection, partition = task.projection, task.partition
        shadow, note = shadow_of(projection, partition=partition.number), _plan_note(projection)
        with Build(events.partition(partition), store, projection, shadow) as build:
            return build.run(lambda: store.note(note) != task.plan, until=task.until, at_once=PAGES_AT_ONCE)
    finally:
        events.close()


def is_partitionable(events: LiveLog, projection: Projection) -> bool:
    """Return whether a projection of this log can be built in partitions."""
    stays = isinstance(projection, PartitionableProjection) and projection.stays_in_slice
    # Searched rows have an index, which is built row by row and by one process at a time.
    if not (stays and isinstance(events, PartitionedLog)) or issubclass(projection.row, SearchedRow):
        return False
    # Other processes would decode events otherwise.
    return stored_log(events).codec is CODEC


def has_partitions(store: ProjectionStore, projection: Projection) -> bool:
    """Return whether there is an unfinished build of a projection in partitions."""
    return store.note(_plan_note(projection)) is not None


def events_in_partitions(store: ProjectionStore, projection: Projection) -> int:
    """Return about how many events the unfinished partitions of a projection have folded."""
    moments = [(store.checkpoint(shadow), partition.of) for shadow, partition in _partitions(store, projection)]
    # On a log with one sequence each partition also counts the events of the others, so its number is divided.
    return sum(number // (of if lane < 0 else 1) for moment, of in moments for lane, number in moment.heads)


def forget_partitions(store: ProjectionStore, projection: Projection) -> None:
    """Drop the partitions of a projection, if there are any."""
    note, parts = _plan_note(projection), _partitions(store, projection)
    if parts:
        # A process that gathers the partitions uses their tables until its transaction ends; it sees this, and stops.
        store.set_note(note, before=store.note(note), after=_called_off(len(parts)))
    for shadow, _ in parts:
        store.drop(shadow)
    store.set_note(note, before=store.note(note), after=None)


class PartitionedBuild:
    """The build of all partitions of a projection, while this process holds the lease of the shadow."""

    def __init__(self, events: LiveLog, store: ProjectionStore, projection: Projection, build: Build) -> None:
        self._events, self._store, self._projection, self._build = events, store, projection, build
        self._note, self._plan = _plan_note(projection), ""

    def run(self, executor: Executor, partitions: int, stop: Stop) -> bool:
        """
        Let an executor build all partitions, and make the shadow from them; return False if it was stopped.

        It continues partitions that an earlier build left, and keeps their number. Events that are written meanwhile
        are not in the shadow.

        Raises:
            ProjectionError: the projection cannot fold an event.
            InvalidInputError: a row is made from events of several partitions.
            StorageBusyError: another process took over.
        """
        until = self._events.now()
        if until == BEGINNING:
            return True
        assert isinstance(self._events, PartitionedLog)
        self._events.prepare_partitions()
        self._take_over(partitions)
        found = _partitions(self._store, self._projection)
        location, chain_key = self._events.location, stored_log(self._events).chain.key
        tasks = [
            PartitionTask(location, self._projection, partition, partition.share(until), self._plan, chain_key)
            for _, partition in found
        ]
        progress = _Parts(self._build, self._store, found, until)
        while True:
            is_built, folded = self._build_all(executor, tasks, stop, progress), progress.folded()
            # Partitions that were dropped meanwhile, for example by an erasure, are built again.
            if not is_built or self._gathered([shadow for shadow, _ in found], until):
                break
        self._build.folded += folded
        if is_built:
            self._store.set_note(self._note, before=self._plan, after=None)
        return is_built

    def _gathered(self, shadows: Sequence[Projection], until: Moment) -> bool:
        """Make the shadow of all partitions; return whether they were all there."""
        with ThreadPoolExecutor(1) as alone:
            plan = (self._note, self._plan)
            gathered = alone.submit(self._store.gather, self._build.shadow, shadows, moment=until, plan=plan)
            try:
                self._wait([gathered], lambda: False)
            except BaseException:
                self._call_off([gathered])
                raise
            if not gathered.result() and self._store.note(self._note) != self._plan:
                raise self._build.taken()
            return gathered.result()

    def _take_over(self, partitions: int) -> None:
        """Note a plan of this process; workers of another plan stop when they see it."""
        is_noted = False
        while not is_noted:
            before = self._store.note(self._note)
            of = (0 if before is None else _of(before)) or partitions
            self._plan = f"{of}.{os.urandom(4).hex()}"
            is_noted = self._store.set_note(self._note, before=before, after=self._plan)

    def _build_all(self, executor: Executor, tasks: Sequence[PartitionTask], stop: Stop, progress: _Parts) -> bool:
        outcomes = self._outcomes(executor, tasks, stop, progress)
        lost = [task for task, outcome in zip(tasks, outcomes, strict=True) if isinstance(outcome, Exception)]
        if lost:
            with ThreadPoolExecutor(1) as here:
                outcomes += self._outcomes(here, lost, stop, progress)
        for outcome in outcomes[len(tasks) :]:
            if isinstance(outcome, Exception):
                raise outcome
        return all(outcomes)

    def _outcomes(
        self, executor: Executor, tasks: Sequence[PartitionTask], stop: Stop, progress: _Parts
    ) -> list[bool | Exception]:
        """Return for each partition whether it is done, or the error that ended its worker."""
        futures: list[Future[bool]] = []
        try:
            futures += [executor.submit(build_partition, task) for task in tasks]
            self._wait(futures, stop, progress)
            return [self._outcome(*pair) for pair in zip(tasks, futures, strict=True)]
        except BaseException:
            self._call_off(futures)
            raise

    def _wait(self, futures: Iterable[Future[Any]], stop: Stop, progress: _Parts | None = None) -> None:
        """Wait for all futures and renew the lease of the shadow meanwhile; call the work off if it must stop."""
        left, is_stopped = set(futures), False
        while left:
            # `wait` lists a future that was cancelled before it began as not done until its executor handles it.
            left = {future for future in wait(left, LOOK_SECONDS).not_done if not future.cancelled()}
            self._build.hold()
            if progress is not None:
                progress.report()
            if left and not is_stopped and stop():
                is_stopped = True
                self._call_off(left)

    def _call_off(self, futures: Iterable[Future[Any]]) -> None:
        """Note a plan that no worker has: the workers of the present plan see it and stop."""
        self._store.set_note(self._note, before=self._plan, after=_called_off(_of(self._plan)))
        wait([future for future in futures if not future.cancel()], END_SECONDS)

    def _outcome(self, task: PartitionTask, future: Future[bool]) -> bool | Exception:
        if future.cancelled():
            return False
        try:
            return future.result()
        except RefoldError:
            raise
        except Exception as error:
            number, of = task.partition
            name = f"partition {number + 1} of {of} of the projection {self._projection.name}"
            log.warning("%s: its worker failed (%r), and this process builds it", name, error)
            return error


class _Parts:
    """The progress of partitions that workers build."""

    def __init__(
        self, build: Build, store: ProjectionStore, partitions: Sequence[tuple[Projection, Partition]], until: Moment
    ) -> None:
        self._build, self._store, self._partitions = build, store, partitions
        self._total = until.events
        self._goal = sum(partition.share(until).events for _, partition in partitions)
        self._began, self._before = REAL_SYSTEM.monotonic(), self._done()

    def _done(self) -> int:
        done = sum(self._store.checkpoint(shadow).events for shadow, _ in self._partitions)
        return self._total * done // self._goal

    def folded(self) -> int:
        """Return about how many events were folded in this build."""
        return self._done() - self._before

    def report(self) -> None:
        """Report the progress of all partitions together."""
        done = self._done()
        self._build.report(done, self._total, done - self._before, REAL_SYSTEM.monotonic() - self._began)


def _partitions(store: ProjectionStore, projection: Projection) -> list[tuple[Projection, Partition]]:
    plan = store.note(_plan_note(projection))
    of = 0 if plan is None else _of(plan)
    return [(shadow_of(projection, partition=number), Partition(number, of)) for number in range(of)]


def _plan_note(projection: Projection) -> str:
    return f"partitions/{projection.name}.{projection.version}"


def _called_off(partitions: int) -> str:
    """Return a plan that no process has."""
    return f"{partitions}."


def _of(plan: str) -> int:
    number = plan.partition(".")[0]
    # A plan that cannot be read counts as no plan, and the rebuild starts from the beginning.
    of = int(number) if number.isdecimal() and len(number) <= len(str(SLICES)) else 0
    return of if of <= SLICES else 0
