"""
Messages in the form of agent frameworks: their records, cleaning, and a compact text.

Messages may be those of this module, objects of other packages, or dicts. Objects are recognised by the names of their
classes and base classes, or else by `type` or `role`; dicts by `type` or `role`. No other package is imported for this.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import field as field_of
from functools import partial
from typing import Any, ClassVar, Literal

from .errors import InvalidInputError
from .frozen import FrozenDict, freeze, thaw

Kind = Literal["user", "assistant", "tool", "system"]

KINDS: dict[str, Kind] = {
    "HumanMessage": "user",
    "AIMessage": "assistant",
    "ToolMessage": "tool",
    "SystemMessage": "system",
    "human": "user",
    "ai": "assistant",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
}
CALL_KEYS = ("tool_calls", "function_call")
# Some providers repeat calls among the parts of the content.
CALL_PARTS = ("tool_use", "server_tool_use", "function_call", "tool_call")
HEADING = "=== CURRENT CONTEXT ===\n"
SEPARATOR = "\n\n---\n\n"
NOTHING = "None"
# Limits for values within parts that are not text: the data of a picture would hide the text.
VALUE_CHARACTERS_MAX = 200
VALUE_CHARACTERS_SHOWN = 40


def field(message: Any, name: str) -> Any:
    """Return a field of a message, or None."""
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def kind_of(message: Any) -> Kind | None:
    """Return the kind of a message, or None for any other object."""
    names: list[Any] = [] if isinstance(message, Mapping) else [base.__name__ for base in type(message).__mro__]
    names += [field(message, "type"), field(message, "role")]
    return next((KINDS[name] for name in names if isinstance(name, str) and name in KINDS), None)


def calls_of(message: Any) -> list[Any]:
    """Return an assistant message's tool calls; if there are none, those in `additional_kwargs`."""
    return _listed(field(message, "tool_calls") or field(field(message, "additional_kwargs"), "tool_calls"))


def invalid_calls_of(message: Any) -> list[Any]:
    """Return the calls that a model wrote in a form that cannot be read."""
    return _listed(field(message, "invalid_tool_calls"))


def _listed(calls: Any) -> list[Any]:
    # A recorded message may be any JSON object.
    return list(calls) if isinstance(calls, list | tuple) else []


def _require_lists_of_calls(message: Any) -> None:
    """
    Require that the calls of a message are lists, and its `additional_kwargs` a dict.

    Raises:
        InvalidInputError: a field for calls has another value, which would be lost.
    """
    beside = field(message, "additional_kwargs") or {}
    if not isinstance(beside, Mapping):
        raise InvalidInputError(
            f"the `additional_kwargs` of a message are of the type {type(beside).__name__}: give a dict"
        )
    for held, name in ((message, "tool_calls"), (beside, "tool_calls"), (message, "invalid_tool_calls")):
        calls = field(held, name)
        if calls and not isinstance(calls, list | tuple):
            raise InvalidInputError(f"the `{name}` of a message are of the type {type(calls).__name__}: give a list")


def is_blank(value: Any) -> bool:
    """Return whether an id is absent or only white space."""
    return value is None or not str(value).strip()


@dataclass(frozen=True)
class Message:
    """
    The base of all messages: `content` is a text, or a list of texts and dicts.

    Lists and dicts are frozen copies, equal to plain ones.
    """

    content: Any = ""
    name: str | None = None
    additional_kwargs: Mapping[str, Any] = field_of(default_factory=FrozenDict)
    response_metadata: Mapping[str, Any] = field_of(default_factory=FrozenDict)
    id: str | None = None
    type: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for one in fields(self):
            object.__setattr__(self, one.name, freeze(getattr(self, one.name)))

    def to_dict(self) -> dict[str, Any]:
        """Return the record of the message, with `id` if it has one."""
        record = {
            "type": type(self).__name__,
            "content": thaw(self.content),
            "name": self.name or "",
            "additional_kwargs": thaw(self.additional_kwargs),
            "response_metadata": thaw(self.response_metadata),
            **self._own_fields(),
        }
        return record if self.id is None else {**record, "id": self.id}

    def _own_fields(self) -> dict[str, Any]:
        return {}


class HumanMessage(Message):
    """A message of the user."""

    type = "human"


class SystemMessage(Message):
    """Instructions to the model."""

    type = "system"


