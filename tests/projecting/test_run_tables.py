"""The tables of runs: whatever happened, they hold what the log says, on every kind of store."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.envelope import NO_META
from refold.domain.log.ports import NewEvents
from refold.domain.positions import BEGINNING
from refold.domain.trajectory.events import QueryRegistered, RunOpened
from refold.domain.trajectory.run import Run
from refold.infrastructure.projecting.folding import fold_page
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.queries.runs import NodeFilter, node_page
from refold.projections.contract import Projection
from refold.projections.trajectory_tables import NODES, RUN_TABLES
from refold.projections.transitions import TRANSITIONS

from .run_lives import USER, Life

SEEDS = (1, 2, 3)
PROJECTIONS = (*RUN_TABLES, TRANSITIONS)


def folded(store: refold.Store, projection: Projection) -> bytes:
    """Return the rows of a fold of the whole log, in the order of their keys."""
    events = store.log.read_all(after=BEGINNING, limit=100_000).events
    rows = fold_page(projection, events, MemoryProjectionStore())
    # A text column of PostgreSQL cannot hold a NUL; there is none but in JSON, where it is written otherwise.
    return msgspec.msgpack.encode([row for _, row in sorted(rows.items())])


def orders(store: refold.Store, **options: Any) -> Run:
    """Return a run with a query, an action and a table."""
    run = store.run("mia", "s1", **options)
    query = run.register_query("How many?", ["a.csv"])
    action = run.register_node("Action", "", [query], action="look", params={"n": 1}, output=None, success=True)
    run.register_node("Table", "", [action], label="orders", path="/o.csv", rows=7)
    return run


@pytest.mark.parametrize("seed", SEEDS)
def test_rows_equal_the_fold(store: refold.Store, seed: int) -> None:
    """Brought up to date now and then, the rows of all projections are byte for byte what one fold of the log gives."""
    life = Life(store, seed, goes_back=True)
    for _ in range(4):
        life.go_on(25)
        life.begin_round()
        store._runner.catch_up(*PROJECTIONS)
    life.go_on(10)

    for projection in PROJECTIONS:
        assert msgspec.msgpack.encode(store._runner.rows(projection)) == folded(store, projection), projection.name


@pytest.mark.parametrize("seed", range(5))
def test_the_graph_comes_back(store: refold.Store, seed: int) -> None:
    """From the tables alone comes the graph that the run shows: nodes, edges, bridges, root and pointers."""
    life = Life(store, seed, goes_back=False)
    for _ in range(3):
        life.go_on(25)
        assert store.run_graph(USER, life.session) == life.last.graph()
        life.begin_round()

    restored = store.run_graph(USER, life.session)
    assert restored == life.last.graph()
    assert restored.trimmed() == life.last.graph(trimmed=True)
    assert {node.birth for node in restored.nodes.values()} == {one.birth for one in life.last.graph().nodes.values()}


def test_one_round(store: refold.Store) -> None:
    """A round alone has its own nodes, edges and pointers, and no bridges."""
    first = orders(store)
    orders(store, run_id=1)

    assert store.run_graph("mia", "s1", 0) == first.graph()
    assert {edge.type for edge in store.run_graph("mia", "s1").edges} == {"triggers", "outputs", "continues_to"}


def test_a_row(store: refold.Store) -> None:
    """The columns of D13.7: whose it is, the fields of the type as JSON, and what changed attributes had before."""
    run = orders(store)
    run.modify_node("Table(orders)", {"path": "/p.csv", "rows": None})
    run.modify_node("Table(orders)", {"description": "All orders."})

    [row] = store.run_nodes("mia", "s1", node_type="Table")

    assert msgspec.structs.asdict(row) == {
        "key": f"{run.stream_id}@{4:010}",
        "label": "orders",
        "description": "All orders.",
        "user_id": "mia",
        "session_id": "s1",
        "run_id": 0,
        "sub_id": 0,
        "created_at": run.node("Table(orders)").created_at,
        "changes": 2,
        "history": '{"0":{"path":"/o.csv","rows":7},"1":{"description":""}}',
        "extra": '{"rows":null}',
        "pointer_of": "[]",
        "removed_by": "",
        "path": '"/p.csv"',
    }
    assert {int(number): old for number, old in json.loads(row.history).items()} == run.node("Table(orders)").history


def test_the_ten_types(store: refold.Store) -> None:
    """Each type has a table with a column for each of its fields; `None` is a value, and not given is none."""
    run = orders(store)
    query, action, table = run.nodes()

    rows = store.run_nodes("mia", "s1")

    assert len(NODES) == 10
    assert [(row.node_type, row.label) for row in rows] == [
        ("Query", "query00000"), ("Action", "action00000"), ("Table", "orders"),
    ]  # fmt: skip
    _, row, _ = (msgspec.structs.asdict(row) for row in rows)
    assert [row[name] for name in ("action", "params", "output", "success")] == ['"look"', '{"n":1}', "null", "true"]
    assert [(edge.source, edge.target, edge.relationship) for edge in store.run_edges("mia", "s1")] == [
        (rows[0].key, rows[1].key, "triggers"), (rows[1].key, rows[2].key, "outputs"),
    ]  # fmt: skip
    assert {query, action, table} == set(store.run_graph("mia", "s1").nodes)


def test_a_later_round_changes_an_earlier_one(store: refold.Store) -> None:
    """The change lies in the later round, the row in the earlier one; what was removed says by what."""
    orders(store)
    later = store.run("mia", "s1", 1)
    later.modify_node("Table(orders)", {"path": "/p.csv"})
    [table] = store.run_nodes("mia", "s1", 0, node_type="Table")
    later.remove_node("Action(action00000)")
    kept = store._runner.rows(NODES["Action"])

    assert table.path == '"/p.csv"'
    assert [row.removed_by for row in kept] == [later.recorded_events()[-1].reference]
    assert [row.node_type for row in store.run_nodes("mia", "s1")] == ["Query", "Table"]
    assert store.run_edges("mia", "s1") == []
    assert set(store.run_graph("mia", "s1").nodes) == {"Query(query00000)", "Table(orders)"}


def test_which_runs(store: refold.Store) -> None:
    """By user, session, round and sub-agent; ten is not one, and names that begin alike are others."""
    for user, session, number in (
        ("mia", "s1", 0),
        ("mia", "s1", 1),
        ("mia", "s1", 10),
        ("mia", "s1/0", 0),
        ("mi", "s1", 0),
    ):
        store.run(user, session, number).register_query("x")
    store.run("mia", "s1", 1, None).register_query("y")

    def found(*place: Any) -> list[tuple[str, str, int, int]]:
        return [(row.user_id, row.session_id, row.run_id, row.sub_id) for row in store.run_nodes(*place)]

    assert found("mia", "s1") == [("mia", "s1", 0, 0), ("mia", "s1", 1, 0), ("mia", "s1", 1, 1), ("mia", "s1", 10, 0)]
    assert found("mia", "s1", 1) == [("mia", "s1", 1, 0), ("mia", "s1", 1, 1)]
    assert found("mia", "s1", 1, 1) == found("mia", "s1", None, 1) == [("mia", "s1", 1, 1)]
    assert found("mia", "s1/0") == [("mia", "s1/0", 0, 0)]
    assert found("mia", "s") == found("m", "s1") == []
    assert store.run_graph("mia", "s1", sub_id=1).nodes.keys() == {"Query(query00000)"}


def test_an_edge_between_rounds_is_none_of_a_round(store: refold.Store) -> None:
    """Such an edge is in the graph of the run, and in no table (D13.2)."""
    orders(store)
    later = store.run("mia", "s1", 1)
    query = later.register_query("And now?")
    later.register_node("State", "", [query, "Table(orders)"], "concludes", state="many")

    assert {edge.run_id for edge in store.run_edges("mia", "s1", 1)} == {1}
    assert [edge.relationship for edge in store.run_edges("mia", "s1", 1)] == ["concludes"]
    assert len(later.graph().edges) == len(store.run_graph("mia", "s1").edges) + 1


def test_long_and_odd_names(store: refold.Store) -> None:
    """A label, an attribute and an edge type of any length and kind, which a key could not hold."""
    run = orders(store)
    label, attribute, edge = "l/%@" + "ü" * 5_000, "a/" + "x" * 5_000, "e\n" + "y" * 5_000
    given: dict[str, Any] = {"path": "p", "source": "s", attribute: 1}
    name = run.register_node("File", "", ["Table(orders)"], edge, label, **given)
    run.modify_node(name, {attribute: 2})

    assert store.run_graph("mia", "s1") == run.graph()
    assert [one.new for one in store.audit_node(name, attribute)] == [1, 2]
    assert store.run_edges("mia", "s1")[-1].relationship == edge


def test_a_stream_of_another_form(store: refold.Store) -> None:
    """A stream whose name does not say which run it is has no rows, and nothing stumbles over it."""
    query = QueryRegistered(label="q", fields=b'{"query":1,"additional_files":2}', created_at=1.5)
    events = (RunOpened(user="mia", session="s1"), query)
    for context in ("elsewhere", "mia/s1/00/0", f"mia/s1/{1 << 70}/0"):
        new = NewEvents(stream=f"run:{context}", expected_version=0, events=events, metas=(NO_META,) * 2)
        store.log.append([new]).result()

    assert [store._runner.rows(one) for one in PROJECTIONS] == [[]] * len(PROJECTIONS)
    assert store.run_nodes("mia", "s1") == []


def test_what_is_not_there(store: refold.Store) -> None:
    """No rows for unknown runs, an error for a graph of nothing, and for what cannot be."""
    assert (store.run_nodes("mia", "s1"), store.run_edges("mia", "s1")) == ([], [])
    with pytest.raises(NotFoundError, match="no node was registered in run:mia/s1/"):
        store.run_graph("mia", "s1")
    with pytest.raises(InvalidInputError, match="no node type 'Chair'"):
        store.run_nodes("mia", "s1", node_type="Chair")
    with pytest.raises(InvalidInputError, match="run_id is -1"):
        store.run_edges("mia", "s1", -1)


def test_in_an_event_loop(store: refold.Store) -> None:
    """The async side answers the same."""
    orders(store)

    async def asked() -> tuple[Any, ...]:
        opened, place = refold.to_async(store), ("mia", "s1")
        return await opened.run_nodes(*place), await opened.run_edges(*place, 0), await opened.run_graph(*place)

    assert asyncio.run(asked()) == (
        store.run_nodes("mia", "s1"), store.run_edges("mia", "s1"), store.run_graph("mia", "s1"),
    )  # fmt: skip


def test_an_event_that_is_none_of_theirs(store: refold.Store) -> None:
    """A row stays as it is, and no edge belongs to the event."""
    run = orders(store)
    (opened,) = store.log.read(run.stream_id, until=1)
    (table,) = store.run_nodes("mia", "s1", node_type="Table")
    edge = store.run_edges("mia", "s1")[0]
    edges = next(one for one in RUN_TABLES if one.name == "run_edge")

    assert NODES["Table"].evolve(table.key, table, opened) is table
    assert edges.evolve(edge.key, edge, opened) is edge
    assert edges.keys(opened) == ()


def test_a_cursor_of_something_else(store: refold.Store) -> None:
    """It is refused, and the error says what to do."""
    orders(store)
    first = node_page(store._runner, NodeFilter(), limit=1, cursor=None)

    assert len(node_page(store._runner, NodeFilter(), limit=9, cursor=first.cursor).nodes) == 2
    with pytest.raises(InvalidInputError, match="'Chart x' is no cursor of a page of nodes: leave it out"):
        node_page(store._runner, NodeFilter(), limit=1, cursor="Chart x")
