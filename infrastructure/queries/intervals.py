"""
Intervals: from which version to which each item of a chat was in the view.

They are read from the rows of the chat and of its ancestors, beginning with the root. `entries.py` does the same for
the entries of queues and pools.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from functools import cache, partial
from typing import Any, ClassVar, Generic, Protocol, TypeVar

import msgspec

from ...domain.chat.state.edits import Edits
from ...domain.context.decider import trusted
from ...domain.errors import DamagedError
from ...domain.kinds import ITEM_KINDS
from ...domain.spans import Ref, Segment, refs_of
from ...projections.contract import Projection
from ...projections.intervals import (
    STILL_THERE,
    IntervalRow,
    StoredInterval,
    intervals_of,
    item_key,
    mark_key,
    marks_prefix,
    own_items_prefix,
    rows_prefix,
)
from ...projections.validity import CLEARED, FORKED, MERGED, VALIDITY, ValidityRow, brought_by
from ..log.row_faults import REBUILD, opening
from ..projecting.runner import ProjectionRunner
from ..projecting.store import ProjectionStore, Where

R = TypeVar("R", bound=IntervalRow)
A = TypeVar("A", bound="AncestorRows[Any]")


class IntervalLike(Protocol):
    """An interval of versions in which something is there."""

    @property
    def v0(self) -> int:
        """The version with which it came."""

    @property
    def v1(self) -> int:
        """The version with which it left; 0 while it is there."""


def holds(stay: IntervalLike, version: int) -> bool:
    """Return whether an interval contains a version."""
    return stay.v0 <= version and (stay.v1 == STILL_THERE or version < stay.v1)


class AncestorRows(Generic[R]):
    """
    The rows of one context: the context in question, or an ancestor of it.

    With `end` the marks, and the items that the context recorded, are those up to this version; later items are not
    read, as an ancestor may have gone on for long since a fork began.
    """

    projection: ClassVar[Projection]
    mark_types: ClassVar[tuple[str, ...]]

    def __init__(self, store: ProjectionStore, context: str, end: int | None) -> None:
        self.context = context
        rows = self._read(store, end)
        marks = (row for row in rows if row.type in self.mark_types)
        self.marks = [row for row in marks if end is None or row.v0 <= end]
        self.rows = {row.birth: row for row in rows if row.type not in self.mark_types}

    def _read(self, store: ProjectionStore, end: int | None) -> list[R]:
        rows: list[R] = store.rows_under(self.projection, *self._prefixes(end))
        return rows if end is None else [*rows, *self._own_items(store, end)]

    def _own_items(self, store: ProjectionStore, end: int, where: Where | None = None) -> list[R]:
        """Return the rows of the items that the context recorded up to a version."""
        # There is at most one for each version.
        first, behind = own_items_prefix(self.context), item_key(self.context, Ref(end + 1, self.context))
        return store.page(self.projection, after=first, before=behind, limit=end, where=where)

    def _prefixes(self, end: int | None) -> tuple[str, ...]:
        """Return the prefixes of the keys of all rows; with an end without those of the items that it recorded."""
        whole = rows_prefix(self.context)
        return (whole,) if end is None else (marks_prefix(self.context), *(f"{whole}{kind}:" for kind in ITEM_KINDS))

    @property
    def parent(self) -> Segment | None:
        """The context and version whose items this context began with; None if there is none."""
        raise NotImplementedError


def lineage_rows(
    read: Callable[[str, int | None], A], context: str, end: int | None = None
) -> list[tuple[A, int | None]]:
    """
    Return the rows of a context up to the version `end`, and those of its ancestors, beginning with the root.

    `read` returns the rows of one context up to a version. The rows of an ancestor come with the last version that
    counts, the rows of the context itself with None.

    Raises:
        DamagedError: the context is its own ancestor.
    """
    lineage: dict[str, tuple[A, int | None]] = {context: (read(context, end), None)}
    oldest = lineage[context][0]
    while (parent := oldest.parent) is not None:
        if parent.stream in lineage:
            raise DamagedError(context, f"what it goes on from leads back to {parent.stream}")
        oldest = read(parent.stream, parent.version)
        lineage[parent.stream] = (oldest, parent.version)
    return list(reversed(lineage.values()))


def born_rows(store: ProjectionStore, projection: Projection, births: Iterable[str], rows: Iterable[R]) -> dict[str, R]:
    """Return by origin the rows that describe items, as far as they exist; `rows` have been read already."""
    known = {row.birth: row for row in rows if row.type}
    refs = {birth: Ref.parse(birth) for birth in births if birth not in known}
    missing = {birth: item_key(ref.stream, ref) for birth, ref in refs.items()}
    found = store.load(projection, missing.values()) if missing else {}
    return known | {birth: found[key] for birth, key in missing.items() if key in found and found[key].type}


def described(store: ProjectionStore, births: Sequence[str], rows: Iterable[ValidityRow]) -> dict[str, ValidityRow]:
    """
    Return by origin the rows that describe items; `rows` have been read already.

    Raises:
        DamagedError: there is no such item.
    """
    known = born_rows(store, VALIDITY, births, rows)
    copied = _copied(store, [birth for birth in births if birth not in known])
    sources = described(store, [source for source, _ in copied.values()], ()) if copied else {}
    copies = {birth: msgspec.structs.replace(sources[source], agent=agent) for birth, (source, agent) in copied.items()}
    return known | copies


def _copied(store: ProjectionStore, births: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return for items that a merge copied under the name of another agent: the source's origin, and that agent."""
    keys = {birth: mark_key(ref.stream, ref.version) for birth, ref in zip(births, map(Ref.parse, births), strict=True)}
    marks = store.load(VALIDITY, keys.values()) if keys else {}
    copied = {}
    for birth, key in keys.items():
        brought = brought_by(marks[key]) if key in marks else None
        refs = [ref for placement in brought.placed or () for ref in refs_of(placement.items)] if brought else []
        if brought is None or brought.agent is None or len(refs) != 1:
            raise DamagedError(birth, "a merge or fork names it as an item, and it is none")
        copied[birth] = (str(refs[0].within(Ref.parse(birth).stream)), brought.agent)
    return copied


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """
    An interval in which an item was in the view of a context: from version `v0` until before `v1`; 0 while it is there.

    `place` numbers the items in their order, including items that left. `birth` is the origin of the item:
    `stream@version` of the event that first recorded it. `how` and `reason` say how the event of `v1` ended the
    interval.
    """

    context: str
    place: int
    item: str
    type: str
    role: str
    agent: str
    tokens: int
    birth: str
    v0: int
    v1: int
    how: str
    reason: str


