"""
What a message says, whatever it is made of: an object of some package, or a dict.

Objects are known by the names of their classes, those of base classes among them, else by `type` or `role`; dicts by
`type` or `role`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

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


def field(message: Any, name: str) -> Any:
    """Return a field of a message, None where it has none."""
    return message.get(name) if isinstance(message, Mapping) else getattr(message, name, None)


def kind_of(message: Any) -> Kind | None:
    """Return whose message it is, or None for what is no message of the four kinds."""
    names: list[Any] = [] if isinstance(message, Mapping) else [base.__name__ for base in type(message).__mro__]
    names += [field(message, "type"), field(message, "role")]
    return next((KINDS[name] for name in names if isinstance(name, str) and name in KINDS), None)


def calls_of(message: Any) -> list[Any]:
    """Return an assistant message's tool calls; those in `additional_kwargs` where it has no others."""
    calls = field(message, "tool_calls") or (field(message, "additional_kwargs") or {}).get("tool_calls")
    return list(calls or ())


def invalid_calls_of(message: Any) -> list[Any]:
    """Return the calls that a model asked for in a form that cannot be read."""
    return list(field(message, "invalid_tool_calls") or ())


def is_blank(value: Any) -> bool:
    """Return whether an id is no id: absent, or nothing but white space."""
    return value is None or not str(value).strip()
