"""
From items to OpenAI chat messages (SPEC V9).

Items that were imported come out in the shape they had (`Origin`), items made by calls in the plain one.
`Origin.rest` is canonical JSON with these keys, each left out where it has nothing to say:

    message   patch of the message without its calls       call     patch of this call
    parts     `[index, part]` of parts that are no text    named    a tool message that carries its name
              and no image                                 legacy   a call that was a `function_call`
    cuts      lengths of the text parts of an output       whole    the message as it was, of `items` items
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ..canonical import parse_json
from .events import ChatItemEvent, ConfigUpdated, FunctionCalled, FunctionReturned, HandedOff, Image, MessageAdded
from .json_patch import patched

__all__ = ["OpenAIMessage", "message_of", "openai_messages", "plain_call", "plain_message"]

OpenAIMessage = dict[str, Any]


def openai_messages(items: Iterable[ChatItemEvent], *, reasoning_model: bool = False) -> list[OpenAIMessage]:
    """
    Return the OpenAI messages that `items` stand for.

    Handoffs and config updates have no message of their own, and do not part calls that belong together.
    """
    messages = [message_of(group) for group in _grouped(items)]
    if not reasoning_model:
        return messages
    return [{**message, "role": "developer"} if message.get("role") == "system" else message for message in messages]


def message_of(group: Sequence[ChatItemEvent]) -> OpenAIMessage:
    """
    Return the message that was, or is to be, made of these neighbouring items.
    """
    rest = _rest(group[0])
    if "whole" in rest and rest.get("items") == len(group):
        whole: OpenAIMessage = rest["whole"]
        return whole
    message: OpenAIMessage = patched(plain_message(group[0], rest), rest.get("message", {}))
    for item in group:
        if isinstance(item, FunctionCalled):
            _add_call(message, item, _rest(item))
    return message


def plain_message(item: ChatItemEvent, rest: dict[str, Any]) -> OpenAIMessage:
    """
    Return the message that begins with `item`, without calls and before its patch.
    """
    if isinstance(item, MessageAdded):
        return {"role": _role(item), "content": _content(item.content, rest)}
    if isinstance(item, FunctionReturned):
        message = {"role": "tool", "tool_call_id": item.call_id, "content": _output(item.output, rest)}
        return {**message, "name": item.name} if rest.get("named") else message
    return {"role": "assistant", "content": None}


def plain_call(item: FunctionCalled) -> dict[str, Any]:
    """
    Return the entry of `tool_calls` for a call, before its patch.
    """
    return {
        "id": item.call_id,
        "type": "function",
        "function": {"name": item.name, "arguments": item.arguments},
    }


def _rest(item: ChatItemEvent) -> dict[str, Any]:
    return parse_json(item.origin.rest) or {} if item.origin else {}


def _grouped(items: Iterable[ChatItemEvent]) -> list[list[ChatItemEvent]]:
    groups: list[list[ChatItemEvent]] = []
    for item in items:
        if isinstance(item, HandedOff | ConfigUpdated):
            continue
        if groups and _belongs(item, groups[-1]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _belongs(item: ChatItemEvent, group: Sequence[ChatItemEvent]) -> bool:
    """Only calls follow something within a message: calls made here other calls, imported ones as they did."""
    if not isinstance(item, FunctionCalled):
        return False
    last = group[-1]
    if item.origin is None:
        return isinstance(last, FunctionCalled) and last.origin is None
    is_assistant = isinstance(last, FunctionCalled) or (isinstance(last, MessageAdded) and last.role == "assistant")
    return not item.origin.starts and last.origin is not None and is_assistant


def _role(item: MessageAdded) -> str:
    return "system" if item.role == "developer" and item.origin is None else item.role


def _content(content: str | tuple[str | Image, ...], rest: dict[str, Any]) -> Any:
    if isinstance(content, str):
        return content
    return _with_parts([_part(part) for part in content], rest)


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    detail = {} if part.inference_detail == "auto" else {"detail": part.inference_detail}
    return {"type": "image_url", "image_url": {"url": part.image, **detail}}


def _with_parts(parts: list[Any], rest: dict[str, Any]) -> list[Any]:
    for index, part in rest.get("parts", ()):
        parts.insert(index, part)
    return parts


def _output(output: str, rest: dict[str, Any]) -> Any:
    if "cuts" not in rest:
        return output
    parts, start = [], 0
    for length in rest["cuts"]:
        parts.append(_part(output[start : start + length]))
        start += length
    return _with_parts(parts, rest)


def _add_call(message: OpenAIMessage, item: FunctionCalled, rest: dict[str, Any]) -> None:
    call = patched(plain_call(item), rest.get("call", {}))
    if rest.get("legacy"):
        message["function_call"] = call["function"]
    else:
        message.setdefault("tool_calls", []).append(call)
