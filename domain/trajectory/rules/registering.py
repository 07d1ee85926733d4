"""The rules by which queries, nodes and edges come into the graph."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ...canonical import canonical_json, require_unicode
from ...errors import InvalidInputError
from ...spans import Ref
from ..errors import NodeNotFoundError, RunStateError
from ..events import NodeRegistered, QueryRegistered
from ..nodes import COMPUTATION, DATA, node_name, own_fields, require_fields
from ..state.attributes import DESCRIPTION, attributes_of
from ..state.graph import RunGraph
from ..state.parts import QUERY
from .commands import ImportNode, RegisterNode, RegisterQuery

TRIGGERS, CONCLUDES, OUTPUTS = "triggers", "has_conclusion", "outputs"
TRIGGERING = ({"Query"}, {"State"})
CONCLUDING = tuple({name} for name in COMPUTATION)
OUTPUTTING = ({"Action"},)


def edge_type(given: str | None, sources: Iterable[str], target: str) -> str:
    """
    Return the type of the edges from nodes of some types to one of the type `target`: the given one, or the usual.

    Questions or conclusions trigger an action; questions, actions or conclusions have a conclusion; actions output
    data.

    Raises:
        InvalidInputError: none was given, and there is no usual one.
    """
    if given is not None:
        return require_unicode(given, "the edge type")
    types = set(sources)
    if target == "Action" and types in TRIGGERING:
        return TRIGGERS
    if target == "State" and types in CONCLUDING:
        return CONCLUDES
    if target in DATA and types in OUTPUTTING:
        return OUTPUTS
    raise InvalidInputError("No default edge type detected. Please provide an edge type.")


# What every node has beside its fields, and what a name of a field must therefore not be.
RESERVED = ("label", "description", "session_id", "run_id", "created_at", "history", "extra", "node_type")


def require_open(graph: RunGraph) -> None:
    """Raise RunStateError where the run was closed."""
    if graph.state.is_closed:
        raise RunStateError("the run is closed: open another round, or change nodes that are there")


def registered_query(command: RegisterQuery, graph: RunGraph) -> QueryRegistered:
    """
    Return the event that registers a query.

    Raises:
        RunStateError: the run has one, or is closed.
        InvalidInputError: a field that is no JSON, or a label that is taken.
    """
    require_open(graph)
    _require_no_query(graph)
    number = _count(graph, QUERY)
    label = _label(command.label, QUERY, graph)
    description = f"User query No.{number:05}" if command.description is None else command.description
    return QueryRegistered(
        label=label,
        description=require_unicode(description, "the description"),
        fields=stored_fields(command.fields, node_name(QUERY, label)),
        created_at=command.created_at,
    )


def registered(command: RegisterNode, graph: RunGraph) -> NodeRegistered:
    """
    Return the event that registers a node: its edges and the pointers it moves are in it, so all or nothing.

    A data node whose label is taken is met again: it is a new vertex, which has what the last one had but for what
    is given now.

    Raises:
        RunStateError: there is no query yet, or the run is closed.
        InvalidInputError: no such type, no predecessor, a field that is missing or no JSON, a label that is taken,
            no edge type where there is no usual one.
        NodeNotFoundError: a predecessor that is not in the graph.
    """
    require_open(graph)
    if not graph.state.query:
        raise RunStateError("Cannot register other node before registering query node.")
    if command.type == QUERY:
        raise InvalidInputError("A query is registered by register_query.")
    own_fields(command.type)
    sources = _sources(command.predecessors, graph)
    edge = edge_type(command.edge, (graph.type_of(source) for source in sources), command.type)
    description, fields = command.description, command.fields
    known = None
    if command.label is not None and command.type in DATA:
        known = graph.find(node_name(command.type, command.label))
    if known is not None:
        before = attributes_of(graph, known)
        description = description or before.pop(DESCRIPTION)
        before.pop(DESCRIPTION, None)
        fields = {**before, **fields}
    require_fields(command.type, fields)
    label = _label(command.label, command.type, graph)
    left, is_pointer = _moved(command, sources, graph)
    return NodeRegistered(
        type=command.type,
        label=label,
        description=require_unicode(description, "the description"),
        fields=stored_fields(fields, node_name(command.type, label)),
        created_at=command.created_at,
        sources=tuple(sources),
        edge=edge,
        left=left,
        is_pointer=is_pointer,
    )


def imported(command: ImportNode, graph: RunGraph) -> QueryRegistered | NodeRegistered:
    """
    Return the event that registers a node as it was elsewhere. It moves no pointers, and nothing is filled in.

    Raises:
        RunStateError: it is a second query, or the run is closed.
        InvalidInputError: no such type, a field that is missing or no JSON, or a label that is taken.
    """
    require_open(graph)
    require_fields(command.type, command.fields)
    label = _label(command.label, command.type, graph)
    description = require_unicode(command.description, "the description")
    fields = stored_fields(command.fields, node_name(command.type, label))
    if command.type == QUERY:
        _require_no_query(graph)
        return QueryRegistered(label=label, description=description, fields=fields, created_at=command.created_at)
    return NodeRegistered(
        type=command.type,
        label=label,
        description=description,
        fields=fields,
        created_at=command.created_at,
        sources=command.sources,
        edge=command.edge,
    )


def stored_fields(fields: Mapping[str, Any], what: str) -> bytes:
    """
    Return the fields of a node as an event has them; `what` names the node in errors.

    Raises:
        InvalidInputError: a name that every node has for itself, or a value that is no JSON.
    """
    for name, value in fields.items():
        if name in RESERVED:
            raise InvalidInputError(f"{what} cannot have a field {name!r}: that is what every node has")
        canonical_json(value, what=f"the field {name!r} of {what}")
    return canonical_json(dict(fields), what=f"the fields of {what}")


def _require_no_query(graph: RunGraph) -> None:
    if graph.state.query:
        raise RunStateError("Agent cannot have more than one query in one run!")


def _sources(names: Sequence[str], graph: RunGraph) -> list[Ref]:
    if not names:
        raise InvalidInputError("At least one predecessor node is required.")
    sources: dict[Ref, None] = {}
    for name in names:
        found = graph.find(name)
        if found is None:
            raise NodeNotFoundError(f"Cannot find predecessor node {name} on the graph.")
        sources[found] = None
    return list(sources)


def _label(given: str | None, node_type: str, graph: RunGraph) -> str:
    """Return the given label if it is free for a node of this run, or the next number."""
    if given is not None:
        if not isinstance(given, str) or not given:
            raise InvalidInputError(f"a label is a text of at least one character, not {given!r}")
        taken = graph.state.newest.get(node_name(node_type, given))
        if node_type in COMPUTATION and taken and graph.is_there(Ref(taken)):
            raise InvalidInputError("Multiple nodes with same label detected.")
        return require_unicode(given, "the label")
    number = _count(graph, node_type)
    # A label that somebody chose may look like a number.
    while graph.vertices_named(node_type, f"{node_type.lower()}{number:05}"):
        number += 1
    return f"{node_type.lower()}{number:05}"


def _count(graph: RunGraph, node_type: str) -> int:
    """How many nodes of a type there ever were, so that no number comes again, not in later rounds either."""
    return sum(state.counts.get(node_type, 0) for _, state in graph.rounds)


def _moved(command: RegisterNode, sources: Sequence[Ref], graph: RunGraph) -> tuple[tuple[Ref, ...], bool]:
    """Return the pointers that are none any more, and whether the node is one."""
    if command.type in DATA:
        return (), False
    if command.add_pointer:
        return (), True
    left = tuple(source for source in sources if source in graph.state.pointers)
    return left, not command.remove_pointers
