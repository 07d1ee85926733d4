"""What a model is asked about a data node: where it came from, and what can be seen of it (SPEC D10.3, D10.4)."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from refold.domain.trajectory import prompts
from refold.domain.trajectory.graph import RunGraph
from refold.domain.trajectory.prompts import NO_PREVIEW, _came_from, preview_of

from .finds import find, question_about, run_that_acted


def parts_of(question: str) -> dict[str, str]:
    """Return the parts of a question by their names."""
    head, _, preview = question.partition("\nPreview: \n")
    return {**dict(line.split(": ", 1) for line in head.splitlines()), "Preview": preview}


def asked(run: Any, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the action and the state that a question about a node tells of."""
    parts = parts_of(question_about(run, name))
    return json.loads(parts["Preceding action"]), json.loads(parts["Preceding state"])


def test_a_question() -> None:
    """Type, label, the action with the state before it, further details, and a preview."""
    run, action = run_that_acted()
    name = run.register_node(
        "Knowledge", "", [action], label="a (b)", knowledge_type="fact", knowledge_content="x" * 700, source="web"
    )

    parts = parts_of(question_about(run, name))
    told_action, told_state = asked(run, name)
    assert (parts["Type"], parts["Label"], parts["Preview"]) == ("Knowledge", "a (b)", "x" * 600)
    assert json.loads(parts["Details"]) == {"knowledge_type": "fact", "source": "web"}
    assert (told_action["type"], told_action["action"], told_action["params"]) == (
        "Action",
        "Tool(find)",
        {"in": "shop"},
    )
    assert (told_state["type"], told_state["query"]) == ("Query", "How many orders?")


def test_data_behind_a_table() -> None:
    """The action is that which led to the table."""
    run, action = run_that_acted()
    table = run.register_node("Table", "", [action], label="orders", path="/nowhere.csv")
    column = run.register_node(
        "Column", "", [table], "has", label="id", from_table=table, values=[1, 2], supplementary_schemas=None
    )

    assert asked(run, column) == asked(run, table)
    assert asked(run, column)[0]["label"] == "action00000"


def test_the_state_before_the_action() -> None:
    """It is the first predecessor of the action."""
    run, action = run_that_acted()
    state = run.register_node("State", "d", [action], state="there is a shop")
    later = run.register_node("Action", "d", [state], action="Tool(y)", params={}, output=None, success=True)
    skill = run.register_node("Skill", "", [later], label="k", path="/nowhere")

    assert [one["label"] for one in asked(run, skill)] == ["action00001", "state00000"]


def test_data_directly_behind_a_query() -> None:
    """There is no action; the query is the state."""
    run, _ = run_that_acted()
    name = run.register_node("File", "", ["Query(query00000)"], "given", label="f", path=None, source="user")

    action, state = asked(run, name)
    assert (action, state["query"]) == ({}, "How many orders?")


def test_a_long_value_hides_no_other() -> None:
    """Each is cut by itself."""
    run, action = run_that_acted()
    run.modify_node(action, {"output": "x" * 50_000})
    name = run.register_node("Tool", "", [action], label="t", tool_params={"a": 1}, tool_returns=None)

    told_action, _ = asked(run, name)
    assert told_action["output"].startswith('"xxx')
    assert told_action["output"].endswith("x [...]")
    assert told_action["params"] == {"in": "shop"}
    assert len(question_about(run, name)) < 5_000


@pytest.mark.parametrize(
    ("node_type", "attributes", "preview"),
    [
        ("Knowledge", {"knowledge_content": "x" * 700}, "x" * 600),
        ("Knowledge", {"knowledge_content": {"a": 1}}, '{"a":1}'),
        ("Knowledge", {"knowledge_content": None}, NO_PREVIEW),
        ("Script", {"script_content": "x" * 700, "script_type": "python"}, "Language: python\n" + "x" * 600),
        ("Script", {"script_content": "", "script_type": "python"}, NO_PREVIEW),
        ("Tool", {"tool_params": {"a": "int"}, "tool_returns": None}, 'Parameters: {"a":"int"}\nReturns: null'),
        ("Column", {"values": [*range(99)]}, json.dumps([*range(50)], separators=(",", ":"))),
        ("Column", {"values": {"a": 1}}, '{"a":1}'),
        ("Column", {"values": []}, NO_PREVIEW),
        ("Table", {"path": "/nowhere/at/all.csv"}, NO_PREVIEW),
        ("Table", {"path": "a\0b"}, NO_PREVIEW),
        ("File", {"path": ["no", "path"]}, NO_PREVIEW),
        ("File", {"path": os.devnull}, NO_PREVIEW),
        ("Skill", {"path": None}, NO_PREVIEW),
    ],
)
def test_previews(node_type: str, attributes: dict[str, Any], preview: str) -> None:
    """Each type shows the beginning of what it holds, and says where there is nothing to be seen."""
    assert preview_of(node_type, attributes) == preview


@pytest.mark.parametrize(("node_type", "lines"), [("Table", 51), ("File", 50), ("Skill", 50)])
def test_the_beginning_of_a_file(tmp_path: Path, node_type: str, lines: int) -> None:
    """Fifty rows below the names of the columns, fifty lines of other files; long lines are cut."""
    path = tmp_path / "rows.csv"
    path.write_text("\n".join(f"{number},ü" for number in range(20_000)), encoding="utf-8")
    long = tmp_path / "long.json"
    long.write_text("x" * 100_000)

    assert preview_of(node_type, {"path": str(path)}).splitlines() == [f"{number},ü" for number in range(lines)]
    assert preview_of(node_type, {"path": str(long)}) == "x" * 500 + " [...]"


def test_the_folder_of_a_skill(tmp_path: Path) -> None:
    """Its SKILL.md says what it is; another folder says nothing."""
    (tmp_path / "SKILL.md").write_text("# Counting orders\n")

    assert preview_of("Skill", {"path": str(tmp_path)}) == "# Counting orders"
    assert preview_of("File", {"path": str(tmp_path)}) == NO_PREVIEW


@pytest.mark.parametrize("content", [b"PK\x03\x04\x00\x00", b"\x89\xfe\xff" * 50, b""])
def test_what_is_no_text(tmp_path: Path, content: bytes) -> None:
    """A workbook, a picture, and an empty file have no preview."""
    path = tmp_path / "table.xlsx"
    path.write_bytes(content)

    assert preview_of("Table", {"path": str(path)}) == NO_PREVIEW


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """It has no preview."""
    os.mkfifo(tmp_path / "pipe")

    assert preview_of("File", {"path": str(tmp_path / "pipe")}) == NO_PREVIEW


def test_data_that_leads_to_itself() -> None:
    """A log in which it does has no beginning of it, and the question tells of none."""
    run, action = run_that_acted()
    first = find(run, action, "a")
    second = run.register_node(
        "Knowledge", "", [first], "next", "b", knowledge_type="fact", knowledge_content="about b"
    )
    graph = RunGraph(run._state)
    assert _came_from(graph, graph.resolve(second))[0] == graph.resolve(action)

    before = {graph.resolve(first): graph.resolve(second), graph.resolve(second): graph.resolve(first)}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prompts, "_first_predecessor", lambda _graph, ref: before[ref])
        assert _came_from(graph, graph.resolve(second)) == (None, None)
