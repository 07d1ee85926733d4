"""The rules of queues and pools: their commands, and the decider."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from itertools import islice

import msgspec
from msgspec.structs import replace

from ..context.decider import Decider, NameVersion, decide_name
from ..errors import InvalidInputError, LimitExceededError, NotFoundError
from ..named_events import Resolved
from ..spans import Ref, Segment, spans_of
from ..totals import total_of
from . import events as pool
from .items import Held
from .state import EMPTY, PACKING, Completed, ContainerState, complete, fold


class Begin(msgspec.Struct, frozen=True):
    """Open the container, or create it as a branch."""

    event: pool.OpenedEvent | pool.BranchedEvent


class Add(msgspec.Struct, frozen=True):
    """Add items; in a pool, an item replaces the one with the same id."""

    items: tuple[pool.AddedEvent, ...]


class Refill(msgspec.Struct, frozen=True):
    """Remove all items, and add others."""

    items: tuple[pool.AddedEvent, ...]


class Remove(msgspec.Struct, frozen=True):
    """Remove an item from a pool."""

    id: str
    reason: str | None = None


class Evict(msgspec.Struct, frozen=True):
    """Evict items, each named by its origin."""

    items: tuple[Ref, ...]
    reason: str


class Restore(msgspec.Struct, frozen=True):
    """Restore items that had left; their names include the stream."""

    items: tuple[Held, ...]


class Clear(msgspec.Struct, frozen=True):
    """Remove all items."""


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """
    Add the items of another container and drop those that it removed.

    `conflicts` were resolved. `made` has the items that a function returned for both sides; `erasures` is the version
    of the erasures (`erasure.foreign_erasures`) at which the texts for the function were read.
    """

    source: str
    version: int
    base: Segment | None
    taken: tuple[Held, ...] = ()
    dropped: tuple[Ref, ...] = ()
    conflicts: tuple[pool.PoolConflictResolved, ...] = ()
    made: tuple[pool.AddedEvent, ...] = ()
    erasures: int | None = None


class ChangeSettings(msgspec.Struct, frozen=True):
    """Set the limit and the tags."""

    limit: int | None
    tags: tuple[str, ...]


Command = Begin | Add | Refill | Remove | Evict | Restore | Clear | Merge | ChangeSettings | NameVersion


Events = list[Completed]


def decide(kind: pool.Kind, command: Command, state: ContainerState) -> Sequence[Completed]:
    """
    Return the events that carry out `command`; no events where nothing would change.

    Raises:
        NotFoundError: an item is not there.
        InvalidInputError: a name is malformed, a version does not exist, or an item is there already.
        LimitExceededError: more items would be restored than the limit allows.
    """
    match command:
        case Begin(event=event):
            return [] if state.opened else [event]
        case Add(items=items):
            return _add(kind, items, state)
        case Remove(id=item_id, reason=reason):
            held = _require_held(item_id, state)
            return [pool.PoolRemoved(id=item_id, item=held.ref, reason=reason, change=-held.totals)]
        case Evict(items=refs, reason=reason):
            return _evicted(kind, [_require_held(state.key_of(ref), state) for ref in refs], reason)
        case Restore(items=items):
            return _restore(kind, items, state)
        case Clear():
            return _clear(kind, state)
        case Refill(items=items):
            cleared = _clear(kind, state)
            return [*cleared, *_add(kind, items, fold(state, cleared))]
        case Merge():
            return _merge(kind, command, state)
        case ChangeSettings(limit=limit, tags=tags):
            return _change_settings(kind, limit, tags, state)
        case NameVersion():
            return decide_name(command, state.names, kind.named)


def overflow(state: ContainerState, coming: int) -> list[Held]:
    """Return the oldest items that must leave before `coming` more are added."""
    if state.limit is None:
        return []
    return [held for _, held in state.items.first(len(state.items) + coming - state.limit)]


def _add(kind: pool.Kind, items: Sequence[pool.AddedEvent], state: ContainerState) -> Events:
    """Add as many items at a time as the limit allows, so that no version holds more than that."""
    events: Events = []
    rest = iter(items)
    while batch := list(islice(rest, state.limit or len(items))):
        added = _added(kind, batch, state)
        # The state is folded on only if there is more than one batch.
        state = fold(state, added) if len(items) > len(batch) else state
        events += added
    return events


def _added(kind: pool.Kind, batch: Sequence[pool.AddedEvent], state: ContainerState) -> Events:
    if kind is pool.QUEUE:
        return [*_evicted(kind, overflow(state, len(batch)), "limit"), *batch]
    events: Events = []
    for item in batch:
        old = state.items.get(str(item.id))
        added: Events
        if old is None:
            added = [*_evicted(kind, overflow(state, 1), "limit"), item]
        else:
            added = [_replacing(item, old)]
        # A later item may replace an earlier one of the batch, so it is decided on the state with that one.
        state = fold(state, added) if len(batch) > 1 else state
        events += added
    return events


def _replacing(item: pool.AddedEvent, old: Held) -> pool.PoolReplaced:
    new = Held(old.ref, item)
    change = new.totals - old.totals
    return pool.PoolReplaced(content=item.content, description=item.description, id=item.id, old=old.ref, change=change)


def _clear(kind: pool.Kind, state: ContainerState) -> Events:
    held = state.items.values()
    return [kind.cleared(change=-total_of(held))] if held else []


def _restore(kind: pool.Kind, items: Sequence[Held], state: ContainerState) -> Events:
    seen = set()
    for held in items:
        key = _key_of(kind, held)
        if key in state.items:
            raise InvalidInputError(f"{_name_of(held)} is in the {kind.name} already: take it out first")
        if key in seen:
            raise InvalidInputError(f"two of the items to be restored are {_name_of(held)}: restore one of them")
        seen.add(key)
    if state.limit is not None and len(items) > state.limit:
        raise LimitExceededError(f"the limit of the {kind.name}", allowed=state.limit, actual=len(items))
    if not items:
        return []
    restored = kind.restored(items=spans_of(held.ref for held in items), change=total_of(items))
    evicted = _evicted(kind, overflow(state, len(items)), "limit")
    return [*evicted, Resolved(restored, tuple(items))]


def _merge(kind: pool.Kind, command: Merge, state: ContainerState) -> Events:
    brings = command.taken or command.dropped or command.conflicts or command.made
    if not brings and state.merged.get(command.source, 0) >= command.version:
        return []
    dropped = [_require_held(state.key_of(ref), state) for ref in command.dropped]
    replaced = [state.items.get(_key_of(kind, held)) for held in command.taken]
    change = total_of(command.taken) - total_of(dropped) - total_of(held for held in replaced if held is not None)
    merged = kind.merged(
        source=command.source,
        version=command.version,
        base=command.base,
        taken=spans_of(held.ref for held in command.taken),
        dropped=spans_of(held.ref for held in dropped),
        change=change,
    )
    taking: Events = [Resolved(merged, command.taken)]
    instead = [one for one in command.made if str(one.id) in state.items]
    new = [one for one in command.made if str(one.id) not in state.items]
    # Each step is decided on the state after the steps before it: an item's name has the version of its event.
    events: Events = [*command.conflicts]
    events += _add(kind, instead, fold(state, events))
    before = fold(state, events)
    leaving = overflow(fold(before, taking), len(new))
    # Items that make room leave first, so that no version holds more items than the limit. If items of this merge must
    # leave themselves, they leave last.
    events += _evicted(kind, [held for held in leaving if held == before.items.get(_key_of(kind, held))], "limit")
    events += taking
    events += _add(kind, new, fold(state, events))
    return [*events, *_evicted(kind, overflow(fold(state, events), 0), "limit")]


def _change_settings(kind: pool.Kind, limit: int | None, tags: tuple[str, ...], state: ContainerState) -> Events:
    if (limit, tags) == (state.limit, state.tags):
        return []
    leaving = overflow(replace(state, limit=limit), 0)
    # The items leave first, so that no version holds more items than the limit.
    return [*_evicted(kind, leaving, "limit"), kind.settings(limit=limit, tags=tags)]


def _evicted(kind: pool.Kind, leaving: Sequence[Held], reason: str) -> Events:
    if not leaving:
        return []
    items = spans_of(held.ref for held in leaving)
    return [kind.evicted(items=items, reason=reason, change=-total_of(leaving))]


def _require_held(key: Hashable, state: ContainerState) -> Held:
    held = state.items.get(key)
    if held is None:
        where = "pool" if state.is_pool else "queue"
        what = f"version {key.version} of {key.stream or 'it'}" if isinstance(key, Ref) else repr(key)
        raise NotFoundError(f"the {where} holds no item {what}")
    return held


def _key_of(kind: pool.Kind, held: Held) -> Hashable:
    return held.event.id if kind is pool.POOL else held.ref


def _name_of(held: Held) -> str:
    return repr(held.event.id) if held.event.id is not None else f"the item of version {held.ref.version}"


QUEUES: Decider[ContainerState] = Decider(partial(decide, pool.QUEUE), fold, EMPTY, complete, PACKING)
POOLS: Decider[ContainerState] = Decider(partial(decide, pool.POOL), fold, EMPTY, complete, PACKING)
