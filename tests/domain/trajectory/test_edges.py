"""What kind an edge is, and which edges there can be (SPEC D5)."""

from collections.abc import Iterable
from itertools import combinations

import pytest

from refold.domain.errors import DecisionRefusedError, InvalidInputError
from refold.domain.spans import Ref
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.graph import RunGraph
from refold.domain.trajectory.nodes import DATA, NODE_TYPES, NodeNotFoundError
from refold.domain.trajectory.rules import edge_type
from refold.domain.trajectory.state import is_forward
from tests.support.effort import calls_of

from .runs import add, asked, edges

USUAL = {
    ("Query", "Action"): "triggers",
    ("State", "Action"): "triggers",
    ("Query", "State"): "has_conclusion",
    ("State", "State"): "has_conclusion",
    ("Action", "State"): "has_conclusion",
    **{("Action", data): "outputs" for data in DATA},
}


@pytest.mark.parametrize("source", NODE_TYPES)
def test_every_pair_of_types(source: str) -> None:
    """There is a usual type, or an error that asks for one; one that is given is taken as it is."""
    for target in NODE_TYPES:
        usual = USUAL.get((source, target))
        if usual is None:
            with pytest.raises(InvalidInputError, match=r"No default edge type detected\. Please provide"):
                edge_type(None, [source], target)
        else:
            assert edge_type(None, [source, source], target) == usual
        assert edge_type("", [source], target) == ""
        assert edge_type("any", [source], target) == "any"


@pytest.mark.parametrize("sources", [*combinations(NODE_TYPES, 2), ()])
def test_mixed_sources(sources: Iterable[str]) -> None:
    """Of several types, or of none, there is never a usual one."""
    for target in NODE_TYPES:
        with pytest.raises(InvalidInputError, match="No default"):
            edge_type(None, sources, target)


def test_an_edge_between_nodes_that_are_there() -> None:
    """Forward and backward, of another type beside the first; the same once more is nothing new."""
    run, query = asked()
    first, second = (add(run, "Table", query, label=label) for label in "ab")
    run.add_edge(second, first, "back")
    run.add_edge(second, first, "other")
    version = run.version
    run.add_edge(second, first, "back")
    run.add_edge(query, first, "next")

    assert run.version == version
    assert (second, first) in edges(run)
    assert sorted(edge.type for edge in run.graph().edges) == ["back", "next", "next", "other"]
    assert run.predecessors(first) == [query, second]


def test_an_edge_of_its_usual_type() -> None:
    """It can be left out here too; where there is none, it must be given."""
    run, query = asked()
    action = add(run, "Action", query)
    state, table = add(run, "State", query), add(run, "Table", query)
    run.add_edge(action, state)
    with pytest.raises(InvalidInputError, match="No default"):
        run.add_edge(table, state)

    assert [edge.type for edge in run.graph().edges if edge.source == action] == ["has_conclusion"]


def test_no_edge_closes_a_cycle() -> None:
    """Not onto itself, not over many nodes, not over edges that lead backward; and nothing is changed."""
    run, query = asked()
    names = [add(run, "Table", query, label=label) for label in "abcd"]
    for start, end in ((3, 1), (1, 0), (0, 2)):
        run.add_edge(names[start], names[end], "x")
    before = run.graph()
    for start, end in ((0, 0), (2, 0), (2, 3), (0, 3), (0, 1), (1, 3)):
        with pytest.raises(DecisionRefusedError, match="would close a cycle: register the node again"):
            run.add_edge(names[start], names[end], "y")

    assert run.graph() == before
    assert run.graph().is_acyclic
    run.add_edge(names[3], names[2], "y")


def test_no_edge_leads_into_an_earlier_round() -> None:
    """That round may go on, and two edges that know nothing of each other would close a cycle."""
    factory = RunFactory()
    first, query = asked(factory=factory)
    old = [add(first, "Table", query, label=label) for label in "ab"]
    second, _ = asked(1, factory=factory)
    new = add(second, "Table", old[0], label="c")
    for start in (old[0], new):
        with pytest.raises(DecisionRefusedError, match="earlier round"):
            second.add_edge(start, old[1], "x")
    first.add_edge(old[1], old[0], "x")
    second.restore_previous_runs()
    second.add_edge(old[1], new, "x")

    assert second.graph().is_acyclic
    assert set(second.predecessors(new)) == set(old)


def test_ends_that_are_not_there() -> None:
    """The error names the one that is missing."""
    run, query = asked()
    for ends in ((query, "Table(t)"), ("Table(t)", query)):
        with pytest.raises(NodeNotFoundError, match="label 't' of type 'Table'"):
            run.add_edge(*ends, "x")
    with pytest.raises(NodeNotFoundError, match="type 'Nothing'"):
        run.add_edge(query, "Nothing(t)", "x")


def test_a_forward_edge_costs_the_same() -> None:
    """As long as no edge leads backward nothing is searched, however large the graph is."""
    run, query = asked()
    names = [add(run, "State", query, add_pt=True) for _ in range(300)]
    graph = RunGraph(run._state)
    refs = [graph.resolve(name) for name in names]

    near = calls_of(lambda: graph.closes_cycle(refs[0], refs[1]))
    assert calls_of(lambda: graph.closes_cycle(refs[0], refs[-1])) == near
    run.add_edge(names[1], names[0], "back")
    graph = RunGraph(run._state)
    assert graph.closes_cycle(refs[0], refs[1])
    assert not graph.closes_cycle(refs[0], refs[2])


@pytest.mark.parametrize(
    ("source", "target", "is_so"),
    [
        (Ref(2), Ref(3), True), (Ref(3), Ref(3), False), (Ref(3), Ref(2), False),
        (Ref(9, "run:a"), Ref(2), True), (Ref(2), Ref(9, "run:a"), False),
        (Ref(2, "run:a"), Ref(3, "run:a"), True), (Ref(2, "run:a"), Ref(3, "run:b"), False),
    ],
)  # fmt: skip
def test_which_edges_surely_lead_forward(source: Ref, target: Ref, is_so: bool) -> None:
    """From an older vertex of a run to a newer one, and from another run's into this one; not onto itself."""
    assert is_forward(source, target) is is_so
