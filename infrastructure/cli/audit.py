"""`refold audit`: what became of the items of a context, who did it, when, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import click

from ...domain.envelope import RecordedEvent
from ...domain.errors import NotFoundError
from ...domain.spans import Ref
from ...domain.streams import split_stream_id
from ..codec import tag_of
from ..store import Store
from .addresses import Reference
from .addresses import reference as parse_reference
from .auditing import Change, Trail
from .chat_audit import chat_changes
from .containers import named_shape
from .entries import Item, full_ref, place_of
from .event_lines import print_events
from .folded_audit import container_changes, memory_changes, window_changes
from .naming import because, joined
from .options import as_json, database, optional_text, reading
from .seeing import Seen, seen, view_of
from .shapes import json_text, plain_item, print_json_list
from .speaking import said_by
from .terminal import cut, is_cut_short, one_line
from .times import exact
from .wording import summary_of

__all__ = ["command"]

CHANGES: dict[str, Callable[[RecordedEvent, Trail], Iterator[Change]]] = {
    "chat": chat_changes,
    "queue": container_changes,
    "pool": container_changes,
    "window": window_changes,
    "memory": memory_changes,
}
LINES_AT_ONCE = 512
# So much of what was before leaves room on the line for what is now.
OLD_WIDTH = 40
# The event itself says it best.
WHOLE_EVENTS = ("opened", "merged")
# What is recorded where nobody gave a reason.
REASONS = {
    "limit": "to make room",
    "room": "to make room",
    "evict": "",
    "truncate": "by truncate",
    "merge": "by merge",
}


@click.command("audit")
@click.argument("reference", metavar="CTX[@V]", callback=parse_reference)
@click.option("--item", metavar="ITEM", callback=optional_text, help="Only what became of this item.")
@database
@as_json
def command(reference: Reference, item: str | None, location: str, as_json: bool) -> None:
    """
    List what became of the items of a context (up to V), oldest first: who changed them when, from what, to what, why.

    + came in, - left, ~ is another now. ITEM is an id or a key, or the @version that `refold show` prints beside an
    item. A fork has the changes since it was forked; those before are its parent's.

    With --json: an array of {position, stream, version, recorded_at, actor, correlation_id, causation, type, item:
    {stream, version, id}, attribute, old, new, reason}. Without attribute old and new are the item, null where it was
    not there; with one they are what was changed of it or, where item is null, of the context.
    """
    with reading(location) as store:
        view = seen(store, reference)
        changes = _changes(view, store)
        if item is not None:
            changes = iter(_of_item(view, changes, item))
        if as_json:
            print_json_list(map(_shape, changes))
        else:
            print_events(((change.recorded, _told(change)) for change in changes), LINES_AT_ONCE)


def _changes(view: Seen, store: Store) -> Iterator[Change]:
    # What a fork begins with came before its own events.
    first = view_of(store, view.stream, "1") if view.version else view
    there = {Ref(entry.recorded.version, entry.recorded.stream): entry.item for entry in first.entries()}
    trail, changes_of = Trail(view.stream, view.items_at, there), CHANGES[split_stream_id(view.stream)[0]]
    for recorded in view.log.read(view.stream, until=view.version):
        yield from changes_of(recorded, trail)


def _of_item(view: Seen, changes: Iterator[Change], name: str) -> list[Change]:
    found = [change for change in changes if name in _names(change, view.stream)]
    if not found:
        raise NotFoundError(f"{view.stream} never had an item {name!r}: `refold audit {view.stream}` lists all changes")
    return found


def _names(change: Change, stream: str) -> tuple[str | None, ...]:
    if change.ref is None:
        return (change.name,)
    ref = full_ref(change.ref, stream)
    return (change.name, place_of(ref, stream), f"{ref.stream}@{ref.version}")


def _shape(change: Change) -> dict[str, Any]:
    recorded, meta = change.recorded, change.recorded.meta
    is_item = change.ref is not None or change.name is not None
    return {
        "position": str(recorded.position),
        "stream": recorded.stream,
        "version": recorded.version,
        "recorded_at": exact(recorded.recorded_at),
        "actor": meta.actor,
        "correlation_id": meta.correlation_id,
        "causation": meta.causation,
        "type": tag_of(recorded.event),
        "item": _item_shape(change) if is_item else None,
        "attribute": change.attribute,
        "old": _plain(change.old),
        "new": _plain(change.new),
        "reason": change.reason,
    }


def _item_shape(change: Change) -> dict[str, Any]:
    if change.ref is None:
        return {"stream": None, "version": None, "id": change.name}
    return named_shape(change.ref, change.recorded.stream, change.name)


def _plain(value: Any) -> Any:
    return plain_item(value) if isinstance(value, Item) else value


def _told(change: Change) -> str:
    """A change on one line: what it is about, why, and what it says or said."""
    why = _why(change)
    if change.attribute in WHOLE_EVENTS:
        return joined([summary_of(change.recorded.event), why])
    about = " ".join(part for part in (_mark(change), _label(change), f"({why})" if why else "") if part)
    old, new = _text(change.old), _text(change.new)
    if change.old is None:
        return one_line(f"{about}: {new}")
    if change.new is None and change.attribute is None:
        return one_line(f"{about}: {old}")
    was = cut(one_line(old), OLD_WIDTH) if is_cut_short() else old
    return one_line(f"{about}: {was} -> {new}")


def _why(change: Change) -> str:
    causation = change.recorded.meta.causation
    reason = REASONS.get(change.reason or "", because(change.reason))
    return one_line(joined([reason, f"follows from {causation.removeprefix('chat:')}" if causation else ""]))


def _mark(change: Change) -> str:
    if change.attribute is not None:
        return ""
    return "+" if change.old is None else "-" if change.new is None else "~"


def _label(change: Change) -> str:
    """An item by its place, in front of it the name that its user gave it; and what of it was changed."""
    stream = change.recorded.stream
    place = "" if change.ref is None else place_of(change.ref, stream)
    name = "" if change.name is None or stream.startswith("chat:") else change.name
    return " ".join(part for part in (name, place, change.attribute or "") if part)


def _text(value: Any) -> str:
    if value is None:
        return "none"
    return said_by(value) if isinstance(value, Item) else value if isinstance(value, str) else json_text(value)
