"""`refold run`: keeping projections up to date, and reporting on it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import click

from ...domain.clock import REAL_SYSTEM
from ...domain.context.description import counted
from ...domain.errors import DamagedError, RefoldError, StorageError
from ...domain.positions import Moment
from ..databases import stored_log
from ..projecting.status import ProjectionStatus
from ..projecting.worker import ProjectionWorker
from ..store import Store
from .app import Own, app
from .args import database, flag, given_database, keeping, shown
from .metrics import address_of, metrics_served, statuses_of
from .progress import asked_to_stop, end_in_time, known_names, names, set_at_end
from .render import clock, duration, one_line

Statuses = Mapping[str, ProjectionStatus]
NEWS_EVERY_SECONDS = 10.0
SEALED_EVERY_SECONDS = 60.0
RETAINED_EVERY_SECONDS = 3_600.0
# The jobs beside projections, as the metrics name them.
SEAL, RETENTION = "seal", "retention"


class WorkerLog:
    """The status of some projections of a store at the beginning, and their progress since."""

    def __init__(self, store: Store, names: Sequence[str]) -> None:
        self._store, self._names = store, frozenset(names)
        self._first = self._last = self._statuses()

    def beginning(self) -> Iterator[str]:
        """Yield messages for the beginning: projections that are stopped, and those that another process works on."""
        holders: dict[str, list[str]] = {}
        for name, status in self._first.items():
            if status.stopped_at is not None:
                yield f"{name} stands still: it cannot fold {status.stopped_at}: {status.error}"
            elif status.error is not None:
                yield f"{name}: {status.error}"
            elif status.worker is not None:
                holders.setdefault(status.worker, []).append(name)
        for worker, held in holders.items():
            yield f"{self._names_in_words(held)}: held by {worker}, and taken over once that is gone"

    def news(self) -> str:
        """Return a message about the progress since the last call; empty if there was none."""
        before, self._last = self._last, self._statuses()
        return self._done(before, self._last)

    def sums(self) -> str:
        """Return a message about the whole progress."""
        return self._done(self._first, self._statuses()) or "there was nothing to do"

    def _statuses(self) -> Statuses:
        return {status.name: status for status in statuses_of(self._store, self._names)}

    def _done(self, before: Statuses, now: Statuses) -> str:
        """Return the numbers of events; projections with the same numbers share a phrase."""
        alike: dict[tuple[int, int], list[str]] = {}
        for name, status in now.items():
            events = _events(status) - _events(before[name])
            if events > 0:
                alike.setdefault((events, status.behind), []).append(name)
        return "; ".join(
            f"{self._names_in_words(names)}: {counted(events, 'event')}" + (f", {behind:,} behind" if behind else "")
            for (events, behind), names in alike.items()
        )

    def _names_in_words(self, names: Iterable[str]) -> str:
        names = list(names)
        return "all" if len(names) == len(self._names) > 1 else ", ".join(names)


def _events(status: ProjectionStatus) -> int:
    return Moment.parse(status.position).events


@click.command("run")
@names
@click.option(
    "--metrics",
    "address",
    metavar="[HOST:]PORT",
    callback=address_of,
    help="Serve /metrics for Prometheus and /health at HOST:PORT, or at a PORT of this machine alone.",
)
@flag("--seal", help="Also pack old events on PostgreSQL, as `refold seal` does, with pauses.")
@app
@database
def command(names: tuple[str, ...], address: tuple[str, int] | None, seal: bool, own: Own) -> None:
    """
    Keep projections up to date, all or those named, until Ctrl-C or SIGTERM.

    Answers then have little to catch up with. It may run beside any number of programs that write. If several run, they
    share the work on PostgreSQL, and in a file one of them does it; another one takes over within seconds after a kill.
    It reports on stderr.
    """
    began = REAL_SYSTEM.monotonic()
    with set_at_end() as over, keeping(own) as store, asked_to_stop() as stop, _warnings_printed():
        threading.Thread(target=end_in_time, args=(stop, over, _say), name="refold-end", daemon=True).start()
        chosen = known_names(store, names)
        worker_log = WorkerLog(store, chosen)
        _say(f"keeping {counted(len(chosen), 'projection')} of {shown(given_database())} up to date; Ctrl-C ends it")
        for line in worker_log.beginning():
            _say(line)
        worker, jobs = store._worker(chosen), dict.fromkeys(_jobs(store, seal=seal), False)
        with metrics_served(store, chosen, address, lambda: worker.failing, jobs) as url:
            if url is not None:
                _say(f"metrics at {url}")
            _keep(store, worker, worker_log, stop, over, jobs)
        try:
            sums = worker_log.sums()
        except RefoldError as error:
            # It was stopped and did not fail, so the error is only reported: it would have gone on.
            sums = f"how far it came is not known: {error}"
        _say(f"stopped after {duration(REAL_SYSTEM.monotonic() - began)}: {sums}")


def _jobs(store: Store, *, seal: bool) -> list[str]:
    """Return the names of the jobs that are done beside projections."""
    return [RETENTION, SEAL] if seal and hasattr(stored_log(store.log), "sealing") else [RETENTION]


def _keep(
    store: Store,
    worker: ProjectionWorker,
    worker_log: WorkerLog,
    stop: threading.Event,
    over: threading.Event,
    jobs: dict[str, bool],
) -> None:
    beside = [threading.Thread(target=_print_news, args=(worker_log, stop), name="refold-run", daemon=True)]
    if SEAL in jobs:
        arguments = (stored_log(store.log).sealing, stop, jobs)
        beside.append(threading.Thread(target=_seal, args=arguments, name="refold-seal", daemon=True))
    beside.append(threading.Thread(target=_retain, args=(store, stop, jobs), name="refold-retain", daemon=True))
    for thread in beside:
        thread.start()
    try:
        worker.run(stop)
    except Exception:
        # The worker failed by itself: the process ends with its error, however long that takes.
        over.set()
        raise
    finally:
        stop.set()
        for thread in beside:
            thread.join()


def _seal(sealing: Callable[[], Iterator[int]], stop: threading.Event, jobs: dict[str, bool]) -> None:
    """Pack old events until `stop` is set, resting as long as it worked; note in `jobs` whether it failed."""
    while not stop.is_set():
        began = REAL_SYSTEM.monotonic()
        try:
            for _ in sealing():
                jobs[SEAL] = False
                if stop.wait(REAL_SYSTEM.monotonic() - began):
                    return
                began = REAL_SYSTEM.monotonic()
            jobs[SEAL] = False
        except (StorageError, DamagedError) as error:
            jobs[SEAL] = True
            _say(f"old events could not be packed, which is tried again: {error}")
        stop.wait(SEALED_EVERY_SECONDS)


def _retain(store: Store, stop: threading.Event, jobs: dict[str, bool]) -> None:
    """Erase the contexts whose time is over by a policy, now and then until `stop` is set, and note as `_seal` does."""
    while not stop.is_set():
        try:
            if store.policies():
                found = store.apply_retention(dry_run=False)
                if found.erasure is not None:
                    _say(f"{counted(len(found.erasure.contexts), 'context')} erased, whose time was over")
            jobs[RETENTION] = False
        except RefoldError as error:
            jobs[RETENTION] = True
            _say(f"contexts whose time is over could not be erased, which is tried again: {error}")
        stop.wait(RETAINED_EVERY_SECONDS)


def _print_news(worker_log: WorkerLog, stop: threading.Event) -> None:
    while not stop.wait(NEWS_EVERY_SECONDS):
        # The worker gets the same error, and tries again.
        with suppress(RefoldError):
            said = worker_log.news()
            if said:
                _say(said)


class _PrintingHandler(logging.Handler):
    """Prints the warnings of a worker."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print a warning."""
        _say(record.getMessage())


@contextmanager
def _warnings_printed() -> Iterator[None]:
    logger, handler = logging.getLogger("refold"), _PrintingHandler(logging.WARNING)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)


def _say(text: str) -> None:
    # The worker goes on if its output cannot be written: the disk may be full, or the reader gone.
    with suppress(OSError):
        click.echo(f"{clock(int(REAL_SYSTEM.now() * 1_000_000))}  {one_line(text)}", err=True)
