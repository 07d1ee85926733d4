"""How contexts come from each other: the points of their forks and merges, and the lanes in which they are drawn."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from ...domain.clock import exact
from ...domain.context.description import counted, source_of
from ...domain.spans import Segment
from ...projections.catalogue import CatalogueRow
from ...projections.lineage import LineageRow
from ...projections.version_names import VersionNameRow
from .shapes import Shape

# At most this many lanes are drawn beside each other.
LANES_MAX = 24


class Point(NamedTuple):
    """
    A version of a context: `kind` is `opened`, `forked`, `branched`, `merged`, `restored`, `named` or `head`.

    `sources` are the versions of other contexts from which it took items. `is_head` is True for the newest version,
    whatever its `kind` is; `names` are those of the version, which every kind may have.
    """

    stream: str
    version: int
    kind: str
    recorded_at: int
    is_head: bool = False
    sources: tuple[Segment, ...] = ()
    how: str = ""
    actor: str = ""
    names: tuple[str, ...] = ()


# The points of contexts that come from each other, by stream, the oldest stream first; the points are in order.
Family = Mapping[str, Sequence[Point]]


def families(
    contexts: Sequence[CatalogueRow], edges: Iterable[LineageRow], names: Iterable[VersionNameRow] = ()
) -> list[Family]:
    """
    Return the points of all contexts, grouped into families of contexts with a common origin, the oldest first.

    Named versions are points, too, in families of more than one context.
    """
    rows = {row.key: row for row in sorted(contexts, key=lambda row: (row.opened_at, row.key))}
    # An edge to a missing context, or to the same context, cannot be drawn.
    whole = [one for one in edges if one.source in rows and one.target in rows and one.source != one.target]
    into: dict[str, list[LineageRow]] = {}
    for edge in sorted(whole, key=_place_in_target):
        into.setdefault(edge.target, []).append(edge)
    members: dict[str, list[str]] = {}
    origins = _family_names(rows, whole)
    for stream in rows:
        members.setdefault(origins[stream], []).append(stream)
    related = {edge.source for edge in whole} | into.keys()
    named: dict[str, list[VersionNameRow]] = {}
    for name in names:
        if name.context in related:
            named.setdefault(name.context, []).append(name)
    return [
        {
            stream: _with_names(_points(rows[stream], into.get(stream, ()), stream in related), named.get(stream, ()))
            for stream in streams
        }
        for streams in members.values()
    ]


def relatives(stream: str, edges: Iterable[LineageRow]) -> list[str]:
    """Return the contexts that have a common origin with one, itself included."""
    return list(_family_names([stream], edges))


def _place_in_target(edge: LineageRow) -> tuple[int, int]:
    return edge.target_version, int(edge.key.rpartition("/")[2])


def _family_names(streams: Iterable[str], edges: Iterable[LineageRow]) -> dict[str, str]:
    """Return for each context the context that represents its family."""
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
    points = [_point_of(list(same)) for _, same in groupby(edges, key=lambda edge: edge.target_version)]
    if is_related and (not points or points[0].version > 1):
        points.insert(0, Point(row.key, 1, "opened", row.opened_at))
    if not points or points[-1].version < row.version:
        points.append(Point(row.key, row.version, "head", row.changed_at))
    yield from points[:-1]
    yield points[-1]._replace(is_head=True)


def _with_names(points: Iterable[Point], rows: Sequence[VersionNameRow]) -> list[Point]:
    """Return the points of a context in order, and those of its named versions among them."""
    found = {point.version: point for point in points}
    for row in sorted(rows, key=lambda row: row.named_at):
        point = found.get(row.version) or Point(row.context, row.version, "named", row.recorded_at, actor=row.actor)
        found[row.version] = point._replace(names=(*point.names, row.name))
    return [found[version] for version in sorted(found)]


def _point_of(edges: Sequence[LineageRow]) -> Point:
    """Return the point of one event; a run restores several earlier rounds at once, so there may be several edges."""
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


Place = tuple[str, int]


def drawn_sources(point: Point) -> tuple[Segment, ...]:
    """
    Return the sources to which a line is drawn.

    If a run restores several rounds, this is only the newest one, because that one restores the others.
    """
    return point.sources[-1:]


def ordered(family: Family) -> Iterator[Point]:
    """Yield the points of a family in the order of drawing: each after the points that it depends on."""
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
    """Return how many points each point waits for, and which points wait for it; the last of these is drawn first."""
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
    """Return the points that were forked from each point, and the others that took items from it; all wait for it."""
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
    """Return the last point of the source at or before its version."""
    index = bisect_right(family[source.stream], source.version, key=lambda point: point.version)
    return source.stream, max(0, index - 1)


def drawn(family: Family, lanes_max: int) -> Iterator[tuple[str, Point]]:
    """Yield the points of a family in order, each with its lanes; lanes beyond `lanes_max` are an ellipsis."""
    lanes = _Lanes(lanes_max)
    left = Counter({stream: len(points) for stream, points in family.items()})
    left.update(source.stream for points in family.values() for point in points for source in drawn_sources(point))
    for point in ordered(family):
        sources = [source.stream for source in drawn_sources(point)]
        yield lanes.line(point.stream, sources), point
        for stream in (point.stream, *sources):
            left[stream] -= 1
            if not left[stream]:
                lanes.close(stream)


class _Lanes:
    """The columns of the contexts that are being drawn."""

    def __init__(self, lanes_max: int) -> None:
        self._shown = [False] * lanes_max
        self._columns: dict[str, int] = {}
        self._free: list[int] = []

    def line(self, stream: str, sources: Iterable[str]) -> str:
        """Return the lanes of a point of a context; the context gets a column if it has none."""
        own = self._column(stream)
        met = {self._columns[source] for source in sources}
        first, last = min(own, *met, own), max(own, *met, own)
        cells = []
        for column, is_open in enumerate(self._shown):
            is_between = first < column < last
            mark = "*" if column == own else "+" if column in met else "|" if is_open else "-" if is_between else " "
            cells.append(mark + ("-" if first <= column < last else " "))
        text = "".join(cells).rstrip()
        return text + " …" if len(self._columns) > len(self._shown) else text

    def close(self, stream: str) -> None:
        """Free the column of a context."""
        column = self._columns.pop(stream)
        heapq.heappush(self._free, column)
        if column < len(self._shown):
            self._shown[column] = False

    def _column(self, stream: str) -> int:
        if stream not in self._columns:
            # Take the first free column, or else add one at the end.
            column = heapq.heappop(self._free) if self._free else len(self._columns)
            self._columns[stream] = column
            if column < len(self._shown):
                self._shown[column] = True
        return self._columns[stream]


def facts_of(point: Point) -> Iterator[str]:
    """Yield the parts of a sentence that says what a point is."""
    by = f" by {point.actor}" if point.actor else ""
    if point.sources:
        newest = point.sources[-1]
        source = source_of(newest.stream, newest.version)
        how = f" ({point.how})" if point.how not in ("", "full") else ""
        match point.kind:
            case "restored" if len(point.sources) > 1:
                yield f"goes back over {counted(len(point.sources), 'round')}, the last of them {source}{by}"
            case "restored":
                yield f"goes back over {source}{by}"
            case "merged":
                yield f"merged {source}{how}{by}"
            case _:
                yield f"{point.kind} from {source}{how}{by}"
    elif point.kind == "opened":
        yield "opened"
    if point.names:
        yield f"named {', '.join(point.names)}"
    if point.is_head:
        yield "head"


def point_shape(point: Point) -> Shape:
    """Return a point for JSON."""
    return {
        "stream": point.stream,
        "version": point.version,
        "kind": point.kind,
        "is_head": point.is_head,
        "names": list(point.names),
        "how": point.how or None,
        "recorded_at": exact(point.recorded_at),
        "actor": point.actor or None,
        "sources": [{"stream": source.stream, "version": source.version} for source in point.sources],
    }