@dataclass(frozen=True)
class AIMessage(Message):
    """A message of the model, with its tool calls: dicts with `name`, `args` and `id`."""

    tool_calls: Sequence[Any] = ()
    invalid_tool_calls: Sequence[Any] = ()
    type = "ai"

    def _own_fields(self) -> dict[str, Any]:
        return {"tool_calls": thaw(self.tool_calls), "invalid_tool_calls": thaw(self.invalid_tool_calls)}


@dataclass(frozen=True)
class ToolMessage(Message):
    """The answer of a tool; `status` is "success" or "error", and is recorded only if it is not "success"."""

    tool_call_id: str = ""
    status: str = "success"
    type = "tool"

    def _own_fields(self) -> dict[str, Any]:
        own = {"tool_call_id": self.tool_call_id}
        return own if self.status == "success" else {**own, "status": self.status}


CLASSES: dict[Kind, type[Message]] = {
    "user": HumanMessage,
    "assistant": AIMessage,
    "tool": ToolMessage,
    "system": SystemMessage,
}


def message_of(message: Any) -> Message:
    """
    Return a message of any form as one of these classes.

    Raises:
        InvalidInputError: it is not one of the four kinds, or its calls are not a list.
    """
    kind = kind_of(message)
    if kind is None:
        raise InvalidInputError(
            f"a {type(message).__name__} is no message: give a HumanMessage, AIMessage, ToolMessage or "
            "SystemMessage, or a dict whose `type` or `role` says which it is"
        )
    if kind == "assistant":
        _require_lists_of_calls(message)
    return _made_of(kind, message)


def _made_of(kind: Kind, message: Any) -> Message:
    made: dict[str, Any] = {
        "content": _or_empty(field(message, "content")),
        "name": field(message, "name") or None,
        "additional_kwargs": field(message, "additional_kwargs") or {},
        "response_metadata": field(message, "response_metadata") or {},
        "id": field(message, "id") or None,
    }
    if kind == "assistant":
        made |= {"tool_calls": calls_of(message), "invalid_tool_calls": invalid_calls_of(message)}
    elif kind == "tool":
        made["tool_call_id"] = _or_empty(field(message, "tool_call_id"))
        made["status"] = field(message, "status") or "success"
    return CLASSES[kind](**made)


def message_to_dict(message: Any) -> dict[str, Any]:
    """
    Return the record of a message of any form.

    Raises:
        InvalidInputError: it is not one of the four kinds, or its calls are not a list.
    """
    return message_of(message).to_dict()


def message_from_dict(record: Any) -> Message | None:
    """
    Return the message of a record, or None for an unknown type and for a tool message without a call id.

    System messages are returned too; the seed promises this but does not do it.

    Raises:
        InvalidInputError: its calls are not a list.
    """
    message = recorded_message(record)
    if isinstance(message, AIMessage):
        _require_lists_of_calls(record)
    return message


def recorded_message(record: Any) -> Message | None:
    """
    Return the same for a record that a log holds: calls that are not a list are left out.

    The log may have been written or imported without the checks of `message_of`. `additional_kwargs` stay as they are.
    """
    if not isinstance(record, Mapping):
        return None
    kind = kind_of(record)
    if kind is None or (kind == "tool" and is_blank(record.get("tool_call_id"))):
        return None
    return _made_of(kind, record)


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


class _Waiting:
    """An assistant message with calls that wait for answers, and the answers so far, in the order they came."""

    def __init__(self, message: Any, ids: Iterable[str]) -> None:
        self.message = message
        self.results: list[Any] = []
        self._missing = Counter(ids)

    @property
    def is_answered(self) -> bool:
        return not self._missing

    def take(self, result: Any) -> None:
        """Store the result of a waiting call; other results and repeated ones are ignored."""
        answered = str(field(result, "tool_call_id"))
        if answered in self._missing:
            self._missing -= Counter([answered])
            self.results.append(result)


def clean_messages(messages: Iterable[Any]) -> list[Any]:
    """
    Return the messages that can be replayed: the given objects themselves, in their order.

    System messages are left out. An assistant message with calls is kept if a result of every call follows before any
    other message. Otherwise its calls and their results are left out, and if it has text, a copy with only the text is
    kept. Calls without an id wait for no result.
    """
    kept: list[Any] = []
    waiting: _Waiting | None = None
    for message in messages:
        kind = kind_of(message)
        if kind == "system":
            continue
        if kind == "tool":
            if waiting is not None:
                waiting.take(message)
            continue
        kept += _settled(waiting)
        ids = _ids_called(message) if kind == "assistant" else []
        waiting = _Waiting(message, ids) if ids else None
        if waiting is None:
            kept.append(message)
    return kept + _settled(waiting)


