"""
What a merge takes: of a queue what came in on the other side, of a pool what changed there (three-way).

Both sides are compared with where they were the same: what the last merge of the two took over, or else where their
lineages part. Items are compared by their births, so nothing is taken twice, and what one side evicted for want of
room is no statement about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

from ...errors import InvalidInputError
from ...spans import Ref, Segment
from ..events import PoolConflictResolved
from ..items import ContextItem, Held
from ..state.departures import Departure
from ..state.fold import ContainerState
from ..state.naming import absolute
from .commands import Merge

Choice = Literal["ours", "theirs"]
RULES = ("ours", "theirs", "newest")


class Side(NamedTuple):
    """One of the two containers, up to a version: what it holds, and what it let go of."""

    stream: str
    version: int
    state: ContainerState
    gone: Mapping[Ref, Departure]

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
