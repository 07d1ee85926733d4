"""
The folded state of a queue or a pool, and the fold: one for both, since the same things happen to both.

A state is a value: it never changes, and a change costs the same whatever it holds.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import msgspec

from ...errors import DamagedError
from ...ordered_map import OrderedMap
from ...spans import OWN, Ref, Segment, Span, refs_of
from ..events import (
    AddedEvent,
    BranchedEvent,
    ClearedEvent,
    ContainerEvent,
    EvictedEvent,
    MergedEvent,
    NamedEvent,
    OpenedEvent,
    PoolBranched,
    PoolConflictResolved,
    PoolOpened,
    PoolRemoved,
    RestoredEvent,
    SettingsEvent,
)
from ..items import Held


class Resolved(msgspec.Struct, frozen=True):
    """A restoration or a merge, together with the items that it names."""

    event: RestoredEvent | MergedEvent
    taken: tuple[Held, ...]


class ContainerState(msgspec.Struct, frozen=True, kw_only=True):
    """
    What a queue or a pool is at one version.

    `items` has a pool's items by id and a queue's by birth, the oldest first; `ids` has a pool's ids by birth.
    `merged` maps a stream to the versions, its and the own one, up to which it was merged; `ancestry` is the
    lineage of a branch, its parent last.
    """

    version: int = 0
    opened: OpenedEvent | BranchedEvent | None = None
    limit: int | None = None
    tags: tuple[str, ...] = ()
    items: OrderedMap[Hashable, Held] = msgspec.field(default_factory=OrderedMap)
    ids: OrderedMap[Ref, str] = msgspec.field(default_factory=OrderedMap)
    names: dict[str, int] = msgspec.field(default_factory=dict)
    merged: dict[str, tuple[int, int]] = msgspec.field(default_factory=dict)
    ancestry: tuple[Segment, ...] = ()

    @property
    def is_pool(self) -> bool:
        """Whether items have ids here."""
        return isinstance(self.opened, PoolOpened | PoolBranched)


EMPTY = ContainerState()


def recorded_event(event: ContainerEvent | Resolved) -> ContainerEvent:
    """Return the event itself, without what was looked up for it."""
    return event.event if isinstance(event, Resolved) else event


def fold(state: ContainerState, events: Iterable[ContainerEvent | Resolved]) -> ContainerState:
    """
    Return the state after `events`; it trusts them, since they are history.

    A branch goes on where its parent's events end: its own begin with version 1 again. A restoration and a merge
    come as `Resolved`.
    """
    step = _Fold(state)
    for event in events:
        step.apply(event)
    return step.state()


class _Fold:
    """A fold under way."""

    def __init__(self, state: ContainerState) -> None:
        self._version, self._opened, self._ancestry = state.version, state.opened, state.ancestry
        self._limit, self._tags = state.limit, state.tags
        self._items, self._ids, self._is_pool = state.items, state.ids, state.is_pool
        self._names, self._merged = state.names, state.merged

    def state(self) -> ContainerState:
        """Return the state at the end."""
        return ContainerState(
            version=self._version,
            opened=self._opened,
            limit=self._limit,
            tags=self._tags,
            items=self._items,
            ids=self._ids,
            names=self._names,
            merged=self._merged,
            ancestry=self._ancestry,
        )

    def apply(self, event: ContainerEvent | Resolved) -> None:
        """Apply one event."""
        self._version += 1
        taken = event.taken if isinstance(event, Resolved) else ()
        recorded = recorded_event(event)
        match recorded:
            case AddedEvent():
                self._put(Held(Ref(self._version, OWN), recorded))
            case EvictedEvent():
                self._drop(recorded.items)
            case PoolRemoved():
                self._drop_one(recorded.item)
            case RestoredEvent():
                self._put_all(taken)
            case ClearedEvent():
                self._items, self._ids = OrderedMap(), OrderedMap()
            case MergedEvent():
                self._drop(recorded.dropped)
                self._put_all(taken)
                self._merged = {**self._merged, recorded.source: (recorded.version, self._version)}
            case SettingsEvent():
                self._limit, self._tags = recorded.limit, recorded.tags
            case NamedEvent():
                self._names = {**self._names, recorded.name: recorded.version}
            case OpenedEvent():
                self._opened, self._limit, self._tags = recorded, recorded.limit, recorded.tags
                self._is_pool = isinstance(recorded, PoolOpened)
            case BranchedEvent():
                self._branch(recorded)
            case PoolConflictResolved():
                pass  # It says how the merge behind it came about, and changes nothing itself.

    def _put(self, held: Held) -> None:
        """Put an item at the end; one whose id is taken goes where the old one was."""
        if not self._is_pool:
            self._items = self._items.plus(held.ref, held)
            return
        item_id = str(held.event.id)
        old = self._items.get(item_id)
        if old is not None:
            self._ids = self._ids.minus(old.ref)
        self._items = self._items.plus(item_id, held)
        self._ids = self._ids.plus(held.ref, item_id)

    def _put_all(self, taken: Iterable[Held]) -> None:
        for held in taken:
            self._put(held)

    def _drop(self, spans: Iterable[Span]) -> None:
        for ref in refs_of(spans):
            self._drop_one(ref)

    def _drop_one(self, ref: Ref) -> None:
        key: Hashable = self._ids.get(ref) if self._is_pool else ref
        if key not in self._items:
            raise DamagedError(f"item {ref.version} of {ref.stream or 'the own stream'}", "it left, and was not there")
        self._items = self._items.minus(key)
        if self._is_pool:
            self._ids = self._ids.minus(ref)

    def _branch(self, event: BranchedEvent) -> None:
        kept = [held.named_in(event.parent) for held in self._items.values()]
        self._version, self._opened, self._ancestry = 1, event, event.lineage
        self._limit, self._tags = event.limit, event.tags
        self._names, self._merged = {}, {}
        self._is_pool = isinstance(event, PoolBranched)
        self._items, self._ids = OrderedMap(), OrderedMap()
        self._put_all(kept if event.limit is None else kept[-event.limit :])
