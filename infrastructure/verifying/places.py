"""Where events lie in a log: at positions without holes, and none recorded before the one in front of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog
from ...domain.positions import Moment, Position
from .damage import damage_of
from .report import Problem

HOLES_MAX = 100


class _Hole(NamedTuple):
    """Positions of a slice at which no event was found."""

    slice: int
    first: int
    last: int


class Places:
    """Positions and times: of events in the order of the log, or of such that come stream by stream."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[int, int]] = {}
        self._found: dict[int, list[tuple[int, int]]] = {}

    def fault_of_next(self, recorded: RecordedEvent) -> str | None:
        """Return what is wrong with the place of the next event in the order of the log, None where nothing is."""
        position = recorded.position
        number, recorded_at = self._last.get(position.slice, (0, 0))
        self._last[position.slice] = (position.number, recorded.recorded_at)
        if position.number != number + 1:
            return f"it is at position {position}, right behind {Position(position.slice, number)}"
        return "it was recorded before the event in front of it" if recorded.recorded_at < recorded_at else None

    def add(self, recorded: RecordedEvent) -> None:
        """Note the place of an event that was found in its stream."""
        self._found.setdefault(recorded.position.slice, []).append((recorded.position.number, recorded.recorded_at))

    def problems(self, log: LiveLog, unreadable: int) -> list[Problem]:
        """
        Return what is wrong with the places of the events that were added; so many more are known to be unreadable.
        """
        problems: list[Problem] = []
        holes: list[_Hole] = []
        heads = dict(log.now().heads)
        for number in sorted({*heads, *self._found}):
            places = sorted(self._found.get(number, ()))
            problems += _going_back(number, places)
            holes += _holes(number, [place for place, _ in places], heads.get(number, 0))
        # What lies at a hole may be an event that was told of already.
        if sum(hole.last - hole.first + 1 for hole in holes) <= unreadable:
            return problems
        problems += [_problem_of(log, hole, heads) for hole in holes[:HOLES_MAX]]
        if len(holes) > HOLES_MAX:
            problems.append(
                Problem("position", "the log", f"there are {len(holes) - HOLES_MAX:,} holes more like these")
            )
        return problems


def _going_back(number: int, places: list[tuple[int, int]]) -> Iterator[Problem]:
    recorded_at = 0
    for place, time in places:
        if time < recorded_at:
            yield Problem("position", str(Position(number, place)), "it was recorded before the event in front of it")
        recorded_at = time


def _holes(number: int, places: list[int], end: int) -> Iterator[_Hole]:
    before = 0
    for place in (*places, max(end, *places[-1:], 0) + 1):
        if place > before + 1:
            yield _Hole(number, before + 1, place - 1)
        before = place


def _problem_of(log: LiveLog, hole: _Hole, heads: dict[int, int]) -> Problem:
    first, last = Position(hole.slice, hole.first), Position(hole.slice, hole.last)
    where = str(first) if first == last else f"{first} to {last}"
    before = Moment.of({**heads, hole.slice: hole.first - 1})
    try:
        # Reading it in the order of the log tells why there is none, where a row is there.
        log.read_all(after=before, limit=1)
    except Exception as error:
        damage = damage_of(error, "it")
        return Problem("position", where, f"no event can be read there: {damage.what}: {damage.reason}")
    return Problem("position", where, "there is no event at it")
