"""Items of all kinds of contexts as plain data, for JSON that people and other programs read."""

from __future__ import annotations

from typing import Any

from ..domain.chat.dict_form import items_to_dict
from ..domain.chat.views import item_of
from ..domain.content import Content, plain_content
from ..domain.memory.events import MemoryRemembered
from ..domain.pool.events import AddedEvent
from ..domain.window.events import WindowItemEvent
from .auditing.births import Item
from .exact_times import exact


def plain_item(item: Item) -> dict[str, Any]:
    """
    Return an item as plain data: one of a chat as `ChatContext.to_dict()` has it; contents and values as the JSON they
    are, beside the class they are of.
    """
    match item:
        case AddedEvent():
            return {"id": item.id, "description": item.description, **_content_shape("content", item.content)}
        case WindowItemEvent():
            return {"key": item.key, "value": item.value, "source": item.source, "priority": item.priority}
        case MemoryRemembered():
            times = {"timestamp": exact(item.first_at), "updated_at": exact(item.at)}
            about = {"kind": item.kind, "tags": list(item.tags)}
            return {"key": item.key, **_content_shape("value", item.value), **about, **times}
        case _:
            plain: dict[str, Any] = items_to_dict([item_of(item)])["items"][0]
            return plain


def _content_shape(name: str, content: Content) -> dict[str, Any]:
    return {name: plain_content(content), f"{name}_type": content.type or None}
