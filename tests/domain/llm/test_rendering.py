"""Items as text: as the seed rendered its recorded cases, from public items and from recorded events alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import ChatMessage, ImageContent
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.summary_texts import render_context_as_text, render_items

CASES: dict[str, Any] = json.loads(Path(__file__).with_name("renderings.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES.values(), ids=list(CASES))
def test_the_seeds_renderings(case: dict[str, Any]) -> None:
    """Both texts, byte for byte (SPEC V8.1, V8.2, V8.9)."""
    chat = ChatContext.from_dict({"items": case["items"]})

    assert render_items(chat.items) == case["render_items"]
    assert render_items(chat.recorded_items()) == case["render_items"]
    assert render_context_as_text(chat) == case["render_context_as_text"]


def test_long_outputs() -> None:
    """A summary's excerpt has 200 characters of an output, a transcript all of it."""
    chat = ChatContext()
    chat.add_function_output("f", "x" * 300, call_id="c")

    assert render_items(chat.items) == "[Tool Result: f] " + "x" * 200
    assert render_context_as_text(chat) == "[tool result] f -> " + "x" * 300


def test_summaries_say_so() -> None:
    """A summary is marked as such in an excerpt, and is part of a transcript; `summary: false` is none."""
    chat = ChatContext([
        ChatMessage(role=ChatRole.ASSISTANT, content=["old"], extra={"summary": True}),
        ChatMessage(role=ChatRole.ASSISTANT, content="new", extra={"summary": False}),
    ])  # fmt: skip
    expected = "[Previous Summary]: old\nAssistant: new"

    assert render_items(chat.items) == render_items(chat.recorded_items()) == expected
    assert render_context_as_text(chat) == "Assistant: old\nAssistant: new"


def test_what_gives_no_line() -> None:
    """Handoffs and config updates never; instructions and what is blank not in a transcript."""
    chat = ChatContext()
    chat.add_handoff("billing")
    chat.add_config_update(instructions="be kind")
    assert render_items(chat.items) == ""

    chat.add_message("developer", "be brief")
    chat.add_message("user", "  ")
    chat.add_message("user", [ImageContent(image="https://example.org/a.png")])
    chat.add_message("user", " hi ")
    assert render_items(chat.items) == "Developer: be brief\nUser:   \nUser: [non-text content]\nUser:  hi "
    assert render_context_as_text(chat) == "User: hi"
