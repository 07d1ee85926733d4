"""
What `--json` prints: these shapes are stable. A field may be added; none changes its meaning or goes away.

Times are UTC with microseconds, positions are text (compare them with nothing but themselves), what is not known
is null.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

import click
import msgspec

from ...domain.canonical import parse_json
from ...domain.chat.events import ChatItemEvent
from ...domain.chat.seed_dict import items_to_dict
from ...domain.chat.views import item_of
from ...domain.content import Content, plain_content
from ...domain.envelope import RecordedEvent
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent
from ...domain.spans import Ref, Span
from ...domain.window.events import WindowItemEvent
from ...projections.catalogue import CatalogueRow
from .entries import Entry, Item
from .terminal import UNSAFE
from .times import exact

__all__ = [
    "context_shape",
    "event_shape",
    "item_shape",
    "json_text",
    "plain_fields",
    "plain_item",
    "print_json",
    "print_json_list",
]

Shape = dict[str, Any]
INDENT = 2


def context_shape(row: CatalogueRow) -> Shape:
    """
    Return a context of the list: who opened it, how long it is, who changed it when.
    """
    return {
        "id": row.id,
        "kind": row.kind,
        "version": row.version,
        "items": row.items,
        "turns": row.turns,
        "tokens": row.tokens,
        "user": row.user or None,
        "session": row.session or None,
        "agent": row.agent or None,
        "source": row.source or None,
        "parent": row.parent or None,
        "opened_at": exact(row.opened_at),
        "changed_at": exact(row.changed_at),
        "changed_by": row.changed_by or None,
    }


def item_shape(entry: Entry) -> Shape:
    """
    Return an item with the place where it was added: another stream than the shown one where it came by a fork or a
    merge.
    """
    recorded = entry.recorded
    return {
        "version": recorded.version,
        "stream": recorded.stream,
        "position": str(recorded.position),
        "recorded_at": exact(recorded.recorded_at),
        "actor": recorded.meta.actor,
        # Only a chat knows pins.
        **({"pinned": entry.is_pinned} if isinstance(entry.item, ChatItemEvent) else {}),
        "item": plain_item(entry.item),
    }


def plain_item(item: Item) -> Shape:
    """
    Return an item as plain data: one of a chat as `ChatContext.to_dict()` has it; contents and values as the JSON they
    are, beside the class they are of.
    """
    match item:
        case AddedEvent():
            return {"id": item.id, "description": item.description, **_content_shape("content", item.content)}
        case WindowItemEvent():
            return {"key": item.key, "value": item.value, "source": item.source, "priority": item.priority}
        case MemoryRemembered():
            times = {"timestamp": exact(item.first_at), "updated_at": exact(item.at)}
            about = {"kind": item.kind, "tags": list(item.tags)}
            return {"key": item.key, **_content_shape("value", item.value), **about, **times}
        case _:
            plain: Shape = items_to_dict([item_of(item)])["items"][0]
            return plain


def _content_shape(name: str, content: Content) -> Shape:
    return {name: plain_content(content), f"{name}_type": content.type or None}


def event_shape(recorded: RecordedEvent) -> Shape:
    """
    Return an event with its envelope; `type` is its stored tag, `event` has its fields, defaults left out.
    """
    meta = recorded.meta
    return {
        "position": str(recorded.position),
        "stream": recorded.stream,
        "version": recorded.version,
        "recorded_at": exact(recorded.recorded_at),
        "actor": meta.actor,
        "correlation_id": meta.correlation_id,
        "causation": meta.causation,
        "idempotency_key": meta.idempotency_key,
        "type": str(recorded.event.__struct_config__.tag),
        "event": plain_fields(recorded.event, recorded.stream),
        "digest": recorded.digest.hex(),
    }


def plain_fields(event: Any, stream: str = "") -> Shape:
    """
    Return an event of `stream` as plain data, without the fields that have their default.

    Items are named by the stream and version that brought them: `versions` are ranges, both ends included.
    """
    pairs = ((field, getattr(event, field.name)) for field in msgspec.structs.fields(event))
    return {field.name: _plain(value, stream) for field, value in pairs if value != field.default}


def _plain(value: Any, stream: str) -> Any:
    if isinstance(value, Span):
        versions = [[run.start, run[-1]] for run in value.ranges()]
        return {"stream": value.stream or stream, "versions": versions}
    if isinstance(value, Ref):
        return {"stream": value.stream or stream, "version": value.version}
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        # An item within an event is one of several types.
        return {**({"type": str(tag)} if tag else {}), **plain_fields(value, stream)}
    if isinstance(value, bytes):
        # Bytes in events are open JSON in its canonical form.
        return parse_json(value)
    if isinstance(value, tuple | list):
        return [_plain(inner, stream) for inner in value]
    return value


def json_text(value: Any, *, indent: int = 0) -> str:
    """
    Return `value` as JSON whose text cannot steer a terminal: such characters are written by their number.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent or None)
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    return (UNSAFE_IN_JSON if is_unicode else NOT_ASCII).sub(_numbered, text)


# The line breaks of the JSON itself stay.
UNSAFE_IN_JSON = re.compile(UNSAFE.pattern)
NOT_ASCII = re.compile("[^\x00-\x7e]")


def _numbered(found: re.Match[str]) -> str:
    units = found.group().encode("utf-16-be")
    return "".join(f"\\u{units[index]:02x}{units[index + 1]:02x}" for index in range(0, len(units), 2))


def print_json(value: Any) -> None:
    """
    Print one value over several lines.
    """
    click.echo(json_text(value, indent=INDENT))


def print_json_list(values: Iterable[Any]) -> None:
    """
    Print an array, one entry a line, each as soon as it is there.
    """
    opening = "["
    for value in values:
        click.echo(f"{opening}\n{json_text(value)}", nl=False)
        opening = ","
    click.echo("[]" if opening == "[" else "\n]")
