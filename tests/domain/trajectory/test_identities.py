"""The graph in which data are there once, and what then leads back."""

from hypothesis import given
from hypothesis import strategies as st

from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.trajectory import Trajectory, TrajectoryEdge, TrajectoryNode

from .runs import add, asked


def test_data_that_were_met_again() -> None:
    """They stand in their first place and say what they say last; the edge that closes a cycle is marked."""
    factory = RunFactory()
    first, query = asked(factory=factory)
    add(first, "Table", query, label="t", path="/1")
    second, next_query = asked(1, factory=factory)
    add(second, "Table", add(second, "Action", next_query, label="a"), label="t", path="/2")
    add(second, "State", "Action(a)", label="s")
    graph = second.graph().by_identity()

    assert list(graph.nodes) == [query, "Table(t)", next_query, "Action(a)", "State(s)"]
    assert graph.nodes["Table(t)"].attributes["path"] == "/2"
    assert [(edge.source, edge.target) for edge in graph.edges if edge.leads_back] == [("Action(a)", "Table(t)")]
    assert graph.is_acyclic
    assert (graph.root, graph.initial) == (query, next_query)
    assert graph.pointers == {"State(s)"}


def test_computation_stays_apart() -> None:
    """A state of the same label in another round is another one."""
    factory = RunFactory()
    for number in range(2):
        run, query = asked(number, factory=factory)
        add(run, "State", query, label="s")

    assert run.graph().by_identity().nodes.keys() == run.graph().nodes.keys()
    assert not any(edge.leads_back for edge in run.graph().by_identity().edges)


def test_data_that_came_from_themselves() -> None:
    """An edge from one version to the next leads back."""
    run, query = asked()
    add(run, "Table", add(run, "Table", query, label="t"), label="t")
    run.move_pointers(join=["Table(t)#1", "Table(t)"])
    graph = run.graph().by_identity()

    assert [(edge.source, edge.target, edge.leads_back) for edge in graph.edges] == [
        (query, "Table(t)", False), ("Table(t)", "Table(t)", True),
    ]  # fmt: skip
    assert graph.pointers == {query, "Table(t)"}


def made(labels: list[int], pairs: set[tuple[int, int]]) -> Trajectory:
    """Return a graph of tables, of which several may bear a label; edges lead from lower numbers to higher ones."""
    nodes = [
        TrajectoryNode(
            name=f"Table({label})#{number}", birth=str(number), type="Table", label=str(label), run_id=0, sub_id=0,
            created_at=0.0, attributes={},
        )
        for number, label in enumerate(labels)
    ]  # fmt: skip
    ends = sorted({(min(pair), max(pair)) for pair in pairs if pair[0] != pair[1]}, key=lambda pair: pair[::-1])
    named = [TrajectoryEdge(nodes[start].name, nodes[end].name, "x") for start, end in ends]
    return Trajectory(nodes, named, root=None, initial=None, pointers=())


@given(st.lists(st.integers(0, 4), min_size=8, max_size=8), st.sets(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_without_what_leads_back_it_is_acyclic(labels: list[int], pairs: set[tuple[int, int]]) -> None:
    """No edge is lost, and none is marked in vain: each closes a cycle with those that are not marked."""
    graph = made(labels, pairs)
    merged = graph.by_identity()

    assert merged.is_acyclic
    plain = {name: name.partition("#")[0] for name in graph.nodes}
    assert {(edge.source, edge.target) for edge in merged.edges} == {
        (plain[edge.source], plain[edge.target]) for edge in graph.edges
    }
    forward = [edge for edge in merged.edges if not edge.leads_back]
    for marked in (edge for edge in merged.edges if edge.leads_back):
        straight = TrajectoryEdge(marked.source, marked.target, marked.type)
        with_it = Trajectory(merged.nodes.values(), [*forward, straight], root=None, initial=None, pointers=())
        assert not with_it.is_acyclic
