"""The events of memories in words and as data."""

from __future__ import annotations

from ..context.description import Change, Left, because, joined, named, named_version, place_of
from ..pool.describe import text_of
from ..spans import span_of
from .events import MemoryEvent, MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored


def left_by(event: object) -> Left | None:
    """Return which records left with an event; None if no records did."""
    match event:
        case MemoryForgotten(items=items, reason=reason):
            return Left(items, "forget", reason)
        case MemoryRemembered(replaced=ref) if ref is not None:
            return Left((span_of(ref),), "replace")
    return None


def describe(event: MemoryEvent) -> Change:
    """Return what an event did to a scope of a memory."""
    left = left_by(event)
    match event:
        case MemoryRemembered(key=key, value=value, replaced=old):
            instead = f", in the place of {place_of(old)}" if old else ""
            return Change(
                lambda write: f"{key}{instead}: {text_of(value, write)}", left=left, adds_item=True, instead=old
            )
        case MemoryForgotten(items=items, reason=reason):
            return Change(lambda _: joined([named(items, "record"), because(reason)]), left=left, reason=reason)
        case MemoryRestored(items=items):
            return Change(lambda _: named(items, "record"), came=items)
        case MemoryNamed():
            return named_version(event.name, event.version)
