"""The differences between the items of two contexts, or of two versions of one."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import msgspec

from ...domain.chat.item_events import content_of
from ...domain.context.differences import Changes
from ...domain.context.differences import changes_between as changes_of_items
from ...domain.ids import split_stream_id
from ...domain.memory.events import MemoryRemembered
from ...domain.pool.events import AddedEvent, QueueAppended
from ...domain.window.events import WindowItemEvent
from ..queries.origins import Item, id_of
from .contexts import ItemView
from .shapes import Entry, Shape, item_shape


def changes_between(before: Sequence[Entry], after: Sequence[Entry]) -> Changes[Entry]:
    """Return the changes that turn the items `before` into the items `after`."""
    return changes_of_items(before, after, content=lambda entry: _content_bytes(entry.item), name=_name)


class Side(NamedTuple):
    """One of the two contexts that are compared."""

    view: ItemView
    entries: Sequence[Entry]

    @property
    def label(self) -> str:
        """The context and its version, in the form of an address."""
        return f"{self.view.stream}@{self.view.version}"


class Line(NamedTuple):
    """A line of two lists side by side: `sort` is same, added, removed, changed or moved."""

    sort: str
    before: Entry | None
    after: Entry | None


def side_by_side(before: Sequence[Entry], after: Sequence[Entry], changes: Changes[Entry]) -> list[Line]:
    """Return both lists as one, in the order of `after`; an item that was removed or moved away stands where it was."""
    gone = {id(entry): "removed" for entry in changes.removed} | {id(old): "changed" for old, _ in changes.changed}
    gone |= dict.fromkeys(_moved_away(before, gone, changes.moved), "moved")
    come = {id(entry): Line("added", None, entry) for entry in changes.added}
    come |= {id(entry): Line("moved", None, entry) for entry in changes.moved}
    come |= {id(new): Line("changed", old, new) for old, new in changes.changed}
    lines: list[Line] = []
    olds = deque(before)
    for new in (*after, None):
        while olds and id(olds[0]) in gone:
            old = olds.popleft()
            # A changed item stands at its new place, with both texts.
            if gone[id(old)] != "changed":
                lines.append(Line(gone[id(old)], old, None))
        if new is not None:
            lines.append(come.get(id(new)) or Line("same", olds.popleft(), new))
    return lines


def changes_shape(before: Side, after: Side, changes: Changes[Entry], *, as_numbers: bool = False) -> Shape:
    """Return the differences between two sides for JSON: the items, or their numbers only."""
    added, removed, changed, moved = changes
    lists: Shape = {
        "added": [item_shape(entry) for entry in added],
        "removed": [item_shape(entry) for entry in removed],
        "changed": [{"from": item_shape(old), "to": item_shape(new)} for old, new in changed],
        "moved": [item_shape(entry) for entry in moved],
    }
    return {
        "from": _side_shape(before),
        "to": _side_shape(after),
        "tokens": after.view.tokens - before.view.tokens,
        **({name: len(entries) for name, entries in lists.items()} if as_numbers else lists),
    }


def _side_shape(side: Side) -> Shape:
    kind, context = split_stream_id(side.view.stream)
    return {
        "context": context,
        "kind": kind,
        "version": side.view.version,
        "items": len(side.entries),
        "tokens": side.view.tokens,
    }


def _moved_away(before: Sequence[Entry], gone: Container[int], moved: Sequence[Entry]) -> Iterator[int]:
    """Yield the ids of the entries in the places from which entries were moved."""
    waiting = Counter((_name(entry), _content_bytes(entry.item)) for entry in moved)
    for entry in before if moved else ():
        key = (_name(entry), _content_bytes(entry.item))
        if id(entry) not in gone and waiting[key]:
            waiting[key] -= 1
            yield id(entry)


def _name(entry: Entry) -> str | None:
    """
    Return the name by which an item is the same although its content differs.

    An item of a queue never changes its content, so its name is its event.
    """
    return entry.recorded.reference if isinstance(entry.item, QueueAppended) else id_of(entry.item)


def _content_bytes(item: Item) -> bytes:
    """Return the content of an item, without its id, time and source, but with a name that the user gave."""
    match item:
        case AddedEvent():
            return msgspec.msgpack.encode((item.id, item.description, item.content))
        case WindowItemEvent():
            return msgspec.msgpack.encode((item.key, item.value, item.source, item.priority))
        case MemoryRemembered():
            return msgspec.msgpack.encode((item.key, item.value, item.kind, item.tags))
        case _:
            return content_of(item)
