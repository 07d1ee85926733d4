"""
Anthropic messages in their imported form, built from items and their `Origin`. Nothing is moved, left out or repaired.

`Origin.rest` of the first item of an imported message has the key `anthropic`; other items have it only if there is
data to keep. Its keys are left out if they have no value:

    message    fields other than role and content           blocks  patches of the item's blocks, by their index
    system     it was the system text of the request        places  places of the item's blocks, if not in order
    continues  the message continues the previous one, from texts   lengths of the text blocks of an output
               which its source had separated it            json    the output was not text and is kept as JSON
    role       of the message, if the item's kind differs   whole   the original message, of `items` items
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from ...canonical import parse_json
from ...chat import events as chat
from ...chat.state.fold import active_config
from ...errors import MISSHAPEN
from ..send import arguments_of
from ..source_json import patched

SYSTEM = "system"
Beside = dict[str, Any]
AnthropicMessage = dict[str, Any]
AsCame = tuple[list[AnthropicMessage], str | list[dict[str, Any]] | None]


def messages_as_came(items: Iterable[chat.ChatItemEvent]) -> AsCame | None:
    """
    Return the messages and the system text of an imported context, or None if nothing in it was imported.

    Items that were added later have the plain shape; consecutive ones of one role are then one message.
    """
    listed = list(items)
    if listed and all(beside_of(item) is None for item in listed):
        return None
    groups = _grouped(listed)
    said = [group for group in groups if not _is_system_text(group[0])]
    return [_joined(group) for group in said], _system_text(
        listed, groups, {item.id for group in said for item in group}
    )


def source_messages(items: Iterable[chat.ChatItemEvent]) -> list[AnthropicMessage]:
    """Return all messages, a system text too, each as its source had it, even if it continues another message."""
    return [message_of(piece) for group in _grouped(items) for piece in _pieces(group)]


def beside_of(item: chat.ChatItemEvent) -> Beside | None:
    """Return the part of `Origin.rest` about Anthropic, or None."""
    if item.origin is None or b'"anthropic"' not in item.origin.rest:
        return None
    beside = parse_json(item.origin.rest).get("anthropic")
    return beside if isinstance(beside, dict) else None


def message_of(piece: Sequence[chat.ChatItemEvent]) -> AnthropicMessage:
    """Return the message of these consecutive items."""
    try:
        return _message_of(piece, [beside_of(item) or {} for item in piece])
    except MISSHAPEN:
        return _message_of(piece, [{}] * len(piece))


def require_shape(items: Sequence[chat.ChatItemEvent]) -> None:
    """
    Check, before items are recorded, that messages can be built from them and their origins.

    Raises:
        LookupError, TypeError, ValueError, AttributeError: they cannot.
    """
    for piece in (piece for group in _grouped(items) for piece in _pieces(group)):
        _message_of(piece, [beside_of(item) or {} for item in piece])


def _message_of(piece: Sequence[chat.ChatItemEvent], besides: Sequence[Beside]) -> AnthropicMessage:
    first = besides[0]
    if "whole" in first and first["items"] == len(piece):
        return dict(first["whole"])
    return {"role": role_of(piece[0]), "content": _content(piece, besides), **first.get("message", {})}


def plain_blocks(item: chat.ChatItemEvent, beside: Beside) -> list[dict[str, Any]]:
    """Return the blocks of an item, before their patches."""
    if isinstance(item, chat.MessageAdded):
        said = [text_block(part) if isinstance(part, str) else _image(part) for part in item.parts]
        return kept_blocks(item.extra) + said
    if isinstance(item, chat.FunctionCalled):
        use = {"type": "tool_use", "id": item.call_id, "name": item.name, "input": arguments_of(item.arguments)}
        return [*kept_blocks(item.metadata), use]
    if isinstance(item, chat.FunctionReturned):
        result = {"type": "tool_result", "tool_use_id": item.call_id, "content": _output(item.output, beside)}
        return [{**result, "is_error": True} if item.is_error else result]
    return []


# Which items form one message


def _grouped(items: Iterable[chat.ChatItemEvent]) -> list[list[chat.ChatItemEvent]]:
    groups: list[list[chat.ChatItemEvent]] = []
    for item in items:
        if isinstance(item, chat.ABOUT_CONVERSATION):
            continue
        if groups and _belongs(item, groups[-1][-1]):
            groups[-1].append(item)
        else:
            groups.append([item])
    return groups


def _belongs(item: chat.ChatItemEvent, last: chat.ChatItemEvent) -> bool:
    if role_of(item) != role_of(last):
        return False
    if item.origin is None:
        return last.origin is None
    return not item.origin.starts and last.origin is not None


def role_of(item: chat.ChatItemEvent) -> str:
    """Return the role of the message that contains this item."""
    if item.origin is not None and b'"role"' in item.origin.rest:
        beside = beside_of(item) or {}
        if "role" in beside:
            return str(beside["role"])
    if isinstance(item, chat.MessageAdded):
        return item.role
    return "assistant" if isinstance(item, chat.FunctionCalled) else "user"


def _pieces(group: Sequence[chat.ChatItemEvent]) -> list[list[chat.ChatItemEvent]]:
    """Split a message where its source had split it."""
    pieces: list[list[chat.ChatItemEvent]] = []
    for item in group:
        if not pieces or (beside_of(item) or {}).get("continues"):
            pieces.append([])
        pieces[-1].append(item)
    return pieces


def _joined(group: Sequence[chat.ChatItemEvent]) -> AnthropicMessage:
    """Return one message; if its pieces have the same field, the last piece wins."""
    first, *others = map(message_of, _pieces(group))
    for other in others:
        content = [*_as_blocks(first.get("content", "")), *_as_blocks(other.get("content", ""))]
        first = {**first, **other, "content": content}
    return first


# The system text


def _is_system_text(item: chat.ChatItemEvent) -> bool:
    """Whether an item belongs to the system text; imported instructions that were among the messages do not."""
    beside = beside_of(item)
    return chat.is_instructions(item) and (beside is None or SYSTEM in beside)


def _system_text(
    items: Iterable[chat.ChatItemEvent], groups: Iterable[list[chat.ChatItemEvent]], said: set[str]
) -> str | list[dict[str, Any]] | None:
    bearing = [item for item in items if chat.sets_config(item) and item.id not in said]
    telling = [item for item in bearing if getattr(item, "instructions", "") is not None]
    for group in groups:
        if telling and group[-1] is telling[-1] and SYSTEM in (beside_of(group[0]) or {}):
            came: str | list[dict[str, Any]] = message_of(group).get("content", "")
            return came
    return active_config(bearing)[0]


# Contents and blocks


def _content(piece: Sequence[chat.ChatItemEvent], besides: Sequence[Beside]) -> str | list[dict[str, Any]]:
    first = piece[0]
    if len(piece) == 1 and isinstance(first, chat.MessageAdded) and isinstance(first.content, str) and not first.extra:
        return first.content
    blocks = [_blocks(item, beside) for item, beside in zip(piece, besides, strict=True)]
    listed = [block for some in blocks for block in some]
    places = [place for beside in besides for place in beside.get("places", ())]
    if len(places) != len(listed):
        # Either the blocks are in this order already, or some of them are no longer there.
        return listed
    return [block for _, block in sorted(zip(places, listed, strict=True), key=lambda placed: placed[0])]


def _blocks(item: chat.ChatItemEvent, beside: Beside) -> list[dict[str, Any]]:
    patches = beside.get("blocks", {})
    return [patched(block, patches.get(str(index), {})) for index, block in enumerate(plain_blocks(item, beside))]


def _as_blocks(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [text_block(content)] if isinstance(content, str) else content


def kept_blocks(beside: bytes) -> list[dict[str, Any]]:
    """Return the blocks that are kept beside an item, in its `extra` or `metadata`."""
    kept = parse_json(beside).get("anthropic") if b'"anthropic"' in beside else None
    blocks = kept.get("blocks") if isinstance(kept, dict) else None
    return [dict(block) for block in blocks if isinstance(block, dict)] if isinstance(blocks, list) else []


def text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _image(image: chat.Image) -> dict[str, Any]:
    start, marked, data = image.image.partition(";base64,")
    if marked and start.startswith("data:"):
        media_type = start.removeprefix("data:")
        return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
    return {"type": "image", "source": {"type": "url", "url": image.image}}


def _output(output: str, beside: Beside) -> Any:
    if "json" in beside:
        return json.loads(output)
    if "texts" not in beside:
        return output
    parts, start = [], 0
    for length in beside["texts"]:
        parts.append(text_block(output[start : start + length]))
        # The texts are joined by a newline.
        start += length + 1
    return parts
