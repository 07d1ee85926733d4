"""What became of one node, in all rounds of its session."""

from __future__ import annotations

from collections.abc import Sequence

from ...domain.errors import InvalidInputError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.trajectory.events import NodeRemoved
from ...domain.trajectory.naming import parse_node_name
from ...domain.trajectory.nodes import NODE_TYPES
from ..node_audit import AttributeTransition
from .births import births, ref_of
from .trail import Change


def is_node_name(text: str) -> bool:
    """Return whether a text is the name of a node, `Type(label)`, and not that of a context."""
    try:
        return parse_node_name(text).type in NODE_TYPES
    except InvalidInputError:
        return False


def node_changes(log: Log, name: str, told: Sequence[AttributeTransition]) -> list[Change]:
    """Return what the audit of a node told as changes, each with the event that made it."""
    refs = [ref_of(one.reference) for one in told]
    recorded = births(log, refs)
    return [_change(name, one, recorded[ref]) for one, ref in zip(told, refs, strict=True)]


def _change(name: str, told: AttributeTransition, recorded: RecordedEvent) -> Change:
    reason = recorded.event.reason if isinstance(recorded.event, NodeRemoved) else None
    return Change(recorded, ref_of(told.vertex), name, told.attribute, told.old, told.new, reason)
