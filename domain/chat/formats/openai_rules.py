"""
What OpenAI's chat completions demand of one message by itself; what they demand of the order of messages is the
business of `openai_messages` (SPEC X3).

Fields that the API does not know are no fault: they come from compatible servers, which want them back.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any

from ..events import Image
from .json_checks import Check, are_parts, has, is_maybe_text, is_text, where_given
from .pictured import MALFORMED, left_out

CHAT_CALL_ID_MAX = 40
RESPONSES_ID_MAX = 64
FUNCTION_NAME_MAX = 64
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
NOT_IN_FUNCTION_NAMES = re.compile(r"[^a-zA-Z0-9_-]")
PARTICIPANT = re.compile(r"[^\s<|\\/>]{1,64}")
IMAGE_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,.", re.IGNORECASE)
DETAILS = ("auto", "low", "high", "original")

Value = Any


def unique_call_ids(call_ids: list[str], *, length_max: int) -> list[str]:
    """
    Return an id of its own for each call: the recorded one where it is free, fits and is not empty.

    A replacement follows from the ids up to its own alone, so that prompt caches stay warm while a context grows.
    """
    if len(call_ids) == 1 and 0 < len(call_ids[0]) <= length_max:
        return call_ids
    taken: set[str] = set()
    attempts: dict[str, int] = {}
    made = []
    for call_id in call_ids:
        wanted = call_id if 0 < len(call_id) <= length_max else _digest(call_id)
        given, attempt = wanted, attempts.get(wanted, 1)
        while given in taken:
            attempt += 1
            suffix = f"-{attempt}"
            given = wanted[: length_max - len(suffix)] + suffix
        attempts[wanted] = attempt
        taken.add(given)
        made.append(given)
    return made


def _digest(call_id: str) -> str:
    return "call_" + hashlib.blake2b(call_id.encode(), digest_size=12).hexdigest()


def function_name(name: str) -> str:
    """Return a name that the API takes: letters, digits, `_` and `-` in place of others, 1 to 64 of them."""
    if FUNCTION_NAME.fullmatch(name):
        return name
    return NOT_IN_FUNCTION_NAMES.sub("_", name)[:FUNCTION_NAME_MAX] or "_"


def is_sound(message: dict[str, Value]) -> bool:
    """Return whether the API would take this message at a fitting place."""
    check = _CHECKS.get(message.get("role", ""))
    return check is not None and check(message)


def _is_content(content: Value, parts: dict[str, Check]) -> bool:
    return isinstance(content, str) or are_parts(content, parts)


def is_image_address(address: Value) -> bool:
    """Return whether the API may take this as an image: data has to say its type, an address is not looked into."""
    if not isinstance(address, str) or not address:
        return False
    return address[:5].lower() != "data:" or IMAGE_DATA.match(address) is not None


def left_out_image(image: Image, role: str) -> str:
    """Return the text that stands for an image which the API would refuse in a message of this role."""
    return left_out(image, MALFORMED if role == "user" else "images are taken from users only")


def _is_image(part: Value) -> bool:
    image = part.get("image_url")
    return has(image, url=is_image_address) and where_given(image, detail=lambda detail: detail in DETAILS)


def _is_audio(part: Value) -> bool:
    return has(part.get("input_audio"), data=is_text, format=lambda kind: kind in ("wav", "mp3"))


def _is_file(part: Value) -> bool:
    file = part.get("file")
    return isinstance(file, dict) and where_given(file, file_data=is_text, file_id=is_text, filename=is_text)


def _is_text_part(part: Value) -> bool:
    return has(part, text=is_text)


def _is_refusal(part: Value) -> bool:
    return has(part, refusal=is_text)


TEXT_PARTS: dict[str, Check] = {"text": _is_text_part}
ANSWER_PARTS: dict[str, Check] = {**TEXT_PARTS, "refusal": _is_refusal}
USER_PARTS: dict[str, Check] = {**TEXT_PARTS, "image_url": _is_image, "input_audio": _is_audio, "file": _is_file}


def _is_participant(value: Value) -> bool:
    return isinstance(value, str) and PARTICIPANT.fullmatch(value) is not None


def is_function_name(value: Value) -> bool:
    """Return whether the API takes this as the name of a function."""
    return isinstance(value, str) and FUNCTION_NAME.fullmatch(value) is not None


def _is_function(value: Value) -> bool:
    return has(value, name=is_function_name, arguments=is_text)


def _is_call(call: Value) -> bool:
    if not has(call, id=is_text, type=is_text):
        return False
    if call["type"] == "custom":
        return has(call.get("custom"), name=is_function_name, input=is_text)
    return bool(call["type"] == "function") and _is_function(call.get("function"))


def _are_calls(calls: Value) -> bool:
    return isinstance(calls, list) and bool(calls) and all(map(_is_call, calls))


def _is_instruction(message: Value) -> bool:
    return _is_content(message.get("content"), TEXT_PARTS) and where_given(message, name=_is_participant)


def _is_question(message: Value) -> bool:
    return _is_content(message.get("content"), USER_PARTS) and where_given(message, name=_is_participant)


def _is_answer(message: Value) -> bool:
    """Without text, an answer needs calls, a refusal or a voice; the two kinds of calls exclude each other."""
    sound = where_given(
        message,
        name=_is_participant,
        refusal=is_maybe_text,
        audio=lambda audio: audio is None or has(audio, id=is_text),
        tool_calls=_are_calls,
        function_call=lambda call: call is None or _is_function(call),
    )
    called = ("tool_calls" in message) + (message.get("function_call") is not None)
    if not sound or called > 1:
        return False
    if message.get("content") is None:
        return bool(called or message.get("refusal") or message.get("audio"))
    return _is_content(message["content"], ANSWER_PARTS)


def _is_output(message: Value) -> bool:
    return has(message, tool_call_id=is_text) and _is_content(message.get("content"), TEXT_PARTS)


def _is_legacy_output(message: Value) -> bool:
    return has(message, name=is_function_name, content=is_maybe_text)


_CHECKS: dict[str, Check] = {
    "system": _is_instruction,
    "developer": _is_instruction,
    "user": _is_question,
    "assistant": _is_answer,
    "tool": _is_output,
    "function": _is_legacy_output,
}
