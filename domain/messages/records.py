"""Messages of one's own, frozen, and the plain records that are written of any message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from dataclasses import field as field_of
from typing import Any, ClassVar

from ..errors import InvalidInputError
from ..frozen import FrozenDict, freeze, thaw
from .reading import Kind, calls_of, field, invalid_calls_of, is_blank, kind_of


@dataclass(frozen=True)
class Message:
    """
    What all messages have: `content` is a text, or a list of texts and dicts.

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
        """Return the record of the message, and `id` where it has one."""
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
    """A message of the model, with the tools that it asked for: dicts with `name`, `args` and `id`."""

    tool_calls: Sequence[Any] = ()
    invalid_tool_calls: Sequence[Any] = ()
    type = "ai"

    def _own_fields(self) -> dict[str, Any]:
        return {"tool_calls": thaw(self.tool_calls), "invalid_tool_calls": thaw(self.invalid_tool_calls)}


@dataclass(frozen=True)
class ToolMessage(Message):
    """The answer of a tool; `status` is "success" or "error", and recorded where it is not the first."""

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
    Return a message of any make as one of these classes.

    Raises:
        InvalidInputError: it is not one of the four kinds.
    """
    kind = kind_of(message)
    if kind is None:
        raise InvalidInputError(
            f"a {type(message).__name__} is no message: give a HumanMessage, AIMessage, ToolMessage or "
            "SystemMessage, or a dict whose `type` or `role` says which it is"
        )
    made: dict[str, Any] = {
        "content": _or(field(message, "content"), ""),
        "name": field(message, "name") or None,
        "additional_kwargs": field(message, "additional_kwargs") or {},
        "response_metadata": field(message, "response_metadata") or {},
        "id": field(message, "id") or None,
    }
    if kind == "assistant":
        made |= {"tool_calls": calls_of(message), "invalid_tool_calls": invalid_calls_of(message)}
    elif kind == "tool":
        made["tool_call_id"] = _or(field(message, "tool_call_id"), "")
        made["status"] = field(message, "status") or "success"
    return CLASSES[kind](**made)


def message_to_dict(message: Any) -> dict[str, Any]:
    """
    Return the record of a message of any make.

    Raises:
        InvalidInputError: it is not one of the four kinds.
    """
    return message_of(message).to_dict()


def message_from_dict(record: Any) -> Message | None:
    """
    Return the message of a record, or None for an unknown type and for a tool's without an id.

    System messages come back, which the seed promises and does not do.
    """
    if not isinstance(record, Mapping):
        return None
    kind = kind_of(record)
    if kind is None or (kind == "tool" and is_blank(record.get("tool_call_id"))):
        return None
    return message_of(record)


def _or(value: Any, absent: Any) -> Any:
    return absent if value is None else value
