"""Events in words, one line each: of chats, queues, pools, windows and memories."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click

from ...domain.chat.events import (
    EDIT_EVENTS,
    ITEM_EVENTS,
    ChatItemEvent,
    Cleared,
    ConflictResolved,
    EditEvent,
    Forked,
    InstructionsReplaced,
    ItemInserted,
    ItemsEvicted,
    ItemsPinned,
    ItemsRestored,
    ItemsUnpinned,
    Merged,
    Named,
    Opened,
    Summarized,
    SummaryUndone,
)
from ...domain.log.envelope import RecordedEvent
from ...domain.memory.events import MemoryEvent, MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from ...domain.pool.events import (
    AddedEvent,
    BranchedEvent,
    ClearedEvent,
    ContainerEvent,
    EvictedEvent,
    MergedEvent,
    NamedEvent,
    OpenedEvent,
    PoolAdded,
    PoolConflictResolved,
    PoolRemoved,
    PoolReplaced,
    RestoredEvent,
    SettingsEvent,
)
from ...domain.spans import Ref
from ...domain.window.events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvent,
    WindowEvicted,
    WindowNamed,
    WindowOpened,
    WindowReplaced,
    WindowRestored,
    WindowSettingsChanged,
)
from ..plain_data import plain_fields
from .item_words import about, body_of, said_by, speaker_of
from .render import (
    absolute,
    because,
    clock,
    counted,
    cut,
    day,
    display_width,
    is_cut_short,
    joined,
    json_text,
    named,
    one_line,
    paint,
    places_of,
    sized,
    source_of,
    terminal_width,
)
from .run_words import run_summary

# The reason that containers record where nobody gave one.
REASONS = {"limit": "to make room", "evict": ""}


def folded_summary(event: object) -> str | None:
    """
    Return what happened to a queue, a pool, a window or a memory, in one sentence; None where it happened to none.
    """
    if isinstance(event, ContainerEvent):
        return _of_container(event)
    if isinstance(event, WindowEvent):
        return _of_window(event)
    return _of_memory(event) if isinstance(event, MemoryEvent) else None


def _of_container(event: ContainerEvent) -> str:
    match event:
        case OpenedEvent():
            return _change_words(user=event.user, session=event.session, agent=event.agent, **_settings(event))
        case BranchedEvent():
            carried = f"from {source_of(event.parent, event.version)}, {counted(event.change.items, 'item')}"
            return joined([carried, _change_words(**_settings(event))])
        case PoolReplaced():
            return f"{event.id}, in the place of {_place(event.old)}: {about(event)}"
        case PoolAdded():
            return f"{event.id}: {about(event)}"
        case AddedEvent():
            return body_of(event)
        case EvictedEvent():
            why = REASONS.get(event.reason, because(event.reason))
            return joined([named(event.items), sized(event.change), why])
        case PoolRemoved():
            return joined([f"{event.id} ({_place(event.item)})", sized(event.change), because(event.reason)])
        case RestoredEvent():
            return joined([named(event.items), sized(event.change)])
        case ClearedEvent():
            return joined([counted(-event.change.items, "item"), sized(event.change)])
        case MergedEvent():
            return _merge(event)
        case PoolConflictResolved():
            sides = f"ours {_place(event.ours)}, theirs {_place(event.theirs)}"
            return f"{event.id}: {event.kept} kept, as {event.rule!r} wants it; {sides}"
        case SettingsEvent():
            return _change_words(**_settings(event)) or "no limit, no tags"
        case NamedEvent():
            return f"{event.name} = @{event.version}"


def _of_window(event: WindowEvent) -> str:
    match event:
        case WindowOpened() | WindowSettingsChanged():
            return f"max_tokens={event.max_tokens} policy={event.policy}"
        case WindowAdded():
            return f"{event.key}: {event.value}"
        case WindowReplaced():
            return f"{event.key}, in the place of {named(event.old)}: {event.value}"
        case WindowDropped():
            over = f"with it {event.tokens:,} tokens, and {event.max_tokens:,} are allowed"
            return f"{event.key}, not let in ({over}): {event.value}"
        case WindowEvicted():
            why = "to make room" if event.how == "room" else because(event.reason)
            return joined([named(event.items), sized(event.change), why])
        case WindowRestored():
            return joined([named(event.items), sized(event.change)])
        case WindowCleared():
            return joined([counted(-event.change.items, "item"), sized(event.change)])
        case WindowNamed():
            return f"{event.name} = @{event.version}"


def _of_memory(event: MemoryEvent) -> str:
    match event:
        case MemoryRemembered():
            instead = f", in the place of {_place(event.replaced)}" if event.replaced else ""
            return f"{event.key}{instead}: {body_of(event)}"
        case MemoryForgotten():
            return joined([named(event.items, "record"), because(event.reason)])
        case MemoryRestored():
            return named(event.items, "record")
        case MemoryNamed():
            return f"{event.name} = @{event.version}"


def _merge(event: MergedEvent) -> str:
    base = source_of(event.base.stream, event.base.version) if event.base else ""
    return joined([
        source_of(event.source, event.version),
        f"{named(event.taken)} taken" if event.taken else "no items taken",
        f"{named(event.dropped)} dropped" if event.dropped else "",
        f"since {base}" if base else "",
    ])  # fmt: skip


def _settings(event: OpenedEvent | BranchedEvent | SettingsEvent) -> dict[str, str | None]:
    limit = None if event.limit is None else str(event.limit)
    return {"limit": limit, "tags": ",".join(event.tags)}


def _change_words(**fields: str | None) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items() if value)


def _place(ref: Ref | None) -> str:
    return "none" if ref is None else source_of(ref.stream, ref.version)


FORKS = {"full": "everything", "filtered": "the last turns", "brief": "nothing", "copy": "a copy"}


def edit_summary(event: EditEvent) -> str:
    """Return what an edit did, in one sentence."""
    match event:
        case ItemInserted():
            return f"before {source_of(event.before.stream, event.before.version)}: {_edit_words(event.item)}"
        case InstructionsReplaced():
            return f"in the place of {named(event.replaced)}: {_edit_words(event.item)}"
        case ItemsEvicted() | ItemsRestored():
            how = f"by {event.how}" if isinstance(event, ItemsEvicted) and event.how != "evict" else ""
            return joined([named(event.items), sized(event.change), how, because(event.reason)])
        case ItemsPinned() | ItemsUnpinned():
            return joined([named(event.items), because(event.reason)])
        case Cleared():
            return joined([counted(-event.change.items, "item"), sized(event.change), because(event.reason)])
        case Summarized():
            by = f"by {event.model}" if event.model else ""
            return joined([named(event.folded), by]) + f": {_edit_words(event.item)}"
        case SummaryUndone():
            summary = source_of(event.summary.stream, event.summary.version)
            return f"{named(event.items)} back in the place of the summary {summary}"
        case Forked() | Merged() | ConflictResolved():
            return _of_two(event)


def _of_two(event: Forked | Merged | ConflictResolved) -> str:
    match event:
        case Forked():
            carried = FORKS.get(event.how, event.how)
            if event.carried:
                carried += f": {named(event.carried)}"
            config = "instructions and tools in force" if event.config else ""
            return joined([f"from {source_of(event.parent, event.version)}", carried, config])
        case Merged(how="summary"):
            return f"{source_of(event.source, event.version)}, {named(event.told)} told by a summary"
        case Merged():
            placed = [span for placement in event.placed for span in placement.items]
            base = source_of(event.base.stream, event.base.version) if event.base else ""
            return joined([
                f"{source_of(event.source, event.version)}",
                "its result" if event.how == "result" else "",
                named(placed) if placed else "no items",
                f"since {base}" if base else "",
                f"stays here though evicted there: {named(event.evicted)}" if event.evicted else "",
            ])  # fmt: skip
        case ConflictResolved():
            sides = f"ours {places_of(event.ours)}, theirs {places_of(event.theirs)}"
            return f"{event.kind}: {event.kept} kept, as {event.rule!r} wants it; {sides}"


def _edit_words(item: ChatItemEvent) -> str:
    return f"{speaker_of(item)}: {body_of(item)}"


def type_of(event: Any) -> str:
    """Return the name of an event's type, without kind and version: the part that people say."""
    return str(event.__struct_config__.tag).split(".")[1]


def summary_of(event: Any) -> str:
    """Return an event on one line; one that is not known here by its fields."""
    if isinstance(event, ITEM_EVENTS):
        return one_line(said_by(event))
    if isinstance(event, EDIT_EVENTS):
        return one_line(edit_summary(event))
    for summary in (folded_summary(event), run_summary(event)):
        if summary is not None:
            return one_line(summary)
    match event:
        case Named(name=name, version=version):
            return one_line(f"{name} = @{version}")
        case Opened(user=user, session=session, agent=agent, source=source):
            said = {"user": user, "session": session, "agent": agent, "source": source}
            return one_line(" ".join(f"{name}={value}" for name, value in said.items() if value))
        case _:
            return one_line(json_text(plain_fields(event)))


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
