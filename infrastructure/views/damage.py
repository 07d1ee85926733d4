"""
The readable events of a damaged log, and the reason for each that cannot be read.

A log refuses to read a page with a damaged event. So a page that is refused is read again in halves, down to the events
that are refused alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ...domain.errors import DamagedError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.positions import moment_of

MISSING = "it is missing"
NAMED = re.compile(r"event (?P<stream>\S+:.*)@(?P<version>\d+)", re.DOTALL)
Read = Callable[[int, int], Sequence[RecordedEvent]]


class UnreadableEvent(NamedTuple):
    """An event that cannot be read: its position, or its context and version, as far as they are known; and why not."""

    position: int | None
    stream: str | None
    version: int | None
    error: DamagedError


def events_of(log: LiveLog, stream: str, after: int, until: int) -> list[RecordedEvent | UnreadableEvent]:
    """Return the events of a context after a version, up to another one; unreadable ones as UnreadableEvent."""
    return _read_in_halves(lambda first, last: log.read(stream, after=first, until=last), after, until, stream)


def events_from(log: LiveLog, row: int, limit: int) -> list[RecordedEvent | UnreadableEvent]:
    """Return up to `limit` events of a log without slices, after its first `row` events."""

    def read(first: int, last: int) -> Sequence[RecordedEvent]:
        until = moment_of(last)
        return log.read_all(after=moment_of(first), limit=last - first, until=until, undecodable=True).events

    return _read_in_halves(read, row, min(row + limit, log.now().events), None)


def _read_in_halves(read: Read, after: int, until: int, stream: str | None) -> list[RecordedEvent | UnreadableEvent]:
    if until <= after:
        return []
    try:
        found = read(after, until)
    except DamagedError as error:
        damage = error
    else:
        if len(found) == until - after:
            return [*found]
        damage = DamagedError(f"event {stream or ''}@{until}", MISSING)
    if until - after == 1:
        return [_unreadable(until, stream, damage)]
    middle = (after + until) // 2
    return [*_read_in_halves(read, after, middle, stream), *_read_in_halves(read, middle, until, stream)]


def _unreadable(number: int, stream: str | None, damage: DamagedError) -> UnreadableEvent:
    if stream is not None:
        return UnreadableEvent(None, stream, number, damage)
    named = NAMED.fullmatch(damage.what)
    return UnreadableEvent(number, named and named["stream"], named and int(named["version"]), damage)


def first_damage(log: LiveLog, stream: str, after: int, until: int) -> tuple[list[RecordedEvent], DamagedError | None]:
    """Return the events of a context up to the first that cannot be read, and the error about it; None if all can."""
    try:
        return list(log.read(stream, after=after, until=until)), None
    except DamagedError as error:
        damage = error
    good, bad = after, until
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            log.read(stream, after=after, until=middle)
            good = middle
        except DamagedError as error:
            bad, damage = middle, error
    return list(log.read(stream, after=after, until=good)) if good > after else [], damage
