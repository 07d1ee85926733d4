"""
From a run's state to the whole graph by name.

This is done for ten thousand nodes at a time, so it goes over each round once and asks nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..frozen import FrozenDict, freeze
from ..spans import OWN, Ref
from .events import NodeEvent, NodeRegistered
from .identity import RunId
from .naming import node_name
from .state.attributes import attributes_of
from .state.fold import RunState, row_of, type_of
from .state.graph import BRIDGE, RunGraph
from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode

__all__ = ["drawn"]

# The names of a round's vertices, by the versions that registered them.
Names = dict[int, str]


def drawn(graph: RunGraph, identity: RunId) -> Trajectory:
    """
    Return the graph of a run and the rounds it goes back over; `identity` is that of the run.
    """
    names = _names(graph)
    nodes: list[TrajectoryNode] = []
    edges: list[TrajectoryEdge] = []
    added = _added_edges(graph, names)
    for stream, state in graph.rounds:
        nodes += _nodes(graph, stream, state, names[stream], identity)
        for version, name in names[stream].items():
            edges += _edges_to(graph, Ref(version, stream), name, names)
            edges += added.get(name, ())
    return Trajectory(
        nodes,
        # The same edge recorded twice is one edge.
        dict.fromkeys(edges),
        root=None if graph.root is None else _name(graph.root, names),
        initial=names[OWN].get(graph.state.query),
        pointers=(end for ref in graph.state.pointers if (end := _name(ref, names)) is not None),
    )


def _name(ref: Ref, names: Mapping[str, Names]) -> str | None:
    return names.get(ref.stream, {}).get(ref.version)


def _names(graph: RunGraph) -> dict[str, Names]:
    """Name all vertices that are there, as `RunGraph.name_of` does."""
    gone = {ref if ref.stream else Ref(ref.version, stream) for stream, state in graph.rounds for ref in state.removed}
    counts: dict[tuple[str, str], int] = {}
    newest: dict[tuple[str, str], tuple[str, int]] = {}
    numbered: list[tuple[str, int, tuple[str, str], int]] = []
    for stream, state in graph.rounds:
        for version, (event, _) in state.vertices.items():
            key = (type_of(event), event.label)
            counts[key] = number = counts.get(key, 0) + 1
            if not gone or Ref(version, stream) not in gone:
                newest[key] = (stream, version)
                numbered.append((stream, version, key, number))
    names: dict[str, Names] = {stream: {} for stream, _ in graph.rounds}
    for stream, version, key, number in numbered:
        is_newest = newest[key] == (stream, version)
        names[stream][version] = node_name(*key) if is_newest else node_name(*key, number)
    return names


def _nodes(graph: RunGraph, stream: str, state: RunState, names: Names, identity: RunId) -> Iterator[TrajectoryNode]:
    opened = state.opened
    number, sub = (identity.run_id, identity.sub_id) if opened is None or stream == OWN else (opened.round, opened.sub)
    place = stream or identity.stream
    for version, (event, _) in state.vertices.items():
        if version in names:
            yield _node(graph, Ref(version, stream), event, names[version], (number, sub), f"{place}@{version}")


def _node(graph: RunGraph, ref: Ref, event: NodeEvent, name: str, place: tuple[int, int], birth: str) -> TrajectoryNode:
    return TrajectoryNode(
        name=name,
        birth=birth,
        type=type_of(event),
        label=event.label,
        run_id=place[0],
        sub_id=place[1],
        created_at=event.created_at,
        attributes=LazyAttributes(graph, ref),
    )


def _edges_to(graph: RunGraph, ref: Ref, name: str, names: Mapping[str, Names]) -> Iterator[TrajectoryEdge]:
    """Yield the edges that came with a vertex, and the bridges to it."""
    event = graph.event(ref)
    if isinstance(event, NodeRegistered):
        for source in event.sources:
            found = names.get(source.stream or ref.stream, {}).get(source.version)
            if found is not None:
                yield TrajectoryEdge(found, name, event.edge)
        return
    for leaf in graph.bridged_to(ref):
        found = _name(leaf, names)
        if found is not None:
            yield TrajectoryEdge(found, name, BRIDGE)


def _added_edges(graph: RunGraph, names: Mapping[str, Names]) -> dict[str, list[TrajectoryEdge]]:
    """Return the edges that came later than their nodes, by the names of their targets."""
    added: dict[str, list[TrajectoryEdge]] = {}
    for stream, state in graph.rounds:
        for target, row in state.into.items():
            end = names.get(target.stream or stream, {}).get(target.version)
            for edge in row_of(row):
                start = names.get(edge.end.stream or stream, {}).get(edge.end.version)
                if start is not None and end is not None:
                    added.setdefault(end, []).append(TrajectoryEdge(start, end, edge.type))
    return added


class LazyAttributes(Mapping[str, Any]):
    """The attributes of a vertex, put together when somebody looks: most nodes of a graph nobody does look at."""

    __slots__ = ("_found", "_graph", "_ref")

    def __init__(self, graph: RunGraph, ref: Ref) -> None:
        self._graph, self._ref = graph, ref
        self._found: FrozenDict[str, Any] | None = None

    @property
    def _values(self) -> FrozenDict[str, Any]:
        found = self._found
        if found is None:
            found = self._found = freeze(attributes_of(self._graph, self._ref))
        return found

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)
