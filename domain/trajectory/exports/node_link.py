"""
A graph as plain data, in the node-link form that networkx reads and writes.

Between two nodes stands one edge, as in a networkx DiGraph: where several were drawn it has the type of the last one,
and all of them under `edge_types`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...frozen import thaw

if TYPE_CHECKING:
    from ..trajectory import Trajectory, TrajectoryNode

Attributes = dict[str, Any]


def node_link(graph: Trajectory) -> dict[str, Any]:
    """
    Return what networkx's `node_link_data(graph, edges="edges")` returns; a field `id` gives way to the node's name.
    """
    edges = joined_edges(graph)
    return {
        "directed": True,
        "multigraph": False,
        "graph": graph_attributes(graph),
        "nodes": [{**node_attributes(node), "id": name} for name, node in graph.nodes.items()],
        "edges": [
            {**attributes, "source": source, "target": target}
            for source, ends in edges.items()
            for target, attributes in ends.items()
        ],
    }


def graph_attributes(graph: Trajectory) -> Attributes:
    """Return what is said of the graph as a whole: its root, the round's query, and the pointers in their order."""
    pointers = [name for name in graph.nodes if name in graph.pointers]
    return {"root": graph.root, "initial": graph.initial, "pointers": pointers}


def node_attributes(node: TrajectoryNode) -> Attributes:
    """Return the attributes that a node has in the seed's graph: type, round, description and fields, as copies."""
    return {"node_type": node.type, "run_id": node.run_id, **thaw(node.attributes)}


def joined_edges(graph: Trajectory) -> dict[str, dict[str, Attributes]]:
    """Return the attributes of the edges by their sources, in the order of the nodes, and their targets."""
    joined: dict[str, dict[str, Attributes]] = {name: {} for name in graph.nodes}
    for edge in graph.edges:
        known = joined[edge.source].setdefault(edge.target, {})
        types = [*known.get("edge_types", [known["edge_type"]] if known else []), edge.type]
        known.update(edge_type=edge.type, relationship=edge.type)
        if len(types) > 1:
            known["edge_types"] = types
        if edge.leads_back:
            known["leads_back"] = True
    return joined
