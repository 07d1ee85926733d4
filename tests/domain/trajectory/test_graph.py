"""The graph over the rounds: bridges, leaves, roots, and who is called how (SPEC D7)."""

import gc
from functools import partial

import pytest

from refold.domain.concurrency.promises import Promise
from refold.domain.context.context import Attachment
from refold.domain.errors import InvalidInputError
from refold.domain.spans import Segment
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.graph import RunGraph
from refold.domain.trajectory.nodes import NodeNotFoundError
from refold.domain.trajectory.run import Run
from refold.domain.trajectory.trajectory import Trajectory, TrajectoryEdge
from tests.support.effort import calls_of

from ..fakes import CountingSystem, LateLog
from .runs import add, asked, bridges, edges


def three_rounds() -> list[Run]:
    """Return three rounds in a row, each a query and a state behind it."""
    factory = RunFactory()
    runs = [asked(number, factory=factory)[0] for number in range(3)]
    # Each was restored before the one before it went on.
    for run in runs:
        run.restore_previous_runs()
        add(run, "State", run.initial or "", label="done")
    for run in runs:
        run.restore_previous_runs()
    return runs


def test_every_leaf_is_bridged() -> None:
    """Data too (SPEC D7.8); what has a successor is no leaf, also where that is data."""
    factory = RunFactory()
    first, query = asked(factory=factory)
    action = add(first, "Action", query)
    leaves = {add(first, "Table", action), add(first, "State", query), add(first, "File", query, remove_pt=True)}
    second, next_query = asked(1, factory=factory)

    assert bridges(second) == {(leaf, next_query) for leaf in leaves}
    assert set(second.predecessors(next_query)) == leaves
    assert all(second.successors(leaf) == [next_query] for leaf in leaves)
    assert second.ancestors(next_query)[0] == query
    assert second.descendants(query)[-1] == next_query


def test_a_query_alone_is_a_leaf() -> None:
    """So is one that a round was only asked."""
    factory = RunFactory()
    asked(factory=factory)
    run, query = asked(1, factory=factory)

    assert bridges(run) == {("Query(query00000)", query)}


def test_rounds_without_a_query_are_bridged_over() -> None:
    """Those that were never run, that asked nothing, and whose query is gone; what they hold is a leaf as well."""
    factory = RunFactory()
    asked(0, factory=factory)
    factory.run("mia", "s", 2)
    third, query = asked(3, factory=factory)
    add(third, "State", query, label="left")
    third.remove_node(query)
    last, _ = asked(5, factory=factory)

    assert bridges(last) == {("Query(query00000)", "Query(query00002)"), ("State(left)", "Query(query00002)")}
    assert last.graph().root == "Query(query00000)"


def test_what_later_rounds_remove_is_bridged_over() -> None:
    """A query of an earlier round, and a leaf: the one before it is a leaf now."""
    _, second, third = three_rounds()
    third.remove_node("Query(query00001)")
    third.remove_node("State(done)#1")

    assert third.nodes() == ["Query(query00000)", "State(done)#2", "Query(query00002)", "State(done)"]
    assert edges(third) == {
        ("Query(query00000)", "Query(query00002)"),
        ("State(done)#2", "Query(query00002)"),
        ("Query(query00002)", "State(done)"),
    }
    assert len(second.graph()) == 4


def test_the_root() -> None:
    """The first query there is, whoever removed the others; None where there is none."""
    _, _, run = three_rounds()
    assert run.session_root == run.graph().root == "Query(query00000)"
    run.remove_node("Query(query00000)")
    assert run.session_root == run.graph().root == "Query(query00001)"
    run.remove_node("Query(query00002)")
    assert (run.initial, run.graph().initial, run.session_root) == (None, None, "Query(query00001)")
    run.remove_node("Query(query00001)")
    assert run.session_root is run.graph().root is None


def test_a_query_instead_of_one_that_is_gone() -> None:
    """It gets a new number, and is where the earlier rounds lead to."""
    _, _, run = three_rounds()
    run.remove_node("Query(query00002)")

    assert run.register_query("again") == run.initial == "Query(query00003)"
    assert ("State(done)#2", "Query(query00003)") in edges(run)
    assert run.get_active_branch() == {"State(done)", "Query(query00003)"}


