"""`refold log`: the events in the order they were recorded, or with --graph the contexts and their forks."""

from __future__ import annotations

import heapq
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice
from typing import Any, NamedTuple, get_args

import click

from ...domain.chat.events import FunctionCalled, FunctionReturned
from ...domain.context.description import counted, source_of
from ...domain.log.envelope import RecordedEvent
from ...domain.positions import BEGINNING, Moment
from ...domain.spans import Segment
from ...projections.catalogue import CATALOGUE, CatalogueRow
from ...projections.lineage import LINEAGE, LineageRow
from ..log.codec import CODEC, tag_of
from ..store import Store
from ..times import exact
from .args import Reference, as_json, checked_text, database, position, reading, stream_of
from .args import reference as parse_reference
from .changes import note
from .completion import named_contexts
from .context_views import seen
from .lines import print_events, summary_of, type_of
from .readable import LeftOutError, Readable, rows_of
from .render import (
    absolute,
    aligned,
    cut,
    display_width,
    event_shape,
    is_cut_short,
    json_text,
    one_line,
    paint,
    print_json_list,
    terminal_width,
)

LANES_MAX = 24
# A lane takes two columns, and all lanes together at most a third of the line.
COLUMNS_A_LANE = 6
PAGE_EVENTS = 512


class Point(NamedTuple):
    """
    A version of a context: `kind` is `opened`, `forked`, `branched`, `merged`, `restored` or `head`.

    `sources` are the versions of other contexts from which it took items. `is_head` is True for the newest version,
    whatever its `kind` is.
    """

    stream: str
    version: int
    kind: str
    recorded_at: int
    is_head: bool = False
    sources: tuple[Segment, ...] = ()
    how: str = ""
    actor: str = ""


# The points of contexts that come from each other, by stream, the oldest stream first; the points are in order.
Family = Mapping[str, Sequence[Point]]


def families(contexts: Sequence[CatalogueRow], edges: Iterable[LineageRow]) -> list[Family]:
    """Return the points of all contexts, grouped into families of contexts with a common origin, the oldest first."""
    rows = {row.key: row for row in sorted(contexts, key=lambda row: (row.opened_at, row.key))}
    # An edge to a missing context, or to the same context, cannot be drawn.
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
    points = [_taken(list(same)) for _, same in groupby(edges, key=lambda edge: edge.target_version)]
    if is_related and (not points or points[0].version > 1):
        points.insert(0, Point(row.key, 1, "opened", row.opened_at))
    if not points or points[-1].version < row.version:
        points.append(Point(row.key, row.version, "head", row.changed_at))
    yield from points[:-1]
    yield points[-1]._replace(is_head=True)


def _taken(edges: Sequence[LineageRow]) -> Point:
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

    Of the rounds that a run restores this is only the newest, because that one restores the others.
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


Line = tuple[str, Point]


