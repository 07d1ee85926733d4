"""How nodes, edges and pointers that are there change."""

from __future__ import annotations

from collections.abc import Iterable

from ...canonical import canonical_json, require_unicode
from ...errors import DecisionRefusedError
from ...spans import Ref
from ..errors import NodeNotFoundError, UnknownAttributeError
from ..events import AttributeChange, EdgeAdded, NodeChanged, NodeRemoved, PointersMoved
from ..nodes import NODE_TYPES, parse_node_name
from ..state.attributes import DESCRIPTION, attributes_of
from ..state.graph import RunGraph
from .commands import AddEdge, ModifyNode, MovePointers, RemoveNode
from .registering import edge_type, require_open


def modified(command: ModifyNode, graph: RunGraph) -> list[NodeChanged]:
    """
    Return the event that changes attributes of a node; none where there is nothing to change.

    Raises:
        NodeNotFoundError: no such node.
        UnknownAttributeError: an attribute that the node does not have, or that cannot be changed; nothing changed.
        InvalidInputError: a value that is no JSON, or a description that is no text.
    """
    ref = resolved(command.name, graph)
    before = attributes_of(graph, ref)
    changes: list[AttributeChange] = []
    for name, value in command.changes.items():
        if name not in before:
            raise UnknownAttributeError(
                f"{command.name} has no attribute {name!r} that can be changed: it has {', '.join(before)}"
            )
        if name == DESCRIPTION:
            require_unicode(value, "the description")
        new = canonical_json(value, what=f"the attribute {name!r} of {command.name}")
        changes.append(AttributeChange(name, canonical_json(before[name], what=name), new))
    return [NodeChanged(node=ref, changes=tuple(changes), made_at=command.made_at)] if changes else []


def removed(command: RemoveNode, graph: RunGraph) -> NodeRemoved:
    """
    Return the event that takes a node out; if it is a pointer, what leads to it becomes one.

    Raises:
        NodeNotFoundError: no such node.
        InvalidInputError: a reason that is no text.
    """
    if command.reason is not None:
        require_unicode(command.reason, "the reason")
    ref = resolved(command.name, graph)
    joined = [edge.end for edge in graph.predecessors(ref)] if ref in graph.state.pointers else []
    return NodeRemoved(node=ref, joined=_new_pointers(joined, graph), reason=command.reason)


def edge_added(command: AddEdge, graph: RunGraph) -> list[EdgeAdded]:
    """
    Return the event that joins two nodes; none where they are joined so already.

    Raises:
        NodeNotFoundError: no such node.
        InvalidInputError: no edge type was given, and there is no usual one.
        DecisionRefusedError: the edge would close a cycle, or lead into a node of an earlier round.
        RunStateError: the run is closed.
    """
    require_open(graph)
    source, target = resolved(command.source, graph), resolved(command.target, graph)
    if target.stream:
        # That round may go on, and join the two the other way round without knowing of this edge.
        raise DecisionRefusedError(
            f"{command.target} is of an earlier round, and no new edge leads into one: register the node again, "
            "and lead to its new version"
        )
    edge = edge_type(command.edge, [graph.type_of(source)], graph.type_of(target))
    if any((known.end, known.type) == (source, edge) for known in graph.predecessors(target)):
        return []
    if graph.closes_cycle(source, target):
        raise DecisionRefusedError(
            f"an edge from {command.source} to {command.target} would close a cycle: register the node again, "
            "and lead to its new version"
        )
    return [EdgeAdded(source=source, target=target, edge=edge)]


def pointers_moved(command: MovePointers, graph: RunGraph) -> list[PointersMoved]:
    """
    Return the event that moves pointers; none where they are so already.

    Raises:
        NodeNotFoundError: no such node.
        RunStateError: the run is closed.
    """
    require_open(graph)
    joined = _new_pointers((resolved(name, graph) for name in command.joined), graph)
    left = tuple(ref for ref in (resolved(name, graph) for name in command.left) if ref in graph.state.pointers)
    return [PointersMoved(left=left, joined=joined)] if left or joined else []


def resolved(name: str, graph: RunGraph) -> Ref:
    """
    Return the vertex that a name means.

    Raises:
        InvalidInputError: the name is not of the form `Type(label)`.
        NodeNotFoundError: there is no such node, or no such type.
    """
    wanted = parse_node_name(name)
    if wanted.type not in NODE_TYPES:
        raise NodeNotFoundError(f"Current context does not have IR of type {wanted.type!r}.")
    return graph.resolve(name)


def _new_pointers(refs: Iterable[Ref], graph: RunGraph) -> tuple[Ref, ...]:
    return tuple(dict.fromkeys(ref for ref in refs if ref not in graph.state.pointers))
