"""Items and events as lines for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice, pairwise
from typing import Any, NamedTuple

import click

from ...domain.chat import describe as chats
from ...domain.chat.events import ChatItemEvent
from ...domain.content import Content
from ...domain.log.envelope import RecordedEvent
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, PoolAdded, PoolReplaced
from ...domain.window.events import WindowItemEvent
from ..log.codec import tag_of
from ..queries.origins import Item, id_of
from ..views.shapes import Entry, describe, item_text
from .render import (
    TEXT_WIDTH_MIN,
    absolute,
    clock,
    cut,
    day,
    display_width,
    is_cut_short,
    json_text,
    one_line,
    paint,
    terminal_width,
    wrapped,
)

STYLES = {"user": "green", "assistant": "blue", "call": "yellow", "output": "cyan"}
PAUSE = 60 * 1_000_000
# An output stands under its call, and has its colour: calls that were made together have different ones.
ANSWER_INDENT = 2
PAIR_STYLES = ("yellow", "cyan", "magenta")
MARKS = {"+": "green", "-": "red", "<": "yellow", ">": "yellow", "=": "dim"}
COLUMNS = 5
# With less room for the summary, an event takes two lines.
SUMMARY_WIDTH_MIN = 20
ACTOR_WIDTH = 16


def speaker_of(item: Item) -> str:
    """
    Return the label in front of an item: its id or key in a pool, window or memory; else its sort, such as a role.
    """
    named = isinstance(item, PoolAdded | PoolReplaced | WindowItemEvent | MemoryRemembered)
    return str(id_of(item)) if named else sort_of(item)


def sort_of(item: Item) -> str:
    """
    Return the sort of an item.

    In a chat it is the role, or the kind of an item without a role; in a window the source; in a memory the kind; in a
    queue or a pool the type of the content.
    """
    match item:
        case AddedEvent():
            return _sort_of_content(item.content)
        case WindowItemEvent():
            return item.source
        case MemoryRemembered():
            return item.kind
        case _:
            return chats.speaker_of(item)


def _sort_of_content(content: Content) -> str:
    if content.text is not None:
        return "text"
    return content.type.rpartition(":")[2] or "json"


def style_of(speaker: str) -> str:
    """Return the style of a speaker's name."""
    return "red" if speaker == "error" else STYLES.get(speaker, "dim")


def about(item: Item) -> str:
    """Return the description of an item; empty if it has none."""
    match item:
        case AddedEvent():
            return item.description or ""
        case WindowItemEvent():
            return f"from {item.source}" + (f", priority {item.priority}" if item.priority else "")
        case MemoryRemembered():
            return ", ".join([item.kind, *item.tags])
        case _:
            return ""


def body_of(item: Item) -> str:
    """Return the text of an item, in full."""
    return item_text(item, json_text)


def text_with_role(item: Item) -> str:
    """Return the text of an item; that of a message begins with its role, which the type of the event does not show."""
    return chats.text_with_role(item) if isinstance(item, ChatItemEvent) else body_of(item)


SPEAKER_WIDTH, SPEAKER_WIDTH_MAX = 9, 24


class Row(NamedTuple):
    """
    An item, its text, the notes below it, and one of MARKS if it is part of a difference.

    A call and its output have the number of their `pair`, by which they have one colour; the output is indented.
    """

    entry: Entry
    body: str
    note: str = ""
    mark: str = ""
    thoughts: str = ""
    pair: int | None = None
    is_answer: bool = False


class Columns(NamedTuple):
    """The widths of the columns in front of the texts: the places of the items, and their labels."""

    place: int
    speaker: int


def print_rows(rows: Sequence[Row]) -> None:
    """Print items; after a pause of more than a minute the time is printed, too."""
    columns = _columns_of(rows)
    for before, row in pairwise([None, *rows]):
        assert row is not None
        if before is not None and not row.mark and row.entry.happened_at - before.entry.happened_at > PAUSE:
            word = "happened " if row.entry.is_older else ""
            click.echo("\n" + paint(f"{'':{columns.place}}  -- {word}{absolute(row.entry.happened_at)}", "dim"))
        click.echo("\n" + "\n".join(_lines_of(row, columns)))


def _columns_of(rows: Sequence[Row]) -> Columns:
    places = max((display_width(one_line(row.entry.place)) for row in rows), default=0)
    speakers = max((display_width(one_line(speaker_of(row.entry.item))) for row in rows), default=0)
    return Columns(places, min(max(speakers, SPEAKER_WIDTH), SPEAKER_WIDTH_MAX))


