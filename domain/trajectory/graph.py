"""
A run's state as a graph, with the names of its vertices; and the same graph with names only.

The graph has the vertices of the run and of the earlier rounds that it goes back over, oldest first. Bridges join two
consecutive rounds: from every leaf of one to the query of the next. Bridges are not recorded; they follow from the
rounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from ..canonical import parse_json
from ..concurrency.locks import cached_property
from ..frozen import FrozenDict, freeze
from ..spans import OWN, Ref
from .events import NodeEvent, NodeRegistered
from .identity import RunId
from .nodes import (
    DESCRIPTION,
    NODE_TYPES,
    BaseIR,
    NodeNotFoundError,
    node_name,
    numbered_name,
    own_fields,
    parse_node_name,
)
from .state import Edge, Edges, RunState, leaves_of, row_of
from .stored import Change, Vertex
from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode, reached

BRIDGE = "continues_to"


class RunGraph:
    """Queries on a run's graph. `Ref`s without a stream are vertices of the run itself."""

    def __init__(self, state: RunState) -> None:
        self.state = state
        # All rounds, oldest first; the run itself is the last one.
        self.rounds = (*((past.stream, past.state) for past in state.past), (OWN, state))
        self._places = {stream: place for place, (stream, _) in enumerate(self.rounds)}
        # The places of the rounds that changed, removed or joined vertices of earlier rounds.
        self._touching = [place for place, (_, state) in enumerate(self.rounds) if state.touches_past]

    # Names

    def resolve(self, name: str) -> Ref:
        """
        Return the vertex that a name means.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`.
            NodeNotFoundError: there is no such node or type.
        """
        found = self.find(name)
        if found is None:
            wanted = parse_node_name(name)
            if wanted.type not in NODE_TYPES:
                raise NodeNotFoundError(f"Current context does not have IR of type {wanted.type!r}.")
            raise NodeNotFoundError(
                f"Current context does not have IR with label {wanted.label!r} of type {wanted.type!r}."
            )
        return found

    def find(self, name: str) -> Ref | None:
        """
        Return the vertex that a name means, or None.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`.
        """
        return next((ref for ref in self.ever_named(name) if self.is_there(ref)), None)

    def _vertices_of_name(self, name: str, number: int | None = None) -> Iterator[Ref]:
        """Yield the vertices with a plain name, or the one with this number: newest first, including removed ones."""
        counts = [_count(state, name) for _, state in self.rounds]
        before = sum(counts)
        for (stream, state), count in zip(reversed(self.rounds), reversed(counts), strict=True):
            before -= count
            version = state.newest_of(name)
            while version and (vertex := state.vertices.get(version)):
                if number in (None, before + vertex.number):
                    yield Ref(version, stream)
                version = vertex.before

    def ever_named(self, name: str) -> Iterator[Ref]:
        """
        Yield the vertices that a name means or has meant, the newest first, including removed ones.

        Raises:
            InvalidInputError: the name is not of the form `Type(label)`.
        """
        wanted = parse_node_name(name)
        return self._vertices_of_name(node_name(wanted.type, wanted.label), wanted.number)

    def vertices_named(self, node_type: str, label: str) -> list[Ref]:
        """Return all vertices of a name, including removed ones, oldest first."""
        return list(self._vertices_of_name(node_name(node_type, label)))[::-1]

    def name_of(self, ref: Ref) -> str:
        """Return the name of a vertex: the plain name if no newer vertex has it, else the name with its number."""
        return self._vertex(ref).name if self.is_newest(ref) else self.numbered_name_of(ref)

    def numbered_name_of(self, ref: Ref) -> str:
        """Return the name of a vertex with its number; it has this name when a newer vertex has the plain name."""
        vertex = self._vertex(ref)
        earlier = self.rounds[: self._places[ref.stream]]
        return numbered_name(vertex.name, vertex.number + sum(_count(state, vertex.name) for _, state in earlier))

    def is_newest(self, ref: Ref) -> bool:
        """Return whether a vertex is the newest with its name; removed ones do not count."""
        vertex = self._vertex(ref)
        if self._is_last(vertex, self._places[ref.stream]):
            # The usual case: no other vertex has the name.
            return True
        return next((other for other in self._vertices_of_name(vertex.name) if self.is_there(other)), None) == ref

    def _is_last(self, vertex: Vertex, place: int) -> bool:
        """Return whether no later vertex, removed or not, has the name; `place` is that of the vertex's round."""
        name = vertex.name
        if self.rounds[place][1].newest_of(name) != vertex.version:
            return False
        later = self.rounds[place + 1 :]
        return not later or not any(state.newest_of(name) for _, state in later)

    def names(self, node_type: str | None = None) -> Iterator[str]:
        """Yield the names of all vertices of the graph, or of those of a type, in the order of registration."""
        names = _names(self)
        for stream, vertices in self.present.items():
            own = names[stream]
            yield from (own[one.version] for one in vertices if node_type in (None, one.type))

    # Vertices

    def _vertex(self, ref: Ref) -> Vertex:
        place = self._places.get(ref.stream)
        held = None if place is None else self.rounds[place][1].vertices.get(ref.version)
        if held is None:
            raise NodeNotFoundError(f"{ref.stream or 'this run'} has no node of version {ref.version}")
        return held

    def event(self, ref: Ref) -> NodeEvent:
        """Return the event that registered a vertex."""
        event: NodeEvent = self._vertex(ref).event
        return event

    def type_of(self, ref: Ref) -> str:
        """Return the type of a vertex."""
        return self._vertex(ref).type

    def is_there(self, ref: Ref) -> bool:
        """Return whether a vertex is in the graph: in one of its rounds, and not removed."""
        place = self._places.get(ref.stream)
        if place is None or ref.version not in self.rounds[place][1].vertices:
            return False
        return self.removal_of(ref) is None

    def round_of(self, ref: Ref) -> RunState:
        """Return the state of the round that registered a vertex."""
        return self.rounds[self._places[ref.stream]][1]

    def _rounds_about(self, ref: Ref) -> Iterator[tuple[str, RunState, Ref]]:
        """Yield the stream and state of each round that may have changed a vertex, its own first, and its Ref there."""
        own = self._places[ref.stream]
        yield ref.stream, self.rounds[own][1], Ref(ref.version)
        for place in self._touching[bisect_right(self._touching, own) :]:
            yield *self.rounds[place], ref

    def changes_of(self, ref: Ref) -> list[tuple[str, Change]]:
        """Return the changes of a vertex in order, each with the stream that recorded it."""
        return [
            (stream, change)
            for stream, state, named in self._rounds_about(ref)
            for change in row_of(state.changes.get(named))
        ]

    def removal_of(self, ref: Ref) -> Ref | None:
        """Return the event that removed a vertex, or None."""
        for stream, state, named in self._rounds_about(ref):
            version = state.removed.get(named)
            if version is not None:
                return Ref(version, stream)
        return None

    def attributes_of(self, ref: Ref) -> dict[str, Any]:
        """Return the attributes of a vertex by name, the description first."""
        event = self.event(ref)
        attributes = {DESCRIPTION: event.description, **parse_json(event.fields)}
        for _, change in self.changes_of(ref):
            attributes.update((one.name, parse_json(one.new)) for one in change.changes)
        return attributes

    def description_of(self, ref: Ref) -> Any:
        """Return the description of a vertex, without decoding its fields, which may be long."""
        changes = (one for _, change in reversed(self.changes_of(ref)) for one in reversed(change.changes))
        newest = next((one for one in changes if one.name == DESCRIPTION), None)
        return self.event(ref).description if newest is None else parse_json(newest.new)

    def old_values_of(self, ref: Ref) -> list[dict[str, Any]]:
        """Return the values of the changed attributes before each change."""
        return [{one.name: parse_json(one.old) for one in change.changes} for _, change in self.changes_of(ref)]

    @cached_property
    def present(self) -> dict[str, list[Vertex]]:
        """The vertices of the graph by round; rounds and vertices are in order."""
        present = {stream: state.vertices.values() for stream, state in self.rounds}
        gone = {
            ref if ref.stream else Ref(ref.version, stream) for stream, state in self.rounds for ref in state.removed
        }
        for stream in {ref.stream for ref in gone} & present.keys():
            present[stream] = [vertex for vertex in present[stream] if Ref(vertex.version, stream) not in gone]
        return present

    def vertices(self) -> Iterator[Ref]:
        """Yield the vertices of the graph: round after round, in the order of registration."""
        for stream, vertices in self.present.items():
            for vertex in vertices:
                yield Ref(vertex.version, stream)

    # Edges

    def bridged_to(self, ref: Ref) -> Iterable[Ref]:
        """Return the leaves that are bridged to a query, including removed ones."""
        return self._bridges.get(ref, ())

    def predecessors(self, ref: Ref) -> list[Edge]:
        """Return the edges into a vertex."""
        event = self.event(ref)
        found = [Edge(leaf, BRIDGE, 0) for leaf in self.bridged_to(ref)]
        if isinstance(event, NodeRegistered):
            found += [Edge(source.within(ref.stream), event.edge, ref.version) for source in event.sources]
        return self._present_ends(found + self._added(ref, lambda state: state.into))

    def successors(self, ref: Ref) -> list[Edge]:
        """Return the edges out of a vertex."""
        found = self._added(ref, lambda state: state.out.by_source)
        found += [Edge(query, BRIDGE, 0) for query, leaves in self._bridges.items() if ref in leaves]
        return self._present_ends(found)

    def _added(self, ref: Ref, side: Callable[[RunState], Edges]) -> list[Edge]:
        return [
            Edge(edge.end.within(stream), edge.type, edge.version)
            for stream, state, named in self._rounds_about(ref)
            for edge in row_of(side(state).get(named))
        ]

    def _present_ends(self, edges: Iterable[Edge]) -> list[Edge]:
        return [edge for edge in edges if self.is_there(edge.end)]

    @cached_property
    def _bridges(self) -> dict[Ref, dict[Ref, None]]:
        """The leaves that are bridged to each query."""
        bridges: dict[Ref, dict[Ref, None]] = {}
        waiting: list[Ref] = []
        for place, (stream, state) in enumerate(self.rounds):
            query = Ref(state.query, stream)
            if self.is_there(query):
                bridges[query] = dict.fromkeys(waiting)
                waiting = []
            if place < len(self.state.past):
                waiting += [Ref(leaf.version, stream) for leaf in self._leaves(place)]
        return bridges

    def _leaves(self, place: int) -> tuple[Ref, ...]:
        """Return the leaves of an earlier round; they are computed again if later rounds removed vertices of it."""
        stream, state = self.rounds[place]
        later = (ref for at in self._touching if at > place for ref in self.rounds[at][1].removed)
        gone = {Ref(ref.version) for ref in later if ref.stream == stream}
        return leaves_of(state, gone) if gone else self.state.past[place].leaves

    @property
    def root(self) -> Ref | None:
        """The query of the first round that has one."""
        queries = (Ref(state.query, stream) for stream, state in self.rounds)
        return next(filter(self.is_there, queries), None)

    # Paths

    def leading_to(self, refs: Iterable[Ref], *, over_bridges: bool = True) -> set[Ref]:
        """Return the vertices with a path to one of `refs`; without bridges, paths stay within each round."""
        return set(
            reached(refs, lambda ref: [edge.end for edge in self.predecessors(ref) if over_bridges or edge.version])
        )

    def led_to(self, refs: Iterable[Ref]) -> set[Ref]:
        """Return the vertices with a path from one of `refs`."""
        return set(reached(refs, self._ends_of))

    def _ends_of(self, ref: Ref) -> list[Ref]:
        return [edge.end for edge in self.successors(ref)]

    def closes_cycle(self, source: Ref, target: Ref) -> bool:
        """Return whether an edge would close a cycle; this is fast if no edge, including this one, leads backward."""
        start, end = ((self._places[ref.stream], ref.version) for ref in (source, target))
        if source == target:
            return True
        if start < end and not any(state.goes_backward for _, state in self.rounds):
            return False
        return source in reached([target], self._ends_of)


