"""`refold log`: the events in the order they were recorded, or with --graph the contexts and their forks."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from itertools import groupby, islice
from typing import Any, get_args

import click

from ...domain.chat.events import FunctionCalled, FunctionReturned
from ...domain.context.address import Reference
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Range
from ...domain.positions import Moment, Position
from ...projections.catalogue import CATALOGUE
from ...projections.lineage import LINEAGE
from ...projections.version_names import VERSION_NAMES
from ..log.codec import CODEC, tag_of
from ..store import Store
from ..views.contexts import view_of
from ..views.fork_graph import LANES_MAX, Family, Point, drawn, facts_of, families, point_shape
from ..views.shapes import event_shape
from . import args
from .completion import named_contexts
from .damaged_log import IsAfter, LeftOutError, Readable, rows_of
from .lines import print_events, summary_of, type_of
from .render import (
    absolute,
    aligned,
    display_width,
    fitted,
    is_cut_short,
    is_too_wide,
    json_text,
    note,
    one_line,
    paged,
    paint,
    print_json_list,
    prints_json,
    terminal_width,
)

# A lane takes two columns, and all lanes together at most a third of the line.
COLUMNS_A_LANE = 6
PAGE_EVENTS = 512


Line = tuple[str, Point]


def print_lineage(families: Sequence[Family]) -> None:
    """Print the points of families, one a line, with the lanes of their contexts in front."""
    lanes_max = min(LANES_MAX, terminal_width() // COLUMNS_A_LANE) if is_cut_short() else LANES_MAX
    if prints_json():
        print_json_list(point_shape(point) for family in families for _, point in drawn(family, lanes_max))
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
    is_narrow = is_too_wide(lines)
    for (lanes, place, time, said), line in zip(rows, lines, strict=True):
        # If one line is too narrow: lanes and place, and below them the rest, beside the lanes that continue.
        shown = fitted(f"{lanes:{width}}{place}") if is_narrow else line
        click.echo(lanes.replace("*", paint("*", "yellow")) + shown[len(lanes) :])
        if is_narrow:
            passing = "".join(mark if mark == "|" else " " for mark in lanes)
            click.echo(fitted(f"{passing:{width}}  {said}  {time}"))


def _cells(lanes: str, point: Point) -> tuple[str, ...]:
    place = one_line(f"{point.stream.removeprefix('chat:')}@{point.version}")
    return lanes, place, absolute(point.recorded_at), one_line(", ".join(facts_of(point)))


def _types(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    known = get_args(CODEC.events)
    for wanted in map(args.checked_text, values):
        if not any(_is_called(event, wanted) for event in known):
            names = ", ".join(sorted({type_of(event) for event in known}))
            raise click.BadParameter(f"there are no events of type {wanted!r}; there are {names}")
    return values


def _is_called(event: Any, wanted: str) -> bool:
    tag = tag_of(event)
    return wanted in (tag, tag.rpartition(".")[0], type_of(event))


@click.command("log")
@args.argument(
    "reference",
    help="The context, and a version to end at; with A..B only what came after A, up to B.",
    metavar="[CTX[@V|@A..B]]",
    callback=args.reference_or_range,
    shell_complete=named_contexts,
    required=False,
)
@click.option(
    "--type",
    "types",
    metavar="T",
    callback=_types,
    multiple=True,
    help="Only events of this type, such as message_added.",
)
@click.option(
    "--without",
    metavar="T",
    callback=_types,
    multiple=True,
    help="No events of this type, such as state_saved, of which frameworks write many.",
)
@args.text("--who", metavar="A", help="Only events by this actor.")
@args.after_option("events")
@args.number("--limit", "-n", help="At most N events.")
@args.number("--tail", help="Only the last N of these events.")
@args.flag(
    "--graph",
    help="The origins of the contexts from each other, instead of their events; with a context, those of "
    "all that are related to it.",
)
@args.flag("--follow", help="Print new events as they are recorded, until Ctrl-C.")
@args.answer_options
@paged
def command(
    reference: Reference | None,
    types: tuple[str, ...],
    without: tuple[str, ...],
    who: str | None,
    after: str | None,
    limit: int | None,
    tail: int | None,
    graph: bool,
    follow: bool,
) -> None:
    """
    List the events of the whole log, or of one context (up to V), oldest first. A..B selects the events after version
    A, up to B; `refold diff CTX@A..B` shows their effect.

    --graph draws how contexts come from each other: all of them, or those that are related to CTX. It has a line for
    each fork, branch and merge, for each run that goes back over earlier rounds, and for the head of each context. A +
    marks the context that another one comes from.

    With --json: an array (JSON lines with --follow) of {position, stream, version, recorded_at, actor, correlation_id,
    causation, idempotency_key, type, event, digest}; event has the fields of the type, those left out that have their
    default. With --graph of {stream, version, kind, is_head, how, recorded_at, actor, sources: [{stream, version}]}.
    """
    _check(reference, graph, follow, has_choice=bool(types or without or who or after or limit or tail))
    if limit and tail:
        raise args.usage_error("--limit takes the first events, --tail the last: name one of them")
    if graph:
        _print_graph(reference)
        return
    with args.reading() as store:
        readable = Readable(store.log)
        wanted = _EventFilter(store, types, without, who, after)
        stream = None if reference is None else args.stream_of(store, reference.context)
        events = (
            _last_events(store, readable, reference, wanted, tail)
            if tail
            else _events(store, readable, reference, wanted)
        )
        if follow:
            events = filter(wanted, _followed(store, readable, events, stream, wanted.after))
        # `islice` takes no larger number, and no log has so many events.
        shown = islice(events, limit and min(limit, sys.maxsize))
        if not prints_json():
            is_any = print_events(_with_call_versions(shown), 1 if follow else PAGE_EVENTS)
            if not (is_any or follow or readable.left_out):
                click.echo("there are no such events", err=True)
        elif follow:
            for event in shown:
                click.echo(json_text(event_shape(event)))
        else:
            print_json_list(event_shape(event) for event in shown)
        readable.require_whole()


def _with_call_versions(events: Iterable[RecordedEvent]) -> Iterator[tuple[RecordedEvent, str]]:
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


def _check(reference: Reference | None, graph: bool, follow: bool, *, has_choice: bool) -> None:
    if graph and (follow or has_choice):
        raise args.usage_error(
            "--graph is about contexts, and not about single events: it goes with no other option than --json"
        )
    if reference is not None and reference.moments and follow:
        raise args.usage_error("--follow goes on from the head: leave out @V")
    if reference is not None and reference.moments and graph:
        raise args.usage_error("--graph shows contexts as they are now: leave out @V")


def _print_graph(reference: Reference | None) -> None:
    with rows_of([CATALOGUE, LINEAGE, VERSION_NAMES]) as [contexts, edges, names]:
        shown = families(contexts, edges, names)
        if reference is not None:
            with args.reading() as store:
                stream = args.stream_of(store, reference.context)
            shown = [family for family in shown if stream in family]
        print_lineage(shown)


class _EventFilter:
    """Whether an event is to be listed."""

    def __init__(
        self, store: Store, types: tuple[str, ...], without: tuple[str, ...], who: str | None, after: str | None
    ) -> None:
        self.is_later, self._types, self._without, self._who = IsAfter(store, after), types, without, who
        self.after = self.is_later.position

    def __call__(self, event: RecordedEvent) -> bool:
        if not self.is_later(event) or (self._who is not None and event.meta.actor != self._who):
            return False
        if any(_is_called(event.event, name) for name in self._without):
            return False
        return not self._types or any(_is_called(event.event, name) for name in self._types)


def _events(
    store: Store, readable: Readable, reference: Reference | None, wanted: _EventFilter
) -> Iterator[RecordedEvent]:
    """Yield the wanted events of the log, or of a context."""
    if reference is None:
        for page in readable.pages(wanted.after):
            yield from filter(wanted, page.events)
        return
    stream, after, until = _range_of(store, reference)
    after = max(after, store.log.version_at(stream, wanted.after))
    yield from filter(wanted, readable.of_stream(stream, after=after, until=until))


def _last_events(
    store: Store, readable: Readable, reference: Reference | None, wanted: _EventFilter, tail: int
) -> Iterator[RecordedEvent]:
    """Yield the last `tail` wanted events of the log, or of a context; each step back reads twice as many events."""
    if reference is None:
        yield from _last_of_log(readable, store.now(), wanted, tail)
        return
    stream, first, until = _range_of(store, reference)
    first = max(first, store.log.version_at(stream, wanted.after))
    found, back = list[RecordedEvent](), tail
    while until > first and len(found) < tail:
        after = max(first, until - back)
        read = list(readable.of_stream(stream, after=after, until=until))
        found[:0] = filter(wanted, read)
        until, back = first if read and not wanted.is_later(read[0]) else after, back * 2
    yield from found[-tail:]


def _last_of_log(readable: Readable, end: Moment, wanted: _EventFilter, tail: int) -> Iterator[RecordedEvent]:
    found, back, ends, first = list[RecordedEvent](), tail, dict(end.heads), dict(wanted.after.heads)
    while ends:
        starts = {lane: max(end - back, first.get(lane, 0)) for lane, end in ends.items()}
        oldest: dict[int, RecordedEvent] = {}
        for page in readable.pages(Moment.of(starts), Moment.of(ends)):
            for event in page.events:
                oldest.setdefault(event.position.slice, event)
            # Slices are read one after the other, and not all their events come in the order of time.
            found = nlargest(tail, [*found, *filter(wanted, page.events)], key=_time_and_place)
        # Within a slice times never fall, so what lies before an event there is not newer.
        done = {
            lane
            for lane, event in oldest.items()
            if not wanted.is_later(event)
            or (len(found) == tail and _time_and_place(event) <= _time_and_place(found[-1]))
        }
        ends = {lane: start for lane, start in starts.items() if start > first.get(lane, 0) and lane not in done}
        back *= 2
    yield from reversed(found)


def _time_and_place(event: RecordedEvent) -> tuple[int, Position]:
    return event.recorded_at, event.position


def _range_of(store: Store, reference: Reference) -> Range:
    """Return the versions of a context that a reference names: all up to its moment, or its range."""
    stream = args.stream_of(store, reference.context)
    if reference.is_range:
        after, until = (view_of(store, stream, moment).version for moment in reference.ends)
        return Range(stream, after, until)
    if reference.moment:
        return Range(stream, 0, view_of(store, stream, reference.moment).version)
    # The first event, which may be damaged, need not be read.
    return Range(stream, 0, store.log.head(stream))


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
