"""
Merging and branching queues and pools.

A merge of queues adds the items that were added to the other queue. A merge of pools is three-way: it takes the changes
of the other pool. Both sides are compared with the base, the last version of a container that both include. A container
includes its ancestors and the containers that it or they merged, each up to a version. Items are compared by their
origins, so nothing is taken twice. An item that one side evicted only to make room does not count as removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from itertools import islice
from math import inf
from types import EllipsisType
from typing import Any, Literal, NamedTuple

from msgspec.structs import replace

from ..arguments import require_instance
from ..context.adopt import adopted_copy
from ..context.children import begin_child
from ..context.context import Attachment
from ..context.journal import Journal
from ..context.transaction import AsyncTransaction, current_or_new_transaction, log_within
from ..erasure.foreign_erasures import look
from ..errors import InvalidInputError
from ..log.gate import behind_gate
from ..log.ports import Log, NewEvents
from ..named_events import EventSource, Resolved
from ..spans import Ref, Segment, spans_of
from ..totals import Totals
from .changes import (
    ADDING_HOOKS,
    AddingChange,
    ItemToAdd,
    Owner,
    Stage,
    fire_before_adding,
    fire_for_item,
    restored_item,
)
from .container import Container
from .events import AddedEvent, BranchedEvent, PoolConflictResolved, RestoredEvent
from .items import ContextItem, Held
from .rules import Begin, Command, Merge
from .state import EMPTY, Completed, ContainerState, Departed, Departures, complete, fold

Choice = Literal["ours", "theirs"]
RULES = ("ours", "theirs", "newest")


class Side(NamedTuple):
    """
    One of the two containers up to a version: its items, and the items that left it.

    `ever` has the origins of all items that it or an ancestor ever held, `returned` those of restored items.
    """

    stream: str
    version: int
    state: ContainerState
    gone: dict[Ref, Departed]
    ever: Set[Ref]
    returned: Set[Ref]

    def refs(self) -> dict[str, Ref]:
        """Return the origins of a pool's items by id, with their streams."""
        return {str(key): held.ref.within(self.stream) for key, held in self.state.items.items()}

    def last_departure(self, item_id: str) -> Departed | None:
        """Return how the item with this id left last, or None."""
        return next((left for left in reversed(self.gone.values()) if left.held.event.id == item_id), None)

    def last_change(self, item_id: str) -> Ref:
        """Return the last event that added or removed the item with this id."""
        held = self.state.items.get(item_id)
        if held is not None:
            return held.ref.within(self.stream)
        left = self.last_departure(item_id)
        return Ref(self.version, self.stream) if left is None else Ref(left.version, left.stream or self.stream)

    def includes(self) -> dict[str, int]:
        """Return the containers that this one includes, each with the last version: ancestors first, itself last."""
        found = {one.stream: one.version for one in self.state.ancestry}
        for stream, version in (*self.state.merged.items(), (self.stream, self.version)):
            found[stream] = max(found.get(stream, 0), version)
        return found


class Conflict(NamedTuple):
    """An item that both sides changed; None where a side removed it."""

    id: str
    ours: Held | None
    theirs: Held | None


Decide = Callable[[Conflict], "Choice | ContextItem[object]"]
Added = Callable[[ContextItem[object]], AddedEvent]


def merged_queue(ours: Side, theirs: Side, base: Segment | None) -> Merge:
    """Return the merge that takes the present items of the other queue that were never in this one."""
    there = [_with_stream(held, theirs.stream) for held in theirs.state.items.values()]
    new = tuple(held for held in there if held.ref not in ours.ever)
    return Merge(source=theirs.stream, version=theirs.version, base=base, taken=new)


