"""From the file of a graph to its nodes and edges, whether we wrote it or an original did (SPEC D13.3, D13.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ...domain.errors import InvalidInputError
from ...domain.trajectory.naming import parse_node_name
from ...domain.trajectory.rounds import RoundChange, RoundEdge, RoundNode
from ...domain.trajectory.rules.registering import RESERVED, edge_type
from .form import FORMAT, OWN_KEYS, GraphHeader, MetaHeader, OwnPart

S = TypeVar("S", bound=msgspec.Struct)
NAMES_TOLD_MAX = 3


class GraphPart(msgspec.Struct):
    """What a graph's file holds of a round, and what had to be left out."""

    nodes: list[RoundNode]
    edges: list[RoundEdge]
    header: GraphHeader
    notes: list[str]


def graph_part(held: Any, run_id: int, sub_id: int) -> GraphPart:
    """
    Return the nodes and edges of a round; those of other rounds are left out, and told.

    Raises:
        InvalidInputError: it is no graph in node-link form, or of another round than its name says.
    """
    nodes, edges = _lists(held)
    header = _header(held, run_id, sub_id)
    is_ours = header is not None
    notes: list[str] = []
    own = [node for node in nodes if node.get("run_id", run_id) == run_id]
    foreign = {str(node.get("id")) for node in nodes if node.get("run_id", run_id) != run_id}
    if foreign:
        if not own:
            raise InvalidInputError(f"it holds no node of round {run_id}, but some of others: its name is wrong")
        notes.append(f"{len(foreign)} nodes of other rounds were left out: {_told(foreign)}")
    made = [_our_node(node) if is_ours else _plain_node(node, notes) for node in own]
    types = {node.name: node.type for node in made}
    kept = [edge for edge in edges if not {str(edge.get("source")), str(edge.get("target"))} & foreign]
    return GraphPart(
        nodes=made,
        edges=[made for edge in kept for made in _edges(edge, types)],
        header=header or GraphHeader(format=FORMAT, run_id=run_id, sub_id=sub_id),
        notes=list(dict.fromkeys(notes)),
    )


def as_struct(held: Any, kind: type[S], what: str) -> S:
    """
    Return plain data as a Struct; `what` names them in the error.

    Raises:
        InvalidInputError: they are of another form.
    """
    try:
        return msgspec.convert(held, kind)
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} is of another form: {error}") from error


def require_known_format(header: GraphHeader | MetaHeader) -> None:
    """Raise InvalidInputError where a later version of Refold wrote the file."""
    if header.format > FORMAT:
        raise InvalidInputError(f"it has the format {header.format}, and this version of Refold knows 1 to {FORMAT}")


def _lists(held: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    if not isinstance(held, dict) or held.get("directed", True) is not True:
        raise InvalidInputError("it is no directed graph in node-link form: an object with `nodes` and `edges`")
    return _list(held, "nodes"), _list(held, "edges" if "edges" in held else "links")


def _list(held: Mapping[str, Any], key: str) -> list[dict[str, Any]]:
    found = held.get(key)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InvalidInputError(f"it is no graph in node-link form: `{key}` is no list of objects")
    return found


def _header(held: Mapping[str, Any], run_id: int, sub_id: int) -> GraphHeader | None:
    attributes = held.get("graph")
    if not isinstance(attributes, dict) or "refold" not in attributes:
        return None
    header = as_struct(attributes["refold"], GraphHeader, "`graph.refold`")
    require_known_format(header)
    if (header.run_id, header.sub_id) != (run_id, sub_id):
        raise InvalidInputError(f"it is of round {header.run_id}, sub-agent {header.sub_id}: its name is wrong")
    return header


def _our_node(held: Mapping[str, Any]) -> RoundNode:
    name, node_type, label = _named(held)
    part = as_struct(held, OwnPart, f"the node {name!r}")
    registered = next((entry for entry in part.history if entry.kind == "registered"), None)
    return RoundNode(
        name=name,
        type=node_type,
        label=label,
        attributes={**{key: value for key, value in held.items() if key not in OWN_KEYS}, **part.extra},
        created_at=part.created_at,
        actor=registered.actor if registered else None,
        changes=tuple(
            RoundChange(
                old=entry.old,
                actor=entry.actor,
                at=entry.at,
                is_portrait=entry.kind == "portrait",
                model=entry.model,
            )
            for entry in part.history
            if entry.kind != "registered"
        ),
    )


def _plain_node(held: Mapping[str, Any], notes: list[str]) -> RoundNode:
    name, node_type, label = _named(held)
    left = {"id", "node_type", "run_id", *RESERVED} - {"description"}
    lost = [key for key in RESERVED if key in held and key not in ("description", "node_type", "run_id")]
    if lost:
        notes.append(f"attributes that every node has for itself were left out: {', '.join(lost)}")
    attributes = {key: value for key, value in held.items() if key not in left}
    # The originals write null where a portrait went wrong (SPEC D10.7).
    description = "" if attributes.get("description") is None else attributes["description"]
    return RoundNode(name=name, type=node_type, label=label, attributes={**attributes, "description": description})


def _named(held: Mapping[str, Any]) -> tuple[str, str, str]:
    name = held.get("id")
    if not isinstance(name, str):
        raise InvalidInputError(f"it holds a node whose id is {name!r}: it is a text `Type(label)`")
    parsed = parse_node_name(name)
    node_type = held.get("node_type", parsed.type)
    if node_type != parsed.type:
        raise InvalidInputError(f"the node {name!r} has the node_type {node_type!r}, which its id does not say")
    return name, parsed.type, parsed.label


def _edges(held: Mapping[str, Any], types: Mapping[str, str]) -> list[RoundEdge]:
    """Return the edge, or the several of ours, between two nodes."""
    source, target = held.get("source"), held.get("target")
    if not isinstance(source, str) or not isinstance(target, str):
        raise InvalidInputError(f"it holds an edge from {source!r} to {target!r}: both are ids of nodes")
    given = held.get("edge_types", [held.get("edge_type", held.get("relationship"))])
    if not isinstance(given, list):
        raise InvalidInputError(f"the edge from {source!r} to {target!r} has `edge_types` that are no list")
    ends = [types.get(source, "")], types.get(target, "")
    try:
        return [RoundEdge(source, target, edge_type(one, *ends)) for one in given]
    except InvalidInputError as error:
        raise InvalidInputError(f"the edge from {source!r} to {target!r}: {error}") from error


def _told(names: set[str]) -> str:
    first = sorted(names)[:NAMES_TOLD_MAX]
    return ", ".join(first) + (", ..." if len(names) > len(first) else "")
