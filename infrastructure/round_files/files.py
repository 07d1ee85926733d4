"""
Writing and reading the two files of a round, in our form and in that of the original projects.

Our files hold more than the originals write. The additional fields have names that the originals' readers ignore, so
that they can read our files too: `label`, `created_at`, `history` and the ids of a node, and `refold` in the graph's
own attributes and beside the pointers.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from ...domain.concurrency.known_types import known
from ...domain.context.description import counted
from ...domain.errors import InvalidInputError, NotFoundError, first_named
from ...domain.messages import kind_of, message_to_dict
from ...domain.trajectory.nodes import COMPUTATION, parse_node_name
from ...domain.trajectory.rounds import RoundChange, RoundNode, RoundRecord, checked_round, export_round
from ...domain.trajectory.rules import RESERVED, edge_type
from ...domain.trajectory.run import Run
from ...domain.trajectory.trajectory import TrajectoryEdge
from ..files import parse_foreign, read_bounded, replace_files

S = TypeVar("S", bound=msgspec.Struct)
FOLDER = ".context"
GRAPH_FILE = re.compile(r"Run(0|[1-9][0-9]*)_Sub(0|[1-9][0-9]*)\.json")
FORMAT = 1
# The only one of the originals' keys for messages that they fill.
MESSAGES = "historical_messages"
# The fields that our nodes have beside their attributes; an attribute with such a name is stored in `extra`.
OWN_KEYS = frozenset(
    ("id", "node_type", "run_id", "sub_id", "user_id", "session_id", "label", "created_at", "history", "extra")
)
# The fields of a round that our graph has in its header.
ROUND_KEYS = ("run_id", "sub_id", "user_id", "session_id", "agent", "version")
NAMES_NOTED_MAX = 3


class RoundPaths(NamedTuple):
    """The file of the graph, and the one beside it."""

    graph: Path
    meta: Path


def round_paths(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> RoundPaths:
    """Return the paths of the two files of a round."""
    folder, name = Path(session_root) / FOLDER, f"Run{run_id}_Sub{sub_id}"
    return RoundPaths(folder / f"{name}.json", folder / f"{name}.meta.json")


def rounds_in(session_root: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """Return the sorted numbers of the rounds and sub-agents that have a graph below a session's folder."""
    folder = Path(session_root) / FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [match for name in names if (match := GRAPH_FILE.fullmatch(name))]
    return sorted((int(match[1]), int(match[2])) for match in found)


