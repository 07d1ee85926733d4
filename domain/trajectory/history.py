"""
What became of a node: each version of it, with who made it, when, and because of what.

A version of a node is an event about it: that it was registered, or met again, changed, described, or removed. They
are counted from 1 over all rounds that the run goes back over.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from ..canonical import parse_json
from ..errors import DecisionRefusedError, NotFoundError
from ..log.envelope import RecordedEvent
from ..log.ports import Log
from ..positions import Position
from ..spans import Ref
from .events import NodeChanged, NodeEvent, NodeRemoved, PortraitWritten
from .nodes import DATA
from .state.attributes import DESCRIPTION
from .state.graph import RunGraph

MICROSECONDS = 1_000_000


class NodeVersion(NamedTuple):
    """
    One version of a node: the vertex that bears it, what kind of event made it, and its attributes afterwards.

    `kind` is `registered`, `met_again`, `changed`, `portrait` or `removed`.
    """

    version: int
    vertex: Ref
    kind: str
    recorded: RecordedEvent
    attributes: dict[str, Any]


class AttributeVersion(NamedTuple):
    """
    An attribute before and after a version of its node; None where it was not there.

    `recorded_at` is in microseconds since 1970, UTC; `cause` is `stream@version` of the event that it follows from,
    `reference` that of the event itself. `made_at` is in seconds, and earlier where the change came by an import.
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
    vertex: Ref
    stream: str
    version: int


def node_versions(graph: RunGraph, log: Log, stream: str, ref: Ref) -> list[NodeVersion]:
    """
    Return the versions of the node that a vertex is of; `stream` is that of the run itself.

    A data node is the same one in all rounds; a computation node belongs to its own.
    """
    event, node_type = graph.event(ref), graph.type_of(ref)
    vertices = graph.vertices_named(node_type, event.label) if node_type in DATA else [ref]
    places = [place for vertex in vertices for place in _places(graph, vertex, stream)]
    versions: list[NodeVersion] = []
    # What each vertex says; where the newest is removed, the node says again what the one before it does.
    living: dict[Ref, dict[str, Any]] = {}
    for place, recorded in zip(places, _read(log, places), strict=True):
        kind, attributes = _after(recorded, living.pop(place.vertex, {}), is_first=not versions)
        if kind == "removed":
            attributes = next(reversed(living.values()), {})
        else:
            living[place.vertex] = attributes
        versions.append(NodeVersion(len(versions) + 1, place.vertex, kind, recorded, attributes))
    return versions


def attribute_versions(versions: Iterable[NodeVersion], attribute: str | None) -> list[AttributeVersion]:
    """
    Return what changed from version to version, of one attribute or of all.

    Raises:
        NotFoundError: the node never had such an attribute.
    """
    found: list[AttributeVersion] = []
    before: dict[str, Any] = {}
    names: dict[str, None] = {}
    for version in versions:
        names.update(dict.fromkeys(version.attributes))
        for name in {**before, **version.attributes}:
            if attribute in (None, name) and _is_told(version, name, before):
                found.append(_told(version, name, before))
        before = version.attributes
    if attribute is not None and attribute not in names:
        raise NotFoundError(f"the node never had an attribute {attribute!r}: it has {', '.join(names)}")
    return found


def made_at(recorded: RecordedEvent) -> float:
    """
    Return when what an event says of a node was so, in seconds since 1970; an import has it from before its record.
    """
    event = recorded.event
    given = event.created_at if isinstance(event, NodeEvent) else getattr(event, "made_at", None)
    return recorded.recorded_at / MICROSECONDS if given is None else float(given)


def _places(graph: RunGraph, vertex: Ref, stream: str) -> list[_Place]:
    """Return where the events about a vertex lie, in their order."""
    own = vertex.stream or stream
    places = [_Place(vertex, own, vertex.version)]
    places += [_Place(vertex, changed or stream, change.version) for changed, change in graph.changes_of(vertex)]
    removal = graph.removal_of(vertex)
    if removal is not None:
        places.append(_Place(vertex, removal.stream or stream, removal.version))
    return places


def _read(log: Log, places: Iterable[_Place]) -> list[RecordedEvent]:
    found = [log.read(place.stream, after=place.version - 1, until=place.version) for place in places]
    if not all(found):
        raise DecisionRefusedError("what became of a node can be asked once the transaction that changes it is over")
    return [recorded for (recorded,) in found]


def _after(recorded: RecordedEvent, before: dict[str, Any], *, is_first: bool) -> tuple[str, dict[str, Any]]:
    """Return what kind of version an event made, and the attributes after it."""
    event = recorded.event
    match event:
        case NodeEvent(description=description, fields=fields):
            return "registered" if is_first else "met_again", {DESCRIPTION: description, **parse_json(fields)}
        case NodeChanged(changes=changes):
            return "changed", {**before, **{one.name: parse_json(one.new) for one in changes}}
        case PortraitWritten(description=description):
            return "portrait", {**before, DESCRIPTION: description}
        case NodeRemoved():
            return "removed", {}
    raise AssertionError(f"{recorded.reference} is no version of a node")


def _is_told(version: NodeVersion, name: str, before: dict[str, Any]) -> bool:
    if version.kind == "changed":
        # That somebody set a value that it had already is told as well.
        return any(one.name == name for one in version.recorded.event.changes)
    return name not in before or name not in version.attributes or before[name] != version.attributes[name]


def _told(version: NodeVersion, name: str, before: dict[str, Any]) -> AttributeVersion:
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