def merged_pool(
    ours: Side, theirs: Side, base: Segment | None, refs: Mapping[str, Ref], rule: str, decide: Decide, added: Added
) -> Merge:
    """
    Return the three-way merge of another pool; `refs` are the origins of the items at the `base`, by id.

    Items that changed only on the other side are taken. Where both sides changed an item, `decide` chooses one of the
    two, or returns an item that replaces both; `added` makes the event of that item.
    """
    our_refs, their_refs = ours.refs(), theirs.refs()
    taken, dropped, made = list[Held](), list[Ref](), list[AddedEvent]()
    conflicts: list[PoolConflictResolved] = []
    for item_id in dict.fromkeys([*refs, *their_refs, *our_refs]):
        our, their = our_refs.get(item_id), their_refs.get(item_id)
        before = _before(ours, theirs, our, their) or refs.get(item_id)
        # Nothing to do: the other side did not change the item, has the same item, or evicted it only to make room.
        if their in (before, our) or _is_for_room(theirs, item_id, their):
            continue
        here, there = ours.state.items.get(item_id), theirs.state.items.get(item_id)
        # If only the other side changed the item, its change is taken.
        kept = "theirs"
        if our != before and not _is_for_room(ours, item_id, our):
            choice = decide(Conflict(item_id, here, there))
            kept = _kept_side(choice, item_id)
            if isinstance(choice, ContextItem):
                made.append(added(ContextItem(choice.content, choice.description, item_id)))
            conflicts.append(
                PoolConflictResolved(source=theirs.stream, id=item_id, ours=our, theirs=their, rule=rule, kept=kept)
            )
        if kept == "theirs" and there is not None:
            taken.append(_with_stream(there, theirs.stream))
        elif kept == "theirs" and here is not None:
            dropped.append(here.ref)
    return Merge(
        source=theirs.stream,
        version=theirs.version,
        base=base,
        taken=tuple(taken),
        dropped=tuple(dropped),
        conflicts=tuple(conflicts),
        made=tuple(made),
    )


def _before(ours: Side, theirs: Side, our: Ref | None, their: Ref | None) -> Ref | None:
    """
    Return the item of one side that the other side once held and replaced or removed, although it is not in the base:
    both may have it from a third container.

    Return None if there is no such item, or if the side that has it restored it: then the item of the base counts.
    """
    if their in ours.ever and their not in theirs.returned:
        return their
    return our if our in theirs.ever and our not in ours.returned else None


def _kept_side(choice: object, item_id: str) -> str:
    if isinstance(choice, ContextItem):
        return "made"
    if choice not in ("ours", "theirs"):
        raise InvalidInputError(f"the rule gave {choice!r} for {item_id!r}: 'ours', 'theirs' or a ContextItem")
    return str(choice)


def _is_for_room(side: Side, item_id: str, ref: Ref | None) -> bool:
    """Return whether a side lacks an item only because it was evicted to make room."""
    left = side.last_departure(item_id) if ref is None else None
    return left is not None and (left.how, left.reason) == ("evict", "limit")


def _with_stream(held: Held, stream: str) -> Held:
    return Held(held.ref.within(stream), held.event)


ConflictRule = str | Callable[[str, "ContextItem[Any] | None", "ContextItem[Any] | None"], "Choice | ContextItem[Any]"]


async def merge_into(
    container: Container[Any],
    other: Container[Any],
    rule: ConflictRule,
    expected_version: int | None,
    key: str | None,
) -> None:
    """
    Merge `other` into a container of the same kind.

    Raises:
        InvalidInputError: `other` is the container itself, or of another kind; or there is no such rule.
    """
    container._require_writer()
    require_instance(other, Container, "the other side", f"give a {container.kind.name}")
    if other.kind is not container.kind:
        raise InvalidInputError(f"a {other.kind.name} cannot be merged into a {container.kind.name}")
    if other.stream_id == container.stream_id and other.log is container.log:
        raise _into_itself(container)
    if isinstance(rule, str) and rule not in RULES:
        raise InvalidInputError(f"there is no rule {rule!r}: take one of {', '.join(RULES)}, or a function")
    if other.log is container.log:

        def read_here() -> Merging:
            erasures = _erasures_seen(container.log, rule)
            other.flush()
            theirs = _side(log_within(other.log), other.stream_id, other.version)
            return Merging(theirs, other.log, rule, other, erasures)

        change = await other._attachment.waiting(read_here)
        await container.change(change, expected_version, key)
        return
    await _adopt_and_merge(container, other, rule, expected_version, key)


def _erasures_seen(log: Log, rule: ConflictRule) -> int | None:
    """Return the version of the erasures if the rule may make an item from both sides; they are read after this."""
    return None if isinstance(rule, str) else look(log)


def _into_itself(container: Container[Any]) -> InvalidInputError:
    return InvalidInputError(f"{container.stream_id} cannot be merged into itself")


