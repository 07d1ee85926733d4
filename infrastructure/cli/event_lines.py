"""Events one below the other, for people: a line for each, in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import click

from ...domain.log.envelope import RecordedEvent
from .terminal import cut, display_width, is_cut_short, one_line, paint, terminal_width
from .times import absolute, clock, day
from .wording import type_of

COLUMNS = 5


def print_events(events: Iterator[tuple[RecordedEvent, str]], at_once: int) -> None:
    """Print events, each with what it says, `at_once` of them with columns of the same width."""
    widths, today = [0] * COLUMNS, ""
    while page := list(islice(events, at_once)):
        rows = [_cells(event) for event, _ in page]
        # Columns only ever grow wider, so that lines printed as they come stay in line.
        for row in rows:
            widths = [max(width, display_width(cell)) for width, cell in zip(widths, row, strict=True)]
        for (event, summary), row in zip(page, rows, strict=True):
            if is_cut_short() and day(event.recorded_at) != today:
                today = day(event.recorded_at)
                click.echo(paint(today, "dim"))
            click.echo(_line(row, widths, summary))


def _cells(event: RecordedEvent) -> list[str]:
    return [
        str(event.position),
        # Where space is short, the day stands on a line of its own.
        clock(event.recorded_at) if is_cut_short() else absolute(event.recorded_at),
        one_line(f"{event.stream.removeprefix('chat:')}@{event.version}"),
        one_line(event.meta.actor or "-"),
        type_of(event.event),
    ]


def _line(cells: Sequence[str], widths: Sequence[int], summary: str) -> str:
    number, *texts = (" " * (width - display_width(cell)) for cell, width in zip(cells, widths, strict=True))
    position, time, place, actor, kind = cells
    used = sum(widths) + 2 * len(widths)
    shown = cut(summary, max(terminal_width() - used, 1)) if is_cut_short() else summary
    return "  ".join([
        number + position,
        paint(time, "dim") + texts[0],
        paint(place, "cyan") + texts[1],
        actor + texts[2],
        paint(kind, "yellow") + texts[3],
        shown,
    ]).rstrip()  # fmt: skip
