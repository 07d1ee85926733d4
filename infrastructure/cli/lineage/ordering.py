"""
The order in which the points of a family are drawn: each behind those that it comes from, and a child before its parent
goes on, so that few lanes lie side by side.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

from ....domain.spans import Segment
from .points import Family, Point

Place = tuple[str, int]


def drawn_sources(point: Point) -> tuple[Segment, ...]:
    """
    Return the sources that a line is drawn to: of the rounds that a run goes back over the newest, as that goes back
    over the others.
    """
    return point.sources[-1:]


def ordered(family: Family) -> Iterator[Point]:
    """Yield the points of a family in the order in which they are drawn."""
    waits, followers = _dependencies(family)
    ready = [place for place, count in reversed(waits.items()) if not count]
    while ready:
        place = ready.pop()
        yield family[place[0]][place[1]]
        free = []
        for follower in followers.get(place, ()):
            waits[follower] -= 1
            if not waits[follower]:
                free.append(follower)
        ready += free


def _dependencies(family: Family) -> tuple[dict[Place, int], dict[Place, list[Place]]]:
    """Return how many points each one waits for, and which wait for each; the last of those is drawn first."""
    waits = {(stream, index): min(index, 1) for stream, points in family.items() for index in range(len(points))}
    forks, takers = _takers(family, waits)
    followers: dict[Place, list[Place]] = {}
    for stream, index in waits:
        here, before = (stream, index), (stream, index - 1)
        if index:
            followers.setdefault(before, []).append(here)
            for child in forks.get(before, ()):
                waits[here] += 1
                followers.setdefault(child, []).insert(0, here)
    for place in waits:
        followers.setdefault(place, []).extend((*reversed(takers.get(place, ())), *reversed(forks.get(place, ()))))
    return waits, followers


def _takers(family: Family, waits: dict[Place, int]) -> tuple[dict[Place, list[Place]], dict[Place, list[Place]]]:
    """Return what was forked from each point, and what else has something of it; these wait for it."""
    forks: dict[Place, list[Place]] = {}
    others: dict[Place, list[Place]] = {}
    by_time = sorted(waits, key=lambda place: family[place[0]][place[1]].recorded_at)
    for place in by_time:
        stream, index = place
        for source in drawn_sources(family[stream][index]):
            waits[place] += 1
            (others if index else forks).setdefault(_place_of(family, source), []).append(place)
    return forks, others


def _place_of(family: Family, source: Segment) -> Place:
    """Return the point of the source that its version lies at, or behind."""
    index = bisect_right(family[source.stream], source.version, key=lambda point: point.version)
    return source.stream, max(0, index - 1)
