"""
From a run's state to the whole graph by name.

This is done for ten thousand nodes at a time, so it goes over each round once and asks nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from ..frozen import FrozenDict, freeze
from ..spans import OWN, Ref
from .events import NodeRegistered
from .identity import RunId
from .state.attributes import attributes_of
from .state.graph import BRIDGE, RunGraph
from .state.parts import Vertex, row_of, type_of
from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode

# The names of a round's vertices, by the versions that registered them.
Names = dict[int, str]


def drawn(graph: RunGraph, identity: RunId) -> Trajectory:
    """Return the graph of a run and the rounds it goes back over; `identity` is that of the run."""
    names = _names(graph)
    added = _added_edges(graph, names)
    nodes: list[TrajectoryNode] = []
    edges: list[TrajectoryEdge] = []
    for stream, vertices in graph.there.items():
        nodes += _nodes(graph, stream, vertices, names[stream], identity)
        edges += _edges(graph, stream, vertices, names, added)
    return Trajectory(
        nodes,
        edges,
        root=None if graph.root is None else _name(graph.root, names),
        initial=names[OWN].get(graph.state.query),
        pointers=(end for ref in graph.state.pointers if (end := _name(ref, names)) is not None),
    )


def _name(ref: Ref, names: Mapping[str, Names]) -> str | None:
    return names.get(ref.stream, {}).get(ref.version)


def _names(graph: RunGraph) -> dict[str, Names]:
    """Name vertices as `RunGraph.name_of` does: only the newest that bears a name bears it without a number."""
    names = {stream: {vertex.version: vertex.name for vertex in vertices} for stream, vertices in graph.there.items()}
    borne = {name for own in names.values() for name in own.values()}
    if len(borne) < sum(map(len, names.values())):
        for stream, own in reversed(names.items()):
            for version, name in reversed(own.items()):
                if name in borne:
                    borne.remove(name)
                else:
                    own[version] = graph.numbered_name_of(Ref(version, stream))
    return names


def _nodes(graph: RunGraph, stream: str, vertices: list[Vertex], names: Names, identity: RunId) -> list[TrajectoryNode]:
    opened = graph.round_of(Ref(0, stream)).opened
    number, sub = (identity.run_id, identity.sub_id) if opened is None or stream == OWN else (opened.round, opened.sub)
    place = stream or identity.stream
    return [
        TrajectoryNode(
            name=names[version := vertex.version],
            birth=f"{place}@{version}",
            type=type_of(event := vertex.event),
            label=event.label,
            run_id=number,
            sub_id=sub,
            created_at=event.created_at,
            attributes=LazyAttributes(graph, stream, version),  # type: ignore[arg-type]  # it is registered as one
        )
        for vertex in vertices
    ]


def _edges(
    graph: RunGraph,
    stream: str,
    vertices: list[Vertex],
    names: Mapping[str, Names],
    added: Mapping[str, list[TrajectoryEdge]],
) -> list[TrajectoryEdge]:
    """Return the edges to each vertex of a round in turn: what came with it, the bridges, what came later."""
    own = names[stream]
    edges: list[TrajectoryEdge] = []
    starts: Iterable[Ref]
    for vertex in vertices:
        event, name, count = vertex.event, own[vertex.version], len(edges)
        if isinstance(event, NodeRegistered):
            edge, starts = event.edge, event.sources
        else:
            edge, starts = BRIDGE, graph.bridged_to(Ref(vertex.version, stream))
        for one in starts:
            start = _name(one, names) if one.stream else own.get(one.version)
            if start is not None:
                edges.append(TrajectoryEdge(start, name, edge))
        edges += added.get(name, ())
        if len(edges) - count > 1:
            # The same edge recorded twice is one edge.
            edges[count:] = dict.fromkeys(edges[count:])
    return edges


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


# They come by the ten thousand, and nothing that they refer to refers back: the collector need not look at them.
class LazyAttributes(msgspec.Struct, gc=False, eq=False):
    """The attributes of a vertex, put together when somebody looks: most nodes of a graph nobody does look at."""

    _graph: RunGraph
    _stream: str
    _version: int
    _found: FrozenDict[str, Any] | None = None

    @property
    def _values(self) -> FrozenDict[str, Any]:
        found = self._found
        if found is None:
            found = self._found = freeze(attributes_of(self._graph, Ref(self._version, self._stream)))
        return found

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    # A Struct cannot have Mapping for a base, so what that brings is taken one by one.
    get, keys, items, values = Mapping.get, Mapping.keys, Mapping.items, Mapping.values
    __contains__, __eq__ = Mapping.__contains__, Mapping.__eq__
    __hash__ = None  # type: ignore[assignment]  # as Mapping has it


Mapping.register(LazyAttributes)
