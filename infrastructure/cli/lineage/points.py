"""
What is worth a line in the history of all contexts: that one began, was forked or branched, took something from
another one or goes back over it, and where it stands now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from ....domain.spans import Segment
from ....projections.catalogue import CatalogueRow
from ....projections.lineage import LineageRow


class Point(NamedTuple):
    """
    A version of a context: `kind` is `opened`, `forked`, `branched`, `merged`, `restored` or `head`.

    `sources` are the versions of other contexts that it has something of. `is_head` is said of the newest version too
    where something else happened with it.
    """

    stream: str
    version: int
    kind: str
    recorded_at: int
    is_head: bool = False
    sources: tuple[Segment, ...] = ()
    how: str = ""
    actor: str = ""


# The points of contexts that come from each other, by their streams, the oldest first; of each in order.
Family = Mapping[str, Sequence[Point]]


def families(contexts: Sequence[CatalogueRow], edges: Iterable[LineageRow]) -> list[Family]:
    """Return the points of all contexts; those that come from each other together, the oldest family first."""
    rows = {row.key: row for row in sorted(contexts, key=lambda row: (row.opened_at, row.key))}
    # What leads nowhere, or to where it comes from, cannot be drawn.
    whole = [one for one in edges if one.source in rows and one.target in rows and one.source != one.target]
    into: dict[str, list[LineageRow]] = {}
    for edge in sorted(whole, key=_place_in_target):
        into.setdefault(edge.target, []).append(edge)
    members: dict[str, list[str]] = {}
    names = _family_names(rows, whole)
    for stream in rows:
        members.setdefault(names[stream], []).append(stream)
    related = {edge.source for edge in whole} | into.keys()
    return [
        {stream: list(_points(rows[stream], into.get(stream, ()), stream in related)) for stream in streams}
        for streams in members.values()
    ]


def _place_in_target(edge: LineageRow) -> tuple[int, int]:
    return edge.target_version, int(edge.key.rpartition("/")[2])


def _family_names(streams: Iterable[str], edges: Iterable[LineageRow]) -> dict[str, str]:
    """Return for each context one that stands for its family."""
    neighbours: dict[str, list[str]] = {}
    for edge in edges:
        neighbours.setdefault(edge.source, []).append(edge.target)
        neighbours.setdefault(edge.target, []).append(edge.source)
    names: dict[str, str] = {}
    for start in streams:
        waiting = [start] if start not in names else []
        while waiting:
            stream = waiting.pop()
            if stream not in names:
                names[stream] = start
                waiting += neighbours.get(stream, ())
    return names


def _points(row: CatalogueRow, edges: Iterable[LineageRow], is_related: bool) -> Iterator[Point]:
    points = [_taken(list(same)) for _, same in groupby(edges, key=lambda edge: edge.target_version)]
    if is_related and (not points or points[0].version > 1):
        points.insert(0, Point(row.key, 1, "opened", row.opened_at))
    if not points or points[-1].version < row.version:
        points.append(Point(row.key, row.version, "head", row.changed_at))
    yield from points[:-1]
    yield points[-1]._replace(is_head=True)


def _taken(edges: Sequence[LineageRow]) -> Point:
    """Return what one event brought; a run goes back over several earlier rounds at once."""
    first = edges[0]
    sources = tuple(Segment(edge.source, edge.source_version) for edge in edges)
    return Point(
        first.target,
        first.target_version,
        first.kind,
        first.recorded_at,
        sources=sources,
        how=first.how,
        actor=first.actor,
    )
