"""
How many events of each type are in the log, and when were they recorded? One row for every 1,024 positions of a slice.

To count a million events takes a second; to add up a thousand rows takes a millisecond.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from ..domain.chat.events import added_item
from ..domain.log.envelope import Event, RecordedEvent

ROLLUP_EVENTS = 1_024
# Fields with text from people, models and functions; names and ids do not count as text.
TEXT_FIELDS = ("content", "arguments", "output", "instructions", "reason", "text")


class RollupRow(msgspec.Struct, frozen=True, kw_only=True):
    """A block of 1,024 positions. Times are in microseconds since 1970, UTC; `counts` is JSON: numbers by event tag."""

    key: str
    lane: int
    block: int
    events: int = 0
    first_at: int = 0
    last_at: int = 0
    counts: str = "{}"
    text_bytes: int = 0


class Rollup:
    """The fold behind `refold stats` and the histogram of the log."""

    name = "rollup"
    version = 2
    row = RollupRow
    positions_of_row = ROLLUP_EVENTS

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the block of 1,024 positions that holds the event."""
        position = event.position
        return (f"{position.slice}/{(position.number - 1) // ROLLUP_EVENTS}",)

    def evolve(self, key: str, row: RollupRow | None, event: RecordedEvent) -> RollupRow:
        return self.evolve_all(key, row, (event,))

    def evolve_all(self, key: str, row: RollupRow | None, events: Sequence[RecordedEvent]) -> RollupRow:
        if row is None:
            lane, _, block = key.partition("/")
            row = RollupRow(key=key, lane=int(lane), block=int(block), first_at=events[0].recorded_at)
        # The JSON of counts is decoded and encoded once for all events.
        counts = Counter(counts_by_type(row))
        counts.update(str(event.event.__struct_config__.tag) for event in events)
        return msgspec.structs.replace(
            row,
            events=row.events + len(events),
            last_at=events[-1].recorded_at,
            counts=msgspec.json.encode(counts, order="sorted").decode(),
            text_bytes=row.text_bytes + sum(_text_bytes(text) for event in events for text in _texts(event.event)),
        )


def counts_by_type(row: RollupRow) -> dict[str, int]:
    """Return the numbers of events in a block, by tag."""
    return msgspec.json.decode(row.counts, type=dict[str, int])


def _texts(event: Event) -> Iterator[object]:
    """Yield the texts of an event and of the item that it added; the item may be a field of the event."""
    item = added_item(event)
    for source in (event,) if item is None or item is event else (event, item):
        for field in _text_fields_of(type(source)):
            value = getattr(source, field)
            if isinstance(value, tuple):
                yield from value
            else:
                yield value


# Asking an event for a field that it lacks takes longer than adding up a text.
@cache
def _text_fields_of(kind: type) -> tuple[str, ...]:
    return tuple(field for field in TEXT_FIELDS if hasattr(kind, field))


def _text_bytes(text: object) -> int:
    if not isinstance(text, str):
        return 0
    return len(text) if text.isascii() else len(text.encode())


ROLLUP = Rollup()
