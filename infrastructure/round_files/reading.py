"""Reading the files of a round, ours and the originals'."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.messages import kind_of, message_to_dict
from ...domain.trajectory.nodes import COMPUTATION, parse_node_name
from ...domain.trajectory.rounds import RoundChange, RoundEdge, RoundNode, RoundRecord, checked_round
from ...domain.trajectory.rules import RESERVED, edge_type
from ..files import parse_foreign, read_bounded
from .form import FORMAT, MESSAGES, OWN_KEYS, GraphHeader, MetaHeader, OwnPart, round_paths

S = TypeVar("S", bound=msgspec.Struct)
NAMES_TOLD_MAX = 3


class GraphPart(msgspec.Struct):
    """The content of a graph's file, and notes of what had to be left out."""

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
    # The originals write null where a portrait went wrong.
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


class ReadRound(msgspec.Struct, frozen=True):
    """A round as its files have it, the file of its graph, and sentences about what was left out or is missing."""

    path: Path
    record: RoundRecord
    notes: tuple[str, ...]


def load_meta_from_json(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> dict[str, Any]:
    """Return what lies beside the graph of a round; empty where there is nothing that can be read."""
    try:
        held = parse_foreign(read_bounded(round_paths(session_root, run_id, sub_id).meta))
    except (OSError, ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def read_round_files(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> ReadRound:
    """
    Read the two files of a round, which the originals or we have written; the second one may be missing.

    Raises:
        NotFoundError: there is no file of the graph.
        InvalidInputError: a file is broken, or says what no run can hold; the message names it.
    """
    paths = round_paths(session_root, run_id, sub_id)
    if not paths.graph.exists():
        raise NotFoundError(f"there is no file {paths.graph}")
    at = paths.graph
    try:
        part = graph_part(_parsed(at), run_id, sub_id)
        # Before the pointers are looked at: what is wrong with the graph is no fault of theirs.
        bare = checked_round(_record(part, run_id, sub_id))
        if not paths.meta.exists():
            note = "there is no file beside the graph: its pointers are the ends of what was done"
            return ReadRound(at, msgspec.structs.replace(bare, pointers=_ends(part)), (*part.notes, note))
        at = paths.meta
        record, notes = _with_meta(bare, part, _parsed(at))
        return ReadRound(paths.graph, checked_round(record), (*part.notes, *notes))
    except InvalidInputError as error:
        raise InvalidInputError(f"{at} cannot be read: {error}") from error


def _parsed(path: Path) -> Any:
    try:
        return parse_foreign(read_bounded(path))
    except InvalidInputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"it is not JSON in UTF-8: {error}") from error


def _record(part: GraphPart, run_id: int, sub_id: int) -> RoundRecord:
    header = part.header
    return RoundRecord(
        run_id=run_id,
        sub_id=sub_id,
        nodes=tuple(part.nodes),
        edges=tuple(dict.fromkeys(part.edges)),
        pointers=frozenset(),
        user_id=header.user_id,
        session_id=header.session_id,
        agent=header.agent,
        version=header.version,
    )


def _ends(part: GraphPart) -> frozenset[str]:
    """Return where the branches end: what was computed, and led to nothing that was."""
    return frozenset(_computed(part.nodes) - _sources_of_computed(part.nodes, part.edges))


def _computed(nodes: Iterable[RoundNode]) -> set[str]:
    return {node.name for node in nodes if node.type in COMPUTATION}


def _sources_of_computed(nodes: Iterable[RoundNode], edges: Iterable[RoundEdge]) -> set[str]:
    computed = _computed(nodes)
    return {edge.source for edge in edges if edge.target in computed}


def _with_meta(bare: RoundRecord, part: GraphPart, meta: Any) -> tuple[RoundRecord, list[str]]:
    if not isinstance(meta, dict):
        raise InvalidInputError("it is no object with `initial_pt`, `current_pt` and `messages`")
    notes = _notes_of_header(bare, meta)
    names = {node.name for node in bare.nodes}
    pointers = _pointers(meta, names, notes)
    if meta.get("initial_pt") not in (None, bare.initial):
        notes.append(f"the query is {bare.initial!r}, and not {meta['initial_pt']!r}, as `initial_pt` has it")
    messages = tuple(_messages(meta.get("messages"), notes))
    known = _ends(part) if pointers is None else frozenset(pointers)
    return msgspec.structs.replace(bare, pointers=known, messages=messages), notes


def _notes_of_header(bare: RoundRecord, meta: dict[str, Any]) -> list[str]:
    if "refold" not in meta:
        return []
    header = as_struct(meta["refold"], MetaHeader, "`refold`")
    require_known_format(header)
    if header.version == bare.version:
        return []
    return [
        f"the pointers and messages are of version {header.version} of the run, and the graph of version "
        f"{bare.version}: writing broke off, so write both files again"
    ]


def _pointers(meta: dict[str, Any], names: Collection[str], notes: list[str]) -> list[str] | None:
    given = meta.get("current_pt")
    if given is None:
        return None
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise InvalidInputError("`current_pt` is no list of names")
    notes += [f"the pointer {name!r} was left out: there is no such node" for name in given if name not in names]
    return [name for name in given if name in names]


def _messages(held: Any, notes: list[str]) -> Iterable[dict[str, Any]]:
    records = held.get(MESSAGES, []) if isinstance(held, dict) else held or []
    if not isinstance(records, list):
        raise InvalidInputError(f"`messages` is no object with a list of `{MESSAGES}`")
    if isinstance(held, dict):
        notes += [f"{key!r} was left out: it holds no messages" for key in held if key != MESSAGES and held[key]]
    for index, record in enumerate(records):
        if not isinstance(record, dict) or kind_of(record) is None:
            notes.append(f"message {index} was left out: it is a record of no known type")
            continue
        try:
            yield message_to_dict(record)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidInputError(f"message {index} is no record of a message: {error}") from error
