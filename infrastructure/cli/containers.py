"""
`refold queue` and `refold pool`: showing and changing them.

The classes of contents belong to programs that the command line does not load, so contents stay plain data here. A
change is sent to the container as a command, and the hooks of the container's methods are not called.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence, Sized
from contextlib import nullcontext
from shlex import quote
from typing import Any

import click

from ...domain.context.address import Reference
from ...domain.context.description import counted, source_of
from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import Event
from ...domain.pool.changes import Change, Owner
from ...domain.pool.container import Container
from ...domain.pool.events import EvictedEvent, PoolReplaced
from ...domain.pool.items import ContextItem, Held
from ...domain.pool.pool import ContextPool
from ...domain.pool.queue import ContextQueue
from ...domain.pool.rules import Add, Command, Evict, Remove, Restore
from ...domain.pool.state import ContainerState, Departures, complete
from ...domain.spans import Ref, Span, refs_of
from ...domain.totals import total_of
from ..context_streams import streams_named
from ..queries.origins import first_events
from ..store import Store
from ..views.changes import places
from ..views.shapes import named_shape
from . import args
from .changes import content, is_json, items, parsed, report
from .completion import at_moment, context, context_and_moment, offered_items
from .lines import item_view_in, print_shown, shown_of
from .render import one_line
from .search import search_command

NO_REASON = "evict"
QUEUE_SHOW_HELP = """
    Show what a queue holds, the oldest first, now or at a moment of its past; with ITEM those items only.

    ITEM is an id, or the @version that is printed beside an item.

    With --json: what `refold show --json` prints.
"""
POOL_SHOW_HELP = """
    Show a pool's catalogue, which is the ids and descriptions of its items, now or at a moment of its past; with ID
    what these items hold.

    ID is an id, or the @version that is printed beside an item.

    With --json: what `refold show --json` prints, contents always.
