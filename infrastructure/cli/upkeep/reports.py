"""What a rebuild or a check came to, for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from ....domain.errors import ProjectionError
from ...projecting.rebuild import Difference, RebuildReport
from ..naming import counted
from ..shapes import json_text
from ..terminal import cut, is_cut_short, one_line, paint, terminal_width
from ..times import duration

Outcome = RebuildReport | ProjectionError


def is_fine(outcome: Outcome) -> bool:
    """Return whether it was done, and nothing was found to be wrong."""
    return isinstance(outcome, RebuildReport) and outcome.is_done and not outcome.differing


def report_shape(name: str, outcome: Outcome) -> dict[str, Any]:
    """Return what became of a projection."""
    if isinstance(outcome, ProjectionError):
        nothing = RebuildReport(projection=name, is_done=False)
        return {**report_shape(name, nothing), "stopped_at": outcome.event, "error": outcome.reason}
    shape = {**msgspec.structs.asdict(outcome), "seconds": round(outcome.seconds, 3)}
    differences = [
        {"key": one.key, "live": _plain(one.live), "rebuilt": _plain(one.rebuilt)} for one in outcome.differences
    ]
    return {**shape, "differences": differences, "stopped_at": None, "error": None}


def _plain(row: Any) -> Any:
    return msgspec.to_builtins(row)


def print_report(name: str, outcome: Outcome, *, is_check: bool) -> None:
    """Print what became of a projection; what is wrong with it on lines of their own."""
    if isinstance(outcome, ProjectionError):
        where = f"it cannot fold {outcome.event}: {outcome.reason}; mend the projection, then rebuild it"
        click.echo(f"{name}: " + paint(one_line(where), "red"))
    elif not outcome.is_done:
        click.echo(f"{name}: {_stopped(outcome, is_check)}")
    elif not is_check:
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
        for line in _told(difference):
            click.echo(cut(line, terminal_width()) if is_cut_short() else line)
    left = report.differing - len(report.differences)
    if left:
        click.echo(f"  and {counted(left, 'row')} more")


def _told(difference: Difference) -> Iterator[str]:
    """A row that is there on one side alone as a whole, else the fields of it that differ: what is, what should be."""
    key, live, rebuilt = one_line(difference.key), _plain(difference.live), _plain(difference.rebuilt)
    if live is None or rebuilt is None:
        yield f"  - {key}: it is missing" if live is None else f"  + {key}: it should not be there"
        return
    for field, value in rebuilt.items():
        if live[field] != value:
            now, then = one_line(json_text(live[field])), one_line(json_text(value))
            yield f"  ~ {key}: {field} is {now}, and should be {then}"
