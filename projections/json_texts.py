"""The texts that a JSON value is made of."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from ..domain.canonical import parse_json
from ..domain.trajectory.events import (
    MessageRecorded,
    NodeChanged,
    NodeEvent,
    NodeRegistered,
    PortraitWritten,
    QueryRegistered,
)


def leaves_of(value: Any) -> Iterator[str]:
    """Yield the texts, numbers and keys that a JSON value is made of, in their order."""
    pending = [value]
    while pending:
        value = pending.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            for key, inner in reversed(value.items()):
                pending += (inner, key)
        elif isinstance(value, list):
            pending += reversed(value)
        else:
            yield json.dumps(value)


TOLD_EVENTS = (QueryRegistered, NodeRegistered, NodeChanged, PortraitWritten, MessageRecorded)


class Told(NamedTuple):
    """Return the texts of an event: the label of the node that it registered, or the id of a message, and its texts."""

    name: str
    texts: tuple[str, ...]


def told_in(event: NodeEvent | NodeChanged | PortraitWritten | MessageRecorded) -> Told:
    """Return what an event says; what a change says is what is new."""
    match event:
        case NodeEvent(label=label, description=description, fields=fields):
            # The names of fields are those of the type, and would find every node of it.
            return Told(label, (label, description, *map(_text_of, parse_json(fields).values())))
        case NodeChanged(changes=changes):
            return Told("", tuple(_text_of(parse_json(one.new)) for one in changes))
        case PortraitWritten(description=description):
            return Told("", (description,))
    record = parse_json(event.record)
    return Told(record.get("id") or "", tuple(_texts_in(record.get("content"))))


def _texts_in(content: Any) -> Iterator[str]:
    """The texts of a message's content; its other parts are pictures and the like."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


def _text_of(value: Any) -> str:
    # That an action succeeded is nothing that was said.
    return "" if value is None or isinstance(value, bool) else "\n".join(leaves_of(value))