def ids_seen(stays: Iterable[Interval], version: int) -> list[str]:
    """Return the ids of the items that are visible at a version, in order."""
    return [stay.item for stay in stays if holds(stay, version)]


def intervals(runner: ProjectionRunner, context: str) -> list[Interval]:
    """
    Return the intervals of all items in the view of a chat, given its stream.

    The items come in the order of the view, the intervals of one item in the order of time.

    Raises:
        DamagedError: an event names something as an item that is not an item.
    """
    return runner.read(VALIDITY, ask=lambda store: _intervals_stored(store, context))


@opening("the table of validity", remedy=REBUILD)
def _intervals_stored(store: ProjectionStore, context: str) -> list[Interval]:
    with trusted(context):
        lineage = lineage_rows(partial(_AncestorRows, store), context)
        view = _View()
        for member, end in lineage:
            view.go_on(member, end)
        known = (row for member, _ in lineage for row in member.rows.values())
        return _public(view, described(store, view.births, known))


def _public(view: _View, descriptions: dict[str, ValidityRow]) -> list[Interval]:
    found = []
    for place, ordinal in enumerate(view.edits.order(len(view.births))):
        birth = view.births[ordinal]
        about = descriptions[birth]
        found += [
            Interval(
                context=view.member.context,
                place=place,
                item=about.item,
                type=about.type,
                role=about.role,
                agent=about.agent,
                tokens=about.tokens,
                birth=birth,
                v0=stay.v0,
                v1=stay.v1,
                how=stay.how,
                reason=stay.reason,
            )
            for stay in view.stays(ordinal)
        ]
    return found


