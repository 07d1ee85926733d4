"""
The part of a store that looks after its projections: adding some, rebuilding, checking, and keeping them up to date.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterable
from concurrent.futures import Executor

from ..domain.errors import InvalidInputError, NotFoundError
from ..domain.log.ports import LiveLog
from ..projections.contract import Projection
from .projecting.building import Progress, Stop
from .projecting.faults import note_fault
from .projecting.rebuild import RebuildReport, Workers, check, rebuild
from .projecting.runner import ProjectionRunner
from .projecting.status import ProjectionStatus, status_of
from .projecting.store import ProjectionStore
from .projecting.worker import ProjectionWorker, WorkingThread
from .verifying import Report, verify

# Tables are named after it, and these endings are those of tables beside them.
NAME = re.compile("(?!.*_(?:shadow|shadow_[0-9]+|check|words)$)[a-z][a-z0-9_]{0,39}")


PARTITIONS_MAX = 1_024


class ProjectionsOfStore:
    """Looks after the projections of a store."""

    log: LiveLog
    _runner: ProjectionRunner
    _projections: ProjectionStore

    def add_projection(self, projection: Projection) -> None:
        """
        Let a projection of one's own be kept as the store's are; `rows` gives what it has.

        Raises:
            InvalidInputError: there is one of this name, or the name cannot be that of a table.
        """
        if not NAME.fullmatch(projection.name):
            raise InvalidInputError(
                f"{projection.name!r} cannot name a projection: at most 40 of a-z, 0-9 and _, a letter first, "
                "and none of the endings _shadow, _check and _words"
            )
        if projection.name in self._runner.projections:
            raise InvalidInputError(f"there is a projection {projection.name!r} already: give it another name")
        self._runner.projections[projection.name] = projection

    def rows(self, name: str, *, under: str = "") -> list[object]:
        """
        Return the rows of a projection, brought up to date first, those whose keys begin with `under`, by their keys.

        Raises:
            NotFoundError: there is no such projection.
            ProjectionError: it cannot fold an event.
        """
        projection = self._projection(name)
        return self._runner.rows_under([projection], [under]) if under else self._runner.rows(projection)

    def projections(self) -> list[ProjectionStatus]:
        """
        Return how each projection stands: how far behind, who works on it, what stopped it, and what was set aside.
        """
        return [status_of(self.log, self._projections, one) for one in self._runner.projections.values()]

    def events_missed(self) -> int:
        """
        Return how many events the answers that this store gave so far were made without.

        Projections set them aside, as they cannot fold them; `projections()` says which they are, and why.
        """
        asked = list(self._runner.asked.values())
        return len({aside.event for projection in asked for aside in self._projections.set_aside(projection)})

    def rebuild(
        self,
        name: str,
        *,
        restart: bool = False,
        progress: Progress | None = None,
        stop: Stop = lambda: False,
        executor: Executor | None = None,
        partitions: int | None = None,
    ) -> RebuildReport:
        """
        Make the rows of a projection anew beside those that are read, and put them in their place at the end.

        A rebuild that `stop` ended, or that was killed, goes on where it was, unless `restart`.

        With an `executor`, a `ProcessPoolExecutor` or that of a Dask client, its workers fold the log in so many
        `partitions`, as many as this machine has cores where that is left out. They open the store at its location, and
        must be able to import a projection of one's own. What is not `stays_in_slice`, or is searched, and a store in
        memory, is rebuilt by this process.

        Raises:
            NotFoundError: there is no such projection.
            InvalidInputError: there are to be fewer than 1 partitions, or more than PARTITIONS_MAX.
            ProjectionError: it cannot fold an event; the rows that are read stay.
        """
        projection = self._projection(name)
        workers = None if executor is None else Workers(executor, _checked_partitions(partitions))
        report = rebuild(
            self.log, self._projections, projection, restart=restart, progress=progress, stop=stop, workers=workers
        )
        if report.is_done:
            note_fault(self._projections, projection, None)
        return report

    def check(self, name: str, *, progress: Progress | None = None, stop: Stop = lambda: False) -> RebuildReport:
        """
        Make the rows of a projection anew, say how they differ from those that are read, and change nothing.

        Raises:
            NotFoundError: there is no such projection.
            ProjectionError: it cannot fold an event.
        """
        return check(self.log, self._projections, self._projection(name), progress=progress, stop=stop)

    def start_projections(self, names: Iterable[str] | None = None) -> WorkingThread:
        """
        Keep projections up to date in a thread, until its `stop()`; of several processes one works on each.

        Raises:
            NotFoundError: there is no such projection.
        """
        return WorkingThread(self._worker(names))

    def run_projections(self, stop: threading.Event, names: Iterable[str] | None = None) -> None:
        """
        Keep projections up to date right here, until `stop` is set.

        Raises:
            NotFoundError: there is no such projection.
        """
        self._worker(names).run(stop)

    def verify(self, *, repair: bool = False, progress: Progress | None = None) -> Report:
        """
        Look at everything: versions, positions, digests, references, large texts, keys, and every projection.

        What is wrong is in the report. With `repair` projections that are not what their fold gives are rebuilt; no
        event is touched.
        """
        return verify(self.log, self._projections, self._runner.projections.values(), repair=repair, progress=progress)

    def _worker(self, names: Iterable[str] | None) -> ProjectionWorker:
        chosen = list(self._runner.projections) if names is None else list(names)
        return ProjectionWorker(self.log, self._projections, [self._projection(name) for name in chosen])

    def _projection(self, name: str) -> Projection:
        found = self._runner.projections.get(name)
        if found is None:
            raise NotFoundError(f"there is no projection {name!r}: there are {', '.join(self._runner.projections)}")
        return found


def _checked_partitions(partitions: int | None) -> int:
    if partitions is None:
        return os.cpu_count() or 1
    if not 1 <= partitions <= PARTITIONS_MAX:
        raise InvalidInputError(f"partitions is {partitions}: take 1 to {PARTITIONS_MAX:,}")
    return partitions
