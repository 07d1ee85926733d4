"""From items to messages of OpenAI chat completions, and the rules that each message must keep."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from ...arguments import is_data_url
from ...chat.events import INSTRUCTION_ROLES, ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded
from ...chat.pairing import pair_calls
from ...errors import MISSHAPEN
from ..send import (
    MALFORMED,
    NO_OUTPUT,
    PlacedInstructions,
    UniqueIds,
    left_out,
    parts_of_output,
    place_instructions,
    text_of_output,
    with_plain_characters,
)
from ..source_json import Check, are_parts, has, is_maybe_text, is_text, where_given
from .source_shape import OpenAIMessage, grouped, image_part, message_of, role_sent

CHAT_CALL_ID_MAX = 40
RESPONSES_ID_MAX = 64
FUNCTION_NAME_MAX = 64
FUNCTION_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
PARTICIPANT = re.compile(r"[^\s<|\\/>]{1,64}")
IMAGE_DATA = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,.", re.IGNORECASE)
DETAILS = ("auto", "low", "high", "original")


def unique_call_ids(call_ids: list[str], *, length_max: int) -> list[str]:
    """
    Return a unique id for each call: the recorded one if it is free, fits and is not empty.

    A replacement depends only on the ids up to that call, so that prompt caches stay valid while a context grows.
    """
    if len(call_ids) == 1 and 0 < len(call_ids[0]) <= length_max:
        return call_ids
    ids = UniqueIds(lambda one: one if 0 < len(one) <= length_max else _digest(one), "-", length_max)
    return [ids.take(call_id) for call_id in call_ids]


def _digest(call_id: str) -> str:
    return "call_" + hashlib.blake2b(call_id.encode(), digest_size=12).hexdigest()


def function_name(name: str) -> str:
    """Return a name that the API accepts: 1 to 64 letters, digits, `_` and `-`; other characters become `_`."""
    return with_plain_characters(name)[:FUNCTION_NAME_MAX]


def is_sound(message: dict[str, Any]) -> bool:
    """Return whether the API would accept this message in a suitable place."""
    check = _CHECKS.get(message.get("role", ""))
    return check is not None and check(message)


def _is_content(content: Any, parts: dict[str, Check]) -> bool:
    return isinstance(content, str) or are_parts(content, parts)


def is_image_address(address: Any) -> bool:
    """Return whether the API may accept this image: a data URL must have a media type, others are not checked."""
    if not isinstance(address, str) or not address:
        return False
    return not is_data_url(address) or IMAGE_DATA.match(address) is not None


def left_out_image(image: Image, role: str) -> str:
    """Return the text that replaces an image which the API would refuse in a message of this role."""
    return left_out(image, MALFORMED if role == "user" else "images are taken from users only")


def _is_image(part: Any) -> bool:
    image = part.get("image_url")
    return has(image, url=is_image_address) and where_given(image, detail=lambda detail: detail in DETAILS)


def _is_audio(part: Any) -> bool:
    return has(part.get("input_audio"), data=is_text, format=lambda kind: kind in ("wav", "mp3"))


def _is_file(part: Any) -> bool:
    file = part.get("file")
    return isinstance(file, dict) and where_given(file, file_data=is_text, file_id=is_text, filename=is_text)


def is_text_part(part: Any) -> bool:
    return has(part, text=is_text)


def is_refusal(part: Any) -> bool:
    """Return whether a part has the text of a refusal."""
    return has(part, refusal=is_text)


TEXT_PARTS: dict[str, Check] = {"text": is_text_part}
ANSWER_PARTS: dict[str, Check] = {**TEXT_PARTS, "refusal": is_refusal}
USER_PARTS: dict[str, Check] = {**TEXT_PARTS, "image_url": _is_image, "input_audio": _is_audio, "file": _is_file}


def _is_participant(value: Any) -> bool:
    return isinstance(value, str) and PARTICIPANT.fullmatch(value) is not None


def is_function_name(value: Any) -> bool:
    """Return whether the API accepts this as the name of a function."""
    return isinstance(value, str) and FUNCTION_NAME.fullmatch(value) is not None


def _is_function(value: Any) -> bool:
    return has(value, name=is_function_name, arguments=is_text)


def _is_call(call: Any) -> bool:
    if not has(call, id=is_text, type=is_text):
        return False
    if call["type"] == "custom":
        return has(call.get("custom"), name=is_function_name, input=is_text)
    return bool(call["type"] == "function") and _is_function(call.get("function"))


def _are_calls(calls: Any) -> bool:
    return isinstance(calls, list) and bool(calls) and all(map(_is_call, calls))


def _is_instruction(message: Any) -> bool:
    return _is_content(message.get("content"), TEXT_PARTS) and where_given(message, name=_is_participant)


def _is_question(message: Any) -> bool:
    return _is_content(message.get("content"), USER_PARTS) and where_given(message, name=_is_participant)


def _is_answer(message: Any) -> bool:
    """Without text, an answer needs calls, a refusal or audio; it cannot have both kinds of calls."""
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


def _is_output(message: Any) -> bool:
    return has(message, tool_call_id=is_text) and _is_content(message.get("content"), TEXT_PARTS)


def _is_legacy_output(message: Any) -> bool:
    return has(message, name=is_function_name, content=is_maybe_text)


_CHECKS: dict[str, Check] = {
    "system": _is_instruction,
    "developer": _is_instruction,
    "user": _is_question,
    "assistant": _is_answer,
    "tool": _is_output,
    "function": _is_legacy_output,
}


def openai_messages(
    items: Iterable[ChatItemEvent],
    *,
    reasoning_model: bool = False,
    exact: bool = False,
) -> list[OpenAIMessage]:
    """
    Return the OpenAI messages of `items`, in their order.

    A developer message created here is sent as "system"; for a `reasoning_model` every "system" becomes "developer".
    With `exact` every message is as recorded, valid or not. Without items there are no messages, which the API refuses.
    """
    recorded = list(items)
    if exact:
        messages = [message_of([recorded[index] for index in group]) for group in grouped(recorded)]
    else:
        messages = _valid_messages(recorded, place_instructions(recorded))
    if not reasoning_model:
        return messages
    return [{**message, "role": "developer"} if message.get("role") == "system" else message for message in messages]


def _valid_messages(items: Sequence[ChatItemEvent], instructions: PlacedInstructions) -> list[OpenAIMessage]:
    messages: list[OpenAIMessage] = []
    if instructions.place is None and instructions.text:
        messages.append({"role": "system", "content": instructions.text})
    output_of = pair_calls(items).output_of
    for group in grouped(items):
        first = items[group[0]]
        if isinstance(first, MessageAdded) and len(group) == 1:
            if first.role not in INSTRUCTION_ROLES or instructions.as_recorded:
                messages.append(_as_it_came(first) or _made_anew(first))
            elif group[0] == instructions.place and instructions.text is not None:
                messages.append({"role": role_sent(first), "content": instructions.text})
        elif not isinstance(first, FunctionReturned):
            messages += _exchange(items, group, output_of)
    return messages


# Calls and their outputs


def _exchange(items: Sequence[ChatItemEvent], group: Sequence[int], output_of: dict[int, int]) -> list[OpenAIMessage]:
    """Return a message with calls, directly followed by their outputs, in the order in which these were recorded."""
    spoken = [items[index] for index in group]
    outputs = [output_of.get(index, len(items)) for index in group if type(items[index]) is FunctionCalled]
    message = _as_it_came(*spoken) or _made_anew(*spoken)
    if message.get("function_call"):
        came = _as_it_came(items[outputs[0]]) if outputs[0] < len(items) else None
        if came is not None and came["role"] == "function":
            return [message, came]
        message = _made_anew(*spoken)
    answered = list(zip(outputs, _uniquely_called(message["tool_calls"]), strict=True))
    if len(answered) > 1:
        # A call without an output gets the place after all others, so its placeholder comes last.
        answered.sort(key=itemgetter(0))
    return [message, *[_answer(items[place] if place < len(items) else None, call_id) for place, call_id in answered]]


def _uniquely_called(calls: list[dict[str, Any]]) -> list[str]:
    """Make the ids of a message's calls unique within it, and return them."""
    ids = [call["id"] for call in calls]
    unique = unique_call_ids(ids, length_max=CHAT_CALL_ID_MAX)
    if unique != ids:
        for call, call_id in zip(calls, unique, strict=True):
            call["id"] = call_id
    return unique


