"""The commands that queues and pools share: remove, restore, show, and the end of add."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import click

from ...domain.errors import NotFoundError
from ...domain.pool.commands import Add, Evict, Remove, Restore
from ...domain.pool.container import Container
from ...domain.pool.events import PoolReplaced
from ...domain.pool.items import ContextItem, Held
from ...domain.spans import Ref
from ..store import Store
from .addresses import Reference, address, existing, stream_of
from .addresses import reference as parse_reference
from .changes import items, report
from .containers import (
    changed,
    container_in,
    departures_of,
    held_in,
    made_room,
    named_items,
    named_shape,
    named_shapes,
    totals_of,
)
from .context_views import items_seen
from .options import actor, as_json, changing, database, reading, reason
from .render import counted, one_line, source_of
from .showing import print_shown, shown_of

create = click.option("--create", is_flag=True, help="Make CTX if it is not there.")
limit = click.option("--limit", metavar="N", type=click.IntRange(min=1), help="With --create: N items at most.")


def container_for(store: Store, name: str, kind: str, *, create: bool, limit: int | None) -> Container[Any]:
    """
    Return the queue or the pool that was named, made if it is not there and may be made.

    Raises:
        NotFoundError: there is none.
        InvalidInputError: the id cannot be one, or there is one with another limit.
    """
    if limit is not None and not create:
        raise click.UsageError("--limit goes with --create: it is for a new one", click.get_current_context())
    if create:
        opener = store.queue if kind == "queue" else store.pool
        made: Container[Any] = opener(name.removeprefix(f"{kind}:"), limit=limit)
        return made
    try:
        return container_in(store, stream_of(store, name, (kind,)))
    except NotFoundError as error:
        raise NotFoundError(f"{error}; --create makes a new one") from error


def add_to(container: Container[Any], item: ContextItem[Any], *, as_json: bool) -> None:
    """Put an item in, and print what that did."""
    events = changed(container, lambda _: Add((container.added_event(item),)))
    stream, event, evicted = container.stream, events[-1], made_room(container, events)
    old = event.old if isinstance(event, PoolReplaced) else None
    shape = {
        "item": named_shape(Ref(container.version), stream, item.id),
        "replaced": None if old is None else named_shape(old, stream, item.id),
        "evicted": named_shapes(evicted, stream),
    }
    what = "1 item" if item.id is None else one_line(item.id)
    said = f"{what} added" if old is None else f"{what} added, in the place of {source_of(old.stream, old.version)}"
    said += f"; {counted(len(evicted), 'item')} left to make room" if evicted else ""
    report(container, said, shape, as_json=as_json)


NO_REASON = "evict"


def remove_command(kind: str, *, items_named: str) -> click.Command:
    """Return the command that takes items out of contexts of a kind."""
    help_text = f"""
    Take items out of CTX; `refold {kind} restore` brings them back.

    {items_named} is an id, or the @version that `refold {kind} show` prints beside an item.

    With --json: {{context, kind, version, items: [{{stream, version, id}}], tokens}}; an item is named by what brought
    it, and tokens is what left.
    """

    @click.command("remove", help=help_text, short_help="Take items out.")
    @click.argument("context", metavar="CTX", callback=existing)
    @items(required=True, metavar=items_named)
    @reason
    @actor
    @database
    @as_json
    def command(
        context: str, items: tuple[str, ...], reason: str | None, actor: str, location: str, as_json: bool
    ) -> None:
        with changing(location, actor) as store:
            container = container_in(store, stream_of(store, context, (kind,)))
            stream = container.stream
            way_out = f"to take out: `refold {kind} show {container.id}` lists what there is"
            leaving = named_items(stream, held_in(stream, container.shown_state), items, way_out)
            with store.transaction():
                _remove(container, leaving, reason)
            tokens = totals_of(leaving).tokens
            said = f"{counted(len(leaving), 'item')} removed, about {tokens:,} tokens"
            report(container, said, {"items": named_shapes(leaving, stream), "tokens": tokens}, as_json=as_json)

    return command


def _remove(container: Container[Any], leaving: Sequence[Held], reason: str | None) -> None:
    """From a pool an item is removed, which a merge hands on; from a queue it is evicted."""
    if container.kind.name == "pool":
        for held in leaving:
            _remove_one(container, str(held.event.id), reason)
    else:
        changed(container, lambda _: Evict(tuple(held.ref for held in leaving), reason or NO_REASON))


def _remove_one(container: Container[Any], item_id: str, reason: str | None) -> None:
    changed(container, lambda _: Remove(item_id, reason))


def restore_command(kind: str, *, items_named: str) -> click.Command:
    """Return the command that puts items back into contexts of a kind."""
    help_text = f"""
    Put items back into CTX that had left it, as the newest; where there is no room the oldest leave.

    {items_named} is an id, which means the item that left last with it, or the @version that `refold {kind} show
    --evicted` prints beside an item.

    With --json: {{context, kind, version, items: [{{stream, version, id}}], tokens, evicted}}; tokens is what came
    back, evicted names items as items does.
    """

    @click.command("restore", help=help_text, short_help="Put items back.")
    @click.argument("context", metavar="CTX", callback=existing)
    @items(required=True, metavar=items_named)
    @actor
    @database
    @as_json
    def command(context: str, items: tuple[str, ...], actor: str, location: str, as_json: bool) -> None:
        with changing(location, actor) as store:
            container = container_in(store, stream_of(store, context, (kind,)))
            stream = container.stream
            way_out = f"to restore: `refold {kind} show {container.id} --evicted` lists what left"
            left = {ref: Held(ref, one.held.event) for ref, one in departures_of(container).gone().items()}
            back = named_items(stream, left, items, way_out)
            evicted = made_room(container, changed(container, lambda _: Restore(tuple(back))))
            shape = {
                "items": named_shapes(back, stream),
                "tokens": totals_of(back).tokens,
                "evicted": named_shapes(evicted, stream),
            }
            said = f"{counted(len(back), 'item')} restored, about {totals_of(back).tokens:,} tokens"
            said += f"; {counted(len(evicted), 'item')} left to make room" if evicted else ""
            report(container, said, shape, as_json=as_json)

    return command


def show_command(kind: str, help_text: str, *, items_named: str) -> click.Command:
    """Return the command that shows contexts of a kind; `items_named` stands for an item in its help."""

    @click.command("show", help=help_text, short_help="Show what there is, now or at a moment of the past.")
    @click.argument("reference", metavar="CTX[@V]", callback=parse_reference)
    @items(required=False, metavar=items_named)
    @click.option("--at", "moment", metavar="X", callback=address, help="The moment, if it is not in CTX@V.")
    @click.option("--evicted", is_flag=True, help="What left, and why, instead of what is there.")
    @click.option("--tail", metavar="N", type=click.IntRange(min=1), help="The last N items only.")
    @database
    @as_json
    def command(
        reference: Reference,
        items: tuple[str, ...],
        moment: str | None,
        evicted: bool,
        tail: int | None,
        location: str,
        as_json: bool,
    ) -> None:
        fault = None
        if moment and reference.moments:
            fault = "the moment is given twice: in CTX@V and with --at"
        elif tail and (evicted or items):
            fault = f"--tail goes with neither --evicted nor {items_named}"
        if fault:
            raise click.UsageError(fault, click.get_current_context())
        with reading(location) as store:
            view = items_seen(store, reference, moment, kind)
            print_shown(shown_of(view, evicted=evicted, tail=tail, names=items), ids=True, as_json=as_json)

    return command