def _count(state: RunState, name: str) -> int:
    """Return how many vertices with a name a run ever registered."""
    newest = state.vertices.get(state.newest_of(name))
    return 0 if newest is None else newest.number


# The names of a round's vertices, by the versions that registered them.
Names = dict[int, str]


def trajectory_of(graph: RunGraph, identity: RunId) -> Trajectory:
    """
    Return the whole graph by names; `identity` is that of the run.

    A graph may have ten thousand nodes, so this reads each round once and computes nothing twice.
    """
    for _, state in graph.rounds:
        if state.stored is not None:
            # The attributes may be read after the store is closed.
            state.stored.fetch()
    names = _names(graph)
    added = _added_edges(graph, names)
    nodes: list[TrajectoryNode] = []
    edges: list[TrajectoryEdge] = []
    for stream, vertices in graph.present.items():
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
    """Name vertices as `RunGraph.name_of` does: only the newest vertex of a name has it without a number."""
    names = {stream: {vertex.version: vertex.name for vertex in vertices} for stream, vertices in graph.present.items()}
    unassigned = {name for own in names.values() for name in own.values()}
    if len(unassigned) < sum(map(len, names.values())):
        older: dict[str, list[int]] = {stream: [] for stream in names}
        for stream, own in reversed(names.items()):
            for version, name in reversed(own.items()):
                if name in unassigned:
                    unassigned.remove(name)
                else:
                    older[stream].append(version)
        # The number of vertices of each name in the rounds before, including removed ones.
        before: Counter[str] = Counter()
        for stream, state in graph.rounds:
            for version in older[stream]:
                vertex = graph._vertex(Ref(version, stream))
                names[stream][version] = numbered_name(vertex.name, before[vertex.name] + vertex.number)
            before.update({vertex.name: vertex.number for vertex in state.vertices.values()})
    return names


