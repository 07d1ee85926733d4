"""What the seed's module gave where a session has several rounds, statement by statement: held, or deviated from."""

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.run import Run

from .registering import action, asked_run, edges, new_run, pointers, state, table

Q0, Q1, Q2 = (f"Query(query0000{number})" for number in range(3))


def bridges(run: Run) -> list[tuple[str, str]]:
    """Return the edges between rounds."""
    return [(source, target) for source, target, kind in edges(run) if kind == "continues_to"]


def first_round(factory: RunFactory) -> Run:
    """Return a round with an action, a table and a conclusion."""
    run, query = asked_run(0, factory)
    first = action(run, query)
    table(run, first)
    state(run, first)
    return run


def test_the_next_round() -> None:
    """D7.4 to D7.9: labels go on, all leaves lead to its query, data too, and the session has one root."""
    factory = RunFactory()
    first_round(factory)
    run, query = asked_run(1, factory)
    names = [state(run, action(run, query))]

    assert (query, *names) == (Q1, "State(state00001)")
    assert run.nodes("Action") == ["Action(action00000)", "Action(action00001)"]
    assert bridges(run) == [("Table(orders)", Q1), ("State(state00000)", Q1)]
    assert (run.session_root, run.initial, run.graph().is_acyclic) == (Q0, Q1, True)
    assert [name for name in run.graph() if not run.graph().predecessors(name)] == [Q0]


def test_numbers_go_on() -> None:
    """D7.4, repaired: after what was ever registered, so that no name comes again for another node."""
    factory = RunFactory()
    run = first_round(factory)
    run.remove_node("State(state00000)")
    run, query = asked_run(1, factory)

    assert state(run, query) == "State(state00001)"
    assert table(run, query, None) == "Table(table00001)"


def test_bridges_are_there_before_the_query_and_after() -> None:
    """D7.5, D7.6."""
    factory = RunFactory()
    first_round(factory)
    run, query = asked_run(1, factory)
    state(run, query)
    run = new_run(2, factory)
    earlier = [("Table(orders)", Q1), ("State(state00000)", Q1)]
    assert bridges(run) == earlier

    run.register_query("q")
    assert bridges(run) == [*earlier, ("State(state00001)", Q2)]


def test_a_round_that_is_missing() -> None:
    """D7.6, D7.7: it is bridged over, in the past too (repaired)."""
    factory = RunFactory()
    first_round(factory)
    _, query = asked_run(2, factory)
    run, last = asked_run(3, factory)

    assert bridges(run) == [("Table(orders)", query), ("State(state00000)", query), (query, last)]


def test_the_query_first_and_then_the_past() -> None:
    """D3.4, repaired: the bridge comes with the past, and a query of the same name is another node."""
    factory = RunFactory()
    first_round(factory)
    run = factory.run("mia", "s1", 1, restore=False)
    query = run.register_query("q")
    assert (query, run.nodes()) == (Q0, [Q0])
    restored = run.restore_previous_runs(user_id="mia", session_id="s1", current_run_id=1)

    assert (restored, run.initial, run.session_root) == ([0], Q0, f"{Q0}#1")
    assert bridges(run) == [("Table(orders)", Q0), ("State(state00000)", Q0)]
    assert len(run.graph()) == 5


def test_restoring_again() -> None:
    """D7.1: nothing comes of it."""
    factory = RunFactory()
    first_round(factory)
    run = new_run(1, factory)
    before = run.version

    assert (run.restore_previous_runs(), run.version) == ([0], before)
    assert new_run(0, factory).restore_previous_runs() == []


@pytest.mark.parametrize("other", [{"user_id": "noah"}, {"session_id": "s2"}])
def test_only_rounds_of_the_session(other: dict[str, str]) -> None:
    """D7.11, repaired: another user's, or another session's, are refused."""
    run, _ = asked_run(1)

    with pytest.raises(InvalidInputError, match="open that run"):
        run.restore_previous_runs(**other)  # type: ignore[arg-type]


def test_data_that_are_met_again() -> None:
    """D4.5, D7.10, repaired: a new version of the node, so that the graph stays acyclic; one identity in its view."""
    factory = RunFactory()
    first_round(factory)
    run, query = asked_run(1, factory)
    second = action(run, query)
    name = table(run, second)

    assert (name, run.node(name).run_id, run.node("Table(orders)#1").run_id) == ("Table(orders)", 1, 0)
    assert run.graph().is_acyclic
    assert (("Table(orders)#1", Q1), (second, "Table(orders)")) == (bridges(run)[0], edges(run)[-1][:2])
    back = [edge for edge in run.graph().by_identity().edges if edge.leads_back]
    assert [(edge.source, edge.target) for edge in back] == [(second, "Table(orders)")]


def test_an_actions_label_in_another_round() -> None:
    """D4.5, repaired: it is another action."""
    factory = RunFactory()
    run, query = asked_run(0, factory)
    action(run, query, label="a")
    run, query = asked_run(1, factory)

    assert action(run, query, label="a") == "Action(a)"
    assert run.nodes("Action") == ["Action(a)#1", "Action(a)"]


def test_nothing_is_lost() -> None:
    """D7.12, repaired: histories and times are what they were, and so are the pointers of the earlier round."""
    factory = RunFactory()
    earlier = first_round(factory)
    earlier.modify_node("Table(orders)", {"description": "changed"})
    run = new_run(1, factory)

    assert run.node("Table(orders)") == earlier.node("Table(orders)")
    assert run.node("Table(orders)").history == {0: {"description": "d0"}}
    assert pointers(earlier) == ["State(state00000)"]


def test_what_a_later_round_does_stays() -> None:
    """D13.2, repaired: edges from earlier nodes, and changes to them, are there in the rounds after it."""
    factory = RunFactory()
    first_round(factory)
    run, query = asked_run(1, factory)
    state(run, query, "State(state00000)", edge_type="recalls", add_pt=True)
    run.modify_node("Table(orders)", {"path": "q"})
    run = new_run(2, factory)

    assert ("State(state00000)", "State(state00001)", "recalls") in edges(run)
    assert run.node("Table(orders)").history == {0: {"path": "p"}}


def test_earlier_rounds_alone() -> None:
    """D9.6: each by its number, without bridges; None for one that is not there."""
    factory = RunFactory()
    first_round(factory)
    run, _ = asked_run(1, factory)
    found = run.get_historical_trajectory(0)

    assert found is not None
    assert (len(found), found.is_acyclic, run.get_historical_trajectory(1)) == (4, True, None)
    assert run.get_all_historical_trajectories() == {0: found}
