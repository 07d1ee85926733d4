"""Items and events as lines for people; the items of a context of any kind, as `refold show` prints them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise
from shlex import quote
from typing import Any, Literal, NamedTuple

import click
from msgspec.structs import replace

from ...domain.chat import describe as chats
from ...domain.chat.describe import thoughts_of
from ...domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned
from ...domain.chat.pairing import Approval, pair_calls
from ...domain.clock import REAL_SYSTEM
from ...domain.content import Content
from ...domain.context.address import Reference
from ...domain.context.description import Departure, counted, source_of
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.kinds import KINDS
from ...domain.log.envelope import RecordedEvent
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, PoolAdded, PoolReplaced
from ...domain.window.events import WindowItemEvent
from ..log.codec import tag_of
from ..queries.origins import Item, event_at, id_of
from ..store import Store
from ..views.contexts import ItemView, RunView, View, entry_shapes, head_shape, view_of
from ..views.shapes import Entry, describe, item_text
from .args import stream_of
from .render import (
    TEXT_WIDTH_MIN,
    absolute,
    clock,
    cut,
    date_and_age,
    day,
    display_width,
    escaped,
    fitted,
    is_cut_short,
    is_too_wide,
    json_text,
    one_line,
    paint,
    print_json,
    prints_json,
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
SPEAKER_WIDTH, SPEAKER_WIDTH_MAX = 9, 24
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
    sort = sort_of(row.entry.item)
    return "red" if sort == "error" else STYLES.get(sort, "dim")


def view_in(
    store: Store, reference: Reference, moment: str | None = None, kinds: tuple[str, ...] = KINDS
) -> ItemView | RunView:
    """
    Return the context of a reference, at the moment in the reference or else at `moment`.

    Raises:
        NotFoundError: there is no such context, version or name.
        InvalidInputError: several contexts match, or the context is of another kind.
    """
    return view_of(store, stream_of(store, reference.context, kinds), reference.moment or moment)


def item_view_in(store: Store, reference: Reference, moment: str | None, kind: str) -> ItemView:
    """
    Return the context of a kind that holds items, as `view_in` does.

    Raises:
        NotFoundError, InvalidInputError: as for `view_in`.
    """
    view = view_in(store, reference, moment, (kind,))
    assert not isinstance(view, RunView), f"a {kind} holds items"
    return view


class PrintedVersion(NamedTuple):
    """
    A version of a context, and the items of it that are printed; for items that left it, also how they left.

    `extent` says which items: all, the last ones, or a selection.
    """

    view: ItemView
    entries: Sequence[Entry]
    left: Sequence[Departure] | None
    extent: Literal["all", "tail", "part"]


def shown_of(
    view: ItemView,
    *,
    evicted: bool,
    tail: int | None,
    names: Sequence[str] = (),
    is_wanted: Callable[[Item], bool] | None = None,
) -> PrintedVersion:
    """
    Return the items to print: the present items, or with `evicted` those that left.

    They can be limited to those that `is_wanted` accepts, that have one of the `names`, and to the last `tail`.

    Raises:
        NotFoundError: no item has one of the names.
    """
    is_part = bool(names) or is_wanted is not None
    pairs: list[tuple[Entry, Departure | None]]
    last = None if is_part else tail
    pairs = [*view.evicted(tail=last)] if evicted else [(entry, None) for entry in view.entries(tail=last)]
    if is_wanted is not None:
        pairs = [pair for pair in pairs if is_wanted(pair[0].item)]
    if names:
        pairs = [pair for name in names for pair in _pairs_named(view, pairs, name)]
    pairs = pairs[-tail:] if tail else pairs
    left = [one for _, one in pairs if one is not None] if evicted else None
    return PrintedVersion(view, [entry for entry, _ in pairs], left, "part" if is_part else "tail" if tail else "all")


def _pairs_named(
    view: ItemView, pairs: list[tuple[Entry, Departure | None]], name: str
) -> list[tuple[Entry, Departure | None]]:
    found = [pair for pair in pairs if id_of(pair[0].item) == name]
    # Ids come first, because an id may look like a place.
    found = found or [pair for pair in pairs if name in (pair[0].place, pair[0].recorded.reference)]
    if not found:
        kind, context = split_stream_id(view.stream)
        way_out = f"`refold {kind} show {quote(context)}` lists those there are"
        raise NotFoundError(f"{view.stream}@{view.version} has no item {name!r}: {way_out}")
    return found


def print_shown(shown: PrintedVersion, *, ids: bool) -> None:
    """Print items for people or as JSON; with `ids` the id of each, too."""
    if prints_json():
        print_json({**head_shape(shown.view), **shown.view.settings, "items": entry_shapes(shown.entries, shown.left)})
        return
    print_head(shown.view, _counts(shown))
    older = [entry.happened_at for entry in shown.entries if entry.is_older]
    if older:
        times = " to ".join(absolute(moment) for moment in sorted({min(older), max(older)}))
        _print_dim(f"older items happened {times}, before they were recorded")
    print_rows(_rows(shown, ids))


def _rows(shown: PrintedVersion, ids: bool) -> list[Row]:
    items = [entry.item for entry in shown.entries]
    pairs = pair_calls(item for item in items if isinstance(item, ChatItemEvent))
    numbers = {call: number for number, call in enumerate(sorted(pairs.output_of))}
    rows = []
    for index, entry in enumerate(shown.entries):
        call = pairs.call_of.get(index)
        body = _body(shown, _named_as_called(entry, None if call is None else items[call]))
        # Directly below the only call of an answer, an output need not name its call.
        is_alone = call == index - 1 and not isinstance(items[max(0, index - 2)], FunctionCalled)
        if call is not None and not (is_alone or (call == index - 1 and index == 1)):
            body = f"{shown.entries[call].place} {body}"
        rows.append(
            Row(
                entry,
                body,
                _notes(shown, index, ids),
                thoughts="\n".join(thoughts_of(entry.item)) if isinstance(entry.item, ChatItemEvent) else "",
                pair=numbers.get(index if call is None else call),
                is_answer=call is not None,
            )
        )
    return rows


def print_head(view: View, counts: str) -> None:
    """Print the context, its version, the time of that version, and the counts."""
    last = event_at(view.log, view.stream, view.version)
    version = f"@{view.version}" if view.version == view.head else f"@{view.version} of {view.head}"
    when = date_and_age(last.recorded_at, REAL_SYSTEM.now()) if last else "before it was opened"
    name, about = f"{escaped(view.stream)} {version}", f"{when}  {counts}"
    if not is_too_wide([f"{name}  {about}"]):
        click.echo(paint(name, "bold") + "  " + paint(about, "dim"))
    else:
        click.echo(paint(name, "bold"))
        _print_dim(f"{when}\n{counts}" if is_too_wide([about]) else about)


def _print_dim(text: str) -> None:
    for line in wrapped(text, terminal_width()) if is_cut_short() else [text]:
        click.echo(paint(line, "dim"))


def _counts(shown: PrintedVersion) -> str:
    counts = counted(len(shown.entries), "item")
    if shown.left is not None:
        return f"{counts} that left the view"
    if shown.extent != "all":
        return f"the last {counts}" if shown.extent == "tail" else counts
    limit = shown.view.settings.get("limit")
    within = f" of at most {limit:,}" if limit else ""
    return f"{counts}{within}, about {shown.view.tokens:,} tokens"


def _named_as_called(entry: Entry, call: Item | None) -> Entry:
    """Return an output that came without a name, as LangChain's may, under the name of its call."""
    item = entry.item
    if isinstance(item, FunctionReturned) and not item.name and isinstance(call, FunctionCalled):
        return entry._replace(item=replace(item, name=call.name))
    return entry


