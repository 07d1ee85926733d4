"""
Workers keep projections up to date all the time, in a thread of this process or in a process of their own.

There may be any number of workers: they share the projections of a store, and where it has slices, these too (see
`leases.py`). After an error a worker pauses and tries again. An event that stops a projection stops no other
projection, and is noted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from ...domain.arguments import require_methods
from ...domain.clock import REAL_SYSTEM, Stopwatch
from ...domain.concurrency.locks import renew_in_child
from ...domain.erasure.events import STREAM as ERASURES
from ...domain.errors import (
    DamagedError,
    LogWentBackError,
    ProjectionError,
    StorageClosedError,
    StorageError,
    first_named,
)
from ...domain.log.ports import LiveLog
from ...projections.contract import Projection
from .folding import FAULT, Fault, fault_of, note_fault, sets_aside
from .leases import Crew, parts_of
from .runner import Failures, ProjectionRunner, noting
from .shadow import Stop
from .shape import code_of
from .store import ProjectionStore

WAIT_SECONDS = 0.25
# A pass over 20 projections takes some 20 ms, also for a single event.
PASS_SECONDS = 0.1
# The pauses after the first, second and later errors in a row; the last one repeats.
PAUSES_SECONDS = (0.1, 0.5, 2.0, 10.0)
# How many projections a message names: an error that several projections share is logged once.
NAMED = 3
log = logging.getLogger("refold.projections")


class _Task:
    """One projection of a worker, and how often it failed in a row."""

    def __init__(self, projection: Projection) -> None:
        self.projection, self.name = projection, projection.name
        self.fault: Fault | None = None
        self.failures = 0
        self.error = ""
        self.resting_until = 0.0
        # An older version of Refold may have stopped at an event that this version sets aside.
        self.is_to_try = sets_aside(projection)


class ProjectionWorker:
    """Keeps its share of the projections of a store up to date."""

    def __init__(
        self,
        events: LiveLog,
        store: ProjectionStore,
        projections: Iterable[Projection],
        *,
        watch: Stopwatch = REAL_SYSTEM,
    ) -> None:
        self._events, self._store, self._watch = events, store, watch
        self._tasks = [_Task(one) for one in projections]
        self._crew = Crew(store, [task.name for task in self._tasks], watch)
        self._runner = ProjectionRunner(events, store, [task.projection for task in self._tasks])
        # The projections that failed at least twice in a row, and the last error of each.
        self.failing: Mapping[str, str] = {}

    def run(self, stop: threading.Event) -> None:
        """
        Work until `stop` is set, then leave the work to the others.

        Raises:
            InvalidInputError: `stop` is no event of `threading`.
            LogWentBackError: the file of the log was deleted or replaced: open the store again.
        """
        require_methods(stop, "stop", "give a threading.Event", "is_set", "wait")
        failures = 0
        try:
            while not stop.is_set():
                try:
                    self._work_and_wait(stop)
                    failures = 0
                except (StorageClosedError, LogWentBackError):
                    raise
                except (StorageError, DamagedError) as error:
                    pause = _pause_after(failures)
                    log.warning("the log: %s; trying again in %s s", error, pause)
                    failures += 1
                    if failures > 1:
                        self.failing = {task.name: str(error) for task in self._tasks}
                    stop.wait(pause)
        finally:
            with suppress(StorageError, DamagedError):
                self._crew.release()

    def _work_and_wait(self, stop: threading.Event) -> None:
        seen, began = self._events.now(), self._watch.monotonic()
        self.work(stop.is_set)
        # If events come all the time, a pass for every few of them would cost more than the events themselves.
        if not stop.wait(max(0.0, began + PASS_SECONDS - self._watch.monotonic())):
            self._events.wait_for_news(seen, timeout_seconds=WAIT_SECONDS)

    def work(self, stop: Stop = lambda: False) -> None:
        """Bring this worker's share of the projections up to date; each page of the log is read once."""
        if not self._crew.hold():
            return
        failed: Failures = {}
        noted, erased = self._store.notes(FAULT), self._erased()
        awake = [task for task in self._tasks if self._watch.monotonic() >= task.resting_until and not stop()]
        shares: dict[frozenset[int], list[_Task]] = {}
        for task in awake:
            if self._is_ready(task, noted, failed):
                shares.setdefault(self._crew.share(task.projection), []).append(task)
        for share, tasks in shares.items():
            if share:
                self._work_on(tasks, share, failed, stop)
        for task in awake:
            if task.name not in failed:
                task.failures = 0
        self._rest_failed(failed, erased)

    def _rest_failed(self, failed: Failures, erased: int) -> None:
        """Let the failed projections rest; those with the same error share a line of the log."""
        resting: dict[tuple[str, float], list[str]] = {}
        for task in self._tasks:
            pause = self._rest(task, failed[task.name], erased) if task.name in failed else None
            if pause is not None:
                resting.setdefault((task.error, pause), []).append(task.name)
        for (error, pause), names in resting.items():
            log.warning("%s: %s; trying again in %s s", name_projections(names), error, pause)
        self.failing = {task.name: task.error for task in self._tasks if task.failures > 1}

    def _work_on(self, tasks: Sequence[_Task], share: frozenset[int], failed: Failures, stop: Stop) -> None:
        """Bring projections up to date in the groups of slices that are this worker's share of them."""
        crew = self._crew.members
        is_all = len(share) == parts_of(self._store, tasks[0].projection)
        projections = (task.projection for task in tasks)
        for _ in self._runner.pages(*projections, groups=None if is_all else share, failed=failed):
            # Other workers get their share of a long backlog as soon as they come.
            if stop() or not self._crew.hold() or self._crew.members != crew:
                return
        self._note_mended(tasks, failed)

    def _is_ready(self, task: _Task, noted: Mapping[str, str], failed: Failures) -> bool:
        """Return whether no event stopped a projection."""
        with noting(failed, task.projection):
            has_fault = FAULT + task.name in noted
            task.fault = fault_of(self._events, self._store, task.projection) if has_fault else None
            is_to_try, task.is_to_try = task.is_to_try, False
            return task.fault is None or is_to_try
        return False

    def _note_mended(self, tasks: Iterable[_Task], failed: Failures) -> None:
        """Remove the faults of projections that went past the events that had stopped them."""
        for task in tasks:
            if task.fault is not None and task.name not in failed:
                with noting(failed, task.projection):
                    note_fault(self._store, task.projection, None)

    def _erased(self) -> int:
        """Return the version of the stream of erasures; 0 if no projection stops at a fault: only those need it."""
        return 0 if all(sets_aside(task.projection) for task in self._tasks) else self._events.head(ERASURES)

    def _rest(self, task: _Task, error: Exception, erased: int) -> float | None:
        """Note the event that stopped a projection; let it rest after any other error, and return for how long."""
        if isinstance(error, ProjectionError):
            log.error("%s", error)
            fault = Fault(error.event, error.reason, task.projection.version, code_of(task.projection))
            failed: Failures = {}
            with noting(failed, task.projection):
                note_fault(self._store, task.projection, fault)
                if self._erased() != erased:
                    # The reason may have a text that was erased since the event was read. It is read again.
                    note_fault(self._store, task.projection, None)
            if not failed:
                task.failures = 0
                return None
            error = failed[task.name]
        pause, task.error = _pause_after(task.failures), str(error)
        task.failures += 1
        task.resting_until = self._watch.monotonic() + pause
        return pause


