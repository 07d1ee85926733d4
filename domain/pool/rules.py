"""
The rules of queues and pools: the decider, and what a merge takes of both sides.

What a merge takes: of a queue what came in on the other side, of a pool what changed there (three-way).

Both sides are compared with where they were the same: what the last merge of the two took over, or else where their
lineages part. Items are compared by their births, so nothing is taken twice, and what one side evicted for want of
room is no statement about it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Literal, NamedTuple

from ..context.decider import Decider
from ..errors import InvalidInputError, LimitExceededError, NotFoundError
from ..ids import require_name
from ..spans import Ref, Segment, spans_of
from ..totals import Totals
from .commands import (
    POOL,
    QUEUE,
    Add,
    Begin,
    ChangeSettings,
    Clear,
    Command,
    Evict,
    Kind,
    Merge,
    NameVersion,
    Refill,
    Remove,
    Restore,
)
from .events import AddedEvent, ContainerEvent, PoolConflictResolved, PoolRemoved, PoolReplaced
from .items import ContextItem, Held
from .state import EMPTY, ContainerState, Departed, Resolved, absolute, complete, fold, recorded_event

Choice = Literal["ours", "theirs"]
RULES = ("ours", "theirs", "newest")


class Side(NamedTuple):
    """One of the two containers, up to a version: what it holds, and what it let go of."""

    stream: str
    version: int
    state: ContainerState
    gone: Mapping[Ref, Departed]

    def refs(self) -> dict[str, Ref]:
        """Return the births of a pool's items by id, with their streams."""
        return {str(key): absolute(held.ref, self.stream) for key, held in self.state.items.items()}

    def last_change(self, item_id: str) -> Ref:
        """Return the event that brought the item with an id in, or let it go."""
        held = self.state.items.get(item_id)
        if held is not None:
            return absolute(held.ref, self.stream)
        left = [departure.version for departure in self.gone.values() if departure.held.event.id == item_id]
        return Ref(left[-1] if left else self.version, self.stream)

    def bore(self, ref: Ref) -> bool:
        """Return whether an item came into the world on this side, or before it branched off."""
        lineage = (*self.state.ancestry, Segment(self.stream, self.version))
        return any(ref.stream == one.stream and ref.version <= one.version for one in lineage)


class Base(NamedTuple):
    """Where both were the same, if ever: in which stream, and the births of what it then held, by id."""

    segment: Segment | None = None
    refs: Mapping[str, Ref] = {}


class Conflict(NamedTuple):
    """An item that both sides changed; None where a side let go of it."""

    id: str
    ours: Held | None
    theirs: Held | None


Decide = Callable[[Conflict], "Choice | ContextItem[object]"]


def merged_queue(ours: Side, theirs: Side, base: Segment | None) -> Merge:
    """Return the merge that takes what came into the other queue and is there, and was never here."""
    known = {*(absolute(held.ref, ours.stream) for held in ours.state.items.values()), *ours.gone}
    there = [_named(held, theirs.stream) for held in theirs.state.items.values()]
    new = tuple(held for held in there if held.ref not in known and not ours.bore(held.ref))
    return Merge(source=theirs.stream, version=theirs.version, base=base, taken=new)


def merged_pool(
    ours: Side, theirs: Side, base: Base, rule: str, decide: Decide, added: Callable[[ContextItem[object]], object]
) -> Merge:
    """
    Return the three-way merge of another pool: what changed there alone is taken, and where both sides changed one
    item `decide` says which stays, or what takes the place of both.
    """
    our_refs, their_refs = ours.refs(), theirs.refs()
    merge = _PoolMerge(ours, theirs, rule)
    for item_id in dict.fromkeys([*base.refs, *their_refs]):
        our, their = our_refs.get(item_id), their_refs.get(item_id)
        before = base.refs.get(item_id)
        if their in (before, our) or _is_for_room(theirs, item_id, their):
            continue
        if our == before or _is_for_room(ours, item_id, our):
            merge.take(item_id)
            continue
        conflict = Conflict(item_id, *(side.state.items.get(item_id) for side in (ours, theirs)))
        merge.settle(conflict, decide(conflict), added)
    return merge.command(base.segment)


