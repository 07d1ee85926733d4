"""
Which nodes and edges do the runs have? A table for each type of node, and one for edges.

A row is a vertex as it is now. A change by a later round changes this row. A removed vertex keeps its row, which then
names the event that removed it. If rounds change a vertex independently, the change that was recorded last counts. A
change names its vertex but not the type, so it is offered to all ten tables, and the table with the vertex applies it.
Values are JSON exactly as recorded.

An edge connects two nodes of one round; bridges to other rounds follow from the rounds. An edge is in the graph as
long as neither of its ends is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from ..domain.concurrency.known_types import known
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.spans import Ref
from ..domain.trajectory.events import (
    AttributeChange,
    EdgeAdded,
    NodeChanged,
    NodeEvent,
    NodeRegistered,
    NodeRemoved,
    PointersMoved,
    PortraitWritten,
    QueryRegistered,
    type_of,
)
from ..domain.trajectory.nodes import DESCRIPTION, NODE_TYPES, own_fields
from .contract import Projection
from .rows import digest_of, run_of, vertex_key

Raw = msgspec.Raw
Fields = dict[str, Raw]


class NodeRow(msgspec.Struct, frozen=True):
    """
    A vertex. The table of a type has the fields of that type after these, as JSON, empty if a field is not given.

    `created_at` is in seconds since 1970, UTC. `history` is JSON: the values that attributes had before each of the
    `changes`, by number from 0. `extra` is a JSON object with all other given fields, `pointer_of` a JSON list of the
    runs in which the node is a pointer. `removed_by` is `stream@version` of the event that removed it, else empty.
    """

    node_type: ClassVar[str]
    key: str
    label: str
    description: str
    user_id: str
    session_id: str
    run_id: int
    sub_id: int
    created_at: float
    changes: int = 0
    history: str = "{}"
    extra: str = "{}"
    pointer_of: str = "[]"
    removed_by: str = ""

    if TYPE_CHECKING:
        # The fields of its type: its class is made at run time.
        def __getattr__(self, name: str) -> Any: ...

    def __reduce__(self) -> tuple[Any, ...]:
        # Its class is made by its table, so `pickle` cannot find it by its name.
        return _row, (self.node_type, msgspec.structs.astuple(self))


class EdgeRow(msgspec.Struct, frozen=True):
    """An edge; `source` and `target` are the keys of the nodes at its ends."""

    key: str
    user_id: str
    session_id: str
    run_id: int
    sub_id: int
    source: str
    target: str
    relationship: str


class NodeTable:
    """The fold behind `store.run_nodes()`, for nodes of one type."""

    version = 1
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset(
        (QueryRegistered, NodeRegistered, NodeChanged, PortraitWritten, NodeRemoved, PointersMoved)
    )

    def __init__(self, node_type: str) -> None:
        self.type = node_type
        self.name = f"run_{node_type.lower()}"
        self.own = own_fields(node_type)
        self.row: type[NodeRow] = msgspec.defstruct(  # type: ignore[assignment]  # it is a subclass
            f"{node_type}Row",
            [(name, str, "") for name in self.own],
            bases=(NodeRow,),
            namespace={"node_type": node_type, "__doc__": NodeRow.__doc__},
            frozen=True,
        )

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the vertices that the event names; a vertex that it registers only if it is of this type."""
        named = dict.fromkeys(_changed_vertices(event.event))
        if self._registers(event):
            named[Ref(event.version)] = None
        return [vertex_key(event.stream, ref) for ref in named]

    def evolve(self, key: str, row: NodeRow | None, event: RecordedEvent) -> NodeRow | None:
        """Return the vertex after `event`; None if it is of another type, or not in a run."""
        if row is None:
            is_own = self._registers(event) and vertex_key(event.stream, Ref(event.version)) == key
            return self._registered(key, event) if is_own else None
        match event.event:
            case NodeChanged(changes=changes) | PortraitWritten(changes=changes):
                return self._changed(row, changes)
            case NodeRemoved(node=node, joined=joined) if vertex_key(event.stream, node) == key:
                row = msgspec.structs.replace(row, removed_by=row.removed_by or event.reference)
                return _repoint(row, event, left=(node,), joined=joined)
            case NodeRemoved(joined=joined):
                return _repoint(row, event, joined=joined)
            case NodeRegistered(left=left):
                return _repoint(row, event, left=left)
            case PointersMoved(left=left, joined=joined):
                return _repoint(row, event, left=left, joined=joined)
        return row

    def _registers(self, event: RecordedEvent) -> bool:
        return isinstance(event.event, NodeEvent) and type_of(event.event) == self.type

    def _registered(self, key: str, event: RecordedEvent) -> NodeRow | None:
        identity, node = run_of(event.stream), event.event
        if identity is None:
            return None
        fields = msgspec.json.decode(node.fields, type=known(Fields))
        own: dict[str, Any] = {name: bytes(fields.pop(name)).decode() for name in self.own if name in fields}
        is_pointer = isinstance(node, QueryRegistered) or node.is_pointer
        return self.row(
            key=key,
            label=node.label,
            description=node.description,
            **identity._asdict(),
            created_at=node.created_at,
            extra=_json(fields),
            pointer_of=_json([event.stream] if is_pointer else []),
            **own,
        )

    def _changed(self, row: NodeRow, changes: Iterable[AttributeChange]) -> NodeRow:
        new: dict[str, str] = {}
        for one in changes:
            if one.name == DESCRIPTION:
                new[DESCRIPTION] = str(msgspec.json.decode(one.new))
            elif one.name in self.own:
                new[one.name] = one.new.decode()
            else:
                extra = msgspec.json.decode(new.get("extra", row.extra), type=known(Fields))
                new["extra"] = _json({**extra, one.name: Raw(one.new)})
        old = _json({str(row.changes): {one.name: Raw(one.old) for one in changes}})
        # The new entry is appended to the JSON text, so that the existing history need not be decoded.
        history = old if not row.changes else f"{row.history[:-1]},{old[1:]}"
        return msgspec.structs.replace(row, changes=row.changes + 1, history=history, **new)


