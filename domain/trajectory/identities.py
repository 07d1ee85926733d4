"""The graph in which each data node is there once, however often it was met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec

from .naming import node_name
from .nodes import DATA
from .trajectory import Trajectory, TrajectoryEdge, TrajectoryNode


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