class _PoolMerge:
    """A merge of pools as it is put together."""

    def __init__(self, ours: Side, theirs: Side, rule: str) -> None:
        self._ours, self._theirs, self._rule = ours, theirs, rule
        self._taken: list[Held] = []
        self._dropped: list[Ref] = []
        self._conflicts: list[PoolConflictResolved] = []
        self._made: list[object] = []

    def take(self, item_id: str) -> None:
        """Have the item be here as it is there: in its place, or gone."""
        their, our = self._theirs.state.items.get(item_id), self._ours.state.items.get(item_id)
        if their is not None:
            self._taken.append(_named(their, self._theirs.stream))
        elif our is not None:
            self._dropped.append(our.ref)

    def settle(
        self, conflict: Conflict, choice: Choice | ContextItem[object], added: Callable[[ContextItem[object]], object]
    ) -> None:
        """Note a conflict and what became of it."""
        if isinstance(choice, ContextItem):
            kept = "made"
            self._made.append(added(ContextItem(choice.content, choice.description, conflict.id)))
        elif choice in ("ours", "theirs"):
            kept = choice
        else:
            raise InvalidInputError(f"the rule gave {choice!r} for {conflict.id!r}: 'ours', 'theirs' or a ContextItem")
        if kept == "theirs":
            self.take(conflict.id)
        ours = None if conflict.ours is None else absolute(conflict.ours.ref, self._ours.stream)
        theirs = None if conflict.theirs is None else absolute(conflict.theirs.ref, self._theirs.stream)
        self._conflicts.append(
            PoolConflictResolved(
                source=self._theirs.stream, id=conflict.id, ours=ours, theirs=theirs, rule=self._rule, kept=kept
            )
        )

    def command(self, base: Segment | None) -> Merge:
        """Return the whole merge."""
        return Merge(
            source=self._theirs.stream,
            version=self._theirs.version,
            base=base,
            taken=tuple(self._taken),
            dropped=tuple(self._dropped),
            conflicts=tuple(self._conflicts),
            made=tuple(self._made),  # type: ignore[arg-type]  # the container's own events
        )


def _is_for_room(side: Side, item_id: str, ref: Ref | None) -> bool:
    """Tell whether an item that is not there left only because there was no room."""
    if ref is not None:
        return False
    left = [departure for departure in side.gone.values() if departure.held.event.id == item_id]
    return bool(left) and (left[-1].how, left[-1].reason) == ("evict", "limit")


def _named(held: Held, stream: str) -> Held:
    return Held(absolute(held.ref, stream), held.event)


Events = list["ContainerEvent | Resolved"]


def decide(kind: Kind, command: Command, state: ContainerState) -> Sequence[ContainerEvent | Resolved]:
    """
    Return the events that carry out `command`; none where it is so already.

    Raises:
        NotFoundError: an item that is not there.
        InvalidInputError: a name or a version that cannot be, or an item that is there already.
        LimitExceededError: more is to be restored than the limit lets in.
    """
    match command:
        case Begin(event=event):
            return [] if state.opened else [event]
        case Add(items=items):
            return _add(kind, items, state)
        case Remove(id=item_id, reason=reason):
            held = _held(item_id, state)
            return [PoolRemoved(id=item_id, item=held.ref, reason=reason, change=-held.totals)]
        case Evict(items=refs, reason=reason):
            return _evicted(kind, [_held(_key(ref, state), state) for ref in refs], reason)
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
        case NameVersion(name=name, version=version):
            return _name(kind, require_name(name), version, state)


def overflow(state: ContainerState, coming: int) -> list[Held]:
    """Return the oldest items, as many as have to leave before `coming` more come in."""
    return (
        [] if state.limit is None else [held for _, held in state.items.first(len(state.items) + coming - state.limit)]
    )


def _add(kind: Kind, items: Sequence[AddedEvent], state: ContainerState) -> Events:
    """As many at a time as the limit lets in, so that at no version there are more than that."""
    events: Events = []
    rest = iter(items)
    while batch := list(islice(rest, state.limit or len(items))):
        added = _added(kind, batch, state)
        state = fold(state, added) if len(items) > len(batch) else state
        events += added
    return events


