"""`refold projections` lists the projections; `refold rebuild` rebuilds or checks their rows."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any

import click

from ...domain.context.description import counted
from ...domain.errors import InvalidInputError, ProjectionError, StorageUnavailableError
from ..projecting.comparison import Difference
from ..projecting.rebuild import RebuildReport
from ..projecting.status import ProjectionStatus
from ..store import Store
from ..views.answer_shapes import plain_row, report_shape, status_shape
from .app import Own, app
from .args import answer_options, flag, keeping, keeping_if_possible, usage_error
from .progress import asked_to_stop, known_names, names, progress_form, projection_progress
from .render import FAILED, aligned, cut, duration, fitted, json_text, one_line, paint, print_json_list, prints_json

HEADINGS = ("NAME", "VERSION", "ROWS", "POSITION", "BEHIND", "WORKER")
NUMBERS = (1, 2, 3, 4)
# On a server a position has a number for each slice, which is too long for a table.
POSITION_WIDTH = 16
SHOWN_MAX = 10
# Processes take a second to start, so with fewer events one process is as fast.
SHARED_EVENTS_MIN = 500_000
WORKERS_MAX = 256
DASK_SECONDS = 10


@click.command("projections")
@app
@answer_options
def projections(own: Own) -> None:
    """
    List the projections, whose rows answer lists of contexts, searches, past views and more.

    ROWS were made from the events up to POSITION; BEHIND counts the events after it, which the next question folds, or
    `refold run`. WORKER is the process that keeps the rows up to date.

    A projection sets aside an event that it cannot fold, and continues without it. Once the projection is corrected,
    `refold rebuild` folds the event again.

    With --json: an array of {name, version, rows, position, behind, worker, rebuilt, stopped_at, error, set_aside:
    [{event, error}]}; rebuilt counts the events that a stopped rebuild has folded, stopped_at is the event that cannot
    be folded.
    """
    with keeping_if_possible(own) as store:
        found = store.projections()
    if prints_json():
        print_json_list(map(status_shape, found))
    else:
        _print_table(found)


def _print_table(found: Sequence[ProjectionStatus]) -> None:
    heading, *lines = aligned([HEADINGS, *map(_cells, found)], right=NUMBERS)
    click.echo(paint(fitted(heading), "dim"))
    for status, line in zip(found, lines, strict=True):
        click.echo(fitted(line))
        for note, style in _notes(status):
            click.echo(paint(f"  {note}", style))


def _cells(status: ProjectionStatus) -> tuple[str, ...]:
    return (
        one_line(status.name),
        str(status.version),
        f"{status.rows:,}",
        cut(status.position, POSITION_WIDTH),
        f"{status.behind:,}",
        status.worker or "-",
    )


def _notes(status: ProjectionStatus) -> list[tuple[str, str]]:
    """Return the remarks beside the numbers of a projection, each with its style."""
    notes = []
    if status.stopped_at is not None:
        notes.append((f"it cannot fold {one_line(status.stopped_at)}: {one_line(status.error or '')}", "red"))
    elif status.error is not None:
        notes.append((one_line(status.error), "red"))
    for one in status.set_aside[:SHOWN_MAX]:
        notes.append((f"set aside: {one_line(one.event)}: {one_line(one.error)}", "yellow"))
    if len(status.set_aside) > SHOWN_MAX:
        notes.append((f"and {counted(len(status.set_aside) - SHOWN_MAX, 'event')} more: --json has all", "yellow"))
    if status.rebuilt is not None:
        half = f"a rebuild was left behind {counted(status.rebuilt, 'event')}: `refold rebuild {status.name}` goes on"
        notes.append((half, "yellow"))
    return notes


Outcome = RebuildReport | ProjectionError


def is_fine(outcome: Outcome) -> bool:
    """Return whether the work was finished, and no row differs."""
    return isinstance(outcome, RebuildReport) and outcome.is_done and not (outcome.differing or outcome.fault)


def _shape(name: str, outcome: Outcome) -> dict[str, Any]:
    """Return the result for a projection, for JSON."""
    if isinstance(outcome, ProjectionError):
        nothing = report_shape(RebuildReport(projection=name, is_done=False))
        return {**nothing, "stopped_at": outcome.event, "error": outcome.reason}
    return {**report_shape(outcome), "stopped_at": None, "error": None}


def print_report(name: str, outcome: Outcome, *, is_check: bool, is_kept: bool = False) -> None:
    """Print the result for a projection, faults on lines of their own; `is_kept` are new rows that were not swapped."""
    if isinstance(outcome, ProjectionError):
        where = f"it cannot fold {outcome.event}: {outcome.reason}; mend the projection, then rebuild it"
        click.echo(f"{name}: " + paint(one_line(where), "red"))
    elif not outcome.is_done:
        click.echo(f"{name}: {_stopped(outcome, is_check)}")
    elif outcome.fault:
        click.echo(f"{name}: " + paint(one_line(f"the rows in use cannot be compared: {outcome.fault}"), "red"))
    elif not (is_check or is_kept):
        pace = f"{counted(outcome.events, 'event')} in {duration(outcome.seconds)}"
        click.echo(f"{name}: {counted(outcome.rows, 'row')} of {pace}{_aside(outcome)}")
    elif not outcome.differing:
        click.echo(f"{name}: {counted(outcome.rows, 'row')}, all as the events give them{_aside(outcome)}")
    else:
        differ = f"{counted(outcome.differing, 'row')} not as the events give them: `refold rebuild {name}` mends that"
        click.echo(f"{name}: " + paint(differ, "red"))
        _print_differences(outcome)


def _aside(report: RebuildReport) -> str:
    return f", without {counted(report.set_aside, 'event')} set aside" if report.set_aside else ""


def _stopped(report: RebuildReport, is_check: bool) -> str:
    if is_check:
        return "stopped: nothing was changed"
    done = f"{counted(report.events, 'event')} done"
    return f"stopped with {done}: `refold rebuild {report.projection}` goes on there"


def _print_differences(report: RebuildReport) -> None:
    for difference in report.differences:
        for line in _lines_of(difference):
            click.echo(fitted(line))
    left = report.differing - len(report.differences)
    if left:
        click.echo(f"  and {counted(left, 'row')} more")


def _lines_of(difference: Difference) -> Iterator[str]:
    """Yield lines about a row: that it is on one side only, or its differing fields with stored and right values."""
    key, live, rebuilt = one_line(difference.key), plain_row(difference.live), plain_row(difference.rebuilt)
    if live is None or rebuilt is None:
        yield f"  - {key}: it is missing" if live is None else f"  + {key}: it should not be there"
        return
    for field, value in rebuilt.items():
        if live[field] != value:
            now, then = one_line(json_text(live[field])), one_line(json_text(value))
            yield f"  ~ {key}: {field} is {now}, and should be {then}"


Workers = tuple[Executor | None, int | None]


def workers_options(command: Any) -> Any:
    """Give a command the options `--workers` and `--dask`."""
    number = click.IntRange(1, WORKERS_MAX)
    workers = click.option(
        "--workers",
        type=number,
        metavar="N",
        help="The number of processes.  [default: one for each core, for a log of 500,000 events or more]",
    )
    dask = click.option(
        "--dask",
        metavar="ADDRESS",
        help="The workers of a Dask cluster instead, by the address of its scheduler, tcp://HOST:PORT; it "
        "needs the extra `dask`.",
    )
    return workers(dask(command))


@contextmanager
def rebuilding_workers(store: Store, number: int | None, dask: str | None) -> Iterator[Workers]:
    """
    Yield the workers of a rebuild and the number of partitions; by default a long log uses all cores.

    Raises:
        InvalidInputError: the package for Dask is missing, or the address cannot be one.
        StorageUnavailableError: no cluster answers there.
    """
    if dask is not None:
        with _dask_client(dask) as client:
            yield client.get_executor(), sum(client.nthreads().values()) or None
        return
    if number is None:
        number = (os.cpu_count() or 1) if store.now().events >= SHARED_EVENTS_MIN else 1
    if number == 1:
        yield None, None
        return
    # A spawned process does not inherit the threads and locks of this process, as a forked one would.
    spawning = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(number, mp_context=spawning, initializer=_leave_interrupts_to_parent) as executor:
        yield executor, number


def _leave_interrupts_to_parent() -> None:
    """Ignore Ctrl-C, which reaches all processes of a terminal: the parent stops its workers itself."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _dask_client(address: str) -> Any:
    try:
        import distributed
    except ImportError as error:
        raise InvalidInputError('A Dask cluster takes another package: pip install "refold[dask]"') from error
    try:
        client: Any = distributed.Client
        return client(address, timeout=DASK_SECONDS, set_as_default=False)
    except ValueError as error:
        raise InvalidInputError(f"{address!r} is no address of a Dask scheduler: {error}") from error
    except OSError as error:
        raise StorageUnavailableError(f"no Dask scheduler answers at {address}: {error}") from error