async def _adopt_and_merge(
    container: Container[Any],
    other: Container[Any],
    rule: ConflictRule,
    expected_version: int | None,
    key: str | None,
) -> None:
    """Copy the other container from its log into this one and merge the copy, in one transaction."""

    def read() -> tuple[Sequence[NewEvents], Merging]:
        other.flush()
        erasures = _erasures_seen(container.log, rule)
        copy = adopted_copy(
            other.log,
            other.stream_id,
            into=container.log,
            beside=container.stream_id,
            root=container.root,
            system=container._attachment.system,
        )
        if copy.stream == container.stream_id:
            # The other log is a copy of this one, so both containers are the same.
            raise _into_itself(container)
        return copy.events, Merging(_side(copy.log, copy.stream, other.version), copy.log, rule, other, erasures)

    copied, change = await other._attachment.waiting(read)
    if await container.repeated(change, key):
        return
    async with AsyncTransaction(current_or_new_transaction(container.log, idempotency_key=key)) as current:
        for new in copied:
            current.add(new)
        await container.change(change, expected_version, None, fires_after=False)
    await change.fire_after(container)


class Merging(AddingChange):
    """Add the items of the other side, and remove those that the other side removed."""

    asked = (*ADDING_HOOKS, "BEFORE_REMOVE")
    is_long = True

    def __init__(
        self, theirs: Side, their_log: Log, rule: ConflictRule, other: Container[Any], erasures: int | None = None
    ) -> None:
        self._theirs, self._log, self._rule, self._other = theirs, their_log, rule, other
        self._erasures = erasures
        self._merge: Merge | None = None
        self._dropped: list[Held] = []
        self.call = self._as_called

    def _as_called(self) -> object:
        """Return the other side and the rule; for a detached side, which has no id of its own, also its items."""
        other, rule = self._other, self._rule
        held = other.added_events() if other.is_detached and other.log is not self._log else None
        return ("merge", other.stream_id, other._version_asked, held, rule if isinstance(rule, str) else "function")

    def prepare(self, container: Owner, state: ContainerState) -> Command:
        ours = side_of(container.stream_id, state.version, container.completed_events(state.version))
        base = _base_of(ours, self._theirs, container.log, self._log)
        if container.kind.name == "queue":
            merge = merged_queue(ours, self._theirs, base)
        else:
            name = self._rule if isinstance(self._rule, str) else "function"
            refs, decide = self._refs_at(container, base), self._decision(container, ours)
            merge = merged_pool(ours, self._theirs, base, refs, name, decide, container.added_event)
            merge = replace(merge, erasures=self._erasures if merge.made else None)
        self._merge, self._came = merge, [*merge.taken, *(Held(Ref(0), made) for made in merge.made)]
        self._dropped = [held for held in state.items.values() if held.ref in merge.dropped]
        return merge

    def _refs_at(self, container: Owner, base: Segment | None) -> dict[str, Ref]:
        if base is None:
            return {}
        log = log_within(_log_of(base.stream, container.log, self._log))
        events = complete(log, log.read_events(base.stream, until=base.version))
        held = fold(EMPTY, events).items.items()
        return {str(key): one.ref.within(base.stream) for key, one in held}

    def _decision(self, container: Owner, ours: Side) -> Callable[[Conflict], Any]:
        rule = self._rule
        if rule == "newest":
            return lambda conflict: self._newest(container, ours, conflict.id)
        if isinstance(rule, str):
            return lambda conflict: rule
        return lambda conflict: rule(conflict.id, _item_of(conflict.ours), _item_of(conflict.theirs))

    def _newest(self, container: Owner, ours: Side, item_id: str) -> Choice:
        our_time, _ = _recorded(container.log, ours.last_change(item_id))
        their_time, _ = _recorded(self._log, self._theirs.last_change(item_id))
        return "theirs" if their_time > our_time else "ours"

    async def fire_before(self, container: Owner, stage: Stage) -> None:
        assert self._merge is not None, "a change is prepared before its hooks are called"
        for held in self._dropped:
            await fire_for_item(container, "BEFORE_REMOVE", held)
            stage.apply(container.kind.evicted(items=spans_of([held.ref]), reason="merge", change=-held.totals))
        coming = [restored_item(container, held) for held in self._merge.taken]
        coming += [ItemToAdd(Held(Ref(0), made).item, made) for made in self._merge.made]
        if coming:
            await fire_before_adding(container, stage, coming)

    async def fire_after(self, container: Owner) -> None:
        for held in self._dropped:
            await fire_for_item(container, "AFTER_REMOVE", held)
        if self._came:
            await super().fire_after(container)


def _log_of(stream: str, log: Log, their_log: Log) -> Log:
    # A stream of a container from another log may exist only in the copy of it.
    return log if their_log is log or behind_gate(log).head(stream) else their_log


