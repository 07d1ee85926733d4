"""Items in words: who speaks, and what is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import click

from ...domain.chat.events import ConfigUpdated, FunctionCalled, FunctionReturned, HandedOff, Image, MessageAdded
from ...domain.content import Content, plain_content
from ...domain.log.envelope import RecordedEvent
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, PoolAdded, PoolReplaced
from ...domain.window.events import WindowItemEvent
from ..queries.origins import Item, id_of
from .render import TEXT_WIDTH_MIN, Entry, absolute, display_width, json_text, one_line, paint, terminal_width, wrapped

STYLES = {"user": "green", "assistant": "blue", "call": "yellow", "output": "cyan"}


def speaker_of(item: Item) -> str:
    """
    Return what stands in front of an item: who speaks in a chat, the id or key where items have one, else its sort.
    """
    named = isinstance(item, PoolAdded | PoolReplaced | WindowItemEvent | MemoryRemembered)
    return str(id_of(item)) if named else sort_of(item)


def sort_of(item: Item) -> str:
    """
    Return of what sort an item is: a role in a chat, or the kind of an item that has none; the source in a window, the
    kind in a memory; in a queue or a pool what it holds.
    """
    match item:
        case AddedEvent():
            return _sort_of_content(item.content)
        case WindowItemEvent():
            return item.source
        case MemoryRemembered():
            return item.kind
        case MessageAdded(role=role):
            return role
        case FunctionCalled():
            return "call"
        case FunctionReturned(is_error=is_error):
            return "error" if is_error else "output"
        case HandedOff():
            return "handoff"
        case ConfigUpdated():
            return "config"


def _sort_of_content(content: Content) -> str:
    if content.text is not None:
        return "text"
    return content.type.rpartition(":")[2] or "json"


def style_of(speaker: str) -> str:
    """Return the style of a speaker's name."""
    return "red" if speaker == "error" else STYLES.get(speaker, "dim")


def about(item: Item) -> str:
    """Return what is said about an item; empty where nothing is."""
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
    """Return what an item says, in full."""
    match item:
        case AddedEvent(content=content) | MemoryRemembered(value=content):
            return content.text if content.text is not None else json_text(plain_content(content))
        case WindowItemEvent(value=value):
            return value
        case MessageAdded(content=str(text)):
            return text
        case MessageAdded(content=parts):
            return "\n".join(part if isinstance(part, str) else _image(part) for part in parts)
        case FunctionCalled(name=name, arguments=arguments):
            return f"{name}({arguments})"
        case FunctionReturned(name=name, output=output):
            return f"{name or '(unknown function)'}: {output}"
        case HandedOff(from_agent=source, to_agent=target, reason=reason):
            return f"{source or '(nobody)'} -> {target}" + (f": {reason}" if reason else "")
        case ConfigUpdated(instructions=instructions, tools=tools):
            said = [] if instructions is None else [f"instructions: {instructions}"]
            return "\n".join([*said, *([] if tools is None else [f"tools: {', '.join(tools) or '(none)'}"])])


def _image(image: Image) -> str:
    # A data URL is a picture in letters: of no use to a reader.
    shown = image.image.partition(",")[0] + ",…" if image.image.startswith("data:") else image.image
    return f"[image {shown}]"


def said_by(item: Item) -> str:
    """Return what an item says; a message behind its role, since the type of the event says the rest."""
    prefix = f"{item.role}: " if isinstance(item, MessageAdded) else ""
    return prefix + body_of(item)


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