@click.command("rebuild")
@names
@flag("--all", "of_all", help="All projections.")
@flag("--check", "only_check", help="Compare the present rows with those that the events give, and change nothing.")
@flag("--no-swap", help="Compare the new rows with the present ones and keep both; the next rebuild swaps them.")
@flag("--discard", help="Drop the new rows that a stopped rebuild, or --no-swap, left.")
@flag("--restart", help="Begin again from the first event if an earlier rebuild was stopped.")
@workers_options
@progress_form
@app
@answer_options
def rebuild(
    names: tuple[str, ...],
    of_all: bool,
    only_check: bool,
    no_swap: bool,
    discard: bool,
    restart: bool,
    workers: int | None,
    dask: str | None,
    form: str,
    own: Own,
) -> int:
    """
    Make the rows of projections anew from the log; `refold projections` lists their names.

    Readers see the old rows until the new ones are complete. Ctrl-C stops it, and the next rebuild goes on there. With
    --check rows that are not what the events give are shown, and the exit code is 1 where there are some; with
    --no-swap, too, and the new rows are kept beside those in use. A long log is folded by a process for each core, or
    as many as --workers says, or by a Dask cluster.

    With --json: an array of {projection, is_done, rows, events, seconds, differing, differences: [{key, live,
    rebuilt}], set_aside, fault, stopped_at, error}; a row that is not there is null, fault is why the rows in use could
    not be compared.
    """
    _check_names(names, of_all, only_check, restart)
    _check_workers(workers, dask, only_check)
    _check_discard(discard, only_check, no_swap, restart)
    if discard:
        with keeping(own) as store:
            _discard(store, known_names(store, names))
        return 0
    opened = keeping_if_possible if only_check else keeping
    with (
        opened(own) as store,
        rebuilding_workers(store, 1 if only_check else workers, dask) as (executor, partitions),
        asked_to_stop() as stop,
    ):

        def work(name: str) -> RebuildReport:
            with projection_progress("checking" if only_check else "rebuilding", form) as progress:
                if only_check:
                    return store.check(name, progress=progress, stop=stop.is_set)
                return store.rebuild(
                    name,
                    restart=restart,
                    progress=progress,
                    stop=stop.is_set,
                    executor=executor,
                    partitions=partitions,
                    swap=not no_swap,
                )

        outcomes = _outcomes(known_names(store, names), work, stop.is_set)
        printed = _print_json(outcomes) if prints_json() else _print(outcomes, is_check=only_check, is_kept=no_swap)
    return 0 if printed else FAILED


