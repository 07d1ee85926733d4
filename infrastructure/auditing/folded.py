"""What the events of queues, pools, windows and memories did to their items."""

from __future__ import annotations

from collections.abc import Iterator

from ...domain.log.envelope import RecordedEvent
from ...domain.memory.events import MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from ...domain.pool.events import (
    AddedEvent,
    BranchedEvent,
    ClearedEvent,
    EvictedEvent,
    MergedEvent,
    NamedEvent,
    OpenedEvent,
    PoolConflictResolved,
    PoolMerged,
    PoolRemoved,
    PoolReplaced,
    RestoredEvent,
    SettingsEvent,
)
from ...domain.spans import Ref, refs_of
from ...domain.window.events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvicted,
    WindowNamed,
    WindowOpened,
    WindowReplaced,
    WindowRestored,
    WindowSettingsChanged,
)
from ..plain_events import plain_fields
from .trail import Change, Trail

OPENED = ("parent", "limit", "tags", "user", "session", "agent")


def container_changes(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    """Yield what an event of a queue or a pool did."""
    event, own = recorded.event, [Ref(recorded.version, recorded.stream)]
    match event:
        case PoolReplaced():
            yield from trail.come(recorded, own, instead={event.id: event.old})
        case AddedEvent():
            yield from trail.come(recorded, own)
        case EvictedEvent():
            yield from trail.leave(recorded, refs_of(event.items), reason=event.reason)
        case PoolRemoved():
            yield from trail.leave(recorded, [event.item], reason=event.reason)
        case RestoredEvent():
            yield from trail.come(recorded, refs_of(event.items))
        case ClearedEvent():
            yield from trail.clear(recorded)
        case MergedEvent():
            yield Change(recorded, attribute="merged", new=f"{event.source}@{event.version}")
            yield from trail.leave(recorded, refs_of(event.dropped))
            instead = trail.by_name() if isinstance(event, PoolMerged) else None
            yield from trail.come(recorded, refs_of(event.taken), instead=instead)
        case PoolConflictResolved():
            kept = event.ours if event.kept == "ours" else event.theirs
            yield Change(recorded, kept, event.id, "conflict", new=event.kept, reason=f"the rule {event.rule!r}")
        case _:
            yield from _container_settings(recorded, trail)


def _container_settings(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    event = recorded.event
    match event:
        case OpenedEvent() | BranchedEvent():
            opened = {name: value for name, value in plain_fields(event).items() if name in OPENED}
            if isinstance(event, BranchedEvent):
                opened["parent"] = f"{event.parent}@{event.version}"
            yield from trail.begin(recorded, opened, limit=event.limit, tags=list(event.tags))
        case SettingsEvent():
            yield from trail.set(recorded, "limit", event.limit)
            yield from trail.set(recorded, "tags", list(event.tags))
        case NamedEvent():
            yield from trail.set(recorded, f"name {event.name}", event.version)


def window_changes(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    """Yield what an event of a window did."""
    event, own = recorded.event, [Ref(recorded.version, recorded.stream)]
    match event:
        case WindowAdded():
            yield from trail.come(recorded, own)
        case WindowReplaced():
            first, *others = refs_of(event.old)
            yield from trail.leave(recorded, others)
            yield from trail.come(recorded, own, instead={event.key: first})
        case WindowDropped():
            over = f"with it {event.tokens:,} tokens, and {event.max_tokens:,} are allowed"
            yield from trail.keep_out(recorded, event, reason=over)
        case WindowEvicted():
            reason = event.reason or ("room" if event.how == "room" else None)
            yield from trail.leave(recorded, refs_of(event.items), reason=reason)
        case WindowRestored():
            yield from trail.come(recorded, refs_of(event.items))
        case WindowCleared():
            yield from trail.clear(recorded)
        case WindowNamed():
            yield from trail.set(recorded, f"name {event.name}", event.version)
        case WindowOpened():
            settings = {"max_tokens": event.max_tokens, "policy": event.policy}
            yield from trail.begin(recorded, {**plain_fields(event), **settings}, **settings)
        case WindowSettingsChanged():
            yield from trail.set(recorded, "max_tokens", event.max_tokens)
            yield from trail.set(recorded, "policy", event.policy)


def memory_changes(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    """Yield what an event of a scope of a memory did."""
    event = recorded.event
    match event:
        case MemoryRemembered():
            instead: dict[str | None, Ref] = {event.key: event.replaced} if event.replaced else {}
            yield from trail.come(recorded, [Ref(recorded.version, recorded.stream)], instead=instead)
        case MemoryForgotten():
            yield from trail.leave(recorded, refs_of(event.items), reason=event.reason)
        case MemoryRestored():
            yield from trail.come(recorded, refs_of(event.items))
        case MemoryNamed():
            yield from trail.set(recorded, f"name {event.name}", event.version)
