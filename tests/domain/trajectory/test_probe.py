"""What single calls of the seed's module gave, statement by statement: held, or deviated from as is told."""

import threading
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.trajectory.factory import RunFactory
from refold.domain.trajectory.nodes import RunStateError
from refold.domain.trajectory.run import Run

from .registering import action, asked_run, edges, new_run, pointers, state, table, unchanged

QUERY, FIRST, SECOND = "Query(query00000)", "Action(action00000)", "Action(action00001)"


# Instances


def test_a_sub_agent_needs_a_main_one() -> None:
    """D1.4: which is a ValueError, held."""
    with pytest.raises(ValueError, match=r"^Cannot initialize Context class in main agent without sub_id\.$"):
        RunFactory().run("mia", "s1", 0, None)


def test_one_run_for_each_tuple() -> None:
    """D1.1 to D1.3, D1.6: the same tuple is the same object, another sub-agent is another one."""
    factory = RunFactory()
    run = factory.run("mia", "s1")

    assert factory.run("mia", "s1", 0, 0) is run
    assert factory.run("mia", "s1", 0, 1) is not run


def test_sixteen_threads_get_one_run() -> None:
    """D1.2."""
    factory, found, ready = RunFactory(), list[Run](), threading.Barrier(16)

    def get() -> None:
        ready.wait()
        found.append(factory.run("mia", "s1"))

    threads = [threading.Thread(target=get) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len({id(run) for run in found}) == 1
    assert (len(found), found[0].version) == (16, 1)


def test_numbers_of_sub_agents() -> None:
    """D1.5, D1.7, repaired: the next free number, whatever was opened before or let go of since."""
    factory = RunFactory()
    held = [factory.run("mia", "s1"), factory.run("mia", "s1", 0, 2)]
    held += [factory.run("mia", "s1", 0, None) for _ in range(2)]
    held.append(factory.run("mia", "other"))
    factory.release()

    assert [run.sub_id for run in held] == [0, 2, 1, 3, 0]
    assert factory.run("mia", "s1", 0, None).sub_id == 4


# Registering


def test_the_query_comes_first_and_once() -> None:
    """D3.1 to D3.3, D4.2."""
    run = new_run()
    unchanged(
        run, lambda: state(run, QUERY), RunStateError, "Cannot register other node before registering query node."
    )
    assert isinstance(RunStateError(), RuntimeError)

    assert run.register_query("q", []) == QUERY
    assert (pointers(run), run.initial, run.session_root) == ([QUERY], QUERY, QUERY)
    assert run.node(QUERY).description == "User query No.00000"
    unchanged(run, lambda: run.register_query("q"), RunStateError, "Agent cannot have more than one query in one run!")


def test_a_query_is_registered_as_one() -> None:
    """D3.2, repaired: not as any node, where the seed lets a second one in."""
    run, query = asked_run()
    unchanged(
        run,
        lambda: run.register_node("Query", "d", [query], "e", query="q", additional_files=[]),
        InvalidInputError,
        "A query is registered by register_query.",
    )


@pytest.mark.parametrize(
    ("predecessors", "message"),
    [
        ([], "At least one predecessor node is required."),
        (["Nope(x)"], "Cannot find predecessor node Nope(x) on the graph."),
    ],
)
def test_predecessors_are_there(predecessors: list[str], message: str) -> None:
    """D4.3: ValueErrors both."""
    run, _ = asked_run()

    unchanged(run, lambda: state(run, *predecessors), ValueError, message)


@pytest.mark.parametrize(
    ("chain", "kinds"),
    [
        ([action], ["triggers"]),
        ([state], ["has_conclusion"]),
        ([action, state], ["triggers", "has_conclusion"]),
        ([state, state], ["has_conclusion", "has_conclusion"]),
        ([state, action], ["has_conclusion", "triggers"]),
    ],
)
def test_inferred_edges(chain: list[Any], kinds: list[str]) -> None:
    """D5.2, D5.3: questions and conclusions trigger actions, and conclusions come of all."""
    run, last = asked_run()
    for register in chain:
        last = register(run, last)

    assert [kind for _, _, kind in edges(run)] == kinds
    assert pointers(run) == [last]


def test_edges_without_a_usual_type() -> None:
    """D5.4, held: but for data of an action, which it outputs (repaired)."""
    run, query = asked_run()
    first = state(run, query, add_pt=True)
    second = action(run, first)
    for call in (
        lambda: action(run, query, first),
        lambda: action(run, second),
        lambda: run.register_node("Skill", "", [query], path="p"),
    ):
        unchanged(run, call, InvalidInputError, "No default edge type detected. Please provide an edge type.")

    run.register_node("Skill", "", [second], path="p")
    assert edges(run)[-1] == (FIRST, "Skill(skill00000)", "outputs")


def test_types_and_fields() -> None:
    """D2.4; D4.7, repaired: a type that there is not is a ValueError, and what types there are is said."""
    run, query = asked_run()
    unchanged(
        run,
        lambda: run.register_node("Zzz", "", [query], "e"),
        InvalidInputError,
        "there is no node type 'Zzz': it is one of Query, State, Action, Knowledge, Tool, Table, Column, File, "
        "Script, Skill",
    )
    unchanged(
        run,
        lambda: run.register_node("Table", "", [query], "e"),
        InvalidInputError,
        "A Table node must contain info about '['path']'.",
    )

    name = table(run, query, None, owner="sales")
    assert name == "Table(table00000)"
    assert run.graph().nodes[name].attributes == {"description": "d0", "path": "p", "owner": "sales"}
    assert run.node(name).extra == {"owner": "sales"}


@pytest.mark.parametrize("label", ["a(b)", "a)(b", "(", "two\nlines", "#2", "x#1", "漢字 \U0001f600"])
def test_any_label(label: str) -> None:
    """D2.5, repaired: with parentheses it can be read back."""
    run, query = asked_run()
    name = table(run, query, label)

    assert name == f"Table({label})"
    assert (run.node(name).label, run.node(name).get_schema()) == (label, {"label": label, "description": "d0"})


def test_a_label_that_is_taken() -> None:
    """D4.5, repaired: data are met again and keep what is not given anew; in its round an action's label is taken."""
    run, query = asked_run()
    first = action(run, query, label="a")
    table(run, first, owner="sales")
    table(run, first, path="q")

    assert run.nodes("Table") == ["Table(orders)#1", "Table(orders)"]
    assert run.graph().nodes["Table(orders)"].attributes == {"description": "d0", "path": "q", "owner": "sales"}
    unchanged(run, lambda: action(run, query, label="a"), InvalidInputError, "Multiple nodes with same label detected.")


def test_automatic_labels() -> None:
    """D4.4: chosen labels count too, no number comes again; one that somebody chose is passed over (repaired)."""
    run, query = asked_run()
    table(run, query)
    skipped = table(run, query, None)
    run.remove_node(skipped)
    names = [table(run, query, label) for label in (None, "table00004", None)]

    assert (skipped, *names) == ("Table(table00001)", "Table(table00002)", "Table(table00004)", "Table(table00005)")


def test_values_are_copied() -> None:
    """D4.8, repaired: what becomes of the caller's list is nothing to the node."""
    run, query = asked_run()
    path: list[Any] = ["x"]
    name = table(run, query, path=path)
    path.append("y")

    assert run.node(name).path == ["x"]


# Pointers


def test_data_move_no_pointers() -> None:
    """D6.5, repaired: not by `add_pt` and `remove_pt` either."""
    run, query = asked_run()
    for options in ({}, {"add_pt": True}, {"remove_pt": True}):
        table(run, query, None, **options)

    assert pointers(run) == [query]


def test_pointers_advance_append_close_and_join() -> None:
    """D6.2 to D6.4, D6.8."""
    run, query = asked_run()
    first = action(run, query, add_pt=True)
    assert pointers(run) == [first, query]
    second = action(run, query)
    assert pointers(run) == [first, second]
    state(run, first, remove_pt=True)
    assert pointers(run) == [second]
    both = state(run, second, add_pt=True, remove_pt=True)
    assert pointers(run) == [second, both]
    joined = action(run, second, both, edge_type="e")
    assert pointers(run) == [joined]


def test_a_predecessor_that_is_no_pointer() -> None:
    """D6.6, repaired: it need not be one."""
    run, query = asked_run()
    action(run, query)
    action(run, query)
    state(run, QUERY, remove_pt=True)

    assert pointers(run) == [FIRST, SECOND]


def test_what_is_read_is_a_value() -> None:
    """D6.1, D9.1, repaired: neither the pointers nor the graph change afterwards."""
    run, query = asked_run()
    before, graph = run.get_active_branch(), run.graph()
    action(run, query)

    assert (before, graph.pointers, list(graph)) == (frozenset([query]), frozenset([query]), [query])
    assert run.graph() is run.graph()


def test_the_trimmed_graph() -> None:
    """D9.2, D9.3: actions that lead to no pointer go, and what comes of them; a state behind the query stays."""
    run, query = asked_run()
    dead = action(run, query, add_pt=True)
    table(run, dead)
    lonely = state(run, query, add_pt=True)
    live = action(run, query)
    for end in (dead, lonely):
        state(run, end, remove_pt=True)

    assert pointers(run) == [live]
    assert len(run.graph()) == 7
    assert list(run.graph(trimmed=True)) == [query, lonely, live, "State(state00002)"]


def test_data_and_their_actions() -> None:
    """D9.4, D9.5: columns lie behind their tables; both calls give nodes, and take no name of another kind."""
    run, query = asked_run()
    first = action(run, query)
    tables = [table(run, first), table(run, query, "other")]
    for name in tables:
        run.register_node("Column", "", [name], "has", name, from_table=name, values={}, supplementary_schemas={})

    assert [node.label for node in run.get_next_data_node(first)] == ["orders", "Table(orders)"]
    assert run.get_previous_action_node("Column(Table(orders))") == [run.node(first)]
    assert run.get_previous_action_node("Column(Table(other))") == []
    for call, name in ((run.get_next_data_node, tables[0]), (run.get_previous_action_node, first)):
        with pytest.raises(ValueError, match="is no"):
            call(name)
