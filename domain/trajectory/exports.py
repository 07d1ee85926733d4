"""A graph in other forms: DOT, Mermaid, node-link JSON and networkx."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..frozen import thaw
from .state.attributes import DESCRIPTION

if TYPE_CHECKING:
    from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode


HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")
# Without the joiners some words and emoji would be spelled wrongly.
JOINERS = "\u200c\u200d"
PICTURES = 0x2400
DELETE = "\x7f"


def node_id(node: TrajectoryNode) -> str:
    """
    Return what a node is called in a drawing's source: the round, the sub-agent and the version that registered it.

    Names can change, when a newer node takes one; this stays.
    """
    version = node.birth.rpartition("@")[2]
    return f"r{node.run_id}s{node.sub_id}v{version}"


def visible(text: str) -> str:
    """
    Return `text` with a sign in the place of each character that is not seen but does something; line breaks stay.
    """
    if text.isprintable():
        return text
    return "".join(map(_shown, text))


def _shown(char: str) -> str:
    if char == "\n" or char in JOINERS or unicodedata.category(char) not in HIDDEN:
        return char
    if char < " ":
        return chr(PICTURES + ord(char))
    return "\N{SYMBOL FOR DELETE}" if char == DELETE else f"⟨U+{ord(char):04X}⟩"


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
# In a label a backslash is a command, and an ampersand may begin the name of a character.
ESCAPES = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n", "&": "&amp;"})


def dot(graph: Trajectory) -> str:
    """Return the graph in DOT: a shape for each type, pointers with a thick line, edges that lead back dashed."""
    return "\n".join(["digraph trajectory {", *_dot_statements(graph), "}"]) + "\n"


def _dot_statements(graph: Trajectory) -> Iterator[str]:
    for name, node in graph.nodes.items():
        yield f"  {node_id(node)} [{_node_attributes(node, name in graph.pointers)}]"
    for edge in graph.edges:
        ends = (node_id(graph.nodes[end]) for end in (edge.source, edge.target))
        yield f"  {' -> '.join(ends)} [{_edge_attributes(edge)}]"


def _node_attributes(node: TrajectoryNode, is_pointer: bool) -> str:
    attributes = [f"label={_dot_quoted(node.name)}", f"shape={DOT_SHAPES[node.type]}"]
    description = node.attributes.get(DESCRIPTION)
    attributes += [f"tooltip={_dot_quoted(str(description))}"] if description else []
    attributes += ["penwidth=3"] if is_pointer else []
    return ", ".join(attributes)


def _edge_attributes(edge: TrajectoryEdge) -> str:
    # An edge that leads back would else turn the drawing upside down.
    back = ", style=dashed, constraint=false" if edge.leads_back else ""
    return f"label={_dot_quoted(edge.type)}{back}"


def _dot_quoted(text: str) -> str:
    return f'"{visible(text).translate(ESCAPES)}"'


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
# At the beginning of a line more signs mean something, as "-" and "1)" do; within a word `_` and `-` mean nothing. The
# last two are what Mermaid puts in the place of `#` and `;` while it works.
MEANING = re.compile(r"^[\W\d_]|[!-'*+.:-<>-@\[-^`{-~ﬂ¶]|(?<![A-Za-z0-9])[_-]|[_-](?![A-Za-z0-9])")
LINE_BREAK = "<br/>"


def mermaid(graph: Trajectory) -> str:
    """Return the graph in Mermaid: a shape for each type, pointers with a thick line, edges that lead back dotted."""
    return "\n".join(["flowchart TD", *_mermaid_statements(graph)]) + "\n"


def _mermaid_statements(graph: Trajectory) -> Iterator[str]:
    ids = {name: node_id(node) for name, node in graph.nodes.items()}
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
    # An empty label is not allowed.
    return f"{arrow}|{_mermaid_quoted(edge.type)}|" if edge.type else arrow


def _mermaid_quoted(text: str) -> str:
    lines = visible(text).split("\n")
    return '"' + LINE_BREAK.join(MEANING.sub(_number, line) for line in lines) + '"'


def _number(found: re.Match[str]) -> str:
    return f"#{ord(found.group())};"


Attributes = dict[str, Any]


def node_link(graph: Trajectory) -> dict[str, Any]:
    """
    Return what networkx's `node_link_data(graph, edges="edges")` returns; a field `id` gives way to the node's name.
    """
    edges = joined_edges(graph)
    return {
        "directed": True,
        "multigraph": False,
        "graph": graph_attributes(graph),
        "nodes": [{**node_attributes(node), "id": name} for name, node in graph.nodes.items()],
        "edges": [
            {**attributes, "source": source, "target": target}
            for source, ends in edges.items()
            for target, attributes in ends.items()
        ],
    }


def graph_attributes(graph: Trajectory) -> Attributes:
    """Return what is said of the graph as a whole: its root, the round's query, and the pointers in their order."""
    pointers = [name for name in graph.nodes if name in graph.pointers]
    return {"root": graph.root, "initial": graph.initial, "pointers": pointers}


def node_attributes(node: TrajectoryNode) -> Attributes:
    """Return the attributes that a node has in the seed's graph: type, round, description and fields, as copies."""
    return {"node_type": node.type, "run_id": node.run_id, **thaw(node.attributes)}


def joined_edges(graph: Trajectory) -> dict[str, dict[str, Attributes]]:
    """Return the attributes of the edges by their sources, in the order of the nodes, and their targets."""
    joined: dict[str, dict[str, Attributes]] = {name: {} for name in graph.nodes}
    for edge in graph.edges:
        known = joined[edge.source].setdefault(edge.target, {})
        types = [*known.get("edge_types", [known["edge_type"]] if known else []), edge.type]
        known.update(edge_type=edge.type, relationship=edge.type)
        if len(types) > 1:
            known["edge_types"] = types
        if edge.leads_back:
            known["leads_back"] = True
    return joined


def network(graph: Trajectory) -> Any:
    """
    Return a networkx DiGraph with the same nodes and edges; it is a copy, and belongs to who asked for it.

    Raises:
        ImportError: networkx is not installed.
    """
    try:
        import networkx
    except ImportError as error:
        message = 'a networkx graph needs that package: pip install "refold[graph]"'
        raise ImportError(message, name="networkx") from error
    made = networkx.DiGraph(**graph_attributes(graph))
    # As dicts, since an attribute may have any name, also that of a parameter.
    made.add_nodes_from((name, node_attributes(node)) for name, node in graph.nodes.items())
    made.add_edges_from(
        (source, target, attributes)
        for source, ends in joined_edges(graph).items()
        for target, attributes in ends.items()
    )
    return made
