"""Recorders of events on both databases, and subscriptions that follow an application."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    Notification,
    NotSupportedError,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    Tracking,
)

from ...domain.concurrency.locks import News
from ..log.records import Appended, Part
from .stored_events import VERSION_MAX, IdType, Stored, originator_of, parts_of, stream_of

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
        """The news of this process."""

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


LAST = (1 << 63) - 1


class Datastore(Protocol):
    """The database that recorders of events share."""

    originator_id_type: IdType
    news: News

    def shrink(self, state: bytes) -> bytes:
        """Return a state in its stored form."""

    def opened(self, rows: Sequence[Stored]) -> list[bytes]:
        """Return the states in rows, checked against their digests."""


class Versions(NamedTuple):
    """Which events of a stream: versions above `after`, up to `until`, at most `limit`, ASC or DESC."""

    after: int
    until: int
    limit: int | None
    order: str


def versions_of(gt: int | None, lte: int | None, limit: int | None, *, desc: bool) -> Versions:
    """Return what the arguments of `select_events` ask for."""
    after, until = -1 if gt is None else gt, VERSION_MAX if lte is None else lte
    return Versions(max(after, -1), min(until, VERSION_MAX), limit, "DESC" if desc else "ASC")


class LogRecorder(AggregateRecorder):
    """Records and selects the events of aggregates."""

    datastore: Datastore

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """
        Record all events, or nothing; for one originator each version follows the one before.

        Raises:
            IntegrityError: a version is taken, or would leave a hole.
        """
        self._record(stored_events, kwargs.get("tracking"))
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the events of an originator, by version, checked against their digests."""
        id_type = self.datastore.originator_id_type
        stream = stream_of(originator_id, id_type)
        rows = self._stream_rows(stream, versions_of(gt, lte, limit, desc=desc))
        originator = originator_of(stream, id_type)
        return [
            StoredEvent(originator, row.version, row.topic, state)
            for row, state in zip(rows, self.datastore.opened(rows), strict=True)
        ]

    def _record(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        if tracking is not None:
            raise NotSupportedError(f"{type(self).__name__} does not track: use a process recorder")
        return self._append_events(stored_events, None) if stored_events else []

    def _append_events(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        parts = parts_of(stored_events, self.datastore.originator_id_type, self.datastore.shrink)
        answer = self._append(parts, tracking)
        return [placed.number for part in answer if isinstance(part, list) for placed in part]

    @abstractmethod
    def _append(self, parts: Sequence[Part], tracking: Tracking | None) -> Appended:
        """Append to the application's log, and track, in one transaction."""

    @abstractmethod
    def _stream_rows(self, stream: str, versions: Versions) -> list[Stored]:
        """Return rows of one stream."""


class SequenceRecorder(LogRecorder, FollowableRecorder):
    """Records the events of an application in one sequence, which can be read and followed."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """
        Record all events, or nothing, and return their notification ids.

        Raises:
            IntegrityError: a version is taken, or would leave a hole.
        """
        return self._record(stored_events, kwargs.get("tracking"))

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """Return up to `limit` events from `start` to `stop`, checked against their digests."""
        after = 0 if start is None else start - inclusive_of_start
        rows, _ = self._sequence_rows(after, LAST if stop is None else stop, limit, topics)
        return self._notifications(rows)

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Follow the application: what is recorded above `gt`, then what comes."""
        return FollowingSubscription(self, gt, topics)

    def select_page(self, *, after: int, limit: int, topics: Sequence[str]) -> Page:
        """Return up to `limit` notifications with ids above `after`, and how far the sequence was searched."""
        rows, head = self._sequence_rows(after, LAST, limit, topics)
        last = rows[-1].number if rows else 0
        return Page(self._notifications(rows), last if len(rows) == limit else max(head, last))

    @property
    def news(self) -> News:
        """The news of this process in the database."""
        return self.datastore.news

    def _notifications(self, rows: Sequence[Stored]) -> list[Notification]:
        id_type = self.datastore.originator_id_type
        return [
            Notification(originator_of(row.stream, id_type), row.version, row.topic, state, row.number)
            for row, state in zip(rows, self.datastore.opened(rows), strict=True)
        ]

    @abstractmethod
    def _sequence_rows(self, after: int, until: int, limit: int, topics: Sequence[str]) -> tuple[list[Stored], int]:
        """Return rows in the order of the application, and its last id as it was when they were read, or before."""


class ProcessingRecorder(SequenceRecorder, ProcessRecorder):
    """Records the events of an application and how far another one was processed for them, in one."""

    def _record(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        if stored_events:
            return self._append_events(stored_events, tracking)
        if tracking is not None:
            self.insert_tracking(tracking)
        return []
