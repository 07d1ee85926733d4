"""
The log as a whole, page by page: the slices merged into one order.

A page begins with one look at where all slices end, in one statement and so at one moment. Within a slice the
order is that of positions; across slices it is that of time. Positions have no holes, so it is known beforehand
how many rows a range must give, and an event that is missing is noticed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ....domain.errors import DamagedError
from ....domain.positions import Moment, Partition
from ..row_faults import opening
from .connection import PostgresDatabase
from .stored_events import COLUMNS, Row
from .wire import Call, int4, int8

CHUNK_MIN = 16
CALLS_MAX = 256


@dataclass(slots=True)
class _Lane:
    """A slice with news: `taken` is the last position given out, `rows` those read behind it, `end` its last."""

    number: int
    taken: int
    end: int
    chunk: int
    rows: deque[Row] = field(default_factory=deque)

    @property
    def is_dry(self) -> bool:
        return not self.rows and self.taken < self.end


class Pager:
    """Fetches pages of one log, or of a partition of it."""

    def __init__(self, database: PostgresDatabase, prefix: str, partition: Partition | None = None) -> None:
        self._database = database
        of_partition = "" if partition is None else f" WHERE slice % {partition.of} = {partition.number}"
        self._ends = (
            f"SELECT slice, (SELECT max(position) FROM {prefix}event e WHERE e.slice = s.slice)"
            f" FROM {prefix}slice_lock s{of_partition}"
        )
        self._rows = (
            f"SELECT {COLUMNS} FROM {prefix}event WHERE slice = $1 AND position > $2 AND position <= $3"
            " ORDER BY position"
        )
        self._known: Mapping[int, int] = {}
        self._is_whole = partition is None

    def ends(self) -> Mapping[int, int]:
        """Return the last position of every slice that has one."""
        rows = self._database.ask(Call(self._ends))[0]
        self._known = {number: last for number, last in rows if last is not None}
        return self._known

    def page(self, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        """
        Return up to `limit` rows behind `after`, and the moment they end at.

        Raises:
            DamagedError: a position is empty.
        """
        with opening("a row of the log"):
            return self._page(after, limit)

    def _page(self, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        seen = dict(after.heads)
        news = _news(self._known, seen)
        # Where there is still a page to read up to the last look, there is no need for another.
        if sum([news[number] - seen.get(number, 0) for number in news]) < limit:
            news = _news(self.ends(), seen)
        if not news or limit <= 0:
            return [], self._end_before(after) if limit > 0 and self._is_whole else after
        chunk = max(CHUNK_MIN, limit // len(news) + 1)
        lanes = [_Lane(number, seen.get(number, 0), end, chunk) for number, end in sorted(news.items())]
        rows: list[Row] = []
        while len(rows) < limit and lanes:
            self._fill([lane for lane in lanes if lane.is_dry], limit - len(rows))
            _merge(lanes, rows, limit)
            lanes = [lane for lane in lanes if lane.taken < lane.end]
        seen.update((row[0], row[3]) for row in rows)
        return rows, Moment.of(seen)

    def _end_before(self, after: Moment) -> Moment:
        """Return a moment that nothing lies behind, or where the log ends if that is before it, as it went back."""
        if Moment.of(dict(self._known)).includes(after):
            return after
        return Moment.of({lane: min(last, self._known.get(lane, 0)) for lane, last in after.heads})

    def _fill(self, lanes: list[_Lane], wanted: int) -> None:
        for start in range(0, len(lanes), CALLS_MAX):
            some = lanes[start : start + CALLS_MAX]
            calls = [self._call(lane, wanted) for lane in some]
            answers = self._database.ask(*calls)
            for lane, rows in zip(some, answers, strict=True):
                self._check(lane, rows, min(lane.end, lane.taken + min(lane.chunk, wanted)))
                lane.rows.extend(rows)
                lane.chunk *= 2

    def _check(self, lane: _Lane, rows: list[Row], until: int) -> None:
        last = lane.taken
        for row in rows:
            if row[3] != last + 1:
                break
            last += 1
        if last != until:
            self._known = {}
            raise DamagedError(f"position {lane.number}.{last + 1}", "there is no event at it")

    def _call(self, lane: _Lane, wanted: int) -> Call:
        until = min(lane.end, lane.taken + min(lane.chunk, wanted))
        return Call(self._rows, (int4(lane.number), int8(lane.taken), int8(until)))


def _merge(lanes: list[_Lane], rows: list[Row], limit: int) -> None:
    """Take rows in the order of time until the page is full, or a lane has to be filled again to know its next."""
    if len(lanes) == 1:
        (lane,) = lanes
        lane.taken += len(lane.rows)
        rows.extend(lane.rows)
        lane.rows.clear()
        return
    heap = [(lane.rows[0][4], lane.number, lane) for lane in lanes]
    heapq.heapify(heap)
    while heap and len(rows) < limit:
        _, number, lane = heap[0]
        rows.append(lane.rows.popleft())
        lane.taken += 1
        if lane.rows:
            heapq.heapreplace(heap, (lane.rows[0][4], number, lane))
        elif lane.is_dry:
            return
        else:
            heapq.heappop(heap)


def _news(ends: Mapping[int, int], seen: Mapping[int, int]) -> dict[int, int]:
    return {number: end for number, end in ends.items() if end > seen.get(number, 0)}
