"""
Items of OpenAI's Responses API as they are recorded: in their plain form, and with what lies beside it.

`Origin.rest["responses"]` has these keys, each left out where it has nothing to say:

    patch   patch of the plain form                         before  items of kinds that are kept as they came
    parts   `[index, part]` of parts that are no text       after   the same, behind the last item
            and no image                                    instructions  the message was the request's instructions
    cuts    lengths of the text parts of an output
"""

from __future__ import annotations

import hashlib
from typing import Any

from ..events import FunctionCalled, FunctionReturned, Image, MessageAdded
from .json_patch import patched
from .openai_rules import is_image_address, left_out_image
from .responses_rules import is_message_id

ResponsesItem = dict[str, Any]
Spoken = MessageAdded | FunctionCalled | FunctionReturned


def item_as_came(item: Spoken, beside: dict[str, Any]) -> ResponsesItem:
    """Return an item with what lay beside it at its source."""
    wanted: ResponsesItem = patched(plain_item(item, beside), beside.get("patch", {}))
    return wanted


def plain_item(item: Spoken, beside: dict[str, Any]) -> ResponsesItem:
    """Return the plain form of an item: what it is sent as when nothing but its parts and cuts lies beside it."""
    if isinstance(item, FunctionCalled):
        return {"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.arguments}
    if isinstance(item, FunctionReturned):
        return {"type": "function_call_output", "call_id": item.call_id, "output": _output(item.output, beside)}
    content = item.content if isinstance(item.content, str) else _parts(item, beside)
    message = {"type": "message", "role": item.role, "content": content}
    if item.role != "assistant" or isinstance(content, str):
        return message
    return {**message, "id": message_id(item.id), "status": "incomplete" if item.interrupted else "completed"}


def message_id(item_id: str) -> str:
    """Return the id under which an answer is sent: its own, or one that follows from it and that the API takes."""
    if is_message_id(item_id):
        return item_id
    return "msg_" + hashlib.blake2b(item_id.encode(), digest_size=12).hexdigest()


def _parts(message: MessageAdded, beside: dict[str, Any]) -> str | list[dict[str, Any]]:
    parts = [_part(part, message.role) for part in message.content]
    for index, part in beside.get("parts", ()):
        parts.insert(index, part)
    # An empty list is refused.
    return parts or ""


def _part(part: str | Image, role: str) -> dict[str, Any]:
    if not isinstance(part, str):
        if role == "user" and is_image_address(part.image):
            return {"type": "input_image", "image_url": part.image, "detail": part.inference_detail}
        part = left_out_image(part, role)
    if role == "assistant":
        return {"type": "output_text", "text": part, "annotations": []}
    return {"type": "input_text", "text": part}


def _output(output: str, beside: dict[str, Any]) -> str | list[dict[str, Any]]:
    if "cuts" not in beside:
        return output
    parts: list[dict[str, Any]] = []
    start = 0
    for length in beside["cuts"]:
        parts.append({"type": "input_text", "text": output[start : start + length]})
        start += length
    for index, part in beside.get("parts", ()):
        parts.insert(index, part)
    return parts
