"""
Following the log: from any moment of the past into the present, without a gap.

A subscription reads pages and only ever waits when it has read everything; a wake-up is a hint, so nothing
depends on one arriving.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from ..domain.envelope import RecordedEvent
from ..domain.ports import LiveLog
from ..domain.positions import Moment

__all__ = ["Subscription"]

PAGE_EVENTS = 512
WAIT_SECONDS = 0.25


class Subscription(Iterator[RecordedEvent]):
    """
    An endless iterator over the events behind `after`, in the order of the log; `stop()` ends it.

    `moment` is where it stands: hand it in again to go on from there. Not to be shared between threads,
    but `stop()` may come from any.
    """

    def __init__(self, log: LiveLog, *, after: Moment) -> None:
        self._log = log
        self._next = after
        self._page: deque[RecordedEvent] = deque()
        self._stopped = threading.Event()
        self.moment = after

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> RecordedEvent:
        while not self._page:
            if self._stopped.is_set():
                raise StopIteration
            page = self._log.read_all(after=self._next, limit=PAGE_EVENTS)
            if page.events:
                self._page.extend(page.events)
                self._next = page.moment
            else:
                self._log.wait_for_news(self._next, timeout_seconds=WAIT_SECONDS)
        event = self._page.popleft()
        heads = dict(self.moment.heads)
        heads[event.position.slice] = event.position.number
        self.moment = Moment.of(heads)
        return event

    def stop(self) -> None:
        """
        End the iteration, at the latest after a quarter of a second.
        """
        self._page.clear()
        self._stopped.set()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
