"""
The events of memories. Each scope has one stream, whose id names the scope; the events do not.

A tag is kept for ever; a field is never renamed, retyped or reused, and a new one has a default. Each record is added
by one event, its origin, and all later events name the record by it (`refold.domain.spans`).
"""

from __future__ import annotations

from typing import Annotated

from ..content import Content
from ..context.decider import VersionNamed
from ..log.admission import Microseconds, one_of
from ..log.envelope import TaggedEvent
from ..spans import Ref, Span
from ..totals import Totals


class MemoryRemembered(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="memory.remembered.v1"):
    """
    A value was remembered under a key; it replaced the record `replaced`, if that is set.

    `first_at` is when the key was first remembered, `at` when this value was: microseconds since 1970, UTC.
    """

    key: str
    value: Content
    kind: Annotated[str, one_of("episodic", "semantic", "procedural")] = "semantic"
    tags: tuple[str, ...] = ()
    first_at: Microseconds
    at: Microseconds
    replaced: Ref | None = None
    change: Totals


class MemoryForgotten(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="memory.forgotten.v1"):
    """Records were forgotten; each is named by the event that remembered it."""

    items: tuple[Span, ...]
    change: Totals
    reason: str | None = None


class MemoryRestored(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="memory.restored.v1"):
    """Records that had been forgotten were restored as they were. Their names include the stream."""

    items: tuple[Span, ...]
    change: Totals


class MemoryNamed(VersionNamed, frozen=True, kw_only=True, gc=False, tag="memory.named.v1"):
    """A version of a scope was named."""


ITEM_EVENTS = (MemoryRemembered,)
MemoryEvent = MemoryRemembered | MemoryForgotten | MemoryRestored | MemoryNamed
