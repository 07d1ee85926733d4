"""Items one below the other, for people: where each was added, who speaks or what it is, what is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import click

from ...domain.log.envelope import RecordedEvent
from .entries import Entry
from .speaking import sort_of, speaker_of, style_of
from .terminal import TEXT_WIDTH_MIN, display_width, one_line, paint, terminal_width, wrapped
from .times import absolute

PAUSE_SECONDS = 60
SPEAKER_WIDTH, SPEAKER_WIDTH_MAX = 9, 24
MARKS = {"+": "green", "-": "red", "<": "yellow", ">": "yellow", "=": "dim"}


class Row(NamedTuple):
    """An item, what is shown of it, what is said below it, and one of MARKS where it is part of a difference."""

    entry: Entry
    body: str
    note: str = ""
    mark: str = ""


class Columns(NamedTuple):
    """The widths of what stands in front of the texts: where items were added, and who speaks."""

    place: int
    speaker: int


def print_rows(rows: Sequence[Row]) -> None:
    """Print items; a pause of more than a minute between two of them shows the time."""
    columns = _columns_of(rows)
    for before, row in pairwise([None, *rows]):
        assert row is not None
        recorded = row.entry.recorded
        if before is not None and not row.mark and _pause(before.entry.recorded, recorded):
            click.echo("\n" + paint(f"{'':{columns.place}}  -- {absolute(recorded.recorded_at)}", "dim"))
        click.echo("\n" + "\n".join(_lines_of(row, columns)))


def _columns_of(rows: Sequence[Row]) -> Columns:
    places = max((display_width(one_line(row.entry.place)) for row in rows), default=0)
    speakers = max((display_width(one_line(speaker_of(row.entry.item))) for row in rows), default=0)
    return Columns(places, min(max(speakers, SPEAKER_WIDTH), SPEAKER_WIDTH_MAX))


def _pause(before: RecordedEvent, after: RecordedEvent) -> bool:
    return after.recorded_at - before.recorded_at > PAUSE_SECONDS * 1_000_000


def _lines_of(row: Row, columns: Columns) -> Iterator[str]:
    speaker, place = one_line(speaker_of(row.entry.item)), one_line(row.entry.place)
    mark = f"{row.mark} " if row.mark else ""
    indent = sum(columns) + 4
    texts = wrapped(row.body.strip("\n"), max(terminal_width() - indent - len(mark), TEXT_WIDTH_MIN))
    beside = " " * (columns.place - display_width(place)) + place
    room = columns.speaker - display_width(speaker)
    # Beside a name that is too long for its column there is no room.
    first = " " * room + f"  {texts.pop(0)}" if room >= 0 else ""
    if mark:
        head = paint(f"{mark}{beside}  {speaker}", MARKS[row.mark])
    else:
        head = paint(beside, "dim") + "  " + paint(speaker, style_of(sort_of(row.entry.item)))
    yield f"{head}{first}".rstrip()
    yield from ((paint(mark, MARKS.get(row.mark, "dim")) + f"{'':{indent}}{line}").rstrip() for line in texts)
    if row.note:
        yield f"{'':{indent}}" + paint(f"({row.note})", "dim")