def _added(kind: Kind, batch: Sequence[AddedEvent], state: ContainerState) -> Events:
    if kind is QUEUE:
        return [*_evicted(kind, overflow(state, len(batch)), "limit"), *batch]
    events: Events = []
    for item in batch:
        old = state.items.get(str(item.id))
        added: Events
        if old is None:
            added = [*_evicted(kind, overflow(state, 1), "limit"), item]
        else:
            added = [_replacing(item, old)]
        state = fold(state, added) if len(batch) > 1 else state
        events += added
    return events


def _replacing(item: AddedEvent, old: Held) -> PoolReplaced:
    new = Held(old.ref, item)
    change = new.totals + -old.totals
    return PoolReplaced(content=item.content, description=item.description, id=item.id, old=old.ref, change=change)


def _clear(kind: Kind, state: ContainerState) -> Events:
    held = state.items.values()
    return [kind.cleared(change=-_total(held))] if held else []


def _restore(kind: Kind, items: Sequence[Held], state: ContainerState) -> Events:
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
    restored = kind.restored(items=spans_of(held.ref for held in items), change=_total(items))
    evicted = _evicted(kind, overflow(state, len(items)), "limit")
    return [*evicted, Resolved(restored, tuple(items))]


def _merge(kind: Kind, command: Merge, state: ContainerState) -> Events:
    brings = command.taken or command.dropped or command.conflicts or command.made
    if not brings and state.merged.get(command.source, (0, 0))[0] == command.version:
        return []
    dropped = [_held(_key(ref, state), state) for ref in command.dropped]
    replaced = [state.items.get(_key_of(kind, held)) for held in command.taken]
    change = _total(command.taken) + -_total(dropped) + -_total(held for held in replaced if held is not None)
    merged = kind.merged(
        source=command.source,
        version=command.version,
        base=command.base,
        taken=spans_of(held.ref for held in command.taken),
        dropped=spans_of(held.ref for held in dropped),
        change=change,
    )
    taking: Events = [Resolved(merged, command.taken)]
    after = fold(state, taking)
    made = _add(kind, command.made, after) if command.made else []
    leaving = overflow(fold(after, made), 0)
    # What makes room goes first, so that at no version there are more than the limit; what came only now goes last.
    own = [held for held in leaving if held == state.items.get(_key_of(kind, held))]
    rest = [held for held in leaving if held not in own]
    return [
        *command.conflicts,
        *_evicted(kind, own, "limit"),
        *taking,
        *made,
        *_evicted(kind, rest, "limit"),
    ]


def _change_settings(kind: Kind, limit: int | None, tags: tuple[str, ...], state: ContainerState) -> Events:
    if (limit, tags) == (state.limit, state.tags):
        return []
    leaving = [] if limit is None else [held for _, held in state.items.first(len(state.items) - limit)]
    # The items go first, so that at no version there are more than the limit.
    return [*_evicted(kind, leaving, "limit"), kind.settings(limit=limit, tags=tags)]


def _name(kind: Kind, name: str, version: int, state: ContainerState) -> Events:
    if state.names.get(name) == version:
        return []
    return [kind.named(name=name, version=version)]


def _evicted(kind: Kind, leaving: Sequence[Held], reason: str) -> Events:
    if not leaving:
        return []
    items = spans_of(held.ref for held in leaving)
    return [kind.evicted(items=items, reason=reason, change=-_total(leaving))]


def _held(key: Hashable, state: ContainerState) -> Held:
    held = state.items.get(key)
    if held is None:
        where = "pool" if state.is_pool else "queue"
        what = f"version {key.version} of {key.stream or 'it'}" if isinstance(key, Ref) else repr(key)
        raise NotFoundError(f"the {where} holds no item {what}")
    return held


def _key(ref: Ref, state: ContainerState) -> Hashable:
    return (state.ids.get(ref) or ref) if state.is_pool else ref


def _key_of(kind: Kind, held: Held) -> Hashable:
    return held.event.id if kind is POOL else held.ref


def _name_of(held: Held) -> str:
    return repr(held.event.id) if held.event.id is not None else f"the item of version {held.ref.version}"


def _total(items: Iterable[Held]) -> Totals:
    total = Totals()
    for held in items:
        total += held.totals
    return total


QUEUES: Decider[ContainerState] = Decider(partial(decide, QUEUE), fold, EMPTY, complete, recorded_event)
POOLS: Decider[ContainerState] = Decider(partial(decide, POOL), fold, EMPTY, complete, recorded_event)