def print_lineage(families: Sequence[Family], *, as_json: bool) -> None:
    """Print the points of families, one a line, with the lanes of their contexts in front."""
    lanes_max = min(LANES_MAX, terminal_width() // COLUMNS_A_LANE) if is_cut_short() else LANES_MAX
    if as_json:
        print_json_list(_shape(point) for family in families for _, point in drawn(family, lanes_max))
        return
    # Neighbouring families of a single context are printed together, with aligned columns.
    for is_single, some in groupby(families, key=lambda family: len(family) == 1):
        lines = [list(drawn(family, lanes_max)) for family in some]
        for block in [[line for one in lines for line in one]] if is_single else lines:
            _print_block(block)


def _print_block(block: Sequence[Line]) -> None:
    rows = [_cells(lanes, point) for lanes, point in block]
    lines = aligned(rows)
    width = max(display_width(lanes) for lanes, _ in block) + 2
    is_narrow = is_cut_short() and max(map(display_width, lines)) > terminal_width()
    for (lanes, place, time, said), line in zip(rows, lines, strict=True):
        # Two lines where one is too short: lanes and place, and below them the rest, beside the lanes that go on.
        shown = cut(f"{lanes:{width}}{place}", terminal_width()) if is_narrow else line
        click.echo(lanes.replace("*", paint("*", "yellow")) + shown[len(lanes) :])
        if is_narrow:
            passing = "".join(mark if mark == "|" else " " for mark in lanes)
            click.echo(cut(f"{passing:{width}}  {said}  {time}", terminal_width()))


def _cells(lanes: str, point: Point) -> tuple[str, ...]:
    place = one_line(f"{point.stream.removeprefix('chat:')}@{point.version}")
    return lanes, place, absolute(point.recorded_at), one_line(", ".join(_said(point)))


def _said(point: Point) -> Iterator[str]:
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
    if point.is_head:
        yield "head"


def _shape(point: Point) -> dict[str, Any]:
    return {
        "stream": point.stream,
        "version": point.version,
        "kind": point.kind,
        "is_head": point.is_head,
        "how": point.how or None,
        "recorded_at": exact(point.recorded_at),
        "actor": point.actor or None,
        "sources": [{"stream": source.stream, "version": source.version} for source in point.sources],
    }


def _types(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    known = get_args(CODEC.events)
    for wanted in map(checked_text, values):
        if not any(_is_called(event, wanted) for event in known):
            names = ", ".join(sorted({type_of(event) for event in known}))
            raise click.BadParameter(f"there are no events of type {wanted!r}; there are {names}")
    return values


def _is_called(event: Any, wanted: str) -> bool:
    tag = tag_of(event)
    return wanted in (tag, tag.rpartition(".")[0], type_of(event))


@click.command("log")
@click.argument(
    "reference", metavar="[CTX[@V]]", callback=parse_reference, shell_complete=named_contexts, required=False
)
@click.option("--type", "types", metavar="T", callback=_types, multiple=True, help="Events of this type only.")
@click.option("--after", metavar="P", callback=position, help="Events behind this position only.")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="N events at most.")
@click.option("--graph", is_flag=True, help="How contexts come from each other, instead of their events.")
@click.option("--follow", is_flag=True, help="Go on with new events as they come; Ctrl-C ends it.")
@database
@as_json
def command(
    reference: Reference | None,
    types: tuple[str, ...],
    after: Moment | None,
    limit: int | None,
    graph: bool,
    follow: bool,
    location: str,
    as_json: bool,
) -> None:
    """
    List the events of the whole log, or of one context (up to V), oldest first.

    --graph shows how contexts come from each other, or those that CTX has to do with: a line for each fork, branch and
    merge, each run that goes back over earlier rounds, and where each context stands now; + is what it comes from.

    With --json: an array (JSON lines with --follow) of {position, stream, version, recorded_at, actor, correlation_id,
    causation, idempotency_key, type, event, digest}; event has the fields of the type, those left out that have their
    default. With --graph of {stream, version, kind, is_head, how, recorded_at, actor, sources: [{stream, version}]}.
    """
    fault = _misuse(reference, graph, follow, has_choice=bool(types or after or limit))
    if fault:
        raise click.UsageError(fault, click.get_current_context())
    if graph:
        _print_graph(location, reference, as_json)
        return
    with reading(location) as store:
        readable = Readable(store.log)
        stream = None if reference is None else stream_of(store, reference.context)
        events = _events(store, readable, reference, after or BEGINNING)
        if follow:
            events = _followed(store, readable, events, stream, after or BEGINNING)
        wanted = (event for event in events if not types or any(_is_called(event.event, name) for name in types))
        shown = islice(wanted, limit)
        if not as_json:
            print_events(_tied(shown), 1 if follow else PAGE_EVENTS)
        elif follow:
            for event in shown:
                click.echo(json_text(event_shape(event)))
        else:
            print_json_list(event_shape(event) for event in shown)
        readable.require_whole()


def _tied(events: Iterable[RecordedEvent]) -> Iterator[tuple[RecordedEvent, str]]:
    """Yield events with their summaries; that of an output begins with the version of its call, if that was listed."""
    calls: dict[tuple[str, str], int] = {}
    for recorded in events:
        event, summary = recorded.event, summary_of(recorded.event)
        if isinstance(event, FunctionCalled):
            calls[recorded.stream, event.call_id] = recorded.version
        elif isinstance(event, FunctionReturned):
            call = calls.pop((recorded.stream, event.call_id), None)
            summary = summary if call is None else f"@{call} {summary}"
        yield recorded, summary


def _misuse(reference: Reference | None, graph: bool, follow: bool, *, has_choice: bool) -> str | None:
    if graph and (follow or has_choice):
        return "--graph is about contexts, and not about single events: it goes with no other option than --json"
    if reference is None or not reference.moments:
        return None
    if follow:
        return "--follow goes on from the head: leave out @V"
    return "--graph shows contexts as they are now: leave out @V" if graph else None


def _print_graph(location: str, reference: Reference | None, as_json: bool) -> None:
    [contexts, edges], readable = rows_of(location, [CATALOGUE, LINEAGE])
    shown = families(contexts, edges)
    if reference is not None:
        with reading(location) as store:
            stream = stream_of(store, reference.context)
        shown = [family for family in shown if stream in family]
    print_lineage(shown, as_json=as_json)
    if readable is not None:
        readable.require_whole()


def _events(store: Store, readable: Readable, reference: Reference | None, after: Moment) -> Iterator[RecordedEvent]:
    """Yield the events of the log or of a context; the end is looked up when the first event is needed."""
    if reference is None:
        for page in readable.pages(after):
            yield from page.events
        return
    view = seen(store, reference)
    yield from readable.of_stream(view.stream, after=store.log.version_at(view.stream, after), until=view.version)


def _followed(
    store: Store, readable: Readable, past: Iterable[RecordedEvent], stream: str | None, after: Moment
) -> Iterator[RecordedEvent]:
    # Read before the past, so that no event between the two is lost.
    now, heads = store.now(), dict(after.heads)
    for event in past:
        heads[event.position.slice] = event.position.number
        yield event
    if readable.left_out:
        note(str(LeftOutError(readable.left_out)))
    for event in store.subscribe(after=now, contexts=None if stream is None else [stream]):
        if event.position.number > heads.get(event.position.slice, 0):
            yield event
