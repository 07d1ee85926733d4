"""
A graph as a flowchart in Mermaid.

Mermaid reads a label as Markdown and HTML, and knows no escapes but the numbers of characters (`#34;`). So every sign
that could mean something, now or there, is written by its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .drawing import node_id, visible

if TYPE_CHECKING:
    from ..trajectory import Trajectory, TrajectoryEdge

SHAPES = {
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
    return "\n".join(["flowchart TD", *_statements(graph)]) + "\n"


def _statements(graph: Trajectory) -> Iterator[str]:
    ids = {name: node_id(node) for name, node in graph.nodes.items()}
    for name, node in graph.nodes.items():
        opening, closing = SHAPES[node.type]
        yield f"  {ids[name]}{opening}{_quoted(name)}{closing}"
    for edge in graph.edges:
        yield f"  {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}"
    pointers = [ids[name] for name in graph.nodes if name in graph.pointers]
    if pointers:
        yield "  classDef pointer stroke-width:4px"
        yield f"  class {','.join(pointers)} pointer"


def _arrow(edge: TrajectoryEdge) -> str:
    arrow = "-.->" if edge.leads_back else "-->"
    # An empty label is not allowed.
    return f"{arrow}|{_quoted(edge.type)}|" if edge.type else arrow


def _quoted(text: str) -> str:
    lines = visible(text).split("\n")
    return '"' + LINE_BREAK.join(MEANING.sub(_number, line) for line in lines) + '"'


def _number(found: re.Match[str]) -> str:
    return f"#{ord(found.group())};"
