"""From messages of OpenAI chat completions back to items; the error for a wrong field names its place."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from ...arguments import has_no_data, require_several
from ...canonical import json_in_order, require_json
from ...chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded, Origin
from ...clock import System
from ..receive import Fields, IdsOfPlaces, as_plain_data, place_of
from ..source_json import difference, is_same, joined_output
from .source_shape import OpenAIMessage, message_of, plain_call, plain_message

MESSAGE_ROLES = ("system", "developer", "user", "assistant")
OUTPUT_ROLES = ("tool", "function")
ROLES = MESSAGE_ROLES + OUTPUT_ROLES
DETAILS = ("low", "high")

Rest = dict[str, Any]
Draft = tuple[ChatItemEvent, Rest]


def shape_messages(
    messages: Sequence[OpenAIMessage], *, context_id: str, created_at: float
) -> list[list[ChatItemEvent]]:
    """
    Return the items of each message; their ids are computed only from `context_id` and their places.

    Raises:
        InvalidInputError: an entry is not a message; the error names the message's index, the field, and the expected
            value.
    """
    shaper = _Shaper(IdsOfPlaces(context_id).made, created_at)
    return [shaper.items_of(index, message, f"messages[{index}]") for index, message in enumerate(messages)]


def refusal_in(given: Mapping[str, Any]) -> str:
    """Return the text that a model gave instead of an answer, in a message or a part of one; empty if there is none."""
    refusal = given.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def items_from_openai_messages(
    messages: Iterable[Any], system: Any = None, *, system_clock: System, places: Sequence[str] = ()
) -> list[ChatItemEvent]:
    """
    Return the items of OpenAI chat messages, with new ids, all with the same time; `system` is a message in front.

    Messages are plain data or objects of the openai package, such as a choice's `message`. `openai_messages` returns
    valid messages unchanged. `places` name the messages in errors, by default `messages[0]` and so on.

    Raises:
        InvalidInputError: an entry is not a message, or holds text that is not Unicode; the error names the message's
            index, the field, and the expected value.
    """
    shaper = _Shaper(lambda prefix, index, part: system_clock.new_id(prefix), system_clock.now())
    items: list[ChatItemEvent] = []
    if system is not None:
        items += shaper.items_of(-1, {"role": "system", "content": system}, "system")
    for index, message in enumerate(require_several(messages, "the messages")):
        plain, where = as_plain_data(message), place_of(places, "messages", index)
        require_json(plain, what=where)
        items += shaper.items_of(index, plain, where)
    return items


def role_in(fields: Fields) -> str:
    """Return the role of a message."""
    expected = "one of " + ", ".join(ROLES)
    if "role" not in fields.value:
        raise fields.error("role", "missing", expected)
    role = fields.value["role"]
    if not isinstance(role, str):
        raise fields.unexpected("role", role, expected)
    if role not in ROLES:
        raise fields.error("role", f"{role!r} is no role", expected)
    return role


def _content(fields: Fields) -> str | list[dict[str, Any]] | None:
    """Return the content of a message: text, checked parts, or None."""
    content = fields.value.get("content")
    if content is None or isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise fields.unexpected("content", content, "text, a list of parts, or null")
    for index, part in enumerate(content):
        inner = Fields(fields.where, part, f"content[{index}]")
        if part.get("type") == "text":
            inner.text("text")
    return content


def _calls(fields: Fields) -> list[Fields]:
    """Return the entries of `tool_calls`."""
    calls = enumerate(fields.several("tool_calls"))
    return [Fields(fields.where, call, f"tool_calls[{index}]") for index, call in calls]


def _legacy_call(fields: Fields) -> list[Fields]:
    """Return the deprecated `function_call` in a list, or an empty list."""
    call = fields.value.get("function_call")
    return [] if call is None else [Fields(fields.where, call, "function_call")]


def _named_arguments(call: Fields) -> tuple[str, str]:
    """Return the name and the arguments of a call, or the name and the input of a custom call."""
    if "function" not in call.value and isinstance(call.value.get("custom"), dict):
        custom = call.inner("custom")
        return custom.text("name"), custom.text("input")
    if "function" not in call.value:
        raise call.error("function", "missing", "an object")
    function = Fields(call.where, call.value["function"], f"{call.path}.function")
    return function.text("name"), function.text("arguments")


class _Unanswered:
    """Calls that wait for their output, by a key; calls of the latest message come first, in their order there."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str], list[tuple[int, str]]] = {}

    def ask(self, key: tuple[str, str], index: int, answer: str) -> None:
        """Store `answer`, the data that the output under `key` needs from its call in the message at `index`."""
        self._waiting.setdefault(key, []).append((index, answer))

    def take(self, key: tuple[str, str], default: str) -> str:
        """Remove and return the data stored for the call that this output answers."""
        waiting = self._waiting.get(key)
        if not waiting:
            return default
        first = bisect_left(waiting, waiting[-1][0], key=lambda entry: entry[0])
        return waiting.pop(first)[1]


