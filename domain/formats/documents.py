"""
Conversations in the documents of other programs: GenAI messages of OpenTelemetry, Gemini contents, and ShareGPT.

A form recognises a document, finds the messages in it, and reads and writes each of them. It remembers the messages
before, so each conversation needs a form of its own.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from ..chat.events import ABOUT_CONVERSATION, ChatItemEvent, FunctionCalled, FunctionReturned, MessageAdded
from ..clock import REAL_SYSTEM
from ..errors import InvalidInputError
from .google.receive import GoogleReader
from .google.send import SIGNATURE, is_file, parts_beside, parts_of_message, signature_of_call
from .openai.source_shape import grouped
from .parts import Call, Part, Picture, Result, parts_of, picture_at, picture_of, plain_arguments, read_parts, role_of
from .receive import Fields, Receiver
from .send import arguments_of

Message = dict[str, Any]
SENT, ANSWERED = "gen_ai.input.messages", "gen_ai.output.messages"
INSTRUCTIONS, CONVERSATION = "gen_ai.system_instructions", "gen_ai.conversation.id"
OTEL_ROLES = {
    "system": "system", "developer": "developer", "user": "user", "assistant": "assistant", "tool": "user",
}  # fmt: skip
SPEAKERS = {
    "human": "user", "user": "user", "gpt": "assistant", "assistant": "assistant", "system": "system",
    "function_call": "assistant", "observation": "user", "tool": "user",
}  # fmt: skip
SPEAKER_OF = {"user": "human", "assistant": "gpt", "system": "system", "developer": "system"}
CALLING, ANSWERING = "function_call", ("observation", "tool")


class Documents(Protocol):
    """Documents of a form, each with the messages of one conversation."""

    @property
    def name(self) -> str:
        """The name of the form."""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields of a document that become messages, the field with the list first."""

    def beside(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return what stays beside the messages of a document."""
        return {name: value for name, value in document.items() if name not in self.fields}

    def is_document(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value is a document of this form."""

    def is_message(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value is a message of this form, and of no other."""

    def messages_in(self, document: Mapping[str, Any]) -> list[Message]:
        """
        Return the messages of a document.

        Raises:
            InvalidInputError: it is none of this form.
        """

    def document(self, messages: Sequence[Message], context_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the document with these messages; `attributes` are what lay beside them at its import."""


class DocumentForm(Documents, Protocol):
    """A form of documents, and of their messages."""

    def read(self, message: Message, into: Receiver) -> None:
        """Add the items of a message."""

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the message that consists of these items."""

    def grouped(self, items: Sequence[ChatItemEvent]) -> list[list[int]]:
        """Return the indexes of the items of each message that others recorded."""


class OtelForm(DocumentForm):
    """A message of the GenAI conventions: a role, and parts with types."""

    name = "otel"
    fields = (SENT, ANSWERED, INSTRUCTIONS)

    def is_document(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value has the attributes of a span."""
        return SENT in entry or ANSWERED in entry

    def is_message(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value has a role, and parts with types."""
        parts = entry.get("parts")
        typed = isinstance(parts, list) and all(isinstance(part, dict) and "type" in part for part in parts)
        return typed and bool(parts) and entry.get("role") in [*OTEL_ROLES]

    def messages_in(self, document: Mapping[str, Any]) -> list[Message]:
        """Return the instructions, the messages that were sent, and those that came back; attributes may be texts."""
        said, sent, answered = (_decoded(document, name) for name in (INSTRUCTIONS, SENT, ANSWERED))
        return [*([{"role": "system", "parts": said}] if said else []), *sent, *answered]

    def read(self, message: Message, into: Receiver) -> None:
        fields = Fields("a message", message)
        role, parts = message.get("role"), message.get("parts")
        if not isinstance(role, str) or role not in OTEL_ROLES or not isinstance(parts, list):
            raise fields.unexpected_value("role", role, f"one of {', '.join(OTEL_ROLES)}, and parts as a list")
        read_parts(OTEL_ROLES[role], (_otel_part(Fields("a part", part)) for part in parts), into, "a message")

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        return {"role": role_of(items), "parts": [_as_otel(part) for part in parts_of(items)]}

    grouped = staticmethod(grouped)

    def document(self, messages: Sequence[Message], context_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the attributes of a span."""
        return {CONVERSATION: context_id, **attributes, SENT: list(messages)}


class ShareGptForm(DocumentForm):
    """
    A turn of ShareGPT: who said it, and a text. It has no ids of calls: an output answers the oldest open call.

    An output without an open call becomes a user's text, since no provider accepts an output that answers no call. This
    happens where calls are written into the text of an answer.
    """

    name = "sharegpt"
    fields = ("conversations", "system")

    def __init__(self) -> None:
        self._open: deque[tuple[str, str]] = deque()
        self._calls = 0
        self._is_calling = False

    def is_document(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value has turns."""
        turns = entry.get(self.fields[0])
        return isinstance(turns, list) and any(isinstance(turn, dict) and "from" in turn for turn in turns)

    def is_message(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value says who said what."""
        return "from" in entry and "value" in entry

    def messages_in(self, document: Mapping[str, Any]) -> list[Message]:
        """Return the turns, behind the system text if there is one."""
        fields = Fields("a document", document)
        front = [{"from": "system", "value": fields.text("system")}] if document.get("system") else []
        return [*front, *fields.several(self.fields[0])]

    def read(self, message: Message, into: Receiver) -> None:
        fields = Fields("a turn", message)
        who, text = fields.text("from"), fields.text("value")
        calls = _sharegpt_calls(text) if who == CALLING else []
        if who not in ANSWERING and not (calls and self._is_calling):
            # Calls that were not answered before wait no longer.
            self._open.clear()
        self._is_calling = bool(calls)
        if calls:
            named = [Call(*call, f"call_{number}") for number, call in enumerate(calls, self._calls + 1)]
            self._calls += len(calls)
            self._open += [(str(call.call_id), call.name) for call in named]
            read_parts("assistant", named, into, "a turn")
        elif who in ANSWERING and self._open:
            call_id, name = self._open.popleft()
            read_parts("user", [Result(name, text, call_id)], into, "a turn")
        elif who in SPEAKERS:
            read_parts(SPEAKERS[who], [text], into, "a turn")
        else:
            raise fields.unexpected_value("from", who, "one of " + ", ".join(SPEAKERS))

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        first = items[0]
        if isinstance(first, FunctionCalled):
            calls = (item for item in items if isinstance(item, FunctionCalled))
            called = [{"name": call.name, "arguments": plain_arguments(call.arguments)} for call in calls]
            return {"from": CALLING, "value": json.dumps(called if called[1:] else called[0], ensure_ascii=False)}
        if isinstance(first, FunctionReturned):
            return {"from": ANSWERING[0], "value": first.output}
        texts = [part if isinstance(part, str) else "[An image is left out]" for part in parts_of(items)]
        return {"from": SPEAKER_OF[role_of(items)], "value": "\n".join(texts)}

    def grouped(self, items: Sequence[ChatItemEvent]) -> list[list[int]]:
        """Return each item by itself."""
        return [[index] for index, item in enumerate(items) if not isinstance(item, ABOUT_CONVERSATION)]

    def document(self, messages: Sequence[Message], context_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return a conversation."""
        return {"id": context_id, **attributes, self.fields[0]: list(messages)}


class GeminiForm(DocumentForm):
    """A content: a role, and parts that are known by their fields."""

    name = "gemini"
    fields = ("contents", "system_instruction", "systemInstruction")

    def __init__(self) -> None:
        self._reader = GoogleReader(Receiver(REAL_SYSTEM))

    def is_document(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value has contents."""
        return isinstance(entry.get(self.fields[0]), list)

    def is_message(self, entry: Mapping[str, Any]) -> bool:
        """Return whether a value has parts, and none with a type."""
        parts = entry.get("parts")
        return isinstance(parts, list) and not any(isinstance(part, dict) and "type" in part for part in parts)

    def messages_in(self, document: Mapping[str, Any]) -> list[Message]:
        """Return the contents, behind the system instruction if there is one."""
        _, given = self._instruction(document)
        if given is not None and not isinstance(given, str | dict):
            raise Fields("a document", document).unexpected("system_instruction", given, "text or a content")
        system = {"parts": [{"text": given}]} if isinstance(given, str) else given
        return [*([{**system, "role": "system"}] if system else []), *document[self.fields[0]]]

    def beside(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Return the other fields, and an instruction's fields besides its parts (an empty text if it was a text)."""
        others, (name, given) = super().beside(document), self._instruction(document)
        if given is None:
            return others
        left = {field: value for field, value in given.items() if field != "parts"} if isinstance(given, dict) else ""
        return others if (name, left) == (self.fields[1], {}) else {**others, name: left}

    def _instruction(self, document: Mapping[str, Any]) -> tuple[str, Any]:
        names = self.fields[1:]
        return next(((name, document[name]) for name in names if document.get(name) is not None), (names[0], None))

    def read(self, message: Message, into: Receiver) -> None:
        self._reader.receiver = into
        self._reader.read(Fields("a content", message).value, "a content")

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        role = role_of(items)
        parts = [part for item in items for part in _gemini_parts(item)]
        return {"role": {"assistant": "model", "tool": "user"}.get(role, role), "parts": parts}

    def grouped(self, items: Sequence[ChatItemEvent]) -> list[list[int]]:
        """Return the messages of items; outputs that follow each other are one content."""
        groups: list[list[int]] = []
        for group in grouped(items):
            both = groups and all(isinstance(items[one[0]], FunctionReturned) for one in (groups[-1], group))
            if both:
                groups[-1] += group
            else:
                groups.append(group)
        return groups

    def document(self, messages: Sequence[Message], context_id: str, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Return the contents of a request; instructions further on are a user's."""
        has_system = bool(messages) and messages[0].get("role") == "system"
        name, left = self._instruction(attributes)
        others = {field: value for field, value in attributes.items() if field != name}
        if has_system:
            parts = messages[0].get("parts", [])
            is_text = left == "" and len(parts) == 1 and parts[0].keys() == {"text"}
            others[name] = parts[0]["text"] if is_text else {**(left or {}), "parts": parts}
        contents = [{**one, "role": "user"} if one.get("role") == "system" else one for one in messages[has_system:]]
        return {"id": context_id, **others, self.fields[0]: contents}


def _decoded(document: Mapping[str, Any], name: str) -> list[Any]:
    value = document.get(name)
    try:
        found = json.loads(value) if isinstance(value, str) and value else value
    except (ValueError, RecursionError) as error:
        raise InvalidInputError(f"{name} is a text that is no JSON: {error}") from error
    return Fields("a span", {name: found or None}).several(name)


def _otel_part(part: Fields) -> Part:
    kind, given = part.value.get("type"), part.value
    if kind == "text":
        return part.text("content")
    if kind == "tool_call":
        return Call(part.text("name"), given.get("arguments") or "", given.get("id"))
    if kind == "tool_call_response":
        return Result("", given.get("response", given.get("result", "")), given.get("id"))
    if given.get("modality") != "image":
        return None
    return picture_at(given.get("uri")) or picture_of(given.get("content"), given.get("mime_type"))


def _as_otel(part: str | Picture | Call | Result) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "content": part}
    if isinstance(part, Call):
        arguments = plain_arguments(part.arguments)
        return {"type": "tool_call", "id": part.call_id, "name": part.name, "arguments": arguments}
    if isinstance(part, Result):
        return {"type": "tool_call_response", "id": part.call_id, "response": part.output}
    media = {"modality": "image", "mime_type": part.media_type}
    return (
        {"type": "uri", **media, "uri": part.url}
        if part.data is None
        else {"type": "blob", **media, "content": part.data}
    )


def _sharegpt_calls(text: str) -> list[tuple[str, Any]]:
    """Return the names and arguments of the calls in a text, which has one or a list; none if it has anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    listed = found if isinstance(found, list) else [found]
    return [(one["name"], one.get("arguments") or {}) for one in listed] if all(map(_is_call, listed)) else []


def _is_call(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("name"), str) and value.keys() <= {"name", "arguments"}


def _gemini_parts(item: ChatItemEvent) -> list[dict[str, Any]]:
    if isinstance(item, FunctionCalled):
        called = {"id": item.call_id, "name": item.name, "args": arguments_of(item.arguments)}
        signature = signature_of_call(item)
        return [{"function_call": called, **({SIGNATURE: signature} if signature else {})}]
    if isinstance(item, FunctionReturned):
        said = {"error" if item.is_error else "output": item.output}
        return [{"function_response": {"id": item.call_id, "name": item.name, "response": said}}]
    assert isinstance(item, MessageAdded), "the groups of a conversation hold nothing else"
    return [*(part for part in parts_beside(item) if not is_file(part)), *parts_of_message(item)]
