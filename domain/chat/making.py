"""
From what a caller says to the event that is recorded.

Where the types are right already, the event is made at once, at a fifth of the cost of a pydantic model.
Everything else (images, coercions, mistakes) goes through the model, whose rules and errors are the ones the
seed's users know.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from pydantic import BaseModel

from .events import ChatItemEvent, ConfigUpdated, FunctionCalled, FunctionReturned, HandedOff, MessageAdded
from .items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatMessage,
    ChatRole,
    FunctionCall,
    FunctionCallOutput,
)
from .views import ROLES, recorded_form

Kinds = frozenset[type[Any]]
_TEXT: Kinds = frozenset({str})
_FLAG: Kinds = frozenset({bool})
_TIME: Kinds = frozenset({float})
_OPTIONAL_TEXT: Kinds = frozenset({str, type(None)})
_TEXTS: Kinds = frozenset({str, tuple})
_OPTIONAL_TEXTS: Kinds = frozenset({tuple, type(None)})
_ITEM = {"id": _TEXT, "created_at": _TIME, "agent_id": _OPTIONAL_TEXT}
# What a field may be without a second look; a tuple is one of texts.
_PLAIN: dict[type[ChatItemEvent], Mapping[str, Kinds]] = {
    MessageAdded: {**_ITEM, "role": _TEXT, "content": _TEXTS},
    FunctionCalled: {**_ITEM, "name": _TEXT, "arguments": _TEXT, "call_id": _TEXT},
    FunctionReturned: {
        **_ITEM,
        "name": _TEXT,
        "call_id": _TEXT,
        "output": _TEXT,
        "is_error": _FLAG,
    },
    HandedOff: {**_ITEM, "from_agent": _OPTIONAL_TEXT, "to_agent": _TEXT, "reason": _OPTIONAL_TEXT},
    ConfigUpdated: {**_ITEM, "instructions": _OPTIONAL_TEXT, "tools": _OPTIONAL_TEXTS},
}
_MODELS: dict[type[ChatItemEvent], type[BaseModel]] = {
    MessageAdded: ChatMessage,
    FunctionCalled: FunctionCall,
    FunctionReturned: FunctionCallOutput,
    HandedOff: AgentHandoff,
    ConfigUpdated: AgentConfigUpdate,
}


def make_event(event_type: type[ChatItemEvent], **fields: Any) -> ChatItemEvent:
    """
    Return the event that adds an item with these fields, named as the item's.

    Raises:
        pydantic.ValidationError: a field is of no use (a ValueError).
        InvalidInputError: a text holds a lone surrogate, open JSON is not JSON, or a time is no number or infinite.
    """
    role = fields.get("role")
    if isinstance(role, ChatRole):
        fields["role"] = role = role.value
    is_role = role is None or (isinstance(role, str) and role in ROLES)
    if is_role and _are_plain(fields, _PLAIN[event_type]):
        return event_type(**fields)
    return recorded_form(_MODELS[event_type].model_validate(fields))  # type: ignore[arg-type]  # one of the models


def _are_plain(fields: Mapping[str, Any], kinds: Mapping[str, Kinds]) -> bool:
    """Whether every field is of the very type it is recorded as, every text can be encoded, and every time is one."""
    for name, value in fields.items():
        kind = type(value)
        if name not in kinds or kind not in kinds[name]:
            return False
        if kind is str:
            # Most texts are ASCII, which a text knows of itself.
            if not (value.isascii() or _is_unicode(value)):
                return False
        elif kind is float:
            if not isfinite(value):
                return False
        elif kind is tuple:
            for part in value:
                if type(part) is not str or not (part.isascii() or _is_unicode(part)):
                    return False
    return True


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
