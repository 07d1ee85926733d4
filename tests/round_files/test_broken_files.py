"""Files that no run can be made from: which one it is, what is wrong, and nothing written."""

import json
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.infrastructure.round_files import import_round_files, read_round_files, write_round_files

from .rounds import ACTION, ASKS, QUERY, SESSION, USER, busy_run, edge, node, table, write_original

NAN = float("nan")


def require_refused(store: refold.Store, root: Path, message: str) -> None:
    """Import a folder whose first round is sound and whose second is not: neither comes in."""
    write_original(root, [QUERY], [])

    with pytest.raises(InvalidInputError, match=message):
        import_round_files(store, root, user_id=USER, session_id=SESSION)

    assert store.contexts() == []


@pytest.mark.parametrize("content", [b"", b"{torn", b"\xff\xfe\xfa", b"[" * 100_000, b"[]", b'{"nodes": []}'])
def test_files_that_are_no_graph(store: refold.Store, tmp_path: Path, content: bytes) -> None:
    """Empty, torn, not UTF-8, too deep, or of another form."""
    write_original(tmp_path, [], [], run=1).write_bytes(content)

    require_refused(store, tmp_path, r"Run1_Sub0\.json cannot be read: it is no")


@pytest.mark.parametrize(
    ("nodes", "edges", "message"),
    [
        ([{**QUERY, "id": 7}], [], "whose id is 7: it is a text"),
        ([{**QUERY, "id": "Query"}], [], "'Query' has illegal format"),
        ([table("")], [], r"the label of the node 'Table\(\)' is empty"),
        ([node("Response(r)", response="x")], [], "there is no node type 'Response'"),
        ([{**table("t"), "node_type": "File"}], [], r"'Table\(t\)' has the node_type 'File'"),
        ([node("Table(t)")], [], r"'Table\(t\)' is not valid: A Table node must contain info about '\['path'\]'"),
        ([table("t", path=NAN)], [], r"field 'path' of Table\(t\) cannot be stored as JSON"),
        ([table("\ud800")], [], "lone surrogate"),
        ([table("t", description=[1])], [], r"the description of Table\(t\) is \[1\]: it is a text"),
        ([table("t", description="\ud800")], [], r"the description of Table\(t\) holds a lone surrogate"),
        ([QUERY, {**QUERY, "id": "Query(b)"}], [], r"2 queries, Query\(query00000\), Query\(b\)"),
        ([ACTION, ACTION], [], r"Action\(action00000\) more than once"),
        ([table("t"), table("t")], [], r"holds 'Table\(t\)' in the place of 'Table\(t\)#1'"),
        ([QUERY], [ASKS], r"from 'Query\(query00000\)' to 'Action\(action00000\)', and no node 'Action"),
        ([QUERY], [edge("Query(query00000)", 7)], "to 7: both are ids of nodes"),  # type: ignore[arg-type]
        ([QUERY, table("t")], [edge(QUERY["id"], "Table(t)", 7)], "edge type"),  # type: ignore[arg-type]
        ([QUERY, table("t")], [{"source": QUERY["id"], "target": "Table(t)"}], "No default edge type detected"),
        ([table("a"), table("b")], [edge("Table(a)", "Table(b)"), edge("Table(b)", "Table(a)")], "close a cycle, as"),
        ([table("a")], [edge("Table(a)", "Table(a)")], r"cycle, as the edge from 'Table\(a\)' to 'Table\(a\)'"),
    ],
)  # fmt: skip
def test_rounds_that_cannot_be(
    store: refold.Store, tmp_path: Path, nodes: list[Any], edges: list[Any], message: str
) -> None:
    """The node or the edge is named."""
    text = json.dumps([nodes, edges]).replace('"run_id": 0', '"run_id": 1')
    path = write_original(tmp_path, [], [], run=1)
    held = dict(zip(("nodes", "edges"), json.loads(text), strict=True))
    path.write_text(json.dumps({"directed": True, **held}))

    require_refused(store, tmp_path, rf"(?s)Run1_Sub0\.json cannot be read: .*{message}")


