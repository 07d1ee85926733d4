"""
Pages of the log on PostgreSQL: which rows of which slices come next.

A page of a follower begins with one statement that reads the ends of all slices, so all ends are of one moment, and the
slices are merged into one order: within a slice it is that of positions, across slices that of time. A page up to a
given moment, for those who fold everything, takes one slice after the other, and fetches each row once. Positions have
no holes, so a range must give a known number of rows, and a missing event is noticed.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ....domain.errors import DamagedError
from ....domain.positions import Moment, Partition, cut_to
from ..row_faults import opening
from .blocks import ROWS_OF_POSITIONS, Blocks
from .connection import PostgresDatabase
from .ends import Ends
from .stored_events import Row
from .wire import Call, int4, int8

CHUNK_MIN = 16
LANES_MAX = 256


@dataclass(slots=True)
class _SliceRows:
    """
    A slice with new events: `taken` is the last position returned, `rows` are fetched ones after it, `end` is its last
    position.
    """

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

    def __init__(
        self, database: PostgresDatabase, ends: Ends, blocks: Blocks, partition: Partition | None = None
    ) -> None:
        self._database = database
        self._ends = ends
        self._blocks = blocks
        self._partition = partition

    def ends(self) -> Mapping[int, int]:
        """Return the last position of every slice that has one."""
        return self._of_partition(self._ends.read())

    def _of_partition(self, ends: Mapping[int, int]) -> Mapping[int, int]:
        partition = self._partition
        if partition is None:
            return ends
        return {number: last for number, last in ends.items() if number % partition.of == partition.number}

    def page(self, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        """
        Return up to `limit` rows after `after`, and the moment they end at.

        Raises:
            DamagedError: a position is empty.
        """
        with opening("a row of the log"):
            return self._page(after, limit)

    def _page(self, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        seen = dict(after.heads)
        news = _news(self._of_partition(self._ends.known), seen)
        # If the last known ends still leave a full page, they need not be read again.
        if sum([news[number] - seen.get(number, 0) for number in news]) < limit:
            news = _news(self.ends(), seen)
        if not news or limit <= 0:
            return [], self._end_before(after) if limit > 0 and self._partition is None else after
        chunk = max(CHUNK_MIN, limit // len(news) + 1)
        lanes = [_SliceRows(number, seen.get(number, 0), end, chunk) for number, end in sorted(news.items())]
        rows: list[Row] = []
        while len(rows) < limit and lanes:
            self._fill([lane for lane in lanes if lane.is_dry], limit - len(rows))
            _merge(lanes, rows, limit)
            lanes = [lane for lane in lanes if lane.taken < lane.end]
        seen.update((row[0], row[3]) for row in rows)
        return rows, Moment.of(seen)

    def page_until(self, until: Moment, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        """
        Return up to `limit` rows after `after` and not after `until`, slice by slice, and the moment they end at.

        Raises:
            DamagedError: a position is empty.
        """
        with opening("a row of the log"):
            try:
                return self._page_until(dict(until.heads), after, limit)
            except DamagedError:
                # An older copy that was put in place meanwhile may end before.
                reached = cut_to(until, self.ends())
                if reached == until:
                    raise
                return self._page_until(dict(reached.heads), after, limit)

    def _page_until(self, ends: Mapping[int, int], after: Moment, limit: int) -> tuple[list[Row], Moment]:
        seen, lanes, left = dict(after.heads), list[_SliceRows](), limit
        for number, end in sorted(_news(ends, seen).items()):
            taken = seen.get(number, 0)
            if left > 0:
                lanes.append(_SliceRows(number, taken, min(end, taken + left), left))
            left -= end - taken
        rows: list[Row] = []
        self._fill(lanes, limit)
        _merge(lanes, rows, limit)
        seen.update((row[0], row[3]) for row in rows)
        return rows, Moment.of(seen)

    def _end_before(self, after: Moment) -> Moment:
        """Return `after` if the log still reaches it; else the log went back, and the moment where it ends now."""
        known = self._ends.known
        if all(last <= known.get(lane, 0) for lane, last in after.heads):
            return after
        return cut_to(after, known)

    def _fill(self, lanes: list[_SliceRows], wanted: int) -> None:
        for start in range(0, len(lanes), LANES_MAX):
            some = lanes[start : start + LANES_MAX]
            calls = [self._call(lane, wanted) for lane in some]
            answers = self._database.ask(*calls)
            for lane, found in zip(some, answers, strict=True):
                # An opened block may have more than was asked for: it is not opened again in this page.
                rows = self._blocks.rows_of_positions(found, lane.taken, lane.end)
                self._check(lane, rows, min(lane.end, lane.taken + min(lane.chunk, wanted)))
                lane.rows.extend(rows)
                lane.chunk *= 2

    def _check(self, lane: _SliceRows, rows: list[Row], until: int) -> None:
        last = lane.taken
        for row in rows:
            if row[3] != last + 1:
                break
            last += 1
        if last < until or last != lane.taken + len(rows):
            self._ends.forget()
            raise DamagedError(f"position {lane.number}.{last + 1}", "there is no event at it")

    def _call(self, lane: _SliceRows, wanted: int) -> Call:
        until = min(lane.end, lane.taken + min(lane.chunk, wanted))
        return Call(ROWS_OF_POSITIONS, (int4(lane.number), int8(lane.taken), int8(until)))


def _merge(lanes: list[_SliceRows], rows: list[Row], limit: int) -> None:
    """Take rows in order of time until the page is full, or a lane must be filled again to know its next row."""
    if len(lanes) == 1:
        (lane,) = lanes
        count = min(len(lane.rows), limit - len(rows))
        lane.taken += count
        rows.extend(lane.rows.popleft() for _ in range(count))
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
