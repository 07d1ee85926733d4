"""Programs of the data agent run with another import: names, keywords, files and results are the seed's."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.trajectory import (
    Context,
    ContextFactory,
    ContextInitOptions,
    TodoListManager,
    TodoNode,
    deserialize_message,
    sanitize_messages,
    serialize_message,
)

QUERY, ACTION, TABLE = "Query(query00000)", "Action(action00000)", "Table(orders)"


@pytest.fixture(autouse=True)
def _nothing_held() -> Iterator[None]:
    """Each test begins and ends with a factory that holds nothing."""
    ContextFactory.close()
    yield
    ContextFactory.close()


def asked(workspace: Path, run_id: int = 0, url: str | None = None) -> Context:
    """Return a context with a query, an action, a table and a state."""
    options = ContextInitOptions(database_url=url, workspace=workspace)
    context = ContextFactory.get_context(user_id="u1", session_id="s1", run_id=run_id, sub_id=0, options=options)
    query = context.register_query(query="12 + 23 <?>", additional_files=[])
    action = context.register_node(
        node_type="Action",
        description="adds",
        predecessor_node=[query],
        action="Tool(calculator)",
        params={"formula": "2+3"},
        output=5,
        success=True,
    )
    context.register_node(
        node_type="Table", label="orders", description="", path="p", predecessor_node=[action], edge_type="finds"
    )
    return context


def test_keywords_and_pointers(tmp_path: Path) -> None:
    """The keywords of the four calls that name a node, and the names of the two queries."""
    context = asked(tmp_path)

    assert context.get_IR_from_node(graph_node_label=TABLE).label == "orders"
    assert [node.label for node in context.get_next_data_node(action_node_label=ACTION)] == ["orders"]
    assert [node.label for node in context.get_previous_action_node(data_node_label=TABLE)] == ["action00000"]
    context.modify_node(graph_node_label=TABLE, changes={"path": "q"})
    context.remove_node(graph_node_label=TABLE)
    assert TABLE not in context
    with pytest.raises(ValueError, match="Cannot get IR with name 'orders' of type 'Table'"):
        context.get_IR_from_node(graph_node_label=TABLE)
    assert (context.initial_pt, context.session_root_pt, context.has_initial_pt) == (QUERY, QUERY, True)


def test_files_restore_what_memory_lost(tmp_path: Path) -> None:
    """D13.1, D7.2: rounds that are not in the log are read from the files of the session."""
    first = asked(tmp_path)
    path = first.persist_to_json()
    assert [str(found) for found in (tmp_path / ".context").iterdir()] == [path]
    first.persist_meta_to_json()
    ContextFactory.clear_context()
    second = asked(tmp_path, run_id=1)
    assert not second.restored

    second.restore_previous_runs(user_id="u1", session_id="s1", current_run_id=1, sub_id=0)

    history = second.get_historical_trajectory(0)
    assert second.restored
    assert set(history.nodes()) == {QUERY, ACTION, TABLE}
    assert (QUERY, ACTION) in history.edges()
    assert second.get_all_historical_trajectories()[0].number_of_nodes() == 3
    assert second.get_historical_trajectory(7) is None
    assert second.session_root_pt in second.get_trajectory().nodes
    meta = Context.load_meta_from_json(user_id="u1", session_id="s1", run_id=0, workspace=tmp_path)
    assert (meta["initial_pt"], meta["current_pt"]) == (QUERY, [ACTION])
    assert Context.load_meta_from_json("u1", "s1", 9, workspace=tmp_path) == {}


def test_a_database_comes_before_files(tmp_path: Path) -> None:
    """D7.3: a round of the store is not read from a file; `persist_to_pg` waits until the log has it."""
    url = str(tmp_path / "runs.db")
    first = asked(tmp_path, url=url)
    first.persist_to_pg()
    (tmp_path / ".context").mkdir()
    (tmp_path / ".context" / "Run0_Sub0.json").write_text("broken")

    second = asked(tmp_path, run_id=1, url=url)
    second.restore_previous_runs(user_id="u1", session_id="s1", current_run_id=1)

    assert set(second.get_historical_trajectory(0).nodes()) == {QUERY, ACTION, TABLE}
    with refold.open(url) as store:
        assert store.run("u1", "s1", 0, create=False).initial == QUERY


def test_a_broken_file_is_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """D7.2: with a warning that names it; another user's call is refused, and reads no file."""
    asked(tmp_path).persist_to_json()
    ContextFactory.clear_context()
    path = tmp_path / ".context" / "Run1_Sub0.json"
    path.write_text("{")
    third = asked(tmp_path, run_id=2)

    with caplog.at_level(logging.WARNING, "refold.trajectory"):
        third.restore_previous_runs()
    before = third.version

    assert list(third.get_all_historical_trajectories()) == [0]
    assert [str(path) in record.getMessage() for record in caplog.records] == [True]
    with pytest.raises(InvalidInputError, match="open that run"):
        third.restore_previous_runs(user_id="somebody", session_id="s1", current_run_id=2)
    assert third.version == before