class _AncestorRows(AncestorRows[ValidityRow]):
    """The rows of one chat: a fork, or an ancestor of it."""

    projection = VALIDITY
    mark_types = (FORKED, MERGED, CLEARED)

    def __init__(self, store: ProjectionStore, context: str, end: int | None) -> None:
        super().__init__(store, context, end)
        self._clears = [row for row in self.marks if row.type == CLEARED]
        self._cleared_at = [row.v0 for row in self._clears]

    @property
    def parent(self) -> Segment | None:
        """The parent, if the chat began with all of its items; None if it began with none, or with a selection."""
        if not self.marks or self.marks[0].type != FORKED:
            return None
        brought = brought_by(self.marks[0])
        return brought.parent if brought.placed is None else None

    def is_cleared(self, end: int) -> bool:
        """Return whether the chat was cleared at or before a version."""
        return bool(self._cleared_at) and self._cleared_at[0] <= end

    def arrivals(self, end: int | None) -> Iterator[tuple[int, str, str]]:
        """
        Yield the items that came up to a version: the version, the item's origin, and the origin of the next item.

        The last one is empty if the item was not put before another item.
        """
        born = (row for row in self.rows.values() if row.type)
        # Marks come first, so that a fork's inherited items come before its own; the sort is stable.
        for row in sorted([*self.marks, *born], key=lambda row: Ref.parse(row.birth).version):
            version = Ref.parse(row.birth).version
            if end is not None and version > end:
                return
            if row.type in self.mark_types:
                yield from ((version, *brought) for brought in self._brought(row))
            else:
                yield version, row.birth, row.before

    def _brought(self, mark: ValidityRow) -> Iterator[tuple[str, str]]:
        if mark.type == CLEARED:
            return
        brought = brought_by(mark)
        for placement in brought.placed or ():
            before = "" if placement.before is None else str(placement.before.within(self.context))
            for ref in refs_of(placement.items):
                # An item that was copied under another agent's name is a new item, whose origin is the mark.
                yield (str(ref.within(self.context)) if brought.agent is None else mark.birth), before

    def stays(self, birth: str, arrived: int, *, is_shown: bool) -> list[StoredInterval]:
        """Return the intervals of an item that came with a version; `is_shown` says whether it was visible then."""
        row = self.rows.get(birth)
        stays = intervals_of(row) if row else [StoredInterval(0)]
        if not stays[0].v0:
            stays[:1] = [msgspec.structs.replace(stays[0], v0=arrived)] if is_shown else []
        nexts = [*(stay.v0 for stay in stays), STILL_THERE][1:]
        return [self._ended(stay, stay.v1 or following) for stay, following in zip(stays, nexts, strict=True)]

    def _ended(self, stay: StoredInterval, end: int) -> StoredInterval:
        """Return an interval, which ends earlier if the context was cleared before `end`."""
        found = bisect_right(self._cleared_at, stay.v0)
        if found == len(self._clears) or (end and end < self._cleared_at[found]):
            return stay
        return StoredInterval(stay.v0, self._cleared_at[found], "clear", self._clears[found].reason)


