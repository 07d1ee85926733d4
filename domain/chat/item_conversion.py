"""
Conversion of events to public items and back.

An item made from an event skips validation: the event was validated when it was recorded. Setting the fields directly
takes a third of the time of validation, which is most of the cost of reading a long context.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from ..canonical import canonical_json, parse_json, require_unicode
from ..clock import require_time
from ..errors import InvalidInputError
from ..frozen import FrozenDict, FrozenList, freeze
from ..log.envelope import encode_payload
from .events import (
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    Image,
    MessageAdded,
    added_item,
)
from .items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatItem,
    ChatMessage,
    EncodeOptions,
    FunctionCall,
    FunctionCallOutput,
    ImageContent,
    InvalidItemError,
)
from .roles import ROLES

M = TypeVar("M", bound=BaseModel)
NO_EXTRA: FrozenDict[str, Any] = FrozenDict()
_new = object.__new__
# The slots of a pydantic model, which are set without its validation.
_put_fields, _put_names, _put_extra, _put_private = (
    BaseModel.__dict__[slot].__set__
    for slot in ("__dict__", "__pydantic_fields_set__", "__pydantic_extra__", "__pydantic_private__")
)
MODELS: dict[type[ChatItemEvent], type[BaseModel]] = {
    MessageAdded: ChatMessage,
    FunctionCalled: FunctionCall,
    FunctionReturned: FunctionCallOutput,
    HandedOff: AgentHandoff,
    ConfigUpdated: AgentConfigUpdate,
}
# The model of each type of item, and the names of its fields. All items of a model have one set: they are frozen, and a
# set for each would double the work of the collector.
MODEL_FIELDS: dict[str, tuple[type[BaseModel], set[str]]] = {
    model.model_fields["type"].default: (model, set(model.model_fields)) for model in MODELS.values()
}


def item_of(event: ChatItemEvent, version: int | None = None) -> ChatItem:
    """Return the public item that an event added; `version` is the one with which it came to its context."""
    fields = fields_of(event, version)
    model, names = MODEL_FIELDS[fields["type"]]
    made: Any = _new(model)
    # The setters of the slots take a third of the time of `object.__setattr__`, which looks up each slot.
    _put_fields(made, fields)
    _put_names(made, names)
    _put_extra(made, None)
    _put_private(made, None)
    return made  # type: ignore[no-any-return]  # of the model


def fields_of(event: ChatItemEvent, version: int | None) -> dict[str, Any]:
    """Return the fields of the public item that an event added."""
    return _FIELDS[type(event)](event, version)


def items_added(events: Sequence[Any], last: int) -> list[ChatItem]:
    """Return the public items that the events of a context added, given the version of the last event."""
    versions = range(last - len(events) + 1, last + 1)
    added = ((added_item(event), version) for event, version in zip(events, versions, strict=True))
    return [item_of(item, version) for item, version in added if item is not None]


def recorded_form(item: ChatItem) -> ChatItemEvent:
    """
    Return the event that adds an item.

    Raises:
        InvalidInputError: it is no item, a field of it is invalid, a text holds a lone surrogate, open JSON is not
            JSON, or the time is not a finite number; the error names the item.
    """
    recorder = _RECORDERS.get(type(item))
    if recorder is None:
        remedy = (
            "give a ChatMessage, FunctionCall, FunctionCallOutput, AgentHandoff or AgentConfigUpdate; "
            "ChatContext.from_openai_messages and others make items of a provider's messages"
        )
        for kind in _RECORDERS:
            if isinstance(item, kind):
                remedy = f"its class is {type(item).__name__}, and no event has one; give a {kind.__name__} itself"
        raise InvalidInputError(f"{item!r:.100} is no item of a chat: {remedy}")
    try:
        event = recorder(_timed(item))
    except (AttributeError, TypeError):
        event = recorder(_timed(_validated(type(item), vars(item))))
    try:
        encode_payload(event)
    except UnicodeEncodeError:
        for field in event.__struct_fields__:
            _check_text(getattr(event, field), f"{field} of {item.type} {item.id!r}")
        raise
    return event


def validated_event(event_type: type[ChatItemEvent], fields: dict[str, Any]) -> ChatItemEvent:
    """
    Return the event that adds an item with these fields, which have the names of the item's fields.

    Raises:
        InvalidInputError: as for `recorded_form`.
    """
    return recorded_form(_validated(MODELS[event_type], fields))  # type: ignore[arg-type]  # one of the models


def _timed(item: ChatItem) -> ChatItem:
    require_time(item.created_at, f"created_at of {item.type} {item.id!r}")
    return item


def _validated(model: type[M], fields: dict[str, Any]) -> M:
    """Return a validated item with these fields; those of an item that `model_construct` made were never checked."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise InvalidItemError.of(error) from None


def _check_text(value: object, what: str) -> None:
    if isinstance(value, str):
        require_unicode(value, what)
    elif isinstance(value, tuple):
        for index, part in enumerate(value):
            texts = (part.image, part.id) if isinstance(part, Image) else (part,)
            for text in texts:
                _check_text(text, f"{what}, part {index},")


def _frozen_json(data: bytes) -> Any:
    return freeze(parse_json(data))


def _image_of(part: Image) -> ImageContent:
    options = EncodeOptions.model_validate_json(part.encode_options) if part.encode_options else EncodeOptions()
    return ImageContent.model_construct(
        id=part.id, image=part.image, inference_detail=part.inference_detail, encode_options=options
    )


