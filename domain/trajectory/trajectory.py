"""
The graph of a run at one moment, by names: to read, to compare and to export.

The graph of versions is acyclic: a node that was met again has a vertex for each time. The graph of identities has each
data node once, and marks the edges that then lead back.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from ..concurrency.locks import cached_property
from ..frozen import thaw
from ..spans import Ref
from .nodes import DATA, DESCRIPTION, NodeNotFoundError, node_name

T = TypeVar("T", bound=Hashable)
V = TypeVar("V")
HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Zero-width joiners stay, since some words and emoji need them.
JOINERS = "\u200c\u200d"
PICTURES = 0x2400
DELETE = "\x7f"
DOT_SHAPES = {
    "Query": "oval",
    "State": "hexagon",
    "Action": "box",
    "Knowledge": "note",
    "Tool": "component",
    "Table": "cylinder",
    "Column": "tab",
    "File": "folder",
    "Script": "cds",
    "Skill": "box3d",
}
# In a label, a backslash begins a command, and an ampersand may begin a character entity.
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "&": "&amp;"})
MERMAID_SHAPES = {
    "Query": ("([", "])"),
    "State": ("{{", "}}"),
    "Action": ("[", "]"),
    "Knowledge": (">", "]"),
    "Tool": ("[/", "\\]"),
    "Table": ("[(", ")]"),
    "Column": ("[/", "/]"),
    "File": ("(", ")"),
    "Script": ("[[", "]]"),
    "Skill": ("[\\", "/]"),
}
# The signs that have a meaning in Markdown: at the beginning of a line also signs like "-" and "1)", and `_` and `-`
# except within a word. Mermaid itself uses the last two signs of the second group in the place of `#` and `;`.
MARKDOWN = re.compile(r"^[\W\d_]|[!-'*+.:-<>-@\[-^`{-~ﬂ¶]|(?<![A-Za-z0-9])[_-]|[_-](?![A-Za-z0-9])")
LINE_BREAK = "<br/>"


class TrajectoryNode(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    A node: its name, type and label, the round and sub-agent that registered it, and its attributes.

    `birth` is the node's origin, `stream@version` of the event that registered it. It stays the same when a newer node
    takes over the name.
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
    """An edge by the names of its ends; `leads_back` marks an edge that closes a cycle of identities."""

    source: str
    target: str
    type: str
    leads_back: bool = False


class Trajectory:
    """
    A graph that does not change: `nodes` by name in the order of registration, and `edges`.

    `root` is the session's first query, `initial` the round's own query, `pointers` the ends of its active branches.

    Raises:
        NodeNotFoundError: the graph has no node with the name that was given to a call.
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
        return (
            self.nodes,
            sorted(self.edges, key=attrgetter("source", "target", "type")),
            self.root,
            self.initial,
            self.pointers,
        )

    @cached_property
    def _following(self) -> dict[str, list[str]]:
        return by_end(self.nodes, ((edge.source, edge.target) for edge in self.edges))

    @cached_property
    def _preceding(self) -> dict[str, list[str]]:
        return by_end(self.nodes, ((edge.target, edge.source) for edge in self.edges))

    def successors(self, name: str) -> list[str]:
        """Return the names of the nodes with an edge from a node."""
        return list(_ends_at(self._following, name))

    def predecessors(self, name: str) -> list[str]:
        """Return the names of the nodes with an edge to a node."""
        return list(_ends_at(self._preceding, name))

    def descendants(self, name: str) -> set[str]:
        """Return the names of the nodes with a path from a node."""
        _ends_at(self._following, name)
        return set(reached([name], self._following.__getitem__))

    def ancestors(self, name: str) -> set[str]:
        """Return the names of the nodes with a path to a node."""
        _ends_at(self._preceding, name)
        return set(reached([name], self._preceding.__getitem__))

    def trimmed(self) -> Trajectory:
        """
        Return the graph of the active branches only.

        Actions without a path to a pointer are left out, then nodes without a path from the root. If the graph has no
        pointers or no root, nothing is left out.
        """
        if not self.pointers or self.root is None:
            return self
        active = self.pointers.union(reached(self.pointers, self._preceding.__getitem__))
        staying = {name for name, node in self.nodes.items() if node.type != "Action" or name in active}
        following = {
            name: [end for end in ends if end in staying] for name, ends in self._following.items() if name in staying
        }
        return self.limited_to([self.root, *reached([self.root], following.__getitem__)])

    def limited_to(self, names: Iterable[str]) -> Trajectory:
        """Return the graph with only these nodes, or this one, and the edges between them."""
        wanted = {names} if isinstance(names, str) else set(names)
        for name in wanted:
            _ends_at(self._following, name)
        return Trajectory(
            (node for name, node in self.nodes.items() if name in wanted),
            (edge for edge in self.edges if edge.source in wanted and edge.target in wanted),
            root=self.root if self.root in wanted else None,
            initial=self.initial if self.initial in wanted else None,
            pointers=self.pointers & wanted,
        )

    @cached_property
    def is_acyclic(self) -> bool:
        """Whether no path leads from a node to itself; edges with `leads_back` do not count."""
        try:
            TopologicalSorter(forward_sources(self)).prepare()
        except CycleError:
            return False
        return True

    def by_identity(self) -> Trajectory:
        """
        Return the graph in which each data node occurs once, at its first place and with its last attributes.

        An edge that would then close a cycle is marked: it leads back to an earlier node.
        """
        names = {name: _identity(node) for name, node in self.nodes.items()}
        # A later vertex of a node replaces the attributes; the node keeps its place in the order.
        nodes = {names[name]: msgspec.structs.replace(node, name=names[name]) for name, node in self.nodes.items()}
        return Trajectory(
            nodes.values(),
            dict.fromkeys(_marked(self, names)),
            root=self.root and names[self.root],
            initial=self.initial and names[self.initial],
            pointers=(names[name] for name in self.pointers),
        )

    # Other formats

    def to_networkx(self) -> Any:
        """
        Return a copy as a networkx DiGraph.

        Nodes have their names, `node_type`, `run_id`, `description` and their fields; edges have `edge_type` and
        `relationship`.

        Raises:
            ImportError: networkx is not installed; the extra `refold[graph]` brings it.
        """
        try:
            import networkx
        except ImportError as error:
            message = 'a networkx graph needs that package: pip install "refold[graph]"'
            raise ImportError(message, name="networkx") from error
        made = networkx.DiGraph(**_graph_attributes(self))
        # Given as dicts, since an attribute may have the same name as a parameter.
        made.add_nodes_from((name, _node_attributes(node)) for name, node in self.nodes.items())
        made.add_edges_from(_joined_edges(self))
        return made

    def to_node_link(self) -> dict[str, Any]:
        """
        Return the result of networkx's `node_link_data(graph, edges="edges")`, without needing networkx.

        The key `id` has the node's name, even if the node has a field `id`.
        """
        return {
            "directed": True,
            "multigraph": False,
            "graph": _graph_attributes(self),
            "nodes": [{**_node_attributes(node), "id": name} for name, node in self.nodes.items()],
            "edges": [
                {**attributes, "source": source, "target": target} for source, target, attributes in _joined_edges(self)
            ],
        }

    def to_dot(self) -> str:
        """
        Return a drawing in DOT, for Graphviz.

        Each type has a shape, pointers have a thick line, and edges that lead back are dashed.
        """
        return "\n".join(["digraph trajectory {", *_dot_statements(self), "}"]) + "\n"

    def to_mermaid(self) -> str:
        """
        Return a drawing in Mermaid, which many Markdown viewers show.

        Each type has a shape, pointers have a thick line, and edges that lead back are dotted.
        """
        return "\n".join(["flowchart TD", *_mermaid_statements(self)]) + "\n"


