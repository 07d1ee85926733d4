"""The graph of the seed's trajectory, as plain dicts: its content, and the part of it that a later round finds."""

import graphlib
from collections.abc import Collection, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

FIELDS = {
    "Query": ("query", "additional_files"),
    "State": ("state",),
    "Action": ("action", "params", "output", "success"),
    "Knowledge": ("knowledge_type", "knowledge_content"),
    "Tool": ("tool_params", "tool_returns"),
    "Table": ("path",),
    "Column": ("from_table", "values", "supplementary_schemas"),
    "File": ("path", "source"),
    "Script": ("script_content", "script_type", "path", "related_data_list"),
    "Skill": ("path",),
}
DATA = [name for name in FIELDS if name not in ("Query", "State", "Action")]
BRIDGE = "continues_to"
# The round that registered a node, and its place among all that were ever registered.
Key = tuple[int, int]
Ends = tuple[Key, Key]


@dataclass
class Vertex:
    """A node: its attributes, and for the changed ones the value before each change."""

    type: str
    label: str
    attributes: dict[str, Any]
    history: list[dict[str, Any]] = field(default_factory=list)


@dataclass
class Graph:
    """
    The nodes and edges of a session as the round `number` knows them; `on` are the repairs that are made.

    `ever` are type and label of all that were ever registered, in order; `queries` those of the rounds; `bridges` the
    edges between rounds, which are in no file.
    """

    on: Collection[str]
    number: int = 0
    vertices: dict[Key, Vertex] = field(default_factory=dict)
    edges: dict[Ends, str] = field(default_factory=dict)
    bridges: set[Ends] = field(default_factory=set)
    ever: dict[Key, tuple[str, str]] = field(default_factory=dict)
    queries: dict[int, Key] = field(default_factory=dict)

    @classmethod
    def restored(cls, earlier: Sequence["Graph"], on: Collection[str]) -> "Graph":
        """Return the graph with which a round begins after others."""
        graph = cls(on, len(earlier))
        for one in earlier:
            # The changes that a round made to earlier rounds are in no file.
            is_whole = "D13.2" in on
            graph.vertices = deepcopy(one.vertices if is_whole else graph.vertices | one.vertices_of(one.number))
            graph.edges = dict(one.edges if is_whole else graph.edges | one.edges_of(one.number))
            graph.queries |= {number: key for number, key in one.queries.items() if key in one.vertices}
            graph.ever = dict(one.ever)
        if "D7.12" not in on:
            for vertex in graph.vertices.values():
                vertex.history = []
        graph.bridges = graph.bridged()
        return graph

    def bridged(self) -> set[Ends]:
        """Return the bridges from the leaves of each round to the query of the next."""
        ends: list[Key] = []
        bridges: set[Ends] = set()
        for number in range(self.number + 1):
            if number == self.number and "D7.7" not in self.on:
                ends = next((self.leaves(past) for past in reversed(range(number)) if self.vertices_of(past)), [])
            query = self.queries.get(number)
            is_there = query in self.vertices
            bridges |= {(end, query) for end in ends if is_there and query}
            ends = [] if is_there or "D7.7" not in self.on else ends
            ends = ends + self.leaves(number)
        return bridges

    def leaves(self, number: int) -> list[Key]:
        """Return the nodes of a round that lead to no other node of it."""
        leading = {source for source, _ in self.edges_of(number)}
        return [key for key in self.vertices_of(number) if key not in leading]

    # What the file of a round holds

    def vertices_of(self, number: int) -> dict[Key, Vertex]:
        """Return the nodes that a round registered."""
        return {key: vertex for key, vertex in self.vertices.items() if key[0] == number}

    def edges_of(self, number: int) -> dict[Ends, str]:
        """Return the edges between two nodes of a round."""
        return {ends: kind for ends, kind in self.edges.items() if {ends[0][0], ends[1][0]} == {number}}

    # Changing

    def add(self, kind: str, label: str, attributes: dict[str, Any]) -> Key:
        """Add a node of this round."""
        key = (self.number, len(self.ever))
        self.ever[key] = (kind, label)
        self.vertices[key] = Vertex(kind, label, attributes)
        return key

    def remove(self, key: Key) -> None:
        """Take a node and its edges out."""
        del self.vertices[key]
        self.edges = {ends: kind for ends, kind in self.edges.items() if key not in ends}

    # Reading

    def names(self, keys: Iterable[Key]) -> list[str]:
        """Return the names of nodes in their order."""
        named = self._named()
        return sorted(named.get(key) or name_of(*self.ever[key]) for key in keys)

    def name(self, key: Key) -> str:
        """Return the name of a node."""
        return self.names([key])[0]

    def find(self, name: str) -> Key | None:
        """Return the node of a name."""
        return next((key for key, known in self._named().items() if known == name), None)

    def _named(self) -> dict[Key, str]:
        """Name all nodes: the newest node of a name by this name, and earlier nodes by the name and their number."""
        newest = {self.ever[key]: key for key in self.ever if key in self.vertices}
        met: dict[tuple[str, str], int] = {}
        named = {}
        for key, parts in self.ever.items():
            met[parts] = met.get(parts, 0) + 1
            if key in self.vertices:
                named[key] = name_of(*parts) + ("" if newest[parts] == key else f"#{met[parts]}")
        return named

    def links(self) -> dict[Ends, str]:
        """Return all edges, bridges too."""
        bridges = self.bridged() if "D8.10" in self.on else self.bridges
        links = {**dict.fromkeys(bridges, BRIDGE), **self.edges}
        return {ends: kind for ends, kind in links.items() if self.vertices.keys() >= {*ends}}

    def named_edges(self, keys: Collection[Key]) -> list[list[str]]:
        """Return the edges between some nodes, by name."""
        named = self._named()
        links = self.links().items()
        return sorted([named[one], named[two], kind] for (one, two), kind in links if one in keys and two in keys)

    def before(self, key: Key) -> set[Key]:
        """Return the nodes that lead to one."""
        return {source for source, target in self.links() if target == key}

    def is_acyclic(self) -> bool:
        """Return whether no path leads from a node to itself."""
        sorter = graphlib.TopologicalSorter({key: self.before(key) for key in self.vertices})
        try:
            sorter.prepare()
        except graphlib.CycleError:
            return False
        return True

    def trimmed(self, root: Key | None, active: Collection[Key]) -> Collection[Key]:
        """Return the nodes that the root leads to, without actions that lead to no pointer."""
        ends = [key for key in active if key in self.vertices]
        if root not in self.vertices or root is None or not ends:
            return self.vertices
        leading = _reached(ends, [(target, source) for source, target in self.links()])
        staying = {key for key, vertex in self.vertices.items() if vertex.type != "Action" or key in leading}
        return _reached([root], [ends for ends in self.links() if staying >= {*ends}])

    def histories(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return the histories of the nodes that have one."""
        named = self._named()
        return {
            named[key]: {str(number): dict(old) for number, old in enumerate(vertex.history)}
            for key, vertex in self.vertices.items()
            if vertex.history
        }


def name_of(kind: str, label: str) -> str:
    """Return the name of a node."""
    return f"{kind}({label})"


def _reached(keys: Iterable[Key], links: Collection[Ends]) -> set[Key]:
    reached = set(keys)
    waiting = list(reached)
    while waiting:
        here = waiting.pop()
        further = {target for source, target in links if source == here} - reached
        reached |= further
        waiting += further
    return reached
