"""`refold log`: the events themselves, in the order they were recorded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, get_args

import click

from ...domain.envelope import RecordedEvent
from ...domain.positions import BEGINNING, Moment
from ..codec import CODEC
from ..store import Store
from .addresses import Reference, position, stream_of
from .addresses import reference as parse_reference
from .event_lines import print_events
from .options import as_json, checked_text, database, reading
from .seeing import seen
from .shapes import event_shape, json_text, print_json_list
from .wording import summary_of, type_of

__all__ = ["command"]

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
@click.option("--follow", is_flag=True, help="Go on with new events as they come; Ctrl-C ends it.")
@database
@as_json
def command(
    reference: Reference | None,
    types: tuple[str, ...],
    after: Moment | None,
    limit: int | None,
    follow: bool,
    location: str,
    as_json: bool,
) -> None:
    """
    List the events of the whole log, or of one context (up to V), oldest first.

    With --json: an array (JSON lines with --follow) of {position, stream, version, recorded_at, actor,
    correlation_id, causation, idempotency_key, type, event, digest}; event has the fields of the type, those left
    out that have their default.
    """
    if follow and reference is not None and reference.moments:
        raise click.UsageError("--follow goes on from the head: leave out @V", click.get_current_context())
    with reading(location) as store:
        events = _events(store, reference, after or BEGINNING)
        if follow:
            events = _followed(store, reference, events, after or BEGINNING)
        wanted = (event for event in events if not types or any(_is_called(event.event, name) for name in types))
        shown = islice(wanted, limit)
        if not as_json:
            print_events(((event, summary_of(event.event)) for event in shown), 1 if follow else PAGE_EVENTS)
        elif follow:
            for event in shown:
                click.echo(json_text(event_shape(event)))
        else:
            print_json_list(event_shape(event) for event in shown)


def _events(store: Store, reference: Reference | None, after: Moment) -> Iterator[RecordedEvent]:
    if reference is not None:
        view = seen(store, reference)
        yield from store.log.read(view.stream, after=store.log.version_at(view.stream, after), until=view.version)
        return
    page = store.log.read_all(after=after, limit=PAGE_EVENTS)
    while page.events:
        yield from page.events
        page = store.log.read_all(after=page.moment, limit=PAGE_EVENTS)


def _followed(
    store: Store, reference: Reference | None, past: Iterable[RecordedEvent], after: Moment
) -> Iterator[RecordedEvent]:
    if reference is None:
        yield from store.subscribe(after=after)
        return
    # Taken before the past is read, so that nothing falls between the two.
    now, stream, version = store.now(), "", 0
    for event in past:
        stream, version = event.stream, event.version
        yield event
    stream = stream or stream_of(store, reference.context)
    for event in store.subscribe(after=now):
        if event.stream == stream and event.version > version:
            yield event
