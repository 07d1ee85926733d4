"""
When did a context change, by whom, and how much did it hold then? One row for every 512 versions, with a step for each.

The row of the catalogue as of any moment is made from one row of these and the sums in `growth`, without any event.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from ..domain.concurrency.known_types import known
from ..domain.log.envelope import RecordedEvent
from ..domain.totals import Totals
from .catalogue import growth_of
from .growth import GROWTH

# The head of a msgpack list, followed by its length in two bytes.
LIST = b"\xdc"


class StepsRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A block of 512 versions of a context; its key is that of the same block in `growth`.

    `lane`, `first_number`, `first_at` and `first_version` are the place, the time and the version of its first event.
    `actors` is JSON: who changed it. `steps` holds one msgpack array for each of its `events`, one behind the other.
    """

    key: str
    lane: int
    first_number: int
    first_at: int
    first_version: int
    events: int = 0
    actors: str = "[]"
    steps: bytes = b""


class _Step(NamedTuple):
    """An event as it is stored: its distances from the first one, its change of the totals, its actor's index."""

    version: int
    number: int
    at: int
    items: int
    turns: int
    tokens: int
    actor: int


class Step(NamedTuple):
    """A version of a context: when it was recorded and by whom, and how much the block had added to it by then."""

    version: int
    number: int
    recorded_at: int
    actor: str
    change: Totals


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(known(list[_Step]))


class Steps:
    """The fold behind the catalogue of the past."""

    name = "steps"
    version = 1
    row = StepsRow
    stays_in_slice = True

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """Return the key of the block of 512 versions that the event belongs to."""
        return GROWTH.keys(event)

    def evolve(self, key: str, row: StepsRow | None, event: RecordedEvent) -> StepsRow:
        return self.evolve_all(key, row, (event,))

    def evolve_all(self, key: str, row: StepsRow | None, events: Sequence[RecordedEvent]) -> StepsRow:
        if row is None:
            lane, number = events[0].position.slice, events[0].position.number
            at, version = events[0].recorded_at, events[0].version
            row = StepsRow(key=key, lane=lane, first_number=number, first_at=at, first_version=version)
        actors: dict[str, int] = {}
        for actor in msgspec.json.decode(row.actors, type=list[str]):
            actors[actor] = len(actors)
        steps = bytearray(row.steps)
        for event in events:
            change = growth_of((event.event,))
            step = _Step(
                version=event.version - row.first_version,
                number=event.position.number - row.first_number,
                at=event.recorded_at - row.first_at,
                items=change.items,
                turns=change.turns,
                tokens=change.tokens,
                actor=actors.setdefault(event.meta.actor or "", len(actors)),
            )
            # Steps are only added behind the others, so the others need not be decoded.
            _ENCODER.encode_into(step, steps, -1)
        return msgspec.structs.replace(
            row,
            events=row.events + len(events),
            actors=msgspec.json.encode(list(actors)).decode(),
            steps=bytes(steps),
        )


def last_step(row: StepsRow, is_included: Callable[[int, int], bool]) -> Step | None:
    """
    Return the last step of a block that a moment includes; None if it includes none.

    `is_included` takes the position of an event within its slice, and its time.

    Raises:
        msgspec.DecodeError: the row is damaged.
    """
    steps = _DECODER.decode(LIST + row.events.to_bytes(2, "big") + row.steps)
    low, high = 0, len(steps)
    while low < high:
        middle = (low + high) // 2
        if is_included(row.first_number + steps[middle].number, row.first_at + steps[middle].at):
            low = middle + 1
        else:
            high = middle
    if not low:
        return None
    last, included = steps[low - 1], steps[:low]
    return Step(
        row.first_version + last.version,
        row.first_number + last.number,
        row.first_at + last.at,
        msgspec.json.decode(row.actors, type=list[str])[last.actor],
        Totals(
            sum([one.items for one in included]),
            sum([one.turns for one in included]),
            sum([one.tokens for one in included]),
        ),
    )


STEPS = Steps()
