"""Events of queues, pools, windows and memories, in words: what, how many items, why, from where."""

from __future__ import annotations

from ...domain.memory.events import MemoryEvent, MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from ...domain.pool.events import (
    AddedEvent,
    BranchedEvent,
    ClearedEvent,
    ContainerEvent,
    EvictedEvent,
    MergedEvent,
    NamedEvent,
    OpenedEvent,
    PoolAdded,
    PoolConflictResolved,
    PoolRemoved,
    PoolReplaced,
    RestoredEvent,
    SettingsEvent,
)
from ...domain.spans import Ref
from ...domain.window.events import (
    WindowAdded,
    WindowCleared,
    WindowDropped,
    WindowEvent,
    WindowEvicted,
    WindowNamed,
    WindowOpened,
    WindowReplaced,
    WindowRestored,
    WindowSettingsChanged,
)
from .naming import because, counted, joined, named, sized, source_of
from .speaking import about, body_of

# What containers say where nobody gave a reason.
REASONS = {"limit": "to make room", "evict": ""}


def folded_summary(event: object) -> str | None:
    """
    Return what happened to a queue, a pool, a window or a memory, in one sentence; None where it happened to none.
    """
    if isinstance(event, ContainerEvent):
        return _of_container(event)
    if isinstance(event, WindowEvent):
        return _of_window(event)
    return _of_memory(event) if isinstance(event, MemoryEvent) else None


def _of_container(event: ContainerEvent) -> str:
    match event:
        case OpenedEvent():
            return _said(user=event.user, session=event.session, agent=event.agent, **_settings(event))
        case BranchedEvent():
            carried = f"from {source_of(event.parent, event.version)}, {counted(event.change.items, 'item')}"
            return joined([carried, _said(**_settings(event))])
        case PoolReplaced():
            return f"{event.id}, in the place of {_place(event.old)}: {about(event)}"
        case PoolAdded():
            return f"{event.id}: {about(event)}"
        case AddedEvent():
            return body_of(event)
        case EvictedEvent():
            why = REASONS.get(event.reason, because(event.reason))
            return joined([named(event.items), sized(event.change), why])
        case PoolRemoved():
            return joined([f"{event.id} ({_place(event.item)})", sized(event.change), because(event.reason)])
        case RestoredEvent():
            return joined([named(event.items), sized(event.change)])
        case ClearedEvent():
            return joined([counted(-event.change.items, "item"), sized(event.change)])
        case MergedEvent():
            return _merge(event)
        case PoolConflictResolved():
            sides = f"ours {_place(event.ours)}, theirs {_place(event.theirs)}"
            return f"{event.id}: {event.kept} kept, as {event.rule!r} wants it; {sides}"
        case SettingsEvent():
            return _said(**_settings(event)) or "no limit, no tags"
        case NamedEvent():
            return f"{event.name} = @{event.version}"


def _of_window(event: WindowEvent) -> str:
    match event:
        case WindowOpened() | WindowSettingsChanged():
            return f"max_tokens={event.max_tokens} policy={event.policy}"
        case WindowAdded():
            return f"{event.key}: {event.value}"
        case WindowReplaced():
            return f"{event.key}, in the place of {named(event.old)}: {event.value}"
        case WindowDropped():
            over = f"with it {event.tokens:,} tokens, and {event.max_tokens:,} are allowed"
            return f"{event.key}, not let in ({over}): {event.value}"
        case WindowEvicted():
            why = "to make room" if event.how == "room" else because(event.reason)
            return joined([named(event.items), sized(event.change), why])
        case WindowRestored():
            return joined([named(event.items), sized(event.change)])
        case WindowCleared():
            return joined([counted(-event.change.items, "item"), sized(event.change)])
        case WindowNamed():
            return f"{event.name} = @{event.version}"


def _of_memory(event: MemoryEvent) -> str:
    match event:
        case MemoryRemembered():
            instead = f", in the place of {_place(event.replaced)}" if event.replaced else ""
            return f"{event.key}{instead}: {body_of(event)}"
        case MemoryForgotten():
            return joined([named(event.items, "record"), because(event.reason)])
        case MemoryRestored():
            return named(event.items, "record")
        case MemoryNamed():
            return f"{event.name} = @{event.version}"


def _merge(event: MergedEvent) -> str:
    base = source_of(event.base.stream, event.base.version) if event.base else ""
    return joined([
        source_of(event.source, event.version),
        f"{named(event.taken)} taken" if event.taken else "no items taken",
        f"{named(event.dropped)} dropped" if event.dropped else "",
        f"since {base}" if base else "",
    ])  # fmt: skip


def _settings(event: OpenedEvent | BranchedEvent | SettingsEvent) -> dict[str, str | None]:
    limit = None if event.limit is None else str(event.limit)
    return {"limit": limit, "tags": ",".join(event.tags)}


def _said(**fields: str | None) -> str:
    return " ".join(f"{name}={value}" for name, value in fields.items() if value)


def _place(ref: Ref | None) -> str:
    return "none" if ref is None else source_of(ref.stream, ref.version)