def reached(starts: Iterable[T], following: Callable[[T], Iterable[T]]) -> Iterator[T]:
    """Yield once each vertex with a path from one of `starts`; a start itself only if a path leads back to it."""
    seen: set[T] = set()
    waiting = list(starts)
    while waiting:
        for one in following(waiting.pop()):
            if one not in seen:
                seen.add(one)
                waiting.append(one)
                yield one


def by_end(names: Iterable[str], pairs: Iterable[tuple[str, V]]) -> dict[str, list[V]]:
    """Return the edges, or the other ends of the edges, by the end that each pair begins with; each name is a key."""
    found: dict[str, list[V]] = {name: [] for name in names}
    for end, value in pairs:
        found[end].append(value)
    return found


def forward_sources(graph: Trajectory) -> dict[str, list[str]]:
    """Return the sources of the edges to each node; edges that lead back are left out, so there is no cycle."""
    return by_end(graph.nodes, ((edge.target, edge.source) for edge in graph.edges if not edge.leads_back))


def _ends_at(ends: Mapping[str, list[str]], name: str) -> list[str]:
    found = ends.get(name)
    if found is None:
        raise NodeNotFoundError(f"there is no node {name!r} in this graph")
    return found


def _identity(node: TrajectoryNode) -> str:
    return node_name(node.type, node.label) if node.type in DATA else node.name


