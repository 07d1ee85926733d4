"""Items of the workload in the forms that Refold records and accepts."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import refold.chat
from refold.domain.chat.events import FunctionCalled, FunctionReturned, MessageAdded
from refold.domain.log.envelope import encode_payload

from .workload import Item

ROLES = {"system": "system", "user": "user", "answer": "assistant"}
CREATED_AT = 1_790_000_000.25
_NUMBERS = itertools.count(1)


def event_of(item: Item) -> MessageAdded | FunctionCalled | FunctionReturned:
    """Return the event that adds an item; it has as many bytes as an event that the public calls record."""
    number = f"{next(_NUMBERS):012x}"
    if item.kind == "call":
        return FunctionCalled(
            id=f"call_{number}", created_at=CREATED_AT, name=item.name, arguments=item.text, call_id=item.call_id
        )
    if item.kind == "output":
        return FunctionReturned(
            id=f"output_{number}", created_at=CREATED_AT, name=item.name, output=item.text, call_id=item.call_id
        )
    return MessageAdded(id=f"msg_{number}", created_at=CREATED_AT, role=ROLES[item.kind], content=(item.text,))


def payload_of(item: Item) -> bytes:
    """Return the payload of that event."""
    return encode_payload(event_of(item))


def public_item(item: Item) -> Any:
    """Return an item as a caller builds it."""
    if item.kind == "call":
        return refold.chat.FunctionCall(name=item.name, arguments=item.text, call_id=item.call_id)
    if item.kind == "output":
        return refold.chat.FunctionCallOutput(name=item.name, output=item.text, call_id=item.call_id)
    role = refold.chat.ChatRole(ROLES[item.kind])
    return refold.chat.ChatMessage(role=role, content=[item.text])


def stream_key(context: str) -> int:
    """Return the integer under which the bare databases keep a context, the same in every process."""
    return int.from_bytes(hashlib.blake2b(context.encode(), digest_size=4).digest(), "big") >> 1
