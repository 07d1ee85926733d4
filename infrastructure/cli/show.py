"""`refold show`: what a context holds, now or at any moment of its past."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import click

from ...domain.canonical import parse_json
from ...domain.chat.calls.past import ReadOnlyChatContext
from ...domain.chat.context import ChatContext
from ...domain.chat.events import Forked, Opened
from ...domain.chat.state.sequence import Gone
from ...domain.system import REAL_SYSTEM
from ..store import Store
from .addresses import Reference, address, opened, seen_at
from .addresses import reference as parse_reference
from .entries import Entry, entries_of, event_at, evicted_entries
from .forms import PROVIDERS, print_for
from .listing import Row, print_rows
from .naming import counted, source_of
from .options import as_json, database, reading
from .shapes import item_shape, print_json
from .terminal import escaped, one_line, paint
from .times import exact, told

__all__ = ["command"]


class Shown(NamedTuple):
    """What is to be printed: a version of a context, and the items of it, or those that left it and how."""

    chat: ChatContext
    view: ReadOnlyChatContext
    entries: Sequence[Entry]
    gone: Sequence[Gone] | None = None


@click.command("show")
@click.argument("reference", metavar="CTX[@V]", callback=parse_reference)
@click.option("--at", "moment", metavar="X", callback=address, help="The moment, if it is not in CTX@V.")
@click.option(
    "--as",
    "form",
    type=click.Choice(["text", "json", *PROVIDERS]),
    default="text",
    show_default=True,
    help="How it is printed.",
)
@click.option("--valid", is_flag=True, help="With --as openai: repaired where OpenAI would refuse it.")
@click.option("--evicted", is_flag=True, help="What left the view, and why, instead of what is in it.")
@click.option("--ids", is_flag=True, help="The id of each item, too.")
@click.option("--tail", metavar="N", type=click.IntRange(min=1), help="The last N items (or OpenAI messages) only.")
@database
@as_json
def command(
    reference: Reference,
    moment: str | None,
    form: str,
    valid: bool,
    evicted: bool,
    ids: bool,
    tail: int | None,
    location: str,
    as_json: bool,
) -> None:
    """
    Show what a context holds, now or at a moment of its past.

    CTX may leave out the kind (chat:). Each item has the @version that added it beside it, or CTX@V where it came from
    another context, by a fork or a merge.

    --as openai prints the context as OpenAI messages: what was imported comes out as it came in. With --valid, and for
    the other providers always, it is what would be sent: calls and outputs paired, whatever was evicted.

    With --as json, or --json: {context, kind, version, head, at, opened: {user, session, agent, source, parent,
    attributes}, items: [{version, stream, position, recorded_at, actor, pinned, item}]}; an item has the fields of
    ChatContext.to_dict(). With --evicted each has {how, reason, version} under `left`.
    """
    _check(reference, moment, form, valid, evicted, tail)
    with reading(location) as store:
        chat = opened(store, reference.context)
        view = seen_at(chat, moment or next(iter(reference.moments), None))
        if form in PROVIDERS:
            print_for(form, view, is_exact=not valid, tail=tail)
            return
        shown = _shown(store, chat, view, evicted, tail)
        if as_json or form == "json":
            print_json(_shape(shown))
        else:
            _print_text(shown, tail, ids)


def _check(reference: Reference, moment: str | None, form: str, valid: bool, evicted: bool, tail: int | None) -> None:
    fault = None
    if moment and reference.moments:
        fault = "the moment is given twice: in CTX@V and with --at"
    elif valid and form != "openai":
        fault = "--valid goes with --as openai; what is printed for other providers is valid always"
    elif evicted and form in PROVIDERS:
        fault = "--evicted goes with --as text or json: what left the view is sent to nobody"
    elif tail and (evicted or valid or form in PROVIDERS[1:]):
        fault = "--tail would take apart what belongs together here: `refold fork CTX NEW --turns N` keeps it whole"
    if fault:
        raise click.UsageError(fault, click.get_current_context())


def _shown(store: Store, chat: ChatContext, view: ReadOnlyChatContext, evicted: bool, tail: int | None) -> Shown:
    if not evicted:
        return Shown(chat, view, entries_of(store.log, chat, view, tail=tail))
    left = evicted_entries(store.log, chat, view)
    return Shown(chat, view, [entry for entry, _ in left], [gone for _, gone in left])


def _shape(shown: Shown) -> dict[str, Any]:
    chat, view = shown.chat, shown.view
    first, last = event_at(chat, 1), event_at(chat, view.version)
    began = first.event if first is not None else None
    about = {field: getattr(began, field, None) for field in ("user", "session", "agent", "source")}
    parent = f"{began.parent}@{began.version}" if isinstance(began, Forked) else None
    attributes = parse_json(began.attributes) if isinstance(began, Opened) else None
    return {
        "context": chat.id,
        "kind": "chat",
        "version": view.version,
        "head": chat.version,
        "at": exact(last.recorded_at) if last else None,
        "opened": {**about, "parent": parent, "attributes": attributes},
        "items": _item_shapes(shown),
    }


def _item_shapes(shown: Shown) -> list[dict[str, Any]]:
    shapes = [item_shape(entry) for entry in shown.entries]
    if shown.gone is not None:
        for shape, gone in zip(shapes, shown.gone, strict=True):
            shape["left"] = {"how": gone.how, "reason": gone.reason, "version": gone.version}
    return shapes


def _print_text(shown: Shown, tail: int | None, ids: bool) -> None:
    chat, view = shown.chat, shown.view
    last = event_at(chat, view.version)
    version = f"@{view.version}" if view.version == chat.version else f"@{view.version} of {chat.version}"
    when = told(last.recorded_at, REAL_SYSTEM.now()) if last else "before it was opened"
    head = f"  {when}  {_counts(shown, tail)}"
    click.echo(paint(f"chat:{escaped(chat.id)} {version}", "bold") + paint(head, "dim"))
    print_rows([Row(entry, _notes(shown, index, ids)) for index, entry in enumerate(shown.entries)])


def _counts(shown: Shown, tail: int | None) -> str:
    counts = counted(len(shown.entries), "item")
    if shown.gone is not None:
        return f"{counts} that left the view"
    return f"the last {counts}" if tail else f"{counts}, about {shown.view.estimated_tokens():,} tokens"


def _notes(shown: Shown, index: int, ids: bool) -> str:
    """What is said below an item: its id, that it is pinned, how it left."""
    entry = shown.entries[index]
    notes = [f"id {entry.item.id}"] if ids else []
    notes += ["pinned"] if entry.is_pinned else []
    if shown.gone is not None:
        gone = shown.gone[index]
        notes.append(f"{gone.how} {source_of('', gone.version)}" + (f": {gone.reason}" if gone.reason else ""))
    return one_line(", ".join(notes))
