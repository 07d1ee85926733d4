"""
The graph of a run at one moment, for looking at and for exporting: nodes and edges by name.

The graph of versions is acyclic: a node that was met again is there once for each time. The graph of identities has
each data node once, and marks the edges that then lead back.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Any

import msgspec

from .errors import NodeNotFoundError
from .nodes import DATA, node_name


def merged_by_identity(graph: Trajectory) -> Trajectory:
    """
    Return a graph of versions with the vertices of each data node merged into one, which has what the last one has.

    An edge that would then close a cycle is marked: it leads back to what was there before.
    """
    names = {name: _identity(node) for name, node in graph.nodes.items()}
    # Each in its first place, with its last attributes.
    nodes = {names[name]: msgspec.structs.replace(node, name=names[name]) for name, node in graph.nodes.items()}
    return Trajectory(
        nodes.values(),
        dict.fromkeys(_marked(graph, names)),
        root=graph.root and names[graph.root],
        initial=graph.initial and names[graph.initial],
        pointers=(names[name] for name in graph.pointers),
    )


def _identity(node: TrajectoryNode) -> str:
    return node_name(node.type, node.label) if node.type in DATA else node.name


def _marked(graph: Trajectory, names: Mapping[str, str]) -> Iterator[TrajectoryEdge]:
    following: dict[str, list[str]] = {name: [] for name in names.values()}
    for edge in graph.edges:
        source, target = names[edge.source], names[edge.target]
        leads_back = source == target or _reaches(target, source, following)
        if not leads_back:
            following[source].append(target)
        yield TrajectoryEdge(source, target, edge.type, leads_back)


def _reaches(start: str, end: str, following: Mapping[str, list[str]]) -> bool:
    """Nearly always `start` is new and leads nowhere yet."""
    seen = {start}
    waiting = [start]
    while waiting:
        for name in following[waiting.pop()]:
            if name == end:
                return True
            if name not in seen:
                seen.add(name)
                waiting.append(name)
    return False


class TrajectoryNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A node: its name, type and label, the round and sub-agent that registered it, and its attributes.

    `birth` is `stream@version` of the event that registered it: it stays the same when a newer node takes the name.
    """

    name: str
    birth: str
    type: str
    label: str
    run_id: int
    sub_id: int
    created_at: float
    attributes: Mapping[str, Any]


class TrajectoryEdge(msgspec.Struct, frozen=True, gc=False):
    """An edge by the names of its ends; `leads_back` marks one that closes a cycle of identities."""

    source: str
    target: str
    type: str
    leads_back: bool = False