def test_names_over_rounds() -> None:
    """The plain name is the newest one's that is there; numbers count those that are gone too, and stay."""
    _, _, run = three_rounds()
    done = ["State(done)#1", "State(done)#2", "State(done)"]
    assert run.nodes("State") == done
    assert [run.node(name).run_id for name in (*done, "State(done)#3")] == [0, 1, 2, 2]
    assert [run.get_IR_from_node(name) for name in done] == [run.node(name) for name in done]
    run.remove_node("State(done)")

    assert run.nodes("State") == ["State(done)#1", "State(done)"]
    assert run.node("State(done)").run_id == run.node("State(done)#2").run_id == 1
    with pytest.raises(NodeNotFoundError):
        run.node("State(done)#3")
    assert add(run, "State", "State(done)", label="done") == "State(done)"
    assert run.nodes("State") == ["State(done)#1", "State(done)#2", "State(done)"]
    assert run.node("State(done)#4").run_id == 2


def test_names_cost_the_same_in_every_round() -> None:
    """The nodes of all rounds are named by going over each round once, also those that are met again in each."""
    work: list[int] = []
    factory = RunFactory()
    for number in range(40):
        run, query = asked(number, factory=factory)
        add(run, "Table", query, label="orders")
        names = RunGraph(run._state).names()
        work.append(calls_of(partial(list, names)))

    assert work[39] - work[19] <= 2.2 * (work[19] - work[9])
    assert run.nodes("Table") == [*(f"Table(orders)#{number}" for number in range(1, 40)), "Table(orders)"]


def test_automatic_labels_over_rounds() -> None:
    """Their numbers go on, over rounds, chosen labels and what was removed (SPEC D3.4, D4.4)."""
    factory = RunFactory()
    first, query = asked(factory=factory)
    add(first, "State", query, label="state00001")
    assert add(first, "State", query) == "State(state00002)"
    first.remove_node("State(state00002)")
    second, query = asked(1, factory=factory)

    assert add(second, "State", query) == "State(state00003)"
    assert second.nodes("State") == ["State(state00001)", "State(state00003)"]


def test_rounds_alone() -> None:
    """Each earlier round by its number, as it is by itself; None where it was not restored (SPEC D9.6)."""
    first, second, run = three_rounds()
    run.remove_node("State(done)#1")

    assert sorted(run.get_all_historical_trajectories()) == [0, 1]
    assert run.get_historical_trajectory(0) == first.graph()
    assert set(getattr(run.get_historical_trajectory(1), "nodes", ())) == {"Query(query00001)", "State(done)"}
    assert run.get_historical_trajectory(2) is None
    assert second.get_historical_trajectory(1) is None


def test_only_the_rounds_of_its_session() -> None:
    """Another user's or session's are refused (SPEC D7.11); fewer, and another agent's, can be asked for."""
    factory = RunFactory()
    for sub in (0, 1):
        asked(0, factory=factory, sub=sub)
    asked(1, factory=factory)
    run = factory.run("mia", "s", 2)
    with pytest.raises(InvalidInputError, match="user_id 'mia', and 'bob' was asked for: open that run"):
        run.restore_previous_runs(user_id="bob")
    with pytest.raises(InvalidInputError, match="session_id 's', and 'z'"):
        run.restore_previous_runs(session_id="z")

    assert run.restore_previous_runs(user_id="mia", session_id="s", current_run_id=9) == [0, 1]
    assert run.restore_previous_runs(current_run_id=1) == [0]
    assert [(node.run_id, node.sub_id) for node in run.graph().nodes.values()] == [(0, 0)]
    assert run.restore_previous_runs(sub_id=1) == [0]
    assert [(node.run_id, node.sub_id) for node in run.graph().nodes.values()] == [(0, 1)]
    assert run.restore_previous_runs(current_run_id=-3) == []
    assert len(run.graph()) == 0


def test_restoring_again_is_an_event_where_rounds_went_on() -> None:
    """Else it is nothing (SPEC D7.1)."""
    first, _, run = three_rounds()
    version = run.version
    assert run.restore_previous_runs() == [0, 1]
    assert run.version == version
    add(first, "State", "State(done)")
    assert run.restore_previous_runs() == [0, 1]
    assert (run.version, len(run.graph())) == (version + 1, 7)


