"""
Pages of the log on PostgreSQL: which rows of which slices come next.

A page of a follower begins with one statement that reads the ends of all slices, so all ends are of one moment, and the
slices are merged into one order: within a slice it is that of positions, across slices that of time. A page up to a
given moment, for a reader of the whole log, takes one slice after the other, and fetches each row once. Positions have
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
SLICES_MAX = 256


@dataclass(slots=True)
class _SliceRows:
    """
    A slice with new events. `taken` is the last position that was returned, `rows` are the fetched rows after it, `end`
    is the last position of the slice, and `chunk` the number of rows to fetch next.
    """

    number: int
    taken: int
    end: int
    chunk: int
    rows: deque[Row] = field(default_factory=deque)

    @property
    def needs_rows(self) -> bool:
        """Whether no row is left of those that were fetched, and there are more."""
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

    @opening("a row of the log")
    def page(self, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        """
        Return up to `limit` rows after `after`, and the moment they end at.

        Raises:
            DamagedError: a position is empty.
        """
        seen = dict(after.heads)
        news = _news(self._of_partition(self._ends.known), seen)
        # If the last known ends still leave a full page, they need not be read again.
        if sum([news[number] - seen.get(number, 0) for number in news]) < limit:
            news = _news(self.ends(), seen)
        if not news or limit <= 0:
            return [], self._end_before(after) if limit > 0 and self._partition is None else after
        chunk = max(CHUNK_MIN, limit // len(news) + 1)
        slices = [_SliceRows(number, seen.get(number, 0), end, chunk) for number, end in sorted(news.items())]
        rows: list[Row] = []
        while len(rows) < limit and slices:
            self._fill([one for one in slices if one.needs_rows], limit - len(rows))
            _merge(slices, rows, limit)
            slices = [one for one in slices if one.taken < one.end]
        seen.update((row[0], row[3]) for row in rows)
        return rows, Moment.of(seen)

    @opening("a row of the log")
    def page_until(self, until: Moment, after: Moment, limit: int) -> tuple[list[Row], Moment]:
        """
        Return up to `limit` rows after `after` and not after `until`, slice by slice, and the moment they end at.

        Raises:
            DamagedError: a position is empty.
        """
        try:
            return self._page_until(dict(until.heads), after, limit)
        except DamagedError:
            # An older copy that was put in place meanwhile may end earlier.
            reached = cut_to(until, self.ends())
            if reached == until:
                raise
            return self._page_until(dict(reached.heads), after, limit)

    def _page_until(self, ends: Mapping[int, int], after: Moment, limit: int) -> tuple[list[Row], Moment]:
        seen, slices, left = dict(after.heads), list[_SliceRows](), limit
        for number, end in sorted(_news(ends, seen).items()):
            taken = seen.get(number, 0)
            if left > 0:
                slices.append(_SliceRows(number, taken, min(end, taken + left), left))
            left -= end - taken
        rows: list[Row] = []
        self._fill(slices, limit)
        _merge(slices, rows, limit)
        seen.update((row[0], row[3]) for row in rows)
        return rows, Moment.of(seen)

    def _end_before(self, after: Moment) -> Moment:
        """Return `after` if the log still reaches it; else the log went back, and the moment where it ends now."""
        known = self._ends.known
        if all(last <= known.get(number, 0) for number, last in after.heads):
            return after
        return cut_to(after, known)

    def _fill(self, slices: list[_SliceRows], wanted: int) -> None:
        for start in range(0, len(slices), SLICES_MAX):
            some = slices[start : start + SLICES_MAX]
            calls = [self._call(one, wanted) for one in some]
            answers = self._database.ask(*calls)
            for one, found in zip(some, answers, strict=True):
                # An opened block may have more than was asked for: it is not opened again in this page.
                rows = self._blocks.rows_of_positions(found, one.taken, one.end)
                self._check(one, rows, min(one.end, one.taken + min(one.chunk, wanted)))
                one.rows.extend(rows)
                one.chunk *= 2

    def _check(self, slice_rows: _SliceRows, rows: list[Row], until: int) -> None:
        last = slice_rows.taken
        for row in rows:
            if row[3] != last + 1:
                break
            last += 1
        if last < until or last != slice_rows.taken + len(rows):
            self._ends.forget()
            raise DamagedError(f"position {slice_rows.number}.{last + 1}", "there is no event at it")

    def _call(self, slice_rows: _SliceRows, wanted: int) -> Call:
        until = min(slice_rows.end, slice_rows.taken + min(slice_rows.chunk, wanted))
        return Call(ROWS_OF_POSITIONS, (int4(slice_rows.number), int8(slice_rows.taken), int8(until)))


def _merge(slices: list[_SliceRows], rows: list[Row], limit: int) -> None:
    """Take rows in order of time until the page is full, or a slice needs more rows."""
    if len(slices) == 1:
        (one,) = slices
        count = min(len(one.rows), limit - len(rows))
        one.taken += count
        rows.extend(one.rows.popleft() for _ in range(count))
        return
    heap = [(one.rows[0][4], one.number, one) for one in slices]
    heapq.heapify(heap)
    while heap and len(rows) < limit:
        _, number, one = heap[0]
        rows.append(one.rows.popleft())
        one.taken += 1
        if one.rows:
            heapq.heapreplace(heap, (one.rows[0][4], number, one))
        elif one.needs_rows:
            return
        else:
            heapq.heappop(heap)


def _news(ends: Mapping[int, int], seen: Mapping[int, int]) -> dict[int, int]:
    return {number: end for number, end in ends.items() if end > seen.get(number, 0)}
