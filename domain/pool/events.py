"""
The events of queues and pools.

Both are containers of items and have the same kinds of events; the tag of an event shows to which of the two it
belongs. A tag is kept for ever; a field is never renamed, retyped or reused, and a new one has a default. Each item is
added by one event, its origin, and all later events name the item by it (`refold.domain.spans`).
"""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from ..content import Content
from ..context.decider import VersionNamed
from ..errors import InvalidInputError
from ..log.admission import StreamName, VersionNumber
from ..log.envelope import TaggedEvent
from ..spans import Ref, Segment, Span
from ..totals import Totals


class OpenedEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """The container was created; `limit` is the maximum number of items, None is no limit."""

    limit: int | None = None
    tags: tuple[str, ...] = ()
    user: str | None = None
    session: str | None = None
    agent: str | None = None


class BranchedEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """
    The container was created as a branch of `parent` at `version`, with as many of its newest items as `limit` allows.

    `lineage` has all ancestors, the root first and the parent last, each up to the version that the branch includes.
    `root` decides the slice. `change` is the totals that the branch begins with.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("parent",)

    parent: StreamName
    version: VersionNumber
    lineage: tuple[Segment, ...]
    root: str
    limit: int | None = None
    tags: tuple[str, ...] = ()
    change: Totals = Totals()
    user: str | None = None
    session: str | None = None
    agent: str | None = None


class AddedEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """An item was added. An item of a pool has an id and a description."""

    content: Content
    description: str | None = None
    id: str | None = None

    def require_admissible(self) -> None:
        """Raise InvalidInputError where an item of a pool has no id."""
        if self.id is None and not isinstance(self, QueueAppended):
            raise InvalidInputError("an item of a pool has an id")


class EvictedEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """Items left to make room (`reason` is `limit`), or on request; each is named by its origin."""

    items: tuple[Span, ...]
    change: Totals
    reason: str = "limit"


class RestoredEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """Items that had left were restored, as the newest. Their names include the stream, also where it is this one."""

    items: tuple[Span, ...]
    change: Totals


class ClearedEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """All items left."""

    change: Totals


class MergedEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """
    Another container, `source` at `version`, was merged into this one.

    `base` is the last point at which both were the same, or None. `taken` names the items that were added, in order;
    `dropped` names this container's items that left because the other side had removed or replaced them.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("source",)

    source: StreamName
    version: VersionNumber
    base: Segment | None = None
    taken: tuple[Span, ...] = ()
    dropped: tuple[Span, ...] = ()
    change: Totals = Totals()


class SettingsEvent(TaggedEvent, frozen=True, kw_only=True, gc=False):
    """The limit and the tags were changed to these values."""

    limit: int | None
    tags: tuple[str, ...] = ()


class QueueOpened(OpenedEvent, frozen=True, kw_only=True, gc=False, tag="queue.opened.v1"):
    """A queue was created."""


class QueueBranched(BranchedEvent, frozen=True, kw_only=True, gc=False, tag="queue.branched.v1"):
    """A queue was created as a branch."""


class QueueAppended(AddedEvent, frozen=True, kw_only=True, gc=False, tag="queue.appended.v1"):
    """An item was appended to a queue."""


class QueueEvicted(EvictedEvent, frozen=True, kw_only=True, gc=False, tag="queue.evicted.v1"):
    """Items left a queue."""


class QueueRestored(RestoredEvent, frozen=True, kw_only=True, gc=False, tag="queue.restored.v1"):
    """Items were restored to a queue."""


class QueueCleared(ClearedEvent, frozen=True, kw_only=True, gc=False, tag="queue.cleared.v1"):
    """All items left a queue."""


class QueueMerged(MergedEvent, frozen=True, kw_only=True, gc=False, tag="queue.merged.v1"):
    """Another queue was merged into this one."""


class QueueSettingsChanged(SettingsEvent, frozen=True, kw_only=True, gc=False, tag="queue.settings_changed.v1"):
    """The limit or the tags of a queue were changed."""


class QueueNamed(VersionNamed, frozen=True, kw_only=True, gc=False, tag="queue.named.v1"):
    """A version of a queue was named."""


class PoolOpened(OpenedEvent, frozen=True, kw_only=True, gc=False, tag="pool.opened.v1"):
    """A pool was created."""


class PoolBranched(BranchedEvent, frozen=True, kw_only=True, gc=False, tag="pool.branched.v1"):
    """A pool was created as a branch."""


class PoolAdded(AddedEvent, frozen=True, kw_only=True, gc=False, tag="pool.added.v1"):
    """An item was added to a pool under a new id."""


class PoolReplaced(AddedEvent, frozen=True, kw_only=True, gc=False, tag="pool.replaced.v1"):
    """An item replaced `old`, which has the same id."""

    old: Ref
    change: Totals


class PoolRemoved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="pool.removed.v1"):
    """An item was removed from a pool; `item` is its origin."""

    id: str
    item: Ref
    change: Totals
    reason: str | None = None


class PoolEvicted(EvictedEvent, frozen=True, kw_only=True, gc=False, tag="pool.evicted.v1"):
    """Items left a pool."""


class PoolRestored(RestoredEvent, frozen=True, kw_only=True, gc=False, tag="pool.restored.v1"):
    """Items were restored to a pool."""


class PoolCleared(ClearedEvent, frozen=True, kw_only=True, gc=False, tag="pool.cleared.v1"):
    """All items left a pool."""


class PoolMerged(MergedEvent, frozen=True, kw_only=True, gc=False, tag="pool.merged.v1"):
    """Another pool was merged into this one."""


class PoolConflictResolved(TaggedEvent, frozen=True, kw_only=True, gc=False, tag="pool.conflict_resolved.v1"):
    """
    In a merge, both sides had changed the item `id`; None means that a side had removed it.

    `rule` is what the caller asked for (`ours`, `theirs`, `newest`, `function`), `kept` is the side that it chose.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("source",)

    source: StreamName
    id: str
    ours: Ref | None
    theirs: Ref | None
    rule: str
    kept: str


class PoolSettingsChanged(SettingsEvent, frozen=True, kw_only=True, gc=False, tag="pool.settings_changed.v1"):
    """The limit or the tags of a pool were changed."""


class PoolNamed(VersionNamed, frozen=True, kw_only=True, gc=False, tag="pool.named.v1"):
    """A version of a pool was named."""


ITEM_EVENTS = (QueueAppended, PoolAdded, PoolReplaced)
QueueEvent = (
    QueueOpened
    | QueueBranched
    | QueueAppended
    | QueueEvicted
    | QueueRestored
    | QueueCleared
    | QueueMerged
    | QueueSettingsChanged
    | QueueNamed
)
PoolEvent = (
    PoolOpened
    | PoolBranched
    | PoolAdded
    | PoolReplaced
    | PoolRemoved
    | PoolEvicted
    | PoolRestored
    | PoolCleared
    | PoolMerged
    | PoolConflictResolved
    | PoolSettingsChanged
    | PoolNamed
)
# The events that a fold takes, of either kind of container.
ContainerEvent = (
    OpenedEvent
    | BranchedEvent
    | AddedEvent
    | PoolRemoved
    | EvictedEvent
    | RestoredEvent
    | ClearedEvent
    | MergedEvent
    | PoolConflictResolved
    | SettingsEvent
    | VersionNamed
)


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
    named: type[VersionNamed]


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
