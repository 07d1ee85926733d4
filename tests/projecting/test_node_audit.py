"""The audit of a node: what `run.history` tells, from a projection, on every kind of store."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.trajectory.history import AttributeVersion
from refold.domain.trajectory.identity import RunId
from refold.domain.trajectory.nodes import DATA, NodeNotFoundError
from refold.domain.trajectory.run import Run
from refold.infrastructure.queries.node_audit import AttributeTransition, SeveralNodesError

from .run_lives import USER, Life


def told_by(history: list[AttributeVersion]) -> list[tuple[Any, ...]]:
    """Return what a history tells, without the numbers of versions."""
    return [tuple(one)[1:] for one in history]


def told(audit: list[AttributeTransition]) -> list[tuple[Any, ...]]:
    """Return what an audit tells, without the vertices."""
    return [msgspec.structs.astuple(one)[:-1] for one in audit]


def table(store: refold.Store, run_id: int = 0, sub_id: int | None = 0, **fields: Any) -> Run:
    """Return a run that has met the table `orders`."""
    run = store.run("mia", "s1", run_id, sub_id)
    query = run.register_query("How many?")
    run.register_node("Table", "", [query], "has", "orders", **{"path": "/o.csv", **fields})
    return run


@pytest.mark.parametrize("seed", range(4))
def test_it_is_the_history(store: refold.Store, seed: int) -> None:
    """Of every node, of all attributes and of each, also where older rounds go on beside newer ones."""
    life = Life(store, seed, goes_back=True)
    for _ in range(3):
        life.go_on(30)
        life.begin_round()
    life.last.restore_previous_runs()

    for node in life.last.graph().nodes.values():
        place: dict[str, Any] = {"user_id": USER, "session_id": life.session}
        if node.type not in DATA:
            place |= {"run_id": node.run_id, "sub_id": 0}
        history = life.last.history(node.name)
        assert told(store.audit_node(node.name, **place)) == told_by(history)
        for attribute in {one.attribute for one in history}:
            expected = told_by(life.last.history(node.name, attribute))
            assert told(store.audit_node(node.name, attribute, **place)) == expected


def test_what_a_transition_tells(store: refold.Store) -> None:
    """Old, new, who, when, why, and where it is recorded."""
    run = table(store)
    cause = run.recorded_events()[0]
    with refold.acting(actor="clerk", correlation_id="t1", because=cause):
        run.modify_node("Table(orders)", {"path": "/p.csv"})

    first, change = store.audit_node("Table(orders)", "path")

    recorded = run.recorded_events()[-1]
    assert (first.old, first.new, first.kind, first.vertex) == (None, "/o.csv", "registered", f"{run.stream_id}@3")
    assert change == AttributeTransition(
        attribute="path",
        old="/o.csv",
        new="/p.csv",
        kind="changed",
        recorded_at=recorded.recorded_at,
        actor="clerk",
        cause=cause.reference,
        correlation_id="t1",
        position=recorded.position,
        reference=recorded.reference,
        made_at=recorded.recorded_at / 1_000_000,
        vertex=f"{run.stream_id}@3",
    )


def test_all_agents_of_a_session(store: refold.Store) -> None:
    """A data node is one in all rounds and to all agents; what sub-agents made of it is told too."""
    table(store, path="a")
    table(store, 0, None, path="b").modify_node("Table(orders)", {"path": "c"})
    table(store, 1, path="d")

    audit = store.audit_node("Table(orders)", "path")

    assert [(one.old, one.new, one.kind) for one in audit] == [
        (None, "a", "registered"), ("a", "b", "met_again"), ("b", "c", "changed"), ("c", "d", "met_again"),
    ]  # fmt: skip


def test_a_removed_node(store: refold.Store) -> None:
    """It is told to its end, and from its return on."""
    run = table(store)
    run.remove_node("Table(orders)")
    run.register_node("Table", "", ["Query(query00000)"], "has", "orders", path="/q.csv")

    kinds = [(one.kind, one.old, one.new) for one in store.audit_node("Table(orders)", "path")]

    assert kinds == [("registered", None, "/o.csv"), ("removed", "/o.csv", None), ("met_again", None, "/q.csv")]


def test_which_node(store: refold.Store) -> None:
    """Where a name means several nodes, it has to be said which one; a number says it too."""
    for user, session, number in (("mia", "s1", 0), ("mia", "s1", 1), ("mia", "s2", 0)):
        run = store.run(user, session, number)
        query = run.register_query("?")
        run.register_node("State", f"{session} {number}", [query], label="done", state="yes")
        run.register_node("Table", "", [query], "has", "orders", path="/o.csv")

    def found(node: str, **place: Any) -> list[Any]:
        return [one.new for one in store.audit_node(node, "description", **place)]

    runs = [RunId("mia", "s1", 0, 0), RunId("mia", "s1", 1, 0), RunId("mia", "s2", 0, 0)]
    with pytest.raises(SeveralNodesError, match="in 2 sessions: give user_id and session_id") as refused:
        found("State(done)")
    assert refused.value.runs == (*runs,)
    with pytest.raises(SeveralNodesError, match="in 2 runs: give run_id and sub_id") as refused:
        found("State(done)", user_id="mia", session_id="s1")
    assert refused.value.runs == (*runs[:2],)
    with pytest.raises(SeveralNodesError, match="in 2 sessions: give user_id and session_id") as refused:
        found("Table(orders)")
    # A data node is the same in all runs of a session.
    assert refused.value.runs == (runs[0], runs[2])
    assert found("State(done)", session_id="s2") == ["s2 0"]
    assert found("State(done)", user_id="mia", session_id="s1", run_id=1) == ["s1 1"]
    assert found("State(done)#1", user_id="mia", session_id="s1") == ["s1 0"]
    # A number counts over the rounds of a session, as in the graph of a run.
    assert found("State(done)#2", user_id="mia", session_id="s1", run_id=1) == ["s1 1"]
    with pytest.raises(NodeNotFoundError):
        found("State(done)#1", user_id="mia", session_id="s1", run_id=1)


def test_a_number_counts_for_each_agent(store: refold.Store) -> None:
    """As in the graph of that agent: a node of the same name that another one has is not between them."""
    main = store.run("mia", "s1", 0)
    main.register_node("State", "first", [main.register_query("?")], label="done", state="yes")
    sub = store.run("mia", "s1", 0, None)
    sub.register_node("State", "of the other", [sub.register_query("?")], label="done", state="yes")
    main = store.run("mia", "s1", 1)
    main.register_node("State", "second", [main.register_query("?")], label="done", state="yes")

    (second,) = store.audit_node("State(done)#2", "description")
    assert (second.new, main.node("State(done)#2").description) == ("second", "second")
    with pytest.raises(InvalidInputError, match="in 2 runs: give run_id and sub_id"):
        store.audit_node("State(done)#1")
    (first,) = store.audit_node("State(done)#1", "description", run_id=0, sub_id=0)
    assert first.new == "first"


def test_rows_that_go_away_meanwhile(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the vertices of a node and their changes, as in an erasure: the audit has all changes all the same."""
    table(store).modify_node("Table(orders)", {"path": "/p.csv"})
    whole = store.audit_node("Table(orders)")
    rows, real = store._projections, type(store._projections).rows_under

    def going(projections: Any, projection: Any, *prefixes: str) -> list[Any]:
        if any("@" in prefix for prefix in prefixes):
            monkeypatch.undo()
            projections.drop(projection)
        return real(projections, projection, *prefixes)

    monkeypatch.setattr(type(rows), "rows_under", going)
    assert store.audit_node("Table(orders)") == whole
    assert len(whole) == 3


def test_what_is_not_there(store: refold.Store) -> None:
    """An error says what was wrong: the form of the name, the node, the attribute."""
    table(store)

    with pytest.raises(InvalidInputError, match="illegal format"):
        store.audit_node("orders")
    for name in ("Table(order)", "Chair(orders)", "Table(orders)#2", "run:mia/s1/0/0@0000000003/x(path)"):
        with pytest.raises(NodeNotFoundError, match="there is no node"):
            store.audit_node(name)
    with pytest.raises(NodeNotFoundError):
        store.audit_node("Table(orders)", session_id="s2")
    with pytest.raises(NotFoundError, match="never had an attribute 'color': it has description, path"):
        store.audit_node("Table(orders)", "color")


def test_in_an_event_loop(store: refold.Store) -> None:
    """The async side answers the same."""
    table(store)

    found = asyncio.run(refold.to_async(store).audit_node("Table(orders)", "path"))
    assert found == store.audit_node("Table(orders)", "path")