def _side(log: EventSource, stream: str, version: int) -> Side:
    events = log.read_events(stream, until=version)
    # The log may lack the newest events: another thread may have queued them after the flush.
    return side_of(stream, len(events), complete(log, events))


def side_of(stream: str, version: int, events: Iterable[Completed]) -> Side:
    """Return one side of a merge; `events` has the events of its ancestors and its own up to the version."""
    known = list(events)
    departures = Departures(stream, known, of_ancestors=True)
    state, ever, returned = departures.state, set[Ref](), set[Ref]()
    rest = iter(known)
    for segment in (*state.ancestry, Segment(stream, version)):
        for number, event in enumerate(islice(rest, segment.version), 1):
            if isinstance(event, AddedEvent):
                ever.add(Ref(number, segment.stream))
            elif isinstance(event, Resolved):
                taken = {held.ref.within(segment.stream) for held in event.taken}
                ever |= taken
                returned |= taken if isinstance(event.event, RestoredEvent) else set()
    return Side(stream, version, state, departures.gone(), ever, returned)


def _base_of(ours: Side, theirs: Side, log: Log, their_log: Log) -> Segment | None:
    """Return the last version of a container that both sides include; of several containers, the one recorded last."""
    there = theirs.includes()
    common = [Segment(one, min(version, there[one])) for one, version in ours.includes().items() if one in there]
    if len(common) < 2:
        return common[0] if common else None

    def recorded(segment: Segment) -> tuple[float, int]:
        return _recorded(_log_of(segment.stream, log, their_log), Ref(segment.version, segment.stream))

    # Versions that are not in the log yet count as equally new. `reversed` prefers a merged container to an ancestor.
    return max(reversed(common), key=recorded)


def _item_of(held: Held | None) -> ContextItem[Any] | None:
    return None if held is None else held.item


def _recorded(log: Log, change: Ref) -> tuple[float, int]:
    """Return when and where an event was recorded; an event that is not in the log yet is newer than all others."""
    recorded = behind_gate(log).read(change.stream, after=change.version - 1, until=change.version)
    return (recorded[0].recorded_at, recorded[0].position.number) if recorded else (inf, 0)


def of_branch(given: Any, context_id: str | None, limit: Any, no_limit: Any) -> tuple[str | None, Any]:
    """
    Return the id and the limit of a branch; the first argument `given` may be either.

    Raises:
        InvalidInputError: one of them was given twice.
    """
    is_id = isinstance(given, str)
    if given is not no_limit and (context_id is not None if is_id else limit is not no_limit):
        raise InvalidInputError(f"branch({given!r}) has another {'id' if is_id else 'limit'} as a keyword: give one")
    if is_id:
        return given, limit
    return context_id, limit if given is no_limit else given


def branch_of(
    parent: Container[Any], limit: int | EllipsisType | None, context_id: str | None, key: str | None
) -> tuple[Journal[ContainerState], Attachment]:
    """
    Begin a branch of what `parent` shows, and return its journal and its attachment; its limit is the parent's if none
    is given (`...`).

    Raises:
        InvalidInputError: the id is malformed or taken.
    """
    # The events that a branch names must be on disk before the branch. The state is read only once, because another
    # thread may change the parent in the meantime.
    state = parent._source.settled()
    event = _branched(parent, state, state.limit if limit is ... else limit)
    # The limit counts only if it was given: when the call is repeated, the parent may have another one.
    call = ("branch", parent.stream_id, parent._version_asked, *(() if limit is ... else (limit,)))
    attachment, base = parent._attachment, fold(state, (event,))
    journal = begin_child(
        attachment, parent.decider, event, base, begin=Begin(event), call=call, context_id=context_id, key=key
    )
    return journal, attachment


def _branched(parent: Container[Any], state: ContainerState, limit: int | None) -> BranchedEvent:
    opened = state.opened
    if opened is None:
        raise InvalidInputError(
            f"{parent.stream_id}@{parent.version} is before the first event: branch a later version"
        )
    total = Totals()
    kept = state.items.values()
    for held in kept if limit is None else kept[-limit:]:
        total += held.totals
    return parent.kind.branched(
        parent=parent.stream_id,
        version=state.version,
        lineage=(*state.ancestry, Segment(parent.stream_id, state.version)),
        root=parent.root,
        limit=limit,
        tags=state.tags,
        change=total,
        user=opened.user,
        session=opened.session,
        agent=opened.agent,
    )
