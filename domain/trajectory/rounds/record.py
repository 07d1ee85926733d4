"""
One round of one agent as a value: its own nodes, the edges between them, its pointers and messages.

Nodes are named by the round alone: `Type(label)` is the newest of that name in it, `Type(label)#1` the oldest of
several. What an earlier round has, and bridges between rounds, are not in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ...canonical import canonical_json, parse_json
from ...errors import DecisionRefusedError
from ...log.envelope import RecordedEvent
from ...spans import Ref
from ..events import PortraitWritten
from ..history import made_at
from ..nodes import node_name
from ..run import Run
from ..state.attributes import attributes_of, old_values
from ..state.graph import RunGraph


class RoundChange(msgspec.Struct, frozen=True, kw_only=True):
    """
    What attributes had before a change, and who made it, when (in seconds since 1970); None where that is not known.

    `is_portrait` says that a model, `model`, made it.
    """

    old: dict[str, Any]
    actor: str | None = None
    at: float | None = None
    is_portrait: bool = False
    model: str | None = None


class RoundNode(msgspec.Struct, frozen=True, kw_only=True):
    """A node with its attributes as they are now, the description among them, and the changes that led there."""

    name: str
    type: str
    label: str
    attributes: dict[str, Any]
    created_at: float | None = None
    actor: str | None = None
    changes: tuple[RoundChange, ...] = ()


class RoundEdge(msgspec.Struct, frozen=True):
    """An edge by the names of its ends."""

    source: str
    target: str
    type: str


class RoundRecord(msgspec.Struct, frozen=True, kw_only=True):
    """
    A round: nodes in the order in which they were registered; `version` is that of the run that it was told from.

    User, session and version are None where that is not known. `messages` are records.
    """

    run_id: int
    sub_id: int
    nodes: tuple[RoundNode, ...]
    edges: tuple[RoundEdge, ...]
    pointers: frozenset[str]
    messages: tuple[dict[str, Any], ...] = ()
    user_id: str | None = None
    session_id: str | None = None
    agent: str | None = None
    version: int | None = None

    @property
    def initial(self) -> str | None:
        """The name of the round's query."""
        return next((node.name for node in self.nodes if node.type == "Query"), None)


def names_in_round(nodes: Iterable[tuple[str, str]]) -> Iterator[str]:
    """
    Yield the names of nodes, given by type and label in their order: the last of each name has it, the others a number.
    """
    keys = list(nodes)
    total = Counter(keys)
    seen: Counter[tuple[str, str]] = Counter()
    for key in keys:
        seen[key] += 1
        yield node_name(*key, seen[key] if seen[key] < total[key] else None)


def are_same(given: RoundRecord, present: RoundRecord) -> bool:
    """
    Return whether two records say the same of a round. Who did it does not count, nor a time that one does not know.
    """
    return (
        len(given.nodes) == len(present.nodes)
        and all(map(_is_same_node, sorted(given.nodes, key=_name), sorted(present.nodes, key=_name)))
        and set(given.edges) == set(present.edges)
        and given.pointers == present.pointers
        and _is_same(given.messages, present.messages)
    )


def _name(node: RoundNode) -> str:
    return node.name


def _is_same_node(given: RoundNode, present: RoundNode) -> bool:
    return (
        given.name == present.name
        and _is_same(given.attributes, present.attributes)
        and _is_same([change.old for change in given.changes], [change.old for change in present.changes])
        and all(map(_is_same_time, _times(given), _times(present)))
    )


def _times(node: RoundNode) -> list[float | None]:
    return [node.created_at, *(change.at for change in node.changes)]


def _is_same_time(given: float | None, present: float | None) -> bool:
    return None in (given, present) or given == present


def _is_same(given: Any, present: Any) -> bool:
    return canonical_json(given, what="a round") == canonical_json(present, what="a round")


def told_round(run: Run) -> RoundRecord:
    """
    Return the round of a run, or of a view of its past, without what lies in other rounds.

    Raises:
        DecisionRefusedError: a part of it is not recorded yet, since a transaction is open.
    """
    state = run._state
    recorded = run.recorded_events(until=state.version)
    if len(recorded) < state.version:
        raise DecisionRefusedError(f"{run.stream} is being changed by a transaction: tell of it when that has ended")
    # Alone, so that edges to other rounds lead nowhere.
    graph = RunGraph(msgspec.structs.replace(state, past=()))
    refs = list(graph.vertices())
    names = dict(zip(refs, names_in_round((graph.type_of(ref), graph.event(ref).label) for ref in refs), strict=True))
    return RoundRecord(
        run_id=run.run_id,
        sub_id=run.sub_id,
        nodes=tuple(_node(graph, ref, name, recorded) for ref, name in names.items()),
        edges=tuple(dict.fromkeys(edge for ref in refs for edge in _edges(graph, ref, names))),
        pointers=frozenset(names[ref] for ref in state.pointers if ref in names),
        messages=tuple(parse_json(event.record) for event in state.messages.values()),
        user_id=run.user_id,
        session_id=run.session_id,
        agent=run.agent,
        version=state.version,
    )


def _node(graph: RunGraph, ref: Ref, name: str, recorded: Sequence[RecordedEvent]) -> RoundNode:
    event = graph.event(ref)
    changes = zip(graph.changes_of(ref), old_values(graph, ref).values(), strict=True)
    return RoundNode(
        name=name,
        type=graph.type_of(ref),
        label=event.label,
        attributes=attributes_of(graph, ref),
        created_at=event.created_at,
        actor=recorded[ref.version - 1].meta.actor,
        changes=tuple(_change(recorded[change.version - 1], old) for (_, change), old in changes),
    )


def _change(recorded: RecordedEvent, old: dict[str, object]) -> RoundChange:
    event = recorded.event
    is_portrait = isinstance(event, PortraitWritten)
    return RoundChange(
        old=old,
        actor=recorded.meta.actor,
        at=made_at(recorded),
        is_portrait=is_portrait,
        model=event.model if is_portrait else None,
    )


def _edges(graph: RunGraph, ref: Ref, names: Mapping[Ref, str]) -> list[RoundEdge]:
    return [RoundEdge(names[edge.end], names[ref], edge.type) for edge in graph.predecessors(ref)]
