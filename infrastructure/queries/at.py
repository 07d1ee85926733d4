"""A store at a moment: all its contexts as of then, and the difference between two moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec

from ...domain.errors import DamagedError, NotFoundError
from ...domain.log.gate import gate_of
from ...domain.log.ports import LiveLog
from ...domain.positions import Moment
from ...domain.totals import Totals
from ...projections.catalogue import CATALOGUE, CatalogueRow, growth_of
from ...projections.growth import GROWTH, GROWTH_EVENTS, GrowthRow
from ...projections.rows import version_key
from ...projections.steps import STEPS, last_step
from ..log.row_faults import REBUILD, opening
from ..projecting.runner import ProjectionRunner
from ..projecting.store import ProjectionStore
from .cuts import Cut, cut_of
from .one_moment import at_one_moment

if TYPE_CHECKING:
    from ...domain.chat.context import ChatContext, ReadOnlyChatContext
    from ...domain.context.context import Context
    from ...domain.memory.memory import Memory, MemoryAt
    from ...domain.pool.pool import ContextPool, ReadOnlyPool
    from ...domain.pool.queue import ContextQueue, ReadOnlyQueue
    from ...domain.trajectory.run import ReadOnlyRun, Run
    from ...domain.window.window import ContextWindow, ReadOnlyContextWindow


# Takes the slice, the position in it and the time of an event; returns whether a cut includes it.
Inclusion = Callable[[int, int, int], bool]
# Rows of the catalogue by key, in the order of keys.
Rows = dict[str, CatalogueRow]
# The projections that know the contexts of any moment.
CONTEXTS = (CATALOGUE, GROWTH, STEPS)
# Up to this many events are read to learn which contexts changed; more cost as much as the rows of all contexts.
CHANGES_READ_MAX = 4_096
C = TypeVar("C", bound="Context[Any]")


@opening("the table of growth", remedy=REBUILD)
def totals_at(log: LiveLog, runner: ProjectionRunner, stream: str, version: int) -> Totals:
    """Return the totals of a context at a version: the sum of whole blocks of versions and of the events after them."""
    whole = version // GROWTH_EVENTS
    rows = _rows_of(runner, stream, whole) if whole else []
    behind = growth_of(log.read_events(stream, after=whole * GROWTH_EVENTS, until=version))
    return sum((Totals(row.items, row.turns, row.tokens) for row in rows), behind)


def _rows_of(runner: ProjectionRunner, stream: str, blocks: int) -> list[GrowthRow]:
    """Return the rows of the first `blocks` blocks of versions; the projection is only run if one is missing."""
    last, prefix = version_key(stream, blocks), f"{stream}@"
    rows = [row for row in runner.stored_under([GROWTH], [prefix]) if row.key < last]
    if sum(row.events for row in rows) == blocks * GROWTH_EVENTS:
        return rows
    return [row for row in runner.rows_under([GROWTH], [prefix]) if row.key < last]


class OpenStore(Protocol):
    """The part of a store that opens existing contexts."""

    log: LiveLog
    _runner: ProjectionRunner

    def chat(self, context_id: str, *, create: bool) -> ChatContext: ...

    def queue(self, context_id: str, *, create: bool) -> ContextQueue[Any]: ...

    def pool(self, context_id: str, *, create: bool) -> ContextPool[Any]: ...

    def window(self, context_id: str, *, create: bool) -> ContextWindow: ...

    def memory(self) -> Memory: ...

    def run(self, user_id: str, session_id: str, run_id: int, sub_id: int, *, create: bool) -> Run: ...

    def contexts(self) -> list[CatalogueRow]: ...


class StoreAt:
    """
    All contexts of a store as of one moment; `store.at(moment)` gives one.

    A context that did not exist yet is not found. A fork of a chat, or a branch of a queue or a pool, that is made from
    here is a new context in the present store.
    """

    def __init__(self, store: OpenStore, cut: Cut) -> None:
        self._store, self._cut = store, cut

    @property
    def moment(self) -> datetime | Moment:
        """The moment that is shown: a time, or a cut of the log."""
        return cut_of(self._cut)

    def chat(self, context_id: str) -> ReadOnlyChatContext:
        """
        Return a chat context as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        view = self._existing(self._store.chat(context_id, create=False).at(self.moment))
        # The totals come from the table of growth, so the chat need not be read for them.
        view._count = cache(partial(totals_at, self._store.log, self._store._runner, view.stream_id, view.version))
        return view

    def queue(self, context_id: str) -> ReadOnlyQueue[Any]:
        """
        Return a context queue as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        return self._existing(self._store.queue(context_id, create=False).at(self.moment))

    def pool(self, context_id: str) -> ReadOnlyPool[Any]:
        """
        Return a context pool as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        return self._existing(self._store.pool(context_id, create=False).at(self.moment))

    def window(self, context_id: str) -> ReadOnlyContextWindow:
        """
        Return a context window as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        return self._existing(self._store.window(context_id, create=False).at(self.moment))

    def memory(self) -> MemoryAt:
        """Return the memory as it was, scope by scope."""
        return self._store.memory().at(self.moment)

    def run(self, user_id: str, session_id: str, run_id: int = 0, sub_id: int = 0) -> ReadOnlyRun:
        """
        Return a run as it was.

        Raises:
            NotFoundError: it did not exist then.
        """
        run = self._store.run(user_id, session_id, run_id, sub_id, create=False)
        return self._existing(run.at(self.moment))

    def contexts(self) -> list[CatalogueRow]:
        """Return the catalogue row of each context that existed then, ordered by kind and id."""
        if (gate := gate_of(self._store.log)) is not None:
            gate.ask("search")
        runner = self._store._runner
        then = at_one_moment(runner, CONTEXTS, lambda _: _rows_then(runner, runner.stored(CATALOGUE), self._cut))
        return list(then.values())

    def _existing(self, view: C) -> C:
        # Before it began, a context is at version 0.
        if not view.version:
            raise NotFoundError(f"there was no {view.stream_id} at {self.moment}: it began later")
        return view

    def __repr__(self) -> str:
        return f"StoreAt({self.moment!s})"


class ContextDifference(msgspec.Struct, frozen=True, kw_only=True):
    """
    A context at two moments, `before` and `after`; None where it did not exist.

    The difference is made by the versions from that of `before` to that of `after`. If the version of `after` is the
    lower one, `after` is the earlier moment.
    """

    key: str
    kind: str
    id: str
    before: CatalogueRow | None
    after: CatalogueRow | None


def store_difference(before: StoreAt, after: StoreAt) -> list[ContextDifference]:
    """Return the contexts that are different at two moments, ordered by kind and id."""
    store = before._store
    runner = store._runner
    changed = _changed_between(store.log, before._cut, after._cut)

    def differing(_: ProjectionStore) -> list[ContextDifference]:
        rows = runner.stored(CATALOGUE, changed)
        old, new = (_rows_then(runner, rows, one._cut) for one in (before, after))
        return [
            ContextDifference(key=key, kind=rows[key].kind, id=rows[key].id, before=old.get(key), after=new.get(key))
            for key in sorted(rows)
            if _version(old.get(key)) != _version(new.get(key))
        ]

    return at_one_moment(runner, CONTEXTS, differing)


def _changed_between(log: LiveLog, one: Cut, other: Cut) -> set[str] | None:
    """
    Return the streams that have events between two moments; None if it costs less to look at every context.

    That is so for times, for moments that are far apart, and if none of the two includes the other.
    """
    if not (isinstance(one, Moment) and isinstance(other, Moment)):
        return None
    first, last = (one, other) if other.includes(one) else (other, one)
    count = last.events - first.events
    if not last.includes(first) or count > CHANGES_READ_MAX:
        return None
    try:
        page = log.read_all(after=first, limit=count, undecodable=True)
    except DamagedError:
        # An event of some context is damaged. The rows of all contexts are still known.
        return None
    return {event.stream for event in page.events} if page.moment.includes(last) else None


def _rows_then(runner: ProjectionRunner, rows: Rows, cut: Cut) -> Rows:
    """Return the rows of contexts as they were; those that did not exist are left out."""
    is_included = _inclusion(cut)
    begun = [row for row in rows.values() if is_included(row.lane, row.first_number, row.opened_at)]
    changed = {row.key: row for row in begun if not is_included(row.lane, row.number, row.changed_at)}
    then = _rows_at_cut(runner, changed, is_included)
    return {row.key: then.get(row.key, row) for row in begun}


def _inclusion(cut: Cut) -> Inclusion:
    """Return the function that says which events a cut includes."""
    if isinstance(cut, int):
        return lambda lane, number, recorded_at: recorded_at <= cut
    heads = dict(cut.heads)
    return lambda lane, number, recorded_at: number <= heads.get(lane, 0)


@opening("the table of steps", remedy=REBUILD)
def _rows_at_cut(runner: ProjectionRunner, changed: Mapping[str, CatalogueRow], is_included: Inclusion) -> Rows:
    """Return the rows of contexts that have changed since, each as of the last version that is included."""
    # The key of the last block that began, and the totals of the blocks before it.
    last = {key: (version_key(key, 0), Totals()) for key in changed}
    sums = dict.fromkeys(changed, Totals())
    # Most contexts have one block only, and need no sums.
    long = [f"{key}@" for key, row in changed.items() if row.version > GROWTH_EVENTS]
    for block in runner.stored_under([GROWTH], long):
        key = block.key.rpartition("@")[0]
        if is_included(changed[key].lane, block.first_number, block.first_at):
            last[key] = (block.key, sums[key])
            sums[key] += Totals(block.items, block.turns, block.tokens)
    steps, then = runner.stored(STEPS, [block for block, _ in last.values()]), {}
    for key, row in changed.items():
        block, before = last[key]
        step = last_step(steps[block], partial(is_included, row.lane)) if block in steps else None
        if step is None:
            raise DamagedError(f"row {block!r} of steps", "it is missing", remedy=REBUILD)
        totals = before + step.change
        then[key] = msgspec.structs.replace(
            row,
            version=step.version,
            items=totals.items,
            turns=totals.turns,
            tokens=totals.tokens,
            changed_at=step.recorded_at,
            changed_by=step.actor,
            number=step.number,
        )
    return then


def _version(row: CatalogueRow | None) -> int:
    return 0 if row is None else row.version
