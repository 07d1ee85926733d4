"""Audits of chats, queues, pools, windows and memories: the changes of their items, and of a chat's configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from ...domain.chat.events import (
    INSTRUCTION_ROLES,
    ITEM_EVENTS,
    Cleared,
    ConflictResolved,
    Forked,
    InstructionsReplaced,
    ItemInserted,
    ItemsEvicted,
    ItemsPinned,
    ItemsRestored,
    ItemsUnpinned,
    Merged,
    Named,
    Opened,
    Summarized,
    SummaryUndone,
    added_item,
)
from ...domain.chat.state.fold import EMPTY, active_config, fold
from ...domain.chat.state.loading import complete
from ...domain.chat.state.sequence import Items
from ...domain.context.decider import trusted
from ...domain.ids import split_stream_id
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Log
from ...domain.memory.events import MemoryForgotten, MemoryNamed, MemoryRemembered, MemoryRestored
from ...domain.pool import state as containers
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
from ...domain.pool.state import complete as container_events
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
from ...projections.intervals import STILL_THERE
from ..plain_data import plain_fields
from .audit_trail import Change, Trail
from .intervals import Interval
from .origins import Item, births, full_ref, ref_of

CONFIG = "agent_config_update"


def config_changes(log: Log, stream: str, stays: Iterable[Interval]) -> Iterator[Change]:
    """Yield the changes of a chat's instructions and tools, oldest first; `stays` are the intervals of its items."""
    saying = [stay for stay in stays if stay.role in INSTRUCTION_ROLES or stay.type == CONFIG]
    coming, leaving = _by_version(saying, "v0"), _by_version(saying, "v1")
    versions = sorted({*coming, *leaving} - {STILL_THERE})
    recorded = births(log, [Ref(version, stream) for version in versions])
    items = {birth: added_item(born.event) for birth, born in _born(log, saying).items()}
    there: dict[int, Interval] = {}
    before: tuple[object, object] = (None, None)
    for version in versions:
        for stay in leaving.get(version, ()):
            del there[stay.place]
        there |= {stay.place: stay for stay in coming.get(version, ())}
        shown = (items[there[place].birth] for place in sorted(there))
        instructions, tools = active_config(item for item in shown if item is not None)
        now = (instructions, None if tools is None else list(tools))
        for attribute, old, new in zip(("instructions", "tools"), before, now, strict=True):
            if old != new:
                yield Change(recorded[Ref(version, stream)], attribute=attribute, old=old, new=new)
        before = now


def _by_version(stays: Iterable[Interval], field: str) -> dict[int, list[Interval]]:
    by_version: dict[int, list[Interval]] = {}
    for stay in stays:
        by_version.setdefault(getattr(stay, field), []).append(stay)
    return by_version


def _born(log: Log, stays: Iterable[Interval]) -> dict[str, RecordedEvent]:
    found = births(log, {ref_of(stay.birth) for stay in stays})
    return {f"{ref.stream}@{ref.version}": recorded for ref, recorded in found.items()}


