"""Entries that only their source understands, as people see them: their sort, their thinking, and their text."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from refold.domain.chat.describe import body_of, source_entry_type, text_with_role, thoughts_of
from refold.domain.chat.events import MessageAdded, Origin

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "They ask why."}]}
THINKING = {"type": "assistant", "message": {"content": [{"type": "thinking", "thinking": "Why, indeed."}]}}
CLICK = {"type": "computer_call", "action": {"type": "click", "x": 3}}


def entry(rest: Any = None, content: tuple[str, ...] = (), *, apart: bool = True) -> MessageAdded:
    """Return an item as an adapter makes it: what the item does not hold is kept as JSON."""
    kept = b"" if rest is None else json.dumps({"framework": {"items": 1, "patch": {"is": rest}}}).encode()
    return MessageAdded(
        id="m1", created_at=0.0, role="assistant", content=content, origin=Origin(rest=kept, apart=apart)
    )


@pytest.mark.parametrize(
    ("rest", "sort", "thoughts"),
    [
        (REASONING, "reasoning", ["They ask why."]),
        (THINKING, "thinking", ["Why, indeed."]),
        (CLICK, "computer_call", []),
        ({"type": "summary", "summary": "Orders"}, "summary", []),
        ({"type": 7}, "entry", []),
        (None, "entry", []),
    ],
)
def test_an_entry_of_its_source_says_what_it_is(rest: Any, sort: str, thoughts: list[str]) -> None:
    """The source's word for it, and thinking where there is some."""
    item = entry(rest)

    assert (source_entry_type(item), thoughts_of(item)) == (sort, thoughts)
    assert body_of(item) == f"[{sort}, for its source only]"


def of_responses(given: dict[str, Any]) -> MessageAdded:
    """Return the item of an entry of the Responses API, which keeps it in the form of that API."""
    kept = json.dumps({"responses": {"before": [given]}}).encode()
    return MessageAdded(id="m1", created_at=0.0, role="assistant", content=(), origin=Origin(rest=kept, apart=True))


def test_reasoning_of_the_responses_api_is_said_once() -> None:
    """The form of that API is looked at in other items, too."""
    item = of_responses(REASONING)

    assert (source_entry_type(item), thoughts_of(item)) == ("reasoning", ["They ask why."])
    assert body_of(item) == "[reasoning, for its source only]"


def test_what_a_provider_ran_is_shown() -> None:
    """The command, the query, the output; a picture and the end of a long text are left out."""
    shell = {"type": "local_shell_call", "id": "l", "status": "completed", "action": {"command": ["ls"], "env": {}}}
    screen = {"type": "computer_call_output", "output": {"image_url": "data:image/png;base64,iVBORw0KGgo="}}

    assert body_of(of_responses(shell)) == (
        '[local_shell_call, for its source only]\n{"action": {"command": ["ls"], "env": {}}}'
    )
    assert body_of(of_responses(screen)).endswith('{"output": {"image_url": "data:image/png;base64,…"}}')
    assert body_of(of_responses({"type": "mcp_call", "output": "x" * 2_000})).endswith("xxx…")
    assert (
        body_of(of_responses({"type": "compaction", "encrypted_content": "x"})) == "[compaction, for its source only]"
    )


def test_a_text_like_many_pictures() -> None:
    """Each of its beginnings is looked at once, and not the text behind each of them, which takes seconds."""
    item = of_responses({"type": "mcp_call", "output": "data:" * 20_000})
    began = time.process_time()
    shown = body_of(item)

    assert shown.endswith("data:data:dat…")
    assert time.process_time() - began < 1


@pytest.mark.parametrize(
    ("patch", "sort"),
    [
        ({"in": {"line": {"in": {"type": {"is": "summary"}}, "set": {"summary": "Orders"}}}}, "summary"),
        ({"in": {"parts": {"in": {"0": {"in": {"part_kind": {"is": "compaction"}}}}}}}, "compaction"),
        ({"in": {"parts": {"in": {"1": {"in": {"args": {"is": {"type": "city"}}}}}}}}, "thinking"),
    ],
)
def test_a_patch_has_the_word_for_the_sort(patch: dict[str, Any], sort: str) -> None:
    """It replaced the word of another entry. What is kept of all parts of a message lies beside the first of them."""
    rest = json.dumps({"framework": {"items": 1, "patch": patch}}).encode()
    item = MessageAdded(id="m1", created_at=0.0, role="assistant", content="Hm.", origin=Origin(rest=rest, apart=True))

    assert source_entry_type(item) == sort


def test_thinking_of_anthropic_is_called_so() -> None:
    """It is kept beside the text of the message; the kept rest says that this was a message."""
    item = MessageAdded(
        id="m1",
        created_at=0.0,
        role="assistant",
        content=(),
        origin=Origin(rest=b'{"claude":{"patch":{"set":{"type":"message"}}}}', apart=True),
        extra=b'{"anthropic":{"blocks":[{"thinking":"Why?","type":"thinking"}]}}',
    )

    assert (source_entry_type(item), thoughts_of(item)) == ("thinking", ["Why?"])


@pytest.mark.parametrize(
    "patch",
    [
        {"in": {"content": {"is": [{"type": "thinking", "thinking": "Why?"}, {"type": "text", "text": "Yes."}]}}},
        {"in": {"content": {"is": [{"type": "reasoning", "reasoning": "Why?"}, {"type": "text", "text": "Yes."}]}}},
        {"set": {"additional_kwargs": {"reasoning_content": "Why?"}}},
        {"in": {"content": {"in": {"parts": {"is": [{"text": "Why?", "thought": True}, {"text": "Yes."}]}}}}},
        {"in": {"contents": {"is": [{"type": "text_reasoning", "text": "Why?"}, {"type": "text", "text": "Yes."}]}}},
        {"in": {"blocks": {"is": [{"block_type": "thinking", "content": "Why?"}, {"block_type": "text"}]}}},
    ],
    ids=["langgraph", "langchain", "deepseek", "adk", "agent_framework", "llama_index"],
)
def test_a_framework_keeps_thinking_beside_a_text(patch: dict[str, Any]) -> None:
    """Among the blocks of its message, or beside them; the item has the text."""
    kept = json.dumps({"framework": {"items": 1, "patch": patch}}).encode()
    item = MessageAdded(id="m1", created_at=0.0, role="assistant", content="Yes.", origin=Origin(rest=kept))

    assert text_with_role(item) == "assistant: Yes. (thinking: Why?)"


def test_its_text_follows() -> None:
    """An entry with a text keeps it."""
    assert body_of(entry(CLICK, ("a text",))) == "[computer_call, for its source only]\na text"
    assert text_with_role(entry(REASONING)) == "assistant: [reasoning, for its source only] (thinking: They ask why.)"


def test_other_items_are_as_they_were() -> None:
    """What is kept beside an item that everybody understands is no part of its text."""
    item = entry(REASONING, ("a text",), apart=False)

    assert (source_entry_type(item), thoughts_of(item), body_of(item)) == (None, [], "a text")
