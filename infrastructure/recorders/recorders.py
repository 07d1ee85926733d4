"""
Recorders for the `eventsourcing` package on logs like Refold's own, the same on every database.

Each application has its own log in its database. So its notification ids are the integers from 1, without gaps, in the
order of commits. Versions are checked against the last one of the stream: none may be skipped.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar
from uuid import UUID

from eventsourcing import persistence
from eventsourcing.persistence import (
    DataError,
    Notification,
    NotSupportedError,
    OperationalError,
    StoredEvent,
    Tracking,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic, strtobool

from ...domain.concurrency.locks import News
from ...domain.ids import VERSION_MAX
from .datastore import Datastore, Versions
from .stored_events import (
    LAST,
    IdType,
    Stored,
    content_of,
    originator_of,
    parts_of,
    require_storable,
    snapshot_table,
    storable,
    stream_of,
    within,
)

POLL_SECONDS = 0.05
PAGE_LENGTH = 500


class Page(NamedTuple):
    """Notifications of the topics asked for, and the id up to which the sequence was searched."""

    notifications: Sequence[Notification]
    until: int


class UndecodableError(DataError):
    """A notification cannot be decoded; `number` is its id, behind which a subscription goes on."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.number = number


class FollowableRecorder(persistence.ApplicationRecorder):
    """An application recorder whose sequence a subscription can follow."""

    @property
    @abstractmethod
    def news(self) -> News:
        """The news of this process."""

    @abstractmethod
    def select_page(self, *, after: int, limit: int, topics: Sequence[str]) -> Page:
        """Return up to `limit` notifications with ids above `after`."""

    def mark_of(self, notification: Notification) -> object:
        """Return a value by which a notification is recognised when it is read again."""
        return notification


class FollowingSubscription(persistence.Subscription[FollowableRecorder]):
    """
    Yields notifications above `gt`, blocking at the end of the sequence until `stop()`.

    If the sequence ends before that place, or has something else where it was seen, as after the restore of an older
    copy, it raises OperationalError. At a notification that cannot be decoded it raises DataError once, and the next
    call goes on behind it.
    """

    def __init__(self, recorder: FollowableRecorder, gt: int | None, topics: Sequence[str]) -> None:
        super().__init__(recorder=recorder, gt=gt, topics=topics)
        # Kept here as well: stopping must work when the recorder's database is already closed.
        self._news = recorder.news
        # The id up to which the sequence was searched, and that of the last one that was handed out.
        self._after = self._handed_out = gt or 0
        self._page: deque[Notification] = deque()
        # The id of the last one that was read, and its mark.
        self._last: tuple[int, object] | None = None

    def _forget_erased(self) -> None:
        # The rest of the page is read again. Another thread may call this.
        self._page, self._after = deque(), self._handed_out

    def stop(self) -> None:
        """End the iteration, also if it waits in another thread."""
        super().stop()
        self._news.announce()

    def __next__(self) -> Notification:
        while True:
            # Read before the fetch, so that news during the fetch cut the wait short.
            seen = self._news.count
            if self._has_been_stopped:
                raise StopIteration
            if page := self._page:
                self._handed_out = page[0].id
                return page.popleft()
            if not self._fetch():
                self._news.wait_past(seen, timeout_seconds=POLL_SECONDS)

    def _fetch(self) -> bool:
        before, after = self._page, self._after
        try:
            page = self._recorder.select_page(after=after, limit=PAGE_LENGTH, topics=self._topics)
        except UndecodableError as error:
            self._after = self._handed_out = error.number
            raise
        # New events would take the ids that were seen, and be missed.
        if page.until < after:
            raise _went_back(f"{after:,} notifications were seen, and it has {page.until:,}")
        if page.until > after and self._last is not None:
            number, mark = self._last
            found = self._recorder.select_notifications(number, 1, number)
            if [self._recorder.mark_of(one) for one in found] != [mark]:
                raise _went_back(f"notification {number:,} is not the one that was seen")
        if self._page is not before:
            # Events were erased since they were read.
            return True
        if page.notifications:
            last = page.notifications[-1]
            self._last = last.id, self._recorder.mark_of(last)
        self._page, self._after = deque(page.notifications), page.until
        return page.until > after