def _nodes(graph: RunGraph, stream: str, vertices: list[Vertex], names: Names, identity: RunId) -> list[TrajectoryNode]:
    number, sub = round_numbers(graph, stream, identity)
    place = stream or identity.stream
    return [
        TrajectoryNode(
            name=names[version := vertex.version],
            birth=f"{place}@{version}",
            type=vertex.type,
            label=(event := vertex.event).label,
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
    """Return the edges to each vertex of a round in turn: those of its registration, or bridges, then added ones."""
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
            # An edge that was recorded twice is one edge.
            edges[count:] = dict.fromkeys(edges[count:])
    return edges


def _added_edges(graph: RunGraph, names: Mapping[str, Names]) -> dict[str, list[TrajectoryEdge]]:
    """Return the edges that were added after their nodes, by the names of their targets."""
    added: dict[str, list[TrajectoryEdge]] = {}
    for stream, state in graph.rounds:
        for target, row in state.into.items():
            end = names.get(target.stream or stream, {}).get(target.version)
            for edge in row_of(row):
                start = names.get(edge.end.stream or stream, {}).get(edge.end.version)
                if start is not None and end is not None:
                    added.setdefault(end, []).append(TrajectoryEdge(start, end, edge.type))
    return added


# A graph has one for each of its vertices. They are in no reference cycle, so the garbage collector can skip them.
class LazyAttributes(msgspec.Struct, gc=False, eq=False):
    """The attributes of a vertex, decoded at the first access: most nodes of a graph are never read."""

    _graph: RunGraph
    _stream: str
    _version: int
    _found: FrozenDict[str, Any] | None = None

    @property
    def _values(self) -> FrozenDict[str, Any]:
        found = self._found
        if found is None:
            found = self._found = freeze(self._graph.attributes_of(Ref(self._version, self._stream)))
        return found

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return repr(self._values)

    def __reduce__(self) -> tuple[Any, ...]:
        # The graph holds a log, which cannot be pickled.
        return self._values.__reduce__()

    def items(self) -> ItemsView[str, Any]:
        return self._values.items()

    # A Struct cannot have Mapping as a base, so it takes the methods one by one.
    get, keys, values = Mapping.get, Mapping.keys, Mapping.values
    __contains__, __eq__ = Mapping.__contains__, Mapping.__eq__
    __hash__ = None  # type: ignore[assignment]  # like Mapping


Mapping.register(LazyAttributes)


def round_numbers(graph: RunGraph, stream: str, identity: RunId) -> tuple[int, int]:
    """Return the round and the sub-agent of a run's stream; `identity` is that of the run itself."""
    opened = graph.round_of(Ref(0, stream)).opened
    return (identity.run_id, identity.sub_id) if opened is None or stream == OWN else (opened.round, opened.sub)


def typed_node(
    graph: RunGraph,
    ref: Ref,
    identity: RunId,
    attributes: Mapping[str, Any],
    history: Sequence[dict[str, Any]],
) -> BaseIR:
    """Return a vertex as a node of its type, with these attributes; `identity` is that of the run."""
    event, node_type = graph.event(ref), graph.type_of(ref)
    required = own_fields(node_type)
    return NODE_TYPES[node_type](
        label=event.label,
        description=attributes[DESCRIPTION],
        session_id=identity.session_id,
        run_id=round_numbers(graph, ref.stream, identity)[0],
        created_at=event.created_at,
        history=freeze(dict(enumerate(history))),
        extra=freeze({name: value for name, value in attributes.items() if name not in (*required, DESCRIPTION)}),
        **{name: freeze(attributes.get(name)) for name in required},
    )
