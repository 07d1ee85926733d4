"""`refold projections`: how the projections stand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click
import msgspec

from ..projecting.status import ProjectionStatus
from .options import as_json, database, keeping
from .render import aligned, counted, cut, one_line, paint
from .shapes import print_json_list

HEADINGS = ("NAME", "VERSION", "ROWS", "POSITION", "BEHIND", "WORKER")
NUMBERS = (1, 2, 3, 4)
# On a server a position is one of each slice, and too long for a table.
POSITION_WIDTH = 16
SHOWN_MAX = 10


@click.command("projections")
@database
@as_json
def command(location: str, as_json: bool) -> None:
    """
    List the projections: what contexts, searches, past views and more are answered from.

    ROWS were made from the events up to POSITION; BEHIND counts the events after it, which are folded as soon as
    somebody asks, or by `refold run`. WORKER is the process that keeps the rows up to date.

    An event that a projection cannot fold is set aside: it goes on, and its rows are made without. Once it is mended,
    `refold rebuild` folds the event again.

    With --json: an array of {name, version, rows, position, behind, worker, rebuilt, stopped_at, error, set_aside:
    [{event, error}]}; rebuilt counts the events that a rebuild which was stopped has behind it, stopped_at is the event
    that cannot be folded.
    """
    with keeping(location) as store:
        found = store.projections()
    if as_json:
        print_json_list(map(_shape, found))
    else:
        _print_table(found)


def _shape(status: ProjectionStatus) -> dict[str, Any]:
    return {**msgspec.structs.asdict(status), "set_aside": [one._asdict() for one in status.set_aside]}


def _print_table(found: Sequence[ProjectionStatus]) -> None:
    heading, *lines = aligned([HEADINGS, *map(_cells, found)], right=NUMBERS)
    click.echo(paint(heading, "dim"))
    for status, line in zip(found, lines, strict=True):
        click.echo(line)
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
    """Return the remark beside the numbers of a projection, and its style."""
    notes = []
    if status.stopped_at is not None:
        notes.append((f"it cannot fold {one_line(status.stopped_at)}: {one_line(status.error or '')}", "red"))
    for one in status.set_aside[:SHOWN_MAX]:
        notes.append((f"set aside: {one_line(one.event)}: {one_line(one.error)}", "yellow"))
    if len(status.set_aside) > SHOWN_MAX:
        notes.append((f"and {counted(len(status.set_aside) - SHOWN_MAX, 'event')} more: --json has all", "yellow"))
    if status.rebuilt is not None:
        half = f"a rebuild was left behind {counted(status.rebuilt, 'event')}: `refold rebuild {status.name}` goes on"
        notes.append((half, "yellow"))
    return notes
