"""
Events that add items, made from the arguments of a caller; and these arguments, for the fingerprint of the call.

Fields of the right types make an event at once. All others go through the model of the item.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from math import isfinite
from types import ModuleType
from typing import TYPE_CHECKING, Any

import msgspec

from ..canonical import Without, is_unicode
from .events import ChatItemEvent, ConfigUpdated, FunctionCalled, FunctionReturned, HandedOff, Image, MessageAdded
from .roles import ROLES, ChatRole

if TYPE_CHECKING:
    from .items import ChatItem

# The fields that Refold generates if the caller does not give them.
MADE_UP = ("id", "created_at")


@cache
def conversion() -> ModuleType:
    """
    Return `item_conversion`, which makes items of events. It needs pydantic, so it is imported with the first item.

    Calls that make one item, such as every append, use it: an import statement would take a microsecond each time.
    """
    from . import item_conversion

    return item_conversion


Kinds = frozenset[type[Any]]
_TEXT: Kinds = frozenset({str})
_FLAG: Kinds = frozenset({bool})
_TIME: Kinds = frozenset({float})
_OPTIONAL_TEXT: Kinds = frozenset({str, type(None)})
_TEXTS: Kinds = frozenset({str, tuple})
_OPTIONAL_TEXTS: Kinds = frozenset({tuple, type(None)})
_ITEM = {"id": _TEXT, "created_at": _TIME, "agent_id": _OPTIONAL_TEXT}
# The types that a field may have without further validation; a tuple must hold only texts.
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


def make_event(event_type: type[ChatItemEvent], **fields: Any) -> ChatItemEvent:
    """
    Return the event that adds an item with these fields, which have the names of the item's fields.

    Raises:
        InvalidInputError: a field is invalid (also pydantic's ValidationError), a text holds a lone surrogate, open
            JSON is not JSON, or a time is not a finite number.
    """
    role = fields.get("role")
    if isinstance(role, ChatRole):
        fields["role"] = role = role.value
    is_role = role is None or (isinstance(role, str) and role in ROLES)
    if is_role and _are_plain(fields, _PLAIN[event_type]):
        return event_type(**fields)
    from .item_conversion import validated_event

    return validated_event(event_type, fields)


def _are_plain(fields: Mapping[str, Any], kinds: Mapping[str, Kinds]) -> bool:
    """Whether every field has exactly its recorded type, every text can be encoded, and every time is finite."""
    for name, value in fields.items():
        kind = type(value)
        if name not in kinds or kind not in kinds[name]:
            return False
        if kind is str:
            # Most texts are ASCII, and `isascii` only reads a flag of the text.
            if not (value.isascii() or is_unicode(value)):
                return False
        elif kind is float:
            if not isfinite(value):
                return False
        elif kind is tuple:
            for part in value:
                if type(part) is not str or not (part.isascii() or is_unicode(part)):
                    return False
    return True


def as_given(event: ChatItemEvent, *made_up: str) -> Without:
    """
    Return an item as its caller gave it, for the fingerprint of a call.

    Generated fields and the ids of images are left out.
    """
    content = getattr(event, "content", None)
    if isinstance(content, tuple):
        parts = tuple(Without(part, "id") if isinstance(part, Image) else part for part in content)
        return Without(event, *made_up, content=parts)
    return Without(event, *made_up)


def content_of(item: ChatItemEvent) -> bytes:
    """Return the content of an item as bytes, to compare two items: without id, time and source."""
    bare = msgspec.structs.replace(item, id="", created_at=0.0, origin=None)
    if isinstance(bare, MessageAdded):
        content = bare.content
        if not isinstance(content, str):
            content = tuple(msgspec.structs.replace(p, id="") if isinstance(p, Image) else p for p in content)
        bare = msgspec.structs.replace(bare, until=0, content=content)
    return msgspec.msgpack.encode(bare)


def items_as_given(items: Sequence[ChatItem], events: Sequence[ChatItemEvent]) -> list[Without]:
    """Return items of a caller as they were given: without an id or a time that was generated."""
    return [
        as_given(event, *(field for field in MADE_UP if field not in item.model_fields_set))
        for item, event in zip(items, events, strict=True)
    ]