def _settled(waiting: _Waiting | None) -> list[Any]:
    if waiting is None:
        return []
    if waiting.is_answered:
        return [waiting.message, *waiting.results]
    text = _without_calls(field(waiting.message, "content"))
    return [_with_content_only(waiting.message, text)] if text else []


def _ids_called(message: Any) -> list[str]:
    ids = [field(call, "id") for call in calls_of(message)]
    return [str(call_id) for call_id in ids if not is_blank(call_id)]


def _without_calls(content: Any) -> Any:
    """Return content without the calls among its parts; it is empty if only blank texts are left."""
    if isinstance(content, str):
        return content if content.strip() else ""
    given = content if isinstance(content, Sequence) else ()
    parts = [part for part in given if field(part, "type") not in CALL_PARTS]
    return parts if any(map(_is_not_blank, parts)) else []


def _is_not_blank(part: Any) -> bool:
    text = _text_in(part)
    return text is None or bool(text.strip())


def _text_in(part: Any) -> str | None:
    """Return the text of a part of content, or None for a part that is no text, such as a picture."""
    text = part if isinstance(part, str) else field(part, "text")
    return text if isinstance(text, str) else None


def _with_content_only(message: Any, content: Any) -> Any:
    """Return a message with this content and no calls, of the same class if possible."""
    extra = field(message, "additional_kwargs") or {}
    if isinstance(extra, Mapping):
        extra = {key: value for key, value in extra.items() if key not in CALL_KEYS}
    change: dict[str, Any] = {
        "content": content,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "additional_kwargs": extra,
    }
    if isinstance(message, Mapping):
        return {**message, **{key: value for key, value in change.items() if key in message}}
    if hasattr(message, "model_copy"):
        return message.model_copy(update=change)
    own = {key: field(message, key) for key in ("name", "response_metadata", "id")}
    return AIMessage(**change, **{key: value for key, value in own.items() if value is not None})


def build_current_context(messages: Iterable[Any]) -> str:
    """
    Return messages as blocks of text under a heading; "None" if there are no messages.

    The first message, usually the user's query, is always left out. Calls are shown by name and arguments only.
    """
    given = list(messages)
    if not given:
        return NOTHING
    return HEADING + SEPARATOR.join(map(_block, given[1:]))


def _block(message: Any) -> str:
    kind = kind_of(message)
    if kind is not None:
        return _BLOCKS[kind](message)
    if hasattr(message, "content"):
        return f"[{type(message).__name__}]\n{_text_of(message.content)}"
    return str(message)


def _message_of(speaker: str, message: Any) -> str:
    return f"[{speaker}]\n{_text_of(field(message, 'content'))}"


def _tool(message: Any) -> str:
    # The blank before the newline is the seed's.
    return f"<results>\n[Tool:{field(message, 'name') or 'tool'}]\n{_text_of(field(message, 'content'))} \n</results>"


def _assistant(message: Any) -> str:
    text = _text_of(field(message, "content"))
    lines = [f"[Assistant]\n{text}"] if text.strip() else []
    if calls := calls_of(message):
        lines.append(f"[Assistant:tool_calls]\n{_json([_compact_call(call) for call in calls])}")
    if invalid := invalid_calls_of(message):
        compact = [{"name": field(call, "name"), "error": field(call, "error")} for call in invalid]
        lines.append(f"[Assistant:invalid_tool_calls]\n{_json(compact)}")
    return "\n".join(lines) or "[Assistant]\n(Empty)"


_BLOCKS: dict[Kind, Callable[[Any], str]] = {
    "system": partial(_message_of, "System"),
    "user": partial(_message_of, "User"),
    "tool": _tool,
    "assistant": _assistant,
}


def _compact_call(call: Any) -> dict[str, Any]:
    # In `additional_kwargs` the data of a call is one level deeper, under `function`.
    said = field(call, "function") or call
    args = field(said, "args")
    return {"name": field(said, "name"), "args": field(said, "arguments") if args is None else args}


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def _text_of(content: Any) -> str:
    """Return content as text; in a list, texts are unchanged and other parts become JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        return str(content)
    parts = [part for part in content if field(part, "type") not in CALL_PARTS]
    return "\n".join(_json(_shortened(part)) if (text := _text_in(part)) is None else text for part in parts)


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > VALUE_CHARACTERS_MAX:
        return f"{value[:VALUE_CHARACTERS_SHOWN]}... ({len(value):,} characters)"
    if isinstance(value, dict):
        return {key: _shortened(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_shortened(inner) for inner in value]
    return value
