"""
Items one below the other, for people: where each was added, who speaks, what is said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import click

from ...domain.envelope import RecordedEvent
from .entries import Entry
from .speaking import body_of, speaker_of, style_of
from .terminal import TEXT_WIDTH_MIN, display_width, one_line, paint, terminal_width, wrapped
from .times import absolute

__all__ = ["Row", "print_rows"]

PAUSE_SECONDS = 60
SPEAKER_WIDTH = 9


class Row(NamedTuple):
    """An item, and what is said below it."""

    entry: Entry
    note: str = ""


def print_rows(rows: Sequence[Row]) -> None:
    """
    Print items; a pause of more than a minute between two of them shows the time.
    """
    margin = max((display_width(one_line(row.entry.place)) for row in rows), default=0)
    for before, row in pairwise([None, *rows]):
        assert row is not None
        recorded = row.entry.recorded
        if before is not None and _pause(before.entry.recorded, recorded):
            click.echo("\n" + paint(f"{'':{margin}}  -- {absolute(recorded.recorded_at)}", "dim"))
        click.echo("\n" + "\n".join(_lines_of(row, margin)))


def _pause(before: RecordedEvent, after: RecordedEvent) -> bool:
    return after.recorded_at - before.recorded_at > PAUSE_SECONDS * 1_000_000


def _lines_of(row: Row, margin: int) -> Iterator[str]:
    speaker, place = speaker_of(row.entry.item), one_line(row.entry.place)
    indent = margin + SPEAKER_WIDTH + 4
    first, *others = wrapped(body_of(row.entry.item).strip("\n"), max(terminal_width() - indent, TEXT_WIDTH_MIN))
    beside = paint(" " * (margin - display_width(place)) + place, "dim")
    yield f"{beside}  {paint(speaker.ljust(SPEAKER_WIDTH), style_of(speaker))}  {first}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in others)
    if row.note:
        yield f"{'':{indent}}" + paint(f"({row.note})", "dim")
