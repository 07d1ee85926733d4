"""
The versions of a node, with the actor, the time and the cause of each; and the difference between two graphs.

A version of a node is an event about it: the node was registered, met again, changed, described, or removed. Versions
are counted from 1 over all rounds that the run goes back over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import msgspec

from ..canonical import parse_json
from ..errors import DecisionRefusedError, NotFoundError
from ..log.envelope import RecordedEvent
from ..log.ports import Log
from ..positions import Position
from ..spans import Ref
from .events import NodeChanged, NodeEvent, NodeRemoved, PortraitWritten, made_at
from .graph import RunGraph
from .nodes import DATA, DESCRIPTION, NodeNotFoundError
from .trajectory import Trajectory, TrajectoryEdge

T = TypeVar("T")


class NodeVersion(NamedTuple):
    """
    One version of a node: its vertex, the kind of event that made it, and its attributes afterwards.

    `kind` is `registered`, `met_again`, `changed`, `portrait` or `removed`.
    """

    version: int
    vertex: Ref
    kind: str
    recorded: RecordedEvent
    attributes: dict[str, Any]


class AttributeVersion(NamedTuple):
    """
    An attribute before and after a version of its node; None where the node did not have it.

    `recorded_at` is in microseconds since 1970, UTC; `cause` is `stream@version` of the event that caused this one,
    `reference` that of the event itself. `made_at` is in seconds; for an imported change it is earlier than
    `recorded_at`.
    """

    version: int
    attribute: str
    old: Any
    new: Any
    kind: str
    recorded_at: int
    actor: str | None
    cause: str | None
    correlation_id: str | None
    position: Position
    reference: str
    made_at: float


class _Place(NamedTuple):
    """The place of an event about a vertex."""

    vertex: Ref
    stream: str
    version: int


def node_versions(graph: RunGraph, log: Log, stream: str, ref: Ref, recorded: Mapping[str, int]) -> list[NodeVersion]:
    """
    Return the versions of the node of a vertex; `stream` is that of the run itself.

    `recorded` maps the streams that an open transaction has changed to their last version in the log.

    A data node is the same node in all rounds; a computation node belongs to one round.
    """
    node_type = graph.type_of(ref)
    vertices = graph.vertices_named(node_type, graph.event(ref).label) if node_type in DATA else [ref]
    places = [place for vertex in vertices for place in _places(graph, vertex, stream)]
    versions: list[NodeVersion] = []
    # The attributes of each vertex. After the newest vertex is removed, the node has those of the vertex before it.
    living: dict[Ref, dict[str, Any]] = {}
    for place, event in zip(places, _read(log, places, recorded), strict=True):
        kind, attributes = _kind_and_attributes(event, living.pop(place.vertex, {}), is_first=not versions)
        if kind == "removed":
            attributes = next(reversed(living.values()), {})
        else:
            living[place.vertex] = attributes
        versions.append(NodeVersion(len(versions) + 1, place.vertex, kind, event, attributes))
    return versions


def attribute_versions(versions: Iterable[NodeVersion], attribute: str | None) -> list[AttributeVersion]:
    """
    Return the changes from version to version, of one attribute or of all.

    Raises:
        NotFoundError: the node never had such an attribute.
    """
    found: list[AttributeVersion] = []
    before: dict[str, Any] = {}
    names: dict[str, None] = {}
    for version in versions:
        names.update(dict.fromkeys(version.attributes))
        for name in {**before, **version.attributes}:
            if attribute in (None, name) and _is_changed(version, name, before):
                found.append(_attribute_version(version, name, before))
        before = version.attributes
    if attribute is not None and attribute not in names:
        raise NotFoundError(f"the node never had an attribute {attribute!r}: it has {', '.join(names)}")
    return found


def numbered_version(versions: Sequence[NodeVersion], name: str, number: int) -> NodeVersion:
    """
    Return one of the versions of the node `name`: counted from 1, or negative from the last.

    Raises:
        NodeNotFoundError: there is no such version, or it removed the last vertex of the node.
    """
    place = number - 1 if number > 0 else len(versions) + number
    if not 0 <= place < len(versions) or number == 0:
        raise NodeNotFoundError(f"{name} has no version {number}: it has 1 to {len(versions)}")
    found = versions[place]
    if not found.attributes:
        raise NodeNotFoundError(f"{name} was removed by its version {found.version}: take the version before")
    return found


def present_vertex(versions: Iterable[NodeVersion]) -> Ref:
    """Return the newest vertex that is not removed after these versions: it has the attributes of the node."""
    living: dict[Ref, None] = {}
    for version in versions:
        if version.kind == "removed":
            living.pop(version.vertex, None)
        else:
            living[version.vertex] = None
    return next(reversed(living))


def _places(graph: RunGraph, vertex: Ref, stream: str) -> list[_Place]:
    """Return the places of the events about a vertex, in order."""
    own = vertex.stream or stream
    places = [_Place(vertex, own, vertex.version)]
    places += [_Place(vertex, changed or stream, change.version) for changed, change in graph.changes_of(vertex)]
    removal = graph.removal_of(vertex)
    if removal is not None:
        places.append(_Place(vertex, removal.stream or stream, removal.version))
    return places


def _read(log: Log, places: Iterable[_Place], recorded: Mapping[str, int]) -> list[RecordedEvent]:
    # The log may have events of another writer under the versions that the transaction decided on.
    is_open = any(place.version > recorded.get(place.stream, place.version) for place in places)
    found = [log.read(place.stream, after=place.version - 1, until=place.version) for place in places]
    if is_open or not all(found):
        raise DecisionRefusedError("the versions of a node can be read when the transaction that changes it has ended")
    return [event for (event,) in found]


def _kind_and_attributes(
    recorded: RecordedEvent, before: dict[str, Any], *, is_first: bool
) -> tuple[str, dict[str, Any]]:
    """Return the kind of version that an event made, and the attributes after it."""
    event = recorded.event
    match event:
        case NodeEvent(description=description, fields=fields):
            return "registered" if is_first else "met_again", {DESCRIPTION: description, **parse_json(fields)}
        case NodeChanged(changes=changes) | PortraitWritten(changes=changes):
            kind = "portrait" if isinstance(event, PortraitWritten) else "changed"
            return kind, {**before, **{one.name: parse_json(one.new) for one in changes}}
        case NodeRemoved():
            return "removed", {}
    raise AssertionError(f"{recorded.reference} is no version of a node")


def _is_changed(version: NodeVersion, name: str, before: dict[str, Any]) -> bool:
    if version.kind == "changed":
        # A change to the same value is a change, too.
        return any(one.name == name for one in version.recorded.event.changes)
    return name not in before or name not in version.attributes or before[name] != version.attributes[name]


def _attribute_version(version: NodeVersion, name: str, before: dict[str, Any]) -> AttributeVersion:
    recorded = version.recorded
    return AttributeVersion(
        version=version.version,
        attribute=name,
        old=before.get(name),
        new=version.attributes.get(name),
        kind=version.kind,
        recorded_at=recorded.recorded_at,
        actor=recorded.meta.actor,
        cause=recorded.meta.causation,
        correlation_id=recorded.meta.correlation_id,
        position=recorded.position,
        reference=recorded.reference,
        made_at=made_at(recorded),
    )


class ChangedAttribute(NamedTuple):
    """An attribute of a node before and after; None where the node did not have it."""

    node: str
    attribute: str
    old: Any
    new: Any


class TrajectoryDiff(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that were added, removed and changed between two moments; all by name."""

    nodes_added: tuple[str, ...] = ()
    nodes_removed: tuple[str, ...] = ()
    changed: tuple[ChangedAttribute, ...] = ()
    edges_added: tuple[TrajectoryEdge, ...] = ()
    edges_removed: tuple[TrajectoryEdge, ...] = ()
    pointers_added: tuple[str, ...] = ()
    pointers_removed: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return any(msgspec.structs.astuple(self))


