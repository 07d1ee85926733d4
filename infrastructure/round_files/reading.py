"""Reading the files of a round, ours and the originals'."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import msgspec

from ...domain.errors import InvalidInputError, NotFoundError
from ...domain.messages import message_to_dict
from ...domain.messages.reading import kind_of
from ...domain.trajectory.nodes import COMPUTATION
from ...domain.trajectory.rounds import RoundEdge, RoundNode, RoundRecord, checked_round
from ..foreign_json import parse_foreign, read_bounded
from .form import MESSAGES, MetaHeader
from .graph_reading import GraphPart, as_struct, graph_part, require_known_format
from .paths import round_paths


class ReadRound(msgspec.Struct, frozen=True):
    """A round as its files have it, the file of its graph, and sentences about what was left out or is missing."""

    path: Path
    record: RoundRecord
    notes: tuple[str, ...]


def load_meta_from_json(session_root: str | os.PathLike[str], run_id: int, sub_id: int = 0) -> dict[str, Any]:
    """Return what lies beside the graph of a round; empty where there is nothing that can be read (SPEC D13.6)."""
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