def test_a_graph_is_a_value() -> None:
    """Equal ones have one hash, in whatever order their edges stand; and it knows what is not in it."""
    graph = three_rounds()[2].graph()
    turned = Trajectory(
        graph.nodes.values(), graph.edges[::-1], root=graph.root, initial=graph.initial, pointers=graph.pointers
    )
    less = Trajectory(graph.nodes.values(), graph.edges[1:], root=graph.root, initial=graph.initial, pointers=())

    assert (turned, hash(turned)) == (graph, hash(graph))
    assert graph not in (less, "a graph")
    for ask in (graph.successors, graph.predecessors, graph.ancestors, graph.descendants):
        with pytest.raises(NodeNotFoundError, match="no node 'Table"):
            ask("Table(t)")
    with pytest.raises(NodeNotFoundError):
        graph.limited_to(["Table(t)"])


def test_a_graph_with_a_cycle_is_told() -> None:
    """One that somebody made; a marked edge does not count."""
    graph = three_rounds()[0].graph()
    back = TrajectoryEdge("State(done)", "Query(query00000)", "x")

    def made(edge: TrajectoryEdge) -> Trajectory:
        return Trajectory(graph.nodes.values(), [*graph.edges, edge], root=None, initial=None, pointers=())

    assert (graph.is_acyclic, made(back).is_acyclic) == (True, False)
    assert made(TrajectoryEdge(back.source, back.target, "x", leads_back=True)).is_acyclic


def test_data_behind_actions() -> None:
    """Tables lead on to their columns, in both directions, once each; other types are refused (SPEC D9.4, D9.5)."""
    run, query = asked()
    action, other = add(run, "Action", query, label="a"), add(run, "Action", query, label="b")
    table = add(run, "Table", action, other, label="t")
    column, script = add(run, "Column", table, action), add(run, "Script", action)
    add(run, "File", script)

    assert run.get_next_data_node(action) == [run.node(name) for name in (table, column, script)]
    assert run.get_next_data_node(other) == [run.node(name) for name in (table, column)]
    assert run.get_previous_action_node(column) == [run.node(name) for name in (action, other)]
    assert run.get_previous_action_node("File(file00000)") == []
    with pytest.raises(InvalidInputError, match="no Action"):
        run.get_next_data_node(table)
    for name in (query, action):
        with pytest.raises(InvalidInputError, match="no data node"):
            run.get_previous_action_node(name)
        with pytest.raises(InvalidInputError, match="no data node"):
            run.lineage(name)


def test_lineage() -> None:
    """All that bear the name, and what each came from, over rounds but not over bridges."""
    factory = RunFactory()
    for number in range(2):
        run, query = asked(number, factory=factory)
        add(run, "Table", add(run, "Action", query), label="t")
        add(run, "State", query, add_pt=True)

    assert run.lineage("Table(t)") == run.lineage("Table(t)#1") == [
        "Query(query00000)", "Action(action00000)", "Table(t)#1",
        "Query(query00001)", "Action(action00001)", "Table(t)",
    ]  # fmt: skip


def test_a_large_graph_is_little_for_the_collector() -> None:
    """A graph of the past and the state it is drawn from hold hardly anything that it goes through again and again."""
    run, query = asked()
    for _ in range(100):
        add(run, "Table", query, add_pt=True)
    gc.collect()
    before = len(gc.get_objects())
    graph = run.at(run.version - 1).graph()
    gc.collect()

    assert len(graph) == 100
    assert len(gc.get_objects()) - before < 50


def test_a_graph_is_a_collection_of_names() -> None:
    """Of its nodes; and it says how large it is."""
    run, query = asked()
    action = add(run, "Action", query)
    graph = run.graph()

    assert (len(graph), list(graph), query in graph, "State(never)" in graph) == (2, [query, action], True, False)
    assert repr(graph) == f"Trajectory(2 nodes, 1 edges, root={graph.root!r})"


def test_what_a_round_has_queued_is_restored() -> None:
    """Its events are in the log first: the graph goes back over all that the round holds here."""
    log = LateLog(lambda: Promise(lambda: log.land()))
    queueing = Attachment(log, system=CountingSystem(), durability="enqueue", unflushed=set(), is_detached=False)
    runs = RunFactory(queueing)
    first, second = (runs.run("mia", "s", number, restore=False) for number in (0, 1))
    query = first.register_query("why?")
    first.register_node("State", "done", [query], state="done")
    assert (log.head(first.stream_id) < first.version, second.restore_previous_runs()) == (True, [0])

    assert second._state.pins == (Segment(first.stream_id, first.version),)
