"""`refold verify`: check whether a store is intact."""

from __future__ import annotations

import click
import msgspec

from ...domain.context.description import counted
from ...domain.errors import DamagedError, StorageReadOnlyError
from ..verifying import Problem, Report
from .app import Own, app
from .args import answer_options, flag, given_database, keeping, number, reading, shown
from .progress import progress_form, projection_progress
from .render import FAILED, note, one_line, paint, print_json, prints_json


@click.command("verify")
@flag("--repair", help="Rebuild projections that are wrong; no event is changed, and traces of lost events are kept.")
@number(
    "--processes",
    help="The most processes for a store of 100,000 events and more.  [default: one for each core, up to 3]",
)
@progress_form
@app
@answer_options
def command(repair: bool, processes: int | None, form: str, own: Own) -> int:
    """
    Check the whole store: versions, positions and digests of the events, their references, large texts and keys; and
    compare the rows of the projections and the index of words with the events.

    Each problem is a line: its kind, its place, and what is wrong. The exit code is 1 if there is a problem, or if one
    is left after --repair.

    With --json: {database, is_whole, streams, events, projections, problems: [{kind, where, reason, repairable,
    is_repaired}], left_out, is_done}: left_out are projections that could not be compared, as the database cannot be
    written.
    """
    report = _report(repair, processes, form, own)
    if prints_json():
        print_json({"database": shown(given_database()), "is_whole": report.is_whole, **msgspec.to_builtins(report)})
    else:
        _print(report, repair)
    if report.left_out:
        left_out = counted(len(report.left_out), "projection")
        note(f"the database cannot be written: {left_out} could not be compared")
    return 0 if report.is_whole else FAILED


def _report(repair: bool, processes: int | None, form: str, own: Own) -> Report:
    try:
        with keeping(own) as store, projection_progress("checking", form) as progress:
            return store.verify(repair=repair, progress=progress, processes=processes)
    except StorageReadOnlyError:
        if repair:
            raise
    except DamagedError as error:
        # The damage is so bad that not even the parts of the file can be found.
        reason = error.reason if error.what == given_database() else f"{error.what}: {error.reason}; {error.remedy}"
        problem = Problem("database", shown(given_database()), reason)
        return Report(streams=0, events=0, projections=0, problems=(problem,))
    with reading(own) as store, projection_progress("checking", form) as progress:
        return store.verify(progress=progress, processes=processes)


def _print(report: Report, repair: bool) -> None:
    for problem in report.problems:
        kind, state = paint(problem.kind, "green" if problem.is_repaired else "red"), _state(problem, repair)
        click.echo(f"{kind} {one_line(problem.where)}: {one_line(problem.reason)}{state}")
    counts = (
        f"{counted(report.streams, 'stream')}, {counted(report.events, 'event')}, "
        f"{counted(report.projections, 'projection')}"
    )
    click.echo(f"{counts}: {_verdict(report)}")


def _state(problem: Problem, repair: bool) -> str:
    if problem.is_repaired or repair:
        return " (repaired)" if problem.is_repaired else " (not repaired)"
    return " (`refold verify --repair` makes it anew)" if problem.repairable else ""


def _verdict(report: Report) -> str:
    if not report.problems:
        return "nothing is wrong"
    repaired = sum(problem.is_repaired for problem in report.problems)
    wrong = counted(len(report.problems) - repaired, "problem")
    return f"{wrong}, {repaired:,} repaired" if repaired else wrong
