"""`refold show`: what a context holds, now or at any moment of its past."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Literal

import click

from ...domain.canonical import parse_json
from ...domain.chat.context import ChatContext
from ...domain.chat.events import Opened
from ...domain.chat.past import ReadOnlyChatContext
from ...domain.envelope import RecordedEvent
from ...domain.system import REAL_SYSTEM
from .addresses import Reference, address, opened, seen_at
from .addresses import reference as parse_reference
from .entries import Entry, entries_of, event_at
from .options import as_json, database, reading
from .shapes import item_shape, print_json, print_json_list
from .terminal import escaped, paint, terminal_width, wrapped
from .times import absolute, exact, told
from .wording import body_of, counted, speaker_of, style_of

__all__ = ["command"]

Form = Literal["text", "json", "openai"]
PAUSE_SECONDS = 60
SPEAKER_WIDTH = 9


@click.command("show")
@click.argument("reference", metavar="CTX[@V]", callback=parse_reference)
@click.option("--at", "moment", metavar="X", callback=address, help="The moment, if it is not in CTX@V.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "json", "openai"]),
    default="text",
    show_default=True,
    help="How it is printed.",
)
@click.option("--tail", metavar="N", type=click.IntRange(min=1), help="The last N items (or OpenAI messages) only.")
@database
@as_json
def command(
    reference: Reference, moment: str | None, form: Form, tail: int | None, location: str, as_json: bool
) -> None:
    """
    Show what a context holds, now or at a moment of its past.

    CTX may leave out the kind (chat:). Each item has the @version that added it beside it.

    --as openai prints the context as OpenAI messages; what was imported comes out as it came in.

    With --as json, or --json: {context, kind, version, head, at, opened: {user, session, agent, source, attributes},
    items: [{version, position, recorded_at, actor, item}]}; an item has the fields of ChatContext.to_dict().
    """
    if moment and reference.moments:
        raise click.UsageError("the moment is given twice: in CTX@V and with --at", click.get_current_context())
    with reading(location) as store:
        chat = opened(store, reference.context)
        view = seen_at(chat, moment or next(iter(reference.moments), None))
        if form == "openai":
            messages = view.to_openai_messages()
            print_json_list(messages[-tail:] if tail else messages)
        elif as_json or form == "json":
            print_json(_shape(chat, view, entries_of(chat, view, tail=tail)))
        else:
            _print_text(chat, view, tail)


def _shape(chat: ChatContext, view: ReadOnlyChatContext, entries: Sequence[Entry]) -> dict[str, Any]:
    first, shown = event_at(chat, 1), event_at(chat, view.version)
    began = first.event if first is not None else None
    about = {field: getattr(began, field, None) for field in ("user", "session", "agent", "source")}
    attributes = parse_json(began.attributes) if isinstance(began, Opened) else None
    return {
        "context": chat.id,
        "kind": "chat",
        "version": view.version,
        "head": chat.version,
        "at": exact(shown.recorded_at) if shown else None,
        "opened": {**about, "attributes": attributes},
        "items": [item_shape(*entry) for entry in entries],
    }


def _print_text(chat: ChatContext, view: ReadOnlyChatContext, tail: int | None) -> None:
    entries = entries_of(chat, view, tail=tail)
    shown = event_at(chat, view.version)
    version = f"@{view.version}" if view.version == chat.version else f"@{view.version} of {chat.version}"
    counts = counted(len(entries), "item")
    counts = f"the last {counts}" if tail else f"{counts}, about {view.estimated_tokens():,} tokens"
    when = told(shown.recorded_at, REAL_SYSTEM.now()) if shown else "before it was opened"
    click.echo(paint(f"chat:{escaped(chat.id)} {version}", "bold") + paint(f"  {when}  {counts}", "dim"))
    margin, width = len(f"@{view.version}"), terminal_width()
    for before, entry in pairwise([None, *entries]):
        assert entry is not None
        if before is not None and _pause(before.recorded, entry.recorded):
            click.echo("\n" + paint(f"{'':{margin}}  -- {absolute(entry.recorded.recorded_at)}", "dim"))
        click.echo("\n" + "\n".join(_lines_of(entry, margin, width)))


def _pause(before: RecordedEvent, after: RecordedEvent) -> bool:
    return after.recorded_at - before.recorded_at > PAUSE_SECONDS * 1_000_000


def _lines_of(entry: Entry, margin: int, width: int) -> Iterator[str]:
    speaker = speaker_of(entry.item)
    indent = margin + SPEAKER_WIDTH + 4
    first, *others = wrapped(body_of(entry.item).strip("\n"), width - indent)
    version = paint(f"@{entry.recorded.version}".rjust(margin), "dim")
    yield f"{version}  {paint(speaker.ljust(SPEAKER_WIDTH), style_of(speaker))}  {first}".rstrip()
    yield from (f"{'':{indent}}{line}".rstrip() for line in others)
