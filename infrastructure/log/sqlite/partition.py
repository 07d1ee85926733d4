"""A partition of a log on SQLite, which is read by windows of positions."""

from __future__ import annotations

from collections.abc import Callable

from ....domain.log.envelope import RecordedEvent
from ....domain.log.ports import Page
from ....domain.positions import ONE_SEQUENCE, Moment, Partition

WINDOW_MAX = 1 << 14
ReadBetween = Callable[[Partition, int, int], list[RecordedEvent]]


class SqlitePartition:
    """
    A partition of a log: `read` returns its events after one position up to another; `now` returns the end of the log.
    """

    def __init__(self, partition: Partition, read: ReadBetween, now: Callable[[], Moment]) -> None:
        self._partition, self._read, self.now = partition, read, now
        # How many positions are read at a time: about as many as give a page.
        self._window = 0

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = True) -> Page:
        """
        Return `limit` events after `after`, or a few more; fewer at the end of the log. Also return the moment they end
        at.
        """
        start, end = after.head(ONE_SEQUENCE), (until or self.now()).head(ONE_SEQUENCE)
        self._window = self._window or limit
        events: list[RecordedEvent] = []
        while len(events) < limit and start < end:
            last = min(start + self._window, end)
            found = self._read(self._partition, start, last)
            events, start = events + found, last
            self._window = _next_window(self._window, len(found), limit)
        return Page(events, Moment(((ONE_SEQUENCE, start),)) if start else after)


def _next_window(window: int, found: int, limit: int) -> int:
    if 2 * found < limit:
        return min(2 * window, max(WINDOW_MAX, limit))
    return max(window // 2, 1) if found > limit else window
