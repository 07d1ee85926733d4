"""The difference between two moments of a graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from .trajectory import Trajectory, TrajectoryEdge


class ChangedAttribute(NamedTuple):
    """An attribute of a node before and after; None where it was not there."""

    node: str
    attribute: str
    old: Any
    new: Any


class TrajectoryDiff(msgspec.Struct, frozen=True, kw_only=True):
    """Nodes added, removed and changed from the first moment to the second; all by name."""

    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()
    changed: tuple[ChangedAttribute, ...] = ()
    edges_added: tuple[TrajectoryEdge, ...] = ()
    edges_removed: tuple[TrajectoryEdge, ...] = ()
    pointers_added: tuple[str, ...] = ()
    pointers_removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(msgspec.structs.astuple(self))


def compared(before: Trajectory, after: Trajectory) -> TrajectoryDiff:
    """Return what is different between two graphs. What is in both has the name that it has in the second."""
    old = {node.birth: node for node in before.nodes.values()}
    new = {node.birth: node for node in after.nodes.values()}
    # Two nodes may bear one name, each in its time; so all is compared by births.
    now_called = {node.name: new[birth].name if birth in new else node.name for birth, node in old.items()}
    old_edges, new_edges = _edges_by_births(before), _edges_by_births(after)
    old_pointers, new_pointers = _pointers_by_births(before), _pointers_by_births(after)
    return TrajectoryDiff(
        nodes_added=tuple(node.name for birth, node in new.items() if birth not in old),
        nodes_removed=tuple(node.name for birth, node in old.items() if birth not in new),
        changed=tuple(
            change
            for birth, node in new.items()
            if birth in old
            for change in _changed(node.name, old[birth].attributes, node.attributes)
        ),
        edges_added=tuple(edge for births, edge in new_edges.items() if births not in old_edges),
        edges_removed=tuple(
            _renamed(edge, now_called) for births, edge in old_edges.items() if births not in new_edges
        ),
        pointers_added=tuple(sorted(name for birth, name in new_pointers.items() if birth not in old_pointers)),
        pointers_removed=tuple(
            sorted(now_called[name] for birth, name in old_pointers.items() if birth not in new_pointers)
        ),
    )


def _edges_by_births(graph: Trajectory) -> dict[tuple[str, str, str, bool], TrajectoryEdge]:
    birth = {name: node.birth for name, node in graph.nodes.items()}
    return {(birth[edge.source], birth[edge.target], edge.type, edge.leads_back): edge for edge in graph.edges}


def _pointers_by_births(graph: Trajectory) -> dict[str, str]:
    return {graph.nodes[name].birth: name for name in graph.pointers}


def _renamed(edge: TrajectoryEdge, names: Mapping[str, str]) -> TrajectoryEdge:
    return msgspec.structs.replace(edge, source=names[edge.source], target=names[edge.target])


def _changed(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[ChangedAttribute]:
    return [
        ChangedAttribute(name, attribute, old.get(attribute), new.get(attribute))
        for attribute in {**old, **new}
        if old.get(attribute) != new.get(attribute) or (attribute in old) != (attribute in new)
    ]
