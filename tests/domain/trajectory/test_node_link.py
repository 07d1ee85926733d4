"""The graph as a networkx graph, and in networkx's node-link form."""

import json
import sys
from typing import Any

import networkx
import pytest

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.trajectory import Trajectory, TrajectoryEdge, TrajectoryNode


def two_rounds() -> Run:
    """Return the second round of a session, in which a table is met again."""
    rounds = RunFactory()
    for number in (0, 1):
        run = rounds.run("mia", "s", number)
        query = run.register_query(f"q{number}")
        act: dict[str, Any] = {"action": "read", "params": {"at": [1, {"b": 2}]}, "output": None, "success": True}
        action = run.register_node("Action", "reads", [query], **act)
        run.register_node("Table", "the orders", [action], label="orders", path=f"/{number}", id="own")
    return run


@pytest.mark.parametrize("is_merged", [False, True])
def test_it_is_what_networkx_writes(is_merged: bool) -> None:
    """Without networkx, and in the same order; it can be written as JSON."""
    graph = two_rounds().graph()
    graph = graph.by_identity() if is_merged else graph
    written = networkx.node_link_data(graph.to_networkx(), edges="edges")

    assert graph.to_node_link() == written
    assert networkx.utils.graphs_equal(
        networkx.node_link_graph(json.loads(json.dumps(written)), edges="edges").to_undirected(),
        networkx.node_link_graph(graph.to_node_link(), edges="edges").to_undirected(),
    )


def test_nodes_and_edges_have_the_attributes_of_the_seed() -> None:
    """Type, round, description and fields; the type of an edge under both names."""
    run = two_rounds()
    graph = run.get_trajectory()

    assert graph.nodes["Table(orders)#1"] == {
        "node_type": "Table", "run_id": 0, "description": "the orders", "path": "/0", "id": "own",
    }  # fmt: skip
    assert graph.edges["Query(query00000)", "Action(action00000)"] == {
        "edge_type": "triggers", "relationship": "triggers",
    }  # fmt: skip
    assert graph.graph == {
        "root": "Query(query00000)", "initial": "Query(query00001)", "pointers": ["Action(action00001)"],
    }  # fmt: skip
    assert networkx.is_directed_acyclic_graph(graph)


def test_it_is_a_copy() -> None:
    """Who changes it, or what a node has in it, changes nothing else."""
    run = two_rounds()
    graph = run.get_trajectory()
    graph.nodes["Action(action00000)"]["params"]["at"].append(3)
    graph.remove_node("Table(orders)")

    assert run.get_trajectory().nodes["Action(action00000)"]["params"] == {"at": [1, {"b": 2}]}
    assert "Table(orders)" in run.get_trajectory()


def test_it_can_be_trimmed() -> None:
    """To the active branches, as the graph itself is."""
    run = two_rounds()
    run.register_node(
        "Action", "dead", ["Query(query00001)"], action="x", params={}, output=None, success=False, remove_pt=True
    )

    assert list(run.get_trajectory(trimmed=True)) == list(run.graph().trimmed())
    assert len(run.get_trajectory()) == len(run.get_trajectory(trimmed=True)) + 1


def test_between_two_nodes_stands_one_edge() -> None:
    """It has the type of the last of several, and names them all; what leads back is marked."""
    graph = made("Query", "State", edges=[("a", False), ("b", False), ("c", True)])

    assert graph.to_node_link()["edges"] == [
        {
            "edge_type": "c", "relationship": "c", "edge_types": ["a", "b", "c"], "leads_back": True,
            "source": "Query(0)", "target": "State(1)",
        },
    ]  # fmt: skip


def made(*types: str, edges: list[tuple[str, bool]]) -> Trajectory:
    """Return a graph with a node of each type, and edges from the first to the second."""
    nodes = [
        TrajectoryNode(
            name=f"{node_type}({index})", birth=f"run:s@{index}", type=node_type, label=str(index), run_id=0, sub_id=0,
            created_at=0.0, attributes={},
        )
        for index, node_type in enumerate(types)
    ]  # fmt: skip
    ends = nodes[0].name, nodes[1].name
    return Trajectory(nodes, [TrajectoryEdge(*ends, *edge) for edge in edges], root=None, initial=None, pointers=())


def test_without_networkx(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says how to get it; node-link needs none."""
    run = two_rounds()
    monkeypatch.setitem(sys.modules, "networkx", None)

    with pytest.raises(ImportError, match=r'pip install "refold\[graph\]"'):
        run.get_trajectory()
    assert len(run.graph().to_node_link()["nodes"]) == 6