def _pause_after(failures: int) -> float:
    return PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)]


def name_projections(names: Sequence[str]) -> str:
    """Return the words by which an error names projections: the first few, and the number of the others."""
    if len(names) == 1:
        return f"the projection {names[0]}"
    return f"the projections {first_named(names, NAMED)}"


class WorkingThread:
    """A worker in a thread of its own; `stop()` ends it, and so does the end of the process."""

    def __init__(self, worker: ProjectionWorker) -> None:
        self._stop = threading.Event()
        self._worker = worker
        self._thread = threading.Thread(target=self._run, name="refold-projections", daemon=True)
        self._thread.start()
        renew_in_child(self)

    def _after_fork(self) -> None:
        # The thread exists only in the parent, and may have held the lock of this event during the fork.
        self._stop = threading.Event()

    def _run(self) -> None:
        # The store was closed while the worker looked at it.
        with suppress(StorageClosedError):
            while not self._stop.is_set():
                try:
                    self._worker.run(self._stop)
                except LogWentBackError as error:
                    log.warning("the log: %s; trying again in %s s", error, PAUSES_SECONDS[-1])
                    self._stop.wait(PAUSES_SECONDS[-1])

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Let the worker finish the page it is at, and wait for that."""
        self._stop.set()
        self._thread.join(timeout_seconds)

    def __enter__(self) -> WorkingThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
