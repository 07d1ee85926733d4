"""
The intervals of items: from which version to which each item was in its context, for every kind of context.

The keys of a context's rows begin with its stream. An item has a row if an event of this context names it. A mark is
the row of an event that concerns many items at once.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..domain.concurrency.known_types import known
from ..domain.spans import Ref
from .rows import VERSION_DIGITS, version_key

STILL_THERE = 0
R = TypeVar("R", bound="IntervalRow")


class IntervalRow(msgspec.Struct, frozen=True):
    """
    An item in a context, or a mark. The item was there from version `v0` until before `v1`, which removed it.

    `v1` is 0 if no event removed the item by name; `v0` is 0 if no event of the context named the item when it came.
    `earlier` is JSON: the intervals before this one, each `[v0, v1, how, reason]`. `birth` is the item's origin:
    `stream@version` of the event that first recorded it. An item with its origin in another context has no `type` and
    no `item` here; the row in that context has them.

    A mark has a `type` of its own and its version as `v0`. `brought` holds the items that came with its event.
    """

    key: str
    context: str
    birth: str
    item: str = ""
    type: str = ""
    agent: str = ""
    tokens: int = 0
    v0: int = 0
    v1: int = STILL_THERE
    how: str = ""
    reason: str = ""
    earlier: str = "[]"
    brought: bytes = b""


class StoredInterval(msgspec.Struct, frozen=True, array_like=True):
    """An interval of versions, and how it ended."""

    v0: int
    v1: int = STILL_THERE
    how: str = ""
    reason: str = ""


def intervals_of(row: IntervalRow) -> list[StoredInterval]:
    """Return the intervals of a row, the oldest first."""
    last = StoredInterval(row.v0, row.v1, row.how, row.reason)
    # Nearly all rows have one interval, so JSON is decoded only for the others.
    if row.earlier == "[]":
        return [last]
    return [*msgspec.json.decode(row.earlier, type=known(list[StoredInterval])), last]


def close_interval(row: R, version: int, how: str, reason: str) -> R:
    """Return a row with the end of its last interval set to a version."""
    return msgspec.structs.replace(row, v1=version, how=how, reason=reason)


def open_interval(row: R, version: int) -> R:
    """Return a row with one more interval, which begins with a version."""
    earlier = msgspec.json.encode(intervals_of(row)).decode()
    return msgspec.structs.replace(row, v0=version, v1=STILL_THERE, how="", reason="", earlier=earlier)


def fill_mark(row: R, kind: str, brought: msgspec.Struct, how: str = "") -> R:
    """Return a mark that holds the items that came with its event."""
    return msgspec.structs.replace(row, type=kind, how=how, brought=msgspec.msgpack.encode(brought))


def rows_prefix(context: str) -> str:
    """Return the prefix of the keys of all rows of a context. It is unique: an id may hold a blank, but no `@`."""
    return f"{context}@"


def own_items_prefix(context: str) -> str:
    """Return the prefix of the keys of the items that a context recorded itself, which are ordered by origin."""
    return f"{context}@@"


def marks_prefix(context: str) -> str:
    """Return the prefix of the keys of the marks of a context, which are ordered by version."""
    return f"{context}@!"


def item_key(context: str, ref: Ref) -> str:
    """Return the key of an item that an event of `context` names."""
    stream = "" if ref.stream == context else ref.stream
    return version_key(f"{context}@{stream}", ref.version)


def mark_key(context: str, version: int) -> str:
    """Return the key of the mark of an event."""
    return f"{marks_prefix(context)}{version:0{VERSION_DIGITS}}"


def birth_in(key: str, context: str) -> str:
    """Return the origin of an item, given the key of its row in a context."""
    return str(Ref.parse(key.removeprefix(rows_prefix(context))).within(context))
