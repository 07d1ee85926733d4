"""
Reading a damaged log: all events that can still be read, and the faults of the others.

An event that cannot be read does not hide the others. It is left out, and the command reports it at the end and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Any, TypeVar

from ...domain.context.description import counted
from ...domain.errors import DamagedError, RefoldError
from ...domain.ids import microseconds
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import LiveLog, Page
from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Projection
from ..projecting.folding import fold_page
from ..projecting.store import MemoryProjectionStore, Save
from ..store import Store
from ..views.damage import UnreadableEvent, events_of
from .args import answered, reading

T = TypeVar("T")
PAGE_EVENTS = 512
# A page that cannot be read is divided into this many parts, again and again, down to single events.
PARTS = 8
# A limit is needed because one wrong position may look like millions of missing events.
LEFT_OUT_MAX = 10_000


class LeftOutError(RefoldError):
    """Some events could not be read; all others were shown."""

    def __init__(self, faults: Sequence[DamagedError]) -> None:
        first = faults[0]
        more = f", the first of {counted(len(faults), 'fault')}" if len(faults) > 1 else ""
        super().__init__(
            f"what cannot be read is left out: {first.what} is damaged ({first.reason}){more}; `refold verify` tells "
            "all that is wrong"
        )


class Readable:
    """The events of a log that can be read; `left_out` has the errors of the others."""

    def __init__(self, log: LiveLog) -> None:
        self._log = log
        self.left_out: list[DamagedError] = []

    def require_whole(self) -> None:
        """
        Require that no event was left out.

        Raises:
            LeftOutError: an event was left out.
        """
        if self.left_out:
            raise LeftOutError(self.left_out)

    def pages(self, after: Moment = BEGINNING, until: Moment | None = None) -> Iterator[Page]:
        """
        Yield the readable events after a moment, in pages, in the order of the log; with `until`, slice by slice.

        Raises:
            DamagedError: too many events cannot be read.
        """
        moment, size = after, PAGE_EVENTS
        while True:
            try:
                page = self._log.read_all(after=moment, limit=size, until=until)
            except DamagedError as error:
                if size == 1:
                    moment = self._behind_damage(moment, until, error)
                size = max(1, size // PARTS)
                continue
            if not page.events:
                return
            yield page
            moment, size = page.moment, min(size * PARTS, PAGE_EVENTS)

    def of_stream(self, stream: str, *, after: int, until: int) -> Iterator[RecordedEvent]:
        """
        Yield the readable events of a stream with versions above `after`, up to and including `until`.

        Raises:
            DamagedError: too many events cannot be read.
        """
        for start in range(after, until, PAGE_EVENTS):
            for one in events_of(self._log, stream, start, min(until, start + PAGE_EVENTS)):
                if isinstance(one, UnreadableEvent):
                    self._leave_out(one.error)
                else:
                    yield one

    def rows(self, projections: Sequence[Projection]) -> list[list[Any]]:
        """Return the rows that projections make from the readable events."""
        store = MemoryProjectionStore()
        for page in self.pages():
            for one in projections:
                rows = fold_page(one, page.events, store)
                store.save(Save(one, rows, store.checkpoints(one)[0], page.moment))
        return [store.rows(one) for one in projections]

    def _behind_damage(self, moment: Moment, until: Moment | None, error: DamagedError) -> Moment:
        """Return the moment after the next unreadable event of each slice."""
        heads, ends = dict(moment.heads), dict((until or self._log.now()).heads)
        behind = dict(heads)
        for lane, end in ends.items():
            if heads.get(lane, 0) == end:
                continue
            try:
                self._log.read_all(after=Moment.of({**ends, lane: heads.get(lane, 0)}), limit=1, until=until)
            except DamagedError as found:
                self._leave_out(found)
                behind[lane] = heads.get(lane, 0) + 1
        if behind == heads:
            raise error
        return Moment.of(behind)

    def _leave_out(self, error: DamagedError) -> None:
        self.left_out.append(error)
        if len(self.left_out) > LEFT_OUT_MAX:
            raise error


class IsAfter:
    """Whether an event comes after a moment, or any if it is None; events up to `position` need not be read."""

    def __init__(self, store: Store, moment: str | None) -> None:
        found = BEGINNING if moment is None else store.at(moment).moment
        self.position = found if isinstance(found, Moment) else BEGINNING
        self.time = microseconds(found) if isinstance(found, datetime) else None
        self._heads = dict(self.position.heads)

    def __call__(self, event: RecordedEvent) -> bool:
        if self.time is not None and event.recorded_at <= self.time:
            return False
        return event.position.number > self._heads.get(event.position.slice, 0)


def rows_of(projections: Sequence[Projection]) -> AbstractContextManager[list[list[Any]]]:
    """Yield the rows of projections, as `answer_of` does."""
    return answer_of(lambda store: [store.rows(one.name) for one in projections], projections, lambda rows: rows)


@contextmanager
def answer_of(
    ask: Callable[[Store], T], projections: Sequence[Projection], of_rows: Callable[[list[list[Any]]], T]
) -> Iterator[T]:
    """
    Yield the answer of a store; if events cannot be read, what `of_rows` makes of the rows that are made from the
    others.

    Raises:
        LeftOutError: events cannot be read; raised after the block.
    """
    try:
        answer = answered(ask)
    except DamagedError:
        with reading() as store:
            readable = Readable(store.log)
            yield of_rows(readable.rows(projections))
            readable.require_whole()
    else:
        yield answer
