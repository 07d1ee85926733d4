"""
The events of queues and pools.

Both are containers of items, and the same things happen to both; a tag of its own says to which. A tag is kept for
ever; a field is never renamed, retyped or reused, and a new one has a default. An item is brought into the world by
one event and named by it ever after (`refold.domain.spans`).
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from ..content import Content
from ..errors import InvalidInputError
from ..log.admission import StreamName, VersionName, VersionNumber
from ..spans import Ref, Segment, Span
from ..totals import Totals


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="t"):
    """Base of all events of containers: a msgpack map with the tag under `t`."""


class OpenedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """The container came to be; `limit` is the most items that it holds, None is no limit."""

    limit: int | None = None
    tags: tuple[str, ...] = ()
    user: str | None = None
    session: str | None = None
    agent: str | None = None


class BranchedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """
    The container came to be as a branch of `parent` at `version`, with its newest items, as many as `limit` lets in.

    `lineage` has all ancestors, the root first and the parent last, each up to the version that counts here.
    `root` decides the slice. `change` is what the branch begins with.
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


class AddedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """An item came in. A pool's has an id and a description."""

    content: Content
    description: str | None = None
    id: str | None = None

    def require_admissible(self) -> None:
        """Raise InvalidInputError where a pool's item has no id."""
        if self.id is None and not isinstance(self, QueueAppended):
            raise InvalidInputError("an item of a pool has an id")


class EvictedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """Items left to make room (`reason` is `limit`), or because somebody said so; each is named by its birth."""

    items: tuple[Span, ...]
    change: Totals
    reason: str = "limit"


class RestoredEvent(_Event, frozen=True, kw_only=True, gc=False):
    """Items that had left are back, as the newest. They are named with their stream, the own one too."""

    items: tuple[Span, ...]
    change: Totals


class ClearedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """All items left."""

    change: Totals


class MergedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """
    Another container, `source` at `version`, was merged into this one.

    `base` is where both were the same, and None where they never were. `taken` names what came in, in order;
    `dropped` the own items that left because the other side had let go of them, or had something else in their place.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("source",)

    source: StreamName
    version: VersionNumber
    base: Segment | None = None
    taken: tuple[Span, ...] = ()
    dropped: tuple[Span, ...] = ()
    change: Totals = Totals()


class SettingsEvent(_Event, frozen=True, kw_only=True, gc=False):
    """The limit and the tags are these from now on."""

    limit: int | None
    tags: tuple[str, ...] = ()


class NamedEvent(_Event, frozen=True, kw_only=True, gc=False):
    """A version got a name; the same name given again moves it."""

    name: VersionName
    version: VersionNumber


class QueueOpened(OpenedEvent, frozen=True, kw_only=True, gc=False, tag="queue.opened.v1"):
    """A queue came to be."""


class QueueBranched(BranchedEvent, frozen=True, kw_only=True, gc=False, tag="queue.branched.v1"):
    """A queue came to be as a branch."""


class QueueAppended(AddedEvent, frozen=True, kw_only=True, gc=False, tag="queue.appended.v1"):
    """An item was appended to a queue."""


class QueueEvicted(EvictedEvent, frozen=True, kw_only=True, gc=False, tag="queue.evicted.v1"):
    """Items left a queue."""


class QueueRestored(RestoredEvent, frozen=True, kw_only=True, gc=False, tag="queue.restored.v1"):
    """Items are back in a queue."""


class QueueCleared(ClearedEvent, frozen=True, kw_only=True, gc=False, tag="queue.cleared.v1"):
    """A queue was emptied."""


class QueueMerged(MergedEvent, frozen=True, kw_only=True, gc=False, tag="queue.merged.v1"):
    """Another queue was merged into this one."""


class QueueSettingsChanged(SettingsEvent, frozen=True, kw_only=True, gc=False, tag="queue.settings_changed.v1"):
    """A queue has another limit, or other tags."""


class QueueNamed(NamedEvent, frozen=True, kw_only=True, gc=False, tag="queue.named.v1"):
    """A version of a queue got a name."""


class PoolOpened(OpenedEvent, frozen=True, kw_only=True, gc=False, tag="pool.opened.v1"):
    """A pool came to be."""


class PoolBranched(BranchedEvent, frozen=True, kw_only=True, gc=False, tag="pool.branched.v1"):
    """A pool came to be as a branch."""


class PoolAdded(AddedEvent, frozen=True, kw_only=True, gc=False, tag="pool.added.v1"):
    """An item came into a pool under a new id."""


class PoolReplaced(AddedEvent, frozen=True, kw_only=True, gc=False, tag="pool.replaced.v1"):
    """An item took the place of `old`, which has the same id."""

    old: Ref
    change: Totals


class PoolRemoved(_Event, frozen=True, kw_only=True, gc=False, tag="pool.removed.v1"):
    """An item was taken out of a pool; `item` is its birth."""

    id: str
    item: Ref
    change: Totals
    reason: str | None = None


class PoolEvicted(EvictedEvent, frozen=True, kw_only=True, gc=False, tag="pool.evicted.v1"):
    """Items left a pool."""


class PoolRestored(RestoredEvent, frozen=True, kw_only=True, gc=False, tag="pool.restored.v1"):
    """Items are back in a pool."""


class PoolCleared(ClearedEvent, frozen=True, kw_only=True, gc=False, tag="pool.cleared.v1"):
    """A pool was emptied."""


class PoolMerged(MergedEvent, frozen=True, kw_only=True, gc=False, tag="pool.merged.v1"):
    """Another pool was merged into this one."""


class PoolConflictResolved(_Event, frozen=True, kw_only=True, gc=False, tag="pool.conflict_resolved.v1"):
    """
    In a merge both sides had changed the item `id`; None stands for an item that its side had removed.

    `rule` is what the caller asked for (`ours`, `theirs`, `newest`, `function`), `kept` the side it chose.
    """

    STREAM_FIELDS: ClassVar[tuple[str, ...]] = ("source",)

    source: StreamName
    id: str
    ours: Ref | None
    theirs: Ref | None
    rule: str
    kept: str


class PoolSettingsChanged(SettingsEvent, frozen=True, kw_only=True, gc=False, tag="pool.settings_changed.v1"):
    """A pool has another limit, or other tags."""


class PoolNamed(NamedEvent, frozen=True, kw_only=True, gc=False, tag="pool.named.v1"):
    """A version of a pool got a name."""


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
# What a fold is told, whichever of the two it happened to.
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
    | NamedEvent
)