def compared(before: Trajectory, after: Trajectory, *, by_name: bool = False) -> TrajectoryDiff:
    """
    Return the difference between two graphs. A node in both is named as in the second.

    Rounds of one session share nodes. With `by_name`, as for runs of different sessions, nodes with the same name count
    as the same.
    """
    if by_name:
        before, after = _by_name(before), _by_name(after)
    old = {node.birth: node for node in before.nodes.values()}
    new = {node.birth: node for node in after.nodes.values()}
    # A name can pass from one node to another, so nodes are compared by their origins.
    name_now = {node.name: new[birth].name if birth in new else node.name for birth, node in old.items()}
    old_edges, new_edges = _edges_by_origin(before), _edges_by_origin(after)
    old_pointers, new_pointers = _pointers_by_origin(before), _pointers_by_origin(after)
    return TrajectoryDiff(
        nodes_added=tuple(node.name for node in _only_in_first(new, old)),
        nodes_removed=tuple(node.name for node in _only_in_first(old, new)),
        changed=tuple(
            change
            for birth, node in new.items()
            if birth in old
            for change in _changed(node.name, old[birth].attributes, node.attributes)
        ),
        edges_added=tuple(_only_in_first(new_edges, old_edges)),
        edges_removed=tuple(
            msgspec.structs.replace(edge, source=name_now[edge.source], target=name_now[edge.target])
            for edge in _only_in_first(old_edges, new_edges)
        ),
        pointers_added=tuple(sorted(_only_in_first(new_pointers, old_pointers))),
        pointers_removed=tuple(sorted(name_now[name] for name in _only_in_first(old_pointers, new_pointers))),
    )


def _by_name(graph: Trajectory) -> Trajectory:
    nodes = [msgspec.structs.replace(node, birth=node.name) for node in graph.nodes.values()]
    return Trajectory(nodes, graph.edges, root=graph.root, initial=graph.initial, pointers=graph.pointers)


def _only_in_first(first: Mapping[Any, T], second: Mapping[Any, T]) -> list[T]:
    return [value for key, value in first.items() if key not in second]


def _edges_by_origin(graph: Trajectory) -> dict[tuple[str, str, str, bool], TrajectoryEdge]:
    birth = {name: node.birth for name, node in graph.nodes.items()}
    return {(birth[edge.source], birth[edge.target], edge.type, edge.leads_back): edge for edge in graph.edges}


def _pointers_by_origin(graph: Trajectory) -> dict[str, str]:
    return {graph.nodes[name].birth: name for name in graph.pointers}


def _changed(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[ChangedAttribute]:
    return [
        ChangedAttribute(name, attribute, old.get(attribute), new.get(attribute))
        for attribute in {**old, **new}
        if old.get(attribute) != new.get(attribute) or (attribute in old) != (attribute in new)
    ]
