"""
Following an application: a subscription starts in the past and goes on with what is recorded now.

It has no thread of its own. Whoever iterates fetches a page, or waits: news of this process wake him at once,
another process's are found by looking again a few times a second.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

from ..domain.concurrency.locks import News

POLL_SECONDS = 0.05
PAGE_LENGTH = 500


class Page(NamedTuple):
    """Notifications of the topics asked for, and how far the sequence was looked through for them."""

    notifications: Sequence[Notification]
    until: int


class FollowableRecorder(ApplicationRecorder):
    """An application recorder that can say what is new, and when to look again."""

    @property
    @abstractmethod
    def news(self) -> News:
        """What this process records."""

    @abstractmethod
    def select_page(self, *, after: int, limit: int, topics: Sequence[str]) -> Page:
        """Return up to `limit` notifications with ids above `after`."""


class FollowingSubscription(Subscription[FollowableRecorder]):
    """Yields notifications above `gt`, blocking at the end of the sequence until `stop()`."""

    def __init__(self, recorder: FollowableRecorder, gt: int | None = None, topics: Sequence[str] = ()) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        # Kept here as well: stopping must work when the recorder's database is closed already.
        self._news = recorder.news
        self._after = gt or 0
        self._page: deque[Notification] = deque()

    def stop(self) -> None:
        """End the iteration, also where it is waiting in another thread."""
        super().stop()
        self._news.announce()

    def __next__(self) -> Notification:
        while True:
            # Read before looking, so that news that come in between cut the wait short.
            seen = self._news.count
            if self._has_been_stopped:
                raise StopIteration
            if self._page:
                return self._page.popleft()
            if not self._fetch():
                self._news.wait_past(seen, timeout_seconds=POLL_SECONDS)

    def _fetch(self) -> bool:
        page = self._recorder.select_page(after=self._after, limit=PAGE_LENGTH, topics=self._topics)
        self._page.extend(page.notifications)
        moved = page.until > self._after
        self._after = max(page.until, self._after)
        return moved