def _lines_of(row: Row, columns: Columns) -> Iterator[str]:
    place, indent = one_line(row.entry.place), sum(columns) + 4
    if row.thoughts:
        yield from _block(row, columns, place, "thinking", row.thoughts)
        place = ""
    yield from _block(row, columns, place, one_line(speaker_of(row.entry.item)), row.body)
    if row.note:
        lines = wrapped(f"({row.note})", max(terminal_width() - indent, TEXT_WIDTH_MIN))
        yield from (f"{'':{indent}}" + paint(line, "dim") for line in lines)


def _block(row: Row, columns: Columns, place: str, speaker: str, text: str) -> Iterator[str]:
    """Yield a text, with a place and a label in front of its first line."""
    mark = f"{row.mark} " if row.mark else ""
    indent = sum(columns) + 4 + ANSWER_INDENT * row.is_answer
    texts = wrapped(text.strip("\n"), max(terminal_width() - indent - len(mark), TEXT_WIDTH_MIN))
    beside = " " * (columns.place - display_width(place)) + place
    room = columns.speaker - display_width(speaker)
    # A label that is too long for its column has a line of its own.
    first = " " * (room + 2 + ANSWER_INDENT * row.is_answer) + texts.pop(0) if room >= 0 else ""
    if mark:
        head = paint(f"{mark}{beside}  {speaker}", MARKS[row.mark])
    else:
        head = paint(beside, "dim") + "  " + paint(speaker, style_of_row(row, speaker))
    yield f"{head}{first}".rstrip()
    yield from ((paint(mark, MARKS.get(row.mark, "dim")) + f"{'':{indent}}{line}").rstrip() for line in texts)


def style_of_row(row: Row, speaker: str) -> str:
    """Return the style of a label of a row."""
    if speaker == "thinking":
        return "dim"
    if row.pair is not None and speaker != "error":
        return PAIR_STYLES[row.pair % len(PAIR_STYLES)]
    return style_of(sort_of(row.entry.item))


def type_of(event: Any) -> str:
    """Return the short name of an event's type: its tag without kind and version."""
    return tag_of(event).split(".")[1]


def summary_of(event: Any) -> str:
    """Return the description of an event on one line."""
    return one_line(describe(event).words(json_text))


def print_events(events: Iterator[tuple[RecordedEvent, str]], at_once: int) -> None:
    """Print events with their descriptions; `at_once` of them have columns of the same width."""
    widths, today = [0] * COLUMNS, ""
    while page := list(islice(events, at_once)):
        rows = [_cells(event) for event, _ in page]
        # Columns only grow, so that lines that are printed later stay aligned.
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
        # If space is short, the day is printed on a line of its own.
        clock(event.recorded_at) if is_cut_short() else absolute(event.recorded_at),
        one_line(f"{event.stream.removeprefix('chat:')}@{event.version}"),
        one_line(event.meta.actor or "-"),
        type_of(event.event),
    ]


def _line(cells: Sequence[str], widths: Sequence[int], summary: str) -> str:
    number, *texts = (" " * (width - display_width(cell)) for cell, width in zip(cells, widths, strict=True))
    position, time, place, actor, kind = cells
    used = sum(widths) + 2 * len(widths)
    if is_cut_short() and terminal_width() - used < SUMMARY_WIDTH_MIN:
        # Two lines: the place has the rest of the first one, the summary that of the second.
        before = f"{number}{position}  {paint(time, 'dim')}  "
        room = terminal_width() - widths[0] - widths[1] - 4
        indent = " " * (widths[0] + 2)
        actor = cut(actor, ACTOR_WIDTH)
        rest = cut(summary, max(terminal_width() - len(indent) - display_width(f"{actor}  {kind}  "), TEXT_WIDTH_MIN))
        return f"{before}{paint(cut(place, room), 'cyan')}\n{indent}{actor}  {paint(kind, 'yellow')}  {rest}".rstrip()
    shown = cut(summary, max(terminal_width() - used, 1)) if is_cut_short() else summary
    return "  ".join([
        number + position,
        paint(time, "dim") + texts[0],
        paint(place, "cyan") + texts[1],
        actor + texts[2],
        paint(kind, "yellow") + texts[3],
        shown,
    ]).rstrip()  # fmt: skip