def _answer(output: ChatItemEvent | None, call_id: str) -> OpenAIMessage:
    if type(output) is not FunctionReturned:
        return {"role": "tool", "tool_call_id": call_id, "content": NO_OUTPUT}
    parts = parts_of_output(output)
    if output.origin is not None and parts is None:
        came = _as_it_came(output)
        if came is not None and came["role"] == "tool":
            return {**came, "tool_call_id": call_id}
    # An image has no place in an output here.
    said = output.output if parts is None else text_of_output(parts)
    return {"role": "tool", "tool_call_id": call_id, "content": said}


# Single messages


def _as_it_came(*group: ChatItemEvent) -> OpenAIMessage | None:
    """Return an imported message that has data besides its items, if the API accepts it unchanged."""
    if group[0].origin is None:
        # The first item was not imported, so no item of the group was.
        return None
    for item in group:
        if item.origin is not None and item.origin.rest:
            message = message_of(group)
            # A message has at most one `function_call`, and edits may have left the calls of two messages in one group.
            calls = sum(type(item) is FunctionCalled for item in group)
            with suppress(*MISSHAPEN):
                has_all = calls == len(message.get("tool_calls", ())) + bool(message.get("function_call"))
                return message if is_sound(message) and has_all else None
    return None


def _made_anew(first: ChatItemEvent, *others: ChatItemEvent) -> OpenAIMessage:
    if type(first) is MessageAdded:
        message: OpenAIMessage = {"role": role_sent(first), "content": _content(first)}
        calls = others
    else:
        message = {"role": "assistant", "content": None}
        calls = (first, *others)
    if calls:
        message["tool_calls"] = [_call(call) for call in calls if type(call) is FunctionCalled]
    return message


def _call(call: FunctionCalled) -> dict[str, Any]:
    function = {"name": function_name(call.name), "arguments": call.arguments}
    return {"id": call.call_id, "type": "function", "function": function}


def _content(message: MessageAdded) -> str | list[dict[str, Any]]:
    """Return the content in a valid form: the API refuses an empty list, and instructions can only be text."""
    content = message.content
    if isinstance(content, str):
        return content
    parts: list[dict[str, Any]] = []
    for part in content:
        if isinstance(part, str):
            parts.append({"type": "text", "text": part})
        elif message.role == "user" and is_image_address(part.image):
            parts.append(image_part(part))
        elif message.role in ("user", "assistant"):
            parts.append({"type": "text", "text": left_out_image(part, message.role)})
    return parts or ""
