"""`refold graph`: the graph of a session, for people and for programs."""

from pathlib import Path
from typing import Any

import networkx
import pydot
import pytest

import refold as package
from tests.cli.rounds import ACT
from tests.cli.running import refold

FIRST, SECOND = "mia/sales/0/0", "mia/sales/1/0"


def drawn(*arguments: object, db: Path) -> list[str]:
    """Return the lines of nodes, with single blanks."""
    return [" ".join(line.split()) for line in refold("graph", *arguments, db=db).out.splitlines()[3:]]


def test_a_session_is_drawn(sales: Path) -> None:
    """A line for each node over all rounds, with what it leads to; pointers have a star."""
    ended = refold("graph", "sales", db=sales)

    assert ended.out.splitlines()[0].startswith(f"run:{SECOND} @13  ")
    assert ended.out.splitlines()[0].endswith("  7 nodes, 8 edges, 1 pointer")
    assert ended.out.splitlines()[2].split() == ["ROUND", "AT", "NODE", "LEADS", "TO"]
    assert drawn("sales", db=sales) == [
        "0 @2 Query(query00000) triggers Action(action00000)",
        "0 @3 Action(action00000) outputs Table(orders (all))#1; has_conclusion State(state00000)",
        "0 @4 Table(orders (all))#1 continues_to Query(query00001)",
        "0 @5 State(state00000) continues_to Query(query00001)",
        "1 @3 Query(query00001) triggers Action(action00001); asks_for Table(orders (all))",
        "1 @4 Action(action00001) outputs Table(orders (all))",
        "* 1 @5 Table(orders (all))",
    ]
    assert ended.err == ""


def test_each_thing_once(sales: Path) -> None:
    """By identity, with the edges marked that so lead back."""
    lines = drawn("sales", "--identities", db=sales)

    assert lines[2] == "* 1 @5 Table(orders (all)) continues_to Query(query00001)"
    assert lines[4:] == [
        "1 @3 Query(query00001) triggers Action(action00001); asks_for Table(orders (all)) (back)",
        "1 @4 Action(action00001) outputs Table(orders (all)) (back)",
    ]


def test_the_active_branches_alone(sales: Path) -> None:
    """Actions that lead to no pointer are left out, with what only they led to."""
    with package.open(sales) as store:
        run = store.run("mia", "sales", 1)
        dead = run.register_node("Action", "in vain", ["Query(query00001)"], remove_pt=True, **ACT)
        run.register_node("Table", "", [dead], label="nothing", path="/")

    assert len(drawn("sales", db=sales)) - len(drawn("sales", "--active", db=sales)) == 2


@pytest.mark.parametrize(
    ("arguments", "title", "count"),
    [
        (["sales", "--round", 0], f"run:{FIRST} @9  ", 4),
        (["sales", "--sub", 1], "run:mia/sales/1/1 @2  ", 1),
        (["sales", "--user", "mia", "--round", 1, "--sub", 0], f"run:{SECOND} @13  ", 7),
        ([FIRST], f"run:{FIRST} @9  ", 4),
        ([f"run:{FIRST}@3"], f"run:{FIRST} @3 of 9  ", 2),
        ([f"{SECOND}@counted"], f"run:{SECOND} @12 of 13  ", 7),
        (["sales", "--at", 4], f"run:{SECOND} @4 of 13  ", 6),
        ([FIRST, "--at", "pos:3"], f"run:{FIRST} @3 of 9  ", 2),
        (["sales", "--at", "pos:4"], f"run:{FIRST} @4 of 9  ", 3),
    ],
)
def test_which_run_and_when(sales: Path, arguments: list[Any], title: str, count: int) -> None:
    """A round, an agent, a run, a moment; at a position it is the newest round that there was."""
    ended = refold("graph", *arguments, db=sales)

    assert ended.out.startswith(title)
    assert len(ended.out.splitlines()) - 3 == count