def _went_back(reason: str) -> OperationalError:
    return OperationalError(
        f"the sequence went back: {reason}; look what is gone, and begin anew from where you know to be right"
    )


class Recorder(persistence.Recorder):
    """A recorder of one application; a subclass appends the tables it needs to `create_table_statements`."""

    def __init__(self, datastore: Datastore, *, application_name: str = "") -> None:
        self.datastore: Datastore = datastore
        self.tables = datastore.tables_of(application_name)
        self.prefix = self.tables.prefix
        self.create_table_statements = self.construct_create_table_statements()

    def construct_create_table_statements(self) -> list[str]:
        """Return the statements that create the missing tables of this recorder."""
        return []

    def create_table(self) -> None:
        """Create the missing tables of this recorder; others may do so at the same time."""
        self.datastore.create_tables(self.tables, self.create_table_statements, with_log=False)


class AggregateRecorder(Recorder, persistence.AggregateRecorder):
    """Records and selects the events of aggregates."""

    def create_table(self) -> None:
        """Create the application's log and the other tables of this recorder, if they are missing."""
        self.datastore.create_tables(self.tables, self.create_table_statements, with_log=True)

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """
        Record all events, or nothing; the versions of an originator must be consecutive.

        Raises:
            IntegrityError: a version is taken, or would leave a gap.
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
        rows = self.datastore.stream_rows(self.tables, stream, _versions(gt, lte, limit, desc=desc))
        originator = originator_of(stream, id_type)
        return [
            StoredEvent(originator, row.version, row.topic, state)
            for row, state in zip(rows, self.datastore.opened(rows), strict=True)
        ]

    def _record(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        if tracking is not None:
            raise NotSupportedError(f"{type(self).__name__} does not track: use a process recorder")
        return self._append(stored_events, None) if stored_events else []

    def _append(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        """Append to the application's log, and record the tracking, in one transaction; return the notification ids."""
        datastore, tables = self.datastore, self.tables
        parts = parts_of(stored_events, datastore.originator_id_type, tables.lane, datastore.shrink)
        answer = datastore.append(tables, parts, tracking)
        return [placed.number for part in answer if isinstance(part, list) for placed in part]