def _content_of(content: str | tuple[str | Image, ...]) -> str | FrozenList[str | ImageContent]:
    if isinstance(content, str):
        return content
    if len(content) == 1 and isinstance(content[0], str):
        # By far the most frequent form, so it gets a path without a loop.
        return FrozenList(content)  # type: ignore[arg-type]  # a tuple of one text
    return FrozenList([part if isinstance(part, str) else _image_of(part) for part in content])


def _message(event: MessageAdded, version: int | None) -> dict[str, Any]:
    extra, metrics = event.extra, event.metrics
    return {
        "version": version,
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id, "type": "message",
        "role": ROLES[event.role], "content": _content_of(event.content), "interrupted": event.interrupted,
        "extra": _frozen_json(extra) if extra else NO_EXTRA, "confidence": event.confidence,
        "metrics": _frozen_json(metrics) if metrics else None,
        "audio_instructions": event.audio_instructions, "text_instructions": event.text_instructions,
        "incomplete": event.incomplete,
    }  # fmt: skip


def _call(event: FunctionCalled, version: int | None) -> dict[str, Any]:
    return {
        "version": version,
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id, "type": "function_call",
        "name": event.name, "arguments": event.arguments, "call_id": event.call_id,
        "metadata": _frozen_json(event.metadata) if event.metadata else None,
    }  # fmt: skip


def _output(event: FunctionReturned, version: int | None) -> dict[str, Any]:
    return {
        "version": version,
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id,
        "type": "function_call_output", "name": event.name, "call_id": event.call_id, "output": event.output,
        "is_error": event.is_error, "call_item_id": event.call_item_id,
    }  # fmt: skip


def _handoff(event: HandedOff, version: int | None) -> dict[str, Any]:
    return {
        "version": version,
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id, "type": "agent_handoff",
        "from_agent": event.from_agent, "to_agent": event.to_agent, "reason": event.reason,
    }  # fmt: skip


def _config(event: ConfigUpdated, version: int | None) -> dict[str, Any]:
    return {
        "version": version,
        "created_at": event.created_at, "agent_id": event.agent_id, "id": event.id,
        "type": "agent_config_update", "instructions": event.instructions,
        "tools": None if event.tools is None else FrozenList(event.tools),
        "tool_schemas": _frozen_json(event.tool_schemas), "settings": _frozen_json(event.settings),
    }  # fmt: skip


_FIELDS: dict[type, Callable[[Any, int | None], dict[str, Any]]] = {
    MessageAdded: _message,
    FunctionCalled: _call,
    FunctionReturned: _output,
    HandedOff: _handoff,
    ConfigUpdated: _config,
}


def _parts(content: Sequence[Any], message_id: str) -> tuple[str | Image, ...]:
    if len(content) == 1 and type(content[0]) is str:
        return (content[0],)
    return tuple([_part(part, f"message {message_id!r}") for part in content])


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
        encode_options=canonical_json(options, what=what) if options else b"",
    )


def _record_message(item: ChatMessage) -> MessageAdded:
    content, extra, metrics = item.content, item.extra, item.metrics
    return MessageAdded(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        role=item.role.value,
        content=content if isinstance(content, str) else _parts(content, item.id),
        interrupted=item.interrupted,
        extra=canonical_json(extra, what=f"extra of message {item.id!r}") if extra else b"",
        confidence=item.confidence,
        metrics=b"" if metrics is None else canonical_json(metrics, what=f"metrics of message {item.id!r}"),
        audio_instructions=item.audio_instructions,
        text_instructions=item.text_instructions,
        incomplete=item.incomplete,
    )


def _record_call(item: FunctionCall) -> FunctionCalled:
    metadata = b""
    if item.metadata is not None:
        metadata = canonical_json(item.metadata, what=f"metadata of function_call {item.id!r}")
    return FunctionCalled(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        name=item.name,
        arguments=item.arguments,
        call_id=item.call_id,
        metadata=metadata,
    )


def _record_output(item: FunctionCallOutput) -> FunctionReturned:
    return FunctionReturned(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        name=item.name,
        output=item.output,
        call_id=item.call_id,
        is_error=item.is_error,
        call_item_id=item.call_item_id,
    )


def _record_handoff(item: AgentHandoff) -> HandedOff:
    return HandedOff(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        to_agent=item.to_agent,
        from_agent=item.from_agent,
        reason=item.reason,
    )


def _record_config(item: AgentConfigUpdate) -> ConfigUpdated:
    return ConfigUpdated(
        id=item.id,
        created_at=item.created_at,
        agent_id=item.agent_id,
        instructions=item.instructions,
        tools=None if item.tools is None else tuple(item.tools),
        tool_schemas=b"" if item.tool_schemas is None else _canonical(item, "tool_schemas"),
        settings=b"" if item.settings is None else _canonical(item, "settings"),
    )


def _canonical(item: AgentConfigUpdate, field: str) -> bytes:
    return canonical_json(getattr(item, field), what=f"{field} of agent_config_update {item.id!r}")


_RECORDERS: dict[type, Callable[[Any], ChatItemEvent]] = {
    ChatMessage: _record_message,
    FunctionCall: _record_call,
    FunctionCallOutput: _record_output,
    AgentHandoff: _record_handoff,
    AgentConfigUpdate: _record_config,
}
