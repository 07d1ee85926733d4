"""A graph in DOT, the language of Graphviz."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..state.attributes import DESCRIPTION
from .drawing import node_id, visible

if TYPE_CHECKING:
    from ..trajectory import Trajectory, TrajectoryEdge, TrajectoryNode

SHAPES = {
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
    return "\n".join(["digraph trajectory {", *_statements(graph), "}"]) + "\n"


def _statements(graph: Trajectory) -> Iterator[str]:
    for name, node in graph.nodes.items():
        yield f"  {node_id(node)} [{_node_attributes(node, name in graph.pointers)}]"
    for edge in graph.edges:
        ends = (node_id(graph.nodes[end]) for end in (edge.source, edge.target))
        yield f"  {' -> '.join(ends)} [{_edge_attributes(edge)}]"


def _node_attributes(node: TrajectoryNode, is_pointer: bool) -> str:
    attributes = [f"label={_quoted(node.name)}", f"shape={SHAPES[node.type]}"]
    description = node.attributes.get(DESCRIPTION)
    attributes += [f"tooltip={_quoted(str(description))}"] if description else []
    attributes += ["penwidth=3"] if is_pointer else []
    return ", ".join(attributes)


def _edge_attributes(edge: TrajectoryEdge) -> str:
    # An edge that leads back would else turn the drawing upside down.
    back = ", style=dashed, constraint=false" if edge.leads_back else ""
    return f"label={_quoted(edge.type)}{back}"


def _quoted(text: str) -> str:
    return f'"{visible(text).translate(ESCAPES)}"'
