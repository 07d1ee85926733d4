"""
How did the attributes of a node change? One row for each vertex that was registered, and one for each change of it.

A change names its vertex but not the vertex's type and label. So one range of keys has the vertices of a node, by type
and label, and another range has the changes of an attribute of each vertex.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.ids import split_stream_id
from ..domain.log.envelope import Event, RecordedEvent
from ..domain.spans import Ref
from ..domain.trajectory.events import (
    NodeChanged,
    NodeEvent,
    NodeRegistered,
    NodeRemoved,
    PortraitWritten,
    QueryRegistered,
    made_at,
    type_of,
)
from ..domain.trajectory.nodes import DESCRIPTION
from .rows import digest_of, envelope_columns, run_of, runs_prefix, vertex_key


class TransitionRow(msgspec.Struct, frozen=True):
    """
    A change of an attribute, from `old` to `new`, both JSON; `vertex` is the key of the node's row in its table.

    `kind` is `registered`, `changed`, `portrait` or `removed`. `registered` and `removed` concern all attributes:
    `attribute` and `old` are empty, and `new` is the JSON object of the registered attributes. `cause` is
    `stream@version` of the event that caused the change, `reference` that of the change itself; `lane` and `number` are
    its position. `recorded_at` is in microseconds since 1970, UTC. `made_at` is in seconds, and earlier than
    `recorded_at` if the change was imported. An empty text is "not given".
    """

    key: str
    vertex: str
    kind: str
    attribute: str
    old: str
    new: str
    reference: str
    lane: int
    number: int
    recorded_at: int
    made_at: float
    actor: str
    cause: str
    correlation_id: str


class Transitions:
    """The fold behind `store.audit_node()`."""

    name = "transitions"
    version = 1
    row = TransitionRow
    stays_in_slice = True
    events: frozenset[type[Event]] = frozenset(
        (QueryRegistered, NodeRegistered, NodeChanged, PortraitWritten, NodeRemoved)
    )

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the vertex that the event registered, or of each change that it made to one."""
        if run_of(event.stream) is None:
            return ()
        match event.event:
            case NodeEvent(label=label) as node:
                return (node_prefix(type_of(node), label) + _id_in(vertex_key(event.stream, Ref(event.version))),)
            case NodeChanged(node=node, changes=changes) | PortraitWritten(node=node, changes=changes):
                prefixes = [changes_prefix(vertex_key(event.stream, node), one.name) for one in changes]
            case NodeRemoved(node=node):
                prefixes = [removal_prefix(vertex_key(event.stream, node))]
            case _:
                prefixes = []
        place = vertex_key(event.stream, Ref(event.version))
        return [f"{prefix}{place}/{number}" for number, prefix in enumerate(prefixes)]

    def evolve(self, key: str, row: TransitionRow | None, event: RecordedEvent) -> TransitionRow:
        """Return the change that `event` made; no later event changes this row."""
        match event.event:
            case NodeEvent() as node:
                return _row(key, event, Ref(event.version), "registered", new=_attributes(node))
            case NodeChanged(node=ref, changes=changes) | PortraitWritten(node=ref, changes=changes):
                one = changes[int(key.rpartition("/")[2])]
                kind = "portrait" if isinstance(event.event, PortraitWritten) else "changed"
                return _row(key, event, ref, kind, one.name, one.old, one.new)
            case NodeRemoved(node=ref):
                return _row(key, event, ref, "removed")
        raise AssertionError(f"{event.reference} is no change of a node")


def node_prefix(node_type: str, label: str, user_id: str | None = None, session_id: str | None = None) -> str:
    """
    Return the prefix of the keys of all vertices with a type and a label: in the whole store, or in a session.

    Raises:
        InvalidInputError: a part that cannot be one.
    """
    prefix = f"{node_type}/{digest_of(label)}/"
    if user_id is None or session_id is None:
        return prefix
    return prefix + _id_in(runs_prefix(user_id, session_id, None, None))


def changes_prefix(vertex: str, attribute: str) -> str:
    """Return the prefix of the keys of all changes of an attribute of a vertex."""
    return f"{vertex}/{digest_of(attribute)}/"


def removal_prefix(vertex: str) -> str:
    """Return the prefix of the key of a vertex's removal; the digest of an attribute never equals `removal`."""
    return f"{vertex}/removal/"


def _id_in(key: str) -> str:
    return split_stream_id(key)[1]


def _attributes(node: NodeEvent) -> bytes:
    fields = msgspec.json.decode(node.fields, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({DESCRIPTION: node.description, **fields})


def _row(
    key: str, event: RecordedEvent, node: Ref, kind: str, attribute: str = "", old: bytes = b"", new: bytes = b""
) -> TransitionRow:
    return TransitionRow(
        key=key,
        vertex=vertex_key(event.stream, node),
        kind=kind,
        attribute=attribute,
        old=old.decode(),
        new=new.decode(),
        reference=event.reference,
        made_at=made_at(event),
        **envelope_columns(event),
    )


TRANSITIONS = Transitions()
