"""
The events of a chat context.

A tag is kept for ever; a field is never renamed, retyped or reused, and a new one has a default. Open JSON
lies in `bytes` in its canonical form. Items are events: what was added is stored once, here.
"""

from __future__ import annotations

import msgspec

__all__ = [
    "ITEM_EVENTS",
    "ChatEvent",
    "ChatItemEvent",
    "ConfigUpdated",
    "FunctionCalled",
    "FunctionReturned",
    "HandedOff",
    "Image",
    "MessageAdded",
    "Named",
    "Opened",
    "Origin",
]


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="t"):
    """Base of all chat events: a msgpack map with the tag under `t`."""


class Origin(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """
    The shape an imported item had at its source, so that it can be given back as it came.

    `starts` is true for the first item of a source message. `rest` is canonical JSON of what the items
    themselves do not say: see `refold.domain.chat.openai_shape`.
    """

    starts: bool = True
    rest: bytes = b""


class Image(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An image part: `image` is a URL or a data URL; `encode_options` is canonical JSON or empty."""

    id: str
    image: str
    inference_detail: str = "auto"
    encode_options: bytes = b""


class Opened(_Event, frozen=True, kw_only=True, tag="chat.opened.v1"):
    """The context came to be. `attributes` is canonical JSON of what its source said about it."""

    user: str | None = None
    session: str | None = None
    agent: str | None = None
    source: str | None = None
    attributes: bytes = b""


class _ItemEvent(_Event, frozen=True, kw_only=True):
    """Base of the events that add an item; `created_at` is in seconds since 1970, UTC."""

    id: str
    created_at: float
    agent_id: str | None = None
    origin: Origin | None = None


class MessageAdded(_ItemEvent, frozen=True, kw_only=True, tag="chat.message_added.v1"):
    """A message: text, or parts of text and images (SPEC V1.5)."""

    role: str
    content: str | tuple[str | Image, ...]
    interrupted: bool = False
    extra: bytes = b""
    confidence: float | None = None
    metrics: bytes = b""
    audio_instructions: str | None = None
    text_instructions: str | None = None


class FunctionCalled(_ItemEvent, frozen=True, kw_only=True, tag="chat.function_called.v1"):
    """The model asked for a function; `arguments` is the model's own text (SPEC V1.7)."""

    name: str
    arguments: str
    call_id: str
    metadata: bytes = b""


class FunctionReturned(_ItemEvent, frozen=True, kw_only=True, tag="chat.function_returned.v1"):
    """A function answered, or failed (SPEC V1.8)."""

    name: str
    output: str
    call_id: str
    is_error: bool = False


class HandedOff(_ItemEvent, frozen=True, kw_only=True, tag="chat.handed_off.v1"):
    """Control went from one agent to another (SPEC V1.9)."""

    to_agent: str
    from_agent: str | None = None
    reason: str | None = None


class ConfigUpdated(_ItemEvent, frozen=True, kw_only=True, tag="chat.config_updated.v1"):
    """Instructions or tools changed in mid-conversation; None leaves a part as it is (SPEC V1.9)."""

    instructions: str | None = None
    tools: tuple[str, ...] | None = None


class Named(_Event, frozen=True, kw_only=True, tag="chat.named.v1"):
    """A version got a name; the same name given again moves it."""

    name: str
    version: int


ChatItemEvent = MessageAdded | FunctionCalled | FunctionReturned | HandedOff | ConfigUpdated
ChatEvent = Opened | ChatItemEvent | Named
ITEM_EVENTS = (MessageAdded, FunctionCalled, FunctionReturned, HandedOff, ConfigUpdated)
