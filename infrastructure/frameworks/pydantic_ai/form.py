"""The messages of Pydantic AI as items: each part of a request or of a response is an item."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from pydantic import ValidationError
from pydantic_ai.messages import ModelMessage, ModelMessagesTypeAdapter

from ....domain.arguments import is_data_url
from ....domain.chat.context import ChatContext
from ....domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded, Origin
from ....domain.chat.usage import put_usage
from ....domain.chat.view import ChatView
from ....domain.errors import InvalidInputError
from ....domain.formats.parts import seconds_in, time_text
from ....domain.formats.receive import Fields, Receiver, as_text
from ....domain.formats.send import inline_of
from ..conversation import Conversation, Message, kept_as_json
from ..open_chats import acting_as

NAME = "pydantic_ai"
DATA_URL, BASE64 = "data:", ";base64,"
IMAGE_URLS = ("http://", "https://")
# Pydantic writes bytes in the URL-safe alphabet, data URLs have the standard one.
TO_STANDARD, TO_URL_SAFE = str.maketrans("-_", "+/"), str.maketrans("+/", "-_")
# The fields that most messages have with these values, so that they are not kept with each of them.
REQUEST = {"instructions": None, "run_id": None, "conversation_id": None, "metadata": None, "state": "complete"}
RESPONSE = {
    "model_id": None, "provider_url": None, "canonical_system": None, "provider_details": None, "metadata": None,
    "workspace_ref": None, "history_digest": None, "failed_attempts": None, "state": "complete",
}  # fmt: skip
PROVIDER = {"id": None, "provider_name": None, "provider_details": None}
ROLE_OF_PART = {"system-prompt": "system", "user-prompt": "user", "text": "assistant"}


class PydanticForm:
    """The JSON of Pydantic AI's own adapter of messages, with the id of the message."""

    name = NAME

    def read(self, message: Message, into: Receiver) -> None:
        """Add an item for each part, and an empty one for a message without parts."""
        fields = Fields(f"message {message.get('id', '')}".strip(), message)
        parts = message.get("parts")
        if message.get("kind") not in ("request", "response") or not isinstance(parts, list):
            raise fields.unexpected_value("kind", message.get("kind"), "a request or a response with its parts")
        role = "user" if message["kind"] == "request" else "assistant"
        for part in parts:
            _read_part(part, role, message, into, fields.where)
        if not parts:
            _say_apart(role, "", into, fields.where)
        _count(message, into)

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the request or the response that these items are."""
        first = items[0]
        parts = [_part_of(item) for item in items]
        if isinstance(first, FunctionReturned) or (isinstance(first, MessageAdded) and first.role != "assistant"):
            return {"id": first.id, "kind": "request", "parts": parts, **REQUEST}
        return {"id": first.id, "kind": "response", "parts": parts, "timestamp": time_text(first), **RESPONSE}


CONVERSATION = Conversation(PydanticForm())


def as_json(messages: Iterable[ModelMessage]) -> list[Message]:
    """Return messages as JSON objects."""
    with kept_as_json("the messages"):
        plain: list[Message] = ModelMessagesTypeAdapter.dump_python(list(messages), mode="json")
    return plain


def without_id(message: Message) -> bytes:
    """Return the JSON of a message as Pydantic AI has it: without an id."""
    return msgspec.json.encode({name: value for name, value in message.items() if name != "id"})


def from_json(messages: Iterable[bytes]) -> list[ModelMessage]:
    """
    Return the messages that have this JSON.

    Raises:
        InvalidInputError: Pydantic AI, as it is installed, does not know one of them.
    """
    try:
        found: list[ModelMessage] = ModelMessagesTypeAdapter.validate_json(b"[" + b",".join(messages) + b"]")
    except ValidationError as error:
        raise InvalidInputError(f"the installed Pydantic AI cannot read a message of the chat: {error}") from error
    return found


def messages_of(chat: ChatView[Any]) -> list[ModelMessage]:
    """
    Return the messages in the view of a chat, for `message_history=` of a run; others may have recorded them.

    Raises:
        InvalidInputError: the installed Pydantic AI does not know one of them.
    """
    return from_json(without_id(message) for message in CONVERSATION.messages(chat))


def record(chat: ChatContext, messages: Iterable[ModelMessage], *, expected_version: int | None = None) -> None:
    """
    Put messages, such as `result.new_messages()`, at the end of a chat, all or none.

    The actor is the one that the caller names, else the agent of the chat, else `pydantic_ai`.

    Raises:
        InvalidInputError: a message holds a value that has no JSON.
        ConcurrencyError: the chat is not at `expected_version`.
    """
    with acting_as(chat._journal.place.actor or NAME):
        CONVERSATION.add(chat, as_json(messages), expected_version=expected_version)


# Reading parts


def _read_part(part: Any, role: str, message: Message, into: Receiver, where: str) -> None:
    fields = Fields(where, part)
    kind = part.get("part_kind")
    if kind in ROLE_OF_PART:
        content = part.get("content")
        said = content if isinstance(content, str) else _texts_and_images(content, into)
        into.say(ROLE_OF_PART[kind], said, {}, where)
    elif kind == "tool-call":
        into.call(fields.text("tool_name"), part.get("args") or "", fields.text("tool_call_id"), {}, where)
    elif kind == "tool-return" or (kind == "retry-prompt" and part.get("tool_name")):
        is_error = kind == "retry-prompt" or part.get("outcome", "success") != "success"
        output = as_text(part.get("content"), where)
        into.answer(fields.text("tool_name"), output, fields.text("tool_call_id"), is_error=is_error, where=where)
    elif kind in ("retry-prompt", "retry-feedback"):
        into.say(role, as_text(part.get("content"), where), {}, where)
    else:
        # Thinking, a tool that the provider ran, a file: only Pydantic AI can send it again.
        content = part.get("content")
        _say_apart(role, content if isinstance(content, str) else "", into, where)
    at = seconds_in(part.get("timestamp")) or seconds_in(message.get("timestamp"))
    if at is not None:
        into.items[-1] = msgspec.structs.replace(into.items[-1], created_at=at)


def _say_apart(role: str, text: str, into: Receiver, where: str) -> None:
    into.say(role, text, {}, where)
    into.items[-1] = msgspec.structs.replace(into.items[-1], origin=Origin(apart=True))


def _texts_and_images(content: Any, into: Receiver) -> list[str | Image]:
    """Return the texts and the images of a prompt; the message keeps its other parts beside them."""
    found: list[str | Image] = []
    for one in content if isinstance(content, list) else ():
        if isinstance(one, str):
            found.append(one)
        elif isinstance(one, dict) and (url := _image_url(one)) and (image := into.image(url)):
            found.append(image)
    return found


def _image_url(content: dict[str, Any]) -> str | None:
    url, data, media_type = (content.get(name) for name in ("url", "data", "media_type"))
    if content.get("kind") == "image-url" and isinstance(url, str):
        return url if url.startswith(IMAGE_URLS) else None
    if content.get("kind") == "binary" and isinstance(data, str) and str(media_type).startswith("image/"):
        return f"{DATA_URL}{media_type}{BASE64}{data.translate(TO_STANDARD)}"
    return None


def _count(message: Message, into: Receiver) -> None:
    """Keep the usage of a response with its first item that can have one, where Refold counts tokens."""
    if message["kind"] != "response" or not isinstance(usage := message.get("usage"), dict):
        return
    counted = {name: usage[name] for name in ("input_tokens", "output_tokens", "cost") if usage.get(name)}
    counted |= {"cached_tokens": usage["cache_read_tokens"]} if usage.get("cache_read_tokens") else {}
    if not counted:
        return
    put_usage(into.items, {**counted, "model": message.get("model_name")}, what="the usage of a response")


# Writing parts


def _part_of(item: ChatItemEvent) -> dict[str, Any]:
    if isinstance(item, FunctionCalled):
        call = {"tool_name": item.name, "args": item.arguments, "tool_call_id": item.call_id}
        return {"part_kind": "tool-call", **call, "tool_kind": None, **PROVIDER}
    if isinstance(item, FunctionReturned):
        answer = {"tool_name": item.name, "content": item.output, "tool_call_id": item.call_id}
        outcome = {"tool_kind": None, "metadata": None, "outcome": "failed" if item.is_error else "success"}
        return {"part_kind": "tool-return", **answer, **outcome, "timestamp": time_text(item)}
    assert isinstance(item, MessageAdded), "the groups of a conversation hold nothing else"
    content = item.content if isinstance(item.content, str) else [_content_of(part) for part in item.content]
    if item.role in ("system", "developer"):
        return {"part_kind": "system-prompt", "content": _text_of(item), "timestamp": time_text(item)}
    if item.role != "assistant":
        return {"part_kind": "user-prompt", "content": content, "timestamp": time_text(item)}
    kind = "thinking" if item.origin is not None and item.origin.apart else "text"
    return {"part_kind": kind, "content": _text_of(item), **PROVIDER}


def _text_of(item: MessageAdded) -> str:
    return "".join(part for part in item.parts if isinstance(part, str))


def _content_of(part: str | Image) -> Any:
    if isinstance(part, str):
        return part
    head, found, data = part.image.partition(BASE64)
    media_type = head.removeprefix(DATA_URL)
    if not found or media_type == head:
        # A data URL in capitals, or with parameters behind `base64`; that of this form keeps the letters of its type.
        inline = inline_of(part.image) if is_data_url(part.image) else None
        if inline is None:
            return {"kind": "image-url", "url": part.image}
        media_type, data = inline
    return {"kind": "binary", "data": data.translate(TO_URL_SAFE), "media_type": media_type, "vendor_metadata": None}