"""


class _WithoutHooks(Change):
    """A change that calls no hooks."""

    def __init__(self, prepare: Callable[[ContainerState], Command]) -> None:
        self._prepare = prepare

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        """Return the command for the present state."""
        return self._prepare(state)


def container_in(store: Store, stream: str) -> ContextQueue[Any] | ContextPool[Any]:
    kind, context_id = split_stream_id(stream)
    if kind == "queue":
        return store.queue(context_id, create=False)
    return store.pool(context_id, create=False)


def past_container(
    container: ContextQueue[Any] | ContextPool[Any], moment: str | None
) -> ContextQueue[Any] | ContextPool[Any]:
    """Return a queue or a pool at a moment; without one, at its present version."""
    return container.at(container.version if moment is None else moment)


def changed(container: Container[Any], prepare: Callable[[ContainerState], Command]) -> tuple[Event, ...]:
    """
    Record the command that `prepare` returns for the present state, and return its events.

    If another writer comes first, `prepare` is called again with the new state.
    """
    return asyncio.run(container.change(_WithoutHooks(prepare), None, None)).events


def named_items(stream: str, held: Mapping[Ref, Held], names: Iterable[str], way_out: str) -> list[Held]:
    """
    Return the named items among `held`; a name is an id, which means the last item with it, or a place like `@3`.

    Raises:
        NotFoundError: there is no such item; `way_out` says how to list the existing items.
    """
    by_id = {one.event.id: ref for ref, one in held.items() if one.event.id is not None}
    found: dict[Ref, Held] = {}
    for name in names:
        ref = by_id.get(name) or next((place for place in places(stream, name) if place in held), None)
        if ref is None:
            raise NotFoundError(f"{stream} has no item {name!r} {way_out}")
        found[ref] = held[ref]
    return list(found.values())


def items_in(container: Container[Any], spans: Iterable[Span]) -> list[Held]:
    """Return the items that events of a container name, read from the events that first recorded them."""
    refs = [ref.within(container.stream_id) for ref in refs_of(spans)]
    found = first_events(container.log, refs)
    return [Held(ref, found[ref].event) for ref in refs]


def evicted_for_room(container: Container[Any], events: Iterable[Event]) -> list[Held]:
    """Return the items that these events evicted to make room."""
    return items_in(container, [span for event in events if isinstance(event, EvictedEvent) for span in event.items])


def named_shapes(items: Iterable[Held], stream: str) -> list[dict[str, Any]]:
    """Return the names of items of the container `stream` for JSON."""
    return [named_shape(held.ref, stream, held.event.id) for held in items]


def room_note(evicted: Sized) -> str:
    """Return the end of the sentence about a change, which counts the items that left to make room."""
    return f"; {counted(len(evicted), 'item')} left to make room" if evicted else ""


create = args.flag("--create", help="Create CTX if it does not exist.")
limit = args.number(
    "--limit", help="With --create, the most items that it holds; without it a queue holds 10, a pool any number."
)


def container_for(store: Store, name: str, kind: str, *, create: bool, limit: int | None) -> Container[Any]:
    """
    Return a queue or a pool by its name; with `create` it is made if it is missing.

    Raises:
        NotFoundError: there is no such queue or pool.
        InvalidInputError: the id is not valid, or there is one with another limit.
    """
    if limit is not None and not create:
        raise args.usage_error("--limit goes with --create: it is for a new one")
    if create:
        opener = store.queue if kind == "queue" else store.pool
        made: Container[Any] = opener(args.id_of_new(kind, name, "what is made here"), limit=limit)
        return made
    try:
        return container_in(store, args.stream_of(store, name, (kind,)))
    except NotFoundError as error:
        raise NotFoundError(f"{error}; --create makes a new one") from error


def add_to(store: Store, name: str, kind: str, item: ContextItem[Any], *, create: bool, limit: int | None) -> None:
    """Add an item to a queue or a pool, and print the result; a new one is opened in the same transaction."""
    is_new = create and not streams_named(store.log, name, (kind,))
    with store.transaction() if is_new else nullcontext():
        container = container_for(store, name, kind, create=create, limit=limit)
        events = changed(container, lambda _: Add((container.added_event(item),)))
    stream, event, evicted = container.stream_id, events[-1], evicted_for_room(container, events)
    old = event.old if isinstance(event, PoolReplaced) else None
    shape = {
        "item": named_shape(Ref(container.version), stream, item.id),
        "replaced": None if old is None else named_shape(old, stream, item.id),
        "evicted": named_shapes(evicted, stream),
    }
    what = "1 item" if item.id is None else one_line(item.id)
    said = f"{what} added" if old is None else f"{what} added, in the place of {source_of(old.stream, old.version)}"
    report(container, said + room_note(evicted), shape)


def remove_command(kind: str, *, items_named: str) -> click.Command:
    """Return the command that takes items out of contexts of a kind."""
    help_text = f"""
    Take items out of CTX; `refold {kind} restore` brings them back.

    {items_named} is an id, or the @version that `refold {kind} show` prints beside an item.

    With --json: {{context, kind, version, items: [{{stream, version, id}}], tokens}}; an item is named by what brought
    it, and tokens is what left.
    """

    @click.command("remove", help=help_text, short_help="Take items out.")
    @context
    @items(required=True, metavar=items_named)
    @args.reason
    @args.change_options
    def command(context: str, items: tuple[str, ...], reason: str | None) -> None:
        with args.changing() as store:
            container = container_in(store, args.stream_of(store, context, (kind,)))
            stream = container.stream_id
            way_out = f"to take out: `refold {kind} show {quote(container.id)}` lists what there is"
            held = {one.ref.within(stream): one for one in container.shown_state.items.values()}
            leaving = named_items(stream, held, items, way_out)
            with store.transaction():
                _remove(container, leaving, reason)
            tokens = total_of(leaving).tokens
            said = f"{counted(len(leaving), 'item')} removed, about {tokens:,} tokens"
            report(container, said, {"items": named_shapes(leaving, stream), "tokens": tokens})

    return command


def _remove(container: Container[Any], leaving: Sequence[Held], reason: str | None) -> None:
    """Remove items from a pool, which a merge passes on to other pools; evict them from a queue."""
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
    @context
    @items(required=True, metavar=items_named)
    @args.change_options
    def command(context: str, items: tuple[str, ...]) -> None:
        with args.changing() as store:
            container = container_in(store, args.stream_of(store, context, (kind,)))
            stream = container.stream_id
            way_out = f"to restore: `refold {kind} show {quote(container.id)} --evicted` lists what left"
            events = complete(store.log, store.log.read_events(stream, until=container.version))
            left = {ref: Held(ref, one.held.event) for ref, one in Departures(stream, events).gone().items()}
            back = named_items(stream, left, items, way_out)
            evicted = evicted_for_room(container, changed(container, lambda _: Restore(tuple(back))))
            shape = {
                "items": named_shapes(back, stream),
                "tokens": total_of(back).tokens,
                "evicted": named_shapes(evicted, stream),
            }
            said = f"{counted(len(back), 'item')} restored, about {total_of(back).tokens:,} tokens"
            report(container, said + room_note(evicted), shape)

    return command


def show_command(kind: str, help_text: str, *, items_named: str) -> click.Command:
    """Return the command that shows contexts of a kind; `items_named` stands for an item in its help."""

    @click.command("show", help=help_text, short_help="Show what there is, now or at a moment of the past.")
    @context_and_moment
    @items(required=False, metavar=items_named)
    @at_moment("CTX")
    @args.flag(
        "--evicted",
        help="The items that left and are not back, with the way and the reason, instead of the present items.",
    )
    @args.number("--tail", help="Only the last N items.")
    @args.answer_options
    def command(
        reference: Reference, items: tuple[str, ...], moment: str | None, evicted: bool, tail: int | None
    ) -> None:
        args.require_one_moment(reference, moment, "CTX")
        if tail and (evicted or items):
            raise args.usage_error(f"--tail goes with neither --evicted nor {items_named}")
        with args.reading() as store:
            view = item_view_in(store, reference, moment, kind)
            print_shown(shown_of(view, evicted=evicted, tail=tail, names=items), ids=True)

    return command


@click.command("add", short_help="Put an item in.")
@context
@content("CONTENT")
@is_json("CONTENT")
@args.text("--description", metavar="TEXT", help="The description of the item, by which it is chosen.")
@create
@limit
@args.change_options
def add_to_queue(
    context: str, content: str, is_json: bool, description: str | None, create: bool, limit: int | None
) -> None:
    """
    Put an item into the queue CTX, as the newest one; where there is no room the oldest leaves.

    CONTENT is a text, or with --parse JSON; - takes it from stdin.

    With --json: {context, kind, version, item: {stream, version, id}, replaced, evicted: [{stream, version, id}]};
    items are named by what brought them, replaced is null in a queue.
    """
    item = ContextItem(parsed(content, is_json=is_json), description)
    with args.changing() as store:
        add_to(store, context, "queue", item, create=create, limit=limit)


queue = args.group(
    "queue",
    "Show, fill and search context queues: the newest items, up to a limit.",
    [
        show_command("queue", QUEUE_SHOW_HELP, items_named="ITEM"),
        add_to_queue,
        remove_command("queue", items_named="ITEM"),
        restore_command("queue", items_named="ITEM"),
        search_command("queue", "--context", "CTX"),
    ],
)


@click.command("add", short_help="Put an item in.")
@context
@args.argument(
    "item_id",
    help="The id; an item that has it already is replaced, and keeps its place.",
    metavar="ID",
    callback=args.required_text,
    shell_complete=offered_items,
)
@content("CONTENT")
@args.text("--description", metavar="TEXT", required=True, help="The description of the item, by which it is chosen.")
@is_json("CONTENT")
@create
@limit
@args.change_options
def add_to_pool(
    context: str, item_id: str, content: str, description: str, is_json: bool, create: bool, limit: int | None
) -> None:
    """
    Put an item into the pool CTX, in the place of the one that has its ID; a new one is the newest, and where there is
    no room the oldest leaves.

    CONTENT is a text, or with --parse JSON; - takes it from stdin.

    With --json: {context, kind, version, item: {stream, version, id}, replaced, evicted: [{stream, version, id}]};
    items are named by what brought them, replaced is null where there was none.
    """
    item = ContextItem(parsed(content, is_json=is_json), description, item_id)
    with args.changing() as store:
        add_to(store, context, "pool", item, create=create, limit=limit)


pool = args.group(
    "pool",
    "Show, fill and search context pools: items by id, to be chosen by their descriptions.",
    [
        show_command("pool", POOL_SHOW_HELP, items_named="ID"),
        add_to_pool,
        remove_command("pool", items_named="ID"),
        restore_command("pool", items_named="ID"),
        search_command("pool", "--context", "CTX"),
    ],
)
