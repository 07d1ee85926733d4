"""The difference between two versions of a run, or two runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click
import msgspec

from ...domain.ids import split_stream_id
from ...domain.trajectory import Trajectory, TrajectoryDiff, TrajectoryEdge
from ...domain.trajectory.history import compared
from .render import aligned, one_line, paint
from .run_show import edge_shape, node_shape
from .run_words import SeenRun, value_text
from .shapes import print_json


def print_run_diff(before: SeenRun, after: SeenRun, *, stat: bool, as_json: bool) -> bool:
    """Print what makes the graph `after` of the graph `before`, and return whether there is anything."""
    old, new = before.run.graph(), after.run.graph()
    difference = _difference(before, old, after, new)
    if as_json:
        sides = {"from": _side_shape(before, old), "to": _side_shape(after, new)}
        print_json({**sides, **(_numbers(difference) if stat else _lists(difference, old, new))})
        return bool(difference)
    labels = (one_line(f"{side.stream}@{side.version}") for side in (before, after))
    click.echo(paint(" -> ".join(labels), "bold"))
    click.echo(paint(_counts(difference), "dim"))
    if stat:
        _print_table(difference)
    else:
        _print_lines(difference)
    return bool(difference)


def _difference(before: SeenRun, old: Trajectory, after: SeenRun, new: Trajectory) -> TrajectoryDiff:
    """Rounds of one session have nodes in common; those of other runs are the same where they are called the same."""
    if before.run.identity[:2] != after.run.identity[:2]:
        old, new = _by_name(old), _by_name(new)
    return compared(old, new)


def _by_name(graph: Trajectory) -> Trajectory:
    nodes = [msgspec.structs.replace(node, birth=node.name) for node in graph.nodes.values()]
    return Trajectory(nodes, graph.edges, root=graph.root, initial=graph.initial, pointers=graph.pointers)


def _side_shape(view: SeenRun, graph: Trajectory) -> dict[str, Any]:
    kind, context = split_stream_id(view.stream)
    numbers = {"nodes": len(graph), "edges": len(graph.edges), "pointers": len(graph.pointers)}
    return {"context": context, "kind": kind, "version": view.version, **numbers}


def _lists(difference: TrajectoryDiff, old: Trajectory, new: Trajectory) -> dict[str, Any]:
    return {
        "nodes_added": [node_shape(new.nodes[name], new) for name in difference.nodes_added],
        "nodes_removed": [node_shape(old.nodes[name], old) for name in difference.nodes_removed],
        "changed": [change._asdict() for change in difference.changed],
        "edges_added": [edge_shape(edge) for edge in difference.edges_added],
        "edges_removed": [edge_shape(edge) for edge in difference.edges_removed],
        "pointers_added": list(difference.pointers_added),
        "pointers_removed": list(difference.pointers_removed),
    }


def _numbers(difference: TrajectoryDiff) -> dict[str, int]:
    return {name: len(entries) for name, entries in msgspec.structs.asdict(difference).items()}


def _counts(difference: TrajectoryDiff) -> str:
    numbers = _numbers(difference)
    changed = len({change.node for change in difference.changed})
    nodes = f"nodes: {numbers['nodes_added']} added, {numbers['nodes_removed']} removed, {changed} changed"
    return f"{nodes}; edges: {numbers['edges_added']} added, {numbers['edges_removed']} removed"


def _print_table(difference: TrajectoryDiff) -> None:
    numbers = _numbers(difference)
    rows = [
        (what, f"+{numbers[f'{what}_added']}", f"-{numbers[f'{what}_removed']}")
        for what in ("nodes", "edges", "pointers")
    ]
    for line in aligned([*rows, ("attributes", f"~{numbers['changed']}", "")], right=(1, 2)):
        click.echo("  " + line)


def _print_lines(difference: TrajectoryDiff) -> None:
    styles = {"+": "green", "-": "red", "~": "yellow"}
    for part in (_nodes(difference), _edges(difference), _pointers(difference)):
        for index, (mark, text) in enumerate(part):
            click.echo(("" if index else "\n") + paint(f"{mark} {one_line(text)}", styles[mark]))


def _nodes(difference: TrajectoryDiff) -> Iterator[tuple[str, str]]:
    yield from (("-", name) for name in difference.nodes_removed)
    yield from (("+", name) for name in difference.nodes_added)
    for change in difference.changed:
        yield "~", f"{change.node} {change.attribute}: {value_text(change.old)} -> {value_text(change.new)}"


def _edges(difference: TrajectoryDiff) -> Iterator[tuple[str, str]]:
    yield from (("-", _edge(edge)) for edge in difference.edges_removed)
    yield from (("+", _edge(edge)) for edge in difference.edges_added)


def _edge(edge: TrajectoryEdge) -> str:
    return f"{edge.source} -> {edge.target} ({edge.type})"


def _pointers(difference: TrajectoryDiff) -> Iterator[tuple[str, str]]:
    yield from (("-", f"pointer {name}") for name in difference.pointers_removed)
    yield from (("+", f"pointer {name}") for name in difference.pointers_added)
