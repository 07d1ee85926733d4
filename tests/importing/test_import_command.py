"""`refold import` of Anthropic messages and Claude Code sessions, and what is shown of them."""

from pathlib import Path

import pytest

import refold
from refold.domain.trajectory.nodes import ToolNode
from tests.cli.running import refold as command
from tests.importing.anthropic_requests import REQUEST, SPOKEN
from tests.importing.sessions import SESSION, Writing
from tests.importing.transcripts import as_lines, written


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which the commands run; no database is there yet."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REFOLD_DB", raising=False)
    return tmp_path


def test_the_command_line_shows_what_came_in(tmp_path: Path) -> None:
    """As a request has it."""
    path = written(tmp_path / "x.json", REQUEST)

    assert command("import", path).out == "refold.db: 1 context: 1 added; 4 messages as 5 items in x-1\n"
    assert command("show", "x-1", "--as", "anthropic").json == {"system": "Be brief.", "messages": SPOKEN}
    assert command("import", path).out == "refold.db: 1 context: 1 unchanged\n"


def test_requests_become_runs(tmp_path: Path) -> None:
    """With --as-runs a request is a session; its tools are nodes, and its system text is with the messages."""
    tool = {"name": "Read", "description": "Reads.", "input_schema": {"type": "object"}}
    path = written(tmp_path / "x.json", {**REQUEST, "tools": [tool]})

    assert command("import", path, "--as-runs").out == (
        "refold.db: 1 run: 1 added; 4 messages as 4 nodes in import/x-1/0/0\n"
    )
    assert command("import", path, "--as-runs").out == "refold.db: 1 run: 1 unchanged\n"
    with refold.open("refold.db", read_only=True) as store:
        node = store.run("import", "x-1", create=False).node("Tool(Read)")
    assert isinstance(node, ToolNode)
    assert (node.description, node.tool_params) == ("Reads.", {"type": "object"})


def test_branches_become_sessions_of_runs(tmp_path: Path) -> None:
    """Each is told from the beginning; what a file has to be noted is."""
    session = Writing()
    first = session.talk(None, "one", "1")
    session.talk(session.line("system", first), "two", "2")
    session.talk(first, "three", "3")
    path = session.save(tmp_path / f"{SESSION}.jsonl")
    ended = command("import", path, "--as-runs")

    assert ended.out.startswith(f"refold.db: 4 runs: 4 added; 8 messages as 8 nodes in import/{SESSION}/0/0, ")
    assert ended.err == f"note: {path}: lines without a message were passed over: 1 system\n"
    with refold.open("refold.db", read_only=True) as store:
        assert {row.id for row in store.contexts()} == {
            f"import/{name}/{number}/0" for name in (SESSION, f"{SESSION}-fork-1") for number in (0, 1)
        }


def test_a_file_of_nothing_is_told(tmp_path: Path) -> None:
    """A session's file without a message makes no context."""
    path = written(tmp_path / "x.jsonl", as_lines({"type": "summary", "summary": "S", "leafUuid": "l"}))

    assert command("import", path) == (
        0, "refold.db: 0 contexts\n", f"note: {path}: it has no line with a message\n"
    )  # fmt: skip