class ApplicationRecorder(AggregateRecorder, FollowableRecorder):
    """Records the events of an application in one sequence, which applications can read and follow."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        """
        Record all events, or nothing, and return their notification ids.

        Raises:
            IntegrityError: a version is taken, or would leave a gap.
        """
        return self._record(stored_events, kwargs.get("tracking"))

    def max_notification_id(self) -> int | None:
        """Return the id of the last event; None if there is none."""
        return self.datastore.last_position(self.tables)

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
        after, until = 0 if start is None else start - inclusive_of_start, LAST if stop is None else stop
        return self._notifications(self._sequence_rows(after, until, limit, topics)[0])

    def subscribe(
        self, gt: int | None = None, topics: Sequence[str] = ()
    ) -> persistence.Subscription[persistence.ApplicationRecorder]:
        """Follow the application: yield the events recorded above `gt`, then new ones."""
        return FollowingSubscription(self, gt, topics)

    def select_page(self, *, after: int, limit: int, topics: Sequence[str]) -> Page:
        """
        Return up to `limit` notifications with ids above `after`, and the id up to which the sequence was searched.
        """
        rows, head = self._sequence_rows(after, LAST, limit, topics)
        last = rows[-1].number if rows else 0
        return Page(self._notifications(rows), last if len(rows) == limit else max(head, last))

    @property
    def news(self) -> News:
        """The news of this process in the database."""
        return self.datastore.news

    def _sequence_rows(self, after: int, until: int, limit: int, topics: Sequence[str]) -> tuple[list[Stored], int]:
        names = [storable(topic) for topic in topics]
        return self.datastore.sequence_rows(self.tables, within(after), within(until), max(0, within(limit)), names)

    def _notifications(self, rows: Sequence[Stored]) -> list[Notification]:
        id_type = self.datastore.originator_id_type
        return [
            Notification(originator_of(row.stream, id_type), row.version, row.topic, state, row.number)
            for row, state in zip(rows, self.datastore.opened(rows), strict=True)
        ]


class TrackingRecorder(Recorder, persistence.TrackingRecorder):
    """
    Records the positions up to which other applications have been processed, one row for each.

    A materialised view is a subclass: in one `self.datastore.transaction(commit=True)` it writes its rows and calls
    `self._insert_tracking(cursor, tracking)`.
    """

    def construct_create_table_statements(self) -> list[str]:
        """Return the statement that creates the table if it is missing."""
        return [*super().construct_create_table_statements(), self.datastore.tracking_table.format(p=self.prefix)]

    def insert_tracking(self, tracking: Tracking) -> None:
        """
        Record a position.

        Raises:
            IntegrityError: it is not above the last recorded one.
        """
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)

    def max_tracking_id(self, application_name: str) -> int | None:
        """Return the last recorded position; None if there is none."""
        return self.datastore.tracked(self.tables, storable(application_name))

    def _insert_tracking(self, cursor: Any, tracking: Tracking) -> None:
        require_storable(tracking)
        self.datastore.track(cursor, self.tables, tracking)


class ProcessRecorder(TrackingRecorder, ApplicationRecorder, persistence.ProcessRecorder):
    """Records the events of an application, and up to which position of another one they are the result."""

    def _record(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        if stored_events:
            return self._append(stored_events, tracking)
        if tracking is not None:
            self.insert_tracking(tracking)
        return []


class SnapshotRecorder(Recorder, persistence.AggregateRecorder):
    """Records snapshots, or other records that an application stores apart from its events; `purpose` names them."""

    def __init__(self, datastore: Datastore, *, application_name: str = "", purpose: str = "snapshots") -> None:
        self._table = snapshot_table(datastore.tables_of(application_name).prefix, purpose)
        super().__init__(datastore, application_name=application_name)

    def construct_create_table_statements(self) -> list[str]:
        """Return the statement that creates the table if it is missing."""
        statement = self.datastore.snapshot_table.format(table=self._table)
        return [*super().construct_create_table_statements(), statement]

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> None:
        """
        Record all snapshots, or nothing.

        Raises:
            IntegrityError: a snapshot of the same originator and version is already recorded.
        """
        id_type = self.datastore.originator_id_type
        rows = [(stream_of(event.originator_id, id_type), *content_of(event)) for event in stored_events]
        if rows:
            self.datastore.add_snapshots(self.tables, self._table, rows)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the records of an originator, by version."""
        id_type = self.datastore.originator_id_type
        stream, versions = stream_of(originator_id, id_type), _versions(gt, lte, limit, desc=desc)
        rows = self.datastore.snapshots(self.tables, self._table, stream, versions)
        return [StoredEvent(originator_of(stream, id_type), *row) for row in rows]


R = TypeVar("R", bound=Recorder)


def _versions(gt: int | None, lte: int | None, limit: int | None, *, desc: bool) -> Versions:
    """Return the versions for the arguments of `select_events`."""
    after, until = -1 if gt is None else gt, VERSION_MAX if lte is None else lte
    order = "DESC" if desc else "ASC"
    count = None if limit is None else max(0, within(limit))
    return Versions(within(after, VERSION_MAX), within(until, VERSION_MAX), count, order)


