"""Files of messages (SPEC D12.10)."""

import json
from pathlib import Path
from typing import Any

import pytest

from refold.domain.errors import InvalidInputError
from refold.domain.messages import AIMessage, HumanMessage, Message, SystemMessage, ToolMessage
from refold.infrastructure.message_files import read_messages_file, write_messages_file

CALL = {"name": "f", "args": {"x": "é"}, "id": "1"}
TALK: list[Message] = [
    SystemMessage("s"),
    HumanMessage("h", id="m1"),
    AIMessage("a", tool_calls=[CALL]),
    ToolMessage("r", tool_call_id="1", status="error"),
    AIMessage("lost", tool_calls=[{**CALL, "id": "2"}]),
]
CLEAN = [*TALK[1:4], AIMessage("lost")]


def test_what_is_written_is_read(tmp_path: Path) -> None:
    """Folders are made, nothing lies about, and what is read is clean."""
    path = tmp_path / "a" / "b" / "talk.json"
    write_messages_file(path, TALK)

    assert read_messages_file(str(path)) == CLEAN
    assert [one.name for one in path.parent.iterdir()] == ["talk.json"]


def test_the_form_of_a_file(tmp_path: Path) -> None:
    """One object, indented by two, UTF-8."""
    path = tmp_path / "talk.json"
    write_messages_file(path, [{"role": "user", "content": "é"}])

    text = path.read_text(encoding="utf-8")
    assert text.startswith('{\n  "messages": [\n    {\n      "type": "HumanMessage",\n      "content": "é",\n')


def test_everything_can_be_kept(tmp_path: Path) -> None:
    """Uncleaned, system messages and orphans are written and come back; reading cleans unless told otherwise."""
    path = tmp_path / "all.json"
    write_messages_file(path, TALK, clean=False)

    assert read_messages_file(path, clean=False) == TALK
    assert read_messages_file(path) == CLEAN


@pytest.mark.parametrize("text", [None, "", "{torn", b"\xff\xfe\xfa", "{}", '{"messages": []}', "[]"])
def test_files_that_hold_nothing(tmp_path: Path, text: str | bytes | None) -> None:
    """A file that is missing, or not JSON, holds no messages."""
    path = tmp_path / "x.json"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())

    assert read_messages_file(path) == []


def test_a_list_is_a_list_of_messages(tmp_path: Path) -> None:
    """A list at the top is read; what is none of a message's types is left out."""
    path = tmp_path / "list.json"
    path.write_text(json.dumps([{"type": "human", "content": "h"}, {"type": "x"}, 7, {"type": "tool"}]))

    assert read_messages_file(path, clean=False) == [HumanMessage("h")]


@pytest.mark.parametrize("text", ['"text"', "7", '{"messages": 7}', "null"])
def test_other_json_is_refused(tmp_path: Path, text: str) -> None:
    """JSON of another form says so, and what should be there."""
    path = tmp_path / "x.json"
    path.write_text(text)

    with pytest.raises(InvalidInputError, match=r"x\.json holds no messages: it should be"):
        read_messages_file(path)


@pytest.mark.parametrize("wrong", [7, HumanMessage({1, 2}), HumanMessage("\ud800"), HumanMessage([float("nan")])])
def test_what_cannot_be_written_changes_nothing(tmp_path: Path, wrong: Any) -> None:
    """The message is named by its place, and the file stays as it was."""
    path = tmp_path / "talk.json"
    write_messages_file(path, TALK)

    with pytest.raises(InvalidInputError, match="message 1 cannot be written to"):
        write_messages_file(path, [HumanMessage("h"), wrong])

    assert read_messages_file(path) == CLEAN
    assert [one.name for one in tmp_path.iterdir()] == ["talk.json"]
