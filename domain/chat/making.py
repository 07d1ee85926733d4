"""
From what a caller says to the event that is recorded.

Where the types are right already, the event is made at once and proven by a round trip through its encoding,
at a third of the cost of a pydantic model. Everything else (images, coercions, mistakes) goes through the model,
whose rules and errors are the ones the seed's users know.
"""

from __future__ import annotations

from typing import Any

import msgspec
from pydantic import BaseModel

from ..envelope import encode_payload
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

__all__ = ["make_event"]

_PROOF = msgspec.msgpack.Decoder(ChatItemEvent)
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
        InvalidInputError: a text holds a lone surrogate, or open JSON is not JSON.
    """
    role = fields.get("role")
    if isinstance(role, ChatRole):
        fields["role"] = role = role.value
    if role is None or (isinstance(role, str) and role in ROLES):
        try:
            event = event_type(**fields)
            _PROOF.decode(encode_payload(event))
            return event
        except (msgspec.MsgspecError, TypeError, UnicodeEncodeError, OverflowError):
            pass
    return recorded_form(_MODELS[event_type].model_validate(fields))  # type: ignore[arg-type]  # one of the models
