"""
The seed's trajectory (SPEC D3 to D9), and what Refold repairs in it.

A session consists of rounds. Each round begins with the content of the files of the earlier rounds. Each repair is a
switch; docs/deviations.md explains it.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from .trajectory_graph import DATA, FIELDS, Graph, Key, Vertex, name_of

NUMBERS = (
    "D3.2", "D4.4", "D4.5", "D4.7", "D5.4", "D6.5", "D6.6", "D7.4", "D7.7", "D7.12", "D8.3", "D8.5", "D8.10", "D8.11",
    "D13.2",
)  # fmt: skip
NAME = re.compile(r"(.+)\((.+)\)", re.DOTALL)


class NetworkXError(Exception):
    """The error of the seed's graph library."""


class NetworkXPointlessConcept(NetworkXError):
    """The error of that library for a graph without nodes."""


class ModelSession:
    """The rounds of a session so far; `on` are the repairs that are made."""

    def __init__(self, on: Collection[str] = ()) -> None:
        self.on = on
        self.rounds: list[ModelRound] = []

    def begun(self, number: int) -> "ModelRound":
        """Begin the next round."""
        assert number == len(self.rounds)
        self.rounds.append(ModelRound(self.on, tuple(self.rounds)))
        return self.rounds[-1]


class ModelRound:
    """One round, after others that have ended."""

    def __init__(self, on: Collection[str], earlier: Sequence["ModelRound"]) -> None:
        self.on, self.number = on, len(earlier)
        self.graph: Graph = Graph.restored([one.graph for one in earlier], on)
        self.initial: Key | None = None
        self.active: set[Key] = set()
        is_going_on = earlier and "D7.4" in on
        self.counts: dict[str, int] = (
            dict(earlier[-1].counts) if is_going_on else _counted(self.graph.vertices.values())
        )

    def do(self, op: str, args: Mapping[str, Any]) -> str | None:
        """Carry out one operation."""
        name: str | None = getattr(self, op)(**args)
        return name

    # What is done

    def register_query(self, query: Any, additional_files: Any) -> str:
        """Register the question."""
        if self.initial is not None:
            raise RuntimeError("Agent cannot have more than one query in one run!")
        number = f"{self.counts['Query']:05}"
        fields = {"query": query, "additional_files": additional_files}
        key = self._added("Query", f"query{number}", {"description": f"User query No.{number}", **fields})
        self.initial = self.graph.queries[self.number] = key
        self.graph.bridges |= self.graph.bridged()
        self.active.add(key)
        return self.graph.name(key)

    def register_node(
        self,
        node_type: str,
        description: str,
        predecessor_node: Sequence[str],
        attrs: Mapping[str, Any],
        edge_type: str | None = None,
        label: str | None = None,
        add_pt: bool = False,
        remove_pt: bool = False,
    ) -> str:
        """Register a node after others."""
        if self.initial is None:
            raise RuntimeError("Cannot register other node before registering query node.")
        self._require_type(node_type)
        sources = self._sources(predecessor_node)
        edge = self._edge(edge_type, [self.graph.vertices[key].type for key in sources], node_type)
        label = self._next_label(node_type) if label is None else label
        attributes = self._attributes(node_type, label, {"description": description, **attrs})
        key = self._added(node_type, label, attributes)
        self.graph.edges.update({(source, key): edge for source in sources})
        self._move(key, sources, add_pt, remove_pt)
        return self.graph.name(key)

    def modify_node(self, graph_node_label: str, changes: Mapping[str, Any]) -> None:
        """Change the values of attributes of a node."""
        vertex = self.graph.vertices[self._known(graph_node_label)]
        unknown = [name for name in changes if name not in vertex.attributes]
        if unknown and "D8.3" in self.on:
            known = ", ".join(["description", *sorted(vertex.attributes.keys() - {"description"})])
            raise AttributeError(
                f"{graph_node_label} has no attribute {unknown[0]!r} that can be changed: it has {known}; others are "
                "given when a node is registered"
            )
        if changes or "D8.5" not in self.on:
            vertex.history.append({})
        for name, value in changes.items():
            if name in unknown:
                raise AttributeError(f"'{vertex.type}Node' object has no attribute '{name}'")
            vertex.history[-1][name] = vertex.attributes[name]
            vertex.attributes[name] = value

    def remove_node(self, graph_node_label: str) -> None:
        """Take a node out."""
        key = self._known(graph_node_label) if "D8.11" in self.on else self.graph.find(graph_node_label)
        if key is None:
            raise NetworkXError(f"The node {graph_node_label} is not in the digraph.")
        if key in self.active:
            self.active = (self.active | self.graph.before(key)) - {key}
        self.graph.remove(key)
        if "D8.11" in self.on:
            self.initial = None if key == self.initial else self.initial
        elif not self.graph.vertices:
            raise NetworkXPointlessConcept("Connectivity is undefined for the null graph.")

    def _require_type(self, node_type: str) -> None:
        if node_type not in FIELDS and "D4.7" in self.on:
            raise ValueError(f"there is no node type {node_type!r}: it is one of {', '.join(FIELDS)}")
        if node_type == "Query" and "D3.2" in self.on:
            raise ValueError("A query is registered by register_query.")

    def _sources(self, names: Sequence[str]) -> list[Key]:
        if not names:
            raise ValueError("At least one predecessor node is required.")
        found = {name: self.graph.find(name) for name in names}
        missing = [name for name, key in found.items() if key is None]
        if missing:
            raise ValueError(f"Cannot find predecessor node {missing[0]} on the graph.")
        return [key for name in names if (key := found[name]) is not None]

    def _edge(self, given: str | None, sources: Sequence[str], target: str) -> str:
        kinds = set(sources)
        if given is not None:
            return given
        if target == "Action" and kinds in ({"Query"}, {"State"}):
            return "triggers"
        if target == "State" and kinds in ({"Query"}, {"Action"}, {"State"}):
            return "has_conclusion"
        if target in DATA and kinds == {"Action"} and "D5.4" in self.on:
            return "outputs"
        raise ValueError("No default edge type detected. Please provide an edge type.")

    def _next_label(self, node_type: str) -> str:
        number = self.counts[node_type]
        taken = {label for kind, label in self.graph.ever.values() if kind == node_type}
        while "D4.4" in self.on and f"{node_type.lower()}{number:05}" in taken:
            number += 1
        return f"{node_type.lower()}{number:05}"

    def _attributes(self, node_type: str, label: str, given: dict[str, Any]) -> dict[str, Any]:
        """Return the attributes of a new node; data that are met again keep the attributes that are not given."""
        taken = self.graph.find(name_of(node_type, label))
        may_be = "D4.5" in self.on and taken is not None and (node_type in DATA or taken[0] < self.number)
        if may_be and taken is not None and node_type in DATA:
            before = self.graph.vertices[taken].attributes
            given = {**before, **given, "description": given["description"] or before["description"]}
        if node_type not in FIELDS:
            raise ValueError(f"Current context does not have IR of type '{node_type}'.")
        missing = [name for name in FIELDS[node_type] if name not in given]
        if missing:
            raise ValueError(f"A {node_type} node must contain info about '{missing}'.")
        if taken is not None and not may_be:
            raise ValueError("Multiple nodes with same label detected.")
        return given

    def _added(self, node_type: str, label: str, attributes: dict[str, Any]) -> Key:
        self.counts[node_type] += 1
        return self.graph.add(node_type, label, attributes)

    def _move(self, key: Key, sources: Sequence[Key], add_pt: bool, remove_pt: bool) -> None:
        is_data = self.graph.vertices[key].type in DATA
        if is_data and ("D6.5" in self.on or not (add_pt or remove_pt)):
            return
        for source in [] if add_pt else sources:
            if source not in self.active and "D6.6" not in self.on:
                raise KeyError(self.graph.name(source))
            self.active.discard(source)
        if add_pt or not remove_pt:
            self.active.add(key)

    def _known(self, name: str) -> Key:
        found, parts = self.graph.find(name), NAME.fullmatch(name)
        if parts is None:
            raise ValueError(f"Graph node label '{name}' has illegal format.")
        if parts[1] not in FIELDS:
            raise ValueError(f"Current context does not have IR of type '{parts[1]}'.")
        if found is None:
            raise ValueError(f"Current context does not have IR with label '{parts[2]}' of type '{parts[1]}'.")
        return found

    # What is left

    def pointers(self) -> list[str]:
        """Return the names of the pointers."""
        return sorted(self.graph.name(key) for key in self.active if key in self.graph.vertices)

    def root(self) -> Key | None:
        """Return the query at which the session begins."""
        rounds = range(self.number if "D7.7" in self.on else min(self.number, 1))
        earlier = [query for number, query in self.graph.queries.items() if number in rounds]
        found = (key for key in (*earlier, self.initial) if key is not None)
        return next((key for key in found if key in self.graph.vertices or "D8.11" not in self.on), None)

    def left(self) -> dict[str, Any]:
        """Return what there is at the end."""
        graph, own, root = self.graph, self.graph.vertices_of(self.number), self.root()
        initial = None if self.initial is None else graph.name(self.initial)
        return {
            "nodes": graph.names(graph.vertices),
            "edges": graph.named_edges(graph.vertices),
            "trimmed": graph.names(graph.trimmed(root, self.active)),
            "session_root": None if root is None else graph.name(root),
            "initial": initial,
            "is_dag": graph.is_acyclic(),
            "json_nodes": graph.names(own),
            "json_edges": graph.named_edges(own),
            "meta": {"initial_pt": initial, "current_pt": self.pointers(), "messages": {}},
            "counts": dict(self.counts),
            "histories": graph.histories(),
        }


def _counted(vertices: Iterable[Vertex]) -> dict[str, int]:
    """Return the next number of each type, by the labels of restored nodes."""
    counts = dict.fromkeys(FIELDS, 0)
    for vertex in vertices:
        number = vertex.label.removeprefix(vertex.type.lower())
        if number != vertex.label and number.isdecimal():
            counts[vertex.type] = max(counts[vertex.type], int(number) + 1)
    return counts
