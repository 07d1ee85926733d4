"""Messages as tests write them, and what shaping makes of them."""

from typing import Any

from refold.domain.chat.events import ChatItemEvent
from refold.domain.formats.openai.receive import shape_messages

Message = dict[str, Any]


def said(role: str, content: Any = "hello", **extra: Any) -> Message:
    """Return a message."""
    return {"role": role, "content": content, **extra}


def call(call_id: str, name: str = "look_up", arguments: str = "{}", **extra: Any) -> Message:
    """Return an entry of `tool_calls`."""
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}, **extra}


def asked(*calls: Message, content: Any = None, **extra: Any) -> Message:
    """Return an assistant's message with calls."""
    return {"role": "assistant", "content": content, "tool_calls": list(calls), **extra}


def answered(call_id: str, content: Any = "found", **extra: Any) -> Message:
    """Return a tool's message."""
    return {"role": "tool", "tool_call_id": call_id, "content": content, **extra}


def shaped(*messages: Message, context_id: str = "c") -> list[list[ChatItemEvent]]:
    """Return the items of each message."""
    return shape_messages(messages, context_id=context_id, created_at=1.0)


def items(*messages: Message) -> list[ChatItemEvent]:
    """Return the items of messages in one list."""
    return [item for group in shaped(*messages) for item in group]
