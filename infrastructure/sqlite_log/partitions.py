"""One of several partitions of a log on SQLite: the streams of some slices, for one of several processes to read."""

from __future__ import annotations

from collections.abc import Callable

from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Page
from ...domain.positions import Moment, Partition
from .blocks import ONE_SEQUENCE

INDEX_OF_BLOCKS = "CREATE INDEX IF NOT EXISTS part_block ON part (block)"
WINDOW_MAX = 1 << 14
ReadBetween = Callable[[Partition, int, int], list[RecordedEvent]]


class SqlitePartition:
    """A partition of a log: `read` gives its events behind one position, up to another; `now` the end of the log."""

    def __init__(self, partition: Partition, read: ReadBetween, now: Callable[[], Moment]) -> None:
        self._partition, self._read, self.now = partition, read, now
        # How many positions are looked at in one go: as many as give about a page.
        self._window = 0

    def read_all(self, *, after: Moment, limit: int, undecodable: bool = True) -> Page:
        """Return `limit` events behind `after` or some more, fewer at the end, and the moment they end at."""
        start, end = after.head(ONE_SEQUENCE), self.now().head(ONE_SEQUENCE)
        self._window = self._window or limit
        events: list[RecordedEvent] = []
        while len(events) < limit and start < end:
            until = min(start + self._window, end)
            found = self._read(self._partition, start, until)
            events, start = events + found, until
            self._window = _next_window(self._window, len(found), limit)
        return Page(events, Moment(((ONE_SEQUENCE, start),)) if start else after)


def _next_window(window: int, found: int, limit: int) -> int:
    if 2 * found < limit:
        return min(2 * window, max(WINDOW_MAX, limit))
    return max(window // 2, 1) if found > limit else window
