"""What adding to a queue and to a pool have in common."""

from __future__ import annotations

from typing import Any

import click

from ....domain.errors import NotFoundError
from ....domain.pool.commands import Add
from ....domain.pool.container import Container
from ....domain.pool.events import PoolReplaced
from ....domain.pool.items import ContextItem
from ....domain.spans import Ref
from ...store import Store
from ..addresses import stream_of
from ..changes import report
from ..containers import changed, container_in, made_room, named_shape, named_shapes
from ..naming import counted, source_of
from ..terminal import one_line

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
