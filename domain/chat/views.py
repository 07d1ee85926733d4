"""
From events to public items and back.

An item made from an event skips validation: the event was validated when it was recorded. Filling the fields
directly takes a third of the time of validating, which is most of the cost of reading a long context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from pydantic import BaseModel

from ..canonical import canonical_json, parse_json, require_unicode
from ..envelope import encode_payload
from ..errors import InvalidInputError
from ..frozen import FrozenDict, FrozenList, freeze
from .events import (
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
    Origin,
)
from .items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatItem,
    ChatMessage,
    ChatRole,
    EncodeOptions,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
)

__all__ = ["item_of", "recorded_form"]

M = TypeVar("M", bound=BaseModel)
ROLES = {role.value: role for role in ChatRole}
NO_EXTRA: FrozenDict[str, Any] = FrozenDict()
# One set for all items of a model: they are frozen, and a set each would double the work of the collector.
_FIELDS: dict[type[BaseModel], set[str]] = {
    model: set(model.model_fields)
    for model in (ChatMessage, FunctionCall, FunctionCallOutput, AgentHandoff, AgentConfigUpdate)
}


def item_of(event: ChatItemEvent) -> ChatItem:
    """
    Return the public item that an event added.
    """
    return _MAKERS[type(event)](event)


def recorded_form(item: ChatItem, *, origin: Origin | None = None) -> ChatItemEvent:
    """
    Return the event that adds an item.

    Raises:
        InvalidInputError: a text holds a lone surrogate, or open JSON is not JSON; the item is named.
    """
    event = _RECORDERS[type(item)](item, origin)
    try:
        encode_payload(event)
    except UnicodeEncodeError:
        for field in event.__struct_fields__:
            _check_text(getattr(event, field), f"{field} of {item.type} {item.id!r}")
        raise
    return event


def _check_text(value: object, what: str) -> None:
    if isinstance(value, str):
        require_unicode(value, what)
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            texts = (part.image, part.id) if isinstance(part, Image) else (part,)
            for text in texts:
                _check_text(text, f"{what}, part {index},")


def _filled(model: type[M], fields: dict[str, Any]) -> M:
    made = model.__new__(model)
    put = object.__setattr__
    put(made, "__dict__", fields)
    put(made, "__pydantic_fields_set__", _FIELDS[model])
    put(made, "__pydantic_extra__", None)
    put(made, "__pydantic_private__", None)
    return made


def _frozen_json(data: bytes, absent: Any) -> Any:
    return freeze(parse_json(data)) if data else absent


def _image_of(part: Image) -> ImageContent:
    options = EncodeOptions.model_validate_json(part.encode_options) if part.encode_options else EncodeOptions()
    return ImageContent.model_construct(
        id=part.id, image=part.image, inference_detail=part.inference_detail, encode_options=options
    )


def _content_of(content: str | tuple[str | Image, ...]) -> str | FrozenList[str | ImageContent]:
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], str):
        # By far the most frequent form, worth not looping over.
        return FrozenList((content[0],))
    return FrozenList([part if isinstance(part, str) else _image_of(part) for part in content])


def _message(event: MessageAdded) -> ChatMessage:
    return _filled(ChatMessage, {
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id, "type": "message",
        "role": ROLES[event.role], "content": _content_of(event.content), "interrupted": event.interrupted,
        "extra": _frozen_json(event.extra, NO_EXTRA), "confidence": event.confidence,
        "metrics": _frozen_json(event.metrics, None),
        "audio_instructions": event.audio_instructions, "text_instructions": event.text_instructions,
    })  # fmt: skip


def _call(event: FunctionCalled) -> FunctionCall:
    return _filled(FunctionCall, {
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id, "type": "function_call",
        "name": event.name, "arguments": event.arguments, "call_id": event.call_id,
        "metadata": _frozen_json(event.metadata, None),
    })  # fmt: skip


def _output(event: FunctionReturned) -> FunctionCallOutput:
    return _filled(FunctionCallOutput, {
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id,
        "type": "function_call_output", "name": event.name, "call_id": event.call_id, "output": event.output,
        "is_error": event.is_error,
    })  # fmt: skip


def _handoff(event: HandedOff) -> AgentHandoff:
    return _filled(AgentHandoff, {
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id, "type": "agent_handoff",
        "from_agent": event.from_agent, "to_agent": event.to_agent, "reason": event.reason,
    })  # fmt: skip


def _config(event: ConfigUpdated) -> AgentConfigUpdate:
    return _filled(AgentConfigUpdate, {
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id,
        "type": "agent_config_update", "instructions": event.instructions,
        "tools": None if event.tools is None else FrozenList(event.tools),
    })  # fmt: skip


_MAKERS: dict[type, Callable[[Any], ChatItem]] = {
    MessageAdded: _message,
    FunctionCalled: _call,
    FunctionReturned: _output,
    HandedOff: _handoff,
    ConfigUpdated: _config,
}


def _json(value: Any, what: str) -> bytes:
    return canonical_json(value, what=what) if value else b""


def _part(part: Any, what: str) -> str | Image:
    if isinstance(part, str):
        return part
    if not isinstance(part, ImageContent):
        raise InvalidInputError(f"{what} holds a {type(part).__name__}: parts are text or ImageContent")
    options = {} if part.encode_options == EncodeOptions() else part.encode_options.model_dump()
    return Image(
        id=part.id,
        image=part.image,
        inference_detail=part.inference_detail,
        encode_options=_json(options, what),
    )


def _record_message(item: ChatMessage, origin: Origin | None) -> MessageAdded:
    what = f"message {item.id!r}"
    content = item.content
    return MessageAdded(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        origin=origin,
        role=item.role.value,
        content=content if isinstance(content, str) else tuple(_part(part, what) for part in content),
        interrupted=item.interrupted,
        extra=_json(item.extra, f"extra of {what}"),
        confidence=item.confidence,
        metrics=b"" if item.metrics is None else canonical_json(item.metrics, what=f"metrics of {what}"),
        audio_instructions=item.audio_instructions,
        text_instructions=item.text_instructions,
    )


def _record_call(item: FunctionCall, origin: Origin | None) -> FunctionCalled:
    metadata = b""
    if item.metadata is not None:
        metadata = canonical_json(item.metadata, what=f"metadata of function_call {item.id!r}")
    return FunctionCalled(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        origin=origin,
        name=item.name,
        arguments=item.arguments,
        call_id=item.call_id,
        metadata=metadata,
    )


def _record_output(item: FunctionCallOutput, origin: Origin | None) -> FunctionReturned:
    return FunctionReturned(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        origin=origin,
        name=item.name,
        output=item.output,
        call_id=item.call_id,
        is_error=item.is_error,
    )


def _record_handoff(item: AgentHandoff, origin: Origin | None) -> HandedOff:
    return HandedOff(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        origin=origin,
        to_agent=item.to_agent,
        from_agent=item.from_agent,
        reason=item.reason,
    )


def _record_config(item: AgentConfigUpdate, origin: Origin | None) -> ConfigUpdated:
    return ConfigUpdated(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        origin=origin,
        instructions=item.instructions,
        tools=None if item.tools is None else tuple(item.tools),
    )


_RECORDERS: dict[type, Callable[[Any, Origin | None], ChatItemEvent]] = {
    ChatMessage: _record_message,
    FunctionCall: _record_call,
    FunctionCallOutput: _record_output,
    AgentHandoff: _record_handoff,
    AgentConfigUpdate: _record_config,
}
