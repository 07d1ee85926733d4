"""The answers to questions about a whole store in the shapes of JSON."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator
from typing import Any

import msgspec

from ...domain.clock import exact
from ...domain.spans import Ref
from ...domain.trajectory.events import QUEUES
from ...domain.trajectory.history import TrajectoryDiff
from ...domain.trajectory.trajectory import Trajectory, TrajectoryEdge, TrajectoryNode
from ...projections.search import SearchHit
from ...projections.trajectory_tables import NodeRow
from ...projections.usage import NAMES, UsageSum
from ..log.codec import tag_of
from ..projecting.rebuild import RebuildReport
from ..projecting.status import ProjectionStatus
from ..queries.approvals import PendingApproval
from ..queries.audit import AuditEntry, Transition, context_changes, of_attribute, of_item, plain_value, run_changes
from ..queries.node_audit import AttributeTransition
from ..queries.why_gone import WhyGone
from .contexts import ItemView, RunView, head_shape
from .shapes import Shape, approval_shape, envelope_shape, named_shape


def waiting_shape(waiting: PendingApproval) -> Shape:
    """Return a call that waits for a decision for JSON."""
    asked = waiting.call
    return {
        "context": waiting.context,
        "call_id": asked.call_id,
        "item_id": asked.item_id,
        "name": asked.name,
        "arguments": asked.arguments,
        "agent": asked.agent_id,
        "requested_at": exact(waiting.requested_at),
        "approval": approval_shape(asked.approval),
    }


def status_shape(status: ProjectionStatus) -> Shape:
    """Return the status of a projection for JSON."""
    return {**msgspec.structs.asdict(status), "set_aside": [one._asdict() for one in status.set_aside]}


def report_shape(report: RebuildReport) -> Shape:
    """Return the result of a rebuild or of a check for JSON."""
    differences = [
        {"key": one.key, "live": plain_row(one.live), "rebuilt": plain_row(one.rebuilt)} for one in report.differences
    ]
    return {**msgspec.structs.asdict(report), "seconds": round(report.seconds, 3), "differences": differences}


def plain_row(row: Any) -> Any:
    """Return a row of a projection as plain data; None if there is none."""
    return msgspec.to_builtins(row)


def hit_shape(hit: SearchHit) -> Shape:
    """Return an item that a search found for JSON."""
    return {**msgspec.structs.asdict(hit), "item": hit.item or None}


def usage_shape(row: UsageSum) -> Shape:
    """Return tokens and costs for JSON."""
    names = {name: getattr(row, name) or None for name in NAMES}
    counts = ("messages", "calls", "tokens_in", "tokens_out", "counted_in", "counted_out", "counted_cached")
    return {**names, **{name: getattr(row, name) for name in counts}, "cost": float(row.cost)}


def node_shape(node: TrajectoryNode, graph: Trajectory, wanted: Container[str] | None = None) -> Shape:
    """
    Return a node of a graph for JSON: its names, the place where it was registered, and its attributes, all or those
    that are wanted.
    """
    born = Ref.parse(node.birth)
    # By its items, because the attributes of a node are a mapping that is decoded at each access.
    attributes = {name: value for name, value in node.attributes.items() if wanted is None or name in wanted}
    return {
        "name": node.name,
        "type": node.type,
        "label": node.label,
        "stream": born.stream,
        "version": born.version,
        "round": node.run_id,
        "sub": node.sub_id,
        "created_at": node.created_at,
        "pointer": node.name in graph.pointers,
        "attributes": attributes,
    }


# The attribute with the text of a node, for types that have one besides the description.
TEXT_ATTRIBUTE = {"Query": "query", "Action": "action", "State": "state"}


def node_row_shape(row: NodeRow) -> Shape:
    """Return a node of the tables of runs for JSON: its name, its run, a text about it, and what became of it."""
    born = Ref.parse(row.key)
    said = getattr(row, TEXT_ATTRIBUTE.get(row.node_type, ""), "")
    text = json.loads(said) if said else None
    return {
        "name": f"{row.node_type}({row.label})",
        "type": row.node_type,
        "label": row.label,
        "stream": born.stream,
        "version": born.version,
        "user": row.user_id,
        "session": row.session_id,
        "round": row.run_id,
        "sub": row.sub_id,
        "created_at": row.created_at,
        "text": text if isinstance(text, str) and text else row.description,
        "changes": row.changes,
        "removed_by": row.removed_by or None,
    }


def run_shape(view: RunView) -> Shape:
    """Return a round for JSON: its own nodes with the edges to them, its pointers, steps and messages."""
    run, graph = view.run, view.run.graph()
    own = own_nodes(view)
    names = {node.name for node in own}
    return {
        **head_shape(view),
        "round": run.run_id,
        "sub": run.sub_id,
        "closed": run.is_closed,
        "goes_back_over": [{"stream": one.stream, "version": one.version} for one in run.rounds],
        "root": graph.root,
        "initial": graph.initial,
        "pointers": [name for name in graph if name in graph.pointers],
        "nodes": [node_shape(node, graph) for node in own],
        "edges": [edge_shape(edge) for edge in graph.edges if edge.target in names],
        "steps": {queue: [{**step, "version": step.version} for step in run.steps(queue)] for queue in QUEUES},
        "messages": [message.to_dict() for message in run.messages()],
    }


def own_nodes(view: RunView) -> list[TrajectoryNode]:
    """Return the nodes that the round itself registered."""
    return [node for node in view.run.graph().nodes.values() if Ref.parse(node.birth).stream == view.stream]


def edge_shape(edge: TrajectoryEdge) -> Shape:
    """Return an edge for JSON, with the names of its ends."""
    return {"source": edge.source, "target": edge.target, "type": edge.type}


def difference_shape(difference: TrajectoryDiff, before: RunView, after: RunView) -> Shape:
    """Return the differences between the graphs of two runs for JSON."""
    old, new = before.run.graph(), after.run.graph()
    return {
        "nodes_added": [node_shape(new.nodes[name], new) for name in difference.nodes_added],
        "nodes_removed": [node_shape(old.nodes[name], old) for name in difference.nodes_removed],
        "changed": [change._asdict() for change in difference.changed],
        "edges_added": [edge_shape(edge) for edge in difference.edges_added],
        "edges_removed": [edge_shape(edge) for edge in difference.edges_removed],
        "pointers_added": list(difference.pointers_added),
        "pointers_removed": list(difference.pointers_removed),
    }


def gone_shape(found: WhyGone) -> Shape:
    """Return whether an item is in a context, and how it left, for JSON."""
    return {
        **msgspec.structs.asdict(found),
        "position": found.position and str(found.position),
        "recorded_at": found.recorded_at and exact(found.recorded_at),
    }


def transition_shape(change: Transition | AttributeTransition) -> Shape:
    """Return a change from an old to a new value for JSON."""
    return {
        **msgspec.to_builtins(change, enc_hook=str, str_keys=True),
        "position": str(change.position),
        "recorded_at": exact(change.recorded_at),
    }


def view_changes(view: ItemView | RunView, item: str | None, attribute: str | None) -> Iterator[AuditEntry]:
    """Return the changes of a context up to the version of a view, those of one item or one attribute if given."""
    if isinstance(view, RunView):
        changes = run_changes(view.log, view.run, view.version)
    else:
        changes = context_changes(view.log, view.stream, view.version)
    if item is not None:
        changes = iter(of_item(changes, item, view.stream))
    if attribute is not None:
        changes = iter(of_attribute(changes, attribute, view.stream))
    return changes


def change_shape(change: AuditEntry) -> Shape:
    """Return a change of an item, of a context or of a node for JSON."""
    recorded = change.recorded
    is_item = change.ref is not None or change.name is not None
    return {
        **envelope_shape(recorded),
        "type": tag_of(recorded.event),
        "item": _changed_item(change) if is_item else None,
        "attribute": change.attribute,
        "old": plain_value(change.old),
        "new": plain_value(change.new),
        "reason": change.reason,
    }


def _changed_item(change: AuditEntry) -> Shape:
    if change.ref is None:
        return {"stream": None, "version": None, "id": change.name}
    return named_shape(change.ref, change.recorded.stream, change.name)
