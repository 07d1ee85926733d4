"""
Comparing projections of a large store in several processes, each of which reads the log for itself.

A helper only ever says that rows are right. All others are compared again in this process, so the report of a wrong
store does not depend on the number of processes, nor on a helper that fails.

The rows that a helper makes are in a temporary file without a name, so that none are left if it is killed.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, suppress
from typing import Any

from ...domain.arguments import require_whole
from ...domain.clock import REAL_SYSTEM
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.positions import Moment
from ...projections.contract import Projection, SearchedRow
from ..helper_process import BEGIN as BEGIN_HELPER
from ..helper_process import HelperProcess, can_start, cores, end_with_input, opened, read_task, task_on
from ..projecting.builtin import PROJECTIONS
from ..projecting.comparison import Compared, Comparison
from ..projecting.shadow import Progress, RebuildProgress, Stop, progress_after
from ..projecting.store import ProjectionStore, SetAside

# With fewer events, it is not worth it to start a process.
SHARED_EVENTS_MIN = 100_000
# One projection is folded by one process, and `search` takes a third of all work without its index.
PROCESSES_MAX = 3
# The time that a projection takes, in hundredths of the whole; others take OTHER.
WEIGHTS = {"search": 32, "validity": 9, "usage": 6, "steps": 5, "rollup": 4, "growth": 3, "entries": 2, "catalogue": 2}
OTHER = 1
# The time for reading the log, for the checks of events, and for the index of searched rows.
READING, CHECKING, INDEX = 8, 7, 21
LOOK_SECONDS = 0.2
# How long to wait for a helper to begin: the program that was started may not be Python after all.
BEGIN_SECONDS = 30
BEGIN = BEGIN_HELPER.format(module="verifying.shares", function="run_helper")
log = logging.getLogger("refold.verify")


def shares_of(
    projections: Collection[Projection], processes: int, *, has_indexes: bool = True
) -> list[list[Projection]]:
    """
    Return which projections each process compares; the first is this one, which also checks the events and the indexes.

    It keeps those that are not Refold's own: another process may be unable to import them.
    """
    shares: list[list[Projection]] = [[] for _ in range(processes)]
    indexes = INDEX * sum(map(_is_searched, projections)) * has_indexes
    loads = [READING + CHECKING + indexes, *[READING] * (processes - 1)]
    ordered = sorted(projections, key=lambda one: (one in PROJECTIONS, -WEIGHTS.get(one.name, OTHER)))
    for projection in ordered:
        number = loads.index(min(loads)) if projection in PROJECTIONS else 0
        shares[number].append(projection)
        loads[number] += WEIGHTS.get(projection.name, OTHER)
    return shares


def processes_for(events: int, wanted: int | None) -> int:
    """
    Return how many processes verify a store of so many events: those that are wanted, else one for each core.

    Raises:
        InvalidInputError: fewer than one are wanted.
    """
    if wanted is not None:
        wanted = require_whole(wanted, "processes", least=1)
    if events < SHARED_EVENTS_MIN or not can_start():
        return 1
    return min(PROCESSES_MAX, cores() if wanted is None else wanted)


def _is_searched(projection: Projection) -> bool:
    return issubclass(projection.row, SearchedRow)


class SharedComparison:
    """The comparison of projections by this process and helpers; they end with the `with` block."""

    def __init__(
        self,
        events: LiveLog,
        store: ProjectionStore,
        projections: Collection[Projection],
        *,
        processes: int | None,
        progress: Progress | None,
    ) -> None:
        self._log, self._store, self._progress = events, store, progress
        self._end, self._began = events.now(), REAL_SYSTEM.monotonic()
        self._helpers: list[Helper] = []
        self._right: dict[str, list[SetAside]] | None = None
        self._again: Comparison | None = None
        # The faults of indexes whose rows a helper compares, or the errors of looking for them.
        self._indexes: dict[str, str | Exception | None] = {}
        # PostgreSQL computes the index of a row itself, so it need not be checked.
        has_indexes = any(events.files())
        mine, *others = shares_of(projections, processes_for(self._end.events, processes), has_indexes=has_indexes)
        try:
            for share in others:
                helper = _started(events, self._end, share)
                if helper is None:
                    mine += share
                else:
                    self._helpers.append(helper)
            self._mine = {one.name for one in mine}
            self._own = Comparison(events, store, mine, progress=None if progress is None else self._report_own)
        except BaseException:
            self._end_helpers()
            raise

    def __enter__(self) -> SharedComparison:
        return self

    def __exit__(self, *_: object) -> None:
        self._end_helpers()
        for one in (self._own, self._again):
            if one is not None:
                one.close()

    def _end_helpers(self) -> None:
        for helper in self._helpers:
            helper.end()

    def read(self, look: Callable[[Sequence[RecordedEvent]], None], stop: Stop = lambda: False) -> bool:
        """
        Read the log once, and fold the projections of this process; return False if it was stopped.

        `look` is called with the events of each page.

        Raises:
            DamagedError: an event is missing or was changed.
        """
        return self._own.read(look, stop)

    def is_own_share(self, projection: Projection) -> bool:
        """Return whether this process compares a projection itself, and need not wait for a helper."""
        return projection.name in self._mine

    def is_ready(self, projection: Projection, stop: Stop) -> bool:
        """Wait for the process that compares a projection; return False if the wait was stopped."""
        return self.is_own_share(projection) or self._waited(stop) is not None

    def compared(self, projection: Projection) -> Compared:
        """Return what `Comparison.compared` returns."""
        comparison = self._by(projection)
        return Compared() if comparison is None else comparison.compared(projection)

    def set_aside(self, projection: Projection) -> list[SetAside]:
        """Return the events that the fold went on without."""
        comparison = self._by(projection)
        return (self._waited() or {})[projection.name] if comparison is None else comparison.set_aside(projection)

    def index_fault(self, projection: Projection) -> str | None:
        """Return how the index of searched rows differs from the rows; None if it does not."""
        if projection.name not in self._indexes:
            return self._store.index_fault(projection)
        found = self._indexes[projection.name]
        if isinstance(found, Exception):
            raise found
        return found

    def _check_indexes(self) -> None:
        """Check the indexes of the rows that helpers compare, which takes as long as a good part of their work."""
        for projection in (one for helper in self._helpers for one in helper.share if _is_searched(one)):
            try:
                self._indexes[projection.name] = self._store.index_fault(projection)
            except Exception as error:
                # Wrong rows are reported first, and then nobody asks for this.
                self._indexes[projection.name] = error

    def _by(self, projection: Projection) -> Comparison | None:
        """Return the comparison of this process that has a projection; None if a helper found its rows right."""
        if self.is_own_share(projection):
            return self._own
        return None if projection.name in (self._waited() or {}) else self._again

    def _waited(self, stop: Stop = lambda: False) -> dict[str, list[SetAside]] | None:
        """
        Return the projections whose rows are right, after waiting for all helpers, and compare the others here; None if
        it was stopped.
        """
        if self._right is None:
            self._check_indexes()
            for helper in self._helpers:
                while not helper.is_done():
                    self._report(self._end.events)
                    if stop():
                        return None
                helper.end()
            right = {name: aside for helper in self._helpers for name, aside in helper.right.items()}
            left = [one for helper in self._helpers for one in helper.share if one.name not in right]
            if left:
                log.info("this process compares %s again", ", ".join(one.name for one in left))
                self._again = Comparison(self._log, self._store, left, progress=self._progress)
                if not self._again.read(stop=stop):
                    return None
            self._right = right
        return self._right

    def _report_own(self, progress: RebuildProgress) -> None:
        self._report(progress.done)

    def _report(self, own: int) -> None:
        if self._progress is not None:
            done, total = min([own, *(helper.done for helper in self._helpers)]), self._end.events
            self._progress(progress_after("events", done, total, done, REAL_SYSTEM.monotonic() - self._began))


class Helper(HelperProcess):
    """A process that compares some projections, as this process sees it."""

    def __init__(self, share: Sequence[Projection], task: dict[str, Any]) -> None:
        self.share = share
        # How many events it has read, and the projections whose rows are right, with the events that were set aside.
        self.done, self.right = 0, dict[str, list[SetAside]]()
        self._begun = threading.Event()
        super().__init__(BEGIN, task)

    def _listen(self) -> None:
        try:
            for line in self._output:
                message = json.loads(line)
                self._begun.set()
                self.done = message.get("done", self.done)
                if "right" in message:
                    self.right = {name: [SetAside(*one) for one in aside] for name, aside in message["right"].items()}
        except (ValueError, AttributeError, TypeError, OSError) as error:
            log.info("the messages of a helper cannot be read: %r", error)
        finally:
            self._begun.set()

    def is_done(self) -> bool:
        """
        Return whether its last message has come, after waiting for up to LOOK_SECONDS once it has begun.

        A helper that has not begun after BEGIN_SECONDS counts as done.
        """
        if not self._begun.wait(BEGIN_SECONDS):
            return True
        self._reading.join(LOOK_SECONDS)
        return not self._reading.is_alive()


def _started(events: LiveLog, end: Moment, share: Sequence[Projection]) -> Helper | None:
    """Return a helper for a share of projections; None if no other process can open this log."""
    try:
        task = task_on(events, end) if share else None
        return None if task is None else Helper(share, task | {"projections": [one.name for one in share]})
    except Exception as error:
        # If the log is damaged, the reading says so.
        log.info("no other process helps (%r)", error)
        return None


# In the process of a helper


def run_helper() -> None:
    """Read a task from the input, and write which of its projections have the rows that the events give."""
    task = read_task()
    end_with_input()
    _write(done=0)
    known = {one.name: one for one in PROJECTIONS}
    share = [known[name] for name in task["projections"]]
    with opened(task) as found:
        if found is None:
            return
        events, kept = found
        # Modules and their classes stay until the end: collecting garbage among them would take 3 % of the time.
        gc.freeze()
        comparison = Comparison(events, kept, share, progress=lambda progress: _write(done=progress.done))
        with closing(comparison):
            comparison.read()
            right = {one.name: comparison.set_aside(one) for one in _matching_projections(comparison, share)}
    _write(right=right)


def _matching_projections(comparison: Comparison, share: Sequence[Projection]) -> Iterator[Projection]:
    for projection in share:
        # The process that started this one meets the same error, and reports it.
        with suppress(Exception):
            found = comparison.compared(projection)
            if found.is_met and not found.differing:
                yield projection


def _write(**message: Any) -> None:
    sys.stdout.buffer.write(json.dumps(message).encode() + b"\n")
    sys.stdout.buffer.flush()
