"""
Objects in messages come back with their keys in the order in which they came.

A provider keeps what it has read of a conversation only as long as the next request begins with the same bytes.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from refold import ChatContext

DATA: dict[str, Any] = {"zeta": 1, "alpha": {"y": [{"q": 1, "b": 2}], "c": None}}
QUESTION = {"role": "user", "content": "Where is it?"}
OPENAI = [
    QUESTION,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "track", "arguments": json.dumps(DATA)}}],
        "reasoning_details": [DATA],
    },
    {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "Lyon"}]},
]
ENTRIES = [
    {"type": "message", **QUESTION},
    {"type": "web_search_call", "id": "w1", "status": "completed", "action": DATA},
    {"type": "function_call", "name": "track", "call_id": "c1", "arguments": json.dumps(DATA)},
    {"type": "function_call_output", "call_id": "c1", "output": "Lyon"},
]
ANTHROPIC = [
    QUESTION,
    {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "track", "input": DATA}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Lyon"}]},
]


def through_openai(messages: list[Any]) -> Any:
    """Return messages of the chat completions API as a chat sends them again."""
    return ChatContext.from_openai_messages(messages).to_openai_messages()


def through_responses(entries: list[Any]) -> Any:
    """Return input of the responses API as a chat sends it again."""
    return ChatContext.from_openai_responses(entries).to_openai_responses()[0]


def through_anthropic(messages: list[Any]) -> Any:
    """Return messages of the messages API as a chat sends them again."""
    return ChatContext.from_anthropic_messages(messages).to_anthropic_messages()[0]


def objects_in(value: Any) -> list[str]:
    """Return the objects of the test, at any depth, as JSON."""
    if value == DATA:
        return [json.dumps(value)]
    held = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for one in held for found in objects_in(one)]


@pytest.mark.parametrize(
    ("through", "given"), [(through_openai, OPENAI), (through_responses, ENTRIES), (through_anthropic, ANTHROPIC)]
)
def test_keys_keep_their_order(through: Callable[[list[Any]], Any], given: list[Any]) -> None:
    """Those of arguments, and those of what items have no field for."""
    assert objects_in(through(given)) == objects_in(given) == [json.dumps(DATA)]
