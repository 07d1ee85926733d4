"""A graph for people: a line for each node, in the order of registration, with what it leads to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from ....domain.trajectory import Trajectory, TrajectoryEdge
from ..naming import counted, joined
from ..seen_run import SeenRun
from ..showing import print_head
from ..terminal import aligned, cut, is_cut_short, one_line, paint, terminal_width

HEADINGS = ("", "ROUND", "AT", "NODE", "LEADS TO")
POINTER = "*"


def print_graph(view: SeenRun, graph: Trajectory) -> None:
    """Print a graph of a run: pointers with a star, edges that lead back with `(back)`."""
    counts = [counted(len(graph), "node"), counted(len(graph.edges), "edge"), counted(len(graph.pointers), "pointer")]
    print_head(view, joined(counts))
    if not len(graph):
        return
    rows = [HEADINGS, *_rows(graph)]
    if len({(node.run_id, node.sub_id) for node in graph.nodes.values()}) == 1:
        rows = [(row[0], *row[2:]) for row in rows]
    heading, *lines = [_fitted(line) for line in aligned(rows, right=range(1, len(rows[0]) - 2))]
    click.echo("\n" + paint(heading, "dim"))
    for line in lines:
        click.echo(line)


def _rows(graph: Trajectory) -> Iterator[tuple[str, ...]]:
    leading: dict[str, list[TrajectoryEdge]] = {name: [] for name in graph}
    for edge in graph.edges:
        leading[edge.source].append(edge)
    for name, node in graph.nodes.items():
        yield (
            POINTER if name in graph.pointers else "",
            f"{node.run_id}.{node.sub_id}" if node.sub_id else str(node.run_id),
            "@" + node.birth.rpartition("@")[2],
            one_line(name),
            _ends(leading[name]),
        )


def _ends(edges: Sequence[TrajectoryEdge]) -> str:
    """Ends of the same type come together: an action may have led to a hundred tables."""
    by_type: dict[str, list[str]] = {}
    for edge in edges:
        by_type.setdefault(edge.type, []).append(edge.target + (" (back)" if edge.leads_back else ""))
    return one_line("; ".join(f"{edge_type} {', '.join(ends)}" for edge_type, ends in by_type.items()))


def _fitted(line: str) -> str:
    return cut(line, terminal_width()) if is_cut_short() else line
