"""
The folded state of a queue or a pool, and the fold; both kinds share them, since they have the same events.

A state is a value: it never changes. The cost of a change does not depend on the number of items.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, Never

import msgspec
from msgspec.structs import replace

from ..concurrency.known_types import known
from ..context.decider import VersionNamed
from ..context.description import Departure, Left
from ..context.snapshot import Packing
from ..errors import DamagedError, InvalidInputError, NotFoundError
from ..named_events import EventSource, Resolved, read_named, recorded_event
from ..ordered_map import OrderedMap
from ..spans import OWN, Ref, Segment, Span, refs_of, spans_of
from . import events as pool
from .describe import left_by
from .items import EvictedItem, Held

NOTHING_LEFT = Left((), "")


class ContainerState(msgspec.Struct, frozen=True, kw_only=True):
    """
    A queue or a pool at one version.

    `items` has a pool's items by id and a queue's items by origin, the oldest first; `ids` has a pool's ids by origin.
    `merged` maps a stream to the version up to which it was merged, also into ancestors; `ancestry` is the lineage of a
    branch, its parent last.
    """

    version: int = 0
    opened: pool.OpenedEvent | pool.BranchedEvent | None = None
    limit: int | None = None
    tags: tuple[str, ...] = ()
    items: OrderedMap[Hashable, Held] = msgspec.field(default_factory=OrderedMap)
    ids: OrderedMap[Ref, str] = msgspec.field(default_factory=OrderedMap)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    merged: dict[str, int] = msgspec.field(default_factory=dict)
    ancestry: tuple[Segment, ...] = ()

    @property
    def is_pool(self) -> bool:
        """Whether items have ids."""
        return isinstance(self.opened, pool.PoolOpened | pool.PoolBranched)

    def key_of(self, ref: Ref) -> Hashable:
        """Return the key that an item with this origin has in `items`; the origin itself where there is none."""
        item_id = self.ids.get(ref) if self.is_pool else None
        # An id may be empty.
        return ref if item_id is None else item_id


EMPTY = ContainerState()
# The events of a container in the form that `fold` takes: restorations and merges come with the items that they name.
Completed = pool.ContainerEvent | Resolved[Held]


def fold(state: ContainerState, events: Iterable[Completed]) -> ContainerState:
    """
    Return the state after `events`; the events are not checked, since they are history.

    A branch continues its parent's events; its own events begin at version 1 again. A restoration and a merge come as
    `Resolved`.
    """
    return reduce(_evolved, events, state)


def _evolved(state: ContainerState, event: Completed) -> ContainerState:
    version = state.version + 1
    state = replace(state, version=version)
    taken = event.taken if isinstance(event, Resolved) else ()
    recorded: pool.ContainerEvent = recorded_event(event)
    match recorded:
        case pool.AddedEvent():
            return _with(state, Held(Ref(version, OWN), recorded))
        case pool.EvictedEvent():
            return reduce(_without, refs_of(recorded.items), state)
        case pool.PoolRemoved():
            return _without(state, recorded.item)
        case pool.RestoredEvent():
            return reduce(_with, taken, state)
        case pool.ClearedEvent():
            return replace(state, items=OrderedMap(), ids=OrderedMap())
        case pool.MergedEvent():
            last = max(state.merged.get(recorded.source, 0), recorded.version)
            merged = {**state.merged, recorded.source: last}
            return reduce(_with, taken, reduce(_without, refs_of(recorded.dropped), replace(state, merged=merged)))
        case pool.SettingsEvent():
            return replace(state, limit=recorded.limit, tags=recorded.tags)
        case VersionNamed():
            return replace(state, names={**state.names, recorded.name: recorded.version})
        case pool.OpenedEvent():
            return replace(state, opened=recorded, limit=recorded.limit, tags=recorded.tags)
        case pool.BranchedEvent():
            return _branched(state, recorded)
        case pool.PoolConflictResolved():
            return state  # The merge event that follows has the items that were chosen.
    _: Never = recorded  # A type checker sees to it that each event is named. Others are passed over.
    return state


def _with(state: ContainerState, held: Held) -> ContainerState:
    """Add an item at the end; an item whose id is taken replaces the old one in its place."""
    if not state.is_pool:
        return replace(state, items=state.items.plus(held.ref, held))
    item_id, ids = str(held.event.id), state.ids
    old = state.items.get(item_id)
    if old is not None:
        ids = ids.minus(old.ref)
    return replace(state, items=state.items.plus(item_id, held), ids=ids.plus(held.ref, item_id))


def _without(state: ContainerState, ref: Ref) -> ContainerState:
    key: Hashable = state.ids.get(ref) if state.is_pool else ref
    if key not in state.items:
        raise DamagedError(f"item {ref.version} of {ref.stream or 'the own stream'}", "it left, and was not there")
    return replace(state, items=state.items.minus(key), ids=state.ids.minus(ref) if state.is_pool else state.ids)


def _branched(state: ContainerState, event: pool.BranchedEvent) -> ContainerState:
    kept = [held.named_in(event.parent) for held in state.items.values()]
    branch = ContainerState(
        version=1, opened=event, limit=event.limit, tags=event.tags, merged=state.merged, ancestry=event.lineage
    )
    return reduce(_with, kept if event.limit is None else kept[-event.limit :], branch)


class _Packed(msgspec.Struct, frozen=True, array_like=True):
    """
    A state without its items' events: their names, in order. The event that opened the container is read again, too.

    `by_age` has the items of a pool in the order in which they were added or replaced.
    """

    version: int
    limit: int | None
    tags: tuple[str, ...]
    names: dict[str, int]
    merged: dict[str, int]
    items: tuple[Span, ...]
    by_age: tuple[Span, ...]


def packed(state: ContainerState) -> bytes:
    """Return a state as a snapshot holds it."""
    items, by_age = (spans_of(held.ref for held in state.items.values()), spans_of(state.ids))
    short = _Packed(state.version, state.limit, state.tags, state.names, state.merged, items, by_age)
    return msgspec.msgpack.encode(short)


def unpacked(log: EventSource, stream: str, data: bytes) -> ContainerState:
    """
    Return the state that `packed` packed.

    Raises:
        DamagedError: the log does not hold what it names.
    """
    short = msgspec.msgpack.decode(data, type=known(_Packed))
    opened: Any = log.read_events(stream, until=1)[0]
    refs = refs_of(short.items)
    there = [Span(span.stream or stream, span.runs) for span in short.items]
    held = [Held(ref, one.event) for ref, one in zip(refs, read_items(log, there), strict=True)]
    is_pool = isinstance(opened, pool.PoolOpened | pool.PoolBranched)
    ids = {one.ref: str(one.event.id) for one in held}
    return ContainerState(
        version=short.version,
        opened=opened,
        limit=short.limit,
        tags=short.tags,
        items=OrderedMap.of({ids[one.ref] if is_pool else one.ref: one for one in held}),
        ids=OrderedMap.of({ref: ids[ref] for ref in refs_of(short.by_age)}),
        names=short.names,
        merged=short.merged,
        ancestry=opened.lineage if isinstance(opened, pool.BranchedEvent) else (),
    )


PACKING = Packing(
    packed,
    unpacked,
    "refold.domain.ordered_map",
    "refold.domain.pool.describe",
    "refold.domain.pool.events",
    "refold.domain.pool.items",
    "refold.domain.pool.state",
)


def ref_of(birth: str, stream: str) -> Ref:
    """
    Return the Ref of a name in `births`, with its stream; a number alone is a version of `stream`.

    Raises:
        InvalidInputError: it is not such a name.
    """
    text = str(birth)
    try:
        return Ref.parse(f"{stream}@{text}" if "@" not in text else text.removeprefix("@"))
    except ValueError as error:
        fault = f"{birth!r} does not name an item: take one of `births`, as {stream}@2, or its version"
        raise InvalidInputError(fault) from error


def named_items(state: ContainerState, refs: Iterable[Ref], stream: str) -> list[Held]:
    """
    Return the present items of the container `stream` with these names, which include the stream.

    Raises:
        NotFoundError: one of the items is not there.
    """
    by_ref = {held.ref.within(stream): held for held in state.items.values()}
    for ref in refs:
        if ref not in by_ref:
            raise NotFoundError(f"{stream} does not hold the item {ref.within(stream)}: `births` names those it does")
    return [by_ref[ref] for ref in refs]


def complete(log: EventSource, events: Sequence[Any]) -> Sequence[Completed]:
    """
    Return the events of a container in the form that `fold` takes; for a branch, the events of its ancestors come
    first.

    Raises:
        DamagedError: a stream does not hold what an event names.
    """
    first = events[0] if events else None
    parts: list[Sequence[Any]] = [events]
    for segment in reversed(first.lineage) if isinstance(first, pool.BranchedEvent) else ():
        parts.append(log.read_events(segment.stream, until=segment.version))
        if len(parts[-1]) != segment.version:
            raise DamagedError(f"the branch of {segment.stream}@{segment.version}", "that version does not exist")
    return [_resolved(log, event) for part in reversed(parts) for event in part]


def read_items(log: EventSource, spans: Iterable[Span]) -> list[Held]:
    """
    Return the items that spans name, in order, read from the events that added them.

    Raises:
        DamagedError: there is no such item.
    """
    return [Held(ref, event) for ref, event in read_named(log, spans, pool.ITEM_EVENTS)]


def _resolved(log: EventSource, event: Any) -> Completed:
    if isinstance(event, pool.RestoredEvent):
        return Resolved(event, tuple(read_items(log, event.items)))
    if isinstance(event, pool.MergedEvent):
        return Resolved(event, tuple(read_items(log, event.taken)))
    recorded: pool.ContainerEvent = event
    return recorded


class Departed(Departure, frozen=True):
    """An item that left, and how; `stream` is the ancestor that it left, or empty for the container itself."""

    held: Held
    stream: str = OWN


class Departures:
    """
    Items that left a container up to a version and were not restored: by origin with stream, in the order in which they
    left.

    With `of_ancestors`, items are included that left the ancestors of a branch before the branch began.
    """

    def __init__(self, stream: str, events: Iterable[Completed] = (), *, of_ancestors: bool = False) -> None:
        self._stream, self._of_ancestors = stream, of_ancestors
        self._left: dict[Ref, Departed] = {}
        self.state: ContainerState = EMPTY
        self.go_on(events)

    def go_on(self, events: Iterable[Completed]) -> None:
        """Record the items that leave with `events`, which follow those before."""
        for event in events:
            recorded: pool.ContainerEvent = recorded_event(event)
            # The leaving items are looked up before the fold: reading an earlier state costs time for each item.
            left, leaving = _leaving(recorded, self.state)
            self.state = fold(self.state, (event,))
            if isinstance(recorded, pool.BranchedEvent):
                # Items that had left the ancestors were never in the branch.
                self._left = _left_in(recorded.parent, self._left) if self._of_ancestors else {}
                leaving = [held.named_in(recorded.parent) for held in leaving]
            staying = self._there() if isinstance(recorded, pool.MergedEvent | pool.BranchedEvent) else ()
            for held in leaving:
                ref = held.ref.within(self._stream)
                if ref not in staying:
                    self._left.pop(ref, None)
                    self._left[ref] = Departed(left.how, left.reason, self.state.version, held)

    def gone(self) -> dict[Ref, Departed]:
        """Return the items that left and are not there, each with how, why and at which version."""
        there = self._there()
        return {ref: left for ref, left in self._left.items() if ref not in there}

    def _there(self) -> set[Ref]:
        return {held.ref.within(self._stream) for held in self.state.items.values()}


def _left_in(parent: str, left: Mapping[Ref, Departed]) -> dict[Ref, Departed]:
    """Return the items that left the parent of a branch, as the branch names them."""
    named = [replace(one, held=one.held.named_in(parent), stream=one.stream or parent) for one in left.values()]
    return {one.held.ref: one for one in named}


def departed(stream: str, events: Iterable[Completed]) -> list[EvictedItem]:
    """Return the items that left the container `stream` with its events so far and were not restored."""
    return [
        EvictedItem(one.held, one.how, one.reason, one.version, str(ref.within(stream)))
        for ref, one in Departures(stream, events).gone().items()
    ]


def _leaving(event: pool.ContainerEvent, state: ContainerState) -> tuple[Left, list[Held]]:
    """Return the items that may leave with an event, and how; at a merge or a branch some of them may stay."""
    # Items that do not fit into a branch leave. An item of a merge may replace one with the same id.
    left = Left(None, "evict", "limit") if isinstance(event, pool.BranchedEvent) else left_by(event)
    if left is None:
        return NOTHING_LEFT, []
    is_any = left.items is None or isinstance(event, pool.MergedEvent)
    return left, list(state.items.values()) if is_any else _present_items(state, refs_of(left.items or ()))


def _present_items(state: ContainerState, refs: Iterable[Ref]) -> list[Held]:
    by_key = [state.items.get(state.key_of(ref)) for ref in refs]
    return [held for held in by_key if held is not None]
