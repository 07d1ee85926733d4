"""Runs, nodes and edges as `--json` prints them."""

from __future__ import annotations

from typing import Any

from ....domain.messages import message_to_dict
from ....domain.trajectory import Trajectory, TrajectoryEdge, TrajectoryNode
from ....domain.trajectory.state.steps import QUEUES
from ..seen_run import SeenRun
from ..showing import head_shape


def run_shape(view: SeenRun) -> dict[str, Any]:
    """Return a round: its own nodes, with the edges that lead to them, its pointers, steps and messages."""
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
        "messages": [message_to_dict(message) for message in run.messages()],
    }


def own_nodes(view: SeenRun) -> list[TrajectoryNode]:
    """Return the nodes that the round itself registered."""
    return [node for node in view.run.graph().nodes.values() if node.birth.rpartition("@")[0] == view.stream]


def node_shape(node: TrajectoryNode, graph: Trajectory) -> dict[str, Any]:
    """Return a node of a graph: what it is called, where it was registered, and its attributes."""
    stream, _, version = node.birth.rpartition("@")
    return {
        "name": node.name,
        "type": node.type,
        "label": node.label,
        "stream": stream,
        "version": int(version),
        "round": node.run_id,
        "sub": node.sub_id,
        "created_at": node.created_at,
        "pointer": node.name in graph.pointers,
        "attributes": dict(node.attributes),
    }


def edge_shape(edge: TrajectoryEdge) -> dict[str, Any]:
    """Return an edge by the names of its ends."""
    return {"source": edge.source, "target": edge.target, "type": edge.type}


def place_in(view: SeenRun, node: TrajectoryNode) -> str:
    """Return where a node was registered: `@3`, or with the stream where that was another round."""
    stream, _, version = node.birth.rpartition("@")
    return f"@{version}" if stream == view.stream else node.birth
