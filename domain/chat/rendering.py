"""
Items as plain text: for a model that is to summarise them, and for one that gets a whole context as text.

Both take public items and recorded events, which have the same fields.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from ..canonical import parse_json
from .events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from .items import ChatItem, ChatMessage, ChatRole, FunctionCall, FunctionCallOutput
from .kinds import INSTRUCTION_ROLES

# What a summary needs of a tool's answer (SPEC V8.1).
SHOWN_OUTPUT_CHARACTERS = 200
NON_TEXT = "[non-text content]"


class HasItems(Protocol):
    """A context, of the present or of the past."""

    @property
    def items(self) -> Iterable[ChatItem]:
        """The items in order."""


def render_items(items: Iterable[ChatItem | ChatItemEvent]) -> str:
    """
    Return one line for each message, call and output, as a summary is made of (SPEC V8.1, V8.2).

    Outputs are cut after 200 characters; handoffs and config updates give no line.
    """
    return "\n".join(line for line in map(_summary_line, items) if line is not None)


def render_context_as_text(context: HasItems) -> str:
    """Return what was said and done, without instructions and blank messages, outputs in full (SPEC V8.9)."""
    return "\n".join(line for line in map(_transcript_line, context.items) if line is not None)


def _summary_line(item: ChatItem | ChatItemEvent) -> str | None:
    match item:
        case ChatMessage() | MessageAdded():
            speaker = "[Previous Summary]" if _is_summary(item) else ChatRole(item.role).value.capitalize()
            return f"{speaker}: {_text(item.content, otherwise=NON_TEXT)}"
        case FunctionCall() | FunctionCalled():
            return f"[Tool Call: {item.name}] args={item.arguments}"
        case FunctionCallOutput() | FunctionReturned():
            outcome = "Error" if item.is_error else "Result"
            return f"[Tool {outcome}: {item.name}] {item.output[:SHOWN_OUTPUT_CHARACTERS]}"
        case _:
            return None


def _transcript_line(item: ChatItem | ChatItemEvent) -> str | None:
    match item:
        case ChatMessage() | MessageAdded():
            role, text = ChatRole(item.role).value, _text(item.content, otherwise="").strip()
            return f"{role.capitalize()}: {text}" if text and role not in INSTRUCTION_ROLES else None
        case FunctionCall() | FunctionCalled():
            return f"[tool call] {item.name}({item.arguments})"
        case FunctionCallOutput() | FunctionReturned():
            return f"[tool {'error' if item.is_error else 'result'}] {item.name} -> {item.output}"
        case _:
            return None


def _text(content: str | Iterable[Any], *, otherwise: str) -> str:
    if isinstance(content, str):
        return content
    texts = [part for part in content if isinstance(part, str)]
    return " ".join(texts) if texts else otherwise


def _is_summary(message: ChatMessage | MessageAdded) -> bool:
    extra = parse_json(message.extra) if isinstance(message.extra, bytes) and message.extra else message.extra
    return isinstance(extra, dict) and bool(extra.get("summary"))