class RecorderFactory(persistence.InfrastructureFactory[TrackingRecorder]):
    """
    Constructs recorders on one database, for the application that the environment is named after.

    Raises:
        OSError: a variable is missing or has a value that cannot be used.
    """

    CREATE_TABLE = "CREATE_TABLE"
    ORIGINATOR_ID_TYPE = "ORIGINATOR_ID_TYPE"
    SINGLE_ROW_TRACKING = "SINGLE_ROW_TRACKING"

    aggregate_recorder_class: ClassVar[type[AggregateRecorder]] = AggregateRecorder
    snapshot_recorder_class: ClassVar[type[SnapshotRecorder]] = SnapshotRecorder
    application_recorder_class: ClassVar[type[ApplicationRecorder]] = ApplicationRecorder
    tracking_recorder_class: ClassVar[type[TrackingRecorder]] = TrackingRecorder
    process_recorder_class: ClassVar[type[ProcessRecorder]] = ProcessRecorder

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        if not strtobool(self.env.get(self.SINGLE_ROW_TRACKING) or "yes"):
            raise OSError("SINGLE_ROW_TRACKING is off, and these recorders keep one tracking row per application")
        self.datastore = self._open_datastore(self._id_type())

    @abstractmethod
    def _open_datastore(self, id_type: IdType) -> Datastore:
        """Return the database that the environment names."""

    def aggregate_recorder(self, purpose: str = "events") -> persistence.AggregateRecorder:
        """Construct a recorder of the application's events, or of its snapshots."""
        if purpose == "events":
            return self._construct(self.aggregate_recorder_class)
        return self._construct(self.snapshot_recorder_class, purpose=purpose)

    def application_recorder(self) -> persistence.ApplicationRecorder:
        """Construct the recorder of an application."""
        return self._construct_named(self.APPLICATION_RECORDER_TOPIC, self.application_recorder_class)

    def tracking_recorder(self, tracking_recorder_class: type[Any] | None = None) -> Any:
        """Construct the recorder of a projection, of the given class."""
        if tracking_recorder_class is not None:
            return self._construct(tracking_recorder_class)
        return self._construct_named(self.TRACKING_RECORDER_TOPIC, self.tracking_recorder_class)

    def process_recorder(self) -> persistence.ProcessRecorder:
        """Construct the recorder of an application that processes another's events."""
        return self._construct_named(self.PROCESS_RECORDER_TOPIC, self.process_recorder_class)

    def env_create_table(self) -> bool:
        """Return whether recorders create their tables."""
        return strtobool(self.env.get(self.CREATE_TABLE) or "yes")

    def close(self) -> None:
        """Close the database."""
        self.datastore.close()

    def _id_type(self) -> IdType:
        chosen = self.env.get(self.ORIGINATOR_ID_TYPE, "uuid").lower()
        if chosen not in ("uuid", "text"):
            raise OSError(f"{self.ORIGINATOR_ID_TYPE} is {chosen!r}: it must be uuid or text")
        return "uuid" if chosen == "uuid" else "text"

    def _construct_named(self, variable: str, default: type[R]) -> R:
        topic = self.env.get(variable)
        kind = resolve_topic(topic) if topic else default
        if not (isinstance(kind, type) and issubclass(kind, default)):
            raise OSError(f"{variable} names {topic}, which is no subclass of {default.__name__}")
        return self._construct(kind)

    def _construct(self, kind: type[R], **options: str) -> R:
        recorder = kind(self.datastore, application_name=self.env.name, **options)
        if self.env_create_table():
            recorder.create_table()
        return recorder


def whole_number(env: Environment, variable: str) -> int | None:
    """
    Return the number that a variable holds; None if it is empty.

    Raises:
        OSError: it is not a whole number.
    """
    text = (env.get(variable) or "").strip()
    try:
        return int(text) if text else None
    except ValueError:
        raise OSError(f"{variable} is {text!r}: it must be a whole number, or empty") from None
