"""Whose messages they are: those of OpenAI and of Anthropic are told apart by what only one of them has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

Dialect = Literal["openai", "anthropic"]
OPENAI_ROLES = ("developer", "tool", "function")
OPENAI_FIELDS = {"tool_calls", "tool_call_id", "function_call"}
OPENAI_PARTS = ("image_url", "input_audio", "refusal", "file")
ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")
# Blocks of these types are Anthropic's where they say where they come from.
SOURCED_BLOCKS = ("image", "document")


def dialects_of(conversations: Iterable[tuple[Sequence[Any], Mapping[str, Any]]]) -> list[Dialect]:
    """
    Return the dialect of each conversation of a file: its messages, and what lies beside them.

    One that could be either is like the others of its file; where all could be, they are OpenAI's.
    """
    told = [_dialect(messages, beside) for messages, beside in conversations]
    is_anthropic = "anthropic" in told and "openai" not in told
    return [one or ("anthropic" if is_anthropic else "openai") for one in told]


def _dialect(messages: Sequence[Any], beside: Mapping[str, Any]) -> Dialect | None:
    marks = [mark for message in messages if isinstance(message, dict) for mark in _marks(message)]
    if "openai" in marks:
        return "openai"
    # OpenAI has no field of this name; some who keep its messages have.
    return "anthropic" if marks or isinstance(beside.get("system"), str | list) else None


def _marks(message: Mapping[str, Any]) -> Iterator[Dialect]:
    if message.get("role") in OPENAI_ROLES or OPENAI_FIELDS & message.keys():
        yield "openai"
    content = message.get("content")
    for part in content if isinstance(content, list) else ():
        kind = part.get("type") if isinstance(part, dict) else None
        if kind in OPENAI_PARTS:
            yield "openai"
        if kind in ANTHROPIC_BLOCKS or (kind in SOURCED_BLOCKS and isinstance(part.get("source"), dict)):
            yield "anthropic"