def _check_names(names: tuple[str, ...], of_all: bool, only_check: bool, restart: bool) -> None:
    if of_all == bool(names):
        raise usage_error("give the names of projections, or --all")
    if only_check and restart:
        raise usage_error("--restart goes without --check, which begins anew each time")


def _check_workers(workers: int | None, dask: str | None, only_check: bool) -> None:
    if workers is not None and dask is not None:
        raise usage_error("--workers goes without --dask, whose cluster has workers of its own")
    if only_check and (workers or dask):
        raise usage_error("--check is done by this process: leave --workers and --dask out")


def _check_discard(discard: bool, only_check: bool, no_swap: bool, restart: bool) -> None:
    if discard and (only_check or no_swap or restart or prints_json()):
        raise usage_error("--discard makes no rows: leave --check, --no-swap, --restart and --json out")
    if only_check and no_swap:
        raise usage_error("--no-swap goes without --check, which makes no rows to swap")


def _discard(store: Store, names: Sequence[str]) -> None:
    for name in names:
        was_there = store.discard_rebuild(name)
        click.echo(f"{name}: the new rows are dropped" if was_there else f"{name}: no rebuild left rows")


def _outcomes(
    names: Sequence[str], work: Callable[[str], RebuildReport], is_stopped: Callable[[], bool]
) -> Iterator[tuple[str, Outcome]]:
    """Yield the outcome of each projection; if one cannot fold an event, go on with the others."""
    for name in names:
        try:
            yield name, work(name)
        except ProjectionError as error:
            yield name, error
        if is_stopped():
            return


def _print_json(outcomes: Iterator[tuple[str, Outcome]]) -> bool:
    fine: list[bool] = []

    def shapes() -> Iterator[dict[str, Any]]:
        for name, outcome in outcomes:
            fine.append(is_fine(outcome))
            yield _shape(name, outcome)

    print_json_list(shapes())
    return all(fine)


def _print(outcomes: Iterator[tuple[str, Outcome]], *, is_check: bool, is_kept: bool) -> bool:
    fine = True
    for name, outcome in outcomes:
        print_report(name, outcome, is_check=is_check, is_kept=is_kept)
        fine = fine and is_fine(outcome)
    return fine
