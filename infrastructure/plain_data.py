"""Events and items as plain data, for JSON that people and other programs read."""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from ..domain.canonical import parse_json
from ..domain.chat.items import items_to_dict
from ..domain.chat.views import item_of
from ..domain.content import Content, plain_content
from ..domain.memory.events import MemoryRemembered
from ..domain.pool.events import AddedEvent
from ..domain.spans import Ref, Span
from ..domain.window.events import WindowItemEvent
from .queries.origins import Item
from .times import exact


def plain_fields(event: Any, stream: str = "") -> dict[str, Any]:
    """
    Return an event of `stream` as plain data, without the fields that have their default.

    Items are named by the stream and version that added them: `versions` are ranges, both ends included.
    """
    named = ((name, getattr(event, name), default, is_binary) for name, default, is_binary in _fields(event.__class__))
    return {
        name: value.hex() if is_binary else _plain(value, stream)
        for name, value, default, is_binary in named
        if value != default
    }


@cache
def _fields(event_type: Any) -> tuple[tuple[str, Any, bool], ...]:
    """
    Return the fields of an event type, each with its default, and whether it has bytes that are no JSON.

    Cached, because reading them takes longer than all else.
    """
    fields = msgspec.structs.fields(event_type)
    return tuple((field.name, field.default, field.type is bytes) for field in fields)


def _plain(value: Any, stream: str) -> Any:
    if isinstance(value, Span):
        versions = [[run.start, run[-1]] for run in value.ranges()]
        return {"stream": value.stream or stream, "versions": versions}
    if isinstance(value, Ref):
        return {"stream": value.stream or stream, "version": value.version}
    if isinstance(value, msgspec.Struct):
        tag = value.__struct_config__.tag
        # An item in an event is one of several types.
        return {**({"type": str(tag)} if tag else {}), **plain_fields(value, stream)}
    if isinstance(value, bytes):
        # Bytes whose field says more of them are canonical JSON of any form.
        return parse_json(value)
    if isinstance(value, tuple | list):
        return [_plain(inner, stream) for inner in value]
    return value


def plain_item(item: Item) -> dict[str, Any]:
    """
    Return an item as plain data. An item of a chat is as in `ChatContext.to_dict()`; contents and values are their
    JSON, next to the name of their class.
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
            plain: dict[str, Any] = items_to_dict([item_of(item)])["items"][0]
            return plain


def _content_shape(name: str, content: Content) -> dict[str, Any]:
    return {name: plain_content(content), f"{name}_type": content.type or None}
