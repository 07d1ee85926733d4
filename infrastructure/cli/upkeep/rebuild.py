"""`refold rebuild`: the rows of projections, made anew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from ....domain.errors import ProjectionError
from ...projecting.rebuild import RebuildReport
from ..options import as_json, database, keeping
from ..progress import projection_progress
from ..shapes import print_json_list
from .naming import known_names, names
from .reports import Outcome, is_fine, print_report, report_shape
from .stopping import asked_to_stop
from .workers import rebuilding_workers, workers_options

FAILED = 1


@click.command("rebuild")
@names
@click.option("--all", "of_all", is_flag=True, help="All projections.")
@click.option("--check", "only_check", is_flag=True, help="Compare with the rows there are; change nothing.")
@click.option("--restart", is_flag=True, help="Begin anew where an earlier rebuild was stopped.")
@workers_options
@database
@as_json
def command(
    names: tuple[str, ...],
    of_all: bool,
    only_check: bool,
    restart: bool,
    workers: int | None,
    dask: str | None,
    location: str,
    as_json: bool,
) -> int:
    """
    Make the rows of projections anew from the log; `refold projections` lists their names.

    Readers see the old rows until the new ones are complete. Ctrl-C stops it, and the next rebuild goes on there. With
    --check rows that are not what the events give are shown, and the exit code is 1 where there are some. A long log is
    folded by a process for each core, or as many as --workers says, or by a Dask cluster.

    With --json: an array of {projection, is_done, rows, events, seconds, differing, differences: [{key, live,
    rebuilt}], set_aside, stopped_at, error}; a row that is not there is null.
    """
    fault = _misuse(names, of_all, only_check, restart) or _misuse_of_workers(workers, dask, only_check)
    if fault:
        raise click.UsageError(fault, click.get_current_context())
    with (
        keeping(location) as store,
        rebuilding_workers(store, 1 if only_check else workers, dask) as (executor, partitions),
        asked_to_stop() as stop,
    ):

        def work(name: str) -> RebuildReport:
            with projection_progress("checking" if only_check else "rebuilding") as progress:
                if only_check:
                    return store.check(name, progress=progress, stop=stop.is_set)
                return store.rebuild(
                    name,
                    restart=restart,
                    progress=progress,
                    stop=stop.is_set,
                    executor=executor,
                    partitions=partitions,
                )

        outcomes = _outcomes(known_names(store, names), work, stop.is_set)
        printed = _print_json(outcomes) if as_json else _print(outcomes, only_check)
    return 0 if printed else FAILED


def _misuse(names: tuple[str, ...], of_all: bool, only_check: bool, restart: bool) -> str | None:
    if of_all == bool(names):
        return "give the names of projections, or --all"
    return "--restart goes without --check, which begins anew each time" if only_check and restart else None


def _misuse_of_workers(workers: int | None, dask: str | None, only_check: bool) -> str | None:
    if workers is not None and dask is not None:
        return "--workers goes without --dask, whose cluster has workers of its own"
    return (
        "--check is done by this process: leave --workers and --dask out" if only_check and (workers or dask) else None
    )


def _outcomes(
    names: Sequence[str], work: Callable[[str], RebuildReport], is_stopped: Callable[[], bool]
) -> Iterator[tuple[str, Outcome]]:
    """What one projection cannot fold is no reason to leave the others as they are."""
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
            yield report_shape(name, outcome)

    print_json_list(shapes())
    return all(fine)


def _print(outcomes: Iterator[tuple[str, Outcome]], is_check: bool) -> bool:
    fine = True
    for name, outcome in outcomes:
        print_report(name, outcome, is_check=is_check)
        fine = fine and is_fine(outcome)
    return fine
