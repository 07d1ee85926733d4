"""
Workers keep projections up to date all the time, in a thread of this process or in a process of their own.

There may be any number of workers: only the worker that holds a projection's lease works on it. After an error a
worker pauses and tries again. An event that stops a projection stops no other projection, and is noted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ...domain.clock import REAL_SYSTEM, Stopwatch
from ...domain.concurrency.locks import renew_in_child
from ...domain.errors import ProjectionError, StorageClosedError, StorageError
from ...domain.log.ports import LiveLog
from ...projections.contract import Projection
from .folding import FAULT, Fault, fault_of, note_fault, sets_aside
from .leases import Lease
from .runner import Failures, ProjectionRunner, noting
from .shape import code_of
from .store import ProjectionStore

WAIT_SECONDS = 0.25
# The pauses after the first, second and later errors in a row; the last one repeats.
PAUSES_SECONDS = (0.1, 0.5, 2.0, 10.0)
log = logging.getLogger("refold.projections")


class _Task:
    """One projection of a worker: its lease, and how often it failed in a row."""

    def __init__(self, projection: Projection, lease: Lease) -> None:
        self.projection, self.lease, self.name = projection, lease, projection.name
        self.fault: Fault | None = None
        self.failures = 0
        self.resting_until = 0.0
        # An older version of Refold may have stopped at an event that this version sets aside.
        self.is_to_try = sets_aside(projection)


class ProjectionWorker:
    """Keeps those projections of a store up to date whose leases it gets."""

    def __init__(
        self,
        events: LiveLog,
        store: ProjectionStore,
        projections: Iterable[Projection],
        *,
        watch: Stopwatch = REAL_SYSTEM,
    ) -> None:
        self._events, self._store, self._watch = events, store, watch
        self._tasks = [_Task(one, Lease(store, one.name, watch)) for one in projections]
        self._runner = ProjectionRunner(events, store, [task.projection for task in self._tasks])

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set, then release the leases."""
        failures = 0
        try:
            while not stop.is_set():
                try:
                    self._work_and_wait(stop)
                    failures = 0
                except StorageClosedError:
                    raise
                except StorageError as error:
                    pause = _pause_after(failures)
                    log.warning("the log: %s; trying again in %s s", error, pause)
                    failures += 1
                    stop.wait(pause)
        finally:
            for task in self._tasks:
                with suppress(StorageError):
                    task.lease.release()

    def _work_and_wait(self, stop: threading.Event) -> None:
        seen = self._events.now()
        self.work(stop.is_set)
        if not stop.is_set():
            self._events.wait_for_news(seen, timeout_seconds=WAIT_SECONDS)

    def work(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Bring those projections up to date whose leases this worker gets; each page of the log is read once."""
        failed: Failures = {}
        noted = self._store.notes(FAULT)
        awake = [task for task in self._tasks if self._watch.monotonic() >= task.resting_until and not stop()]
        tasks = [task for task in awake if self._is_ready(task, noted, failed)]
        for _ in self._runner.pages(*(task.projection for task in tasks), failed=failed):
            if stop() or not all(task.lease.hold() for task in tasks if task.name not in failed):
                break
        else:
            self._note_mended(tasks, failed)
        for task in self._tasks:
            if task.name in failed:
                self._rest(task, failed[task.name])
            elif task in tasks:
                task.failures = 0

    def _is_ready(self, task: _Task, noted: Mapping[str, str], failed: Failures) -> bool:
        """Return whether this worker holds the lease of a projection, and no event stopped it."""
        with noting(failed, task.projection):
            if not task.lease.hold():
                return False
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

    def _rest(self, task: _Task, error: Exception) -> None:
        """Note the event that stopped a projection; let it rest after any other error."""
        if isinstance(error, ProjectionError):
            log.error("%s", error)
            fault = Fault(error.event, error.reason, task.projection.version, code_of(task.projection))
            failed: Failures = {}
            with noting(failed, task.projection):
                note_fault(self._store, task.projection, fault)
            if not failed:
                task.failures = 0
                return
            error = failed[task.name]
        pause = _pause_after(task.failures)
        log.warning("the projection %s: %s; trying again in %s s", task.name, error, pause)
        task.failures += 1
        task.resting_until = self._watch.monotonic() + pause


def _pause_after(failures: int) -> float:
    return PAUSES_SECONDS[min(failures, len(PAUSES_SECONDS) - 1)]


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
            self._worker.run(self._stop)

    def stop(self, timeout_seconds: float = 30.0) -> None:
        """Let the worker finish the page it is at, and wait for that."""
        self._stop.set()
        self._thread.join(timeout_seconds)

    def __enter__(self) -> WorkingThread:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