class GraphHeader(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The round of a graph, and the version of the run."""

    format: int
    run_id: int
    sub_id: int
    user_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    version: int | None = None


class MetaHeader(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The version of the run to which the pointers belong. If the graph has another one, a write was interrupted."""

    format: int
    version: int | None = None


class RefoldFields(msgspec.Struct, kw_only=True):
    """The fields that our nodes have, and the originals' nodes do not."""

    created_at: float | None = None
    history: list[RoundChange] = msgspec.field(default_factory=list)
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


class ReadRound(msgspec.Struct, frozen=True):
    """A round as its files have it, the file of its graph, and notes about data that is missing or was left out."""

    path: Path
    record: RoundRecord
    notes: tuple[str, ...]


# Writing


def write_round_files(run: Run, session_root: str | os.PathLike[str]) -> RoundPaths:
    """
    Write the two files of a round below its session's folder, and return their paths.

    They hold the round's own nodes and edges with their history, its pointers and its messages. They do not hold its
    changes of earlier rounds, nor steps. Both are replaced, or neither. If the process is killed in between, the new
    graph is beside the old pointers, and reading notes this. To write an earlier state of the round, pass
    `run.at(...)`.

    Raises:
        DecisionRefusedError: a transaction is open on the run.
        OSError: a file could not be written; both are as they were.
    """
    return _write(run, session_root, graph=_graph_form, meta=_meta_form)


def _write(
    run: Run, session_root: str | os.PathLike[str], **forms: Callable[[RoundRecord], dict[str, Any]]
) -> RoundPaths:
    """Write the files of a round that have a form here, by their names in `RoundPaths`."""
    record = export_round(run)
    paths = round_paths(session_root, record.run_id, record.sub_id)
    replace_files({getattr(paths, name): _encoded(form(record)) for name, form in forms.items()})
    return paths


def write_graph_file(run: Run, session_root: str | os.PathLike[str]) -> Path:
    """Write the file of the graph alone; otherwise as `write_round_files`."""
    return _write(run, session_root, graph=_graph_form).graph


def write_meta_file(run: Run, session_root: str | os.PathLike[str]) -> Path:
    """Write the file beside the graph alone; otherwise as `write_round_files`."""
    return _write(run, session_root, meta=_meta_form).meta


def _graph_form(record: RoundRecord) -> dict[str, Any]:
    """Return a round in networkx's node-link form."""
    header = GraphHeader(format=FORMAT, **{key: getattr(record, key) for key in ROUND_KEYS})
    return {
        "directed": True,
        "multigraph": False,
        "graph": {"refold": msgspec.to_builtins(header)},
        "nodes": [_node_form(node, record) for node in record.nodes],
        "edges": _edge_forms(record),
    }


def _meta_form(record: RoundRecord) -> dict[str, Any]:
    """Return the content of the file beside the graph: the query, the pointers, the messages."""
    return {
        "initial_pt": record.initial,
        "current_pt": sorted(record.pointers),
        "messages": {MESSAGES: list(record.messages)} if record.messages else {},
        "refold": msgspec.to_builtins(MetaHeader(format=FORMAT, version=record.version)),
    }


def _node_form(node: RoundNode, record: RoundRecord) -> dict[str, Any]:
    extra = {name: value for name, value in node.attributes.items() if name in OWN_KEYS}
    history = [RoundChange(kind="registered", actor=node.actor), *node.changes]
    return {
        **{name: value for name, value in node.attributes.items() if name not in OWN_KEYS},
        **({"extra": extra} if extra else {}),
        "id": node.name,
        "node_type": node.type,
        "label": node.label,
        "user_id": record.user_id,
        "session_id": record.session_id,
        "run_id": record.run_id,
        "sub_id": record.sub_id,
        "created_at": node.created_at,
        "history": msgspec.to_builtins(history),
    }


def _edge_forms(record: RoundRecord) -> list[dict[str, Any]]:
    """Return the edges in the originals' form: one edge between two nodes, which has the types of all of them."""
    types: dict[tuple[str, str], list[str]] = {}
    for edge in record.edges:
        types.setdefault((edge.source, edge.target), []).append(edge.type)
    return [
        {"source": source, "target": target, "edge_type": held[-1], **({"edge_types": held} if len(held) > 1 else {})}
        for (source, target), held in types.items()
    ]


def _encoded(form: dict[str, Any]) -> bytes:
    return json.dumps(form, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False).encode()


# Reading


def load_meta_from_json(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> dict[str, Any]:
    """Return the content of the file beside the graph of a round; empty where it cannot be read."""
    try:
        held = parse_foreign(read_bounded(round_paths(session_root, run_id, sub_id).meta))
    except (OSError, ValueError, RecursionError):
        return {}
    return held if isinstance(held, dict) else {}


def read_round_files(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> ReadRound:
    """
    Read the two files of a round, of the originals or ours; the second one may be missing.

    Raises:
        NotFoundError: there is no file of the graph.
        InvalidInputError: a file is broken, or holds what no run can hold; the message names it.
    """
    paths = round_paths(session_root, run_id, sub_id)
    if not paths.graph.exists():
        raise NotFoundError(f"there is no file {paths.graph}")
    at = paths.graph
    try:
        # Checked before the pointers are read, so that an error names the file of the graph.
        bare, notes = _read_graph(_parsed(at), run_id, sub_id)
        checked_round(bare)
        if not paths.meta.exists():
            notes.append("there is no file beside the graph: its pointers are the ends of what was done")
            return ReadRound(at, msgspec.structs.replace(bare, pointers=_ends(bare)), tuple(notes))
        at = paths.meta
        record = checked_round(_with_meta(bare, _parsed(at), notes))
        return ReadRound(paths.graph, record, tuple(notes))
    except InvalidInputError as error:
        raise InvalidInputError(f"{at} cannot be read: {error}") from error


def _parsed(path: Path) -> Any:
    try:
        return parse_foreign(read_bounded(path))
    except InvalidInputError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"it is not JSON in UTF-8: {error}") from error


def _read_graph(held: Any, run_id: int, sub_id: int) -> tuple[RoundRecord, list[str]]:
    """
    Return a round without pointers and messages, and notes about nodes of other rounds, which are left out.

    Raises:
        InvalidInputError: it is not a graph in node-link form, or its name is that of another round.
    """
    nodes, edges = _lists(held)
    header = _header(held, run_id, sub_id)
    notes: list[str] = []
    own = [node for node in nodes if node.get("run_id", run_id) == run_id]
    foreign = {str(node.get("id")) for node in nodes if node.get("run_id", run_id) != run_id}
    if foreign:
        if not own:
            raise InvalidInputError(f"it holds no node of round {run_id}, but some of others: its name is wrong")
        left_out = first_named(sorted(foreign), NAMES_NOTED_MAX)
        notes.append(f"left out: {counted(len(foreign), 'node')} of other rounds: {left_out}")
    made = [_plain_node(node, notes) if header is None else _our_node(node) for node in own]
    types = {node.name: node.type for node in made}
    kept = [edge for edge in edges if not {str(edge.get("source")), str(edge.get("target"))} & foreign]
    header = header or GraphHeader(format=FORMAT, run_id=run_id, sub_id=sub_id)
    record = RoundRecord(
        nodes=tuple(made),
        edges=tuple(dict.fromkeys(one for edge in kept for one in _edges(edge, types))),
        pointers=frozenset(),
        **{key: getattr(header, key) for key in ROUND_KEYS},
    )
    return record, list(dict.fromkeys(notes))


def _as_struct(held: Any, kind: type[S], what: str) -> S:
    """
    Return plain data as a Struct; `what` names them in the error.

    Raises:
        InvalidInputError: the data have another form.
    """
    try:
        return msgspec.convert(held, known(kind))
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{what} is of another form: {error}") from error


def _require_known_format(header: GraphHeader | MetaHeader) -> None:
    """Raise InvalidInputError if a later version of Refold wrote the file."""
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
    header = _as_struct(attributes["refold"], GraphHeader, "`graph.refold`")
    _require_known_format(header)
    if (header.run_id, header.sub_id) != (run_id, sub_id):
        raise InvalidInputError(f"it is of round {header.run_id}, sub-agent {header.sub_id}: its name is wrong")
    return header


def _our_node(held: Mapping[str, Any]) -> RoundNode:
    name, node_type, label = _node_names(held)
    part = _as_struct(held, RefoldFields, f"the node {name!r}")
    registered = next((entry for entry in part.history if entry.kind == "registered"), None)
    return RoundNode(
        name=name,
        type=node_type,
        label=label,
        attributes={**{key: value for key, value in held.items() if key not in OWN_KEYS}, **part.extra},
        created_at=part.created_at,
        actor=registered.actor if registered else None,
        changes=tuple(entry for entry in part.history if entry.kind != "registered"),
    )


def _plain_node(held: Mapping[str, Any], notes: list[str]) -> RoundNode:
    name, node_type, label = _node_names(held)
    left = {"id", "node_type", "run_id", *RESERVED} - {"description"}
    lost = [key for key in RESERVED if key in held and key not in ("description", "node_type", "run_id")]
    if lost:
        notes.append(f"attributes that every node has for itself were left out: {', '.join(lost)}")
    attributes = {key: value for key, value in held.items() if key not in left}
    # The originals write null if they could not make a portrait.
    description = "" if attributes.get("description") is None else attributes["description"]
    return RoundNode(name=name, type=node_type, label=label, attributes={**attributes, "description": description})


def _node_names(held: Mapping[str, Any]) -> tuple[str, str, str]:
    name = held.get("id")
    if not isinstance(name, str):
        raise InvalidInputError(f"it holds a node whose id is {name!r}: it is a text `Type(label)`")
    parsed = parse_node_name(name)
    node_type = held.get("node_type", parsed.type)
    if node_type != parsed.type:
        raise InvalidInputError(f"the node {name!r} has the node_type {node_type!r}, which its id does not say")
    return name, parsed.type, parsed.label


def _edges(held: Mapping[str, Any], types: Mapping[str, str]) -> list[TrajectoryEdge]:
    """Return the edges between two nodes; only our files have several."""
    source, target = held.get("source"), held.get("target")
    if not isinstance(source, str) or not isinstance(target, str):
        raise InvalidInputError(f"it holds an edge from {source!r} to {target!r}: both are ids of nodes")
    given = held.get("edge_types", [held.get("edge_type", held.get("relationship"))])
    if not isinstance(given, list):
        raise InvalidInputError(f"the edge from {source!r} to {target!r} has `edge_types` that are no list")
    ends = [types.get(source, "")], types.get(target, "")
    try:
        return [TrajectoryEdge(source, target, edge_type(one, *ends)) for one in given]
    except InvalidInputError as error:
        raise InvalidInputError(f"the edge from {source!r} to {target!r}: {error}") from error


def _ends(record: RoundRecord) -> frozenset[str]:
    """Return the ends of the branches: the computation nodes that lead to no other computation node."""
    computed = {node.name for node in record.nodes if node.type in COMPUTATION}
    return frozenset(computed - {edge.source for edge in record.edges if edge.target in computed})


def _with_meta(bare: RoundRecord, meta: Any, notes: list[str]) -> RoundRecord:
    """Return a round with the pointers and messages of the second file; add notes about data that is left out."""
    if not isinstance(meta, dict):
        raise InvalidInputError("it is no object with `initial_pt`, `current_pt` and `messages`")
    notes += _notes_of_header(bare, meta)
    pointers = _pointers(meta, {node.name for node in bare.nodes}, notes)
    if meta.get("initial_pt") not in (None, bare.initial):
        notes.append(f"the query is {bare.initial!r}, and not {meta['initial_pt']!r}, as `initial_pt` has it")
    messages = tuple(_messages(meta.get("messages"), notes))
    known = _ends(bare) if pointers is None else frozenset(pointers)
    return msgspec.structs.replace(bare, pointers=known, messages=messages)


def _notes_of_header(bare: RoundRecord, meta: dict[str, Any]) -> list[str]:
    if "refold" not in meta:
        return []
    header = _as_struct(meta["refold"], MetaHeader, "`refold`")
    _require_known_format(header)
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