def test_a_run_without_nodes(sales: Path) -> None:
    """Its head alone is printed."""
    with package.open(sales) as store:
        store.run("mia", "empty")

    [head] = refold("graph", "mia/empty/0/0", db=sales).out.splitlines()

    assert head.startswith("run:mia/empty/0/0 @1  ")
    assert head.endswith("  0 nodes, 0 edges, 0 pointers")


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["nowhere"], 1, "there is no session 'nowhere': `refold contexts` lists the runs"),
        (["sales", "--user", "tom"], 1, "there is no session 'sales' of 'tom': `refold contexts` lists the runs"),
        (["mia/sales"], 1, "there is no session 'mia/sales': `refold contexts` lists the runs, and --user"),
        (["sales", "--round", 7], 1, f"session 'sales' has no such round or agent: its runs are {FIRST}, {SECOND}, "),
        (["sales", "--at", "pos:0"], 1, f"run:{FIRST} was not opened yet at pos:0"),
        (["sales", "--at", "99"], 1, f"run:{SECOND} has no version 99"),
        ([f"{FIRST}@99"], 1, f"run:{FIRST} has no version 99"),
        ([f"{FIRST}@?"], 2, "Invalid value: '?' names no moment"),
        ([FIRST, "--round", 0], 2, f"--user, --round and --sub go with a session, and this is run:{FIRST}"),
        ([f"{FIRST}@2", "--at", "3"], 2, "the moment is given twice: in RUN@V and with --at"),
        (["sales", "--round", -1], 2, "Invalid value for '--round'"),
        ([""], 2, "Invalid value for 'SESSION': it is empty"),
    ],
)
def test_what_cannot_be_drawn(sales: Path, arguments: list[Any], code: int, fault: str) -> None:
    """One line says why."""
    ended = refold("graph", *arguments, db=sales)

    assert ended.code == code
    assert ended.fault.startswith(fault)


def test_sessions_of_one_name(sales: Path) -> None:
    """It must be said whose is meant; ids may hold any character."""
    with package.open(sales) as store:
        store.run("tom@x/y", "sales").register_query("Mine?")

    assert (
        refold("graph", "sales", db=sales).fault == "session 'sales' is one of 'mia', 'tom@x/y': say whose with --user"
    )
    assert drawn("sales", "--user", "tom@x/y", db=sales) == ["* @2 Query(query00000)"]
    assert drawn("tom%40x%2Fy/sales/0/0@2", db=sales) == ["* @2 Query(query00000)"]


def test_a_round_that_stands_alone(sales: Path) -> None:
    """That nothing of the earlier rounds is there is said beside the graph."""
    with package.open(sales) as store:
        store.run("mia", "sales", 2, restore=False).register_query("Afresh?")
    ended = refold("graph", "sales", db=sales)

    assert ended.err == "note: run:mia/sales/2/0 goes back over no earlier round: it is shown alone\n"
    assert len(ended.out.splitlines()) == 4


@pytest.mark.parametrize("option", [["--as", "json"], ["--json"]])
def test_as_json(sales: Path, option: list[str]) -> None:
    """Node-link, which networkx reads."""
    with package.open(sales) as store:
        expected = store.run("mia", "sales", 1).graph()
    shape = refold("graph", "sales", *option, db=sales).json

    assert shape == expected.to_node_link()
    assert networkx.utils.graphs_equal(networkx.node_link_graph(shape, edges="edges"), expected.to_networkx())


@pytest.mark.filterwarnings("ignore::DeprecationWarning:pydot")
def test_drawings(sales: Path) -> None:
    """What the graph itself draws, and nothing beside it."""
    with package.open(sales) as store:
        graph = store.run("mia", "sales", 1).graph()
    dot = refold("graph", "sales", "--as", "dot", db=sales).out
    (parsed,) = pydot.graph_from_dot_data(dot) or []

    assert dot == graph.to_dot()
    assert len(parsed.get_nodes()) == 7
    assert refold("graph", "sales", "--as", "mermaid", "--identities", db=sales).out == graph.by_identity().to_mermaid()


def test_lines_are_fitted(sales: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To the terminal's width; in a pipe nothing is cut short."""
    monkeypatch.setenv("COLUMNS", "60")
    lines = refold("graph", "sales", db=sales).out.splitlines()

    assert max(map(len, lines)) <= 60
    assert [line.strip() for line in lines if "->" in line][:3] == [
        "-> triggers Action(action00000)",
        "-> outputs Table(orders (all))#1",
        "-> has_conclusion State(state00000)",
    ]