def test_a_session_has_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a workspace it is below the current folder, whatever characters the ids have."""
    monkeypatch.chdir(tmp_path)
    context = ContextFactory.get_context("../mia", "a/b", 0, 0)
    context.register_query("q")

    path = Path(context.persist_to_json())

    assert path.resolve().is_relative_to(tmp_path / "sessions")
    assert len(path.parts) == 5
    assert Context.load_meta_from_json("../mia", "a/b", 0) == {}
    context.persist_meta_to_json()
    assert Context.load_meta_from_json("../mia", "a/b", 0)["initial_pt"] == QUERY


def test_show_writes_a_page(tmp_path: Path) -> None:
    """D9.7: a page that draws every node and edge, needs no library, and shows texts as texts."""
    context = asked(tmp_path)

    context.show(str(tmp_path / "page.html"))
    context.show()

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert (tmp_path / ".context" / "Run0_Sub0.html").read_text(encoding="utf-8") == page
    drawing = ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + 6])
    space = {"s": "http://www.w3.org/2000/svg"}
    assert [title.text for title in drawing.iterfind(".//s:title", space)] == [QUERY, ACTION, TABLE]
    boxes = {float(box.attrib["y"]) for box in drawing.iterfind(".//s:rect", space)}
    assert (len(drawing.findall("s:line", space)), len(boxes)) == (2, 3)
    assert "12 + 23 &lt;?&gt;" in page
    assert "http" not in page.replace(space["s"], "")


def test_queues_of_a_context(tmp_path: Path) -> None:
    """D11: the manager of a context works on its queues."""
    options = ContextInitOptions(pre_workflow=({"name": "load"},), post_workflow=("a", "b"), workspace=tmp_path)
    context = ContextFactory.get_context("u", "s", 0, 0, options)
    manager = context.todolist_manager

    manager.init_todolist()
    assert manager.add_node(TodoNode("look", {"a": 1}))

    assert (len(manager.prelist), len(manager.todolist), len(manager.postlist)) == (1, 1, 2)
    assert manager.todolist.maxlen == 100
    assert context.pop_todo() == {"name": "look", "params": {"a": 1}}
    assert manager.pop_node("post") == TodoNode("a", {})


def test_queues_alone() -> None:
    """D11.3 to D11.5: a manager without a context; wrong queues and steps are ValueErrors."""
    manager = TodoListManager(maxlen=1, pre_workflow=[{"name": "load"}], post_workflow=["save"])
    manager.init_todolist()

    assert [manager.add_node({"name": name}) for name in "ab"] == [True, False]
    assert [manager.pop_node(), manager.pop_node()] == [TodoNode("a"), None]
    assert (list(manager.prelist), list(manager.postlist)) == ([TodoNode("load", {})], [TodoNode("save", {})])
    for wrong in (lambda: manager.add_node({"name": "x"}, "zz"), lambda: manager.pop_node("zz")):
        with pytest.raises(ValueError, match="Invalid list type"):
            wrong()
    with pytest.raises(ValueError, match="a step is a name"):
        manager.add_node(None)  # type: ignore[arg-type]


def test_messages() -> None:
    """D12: the functions for messages, under the seed's names."""
    records = [{"type": "SystemMessage", "content": "s"}, {"type": "HumanMessage", "content": "q"}]
    messages = [deserialize_message(record) for record in records]

    assert [serialize_message(message)["content"] for message in sanitize_messages(messages)] == ["q"]
    assert json.dumps(serialize_message(messages[1]))