def test_an_undirected_graph(store: refold.Store, tmp_path: Path) -> None:
    """A trajectory has directed edges."""
    write_original(tmp_path, [], [], run=1, directed=False)

    require_refused(store, tmp_path, "no directed graph")


def test_a_file_of_another_round(store: refold.Store, tmp_path: Path) -> None:
    """A renamed file of the originals holds nothing of the round that its name says."""
    write_original(tmp_path, [QUERY], [], run=1)

    require_refused(store, tmp_path, "holds no node of round 1")


@pytest.mark.parametrize(
    ("meta", "message"),
    [
        ([], "is no object with `initial_pt`"),
        ({"current_pt": "Query(q)"}, "`current_pt` is no list of names"),
        ({"messages": {"historical_messages": 7}}, "`messages` is no object with a list"),
        ({"messages": [{"type": "human", "content": NAN}]}, "message 0 cannot be stored as JSON"),
        ({"messages": [{"type": "ai", "additional_kwargs": [7]}]}, "message 0 is no record of a message"),
        ({"refold": {"format": "x"}}, "`refold` is of another form"),
        ({"refold": {"format": 2}}, "has the format 2, and this version of Refold knows 1 to 1"),
    ],
)
def test_second_files_that_cannot_be(store: refold.Store, tmp_path: Path, meta: Any, message: str) -> None:
    """It is the second file that is named."""
    write_original(tmp_path, [], [], run=1, meta=meta)

    require_refused(store, tmp_path, rf"Run1_Sub0\.meta\.json cannot be read: .*{message}")


@pytest.mark.parametrize(
    ("place", "value", "message"),
    [
        (("graph", "refold", "format"), 2, "has the format 2"),
        (("graph", "refold", "format"), "x", "`graph.refold` is of another form"),
        (("graph", "refold", "agent"), "\ud800", "the agent holds a lone surrogate"),
        (("nodes", 0, "created_at"), "now", r"the node 'Query\(query00000\)' is of another form"),
        (("nodes", 0, "created_at"), float("inf"), r"the time of Query\(query00000\) is inf"),
        (("nodes", 0, "history"), [{"kind": "mended"}], "of another form: Invalid enum value 'mended'"),
        (("nodes", 0, "history"), [{"kind": "changed", "old": {"zz": 1}}], "'zz', which the node does not have"),
        (("nodes", 0, "history", 0, "actor"), "\ud800", r"the actor of Query\(query00000\) holds a lone surrogate"),
        (("edges", 0, "edge_types"), "x", "`edge_types` that are no list"),
        (("graph", "refold", "sub_id"), 3, "is of round 0, sub-agent 3: its name is wrong"),
    ],
)
def test_files_of_ours_that_were_changed(
    store: refold.Store, other: refold.Store, tmp_path: Path, place: tuple[Any, ...], value: Any, message: str
) -> None:
    """What only our files have is checked as well."""
    path = write_round_files(busy_run(store), tmp_path).graph
    held = json.loads(path.read_bytes())
    inner = held
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    path.write_text(json.dumps(held))

    with pytest.raises(InvalidInputError, match=rf"Run0_Sub0\.json cannot be read: .*{message}"):
        import_round_files(other, tmp_path, user_id=USER, session_id=SESSION)

    assert other.contexts() == []


def test_nothing_to_read(store: refold.Store, tmp_path: Path) -> None:
    """Neither a folder without rounds, nor a round that is not there."""
    with pytest.raises(NotFoundError, match="no files of such rounds"):
        import_round_files(store, tmp_path, user_id=USER, session_id=SESSION)
    with pytest.raises(NotFoundError, match=r"there is no file .*Run3_Sub1\.json"):
        read_round_files(tmp_path, 3, 1)
