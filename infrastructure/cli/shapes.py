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

from ...domain.chat.events import ChatItemEvent
from ...domain.log.envelope import RecordedEvent
from ...projections.catalogue import CatalogueRow
from ..plain_data import plain_fields, plain_item
from ..times import exact
from .render import UNSAFE, Entry

Shape = dict[str, Any]
INDENT = 2


def context_shape(row: CatalogueRow) -> Shape:
    """Return a context of the list: who opened it, how long it is, who changed it when."""
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


def event_shape(recorded: RecordedEvent) -> Shape:
    """Return an event with its envelope; `type` is its stored tag, `event` has its fields, defaults left out."""
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


def json_text(value: Any, *, indent: int = 0) -> str:
    """Return `value` as JSON whose text cannot steer a terminal: such characters are written by their number."""
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
    """Print one value over several lines."""
    click.echo(json_text(value, indent=INDENT))


def print_json_list(values: Iterable[Any]) -> None:
    """Print an array, one entry a line, each as soon as it is there."""
    opening = "["
    for value in values:
        click.echo(f"{opening}\n{json_text(value)}", nl=False)
        opening = ","
    click.echo("[]" if opening == "[" else "\n]")
