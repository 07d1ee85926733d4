"""The seed's plain form of a context: `{"items": [...]}`, written and read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..clock import REAL_SYSTEM
from .items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ChatRole,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
)

COMMON = ("type", "id", "created_at", "agent_id")
FIELDS = {
    "message": (
        "role", "content", "interrupted", "extra", "confidence", "metrics",
        "audio_instructions", "text_instructions",
    ),
    "function_call": ("name", "arguments", "call_id", "metadata"),
    "function_call_output": ("name", "output", "call_id", "is_error"),
    "agent_handoff": ("from_agent", "to_agent", "reason"),
    "agent_config_update": ("instructions", "tools"),
}  # fmt: skip


def items_to_dict(items: Iterable[ChatItem]) -> dict[str, Any]:
    """Return items as plain data: copies, keys in the seed's order, images as dicts."""
    return {"items": [_plain_item(item) for item in items]}


def _plain_item(item: ChatItem) -> dict[str, Any]:
    return {field: _plain(getattr(item, field)) for field in COMMON + FIELDS[item.type]}


def _plain(value: Any) -> Any:
    if isinstance(value, ChatRole):
        return value.value
    if isinstance(value, ImageContent):
        return value.model_dump(mode="json")
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


def items_from_dict(data: Mapping[str, Any]) -> list[ChatItem]:
    """
    Return the items of the seed's plain form; unknown types are left out.

    Raises:
        KeyError: `items`, or an item's `id` or `type`, is missing.
        ValueError: a role that does not exist, or a field of the wrong type.
    """
    return [_MAKERS[entry["type"]](entry) for entry in data["items"] if entry["type"] in _MAKERS]


def _common(entry: Mapping[str, Any]) -> dict[str, Any]:
    created_at = entry.get("created_at")
    return {
        "id": entry["id"],
        "created_at": REAL_SYSTEM.now() if created_at is None else created_at,
        "agent_id": entry.get("agent_id"),
    }


def _message(entry: Mapping[str, Any]) -> ChatMessage:
    content = entry["content"]
    if isinstance(content, list):
        content = [ImageContent.model_validate(part) if isinstance(part, dict) else part for part in content]
    kept = {name: entry[name] for name in FIELDS["message"][4:] if name in entry}
    return ChatMessage(
        **_common(entry),
        **kept,
        role=ChatRole(entry["role"]),
        content=content,
        interrupted=entry.get("interrupted", False),
        extra=entry.get("extra") or {},
    )


def _other(model: Callable[..., ChatItem], kind: str) -> Callable[[Mapping[str, Any]], ChatItem]:
    def make(entry: Mapping[str, Any]) -> ChatItem:
        return model(**_common(entry), **{name: entry[name] for name in FIELDS[kind] if name in entry})

    return make


_MAKERS: dict[str, Callable[[Mapping[str, Any]], ChatItem]] = {
    "message": _message,
    "function_call": _other(FunctionCall, "function_call"),
    "function_call_output": _other(FunctionCallOutput, "function_call_output"),
    "agent_handoff": _other(AgentHandoff, "agent_handoff"),
    "agent_config_update": _other(AgentConfigUpdate, "agent_config_update"),
}
