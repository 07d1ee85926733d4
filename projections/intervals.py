"""
The intervals of items: from which version to which each was in its context, whatever kind of context that is.

A context's rows lie together under its stream's id. An item has a row where its context's own events name it; a mark
is the row of an event that concerns many items at once.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ..domain.spans import Ref
from .rows import VERSION_DIGITS, version_key

STILL_THERE = 0
R = TypeVar("R", bound="IntervalRow")


class IntervalRow(msgspec.Struct, frozen=True):
    """
    An item in a context, from version `v0` on and before `v1`, the event of which took it out; or a mark.

    `v1` is 0 where no event named it again, `v0` where no event of the context named it when it came. `earlier` is
    JSON: the intervals before this one, each `[v0, v1, how, reason]`. `birth` is `stream@version` of the event that
    made the item. An item from elsewhere has no `type` and no `item` here; its row at its birth has.

    A mark has a `type` of its own, its version as `v0`, and in `brought` what came with its event.
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
    """From which version to which, and how it ended."""

    v0: int
    v1: int = STILL_THERE
    how: str = ""
    reason: str = ""


def intervals_of(row: IntervalRow) -> list[StoredInterval]:
    """Return the intervals of a row, the last one last."""
    last = StoredInterval(row.v0, row.v1, row.how, row.reason)
    # Nearly all rows have one.
    return [last] if row.earlier == "[]" else [*msgspec.json.decode(row.earlier, type=list[StoredInterval]), last]


def left(row: R, version: int, how: str, reason: str) -> R:
    """Return a row whose last interval ended with a version."""
    return msgspec.structs.replace(row, v1=version, how=how, reason=reason)


def returned(row: R, version: int) -> R:
    """Return a row with another interval, from a version on."""
    earlier = msgspec.json.encode(intervals_of(row)).decode()
    return msgspec.structs.replace(row, v0=version, v1=STILL_THERE, how="", reason="", earlier=earlier)


def bringing(row: R, kind: str, brought: msgspec.Struct, how: str = "") -> R:
    """Return the mark of an event that brought many items."""
    return msgspec.structs.replace(row, type=kind, how=how, brought=msgspec.msgpack.encode(brought))


def rows_prefix(context: str) -> str:
    """Return what the keys of all rows of a context begin with; an id may hold a blank, but no `@`."""
    return f"{context}@"


def item_key(context: str, ref: Ref) -> str:
    """Return the key of an item that an event of `context` names; its own ones stand in the order of their births."""
    stream = "" if ref.stream == context else ref.stream
    return version_key(f"{context}@{stream}", ref.version)


def mark_key(context: str, version: int) -> str:
    """Return the key of the mark of an event."""
    return f"{context}@!{version:0{VERSION_DIGITS}}"


def birth_in(key: str, context: str) -> str:
    """Return the birth of the item that has a key among the rows of a context."""
    stream, _, version = key.removeprefix(rows_prefix(context)).rpartition("@")
    return f"{stream or context}@{int(version)}"
