"""Messages as a text (SPEC D12.11 to D12.15)."""

from types import SimpleNamespace
from typing import Any

import pytest

from refold.domain.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, build_current_context

QUERY = HumanMessage("first")
HEADING = "=== CURRENT CONTEXT ===\n"


class Custom:
    """A message of a class that nobody knows."""

    content = "c"


def shown(message: Any) -> str:
    """Return the block of one message."""
    return build_current_context([QUERY, message]).removeprefix(HEADING)


def test_heading_and_separators() -> None:
    """D12.11: "None" for nothing, and the first message is left out, whatever it is."""
    assert build_current_context([]) == "None"
    assert build_current_context([SystemMessage("s")]) == HEADING
    assert build_current_context([QUERY, HumanMessage("a"), HumanMessage("b")]) == (
        "=== CURRENT CONTEXT ===\n[User]\na\n\n---\n\n[User]\nb"
    )


@pytest.mark.parametrize(
    ("message", "block"),
    [
        (SystemMessage("s"), "[System]\ns"),
        (HumanMessage("h"), "[User]\nh"),
        (ToolMessage("r", name="f", tool_call_id="1"), "<results>\n[Tool:f]\nr \n</results>"),
        (ToolMessage("r", tool_call_id="1"), "<results>\n[Tool:tool]\nr \n</results>"),
        (AIMessage("a"), "[Assistant]\na"),
        (AIMessage(""), "[Assistant]\n(Empty)"),
        (Custom(), "[Custom]\nc"),
        (7, "7"),
    ],
)
def test_blocks(message: Any, block: str) -> None:
    """D12.12: a block says who speaks; other classes go by their name, other objects by their text."""
    assert shown(message) == block


def test_calls_are_compacted() -> None:
    """D12.13: names and arguments alone, keys sorted, letters as they are."""
    message = AIMessage(
        "t",
        tool_calls=[
            {"name": "f", "args": {"b": 1, "a": "é"}, "id": "1", "type": "tool_call"},
            {"name": "g", "arguments": {"x": 1}, "id": "2"},
            {"id": "3", "type": "function", "function": {"name": "h", "arguments": "{}"}},
        ],
        invalid_tool_calls=[{"name": "bad", "args": "{", "id": "z", "error": "e"}],
    )

    assert shown(message) == (
        "[Assistant]\nt\n[Assistant:tool_calls]\n"
        '[{"args": {"a": "é", "b": 1}, "name": "f"}, {"args": {"x": 1}, "name": "g"}, {"args": "{}", "name": "h"}]\n'
        '[Assistant:invalid_tool_calls]\n[{"error": "e", "name": "bad"}]'
    )


def test_other_makes() -> None:
    """D12.14: dicts and objects of other packages."""
    call = {"name": "f", "args": {}, "id": "1"}

    assert shown({"type": "ai", "content": None, "additional_kwargs": {"tool_calls": [call]}}) == (
        '[Assistant:tool_calls]\n[{"args": {}, "name": "f"}]'
    )
    assert shown(SimpleNamespace(type="human", content="h")) == "[User]\nh"


def test_lists_are_texts() -> None:
    """D12.15, repaired: texts as they are, other parts as JSON without their data; calls are shown once."""
    parts = [
        "one",
        {"type": "text", "text": "two"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 1_000}},
        {"type": "tool_use", "id": "1", "name": "f", "input": {}},
    ]

    assert shown(AIMessage(parts)) == (
        "[Assistant]\none\ntwo\n"
        '{"image_url": {"url": "data:image/png;base64,AAAAAAAAAAAAAAAAAA... (1,022 characters)"}, "type": "image_url"}'
    )
    assert shown(AIMessage(parts[3:])) == "[Assistant]\n(Empty)"


def test_content_that_is_neither_text_nor_list() -> None:
    """It is shown as its text; long values in lists are shortened as those in dicts are."""
    assert shown(SimpleNamespace(type="human", content=7)) == "[User]\n7"
    assert shown(AIMessage([{"type": "rows", "rows": ["A" * 1_000, 7]}])).endswith(
        f'{{"rows": ["{"A" * 40}... (1,000 characters)", 7], "type": "rows"}}'
    )
