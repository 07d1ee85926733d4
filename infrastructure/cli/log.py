"""`refold log`: the events themselves, in the order they were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, get_args

import click

from ...domain.log.envelope import RecordedEvent
from ...domain.positions import BEGINNING, Moment
from ...projections.catalogue import CATALOGUE
from ...projections.lineage import LINEAGE
from ..log.codec import CODEC
from ..store import Store
from .addresses import Reference, position, stream_of
from .addresses import reference as parse_reference
from .changes import note
from .context_views import seen
from .event_words import print_events, summary_of, type_of
from .log_graph import families, print_lineage
from .options import as_json, checked_text, database, reading
from .readable import LeftOutError, Readable, rows_of
from .shapes import event_shape, json_text, print_json_list

PAGE_EVENTS = 512


def _types(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> tuple[str, ...]:
    known = get_args(CODEC.events)
    for wanted in map(checked_text, values):
        if not any(_is_called(event, wanted) for event in known):
            names = ", ".join(sorted({type_of(event) for event in known}))
            raise click.BadParameter(f"there are no events of type {wanted!r}; there are {names}")
    return values


def _is_called(event: Any, wanted: str) -> bool:
    tag = str(event.__struct_config__.tag)
    return wanted in (tag, tag.rpartition(".")[0], type_of(event))


@click.command("log")
@click.argument("reference", metavar="[CTX[@V]]", callback=parse_reference, required=False)
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
            print_events(((event, summary_of(event.event)) for event in shown), 1 if follow else PAGE_EVENTS)
        elif follow:
            for event in shown:
                click.echo(json_text(event_shape(event)))
        else:
            print_json_list(event_shape(event) for event in shown)
        readable.require_whole()


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
    """Where each ends is looked up when the first is asked for."""
    if reference is None:
        for page in readable.pages(after):
            yield from page.events
        return
    view = seen(store, reference)
    yield from readable.of_stream(view.stream, after=store.log.version_at(view.stream, after), until=view.version)


def _followed(
    store: Store, readable: Readable, past: Iterable[RecordedEvent], stream: str | None, after: Moment
) -> Iterator[RecordedEvent]:
    # Taken before the past is read, so that nothing falls between the two.
    now, heads = store.now(), dict(after.heads)
    for event in past:
        heads[event.position.slice] = event.position.number
        yield event
    if readable.left_out:
        note(str(LeftOutError(readable.left_out)))
    for event in store.subscribe(after=now, contexts=None if stream is None else [stream]):
        if event.position.number > heads.get(event.position.slice, 0):
            yield event
