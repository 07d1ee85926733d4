"""The form of LangChain's messages: the items of a chat that a plain message becomes, and the message of items."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from ....domain.chat.events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded, Origin
from ....domain.chat.usage import metrics_of, put_usage
from ....domain.errors import InvalidInputError
from ....domain.formats.openai.receive import refusal_in
from ....domain.formats.parts import Picture, picture_at, picture_of
from ....domain.formats.receive import Receiver, as_text
from ..conversation import Message

ROLES = {"human": "user", "ai": "assistant", "system": "system"}
TYPES = {"user": "human", "assistant": "ai", "system": "system", "developer": "system"}
# The fields that items are read from; and which of `response_metadata` name the model.
READ = (
    *("type", "content", "id", "name", "role", "status", "tool_call_id", "tool_calls", "usage_metadata"),
    "additional_kwargs",
)
MODEL = ("model_name", "model")


class LangChainForm:
    """The form of LangChain's messages: their fields, without those that have their default."""

    name = "langgraph"

    def read(self, message: Message, into: Receiver) -> None:
        """Add a message, and its calls; or an output."""
        kind = str(message.get("type"))
        base = kind.removesuffix("MessageChunk").lower()
        content, where = message.get("content", ""), f"a message of type {kind!r}"
        # Beside chat completions of OpenAI, whose refusals are no part of the content.
        beside = message.get("additional_kwargs")
        content = content or (refusal_in(beside) if isinstance(beside, dict) else "") or content
        if base == "tool":
            is_error = message.get("status") == "error"
            text = content if isinstance(content, str) else as_text(content, where)
            into.answer(message.get("name") or "", text, message.get("tool_call_id"), is_error=is_error, where=where)
            return
        given = message.get("tool_calls")
        calls = [call for call in given if _is_call(call)] if isinstance(given, list) else []
        parts = _parts(content, into)
        if parts or not calls:
            role = message.get("role") if base == "chat" else ROLES.get(base)
            into.say(role if isinstance(role, str) and role in TYPES else "user", parts, {}, where)
            if content and not parts:
                # Blocks such as thinking alone, which only their provider understands.
                into.items[0] = msgspec.structs.replace(into.items[0], origin=Origin(apart=True))
        for call in calls:
            into.call(call["name"], call.get("args", {}), call.get("id"), {}, where)
        if base == "ai":
            _count(message, into)

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the plain form; None for a handoff or a change of the configuration."""
        first = items[0]
        if isinstance(first, FunctionReturned):
            answer = {"type": "tool", "content": first.output, "id": first.id, "tool_call_id": first.call_id}
            named = {"name": first.name} if first.name else {}
            return answer | named | ({"status": "error"} if first.is_error else {})
        if not isinstance(first, MessageAdded | FunctionCalled):
            return None
        said = first if isinstance(first, MessageAdded) else None
        message: Message = {
            "type": TYPES.get(said.role, "human") if said else "ai",
            "content": _content(said.content) if said else "",
            "id": first.id,
        }
        if said and len(items) == 1:
            return message
        calls = [_call(item) for item in items if isinstance(item, FunctionCalled)]
        return {**message, "tool_calls": calls} if calls else message


def _is_call(call: Any) -> bool:
    """Return whether this is a call of LangChain's: the field of a user's own class may hold anything."""
    return isinstance(call, dict) and isinstance(call.get("name"), str) and isinstance(call.get("id"), str | None)


def _parts(content: Any, into: Receiver) -> str | list[str | Image]:
    if isinstance(content, str):
        return content
    shown: list[str | Image] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            shown.append(part)
        elif isinstance(part, dict) and isinstance(part.get("text"), str):
            shown.append(part["text"])
        elif isinstance(part, dict) and refusal_in(part):
            shown.append(refusal_in(part))
        elif (found := _picture(part)) and (image := into.image(found.url)):
            shown.append(image)
    return shown


def _picture(part: Any) -> Picture | None:
    """Return the image in a block of OpenAI, of Anthropic, or of LangChain itself, in its newer or its older form."""
    if not isinstance(part, dict):
        return None
    if part.get("type") == "image":
        source = part["source"] if isinstance(part.get("source"), dict) else part
        data, kind = source.get("base64") or source.get("data"), source.get("mime_type") or source.get("media_type")
        found = picture_of(data, kind) or picture_at(source.get("url"))
        if found:
            return found
    image = part.get("image_url")
    return picture_at(image.get("url") if isinstance(image, dict) else image)


def _content(content: str | tuple[str | Image, ...]) -> str | list[Any]:
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], str):
        return content[0]
    return [
        {"type": "text", "text": part}
        if isinstance(part, str)
        else {"type": "image_url", "image_url": {"url": part.image}}
        for part in content
    ]


def _call(item: FunctionCalled) -> dict[str, Any]:
    try:
        args = msgspec.json.decode(item.arguments)
    except (ValueError, RecursionError):
        args = None
    # A model may write anything; LangChain has arguments as an object only.
    args = args if isinstance(args, dict) else {"arguments": item.arguments}
    return {"name": item.name, "args": args, "id": item.call_id, "type": "tool_call"}


def _count(message: Message, into: Receiver) -> None:
    """Keep the tokens that the model of an answer used, and the agent that gave it."""
    usage, name = message.get("usage_metadata"), message.get("name")
    if isinstance(name, str) and name:
        into.items[0] = msgspec.structs.replace(into.items[0], agent_id=name)
    if not isinstance(usage, dict):
        return
    about = message.get("response_metadata")
    model = next((about[name] for name in MODEL if about.get(name)), None) if isinstance(about, dict) else None
    named = {"model": model} if isinstance(model, str) and model else {}
    with suppress(InvalidInputError):
        put_usage(into.items, metrics_of(None, usage, **named), what="the usage of a message")