def chat_changes(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    """Yield what an event did."""
    event, own = recorded.event, Ref(recorded.version, recorded.stream)
    if isinstance(event, ITEM_EVENTS):
        yield from trail.come(recorded, [own])
        return
    match event:
        case Opened():
            yield from trail.begin(recorded, plain_fields(event))
        case Forked():
            yield from trail.begin(recorded, {"parent": f"{event.parent}@{event.version}", "how": event.how})
            yield from trail.come(recorded, [own] if event.config else [])
        case Named():
            yield from trail.set(recorded, f"name {event.name}", event.version)
        case ConflictResolved():
            reason = f"the rule {event.rule!r}"
            yield Change(recorded, attribute=f"conflict of {event.kind}", new=event.kept, reason=reason)
        case Merged():
            yield from _merge(recorded, event, trail)
        case _:
            yield from _edit(recorded, trail)


def _edit(recorded: RecordedEvent, trail: Trail) -> Iterator[Change]:
    event, own = recorded.event, Ref(recorded.version, recorded.stream)
    match event:
        case ItemInserted():
            yield from trail.come(recorded, [own])
        case InstructionsReplaced():
            yield from trail.leave(recorded, refs_of(event.replaced))
            yield from trail.come(recorded, [own])
        case ItemsEvicted():
            yield from trail.leave(recorded, refs_of(event.items), reason=event.reason or _by(event.how))
        case ItemsRestored():
            yield from trail.come(recorded, refs_of(event.items), reason=event.reason)
        case ItemsPinned() | ItemsUnpinned():
            is_pinned = isinstance(event, ItemsPinned)
            yield from trail.mark(recorded, refs_of(event.items), "pinned", is_so=is_pinned, reason=event.reason)
        case Cleared():
            yield from trail.clear(recorded, reason=event.reason)
        case Summarized():
            yield from trail.leave(recorded, refs_of(event.folded))
            yield from trail.come(recorded, [own])
        case SummaryUndone():
            yield from trail.leave(recorded, [event.summary])
            yield from trail.come(recorded, refs_of(event.items))


def _by(how: str) -> str | None:
    return None if how == "evict" else how


def _merge(recorded: RecordedEvent, event: Merged, trail: Trail) -> Iterator[Change]:
    yield Change(recorded, attribute="merged", new=f"{event.source}@{event.version}")
    taken = [ref for placement in event.placed for ref in refs_of(placement.items)]
    # With another agent's name on it the item is a new one, which this event brought into the world.
    yield from trail.come(recorded, [Ref(recorded.version, recorded.stream)] if event.agent_id and taken else taken)


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


Reader = Callable[[Sequence[Ref]], Mapping[Ref, Item]]

CHANGES: dict[str, Callable[[RecordedEvent, Trail], Iterator[Change]]] = {
    "chat": chat_changes,
    "queue": container_changes,
    "pool": container_changes,
    "window": window_changes,
    "memory": memory_changes,
}


def context_changes(log: Log, stream: str, version: int) -> Iterator[Change]:
    """
    Yield what became of a context that holds items, and of its items, up to a version, oldest first.

    What a fork begins with came before its own events.
    """
    kind = split_stream_id(stream)[0]
    with trusted(stream):
        reader = _chat_reader if kind == "chat" else _births_reader
        trail = Trail(stream, reader(log, stream, version), began_with(log, stream) if version else {})
        for recorded in log.read(stream, until=version):
            yield from CHANGES[kind](recorded, trail)


def began_with(log: Log, stream: str) -> dict[Ref, Item]:
    """Return the items that a fork or branch began with; other contexts began with none."""
    kind = split_stream_id(stream)[0]
    if kind == "chat":
        first = _chat_items(log, stream, 1)
        return {full_ref(first.ref(ordinal), stream): first.arena.items[ordinal] for ordinal in first.order()}
    if kind not in ("queue", "pool"):
        return {}
    state = containers.fold(containers.EMPTY, container_events(log, log.read_events(stream, until=1)))
    return {full_ref(held.ref, stream): held.event for held in state.items.values()}


def _chat_reader(log: Log, stream: str, version: int) -> Reader:
    held = _chat_items(log, stream, version)

    def read(refs: Sequence[Ref]) -> Mapping[Ref, Item]:
        ordinals = {ref: held.of_ref(Ref(ref.version) if ref.stream == stream else ref) for ref in refs}
        return {ref: held.arena.items[ordinal] for ref, ordinal in ordinals.items() if ordinal is not None}

    return read


def _chat_items(log: Log, stream: str, version: int) -> Items:
    return fold(EMPTY, complete(log, log.read_events(stream, until=version))).items


def _births_reader(log: Log, stream: str, version: int) -> Reader:
    def read(refs: Sequence[Ref]) -> Mapping[Ref, Item]:
        born = births(log, refs)
        return {ref: born[ref].event for ref in refs}

    return read
