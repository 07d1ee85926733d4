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
from .entries import Entry

__all__ = ["Changes", "changes_between"]


class Changes(NamedTuple):
    """Items of the second version that are new, items of the first that are gone, pairs that differ, moved items."""

    added: list[Entry]
    removed: list[Entry]
    changed: list[tuple[Entry, Entry]]
    moved: list[Entry]

    def __bool__(self) -> bool:
        return any(self)


def changes_between(before: Sequence[Entry], after: Sequence[Entry]) -> Changes:
    """
    Return what makes the items `after` of the items `before`.
    """
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
    gone = {entry.item.id: entry for entry in removed}
    pairs = [(gone[entry.item.id], entry) for entry in added if entry.item.id in gone]
    ids = {entry.item.id for _, entry in pairs}
    changed = [(old, new) for old, new in pairs if _said(old.item) != _said(new.item)]
    return Changes(
        [entry for entry in added if entry.item.id not in ids],
        [entry for entry in removed if entry.item.id not in ids],
        changed,
        [new for old, new in pairs if _said(old.item) == _said(new.item)],
    )


def _said(item: ChatItemEvent) -> bytes:
    """What an item says, without its id, its time and the shape it came in."""
    bare = msgspec.structs.replace(item, id="", created_at=0.0, origin=None)
    if isinstance(bare, MessageAdded) and not isinstance(bare.content, str):
        parts = (msgspec.structs.replace(p, id="") if isinstance(p, Image) else p for p in bare.content)
        bare = msgspec.structs.replace(bare, content=tuple(parts))
    return msgspec.msgpack.encode(bare)
