"""A projection of one's own, as its author would write it: how many events each context has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from refold.domain.chat.events import MessageAdded
from refold.domain.log.envelope import RecordedEvent
from refold.domain.positions import Moment
from refold.infrastructure.projecting.store import Checkpoint, ProjectionStore, Save, SetAside


class Count(msgspec.Struct, frozen=True):
    """How many events a context has."""

    key: str
    events: int


class Counts:
    """Counts the events of each context; it stops at a message that says "poison"."""

    name = "counts"
    version = 1
    row = Count
    on_fault = "stop"

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the context."""
        return [event.stream]

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        if isinstance(event.event, MessageAdded) and event.event.content == ("poison",):
            raise ValueError("it is poisoned")
        return Count(key, (row.events if row else 0) + 1)


def save(
    store: ProjectionStore, rows: Mapping[str, Count], before: Checkpoint, after: Moment, aside: Sequence[SetAside] = ()
) -> Checkpoint | None:
    """Store counts, and return the checkpoint; None if another came first."""
    (saved,) = store.save(Save(Counts(), rows, before, after, aside=aside))
    return saved


# The reason that a store gives for such a message.
POISONED = f"counts.py:{Counts.evolve.__code__.co_firstlineno + 3}: ValueError: it is poisoned"
