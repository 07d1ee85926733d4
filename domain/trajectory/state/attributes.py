"""The attributes of a node: its description, the fields of its type, and others; as they are, and as they were."""

from __future__ import annotations

from typing import Any

from ...canonical import parse_json
from ...spans import Ref
from .graph import RunGraph

DESCRIPTION = "description"


def attributes_of(graph: RunGraph, ref: Ref) -> dict[str, Any]:
    """Return the attributes of a vertex by name, the description first."""
    event = graph.event(ref)
    attributes = {DESCRIPTION: event.description, **parse_json(event.fields)}
    for _, change in graph.changes_of(ref):
        attributes.update((one.name, parse_json(one.new)) for one in change.changes)
    return attributes


def description_of(graph: RunGraph, ref: Ref) -> Any:
    """Return the description of a vertex, without a look at its fields, which may be long."""
    changes = (one for _, change in reversed(graph.changes_of(ref)) for one in reversed(change.changes))
    newest = next((one for one in changes if one.name == DESCRIPTION), None)
    return graph.event(ref).description if newest is None else parse_json(newest.new)


def old_values(graph: RunGraph, ref: Ref) -> dict[int, dict[str, Any]]:
    """Return what the changed attributes had before each change, by number from 0."""
    changes = graph.changes_of(ref)
    return {
        number: {one.name: parse_json(one.old) for one in change.changes} for number, (_, change) in enumerate(changes)
    }
