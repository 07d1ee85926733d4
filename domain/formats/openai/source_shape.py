"""
OpenAI messages in their recorded form: imported items in their original shape (`Origin`), others in the plain one.

Nothing is moved, left out or repaired. `Origin.rest` is canonical JSON with these keys, which are left out if they have
no value:

    message   patch of the message without its calls       call     patch of this call
    parts     `[index, part]` of parts other than texts    named    a tool message with a name
              and images                                   legacy   a call that was a `function_call`
    cuts      lengths of the text parts of an output       whole    the original message, of `items` items
    responses data of an item of the Responses API besides its plain form: see there, too
    anthropic data of an item of an Anthropic message besides its plain form: see that provider's `source_shape`
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...canonical import parse_json
from ...chat import events as chat
from ...chat.pairing import is_of_model
from ...errors import MISSHAPEN
from ..source_json import listed_output, patched, with_parts

OpenAIMessage = dict[str, Any]


def grouped(items: Sequence[chat.ChatItemEvent]) -> list[list[int]]:
    """
    Return the indexes of the items of each message.

    Handoffs and config updates have no message of their own, and do not separate calls of one message.
    """
    groups: list[list[int]] = []
    last: chat.ChatItemEvent | None = None
    for index, item in enumerate(items):
        kind = type(item)
        if kind in chat.ABOUT_CONVERSATION:
            continue
        if kind is chat.FunctionCalled and last is not None and _belongs(item, last):
            groups[-1].append(index)
        else:
            groups.append([index])
        last = item
    return groups


def _belongs(call: chat.ChatItemEvent, last: chat.ChatItemEvent) -> bool:
    """Calls made here are grouped with other such calls, imported ones with the item before them in their message."""
    if call.origin is None:
        return last.origin is None and type(last) is chat.FunctionCalled
    return not call.origin.starts and last.origin is not None and is_of_model(last)


def message_of(group: Sequence[chat.ChatItemEvent]) -> OpenAIMessage:
    """
    Return the message of these consecutive items.

    An origin with a shape that no import creates is ignored.
    """
    try:
        return _message_of(group, [rest_of(item) for item in group])
    except MISSHAPEN:
        return _message_of(group, [{}] * len(group))


def require_shape(items: Sequence[chat.ChatItemEvent]) -> None:
    """
    Check, before items are recorded, that messages can be built from them and their origins.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: they cannot.
    """
    for group in grouped(items):
        taken = [items[index] for index in group]
        _message_of(taken, [rest_of(item) for item in taken])


def _message_of(group: Sequence[chat.ChatItemEvent], rests: Sequence[dict[str, Any]]) -> OpenAIMessage:
    rest = rests[0]
    if _is_whole(rest, group):
        return dict(rest["whole"])
    message: OpenAIMessage = dict(patched(plain_message(group[0], rest), rest.get("message", {})))
    for item, beside in zip(group, rests, strict=True):
        if isinstance(item, chat.FunctionCalled):
            _add_call(message, item, beside)
    return message


def plain_message(item: chat.ChatItemEvent, rest: dict[str, Any]) -> OpenAIMessage:
    """Return the message that begins with `item`, without calls and before its patch."""
    if isinstance(item, chat.MessageAdded):
        return {"role": role_sent(item), "content": _content(item.content, rest)}
    if isinstance(item, chat.FunctionReturned):
        output = listed_output(item.output, rest, "text") if "cuts" in rest else item.output
        message = {"role": "tool", "tool_call_id": item.call_id, "content": output}
        return {**message, "name": item.name} if rest.get("named") else message
    return {"role": "assistant", "content": None}


def plain_call(item: chat.FunctionCalled) -> dict[str, Any]:
    """Return the entry of `tool_calls` for a call, before its patch."""
    return {
        "id": item.call_id,
        "type": "function",
        "function": {"name": item.name, "arguments": item.arguments},
    }


def rest_of(item: chat.ChatItemEvent) -> dict[str, Any]:
    """Return the parsed `Origin.rest` of an item."""
    return parse_json(item.origin.rest) or {} if item.origin else {}


def _is_whole(rest: dict[str, Any], group: Sequence[chat.ChatItemEvent]) -> bool:
    """Whether the original message is returned: only while all of its items, and no others, are there."""
    if "whole" not in rest or rest.get("items") != len(group):
        return False
    asked = [call.get("id") for call in rest["whole"].get("tool_calls") or ()]
    return asked == [item.call_id for item in group if isinstance(item, chat.FunctionCalled)][: len(asked)]


def role_sent(item: chat.MessageAdded) -> str:
    """Return the role that is sent: a developer message keeps its role only if it was imported."""
    return "system" if item.role == "developer" and item.origin is None else item.role


def _content(content: str | tuple[str | chat.Image, ...], rest: dict[str, Any]) -> Any:
    if isinstance(content, str):
        return content
    parts = [{"type": "text", "text": part} if isinstance(part, str) else image_part(part) for part in content]
    return with_parts(parts, rest)


def image_part(image: chat.Image) -> dict[str, Any]:
    """Return the part of an image; the default detail is left out."""
    detail = {} if image.inference_detail == "auto" else {"detail": image.inference_detail}
    return {"type": "image_url", "image_url": {"url": image.image, **detail}}


def _add_call(message: OpenAIMessage, item: chat.FunctionCalled, rest: dict[str, Any]) -> None:
    call = patched(plain_call(item), rest.get("call", {}))
    if rest.get("legacy"):
        message["function_call"] = call["function"]
    else:
        # An imported message may have had `tool_calls: null`.
        message["tool_calls"] = [*(message.get("tool_calls") or ()), call]