class _View:
    """
    The items of a context and its ancestors, in the order in which they came, while the rows are read.

    With `wanted`, origins, only these items are there, and their order in the view is not known.
    """

    member: _AncestorRows

    def __init__(self, wanted: Container[str] | None = None) -> None:
        self.births: list[str] = []
        self.edits = Edits()
        self._wanted = wanted
        self._ordinals: dict[str, int] = {}
        # For each item: whether it was visible when the current member began, and the version that brought it there.
        self._shown: list[bool] = []
        self._arrived: dict[int, int] = {}

    def go_on(self, member: _AncestorRows, end: int | None) -> None:
        """Read the rows of the next context of the lineage, up to the version where a fork begins; None: all rows."""
        self.member, self._arrived = member, {}
        for version, birth, before in member.arrivals(end):
            if self._wanted is not None and birth not in self._wanted:
                continue
            ordinal = self._ordinals[birth] = len(self.births)
            self.births.append(birth)
            self._shown.append(True)
            self._arrived[ordinal] = version
            if before and self._wanted is None:
                self.edits.place(ordinal, self._ordinals[before])
        if end is not None:
            named = (self._ordinals[birth] for birth in member.rows if birth in self._ordinals)
            for ordinal in range(len(self.births)) if member.is_cleared(end) else named:
                self._shown[ordinal] = any(holds(stay, end) for stay in self.stays(ordinal))

    def stays(self, ordinal: int) -> list[StoredInterval]:
        """Return the intervals of an item in the current member of the lineage."""
        # Inherited items came with the fork's first event.
        arrived = self._arrived.get(ordinal, 1)
        return self.member.stays(self.births[ordinal], arrived, is_shown=self._shown[ordinal])


class _ItemRows(_AncestorRows):
    """The marks of one chat, the rows of its own items with an id, and those that `add` reads."""

    def __init__(self, store: ProjectionStore, item: str, context: str, end: int) -> None:
        self._store, self._item = store, item
        # Origins that `add` has looked up: the forks of a chat ask its rows for the same ones again.
        self._looked_up: set[str] = set()
        super().__init__(store, context, end)
        self.named = [row.birth for row in self.rows.values() if row.type]

    def _read(self, store: ProjectionStore, end: int | None) -> list[ValidityRow]:
        assert end is not None, "the chat is read up to a version"
        marks: list[ValidityRow] = store.rows_under(VALIDITY, marks_prefix(self.context))
        return [*marks, *self._own_items(store, end, {"item": self._item})]

    def brought(self) -> list[str]:
        """Return the origins of the items that came with forks and merges."""
        return [birth for mark in self.marks for birth, _ in self._brought(mark)]

    def add(self, births: Iterable[str]) -> None:
        """Read the rows about items with these origins."""
        new = {*births} - self.rows.keys() - self._looked_up
        self._looked_up |= new
        keys = [item_key(self.context, Ref.parse(birth)) for birth in new]
        found = self._store.load(VALIDITY, keys).values() if keys else ()
        self.rows |= {row.birth: row for row in found}


# Returns the marks of a chat up to a version, and its rows of the items with an id.
ReadItemRows = Callable[[str, str, int], _ItemRows]


def item_rows_reader(store: ProjectionStore) -> ReadItemRows:
    """Return a function that reads the rows of each chat once, for several calls of `item_intervals`."""
    return cache(partial(_ItemRows, store))


@opening("the table of validity", remedy=REBUILD)
def item_intervals(
    store: ProjectionStore, read: ReadItemRows, context: str, until: int, item: str, births: Iterable[str] = ()
) -> list[StoredInterval] | None:
    """
    Return the intervals, as far as they began up to a version, of items with this id and of those with these origins.

    None means that there is no such item. The rows of other items are not read, except those of what a merge or a
    selecting fork brought, to see their ids.
    """
    with trusted(context):
        lineage = lineage_rows(partial(read, item), context, until)
        brought = [birth for member, _ in lineage for birth in member.brought()]
        copied = described(store, brought, ()).items() if brought else ()
        named = (birth for member, _ in lineage for birth in member.named)
        wanted = {*births, *named, *(birth for birth, row in copied if row.item == item)}
        view = _View(wanted)
        for member, end in lineage:
            member.add(wanted)
            view.go_on(member, end)
        found = [stay for ordinal in range(len(view.births)) for stay in view.stays(ordinal)]
        return [stay for stay in found if stay.v0 <= until] if view.births else None
