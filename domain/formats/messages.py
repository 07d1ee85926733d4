"""
Messages of any provider: the form of each message, and the items that are made from all of them.

A message is plain data or an object of a client: a message of OpenAI's chat completions, an item of its Responses API,
an Anthropic message, a Google content, a message of LangChain, or an item of Refold. A list may hold several forms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, groupby, takewhile
from typing import Any, Literal, NamedTuple

import msgspec

from ..canonical import require_json
from ..chat.events import ChatItemEvent, FunctionCalled, FunctionReturned
from ..chat.item_conversion import recorded_form
from ..chat.item_events import items_as_given
from ..chat.items import ChatItem, items_from_dict
from ..chat.pairing import is_of_model
from ..chat.state.sequence import Items
from ..chat.usage import is_usage, metrics_of, put_usage
from ..clock import System
from ..errors import InvalidInputError
from ..messages import Message, kind_of, message_of
from .anthropic.receive import items_from_anthropic
from .google.receive import items_from_google
from .openai.receive import items_from_openai_messages, refusal_in
from .receive import as_plain_data, as_text, at_field, field_of
from .receive import kind_of as json_kind_of
from .responses.receive import items_from_openai_responses

Dialect = Literal["openai", "responses", "anthropic", "google", "refold"]
OPENAI_ROLES = ("developer", "tool", "function")
OPENAI_FIELDS = {"tool_calls", "tool_call_id", "function_call"}
OPENAI_PARTS = ("image_url", "input_audio", "refusal", "file")
RESPONSES_PARTS = ("input_text", "output_text", "input_image", "input_file")
ANTHROPIC_BLOCKS = ("tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use")
# Blocks of these types are Anthropic's if they have a "source".
SOURCED_BLOCKS = ("image", "document")
# The dialects that a message with a role and a text can belong to.
NEUTRAL: tuple[Dialect, ...] = ("openai", "responses", "anthropic")
LANGCHAIN_TYPES = ("human", "ai", "system", "tool", "HumanMessage", "AIMessage", "SystemMessage", "ToolMessage")
# The fields of a request, each with those for the system text; and of an answer, each with that of its message.
REQUESTS = {
    "messages": ("system",), "contents": ("system_instruction", "systemInstruction"), "input": ("instructions",),
}  # fmt: skip
ANSWERS = {"choices": "message", "candidates": "content"}


def dialect_of(message: Mapping[str, Any]) -> Dialect | None:
    """Return the dialect of a message; None if it can belong to several, as a role with a text can."""
    content, kind = message.get("content"), message.get("type")
    parts = [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    kinds = [part.get("type") for part in parts]
    if any(kind in RESPONSES_PARTS for kind in kinds):
        return "responses"
    has_fields = message.get("role") in OPENAI_ROLES or OPENAI_FIELDS & message.keys()
    if has_fields or any(kind in OPENAI_PARTS for kind in kinds):
        return "openai"
    if any(kind in ANTHROPIC_BLOCKS for kind in kinds) or any(map(_has_source, parts)):
        return "anthropic"
    if "content" not in message and isinstance(message.get("parts"), list):
        return "google"
    if kind == "message":
        # Anthropic's answers have this type, too.
        return "anthropic" if parts else "responses"
    return "responses" if isinstance(kind, str) and "role" not in message else None


def _has_source(part: Mapping[str, Any]) -> bool:
    return part.get("type") in SOURCED_BLOCKS and isinstance(part.get("source"), dict)


class GivenMessages(NamedTuple):
    """Messages as a caller gave them, as plain data or items; their places in the argument, and the system text."""

    messages: list[Any]
    places: list[str]
    # For each message what the answer used that begins with it: see `metrics_of`.
    used: list[dict[str, Any] | None]
    system: Any = None

    def as_called(self) -> list[Any]:
        """Return the messages for the fingerprint of a call: without ids and times that were generated."""
        said = [
            items_as_given([one], [recorded_form(one)])[0] if isinstance(one, ChatItem) else one
            for one in self.messages
        ]
        return [*said, self.system]


def messages_given(messages: Any, system: Any) -> GivenMessages:
    """
    Return the messages of an argument: a list, one message, a request or an answer with its messages in a field.

    The pair that a conversion returns, of messages and a system text, is taken, too.

    Raises:
        InvalidInputError: it is none of these; the error names the place.
    """
    if isinstance(messages, tuple) and len(messages) == 2 and isinstance(messages[0], list):
        messages, beside = messages
        system = beside if system is None else system
    if _is_one(messages):
        whole = {} if isinstance(messages, ChatItem) else as_plain_data(messages)
        field = next((name for name in REQUESTS if name in whole and not {"role", "type"} & whole.keys()), None)
        if field is None:
            messages = [messages]
        else:
            given = (whole[name] for name in REQUESTS[field] if whole.get(name) is not None)
            system = next(given, None) if system is None else system
            messages = whole[field]
            messages = [{"role": "user", "content": messages}] if isinstance(messages, str) else messages
    if isinstance(messages, str | bytes) or not isinstance(messages, Iterable):
        raise InvalidInputError(f"messages: found {json_kind_of(messages)}, expected a list of messages")
    found = [one for index, message in enumerate(messages) for one in _spread(message, f"messages[{index}]")]
    places, used = [place for place, _, _ in found], [used for _, _, used in found]
    return GivenMessages([message for _, message, _ in found], places, used, as_plain_data(system))


def _used(answer: Any) -> dict[str, Any] | None:
    """Return the usage and the model that an answer names, under the names of its provider."""
    if not isinstance(answer, dict):
        return None
    if answer.get("type") in LANGCHAIN_TYPES and isinstance(answer.get("data"), dict):
        answer = answer["data"]
    usage = answer.get("usage") or answer.get("usage_metadata") or answer.get("usageMetadata")
    response = answer.get("response_metadata")
    model = answer.get("model") or answer.get("model_version") or answer.get("modelVersion")
    model = model or (response.get("model_name") if isinstance(response, dict) else None)
    if not isinstance(usage, dict):
        return None
    # A usage with unknown fields only is stored, and counts nothing.
    return metrics_of(usage=usage, model=model) if is_usage(usage) else metrics_of({"usage": usage}, model=model)


def _is_one(given: Any) -> bool:
    # Objects of pydantic can be iterated, but over their fields.
    return isinstance(given, Mapping) or any(hasattr(given, name) for name in ("model_dump", "to_dict", "content"))


def _spread(message: Any, where: str) -> Iterator[tuple[str, Any, dict[str, Any] | None]]:
    """Yield the messages of an entry with their places; an answer has its usage beside the first of its messages."""
    if isinstance(message, ChatItem):
        yield where, message, None
        return
    try:
        plain = as_plain_data(message)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInputError(f"{where} cannot be stored as JSON: {error}") from error
    used = _used(plain)
    for place, one in _messages_in(message, plain, where):
        yield place, one, used
        used = None


def _messages_in(message: Any, plain: Any, where: str) -> Iterator[tuple[str, Any]]:
    """Yield the messages of an entry with their places: an answer holds one or more, any other entry is one."""
    is_of_langchain = not isinstance(message, Mapping) and any(
        base.__name__ in LANGCHAIN_TYPES for base in type(message).__mro__
    )
    if is_of_langchain or (isinstance(plain, dict) and "role" not in plain and plain.get("type") in LANGCHAIN_TYPES):
        inner = plain.get("data") if isinstance(plain, dict) else None
        said = {**inner, "type": plain["type"]} if isinstance(inner, dict) else plain
        yield where, _of_langchain(message_of(message if is_of_langchain else said), where)
        return
    if isinstance(plain, dict) and not {"role", "type"} & plain.keys():
        for field, inner_field in ANSWERS.items():
            if field in plain:
                choices = field_of(plain, field, list, where)
                there = f"{at_field(where, field)}[0]"
                if len(choices) != 1 or not isinstance(choices[0], dict):
                    fault = f"found {len(choices)}, expected one: give the message of the one that you take"
                    raise InvalidInputError(f"{at_field(where, field)}: {fault}")
                yield at_field(there, inner_field), field_of(choices[0], inner_field, dict, there)
                return
        if isinstance(plain.get("output"), list):
            yield from ((f"{where}.output[{number}]", one) for number, one in enumerate(plain["output"]))
            return
        if isinstance(plain.get("items"), list):
            yield from ((f"{where}.items[{number}]", one) for number, one in enumerate(items_from_dict(plain)))
            return
    yield where, plain


def _of_langchain(message: Message, where: str) -> dict[str, Any]:
    """Return a message of LangChain in the form of the provider that knows its content."""
    kind = kind_of(message)
    content = as_plain_data(message.content)
    if kind == "tool":
        call_id = getattr(message, "tool_call_id", "")
        if getattr(message, "status", "") != "error":
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        # Only Anthropic's form says that a tool failed.
        block = {"type": "tool_result", "tool_use_id": call_id, "content": content, "is_error": True}
        return {"role": "user", "content": [block]}
    refusal = refusal_in(message.additional_kwargs)
    said = {"role": kind, "content": content} | ({"refusal": refusal} if refusal and not content else {})
    calls = [*getattr(message, "tool_calls", ()), *getattr(message, "invalid_tool_calls", ())]
    if not calls or dialect_of(said) == "anthropic":
        # With Anthropic's blocks, the calls are among them.
        return said
    return {**said, "tool_calls": [_call_of_langchain(call, where, number) for number, call in enumerate(calls)]}


def _call_of_langchain(call: Mapping[str, Any], where: str, number: int) -> dict[str, Any]:
    said = call.get("function") or call
    there = f"{at_field(where, 'tool_calls')}[{number}]"
    arguments = as_text(as_plain_data(said.get("args", said.get("arguments"))), at_field(there, "args"))
    return {
        "id": call.get("id") or "",
        "type": "function",
        "function": {"name": said.get("name"), "arguments": arguments},
    }


def items_of(given: GivenMessages, held: Items, *, system_clock: System) -> list[ChatItemEvent]:
    """
    Return the items of messages; `held` are the items before them, whose calls give outputs their names.

    Raises:
        InvalidInputError: an entry is no message; the error names its place and field.
    """
    items: list[ChatItemEvent] = []
    system, dialects = given.system, _dialects(given) or ["openai"]
    # Messages of one dialect are read together, since an output may need its call; an answer with a usage begins anew,
    # so that its first item is known.
    answers = accumulate(used is not None for used in given.used or [None])
    first = 0
    for (dialect, _), run in groupby(zip(dialects, answers, strict=True)):
        last = first + len(list(run))
        messages, places = given.messages[first:last], given.places[first:last]
        read = READERS[dialect](messages, system, system_clock=system_clock, places=places)
        if used := next(iter(given.used[first:last]), None):
            answer = _answer_in(read)
            part = read[answer]
            put_usage(part, used, what="the usage")
            read[answer] = part
        items += read
        first, system = last, None
    return named_outputs(items, held)


def _answer_in(items: Sequence[ChatItemEvent]) -> slice:
    """Return the place of the first answer in the items of messages: what the model said, and its calls."""
    first = next((index for index, item in enumerate(items) if is_of_model(item)), len(items))
    return slice(first, first + 1 + sum(1 for _ in takewhile(_goes_on, items[first + 1 :])))


def _goes_on(item: ChatItemEvent) -> bool:
    """Return whether an item is a call that belongs to the answer in front of it."""
    return isinstance(item, FunctionCalled) and not (item.origin is not None and item.origin.starts)


def _items_recorded(
    items: Iterable[ChatItem], system: Any, *, system_clock: System, places: Sequence[str]
) -> list[ChatItemEvent]:
    front = items_from_openai_messages([], system, system_clock=system_clock)
    return front + [recorded_form(item) for item in items]


READERS: dict[Dialect, Callable[..., list[ChatItemEvent]]] = {
    "openai": items_from_openai_messages,
    "responses": items_from_openai_responses,
    "anthropic": items_from_anthropic,
    "google": items_from_google,
    "refold": _items_recorded,
}


def _dialects(given: GivenMessages) -> list[Dialect]:
    """Return the dialect of each message; a message that fits several has that of the message before, or after, it."""
    found: list[Dialect | None] = []
    for message, where in zip(given.messages, given.places, strict=True):
        if isinstance(message, ChatItem):
            found.append("refold")
            continue
        if not isinstance(message, dict):
            raise InvalidInputError(f"{where}: found {json_kind_of(message)}, expected a message")
        require_json(message, what=where)
        found.append(dialect_of(message))
    near: Dialect = next((one for one in found if one in NEUTRAL), "openai")
    dialects: list[Dialect] = []
    for one in found:
        near = one if one in NEUTRAL else near
        dialects.append(one or near)
    return dialects


def named_outputs(items: Sequence[ChatItemEvent], held: Items) -> list[ChatItemEvent]:
    """Return the items, with the name of its call for each output whose message did not name it."""
    names: dict[str, str] = {}
    named = []
    for item in items:
        if isinstance(item, FunctionCalled):
            names[item.call_id] = item.name
        elif isinstance(item, FunctionReturned) and not item.name:
            item = msgspec.structs.replace(item, name=names.get(item.call_id) or _called_before(item.call_id, held))
        named.append(item)
    return named


def _called_before(call_id: str, held: Items) -> str:
    found = (held.item_table.items[ordinal] for ordinal in reversed(held.item_table.with_call_id(call_id, held.reach)))
    return next((item.name for item in found if isinstance(item, FunctionCalled)), "")
