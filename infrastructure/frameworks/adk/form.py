"""
Events of the Agent Development Kit as items of a chat.

An event becomes a message of its texts and images, and an item for each call and each response. Data for which items
have no field is kept beside them: actions with changes of state, thoughts, signatures, branches. An event without
anything that others know, such as one that only changes state, is an item that is apart.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from ....domain.chat.events import ChatItemEvent
from ....domain.chat.usage import NO_USAGE, metrics_of, put_usage, usage_in
from ....domain.formats.parts import Call, Part, Picture, Result, parts_of, picture_at, picture_of, read_parts, role_of
from ....domain.formats.receive import Fields, Receiver, as_text
from ..conversation import Conversation, Message

NAME = "adk"
USER, MODEL = "user", "model"
# The fields that every event has.
NO_ACTIONS: dict[str, Any] = {
    "artifact_delta": {}, "requested_auth_configs": {}, "requested_tool_confirmations": {}, "state_delta": {},
}  # fmt: skip
# The kit writes bytes in the alphabet for URLs, and data URLs have the other one.
TO_PLAIN, TO_URL = str.maketrans("-_", "+/"), str.maketrans("+/", "-_")


class EventForm:
    """The JSON of the kit's own `Event.model_dump`, without fields that are null."""

    name = NAME

    def read(self, message: Message, into: Receiver) -> None:
        """Add the items of an event; of a compaction, its summary."""
        fields = Fields("an event", message)
        author = message.get("author") or ""
        if not isinstance(author, str):
            raise fields.unexpected_value("author", author, "text")
        content = message.get("content") or _summary(message) or {}
        listed = content.get("parts") or [] if isinstance(content, dict) else None
        if not isinstance(listed, list):
            raise fields.unexpected_value("content", content, "an object with a list of parts")
        is_user = (content.get("role") or author) == USER
        # An event of empty texts, or of nothing at all, is left out by the kit, too, when it asks a model.
        parts = [_part(Fields("a part", part)) or None for part in listed] or [None]
        read_parts(USER if is_user else "assistant", parts, into, "an event")
        about: dict[str, Any] = {} if author in ("", USER, MODEL) else {"agent_id": author}
        if isinstance(at := message.get("timestamp"), int | float):
            about["created_at"] = float(at)
        into.items[:] = [msgspec.structs.replace(item, **about) for item in into.items]
        if isinstance(usage := message.get("usage_metadata"), dict) and (counted := usage_in(usage)) != NO_USAGE:
            used = metrics_of(usage=counted, model=message.get("model_version"))
            put_usage(into.items, used, what="the usage of an event")

    def write(self, items: Sequence[ChatItemEvent]) -> Message | None:
        """Return the event that these items are."""
        first = items[0]
        role = USER if role_of(items) in (USER, "tool") else MODEL
        content = {"role": role, "parts": list(map(_written, parts_of(items)))}
        author = first.agent_id or (MODEL if role_of(items) != USER else USER)
        # The time is a text, because a number would differ from event to event; the kit reads both.
        about = {"id": first.id, "author": author, "timestamp": str(first.created_at)}
        return {**about, "content": content, "actions": NO_ACTIONS, "node_info": {"path": ""}}


EVENTS = Conversation(EventForm())


def _summary(message: Message) -> Any:
    actions = message.get("actions")
    compaction = actions.get("compaction") if isinstance(actions, dict) else None
    return compaction.get("compacted_content") if isinstance(compaction, dict) else None


def _part(part: Fields) -> Part:
    given = part.value
    if given.get("thought"):
        return None
    if "text" in given:
        return part.text("text")
    if isinstance(call := given.get("function_call"), dict):
        named = Fields("a function call", call)
        return Call(named.text("name"), as_text(call.get("args") or {}, "arguments"), call.get("id"))
    if isinstance(response := given.get("function_response"), dict):
        named = Fields("a function response", response)
        output, is_error = _output(response.get("response"))
        return Result(named.text("name"), output, response.get("id"), is_error)
    if isinstance(data := given.get("inline_data"), dict) and isinstance(data.get("data"), str):
        return picture_of(data["data"].translate(TO_PLAIN), data.get("mime_type"))
    if isinstance(file := given.get("file_data"), dict) and str(file.get("mime_type")).startswith("image/"):
        return picture_at(file.get("file_uri"))
    return None


def _written(part: str | Picture | Call | Result) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    if isinstance(part, Call):
        return {"function_call": {"id": part.call_id, "name": part.name, "args": _object(part.arguments) or {}}}
    if isinstance(part, Result):
        response = _object(part.output)
        plain = {"error" if part.is_error else "result": part.output} if response is None else response
        return {"function_response": {"id": part.call_id, "name": part.name, "response": plain}}
    if part.data is None:
        return {"file_data": {"file_uri": part.url, "mime_type": part.media_type}}
    return {"inline_data": {"data": part.data.translate(TO_URL), "mime_type": part.media_type}}


def _output(response: Any) -> tuple[Any, bool]:
    """Return the output in a response, and whether it is an error; a response of another form is kept as JSON."""
    if isinstance(response, dict) and len(response) == 1:
        [(kind, value)] = response.items()
        # A text that is itself an object would be written as that object.
        if kind in ("result", "error") and isinstance(value, str) and _object(value) is None:
            return value, kind == "error"
    return as_text(response, "a response"), False


def _object(text: str) -> dict[str, Any] | None:
    """Return the object that a text is as JSON."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
