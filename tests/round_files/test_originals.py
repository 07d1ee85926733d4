"""Files that the originals wrote (SPEC D13.1 to D13.4)."""

from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.messages import HumanMessage, SystemMessage
from refold.domain.trajectory.run import Run
from refold.infrastructure.round_files import import_round_files, load_meta_from_json

from .rounds import ACTION, ASKS, ENDS, QUERY, SESSION, STATE, USER, edge, edges_of, node, table, write_original

NAMES = ["Query(query00000)", "Action(action00000)", "State(state00000)"]


def imported(store: refold.Store, root: Path) -> tuple[Run, tuple[str, ...]]:
    """Import the only round of a folder, and return the run and the notes."""
    (one,) = import_round_files(store, root, user_id=USER, session_id=SESSION)
    assert one.outcome == "added"
    return store.run(*one.run, create=False), one.notes


@pytest.mark.parametrize("links", ["edges", "links"])
def test_both_keys_of_edges(store: refold.Store, tmp_path: Path, links: str) -> None:
    """D13.4: one version of networkx writes `edges`, an older one `links`."""
    meta = {"initial_pt": NAMES[0], "current_pt": [NAMES[1]], "messages": {}}
    write_original(tmp_path, [QUERY, ACTION, STATE], [ASKS, ENDS], meta=meta, links=links)

    run, notes = imported(store, tmp_path)

    assert run.nodes() == NAMES
    assert edges_of(run) == {(NAMES[0], NAMES[1], "triggers"), (NAMES[1], NAMES[2], "has_conclusion")}
    assert (run.initial, run.get_active_branch()) == (NAMES[0], frozenset(NAMES[1:2]))
    assert list(notes) == []
    assert run.node(NAMES[1]).get_full_content()["output"] == "o"


def test_networkx_writes_what_we_read(store: refold.Store, tmp_path: Path) -> None:
    """A graph that networkx itself put into words, multigraph or not."""
    networkx = pytest.importorskip("networkx")
    graph = networkx.MultiDiGraph()
    for one in (QUERY, ACTION):
        graph.add_node(one["id"], **{key: value for key, value in one.items() if key != "id"})
    graph.add_edge(*NAMES[:2], edge_type="triggers")
    graph.add_edge(*NAMES[:2], edge_type="asks")
    data = networkx.node_link_data(graph, edges="edges")
    write_original(tmp_path, data["nodes"], data["edges"], multigraph=data["multigraph"])

    run, _ = imported(store, tmp_path)

    assert edges_of(run) == {(*NAMES[:2], "triggers"), (*NAMES[:2], "asks")}


def test_without_the_second_file(store: refold.Store, tmp_path: Path) -> None:
    """The pointers are the ends of what was done, and the messages are none."""
    write_original(tmp_path, [QUERY, ACTION, STATE, table("t")], [ASKS, ENDS, edge(NAMES[2], "Table(t)")])

    run, notes = imported(store, tmp_path)

    assert run.get_active_branch() == {NAMES[2]}
    assert run.messages() == []
    assert ["no file beside the graph" in note for note in notes] == [True]


@pytest.mark.parametrize("label", ["a(b)", ")(", 'say "x"', "two\nlines", "表 é", "orders)#2", "#1", " "])
def test_labels_of_any_characters(store: refold.Store, tmp_path: Path, label: str) -> None:
    """D2.5: the originals could never read some of them back."""
    write_original(tmp_path, [QUERY, table(label)], [edge(NAMES[0], f"Table({label})")])

    run, _ = imported(store, tmp_path)

    assert run.node(f"Table({label})").label == label


def test_other_rounds_are_left_out_and_told(store: refold.Store, tmp_path: Path) -> None:
    """Nodes of other rounds, and edges from and to them."""
    old = node("Query(query00009)", query="old", additional_files=[], run_id=9)
    write_original(tmp_path, [old, QUERY], [edge(old["id"], NAMES[0], "continues_to")])

    run, notes = imported(store, tmp_path)

    assert (run.nodes(), edges_of(run)) == ([NAMES[0]], set())
    assert "left out: 1 node of other rounds: Query(query00009)" in notes


def test_what_a_portrait_or_a_change_left_behind(store: refold.Store, tmp_path: Path) -> None:
    """D8.6, D10.7: null for a description is none; attributes that every node has for itself are left out."""
    nodes = [QUERY, {**table("t", description=None, rows=3, user_id="x"), "label": "NEW"}]
    write_original(tmp_path, nodes, [edge(NAMES[0], "Table(t)")])

    run, notes = imported(store, tmp_path)

    found = run.node("Table(t)")
    assert (found.label, found.description, found.extra) == ("t", "", {"rows": 3, "user_id": "x"})
    assert "attributes that every node has for itself were left out: label" in notes


