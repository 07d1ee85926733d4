"""The differences between the items of two contexts, or of two versions of one."""

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
from .shapes import Entry


class Changes(NamedTuple):
    """Items that only the second version has, items that only the first has, pairs that differ, and moved items."""

    added: list[Entry]
    removed: list[Entry]
    changed: list[tuple[Entry, Entry]]
    moved: list[Entry]

    def __bool__(self) -> bool:
        return any(self)


def changes_between(before: Sequence[Entry], after: Sequence[Entry]) -> Changes:
    """Return the changes that turn the items `before` into the items `after`."""
    olds, news = [_said(entry.item) for entry in before], [_said(entry.item) for entry in after]
    # The common beginning is skipped: it is nearly everything, and would cost the matcher most.
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
    """
    Return the name by which an item is the same although its content differs.

    An item of a queue never changes its content, so its name is its event.
    """
    return entry.recorded.reference if isinstance(entry.item, QueueAppended) else id_of(entry.item)


def _said(item: Item) -> bytes:
    """Return the content of an item, without its id, time and source, but with a name that the user gave."""
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
    if isinstance(bare, MessageAdded):
        bare = msgspec.structs.replace(bare, until=0)
    if isinstance(bare, MessageAdded) and not isinstance(bare.content, str):
        parts = (msgspec.structs.replace(p, id="") if isinstance(p, Image) else p for p in bare.content)
        bare = msgspec.structs.replace(bare, content=tuple(parts))
    return msgspec.msgpack.encode(bare)
