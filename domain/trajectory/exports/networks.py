"""A graph as a networkx graph, which is the one thing here that needs networkx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .node_link import graph_attributes, joined_edges, node_attributes

if TYPE_CHECKING:
    from ..trajectory import Trajectory


def network(graph: Trajectory) -> Any:
    """
    Return a networkx DiGraph with the same nodes and edges; it is a copy, and belongs to who asked for it.

    Raises:
        ImportError: networkx is not installed.
    """
    try:
        import networkx
    except ImportError as error:
        message = 'a networkx graph needs that package: pip install "refold[graph]"'
        raise ImportError(message, name="networkx") from error
    made = networkx.DiGraph(**graph_attributes(graph))
    # As dicts, since an attribute may have any name, also that of a parameter.
    made.add_nodes_from((name, node_attributes(node)) for name, node in graph.nodes.items())
    made.add_edges_from(
        (source, target, attributes)
        for source, ends in joined_edges(graph).items()
        for target, attributes in ends.items()
    )
    return made
