"""
Queues and pools that are to be changed: opening them, naming their items, recording what is done.

Nothing here makes a content an instance of its class: that belongs to programs that the command line does not load.
So a change goes to the container as the command that it is; the hooks that its own calls would ask are not here either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...domain.errors import NotFoundError
from ...domain.ids import split_stream_id
from ...domain.log.envelope import Event
from ...domain.pool import ContextPool, ContextQueue
from ...domain.pool.changes import Change
from ...domain.pool.commands import Command
from ...domain.pool.container import Container
from ...domain.pool.events import EvictedEvent
from ...domain.pool.items import Held
from ...domain.pool.state import ContainerState, Departures, complete
from ...domain.spans import Ref, Span, refs_of
from ...domain.totals import Totals
from ..queries.origins import births, full_ref
from ..store import Store
from .changes import PLACE


class _Quiet(Change):
    """A change that nobody is asked about, nor told of."""

    def __init__(self, prepare: Callable[[ContainerState], Command]) -> None:
        self._prepare = prepare

    def prepare(self, container: Container[Any], state: ContainerState) -> Command:
        """Return the command for the present state."""
        return self._prepare(state)


def container_in(store: Store, stream: str) -> ContextQueue[Any] | ContextPool[Any]:
    """Return the queue or the pool that lies in a stream."""
    kind, context_id = split_stream_id(stream)
    if kind == "queue":
        return store.queue(context_id, create=False)
    return store.pool(context_id, create=False)


def past_container(
    container: ContextQueue[Any] | ContextPool[Any], moment: str | None
) -> ContextQueue[Any] | ContextPool[Any]:
    """Return a queue or a pool as it was at a moment, or as it is."""
    return container.at(container.version if moment is None else moment)


def changed(container: Container[Any], prepare: Callable[[ContainerState], Command]) -> tuple[Event, ...]:
    """
    Record the command that `prepare` returns for the state, and return its events; where others come first it is asked
    again.
    """
    return asyncio.run(container.change(_Quiet(prepare), None, None)).events


def held_in(stream: str, state: ContainerState) -> dict[Ref, Held]:
    """Return the items of the container `stream` by their births."""
    return {full_ref(held.ref, stream): held for held in state.items.values()}


def named_items(stream: str, held: Mapping[Ref, Held], names: Iterable[str], way_out: str) -> list[Held]:
    """
    Return those of the items by birth that are named: by id, the last one that has it, or by place, like `@3`.

    Raises:
        NotFoundError: there is no such item; `way_out` says how to find those there are.
    """
    by_id = {one.event.id: ref for ref, one in held.items() if one.event.id is not None}
    found: dict[Ref, Held] = {}
    for name in names:
        ref = by_id.get(name) or next((place for place in _places(stream, name) if place in held), None)
        if ref is None:
            raise NotFoundError(f"{stream} has no item {name!r} {way_out}")
        found[ref] = held[ref]
    return list(found.values())


def _places(stream: str, name: str) -> list[Ref]:
    place = PLACE.fullmatch(name)
    if place is None:
        return []
    context, version = place.groups()
    # An id may begin as a kind does.
    streams = [f"{split_stream_id(stream)[0]}:{context}", context] if context else [stream]
    return [Ref(int(version), one) for one in streams]


def born(container: Container[Any], spans: Iterable[Span]) -> list[Held]:
    """Return the items that events of a container name, read where they came into the world."""
    refs = [full_ref(ref, container.stream) for ref in refs_of(spans)]
    found = births(container.log, refs)
    return [Held(ref, found[ref].event) for ref in refs]


def made_room(container: Container[Any], events: Iterable[Event]) -> list[Held]:
    """Return the items that left with these events because there were too many."""
    return born(container, [span for event in events if isinstance(event, EvictedEvent) for span in event.items])


def departures_of(container: Container[Any]) -> Departures:
    """Return what left a container up to the version that it shows."""
    departures = Departures(container.stream)
    departures.go_on(complete(container.log, container.log.read_events(container.stream, until=container.version)))
    return departures


def named_shape(ref: Ref, stream: str, item_id: str | None) -> dict[str, Any]:
    """Return how an item of the context `stream` is named: the context and version that brought it, and its id."""
    full = full_ref(ref, stream)
    return {"stream": full.stream, "version": full.version, "id": item_id}


def named_shapes(items: Iterable[Held], stream: str) -> list[dict[str, Any]]:
    """Return how items of the container `stream` are named."""
    return [named_shape(held.ref, stream, held.event.id) for held in items]


def totals_of(items: Iterable[Held]) -> Totals:
    """Return what items count together."""
    return sum((held.totals for held in items), Totals())