def test_nodes_that_lost_their_predecessors(store: refold.Store, tmp_path: Path) -> None:
    """D8.10, D8.11: removing a node, even the query, leaves others behind that nothing leads to."""
    write_original(
        tmp_path, [STATE, table("t")], [], meta={"initial_pt": NAMES[0], "current_pt": [NAMES[2], "Gone(x)"]}
    )

    run, notes = imported(store, tmp_path)

    assert (run.nodes(), run.initial) == ([NAMES[2], "Table(t)"], None)
    assert run.get_active_branch() == {NAMES[2]}
    assert notes == (
        "the pointer 'Gone(x)' was left out: there is no such node",
        "the query is None, and not 'Query(query00000)', as `initial_pt` has it",
    )


def test_edges_without_a_type_have_the_usual_one(store: refold.Store, tmp_path: Path) -> None:
    """`relationship` stands for `edge_type`, and where both are missing the rules of a run say it."""
    nameless = {"source": NAMES[0], "target": NAMES[1]}
    related = {"source": NAMES[1], "target": NAMES[2], "relationship": "concludes"}
    write_original(tmp_path, [QUERY, ACTION, STATE], [nameless, related])

    run, _ = imported(store, tmp_path)

    assert {one[2] for one in edges_of(run)} == {"triggers", "concludes"}


def test_nodes_in_any_order(store: refold.Store, tmp_path: Path) -> None:
    """A file that was sorted by somebody gives the same graph."""
    write_original(tmp_path, [STATE, ACTION, QUERY], [ENDS, ASKS])

    run, _ = imported(store, tmp_path)

    assert edges_of(run) == {(NAMES[0], NAMES[1], "triggers"), (NAMES[1], NAMES[2], "has_conclusion")}
    assert (run.initial, run.get_active_branch()) == (NAMES[0], frozenset(NAMES[2:]))


@pytest.mark.parametrize("as_list", [True, False])
def test_messages(store: refold.Store, tmp_path: Path, as_list: bool) -> None:
    """Records are messages again, those of the system too; what is none is told."""
    records: list[Any] = [{"type": "SystemMessage", "content": "s"}, {"type": "HumanMessage", "content": "h"}, "lost"]
    messages = (
        records if as_list else {"historical_messages": records, "pending_branch": {"a": 1}, "_enriched_plan": None}
    )
    write_original(tmp_path, [QUERY], [], meta={"initial_pt": NAMES[0], "current_pt": [], "messages": messages})

    run, notes = imported(store, tmp_path)

    assert (run.messages(), run.get_active_branch()) == ([SystemMessage("s"), HumanMessage("h")], frozenset())
    left_out = () if as_list else ("'pending_branch' was left out: it holds no messages",)
    assert notes == (*left_out, "message 2 was left out: it is a record of no known type")


def test_rounds_are_bridged(store: refold.Store, tmp_path: Path) -> None:
    """Later rounds go back over earlier ones, over gaps, and a label that comes again closes no cycle (SPEC D7.10)."""
    write_original(tmp_path, [QUERY, table("t")], [edge(NAMES[0], "Table(t)")])
    later = [{**QUERY, "id": "Query(query00001)", "run_id": 2}, table("t", run_id=2)]
    write_original(tmp_path, later, [edge("Query(query00001)", "Table(t)")], run=2)

    import_round_files(store, tmp_path, user_id=USER, session_id=SESSION)

    graph = store.run(USER, SESSION, 2).graph()
    assert {(one.source, one.target, one.type) for one in graph.edges} == {
        (NAMES[0], "Table(t)#1", "has"),
        ("Table(t)#1", "Query(query00001)", "continues_to"),
        ("Query(query00001)", "Table(t)", "has"),
    }
    assert graph.is_acyclic


def test_the_meta_file_alone(tmp_path: Path) -> None:
    """D13.6: what lies beside the graph, and nothing where it cannot be read."""
    meta = {"initial_pt": NAMES[0], "current_pt": [], "messages": {}}
    path = write_original(tmp_path, [QUERY], [], meta=meta)

    assert load_meta_from_json(tmp_path, 0) == meta
    assert load_meta_from_json(tmp_path, 1) == {}
    for broken in (b"{torn", b"[1]", b"\xff\xfe", b"[" * 100_000):
        path.with_name("Run0_Sub0.meta.json").write_bytes(broken)
        assert load_meta_from_json(str(tmp_path), 0, 0) == {}