def _body(shown: PrintedVersion, entry: Entry) -> str:
    """
    Return the text of an item.

    A pool is listed by descriptions, as a model sees it when it chooses; an item that was named is shown in full.
    """
    is_catalogue = shown.view.stream.startswith("pool:") and shown.extent != "part"
    return about(entry.item) if is_catalogue else body_of(entry.item)


def _approval(approval: Approval) -> str:
    said = "approval requested" if approval.state == "requested" else approval.state
    return " ".join([said, *([f"by {approval.by}"] if approval.by else [])]) + (
        f": {approval.because}" if approval.because else ""
    )


def _notes(shown: PrintedVersion, index: int, ids: bool) -> str:
    """Return the remarks below an item: its description, its id, a pin, a missing output, how it left."""
    entry = shown.entries[index]
    description = about(entry.item)
    notes = [description] if description and description != _body(shown, entry) else []
    # The id is not repeated if it is already in front of the item, as in a pool.
    notes += [f"id {id_of(entry.item)}"] if ids and id_of(entry.item) not in (None, speaker_of(entry.item)) else []
    if ids and isinstance(entry.item, FunctionCalled | FunctionReturned):
        notes.append(f"call id {entry.item.call_id}")
    notes += ["pinned"] if entry.is_pinned else []
    notes += ["no output yet"] if entry.is_pending else []
    notes += [_approval(entry.approval)] if entry.approval is not None and shown.left is None else []
    if shown.left is not None:
        left = shown.left[index]
        notes.append(f"{left.how} {source_of('', left.version)}" + (f": {left.reason}" if left.reason else ""))
    return one_line(", ".join(notes))


def type_of(event: Any) -> str:
    """Return the short name of an event's type: its tag without kind and version."""
    return tag_of(event).split(".")[1]


def summary_of(event: Any) -> str:
    """Return the description of an event on one line."""
    return one_line(describe(event).words(json_text))


def print_events(events: Iterator[tuple[RecordedEvent, str]], at_once: int) -> bool:
    """Print events with their descriptions, and return if there are any; `at_once` have columns of the same width."""
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
    return any(widths)


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
    shown = fitted(summary, beside=used)
    return "  ".join([
        number + position,
        paint(time, "dim") + texts[0],
        paint(place, "cyan") + texts[1],
        actor + texts[2],
        paint(kind, "yellow") + texts[3],
        shown,
    ]).rstrip()  # fmt: skip
