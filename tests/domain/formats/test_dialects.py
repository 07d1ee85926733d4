"""Which provider's form a message has, if it has that of one alone."""

from typing import Any

import pytest

from refold.domain.formats.messages import dialect_of


def user(*parts: Any, **fields: Any) -> dict[str, Any]:
    """Return a user's message of parts."""
    return {"role": "user", "content": list(parts), **fields}


def part(kind: str, **fields: Any) -> dict[str, Any]:
    """Return a part of a message, behind one that every provider knows."""
    return user("text", {"type": "text", "text": "x"}, {"type": kind, **fields})


SOURCE = {"type": "base64", "media_type": "image/png", "data": "AA=="}
DIALECTS: dict[str | None, list[dict[str, Any]]] = {
    "responses": [
        *(part(kind) for kind in ("input_text", "output_text", "input_image", "input_file")),
        user({"type": "input_text"}, type="message"),
        {"type": "message", "role": "user", "content": "x"},
        {"type": "message", "role": "user", "content": []},
        {"type": "message", "role": "user", "content": ["x"]},
        *({"type": kind} for kind in ("function_call", "function_call_output", "reasoning")),
    ],
    "openai": [
        *({"role": role, "content": "x"} for role in ("developer", "tool", "function")),
        *({"role": "assistant", name: []} for name in ("tool_calls", "tool_call_id", "function_call")),
        *(part(kind) for kind in ("image_url", "input_audio", "refusal", "file")),
    ],
    "anthropic": [
        *(part(kind) for kind in ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")),
        *(part(kind, source=SOURCE) for kind in ("image", "document")),
        user({"type": "text", "text": "x"}, type="message"),
    ],
    "google": [{"role": "user", "parts": []}, {"parts": [{"text": "x"}]}],
    None: [
        {"role": "user", "content": "x"},
        user({"type": "text", "text": "x"}),
        *(part(kind) for kind in ("image", "document")),
        part("image", source="x"),
        part("video", source=SOURCE),
        {"role": "user", "content": "x", "parts": []},
        {"role": "user", "parts": "x"},
        {"role": "user", "type": "x"},
        {"type": 3},
        {},
    ],
}


@pytest.mark.parametrize(("dialect", "message"), [(name, one) for name, given in DIALECTS.items() for one in given])
def test_dialects(dialect: str | None, message: dict[str, Any]) -> None:
    """None if it may belong to several."""
    assert dialect_of(message) == dialect
