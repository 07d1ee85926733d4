"""
From items to the messages of OpenAI chat completions, always valid (SPEC V9, X3).

The rule: what is valid goes out as it is recorded, an imported message in the shape it came in; the least is
changed of the rest. Outputs move right behind their calls, an output without a call is left out, a call without an
output, also one that is still awaited, is answered by `NO_OUTPUT`, and a message that the API would refuse is made
anew of its items. `exact=True` changes nothing: it is for looking at a context, and for comparing it with its source.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from typing import Any

from ...errors import MISSHAPEN
from ..events import ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from ..kinds import INSTRUCTION_ROLES
from ..pairing import pair_calls
from .batches import NO_OUTPUT
from .instructions import Config, Placed, place_instructions
from .openai_origin import OpenAIMessage, grouped, image_part, message_of
from .openai_rules import CHAT_CALL_ID_MAX, function_name, is_image_address, is_sound, left_out_image, unique_call_ids


def openai_messages(
    items: Iterable[ChatItemEvent],
    *,
    config: Config | None = None,
    reasoning_model: bool = False,
    exact: bool = False,
) -> list[OpenAIMessage]:
    """
    Return the OpenAI messages that `items`, in their order, stand for (SPEC V9).

    `config` is the (instructions, tools) in force; without it they are computed. A developer message made here is
    sent as "system"; for a `reasoning_model` every "system" becomes "developer" (SPEC V9.4). With `exact` every
    message is as it is recorded, valid or not, and `config` counts for nothing. Without items there are no messages,
    which the API refuses.
    """
    recorded = list(items)
    if exact:
        messages = [message_of([recorded[index] for index in group]) for group in grouped(recorded)]
    else:
        messages = _valid_messages(recorded, place_instructions(recorded, config))
    if not reasoning_model:
        return messages
    return [{**message, "role": "developer"} if message.get("role") == "system" else message for message in messages]


def _valid_messages(items: Sequence[ChatItemEvent], instructions: Placed) -> list[OpenAIMessage]:
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
                messages.append({"role": _role(first), "content": instructions.text})
        elif not isinstance(first, FunctionReturned):
            messages += _exchange(items, group, output_of)
    return messages


# Calls and their outputs


def _exchange(items: Sequence[ChatItemEvent], group: Sequence[int], output_of: dict[int, int]) -> list[OpenAIMessage]:
    """Return a message with calls, and right behind it the answers, in the order in which they were recorded."""
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
        # A call without an output has the place behind all others, and its stub comes last.
        answered.sort(key=itemgetter(0))
    return [message, *[_answer(items[place] if place < len(items) else None, call_id) for place, call_id in answered]]


def _uniquely_called(calls: list[dict[str, Any]]) -> list[str]:
    """Give the calls of a message ids that are unique in it, and return these."""
    ids = [call["id"] for call in calls]
    unique = unique_call_ids(ids, length_max=CHAT_CALL_ID_MAX)
    if unique != ids:
        for call, call_id in zip(calls, unique, strict=True):
            call["id"] = call_id
    return unique


def _answer(output: ChatItemEvent | None, call_id: str) -> OpenAIMessage:
    if type(output) is not FunctionReturned:
        return {"role": "tool", "tool_call_id": call_id, "content": NO_OUTPUT}
    if output.origin is not None:
        came = _as_it_came(output)
        if came is not None and came["role"] == "tool":
            return {**came, "tool_call_id": call_id}
    return {"role": "tool", "tool_call_id": call_id, "content": output.output}


# Messages by themselves


def _as_it_came(*group: ChatItemEvent) -> OpenAIMessage | None:
    """Return an imported message that has more to it than its items, if the API takes it like that."""
    if group[0].origin is None:
        # Made here, and so is the rest of the group.
        return None
    for item in group:
        if item.origin is not None and item.origin.rest:
            message = message_of(group)
            with suppress(*MISSHAPEN):
                return message if is_sound(message) and _is_complete(message, group) else None
    return None


def _is_complete(message: OpenAIMessage, group: Sequence[ChatItemEvent]) -> bool:
    """A message holds one `function_call` at most, and what is left of two may have come together."""
    calls = sum(type(item) is FunctionCalled for item in group)
    return calls == len(message.get("tool_calls", ())) + bool(message.get("function_call"))


def _made_anew(first: ChatItemEvent, *others: ChatItemEvent) -> OpenAIMessage:
    if type(first) is MessageAdded:
        message: OpenAIMessage = {"role": _role(first), "content": _content(first)}
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


def _role(message: MessageAdded) -> str:
    """What was imported as a developer's stays one."""
    return "system" if message.role == "developer" and message.origin is None else message.role


def _content(message: MessageAdded) -> str | list[dict[str, Any]]:
    """An empty list is refused, and instructions are text alone."""
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
