"""
Comparing stored rows with those that the events give, for any number of projections in one reading of the log.

The rows are folded in a temporary database of their own, each projection up to its checkpoint. Then both are read side
by side, ordered by key. So neither the log nor the rows have to fit into memory, and the stored rows are only read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import msgspec

from ...domain.clock import REAL_SYSTEM
from ...domain.errors import ProjectionError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog, Page
from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Projection
from .rows.sqlite import ScratchProjectionStore
from .runner import Failures, ProjectionRunner
from .shadow import Progress, Stop, progress_after
from .store import ProjectionStore, SetAside, Values, rows_of

DIFFERENCES_MAX = 10
PAGE_EVENTS = 2_048


class Difference(NamedTuple):
    """A row that differs from the result of its fold: the live row and the rebuilt row; None if a row is missing."""

    key: str
    live: Any
    rebuilt: Any


class Compared(msgspec.Struct, frozen=True):
    """
    The number of rows that the events give, of those that differ, and the first few of these.

    `is_met` is False if the log does not reach the checkpoint of the stored rows. `fault` is the reason why the stored
    rows could not be compared.
    """

    rows: int = 0
    differing: int = 0
    differences: tuple[Difference, ...] = ()
    is_met: bool = True
    fault: str | None = None


class _OnePage:
    """A log that consists of one page, which the next page replaces."""

    page = Page([], BEGINNING)

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        return Page([], after) if after.includes(self.page.moment) else self.page

    def now(self) -> Moment:
        return self.page.moment


class Comparison:
    """The comparison of projections; `close` drops the rows that were made for it."""

    def __init__(
        self,
        log: LiveLog,
        store: ProjectionStore,
        projections: Collection[Projection],
        *,
        progress: Progress | None,
    ) -> None:
        self._log, self._store, self._progress = log, store, progress
        # Writers may go on, and may be faster than this reading, so its end is fixed.
        self._end = log.now()
        self._page = _OnePage()
        self._scratch = ScratchProjectionStore(like=store)
        self._runner = ProjectionRunner(self._page, self._scratch, [*projections])
        # The checkpoint up to which each projection is folded, or the error because of which it is not.
        self._until: dict[str, Moment] = {}
        self._failed: Failures = {}
        made = self._runner.projections
        for name, found in zip(made, checkpoints_or_errors(store, made.values()), strict=True):
            if isinstance(found, Exception):
                self._failed[name] = found
            else:
                self._until[name] = found
        self.events = 0

    def close(self) -> None:
        """Drop the rows that were made."""
        self._scratch.close()

    def read(self, look: Callable[[Sequence[RecordedEvent]], None] | None = None, stop: Stop = lambda: False) -> bool:
        """
        Read the log once, up to its present end, and fold each page; return False if it was stopped.

        `look` is called with the events of each page before they are folded.

        Raises:
            DamagedError: an event is missing or was changed.
        """
        began, moment = REAL_SYSTEM.monotonic(), BEGINNING
        while not moment.includes(self._end):
            page = self._log.read_all(after=moment, limit=PAGE_EVENTS, until=self._end, undecodable=True)
            if not page.events:
                break
            if look is not None:
                look(page.events)
            self._fold(page)
            moment = page.moment
            self.events += len(page.events)
            self._report(REAL_SYSTEM.monotonic() - began)
            if stop():
                return False
        return True

    def _fold(self, page: Page) -> None:
        due: dict[Moment, list[Projection]] = {}
        for name, projection in self._runner.projections.items():
            if name not in self._failed:
                # Rows that are not there cannot differ. Their fold still shows events that it cannot take.
                until = self._until[name]
                due.setdefault(self._end if until == BEGINNING else until, []).append(projection)
        for until, projections in due.items():
            self._page.page = _cut(page, until)
            failed: Failures = {}
            for _ in self._runner.pages(*projections, failed=failed):
                pass
            for error in failed.values():
                if not isinstance(error, ProjectionError):
                    # The temporary rows cannot be kept, which says nothing about the stored rows.
                    raise error
            self._failed |= failed

    def _report(self, seconds: float) -> None:
        if self._progress is None:
            return
        names = [*self._runner.projections]
        what = names[0] if len(names) == 1 else "events"
        self._progress(progress_after(what, self.events, self._end.events, self.events, seconds))

    def compared(self, projection: Projection) -> Compared:
        """
        Compare the stored rows of a projection with those that the events give, both at the checkpoint of the former.

        Raises:
            ProjectionError: it cannot fold an event.
            LogWentBackError: the log ends before the checkpoint.
            DamagedError: the stored rows, or their checkpoint, cannot be read.
        """
        if projection.name in self._failed:
            raise self._failed[projection.name]
        moment = self._store.checkpoint(projection)
        if BEGINNING in (moment, self._until[projection.name]):
            # Nothing is read of rows that were never made: to read them, some stores make their table first.
            return Compared(self._scratch.count(projection))
        # Before the rows are read: a server ends a transaction that is idle for long.
        self._reach(projection, moment)
        return self._store.walk(projection, partial(self._compare, projection))

    def _compare(self, projection: Projection, moment: Moment, stored: Iterator[list[Values]]) -> Compared:
        if BEGINNING in (moment, self._until[projection.name]):
            return Compared(self._scratch.count(projection))
        if not self._reach(projection, moment):
            return Compared(is_met=False)
        return self._scratch.walk(projection, lambda _, rebuilt: _compared(projection, stored, rebuilt))

    def _reach(self, projection: Projection, moment: Moment) -> bool:
        """Fold a projection up to a moment that its stored rows have reached; False if the log ends before."""
        if self._scratch.checkpoint(projection) != moment:
            for _ in ProjectionRunner(self._log, self._scratch, [projection]).pages(projection, until=moment):
                pass
        return self._scratch.checkpoint(projection) == moment

    def set_aside(self, projection: Projection) -> list[SetAside]:
        """Return the events that the fold went on without."""
        return self._scratch.set_aside(projection)


def checkpoints_or_errors(store: ProjectionStore, projections: Collection[Projection]) -> list[Moment | Exception]:
    """Return the checkpoint of each projection, or the error because of which it cannot be read."""
    try:
        return [one.moment for one in store.checkpoints(*projections)]
    except Exception:
        # One at least cannot be read; the others can.
        return [_checkpoint_or_error(store, one) for one in projections]


def _checkpoint_or_error(store: ProjectionStore, projection: Projection) -> Moment | Exception:
    try:
        return store.checkpoint(projection)
    except Exception as error:
        return error


def compared_with(
    projection: Projection,
    other: Projection,
    store: ProjectionStore,
    moment: Moment,
    stored: Iterator[list[Values]],
) -> Compared:
    """Compare rows at a moment with those of `other`; `is_met` is False unless both are at the same moment."""

    def compare(reached: Moment, rebuilt: Iterator[list[Values]]) -> Compared:
        return _compared(projection, stored, rebuilt) if reached == moment else Compared(is_met=False)

    return store.walk(other, compare)


def _cut(page: Page, until: Moment) -> Page:
    """Return a page without the events behind a moment."""
    if until.includes(page.moment):
        return page
    heads = dict(until.heads)
    ends = {lane: min(number, heads[lane]) for lane, number in page.moment.heads if lane in heads}
    return Page([one for one in page.events if one.position.number <= ends.get(one.position.slice, 0)], Moment.of(ends))


def _compared(projection: Projection, stored: Iterator[list[Values]], rebuilt: Iterator[list[Values]]) -> Compared:
    rows, nothing = 0, list[Values]()
    for live, made in zip_longest(stored, rebuilt, fillvalue=nothing):
        # For rows that are right, only this line runs: lists are compared in C, and no row is made.
        if live != made:
            pairs = (chain(live, chain.from_iterable(stored)), chain(made, chain.from_iterable(rebuilt)))
            return _differing(projection, *pairs, rows)
        rows += len(made)
    return Compared(rows)


def _differing(projection: Projection, stored: Iterator[Values], rebuilt: Iterator[Values], rows: int) -> Compared:
    """Compare row by row; `rows` are known to be equal."""
    differing, first = 0, list[Difference]()
    live, made = next(stored, None), next(rebuilt, None)
    while live is not None or made is not None:
        key = min(one[0] for one in (live, made) if one is not None)
        old, new = (one if one is not None and one[0] == key else None for one in (live, made))
        if old != new:
            differing += 1
            if len(first) < DIFFERENCES_MAX:
                pair = (None if one is None else rows_of(projection.row, [one])[0] for one in (old, new))
                first.append(Difference(key, *pair))
        if old is not None:
            live = next(stored, None)
        if new is not None:
            rows, made = rows + 1, next(rebuilt, None)
    return Compared(rows, differing, tuple(first))
