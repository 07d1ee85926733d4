"""
How much did a context hold at a version? One row for every 512 versions: how much they added to its totals.

The totals at any version are the sum of a few rows and of the events after them, however long the context is.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ..domain.log.envelope import RecordedEvent
from .catalogue import growth_of
from .rows import version_key

GROWTH_EVENTS = 512


class GrowthRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A block of 512 versions of a context, and how much they changed its totals.

    `key` is the stream, `@`, which no id has, and the number of the block, counted from 0. `first_number` and
    `first_at` are the position of its first event within its slice, and its time.
    """

    key: str
    first_number: int = 0
    first_at: int = 0
    events: int = 0
    items: int = 0
    turns: int = 0
    tokens: int = 0


class Growth:
    """The fold behind counts and tokens of the past."""

    name = "growth"
    version = 2
    row = GrowthRow
    stays_in_slice = True

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the block of 512 versions that the event belongs to, padded like a version."""
        return (version_key(event.stream, (event.version - 1) // GROWTH_EVENTS),)

    def evolve(self, key: str, row: GrowthRow | None, event: RecordedEvent) -> GrowthRow:
        return self.evolve_all(key, row, (event,))

    def evolve_all(self, key: str, row: GrowthRow | None, events: Sequence[RecordedEvent]) -> GrowthRow:
        if row is None:
            first = events[0]
            row = GrowthRow(key=key, first_number=first.position.number, first_at=first.recorded_at)
        change = growth_of([event.event for event in events])
        return GrowthRow(
            key=key,
            first_number=row.first_number,
            first_at=row.first_at,
            events=row.events + len(events),
            items=row.items + change.items,
            turns=row.turns + change.turns,
            tokens=row.tokens + change.tokens,
        )


GROWTH = Growth()