class Trajectory:
    """
    A graph that does not change: `nodes` by name in the order of registration, and `edges`.

    `root` is the session's first query, `initial` the round's own, `pointers` the ends of its active branches.
    """

    def __init__(
        self,
        nodes: Iterable[TrajectoryNode],
        edges: Iterable[TrajectoryEdge],
        *,
        root: str | None,
        initial: str | None,
        pointers: Iterable[str],
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.edges = tuple(edges)
        self.root, self.initial = root, initial
        self.pointers = frozenset(pointers)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    def __contains__(self, name: object) -> bool:
        return name in self.nodes

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trajectory):
            return NotImplemented
        return self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((frozenset(self.edges), self.root, self.initial, self.pointers))

    def __repr__(self) -> str:
        return f"Trajectory({len(self.nodes)} nodes, {len(self.edges)} edges, root={self.root!r})"

    def _parts(self) -> tuple[object, ...]:
        return self.nodes, sorted(self.edges, key=_edge_order), self.root, self.initial, self.pointers

    @cached_property
    def _following(self) -> dict[str, list[str]]:
        return _adjacent(self.nodes, ((edge.source, edge.target) for edge in self.edges))

    @cached_property
    def _preceding(self) -> dict[str, list[str]]:
        return _adjacent(self.nodes, ((edge.target, edge.source) for edge in self.edges))

    def successors(self, name: str) -> list[str]:
        """
        Return the names of the nodes that edges from a node lead to.

        Raises:
            NodeNotFoundError: no such node.
        """
        return list(_of(self._following, name))

    def predecessors(self, name: str) -> list[str]:
        """
        Return the names of the nodes that edges lead to a node from.

        Raises:
            NodeNotFoundError: no such node.
        """
        return list(_of(self._preceding, name))

    def descendants(self, name: str) -> set[str]:
        """
        Return the names of the nodes to which a way leads from a node.

        Raises:
            NodeNotFoundError: no such node.
        """
        _of(self._following, name)
        return _reached([name], self._following)

    def ancestors(self, name: str) -> set[str]:
        """
        Return the names of the nodes from which a way leads to a node.

        Raises:
            NodeNotFoundError: no such node.
        """
        _of(self._preceding, name)
        return _reached([name], self._preceding)

    def trimmed(self) -> Trajectory:
        """
        Return the graph of the active branches alone.

        Actions from which no way leads to a pointer are left out, then what the root no longer leads to. Without
        pointers or a root everything stays.
        """
        if not self.pointers or self.root is None:
            return self
        active = self.pointers | _reached(self.pointers, self._preceding)
        staying = {name for name, node in self.nodes.items() if node.type != "Action" or name in active}
        following = {
            name: [end for end in ends if end in staying] for name, ends in self._following.items() if name in staying
        }
        return self.limited_to({self.root} | _reached([self.root], following))

    def limited_to(self, names: Iterable[str]) -> Trajectory:
        """
        Return the graph with these nodes and the edges between them alone.

        Raises:
            NodeNotFoundError: no such node.
        """
        wanted = set(names)
        for name in wanted:
            _of(self._following, name)
        return Trajectory(
            (node for name, node in self.nodes.items() if name in wanted),
            (edge for edge in self.edges if edge.source in wanted and edge.target in wanted),
            root=self.root if self.root in wanted else None,
            initial=self.initial if self.initial in wanted else None,
            pointers=self.pointers & wanted,
        )

    @cached_property
    def is_acyclic(self) -> bool:
        """Whether no way leads from a node to itself; edges that are marked to lead back do not count."""
        forward = [edge for edge in self.edges if not edge.leads_back]
        waiting = dict.fromkeys(self.nodes, 0)
        for edge in forward:
            waiting[edge.target] += 1
        following = _adjacent(self.nodes, ((edge.source, edge.target) for edge in forward))
        ready = [name for name, count in waiting.items() if not count]
        seen = 0
        while ready:
            seen += 1
            for end in following[ready.pop()]:
                waiting[end] -= 1
                if not waiting[end]:
                    ready.append(end)
        return seen == len(self.nodes)

    def by_identity(self) -> Trajectory:
        """
        Return the graph in which each data node is there once, as it was last met; edges that so lead back are marked.
        """
        return merged_by_identity(self)

    # In other forms

    def to_networkx(self) -> Any:
        """
        Return a networkx DiGraph, a copy.

        Nodes have their names, `node_type`, `run_id`, `description` and their fields, edges `edge_type` and
        `relationship`.

        Raises:
            ImportError: networkx is not installed; the extra `refold[graph]` brings it.
        """
        from .exports import network

        return network(self)

    def to_node_link(self) -> dict[str, Any]:
        """Return the networkx graph as plain data, in networkx's node-link form; this does not need networkx."""
        from .exports import node_link

        return node_link(self)

    def to_dot(self) -> str:
        """Return a drawing in DOT, for Graphviz."""
        from .exports import dot

        return dot(self)

    def to_mermaid(self) -> str:
        """Return a drawing in Mermaid, which many Markdown viewers show."""
        from .exports import mermaid

        return mermaid(self)


def _adjacent(names: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    adjacent: dict[str, list[str]] = {name: [] for name in names}
    for here, there in pairs:
        adjacent[here].append(there)
    return adjacent


def _of(adjacent: Mapping[str, list[str]], name: str) -> list[str]:
    found = adjacent.get(name)
    if found is None:
        raise NodeNotFoundError(f"there is no node {name!r} in this graph")
    return found


def _reached(names: Iterable[str], adjacent: Mapping[str, list[str]]) -> set[str]:
    reached: set[str] = set()
    waiting = list(names)
    while waiting:
        for name in adjacent[waiting.pop()]:
            if name not in reached:
                reached.add(name)
                waiting.append(name)
    return reached


def _edge_order(edge: TrajectoryEdge) -> tuple[str, str, str]:
    return edge.source, edge.target, edge.type
