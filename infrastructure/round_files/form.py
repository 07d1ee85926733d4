"""
The form of the two files: what the originals write, and beside it what they lose.

What the originals do not write lies under names that their readers pass over, so that these files can be read by
them too: `label`, `created_at`, `history` and the ids of a node, and `refold` in the graph's own attributes and
beside the pointers.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from ...domain.trajectory import Run
from ...domain.trajectory.rounds import RoundChange, RoundNode, RoundRecord, told_round
from ..files import replace_files

FOLDER = ".context"
GRAPH_FILE = re.compile(r"Run(0|[1-9][0-9]*)_Sub(0|[1-9][0-9]*)\.json")


class RoundPaths(NamedTuple):
    """The file of the graph, and the one beside it."""

    graph: Path
    meta: Path


def round_paths(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> RoundPaths:
    """Return where the two files of a round lie."""
    folder, name = Path(session_root) / FOLDER, f"Run{run_id}_Sub{sub_id}"
    return RoundPaths(folder / f"{name}.json", folder / f"{name}.meta.json")


def rounds_in(session_root: str | os.PathLike[str]) -> list[tuple[int, int]]:
    """Return the numbers of the rounds and sub-agents that have a graph below a session's folder, in their order."""
    folder = Path(session_root) / FOLDER
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [match for name in names if (match := GRAPH_FILE.fullmatch(name))]
    return sorted((int(match[1]), int(match[2])) for match in found)


FORMAT = 1
# The one of the originals' keys of messages that holds any.
MESSAGES = "historical_messages"
# What a node of ours has beside its attributes; an attribute that bears one of these names lies in `extra`.
OWN_KEYS = frozenset(
    ("id", "node_type", "run_id", "sub_id", "user_id", "session_id", "label", "created_at", "history", "extra")
)


class GraphHeader(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Whose graph it is, and of which version of the run."""

    format: int
    run_id: int
    sub_id: int
    user_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    version: int | None = None


class MetaHeader(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The version of the run that the pointers belong to. If it differs from the graph's, a write broke off."""

    format: int
    version: int | None = None


class HistoryEntry(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A change of a node: the actor, the time in seconds since 1970, and the old values of changed attributes."""

    kind: Literal["registered", "changed", "portrait"]
    actor: str | None = None
    at: float | None = None
    old: dict[str, Any] = msgspec.field(default_factory=dict)
    model: str | None = None


class OwnPart(msgspec.Struct, kw_only=True):
    """The fields that our nodes have and the original ones have not."""

    created_at: float | None = None
    history: list[HistoryEntry] = msgspec.field(default_factory=list)
    extra: dict[str, Any] = msgspec.field(default_factory=dict)


def graph_form(record: RoundRecord) -> dict[str, Any]:
    """Return a round in networkx's node-link form."""
    header = GraphHeader(
        format=FORMAT,
        run_id=record.run_id,
        sub_id=record.sub_id,
        user_id=record.user_id,
        session_id=record.session_id,
        agent=record.agent,
        version=record.version,
    )
    return {
        "directed": True,
        "multigraph": False,
        "graph": {"refold": msgspec.to_builtins(header)},
        "nodes": [_node_form(node, record) for node in record.nodes],
        "edges": _edge_forms(record),
    }


def meta_form(record: RoundRecord) -> dict[str, Any]:
    """Return what lies beside a round's graph: its query, its pointers, its messages."""
    return {
        "initial_pt": record.initial,
        "current_pt": sorted(record.pointers),
        "messages": {MESSAGES: list(record.messages)} if record.messages else {},
        "refold": msgspec.to_builtins(MetaHeader(format=FORMAT, version=record.version)),
    }


def _node_form(node: RoundNode, record: RoundRecord) -> dict[str, Any]:
    extra = {name: value for name, value in node.attributes.items() if name in OWN_KEYS}
    history = [HistoryEntry(kind="registered", actor=node.actor), *map(_entry, node.changes)]
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
    """Return the edges, of which the originals know one between two nodes; where there are more it has all types."""
    types: dict[tuple[str, str], list[str]] = {}
    for edge in record.edges:
        types.setdefault((edge.source, edge.target), []).append(edge.type)
    return [
        {"source": source, "target": target, "edge_type": held[-1], **({"edge_types": held} if len(held) > 1 else {})}
        for (source, target), held in types.items()
    ]


def _entry(change: RoundChange) -> HistoryEntry:
    kind: Literal["changed", "portrait"] = "portrait" if change.is_portrait else "changed"
    return HistoryEntry(kind=kind, actor=change.actor, at=change.at, old=change.old, model=change.model)


def write_round_files(run: Run, session_root: str | os.PathLike[str]) -> RoundPaths:
    """
    Write the two files of a round below its session's folder, and return where they lie.

    They hold the round's own nodes and edges with their history, its pointers and its messages; not what it changed
    in earlier rounds, nor steps. Both are replaced, or neither; a process that is killed in between leaves the new
    graph beside the old pointers, which reading tells. `run.at(...)` writes the round as it was.

    Raises:
        DecisionRefusedError: a transaction is open on the run.
        OSError: a file could not be written; both are as they were.
    """
    record = told_round(run)
    paths = round_paths(session_root, record.run_id, record.sub_id)
    replace_files({paths.graph: _encoded(graph_form(record)), paths.meta: _encoded(meta_form(record))})
    return paths


def _encoded(form: dict[str, Any]) -> bytes:
    return json.dumps(form, indent=2, ensure_ascii=False, sort_keys=True, allow_nan=False).encode()
