"""What is written is what another store gets."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import refold
from refold.domain.trajectory.run import Run
from refold.infrastructure.round_files import import_round_files, read_round_files, write_round_files

from .rounds import SESSION, USER, busy_run, changes, next_run, without_births

LABELS = st.one_of(
    st.text(st.characters(codec="utf-8"), min_size=1, max_size=6),
    st.sampled_from(["a)#2", "(", ")", "a(b)", "\n", '"', "表", "\x00", "#1"]),
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False, allow_infinity=False) | LABELS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(LABELS, inner, max_size=2),
    max_leaves=4,
)


def carried_over(runs: list[Run], root: Path, other: refold.Store) -> list[Run]:
    """Write rounds, import them into another store, and return the runs there."""
    for run in runs:
        write_round_files(run, root)
    imported = import_round_files(other, root, user_id=USER, session_id=SESSION)
    assert [one.outcome for one in imported] == ["added"] * len(runs)
    return [other.run(*run.identity, create=False) for run in runs]


def test_graphs_are_the_same(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """Nodes with their attributes and times, edges, bridges to the round before, pointers, query and root."""
    runs = [busy_run(store), next_run(store)]

    copies = carried_over(runs, tmp_path, other)

    for run, copy in zip(runs, copies, strict=True):
        assert without_births(copy.graph()) == without_births(run.graph())
        assert [copy.node(name) for name in copy.nodes()] == [run.node(name) for name in run.nodes()]
    assert copies[1].graph().is_acyclic


def test_the_store_may_be_a_server(store: refold.Store, ready_pg_url: str, tmp_path: Path) -> None:
    """On PostgreSQL the same graph comes out, and coming again changes nothing there either."""
    runs = [busy_run(store), next_run(store)]
    with refold.open(ready_pg_url) as server:
        copies = carried_over(runs, tmp_path, server)
        again = import_round_files(server, tmp_path, user_id=USER, session_id=SESSION)

        assert [without_births(copy.graph()) for copy in copies] == [without_births(run.graph()) for run in runs]
        assert [one.outcome for one in again] == ["unchanged", "unchanged"]


def test_history_tells_who_and_when(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """Each change has its old and new value, its actor and its time; a portrait stays one, with its model."""
    run = busy_run(store)

    (copy,) = carried_over([run], tmp_path, other)

    for name in run.nodes():
        assert changes(copy, name) == changes(run, name)
    assert copy.node("Table(orders (2031))#1").history == {0: {"path": "/o.csv", "id": 7}, 1: {"path": "/p.csv"}}
    assert copy.versions("File(f)")[-1].recorded.event.model == "m.Model"


def test_messages_and_agent_come_along(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """Messages with ids, status and those of the system; the agent is who acts by default."""
    run = busy_run(store)

    (copy,) = carried_over([run], tmp_path, other)

    assert copy.messages() == run.messages()
    assert copy.agent == "counter"


def test_what_is_written_again_is_the_same(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """The files of the copy are those of the original but for the version; the same run gives the same bytes."""
    run = busy_run(store)
    first = [path.read_bytes() for path in write_round_files(run, tmp_path / "a")]

    (copy,) = carried_over([run], tmp_path / "a", other)

    assert [path.read_bytes() for path in write_round_files(run, tmp_path / "a")] == first
    second = [path.read_bytes() for path in write_round_files(copy, tmp_path / "b")]
    versions = [text.replace(f'"version": {copy.version}'.encode(), b'"version": {}') for text in second]
    assert versions == [text.replace(f'"version": {run.version}'.encode(), b'"version": {}') for text in first]


def test_a_past_moment_can_be_written(store: refold.Store, tmp_path: Path) -> None:
    """Of a view of the past the files say what held then."""
    run = busy_run(store)
    write_round_files(run.at(3), tmp_path)

    record = read_round_files(tmp_path, 0).record

    assert [node.name for node in record.nodes] == ["Query(query00000)", "Action(action00000)"]
    assert record.pointers == {"Action(action00000)"}
    assert (record.version, list(record.messages)) == (3, [])


def test_other_rounds_stay_out(store: refold.Store, tmp_path: Path) -> None:
    """A round's files hold its own nodes and edges alone, without bridges (SPEC D13.2)."""
    busy_run(store)
    run = next_run(store)
    run.add_edge("Table(orders (2031))#1", "Action(action00001)", "fed")
    run.modify_node("Table(orders (2031))#1", {"path": "/elsewhere"})

    graph = json.loads(write_round_files(run, tmp_path).graph.read_bytes())

    names = ["Query(query00001)", "Action(action00001)", "Table(orders (2031))"]
    assert [node["id"] for node in graph["nodes"]] == names
    assert [(one["source"], one["target"]) for one in graph["edges"]] == [(names[0], names[1]), (names[1], names[2])]


def test_an_open_transaction_is_not_told_of(store: refold.Store, tmp_path: Path) -> None:
    """What may be taken back is not written down."""
    run = busy_run(store)
    with store.transaction():
        run.remove_node("File(f)")
        with pytest.raises(refold.RefoldError, match="is being changed by a transaction"):
            write_round_files(run, tmp_path)

    assert write_round_files(run, tmp_path).graph.exists()


def test_sub_agents_have_files_of_their_own(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """`Run0_Sub1` is the first sub-agent's; it goes back over nothing."""
    main = busy_run(store)
    sub = store.run(USER, SESSION, 0, None)
    sub.register_query("Part of it?")

    copies = carried_over([main, sub], tmp_path, other)

    assert sorted(path.name for path in (tmp_path / ".context").iterdir()) == [
        "Run0_Sub0.json", "Run0_Sub0.meta.json", "Run0_Sub1.json", "Run0_Sub1.meta.json",
    ]  # fmt: skip
    assert without_births(copies[1].graph()) == without_births(sub.graph())


def test_an_empty_round(store: refold.Store, other: refold.Store, tmp_path: Path) -> None:
    """A run in which nothing happened yet is one in the other store as well."""
    (copy,) = carried_over([store.run(USER, SESSION, 0)], tmp_path, other)

    assert (len(copy.graph()), copy.get_active_branch(), copy.messages()) == (0, frozenset(), [])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(nodes=st.lists(st.tuples(LABELS, VALUES, st.integers(0, 9), st.none() | VALUES), max_size=5))
def test_any_label_and_value(nodes: list[tuple[str, Any, int, Any]], tmp_path_factory: pytest.TempPathFactory) -> None:
    """Labels with parentheses, quotes, newlines; values of any JSON; nodes met again and changed."""
    with refold.open(":memory:") as store, refold.open(":memory:") as other:
        run = store.run(USER, SESSION, agent="counter")
        run.register_query("q")
        for label, value, behind, changed in nodes:
            there = run.nodes()
            name = run.register_node("Table", "", [there[behind % len(there)]], "has", label=label, path=value)
            if changed is not None:
                run.modify_node(name, {"path": changed, "description": label})

        (copy,) = carried_over([run], tmp_path_factory.mktemp("any"), other)

        assert without_births(copy.graph()) == without_births(run.graph())
        assert [changes(copy, name) for name in copy.nodes()] == [changes(run, name) for name in run.nodes()]
