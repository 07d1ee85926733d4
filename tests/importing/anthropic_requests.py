"""A request as Anthropic takes it."""

from typing import Any

from tests.importing.sessions import result, text, use

ASKED = {"role": "assistant", "content": [text("One moment."), use("c1")], "model": "claude-x", "usage": {"n": 1}}
SPOKEN: list[dict[str, Any]] = [
    {"role": "user", "content": "Where?"},
    ASKED,
    {"role": "user", "content": [result("c1")]},
]
REQUEST: dict[str, Any] = {"model": "claude-x", "system": "Be brief.", "messages": SPOKEN, "tools": [{"name": "Read"}]}