class EdgeTable:
    """The fold behind `store.run_edges()`."""

    name = "run_edge"
    version = 1
    row = EdgeRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset((NodeRegistered, EdgeAdded))

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the keys of the edges that the event added between nodes of its own run."""
        match event.event:
            case EdgeAdded(source=source, target=target, edge=edge):
                return _edge_keys(event.stream, (source,), target, edge)
            case NodeRegistered(sources=sources, edge=edge):
                return _edge_keys(event.stream, sources, Ref(event.version), edge)
        return ()

    def evolve(self, key: str, row: EdgeRow | None, event: RecordedEvent) -> EdgeRow | None:
        """Return the edge, which never changes; None if it is not in a run."""
        identity = run_of(event.stream)
        if row is not None or identity is None:
            return row
        target, source, _ = key.rsplit("/", 2)
        return EdgeRow(
            key=key,
            **identity._asdict(),
            source=vertex_key(event.stream, Ref(int(source))),
            target=target,
            relationship=event.event.edge,
        )


def _edge_keys(stream: str, sources: Iterable[Ref], target: Ref, edge: str) -> list[str]:
    # The key has no version of the event, so that an edge that was recorded twice is one edge.
    start, end = vertex_key(stream, target), digest_of(edge)
    return [f"{start}/{source.version}/{end}" for source in sources if not source.stream and not target.stream]


def _changed_vertices(event: Event) -> tuple[Ref, ...]:
    """Return the existing vertices that an event changes."""
    match event:
        case NodeChanged(node=node) | PortraitWritten(node=node):
            return (node,)
        case NodeRemoved(node=node, joined=joined):
            return (node, *joined)
        case NodeRegistered(left=left):
            return left
        case PointersMoved(left=left, joined=joined):
            return left + joined
    return ()


def _repoint(row: NodeRow, event: RecordedEvent, *, left: Sequence[Ref] = (), joined: Sequence[Ref] = ()) -> NodeRow:
    """Return the row of a vertex after its event's run dropped the pointers `left` and added the pointers `joined`."""
    runs = set(msgspec.json.decode(row.pointer_of, type=list[str]))
    if row.key in (vertex_key(event.stream, ref) for ref in left):
        runs.discard(event.stream)
    if row.key in (vertex_key(event.stream, ref) for ref in joined):
        runs.add(event.stream)
    return msgspec.structs.replace(row, pointer_of=_json(sorted(runs)))


def _row(node_type: str, values: tuple[Any, ...]) -> NodeRow:
    return NODES[node_type].row(*values)


def _json(value: object) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


NODES = {node_type: NodeTable(node_type) for node_type in NODE_TYPES}
EDGES = EdgeTable()
RUN_TABLES: tuple[Projection, ...] = (*NODES.values(), EDGES)
