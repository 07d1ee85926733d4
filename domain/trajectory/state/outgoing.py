"""
The edges of a run by their sources, put together only when somebody asks where nodes lead to.

They follow from the rest of the state: a node names its sources, and edges that came later are known by their targets.
To look at a whole graph takes no more than that, and so views of the past mostly do without.
"""

from __future__ import annotations

from ...ordered_map import OrderedMap
from ...spans import Ref
from ..events import NodeRegistered
from .parts import Edge, Row, Vertex, row_of

EdgesBySource = OrderedMap[Ref, Row[Edge]]


class Outgoing:
    """The edges that lead out of vertices. Once they are put together, the states that come after have them too."""

    __slots__ = ("_into", "_made", "_vertices")

    def __init__(
        self, vertices: OrderedMap[int, Vertex], into: OrderedMap[Ref, Row[Edge]], made: EdgesBySource | None = None
    ) -> None:
        self._vertices, self._into, self._made = vertices, into, made

    @property
    def made(self) -> EdgesBySource | None:
        """The edges by their sources, if there are any and they are put together."""
        return self._made or None

    @property
    def by_source(self) -> EdgesBySource:
        """The edges by their sources: those of each in the order in which they came."""
        if self._made is None:
            self._made = OrderedMap.of(_by_source(self._vertices, self._into))
        return self._made

    def __eq__(self, other: object) -> bool:
        return self.by_source == other.by_source if isinstance(other, Outgoing) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # equal by value, as the maps are


def _by_source(vertices: OrderedMap[int, Vertex], into: OrderedMap[Ref, Row[Edge]]) -> dict[Ref, Row[Edge]]:
    edges = [
        (source, Edge(Ref(vertex.version), vertex.event.edge, vertex.version))
        for vertex in vertices.values()
        if isinstance(vertex.event, NodeRegistered)
        for source in vertex.event.sources
    ]
    edges += [(edge.end, Edge(target, edge.type, edge.version)) for target, row in into.items() for edge in row_of(row)]
    edges.sort(key=lambda pair: pair[1].version)
    found: dict[Ref, Row[Edge]] = {}
    for source, edge in edges:
        found[source] = edge, found.get(source)
    return found
