"""
The rules of a chat context: commands in, events out, nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

import msgspec

from ..addressing import require_name
from ..decider import Decider
from ..errors import DuplicateItemError, InvalidInputError
from .events import ChatEvent, ChatItemEvent, Named, Opened
from .state import EMPTY, ChatState, fold

__all__ = ["CHAT", "AddItems", "ChatCommand", "NameVersion", "Open", "decide"]


class Open(msgspec.Struct, frozen=True):
    """Bring the context into being."""

    opened: Opened


class AddItems(msgspec.Struct, frozen=True):
    """
    Put items at the end, in this order, all or none; `fresh` says that their ids were drawn for them just now.
    """

    stream: str
    items: tuple[ChatItemEvent, ...]
    fresh: bool = False


class NameVersion(msgspec.Struct, frozen=True):
    """Give a version a name."""

    name: str
    version: int


ChatCommand = Open | AddItems | NameVersion


def decide(command: ChatCommand, state: ChatState) -> Sequence[ChatEvent]:
    """
    Return the events that carry out `command`; none where it is so already.

    Raises:
        DuplicateItemError: an item id is taken by an item with other content.
        InvalidInputError: a name or a version that cannot be.
    """
    match command:
        case AddItems(stream=stream, items=items, fresh=fresh):
            return items if fresh else _new_items(stream, items, state)
        case Open(opened=opened):
            return [] if state.opened else [opened]
        case NameVersion(name=name, version=version):
            return _name(require_name(name), version, state)
        case _:
            assert_never(command)


def _new_items(stream: str, items: Sequence[ChatItemEvent], state: ChatState) -> list[ChatEvent]:
    fresh: dict[str, ChatItemEvent] = {}
    for item in items:
        place = state.items.find(item.id)
        known = fresh.get(item.id) if place is None else state.items[place]
        if known is None:
            fresh[item.id] = item
        elif not _same(known, item):
            raise DuplicateItemError(stream, item.id)
    return list(fresh.values())


def _same(known: ChatItemEvent, item: ChatItemEvent) -> bool:
    """The time is information about an item, not a part of what it says."""
    if type(known) is not type(item):
        return False
    return known == msgspec.structs.replace(item, created_at=known.created_at, origin=known.origin)


def _name(name: str, version: int, state: ChatState) -> list[ChatEvent]:
    if state.names.get(name) == version:
        return []
    if not version > 0:
        raise InvalidInputError(f"version {version} cannot be named: versions go from 1")
    return [Named(name=name, version=version)]


CHAT: Decider[ChatState] = Decider(decide, fold, EMPTY)
