"""The earlier rounds that a run goes back over, looked up so that they can be folded with it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...log.ports import Log, Range
from ..events import RoundsRestored, RunEvent
from .fold import EMPTY, PastRound, RestoredRounds, fold
from .graph import leaves_of


def complete(log: Log, events: Sequence[Any]) -> Sequence[RunEvent | RestoredRounds]:
    """
    Return the events of a run as `fold` wants them: the last restoration with the rounds that it names.

    Raises:
        DamagedError: a stream does not hold what an event says of it.
    """
    if RoundsRestored not in map(type, events):
        return events
    last = next(event for event in reversed(events) if isinstance(event, RoundsRestored))
    return [_restored(log, last) if event is last else event for event in events]


def past_rounds(log: Log, event: RoundsRestored) -> tuple[PastRound, ...]:
    """Return the rounds that a restoration names, each folded by itself."""
    held: list[Any] = log.read_ranges([Range(one.stream, 0, one.version) for one in event.rounds])
    states = [fold(EMPTY, events) for events in held]
    return tuple(
        PastRound(one.stream, state, leaves_of(state)) for one, state in zip(event.rounds, states, strict=True)
    )


def recorded_event(event: RunEvent | RestoredRounds) -> RunEvent:
    """Return the event itself, without what was looked up for it."""
    return event.event if isinstance(event, RestoredRounds) else event


def _restored(log: Log, event: RoundsRestored) -> RestoredRounds:
    return RestoredRounds(event, past_rounds(log, event))