def _marked(graph: Trajectory, names: Mapping[str, str]) -> Iterator[TrajectoryEdge]:
    """Yield the edges with new names of their ends, and mark those that close a cycle."""
    following: dict[str, list[str]] = {name: [] for name in names.values()}
    for edge in graph.edges:
        source, target = names[edge.source], names[edge.target]
        # Usually the target is new and has no edges yet, so this is fast.
        leads_back = source == target or source in reached([target], following.__getitem__)
        if not leads_back:
            following[source].append(target)
        yield TrajectoryEdge(source, target, edge.type, leads_back)


# Plain data and networkx


def _graph_attributes(graph: Trajectory) -> dict[str, Any]:
    pointers = [name for name in graph.nodes if name in graph.pointers]
    return {"root": graph.root, "initial": graph.initial, "pointers": pointers}


def _node_attributes(node: TrajectoryNode) -> dict[str, Any]:
    """Return the attributes of a node in the seed's graph: type, round, description and fields, as copies."""
    return {"node_type": node.type, "run_id": node.run_id, **thaw(node.attributes)}


def _joined_edges(graph: Trajectory) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield source, target and attributes of edges; a DiGraph has one edge between two nodes, with all their types."""
    joined: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in graph.nodes}
    for edge in graph.edges:
        known = joined[edge.source].setdefault(edge.target, {})
        types = [*known.get("edge_types", [known["edge_type"]] if known else []), edge.type]
        known.update(edge_type=edge.type, relationship=edge.type)
        if len(types) > 1:
            known["edge_types"] = types
        if edge.leads_back:
            known["leads_back"] = True
    return ((source, end, attributes) for source, ends in joined.items() for end, attributes in ends.items())


# Drawings


def _drawing_id(node: TrajectoryNode) -> str:
    """
    Return the id of a node in the source of a drawing: the round, the sub-agent and the version that registered it.

    The name of a node can change, this id cannot.
    """
    return f"r{node.run_id}s{node.sub_id}v{Ref.parse(node.birth).version}"


def visible(text: str) -> str:
    """Return `text` with a sign for each invisible character that has an effect; line breaks stay."""
    if text.isprintable():
        return text
    return "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char == "\n" or char in JOINERS or unicodedata.category(char) not in HIDDEN:
        return char
    if char < " ":
        return chr(PICTURES + ord(char))
    return "\N{SYMBOL FOR DELETE}" if char == DELETE else f"⟨U+{ord(char):04X}⟩"


def _dot_statements(graph: Trajectory) -> Iterator[str]:
    for name, node in graph.nodes.items():
        yield f"  {_drawing_id(node)} [{_dot_node_attributes(node, name in graph.pointers)}]"
    for edge in graph.edges:
        ends = (_drawing_id(graph.nodes[end]) for end in (edge.source, edge.target))
        yield f"  {' -> '.join(ends)} [{_dot_edge_attributes(edge)}]"


def _dot_node_attributes(node: TrajectoryNode, is_pointer: bool) -> str:
    attributes = [f"label={_dot_quoted(node.name)}", f"shape={DOT_SHAPES[node.type]}"]
    description = node.attributes.get(DESCRIPTION)
    attributes += [f"tooltip={_dot_quoted(str(description))}"] if description else []
    attributes += ["penwidth=3"] if is_pointer else []
    return ", ".join(attributes)


def _dot_edge_attributes(edge: TrajectoryEdge) -> str:
    # Without this, an edge that leads back would turn the drawing upside down.
    back = ", style=dashed, constraint=false" if edge.leads_back else ""
    return f"label={_dot_quoted(edge.type)}{back}"


def _dot_quoted(text: str) -> str:
    return f'"{visible(text).translate(ESCAPES)}"'


def _mermaid_statements(graph: Trajectory) -> Iterator[str]:
    ids = {name: _drawing_id(node) for name, node in graph.nodes.items()}
    for name, node in graph.nodes.items():
        opening, closing = MERMAID_SHAPES[node.type]
        yield f"  {ids[name]}{opening}{_mermaid_quoted(name)}{closing}"
    for edge in graph.edges:
        yield f"  {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}"
    pointers = [ids[name] for name in graph.nodes if name in graph.pointers]
    if pointers:
        yield "  classDef pointer stroke-width:4px"
        yield f"  class {','.join(pointers)} pointer"


def _arrow(edge: TrajectoryEdge) -> str:
    arrow = "-.->" if edge.leads_back else "-->"
    # Mermaid allows no empty label.
    return f"{arrow}|{_mermaid_quoted(edge.type)}|" if edge.type else arrow


def _mermaid_quoted(text: str) -> str:
    lines = visible(text).split("\n")
    return '"' + LINE_BREAK.join(MARKDOWN.sub(_number, line) for line in lines) + '"'


def _number(found: re.Match[str]) -> str:
    return f"#{ord(found.group())};"