class _Shaper:
    """Reads the messages of one context, in order."""

    def __init__(self, new_id: Callable[[str, int, int], str], created_at: float) -> None:
        self._id = new_id
        self._created_at = created_at
        self._unanswered = _Unanswered()

    def items_of(self, index: int, message: Any, where: str) -> list[ChatItemEvent]:
        """Return the items of the message at `index`; `where` names it in errors."""
        fields = Fields(where, message)
        role = role_in(fields)
        drafts = self._spoken(index, role, fields) if role in MESSAGE_ROLES else [self._returned(index, role, fields)]
        items = _with_origins(drafts, fields.where)
        if is_same(message_of(items), message):
            return items
        whole = {"whole": message, "items": len(items)}
        return _with_origins([(items[0], whole), *((item, {}) for item in items[1:])], fields.where)

    # Messages other than outputs

    def _spoken(self, index: int, role: str, fields: Fields) -> list[Draft]:
        content = _content(fields)
        calls = _calls(fields) if role == "assistant" else []
        legacy = _legacy_call(fields) if role == "assistant" else []
        # The calls become items of their own; an empty list or a null stays with the message.
        apart = {"tool_calls"} if calls else set()
        apart |= {"function_call"} if legacy else set()
        wanted = {key: value for key, value in fields.value.items() if key not in apart}
        drafts: list[Draft] = []
        if content or not apart:
            drafts.append(self._message(index, role, content, wanted))
        for call in calls:
            drafts.append(self._call(index, len(drafts), call))
        for call in legacy:
            drafts.append(self._legacy_call(index, len(drafts), call))
        if isinstance(drafts[0][0], FunctionCalled):
            patch = difference(plain_message(drafts[0][0], {}), wanted)
            drafts[0][1].update({"message": patch} if patch else {})
        return drafts

    def _message(self, index: int, role: str, content: str | list[Any] | None, wanted: OpenAIMessage) -> Draft:
        rest: Rest = {}
        kept: str | tuple[str | Image, ...] = content if isinstance(content, str) else ""
        if not kept and role == "assistant":
            kept = refusal_in(wanted)
        if isinstance(content, list):
            inline = [self._inline(index, number, part) for number, part in enumerate(content)]
            foreign = [[n, part] for n, part in enumerate(content) if inline[n] is None]
            kept = tuple(part for part in inline if part is not None)
            rest = {"parts": foreign} if foreign else {}
        item_id = self._id("msg_", index, 0)
        added = MessageAdded(id=item_id, created_at=self._created_at, role=role, content=kept, origin=Origin())
        patch = difference(plain_message(added, rest), wanted)
        return added, {**rest, "message": patch} if patch else rest

    def _inline(self, index: int, number: int, part: dict[str, Any]) -> str | Image | None:
        if part.get("type") == "text":
            return str(part["text"])
        if part.get("type") == "refusal":
            return refusal_in(part) or None
        image = part.get("image_url") if part.get("type") == "image_url" else None
        if not isinstance(image, dict) or not isinstance(url := image.get("url"), str) or has_no_data(url):
            return None
        detail = image.get("detail")
        return Image(
            id=self._id("img_", index, number),
            image=url,
            inference_detail=detail if detail in DETAILS else "auto",
        )

    def _call(self, index: int, part: int, call: Fields) -> Draft:
        call_id = call.text("id")
        name, arguments = _named_arguments(call)
        self._unanswered.ask(("id", call_id), index, name)
        called = FunctionCalled(
            id=self._id("call_", index, part),
            created_at=self._created_at,
            name=name,
            arguments=arguments,
            call_id=call_id,
        )
        patch = difference(plain_call(called), call.value)
        return called, {"call": patch} if patch else {}

    def _legacy_call(self, index: int, part: int, call: Fields) -> Draft:
        """A deprecated call has no id, so the id of its item is used."""
        name, arguments = call.text("name"), call.text("arguments")
        item_id = self._id("call_", index, part)
        self._unanswered.ask(("name", name), index, item_id)
        called = FunctionCalled(
            id=item_id, created_at=self._created_at, name=name, arguments=arguments, call_id=item_id
        )
        patch = difference(plain_call(called)["function"], call.value)
        return called, {"legacy": True, **({"call": {"in": {"function": patch}}} if patch else {})}

    # Outputs of functions

    def _returned(self, index: int, role: str, fields: Fields) -> Draft:
        item_id = self._id("output_", index, 0)
        content = _content(fields)
        output, rest = joined_output(content, ("text",)) if isinstance(content, list) else (content or "", {})
        if role == "tool":
            call_id = fields.text("tool_call_id")
            asked = self._unanswered.take(("id", call_id), "")
            is_named = isinstance(fields.value.get("name"), str)
            name = str(fields.value["name"]) if is_named else asked
            rest = {**rest, "named": True} if is_named else rest
        else:
            name = fields.text("name")
            call_id = self._unanswered.take(("name", name), item_id)
        returned = FunctionReturned(id=item_id, created_at=self._created_at, name=name, output=output, call_id=call_id)
        patch = difference(plain_message(returned, rest), fields.value)
        return returned, {**rest, "message": patch} if patch else rest


def _with_origins(drafts: Sequence[Draft], where: str) -> list[ChatItemEvent]:
    return [
        msgspec.structs.replace(
            item, origin=Origin(starts=part == 0, rest=json_in_order(rest, what=where) if rest else b"")
        )
        for part, (item, rest) in enumerate(drafts)
    ]
