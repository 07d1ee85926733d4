"""
The entries of a queue or a pool, joined from rows: when each of them was held, in the container's own order.

The rows are read in the order of versions. For a branch, the rows of its ancestors come first, each up to the version
of the branch. An entry that comes back becomes the newest; an entry that replaces another one takes its place. So each
interval has a place, and the entries held at a version are in the order of their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import NamedTuple

import msgspec

from ...domain.context.address import resolve_version
from ...domain.context.decider import trusted
from ...domain.errors import DamagedError
from ...domain.ids import split_stream_id
from ...domain.log.ports import Log
from ...domain.positions import Moment
from ...domain.spans import Ref, Segment, refs_of
from ...projections.entries import (
    BRANCHED,
    CLEARED,
    ENTRIES,
    MERGED,
    NAMED,
    RESTORED,
    EntryRow,
    entries_with_mark,
    names_prefix,
)
from ...projections.intervals import STILL_THERE, intervals_of
from ..log.row_faults import REBUILD, opening
from ..projecting.runner import ProjectionRunner
from ..projecting.store import ProjectionStore
from .intervals import AncestorRows, born_rows, holds, lineage_rows


class EntryStay(msgspec.Struct, frozen=True, kw_only=True):
    """
    An interval in which a queue or a pool held an entry: from version `v0` until before `v1`; 0 means that it is there.

    `place` numbers the entries in their order; an entry that replaced another one has the same number. `birth` is the
    origin of the entry: `stream@version` of the event that first recorded it. `type` is `text`, `json`, or the class of
    the content; `agent` recorded it. `how` and `reason` say how the event of `v1` ended the interval: `evict`,
    `remove`, `replace`, `clear` or `merge`. Entries that a branch left out, because of its limit, have an interval from
    1 to 1.
    """

    context: str
    place: int
    item: str
    description: str
    type: str
    agent: str
    tokens: int
    birth: str
    v0: int
    v1: int
    how: str
    reason: str


def entries_at(
    log: Log, runner: ProjectionRunner, stream: str, at: int | str | datetime | Moment | None, *, with_gone: bool
) -> list[EntryStay]:
    """
    Return the entries that a container holds at a version, now if `at` is None; with `with_gone` all up to it.

    Raises:
        NotFoundError, InvalidInputError: as for a container's own `version_at`.
    """
    head = log.head(stream)

    def found(store: ProjectionStore) -> list[EntryStay]:
        version = head
        if at is not None:
            version = resolve_version(log, stream, at, head=head, names=lambda: _names(store, stream))
        stays = (stay for stay in _entry_stays(store, stream) if stay.v0 <= version)
        return [stay for stay in stays if with_gone or holds(stay, version)]

    return runner.read(ENTRIES, ask=found)


def _names(store: ProjectionStore, stream: str) -> dict[str, int]:
    return {row.item: row.v0 for row in store.rows_under(ENTRIES, names_prefix(stream))}


@opening("the table of entries", remedy=REBUILD)
def _entry_stays(store: ProjectionStore, context: str) -> list[EntryStay]:
    """
    Return the intervals of all entries of a container, given its stream, from rows that are up to date.

    They come in the order of their places, and within one place in the order of time.

    Raises:
        DamagedError: an event names something as an entry that is not an entry.
    """
    with trusted(context):
        lineage = lineage_rows(partial(_AncestorRows, store), context)
        steps = [member.steps(end) for member, end in lineage]
        births = [step.birth for part in steps for step in part if step.birth]
        added = born_rows(store, ENTRIES, births, (row for member, _ in lineage for row in member.rows.values()))
        held = _Held(added, is_pool=split_stream_id(context)[0] == "pool")
        for part in steps:
            for step in part:
                held.take(step)
        return [_public(context, stay, added[stay.birth]) for stay in sorted(held.stays, key=lambda stay: stay.place)]


def _public(context: str, stay: _Stay, about: EntryRow) -> EntryStay:
    return EntryStay(
        context=context,
        place=stay.place,
        item=about.item,
        description=about.description,
        type=about.type,
        agent=about.agent,
        tokens=about.tokens,
        birth=stay.birth,
        v0=stay.v0,
        v1=stay.v1,
        how=stay.how,
        reason=stay.reason,
    )


class _Step(NamedTuple):
    """A change that a row records: an entry came or left, all entries left, or a branch with a `limit` began."""

    version: int
    kind: str
    birth: str = ""
    how: str = ""
    reason: str = ""
    limit: int | None = None


# If an event removes and adds entries, the removals come first.
LEFT, CAME = "left", "came"


class _AncestorRows(AncestorRows[EntryRow]):
    """The rows of one container: a branch, or an ancestor of it."""

    projection = ENTRIES
    mark_types = (BRANCHED, MERGED, RESTORED, CLEARED, NAMED)

    @property
    def parent(self) -> Segment | None:
        """The container from which this one was branched, and the version; None if it is no branch."""
        return entries_with_mark(self.marks[0]).parent if self.marks and self.marks[0].type == BRANCHED else None

    def steps(self, end: int | None) -> list[_Step]:
        """Return the changes up to a version, in order."""
        steps = [step for mark in self.marks for step in self._marked(mark)]
        for row in self.rows.values():
            if row.type:
                steps.append(_Step(Ref.parse(row.birth).version, CAME, row.birth, "replace"))
            # A replaced entry has no step of its own: the entry that replaces it ends its interval and takes its place.
            steps += [
                _Step(stay.v1, LEFT, row.birth, stay.how, stay.reason)
                for stay in intervals_of(row)
                if stay.v1 != STILL_THERE and stay.how != "replace"
            ]
        counted = steps if end is None else [step for step in steps if step.version <= end]
        return sorted(counted, key=lambda step: (step.version, step.kind != LEFT))

    def _marked(self, mark: EntryRow) -> Iterator[_Step]:
        if mark.type in (MERGED, RESTORED):
            for ref in refs_of(entries_with_mark(mark).items):
                yield _Step(mark.v0, CAME, str(ref.within(self.context)), "merge")
        elif mark.type == BRANCHED:
            yield _Step(mark.v0, BRANCHED, limit=entries_with_mark(mark).limit)
        elif mark.type == CLEARED:
            yield _Step(mark.v0, CLEARED, how="clear")


class _Stay:
    """An interval that is being built."""

    __slots__ = ("birth", "how", "place", "reason", "v0", "v1")

    def __init__(self, birth: str, place: int, v0: int) -> None:
        self.birth, self.place, self.v0 = birth, place, v0
        self.v1, self.how, self.reason = STILL_THERE, "", ""

    def end(self, step: _Step) -> None:
        """End the interval with a step."""
        self.v1, self.how, self.reason = step.version, step.how, step.reason


class _Held:
    """The entries of a container while its rows are read: those of a pool by id, those of a queue by origin."""

    def __init__(self, rows: Mapping[str, EntryRow], *, is_pool: bool) -> None:
        self._rows, self._is_pool = rows, is_pool
        self._there: dict[str, _Stay] = {}
        self._places = 0
        self.stays: list[_Stay] = []

    def take(self, step: _Step) -> None:
        """Apply the next step."""
        if step.kind == CAME:
            self._put(step)
        elif step.kind == LEFT:
            self._let_go(step)
        elif step.kind == BRANCHED:
            self._branch(step)
        else:
            for stay in self._there.values():
                stay.end(step)
            self._there = {}

    def _put(self, step: _Step) -> None:
        key = self._key(step.birth)
        old = self._there.get(key)
        if old is not None:
            old.end(step)
        self._add(key, step, place=self._places if old is None else old.place)

    def _add(self, key: str, step: _Step, *, place: int) -> None:
        stay = _Stay(step.birth, place, step.version)
        self._places = max(self._places, place + 1)
        self._there[key] = stay
        self.stays.append(stay)

    def _let_go(self, step: _Step) -> None:
        stay = self._there.pop(self._key(step.birth), None)
        if stay is None:
            raise DamagedError(step.birth, "it left, and was not there")
        stay.end(step)

    def _branch(self, step: _Step) -> None:
        """
        Begin a branch with the present entries; entries beyond its limit leave at once.

        Entries that left before never belonged to the branch, so their intervals are dropped.
        """
        inherited, self._there = self._there, {}
        self.stays, self._places = [], 0
        left_out = 0 if step.limit is None else len(inherited) - step.limit
        for place, (key, stay) in enumerate(inherited.items()):
            self._add(key, step._replace(birth=stay.birth), place=place)
            if place < left_out:
                self._there.pop(key).end(step._replace(how="evict", reason="limit"))

    def _key(self, birth: str) -> str:
        if birth not in self._rows:
            raise DamagedError(birth, "an event names it as an entry, and it is none")
        return self._rows[birth].item if self._is_pool else birth
