"""The commands of queues and pools, and the two kinds: which events record what happens to them."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from ..spans import Ref, Segment
from .events import (
    AddedEvent,
    BranchedEvent,
    ClearedEvent,
    EvictedEvent,
    MergedEvent,
    NamedEvent,
    OpenedEvent,
    PoolAdded,
    PoolBranched,
    PoolCleared,
    PoolConflictResolved,
    PoolEvicted,
    PoolMerged,
    PoolNamed,
    PoolOpened,
    PoolRestored,
    PoolSettingsChanged,
    QueueAppended,
    QueueBranched,
    QueueCleared,
    QueueEvicted,
    QueueMerged,
    QueueNamed,
    QueueOpened,
    QueueRestored,
    QueueSettingsChanged,
    RestoredEvent,
    SettingsEvent,
)
from .items import Held


class Kind(NamedTuple):
    """A queue or a pool: its name, and the events of its streams."""

    name: str
    opened: type[OpenedEvent]
    branched: type[BranchedEvent]
    added: type[AddedEvent]
    evicted: type[EvictedEvent]
    restored: type[RestoredEvent]
    cleared: type[ClearedEvent]
    merged: type[MergedEvent]
    settings: type[SettingsEvent]
    named: type[NamedEvent]


QUEUE = Kind(
    "queue",
    QueueOpened,
    QueueBranched,
    QueueAppended,
    QueueEvicted,
    QueueRestored,
    QueueCleared,
    QueueMerged,
    QueueSettingsChanged,
    QueueNamed,
)
POOL = Kind(
    "pool",
    PoolOpened,
    PoolBranched,
    PoolAdded,
    PoolEvicted,
    PoolRestored,
    PoolCleared,
    PoolMerged,
    PoolSettingsChanged,
    PoolNamed,
)


class Begin(msgspec.Struct, frozen=True):
    """Open the container, or begin it as a branch."""

    event: OpenedEvent | BranchedEvent


class Add(msgspec.Struct, frozen=True):
    """Put items in; into a pool one that has the id of another takes its place."""

    items: tuple[AddedEvent, ...]


class Refill(msgspec.Struct, frozen=True):
    """Have all items leave, and put others in."""

    items: tuple[AddedEvent, ...]


class Remove(msgspec.Struct, frozen=True):
    """Take an item out of a pool."""

    id: str
    reason: str | None = None


class Evict(msgspec.Struct, frozen=True):
    """Have items leave, each named by its birth."""

    items: tuple[Ref, ...]
    reason: str


class Restore(msgspec.Struct, frozen=True):
    """Take items back that had left; they are named with their stream."""

    items: tuple[Held, ...]


class Clear(msgspec.Struct, frozen=True):
    """Have all items leave."""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """
    Take what another container has and drop what it had let go of; `conflicts` were resolved, and `made` are items
    that a function made of both sides.
    """

    source: str
    version: int
    base: Segment | None
    taken: tuple[Held, ...] = ()
    dropped: tuple[Ref, ...] = ()
    conflicts: tuple[PoolConflictResolved, ...] = ()
    made: tuple[AddedEvent, ...] = ()


class ChangeSettings(msgspec.Struct, frozen=True):
    """Set the limit and the tags."""

    limit: int | None
    tags: tuple[str, ...]


class NameVersion(msgspec.Struct, frozen=True):
    """Give a version a name."""

    name: str
    version: int


Command = Begin | Add | Refill | Remove | Evict | Restore | Clear | Merge | ChangeSettings | NameVersion
