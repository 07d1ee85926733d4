"""
The graph of a run as a page of HTML that needs no library: a drawing in SVG, and each node's attributes below it.

The drawing has a row for each distance from the beginning. An edge goes down, except one that leads back.
"""

from __future__ import annotations

import html
import json
from graphlib import TopologicalSorter

from ..frozen import thaw
from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode, forward_sources, visible

# The sizes of the drawing, in pixels.
WIDTH, HEIGHT = 190, 44
COLUMN, ROW = WIDTH + 40, HEIGHT + 66
MARGIN = 20
# The characters of a name that fit in a box.
NAME_CHARACTERS = 26
COLOURS = {"Query": "#cfe2ff", "State": "#d1f0d9", "Action": "#ffe3b8"}
DATA_COLOUR = "#e9e9ef"
STYLE = (
    "body{font:14px system-ui,sans-serif;margin:24px}svg text{font:12px system-ui,sans-serif;text-anchor:middle}"
    "svg .type{fill:#555;font-size:11px}summary{cursor:pointer}pre{background:#f6f6f8;padding:8px;white-space:pre-wrap}"
)
ARROW = (
    '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0L8 4L0 8z" fill="#777"/></marker></defs>'
)
Places = dict[str, tuple[int, int]]


def to_html(graph: Trajectory, title: str) -> str:
    """Return the page; pointers have a thick line, edges that lead back are dashed."""
    places = _places(graph)
    width = MARGIN * 2 + max((x for x, _ in places.values()), default=0) + WIDTH
    height = MARGIN * 2 + max((y for _, y in places.values()), default=0) + HEIGHT
    nodes = graph.nodes.values()
    return "\n".join(
        [
            f'<!DOCTYPE html>\n<html lang="en">\n<meta charset="utf-8">\n<title>{_text(title)}</title>',
            f"<style>{STYLE}</style>\n<h1>{_text(title)}</h1>",
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}">{ARROW}',
            *(_edge(edge, places) for edge in graph.edges),
            *(_box(node, places, node.name in graph.pointers) for node in nodes),
            "</svg>",
            *(_details(node) for node in nodes),
            "</html>\n",
        ]
    )


def _places(graph: Trajectory) -> Places:
    """Return the corner of each node's box: its row is below the rows of all nodes with an edge to it."""
    before = forward_sources(graph)
    rows: dict[str, int] = {}
    for name in TopologicalSorter(before).static_order():
        rows[name] = 1 + max((rows[one] for one in before[name]), default=-1)
    columns: dict[int, int] = {}
    places: Places = {}
    for name in graph.nodes:
        row = rows[name]
        column = columns[row] = columns.get(row, -1) + 1
        places[name] = (MARGIN + column * COLUMN, MARGIN + row * ROW)
    return places


def _box(node: TrajectoryNode, places: Places, is_pointer: bool) -> str:
    x, y = places[node.name]
    line = 3 if is_pointer else 1
    label = node.label if len(node.label) <= NAME_CHARACTERS else f"{node.label[: NAME_CHARACTERS - 1]}…"
    return (
        f'<a href="#{_anchor(node)}"><g><title>{_text(node.name)}</title>'
        f'<rect x="{x}" y="{y}" width="{WIDTH}" height="{HEIGHT}" rx="7" stroke="#555" stroke-width="{line}" '
        f'fill="{COLOURS.get(node.type, DATA_COLOUR)}"/>'
        f'<text class="type" x="{x + WIDTH // 2}" y="{y + 17}">{_text(node.type)}</text>'
        f'<text x="{x + WIDTH // 2}" y="{y + 34}">{_text(label)}</text></g></a>'
    )


def _edge(edge: TrajectoryEdge, places: Places) -> str:
    (x1, y1), (x2, y2) = places[edge.source], places[edge.target]
    x1, y1, x2 = x1 + WIDTH // 2, y1 + HEIGHT, x2 + WIDTH // 2
    dashes = ' stroke-dasharray="4"' if edge.leads_back else ""
    return (
        f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="#777" marker-end="url(#arrow)"{dashes}/>'
        f'<text class="type" x="{(x1 + x2) // 2}" y="{(y1 + y2) // 2}">{_text(edge.type)}</text>'
    )


def _details(node: TrajectoryNode) -> str:
    attributes = json.dumps(thaw(node.attributes), ensure_ascii=False, indent=2)
    return (
        f'<details id="{_anchor(node)}"><summary>{_text(node.name)}</summary><pre>{_text(attributes)}</pre></details>'
    )


def _anchor(node: TrajectoryNode) -> str:
    return _text(node.birth)


def _text(text: str) -> str:
    return html.escape(visible(text))
