"""The texts within JSON values, and within the events of runs that hold them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import chain
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

RUN_EVENTS = (QueryRegistered, NodeRegistered, NodeChanged, PortraitWritten, MessageRecorded)


def leaves_of(value: Any) -> list[str]:
    """Return the texts, numbers and keys that a JSON value is made of, in their order."""
    leaves: list[str] = []
    add = leaves.append
    # A value may be nested deeper than calls may be. One loop goes through all texts that stand side by side.
    pending: list[Iterator[Any]] = [iter((value,))]
    while pending:
        for inner in pending[-1]:
            if isinstance(inner, str):
                add(inner)
            elif isinstance(inner, dict):
                pending.append(chain.from_iterable(inner.items()))
                break
            elif isinstance(inner, list):
                pending.append(iter(inner))
                break
            else:
                add("null" if inner is None else json.dumps(inner))
        else:
            pending.pop()
    return leaves


class RunTexts(NamedTuple):
    """The texts of an event, and their name: the label of the node that it registered, or the id of its message."""

    name: str
    texts: tuple[str, ...]


def texts_of_run_event(event: NodeEvent | NodeChanged | PortraitWritten | MessageRecorded) -> RunTexts:
    """Return the texts of an event; of a change, the new texts."""
    match event:
        case NodeEvent(label=label, description=description, fields=fields):
            # Names of fields are left out: all nodes of a type share them, so a search would find all these nodes.
            return RunTexts(label, (label, description, *map(_text_of, parse_json(fields).values())))
        case NodeChanged(changes=changes):
            return RunTexts("", tuple(_text_of(parse_json(one.new)) for one in changes))
        case PortraitWritten(description=description):
            return RunTexts("", (description,))
    record = parse_json(event.record)
    return RunTexts(record.get("id") or "", tuple(_texts_in(record.get("content"))))


def _texts_in(content: Any) -> Iterator[str]:
    """Yield the texts of a message's content; its other parts, such as images, are skipped."""
    for part in content if isinstance(content, list) else [content]:
        text = part.get("text") if isinstance(part, dict) else part
        if isinstance(text, str):
            yield text


def _text_of(value: Any) -> str:
    # A boolean, such as the success of an action, is not text.
    return "" if value is None or isinstance(value, bool) else "\n".join(leaves_of(value))
