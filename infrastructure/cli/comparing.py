"""
What two versions have and have not in common.

Items are aligned by what they say, so that two runs of one task can be compared as well as two versions of one
context; an item that says something else under the same id is a changed one, and one that says the same in another
place a moved one.
"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import takewhile
from typing import NamedTuple

import msgspec

from ...domain.chat.events import ChatItemEvent, Image, MessageAdded
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, QueueAppended
from ...domain.window.events import WindowItemEvent
from ..queries.origins import Item, id_of
from .entries import Entry


class Changes(NamedTuple):
    """Items of the second version that are new, items of the first that are gone, pairs that differ, moved items."""

    added: list[Entry]
    removed: list[Entry]
    changed: list[tuple[Entry, Entry]]
    moved: list[Entry]

    def __bool__(self) -> bool:
        return any(self)


def changes_between(before: Sequence[Entry], after: Sequence[Entry]) -> Changes:
    """Return what makes the items `after` of the items `before`."""
    olds, news = [_said(entry.item) for entry in before], [_said(entry.item) for entry in after]
    # What they begin with in common is nearly everything, and costs the matcher most.
    start = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(olds, news, strict=False)))
    removed: list[Entry] = []
    added: list[Entry] = []
    for tag, i, j, k, m in SequenceMatcher(None, olds[start:], news[start:]).get_opcodes():
        if tag != "equal":
            removed += before[start + i : start + j]
            added += after[start + k : start + m]
    return _paired(added, removed)


def _paired(added: list[Entry], removed: list[Entry]) -> Changes:
    gone: dict[str | None, list[Entry]] = {}
    for entry in removed:
        gone.setdefault(_name(entry), []).append(entry)
    changes = Changes([], [], [], [])
    for new in added:
        candidates = gone.get(_name(new))
        old = candidates.pop(0) if candidates else None
        if old is None:
            changes.added.append(new)
        elif _said(old.item) == _said(new.item):
            changes.moved.append(new)
        else:
            changes.changed.append((old, new))
    changes.removed.extend(entry for entry in removed if entry in gone[_name(entry)])
    return changes


def _name(entry: Entry) -> str | None:
    """By what an item is known although it says something else; in a queue it is never another one than it was."""
    return entry.recorded.reference if isinstance(entry.item, QueueAppended) else id_of(entry.item)


def _said(item: Item) -> bytes:
    """What an item says, without its id, its time and the shape it came in; a name of the user's own is part of it."""
    match item:
        case AddedEvent():
            return msgspec.msgpack.encode((item.id, item.description, item.content))
        case WindowItemEvent():
            return msgspec.msgpack.encode((item.key, item.value, item.source, item.priority))
        case MemoryRemembered():
            return msgspec.msgpack.encode((item.key, item.value, item.kind, item.tags))
        case _:
            return _said_in_chat(item)


def _said_in_chat(item: ChatItemEvent) -> bytes:
    bare = msgspec.structs.replace(item, id="", created_at=0.0, origin=None)
    if isinstance(bare, MessageAdded) and not isinstance(bare.content, str):
        parts = (msgspec.structs.replace(p, id="") if isinstance(p, Image) else p for p in bare.content)
        bare = msgspec.structs.replace(bare, content=tuple(parts))
    return msgspec.msgpack.encode(bare)
