"""
Queues and pools as dicts, and back.

Content goes through the codec, so the dict is JSON whatever was put in: an instance of a class lies there as JSON,
with `content_type` beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..content import plain_content, typed_content
from ..hooks import rebuild_hooks_from_serialization, serialize_hooks_by_type
from .commands import Add
from .events import AddedEvent
from .items import ContextItem

if TYPE_CHECKING:
    from .container import Container


def container_to_dict(container: Container[Any]) -> dict[str, Any]:
    """
    Return the limit, the items, the hooks by type and name, and the tags, sorted.

    Raises:
        UnserializableHookError: a hook could not be found again by its name.
    """
    return {
        "limit": container.shown_state.limit,
        "items": [_item_to_dict(event) for event in container.added_events()],
        "hooks": serialize_hooks_by_type(container.hooks),
        "tags": sorted(container.tags),
    }


def fill_from_dict(container: Container[Any], data: Mapping[str, Any]) -> None:
    """
    Put the items and hooks of `container_to_dict` into a new container; no hook is called.

    The limit holds here too: where there are more items, the newest stay.

    Raises:
        KeyError: an item has no content.
        InvalidInputError: content that cannot be stored.
        UnregisteredHookError: a hook's name is not registered.
    """
    items = tuple(container.added_event(_item_from_dict(item)) for item in data.get("items", ()))
    hooks = rebuild_hooks_from_serialization(data.get("hooks", {}), container.hook_types)
    container.put_in(Add(items))
    container.hooks = hooks


def _item_to_dict(event: AddedEvent) -> dict[str, Any]:
    item = {"id": event.id, "description": event.description, "content": plain_content(event.content)}
    return {**item, "content_type": event.content.type} if event.content.type else item


def _item_from_dict(data: Mapping[str, Any]) -> ContextItem[Any]:
    item = ContextItem.from_dict(data)
    if "content_type" not in data:
        return item
    return ContextItem(typed_content(str(data["content_type"]), item.content), item.description, item.id)
