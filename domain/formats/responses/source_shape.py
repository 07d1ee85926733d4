"""The shape of imported items of OpenAI's Responses API: what each must have, and what is kept beside it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ...canonical import parse_json
from ...chat.events import FunctionCalled, FunctionReturned, Image, MessageAdded, Spoken
from ...erasure.forgetting import clears_with_erasures
from ..openai.send import (
    DETAILS,
    RESPONSES_ID_MAX,
    is_function_name,
    is_image_address,
    is_refusal,
    is_text_part,
    left_out_image,
)
from ..source_json import Check, are_parts, has, is_maybe_text, is_text, listed_output, patched, where_given, with_parts

STATUSES = ("in_progress", "completed", "incomplete")
MESSAGE_ID = "msg_"
# The prefixes of the ids of entries. Programs that ask other models, and pages that show chats, write other ids.
ID_PREFIXES = {"message": MESSAGE_ID, "function_call": "fc", "reasoning": "rs"}
# The beginning of an origin that lists the fields that the entry did not have. Most messages that programs write have
# an origin with nothing else. It is parsed once for all of them, and an id that the entry did not have is not computed:
# this halves the time of a session's messages.
LEFT_OUT = b'{"responses":{"patch":{"drop":['
# An origin with more bytes has other data, too.
SHORT_ORIGIN = 256


def is_message_id(value: Any) -> bool:
    """Return whether the API accepts this as the id of a message."""
    return isinstance(value, str) and value.startswith(MESSAGE_ID) and len(value) <= RESPONSES_ID_MAX


def is_of_api(item: dict[str, Any]) -> bool:
    """Return whether an entry can be from this API; one of another model has `provider_data`, or an id of its own."""
    prefix, known = ID_PREFIXES.get(item.get("type", "message"), ""), item.get("id")
    return not item.get("provider_data") and (known is None or str(known).startswith(prefix))


def is_sound_item(item: dict[str, Any]) -> bool:
    """Return whether the API would accept this message, call or output in a suitable place."""
    if not where_given(item, status=lambda status: status in STATUSES, type=is_text) or not is_of_api(item):
        return False
    kind = item.get("type", "message")
    if kind == "message":
        return _is_message(item)
    if not where_given(item, id=is_maybe_text if kind == "function_call_output" else is_text):
        return False
    if kind == "function_call":
        return has(item, call_id=is_text, name=is_function_name, arguments=is_text)
    return bool(kind == "function_call_output") and has(item, call_id=is_text, output=_is_output)


def _is_message(item: dict[str, Any]) -> bool:
    content = item.get("content")
    if item.get("role") != "assistant":
        return isinstance(content, str) or are_parts(content, INPUT_PARTS)
    if isinstance(content, str):
        return not item.keys() & {"id", "status"}
    return has(item, id=is_message_id, status=is_text, type=is_text) and are_parts(content, ANSWER_PARTS)


def _is_output(output: Any) -> bool:
    return isinstance(output, str) or are_parts(output, INPUT_PARTS)


def _is_image(part: Any) -> bool:
    pointed = where_given(part, image_url=lambda url: url is None or is_image_address(url), file_id=is_maybe_text)
    named = part.get("image_url") is not None or part.get("file_id") is not None
    return pointed and named and has(part, detail=lambda detail: detail in DETAILS)


def _is_file(part: Any) -> bool:
    fields = dict.fromkeys(("file_data", "file_id", "file_url", "filename"), is_maybe_text)
    return where_given(part, **fields) and any(part.get(name) for name in ("file_data", "file_id", "file_url"))


def _is_answer_text(part: Any) -> bool:
    return has(part, text=is_text, annotations=lambda notes: isinstance(notes, list))


INPUT_PARTS: dict[str, Check] = {"input_text": is_text_part, "input_image": _is_image, "input_file": _is_file}
ANSWER_PARTS: dict[str, Check] = {"output_text": _is_answer_text, "refusal": is_refusal}


ResponsesItem = dict[str, Any]


def item_as_came(item: Spoken, beside: dict[str, Any]) -> ResponsesItem:
    """Return an item together with the data that is kept beside it."""
    wanted: ResponsesItem = patched(plain_item(item, beside), beside.get("patch", {}))
    return wanted


@clears_with_erasures
@lru_cache(maxsize=64)
def left_out(rest: bytes) -> tuple[str, ...]:
    """Return the fields of the plain form that the entry did not have, if that is all that is kept beside it."""
    match parse_json(rest):
        case {"responses": {"patch": {"drop": [*names], **in_patch}, **beside}, **others}:
            return () if in_patch or beside or others or not all(map(is_text, names)) else tuple(names)
    return ()


def plain_without(item: Spoken, names: Sequence[str]) -> ResponsesItem:
    """Return the plain form of an item without some fields."""
    entry = plain_item(item, {}, has_id="id" not in names)
    for name in names:
        entry.pop(name, None)
    return entry


def plain_item(item: Spoken, beside: dict[str, Any], *, has_id: bool = True) -> ResponsesItem:
    """Return the plain form of an item: it uses only the `parts` and `cuts` of its origin."""
    if isinstance(item, FunctionCalled):
        return {"type": "function_call", "call_id": item.call_id, "name": item.name, "arguments": item.arguments}
    if isinstance(item, FunctionReturned):
        output = listed_output(item.output, beside, "input_text") if "cuts" in beside else item.output
        return {"type": "function_call_output", "call_id": item.call_id, "output": output}
    content = item.content if isinstance(item.content, str) else _parts(item, beside)
    message = {"type": "message", "role": item.role, "content": content}
    if item.role != "assistant" or isinstance(content, str):
        return message
    if has_id:
        message["id"] = message_id(item.id)
    message["status"] = "incomplete" if item.interrupted else "completed"
    return message


def message_id(item_id: str) -> str:
    """Return the id with which an answer is sent: its own if the API accepts that, else one computed from it."""
    if is_message_id(item_id):
        return item_id
    return "msg_" + hashlib.blake2b(item_id.encode(), digest_size=12).hexdigest()


def _parts(message: MessageAdded, beside: dict[str, Any]) -> str | list[dict[str, Any]]:
    # The API refuses an empty list.
    return with_parts([_part(part, message.role) for part in message.content], beside) or ""


def _part(part: str | Image, role: str) -> dict[str, Any]:
    if not isinstance(part, str):
        if role == "user" and is_image_address(part.image):
            return {"type": "input_image", "image_url": part.image, "detail": part.inference_detail}
        part = left_out_image(part, role)
    if role == "assistant":
        return {"type": "output_text", "text": part, "annotations": []}
    return {"type": "input_text", "text": part}
