"""What OpenAI's Responses API demands of one input item by itself."""

from __future__ import annotations

from typing import Any

from .json_checks import Check, are_parts, has, is_maybe_text, is_text, where_given
from .openai_rules import RESPONSES_ID_MAX, is_function_name, is_image_address

DETAILS = ("auto", "low", "high", "original")
STATUSES = ("in_progress", "completed", "incomplete")
MESSAGE_ID = "msg_"


def is_message_id(value: Any) -> bool:
    """Return whether the API takes this as the id of a message."""
    return isinstance(value, str) and value.startswith(MESSAGE_ID) and len(value) <= RESPONSES_ID_MAX


def is_sound_item(item: dict[str, Any]) -> bool:
    """Return whether the API would take this message, call or output at a fitting place."""
    if not where_given(item, status=lambda status: status in STATUSES, type=is_text):
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


def _is_text_part(part: Any) -> bool:
    return has(part, text=is_text)


def _is_image(part: Any) -> bool:
    pointed = where_given(part, image_url=lambda url: url is None or is_image_address(url), file_id=is_maybe_text)
    named = part.get("image_url") is not None or part.get("file_id") is not None
    return pointed and named and has(part, detail=lambda detail: detail in DETAILS)


def _is_file(part: Any) -> bool:
    fields = dict.fromkeys(("file_data", "file_id", "file_url", "filename"), is_maybe_text)
    return where_given(part, **fields) and any(part.get(name) for name in ("file_data", "file_id", "file_url"))


def _is_answer_text(part: Any) -> bool:
    return has(part, text=is_text, annotations=lambda notes: isinstance(notes, list))


def _is_refusal(part: Any) -> bool:
    return has(part, refusal=is_text)


INPUT_PARTS: dict[str, Check] = {"input_text": _is_text_part, "input_image": _is_image, "input_file": _is_file}
ANSWER_PARTS: dict[str, Check] = {"output_text": _is_answer_text, "refusal": _is_refusal}
