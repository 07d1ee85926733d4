"""
Refold's own events for the `eventsourcing` package: a store as an application that its projections can follow.

The events of contexts are the application's sequence: all of them on SQLite and in memory, those of one slice on
PostgreSQL. A notification's id is the event's position, its originator the stream, its topic the tag. Its state is a
`StoredRecord`, and the mappers below turn it into Refold's event.

`PERSISTENCE_MODULE=refold.infrastructure.recorders.store` and `REFOLD_DB` give such a recorder to an application of the
package; `StoreFactory(env, store.recorder())` does so for a store that is open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Any, NoReturn
from uuid import UUID

import msgspec
from eventsourcing.persistence import (
    ApplicationRecorder,
    InfrastructureFactory,
    Mapper,
    Notification,
    NotSupportedError,
    StoredEvent,
    Subscription,
    TrackingRecorder,
    Transcoder,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic

from ...domain.concurrency.known_types import known
from ...domain.concurrency.locks import News
from ...domain.erasure import forgetting
from ...domain.errors import DamagedError, InvalidInputError
from ...domain.ids import SLICES
from ...domain.log.envelope import Meta, RecordedEvent, Undecodable, encode_payload
from ...domain.log.ports import LiveLog, PagedLog, PartitionedLog
from ...domain.log.ports import Page as LogPage
from ...domain.positions import ONE_SEQUENCE, Moment, Partition, Position, moment_of
from ..databases import location_of, open_database
from ..log.codec import CODEC, tag_of
from .recorders import PAGE_LENGTH, FollowableRecorder, FollowingSubscription, Page, UndecodableError, whole_number
from .stored_events import LAST, translated_for_eventsourcing

WRITTEN_BY_CONTEXTS = "Refold's events are written by contexts, as by store.chat(...).add_message(...): read them here"
_ENCODER = msgspec.msgpack.Encoder()


class StoredRecord(msgspec.Struct, frozen=True, array_like=True):
    """
    The state of a notification, in msgpack: an event with its envelope.

    `event` is the canonical map of the event, its tag under "t", in its newest shape.
    """

    slice: int
    number: int
    recorded_at: int
    meta: Meta
    digest: bytes
    event: msgspec.Raw


_DECODER = msgspec.msgpack.Decoder(known(StoredRecord))


class StoreRecorder(FollowableRecorder):
    """
    Reads the events of one sequence of a log, and never writes; see `Store.recorder`.

    Its errors are those of `eventsourcing.persistence`.
    """

    def __init__(self, log: LiveLog, slice_number: int | None = None) -> None:
        self._log = log
        self._slice = ONE_SEQUENCE if slice_number is None else slice_number
        self._pages = _sequence(log, slice_number)

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> NoReturn:
        """Raise NotSupportedError: contexts write Refold's events."""
        raise NotSupportedError(WRITTEN_BY_CONTEXTS)

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        """Return the events of a stream, like "chat:support-42", by version; none if the stream is in another slice."""
        stream = str(originator_id)
        with translated_for_eventsourcing():
            after, until = max(gt or 0, 0), LAST if lte is None else lte
            if limit is not None and desc:
                # Versions have no holes: the last ones are found without reading the others.
                until = min(until, self._log.head(stream))
                after = max(after, until - limit)
            elif limit is not None:
                until = min(until, after + limit)
            found = self._log.read(stream, after=after, until=until)
        recorded = [one for one in found if one.position.slice == self._slice]
        if desc:
            recorded.reverse()
        return [StoredEvent(one.stream, one.version, tag_of(one.event), _state_of(one)) for one in recorded]

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        """
        Return up to `limit` events from position `start` to `stop`; `topics` are tags.

        They end before an event that cannot be decoded; if it is the first, DataError names it.
        """
        after = 0 if start is None else start - inclusive_of_start
        until = LAST if stop is None else stop
        found: list[Notification] = []
        try:
            for recorded in takewhile(lambda one: one.position.number <= until, self._events(after, limit, topics)):
                if topics and tag_of(recorded.event) not in topics:
                    continue
                if len(found) >= limit:
                    break
                found.append(_notification(recorded))
        except UndecodableError as error:
            if not found and error.number <= until:
                raise
        return found

    def _events(self, after: int, limit: int, topics: Sequence[str]) -> Iterator[RecordedEvent]:
        """
        Yield the events after a position, page by page. With `topics`, any number of other events may be between those
        wanted.
        """
        count = PAGE_LENGTH if topics else min(limit, PAGE_LENGTH)
        while count > 0 and (events := self._read(after, count)):
            yield from events
            after = events[-1].position.number

    def _read(self, after: int, limit: int) -> list[RecordedEvent]:
        moment = moment_of(max(0, after), self._slice)
        with translated_for_eventsourcing():
            events = self._pages.read_all(after=moment, limit=limit, undecodable=True).events
        readable = [*takewhile(lambda one: not isinstance(one.event, Undecodable), events)]
        if events and not readable:
            raise _undecodable(events[0])
        return readable

    def mark_of(self, notification: Notification) -> object:
        """Return the digest of a notification's event, which stays when its texts are erased."""
        return _DECODER.decode(notification.state).digest

    def max_notification_id(self) -> int | None:
        """Return the position of the last event; None if there is none."""
        with translated_for_eventsourcing():
            return self._pages.now().head(self._slice) or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        """Follow the store: yield the events above position `gt`, then new ones; `topics` are tags."""
        subscription = FollowingSubscription(self, gt, topics)
        forgetting.watch(self._log, subscription)
        return subscription

    @property
    def news(self) -> News:
        """The news of this process in the log."""
        return self._log.news

    def select_page(self, *, after: int, limit: int, topics: Sequence[str]) -> Page:
        """
        Return those of the next `limit` events that have one of the topics, and the position of the last event read;
        without any, that of the last event there is.
        """
        events = self._read(after, limit)
        chosen = [_notification(one) for one in events if not topics or tag_of(one.event) in topics]
        # Nobody has seen the events that come between the two reads.
        return Page(chosen, events[-1].position.number if events else min(after, self.max_notification_id() or 0))


class _Slice:
    """One slice of a log that has no partitions, as an encrypted one."""

    def __init__(self, log: LiveLog, number: int) -> None:
        self._log, self._number = log, number

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> LogPage:
        end = self.now() if until is None else until
        return self._log.read_all(after=after, limit=limit, until=end, undecodable=undecodable)

    def now(self) -> Moment:
        return moment_of(self._log.now().head(self._number), self._number)


def _sequence(log: LiveLog, slice_number: int | None) -> PagedLog:
    """
    Return the part of a log that is one sequence of positions.

    Raises:
        InvalidInputError: the log has slices and none is given, or one is given and it has none.
    """
    if log.has_slices:
        if slice_number is None or not 0 <= slice_number < SLICES:
            raise InvalidInputError(
                f"a store on PostgreSQL has {SLICES:,} sequences of events, one for each slice: name a slice from 0 to"
                f" {SLICES - 1:,}, or a context that lies in it"
            )
        if isinstance(log, PartitionedLog):
            return log.partition(Partition(slice_number, SLICES))
        return _Slice(log, slice_number)
    if slice_number is not None:
        raise InvalidInputError("this store has one sequence of events and no slices: leave the slice out")
    return log


def _notification(recorded: RecordedEvent) -> Notification:
    event, number = recorded.event, recorded.position.number
    return Notification(recorded.stream, recorded.version, tag_of(event), _state_of(recorded), number)


def _undecodable(recorded: RecordedEvent) -> UndecodableError:
    number = recorded.position.number
    remedy = f"a subscription goes on behind it; to read on, start at {number + 1}"
    error = DamagedError(f"event {recorded.reference}", recorded.event.reason, remedy=remedy)
    return UndecodableError(str(error), number)


def _state_of(recorded: RecordedEvent) -> bytes:
    position, event = recorded.position, msgspec.Raw(encode_payload(recorded.event))
    return _ENCODER.encode(
        StoredRecord(position.slice, position.number, recorded.recorded_at, recorded.meta, recorded.digest, event)
    )


class EventMapper(Mapper[str]):
    """
    Returns Refold's public event classes, such as MessageAdded: a projection registers one function for each class.

    An event does not contain the id of its context; `RecordedEventMapper` returns it with its envelope, which does.
    """

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Return the event of a notification, without its envelope."""
        return _recorded(stored_event).event

    def to_stored_event(self, domain_event: Any) -> NoReturn:
        """Raise NotSupportedError: contexts write Refold's events."""
        raise NotSupportedError(WRITTEN_BY_CONTEXTS)


class RecordedEventMapper(EventMapper):
    """Returns each event as a RecordedEvent, with stream, version, position, time and meta; for `MAPPER_TOPIC`."""

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        """Return the event of a notification with its envelope."""
        return _recorded(stored_event)


def _recorded(stored: StoredEvent) -> RecordedEvent:
    stream, version = str(stored.originator_id), stored.originator_version
    record = _DECODER.decode(stored.state)
    event = CODEC.decode(bytes(record.event), f"event {stream}@{version}")
    position = Position(record.slice, record.number)
    return RecordedEvent(stream, version, position, record.recorded_at, event, record.meta, record.digest)


class StoreFactory(InfrastructureFactory[TrackingRecorder]):
    """
    Gives an application of the package read access to the events of a store; it records nothing.

    The store is that of `recorder`, or the one that REFOLD_DB names by a path or a URL; on PostgreSQL, REFOLD_SLICE
    selects a slice. MAPPER_TOPIC may name RecordedEventMapper.
    """

    REFOLD_DB = "REFOLD_DB"
    REFOLD_SLICE = "REFOLD_SLICE"

    def __init__(self, env: Environment | EnvType | None, recorder: StoreRecorder | None = None) -> None:
        super().__init__(env)
        self._recorder = recorder
        # The log that was opened here and must be closed here.
        self._log: LiveLog | None = None

    def mapper(
        self, transcoder: Transcoder | None = None, mapper_class: type[Mapper[Any]] | None = None
    ) -> Mapper[Any]:
        """Return the mapper of Refold's events; a follower's own `mapper_class` is for its own events."""
        topic = self.env.get(self.MAPPER_TOPIC)
        kind: type[EventMapper] = resolve_topic(topic) if topic else EventMapper
        return kind(transcoder or self.transcoder())

    def application_recorder(self) -> StoreRecorder:
        """
        Return the recorder, and open the store if none was given.

        Raises:
            OSError: no store is named, or the slice is not a number.
        """
        if self._recorder is None:
            location = self.env.get(self.REFOLD_DB)
            if not location:
                keys = " or ".join(self.env.create_keys(self.REFOLD_DB))
                raise OSError(f"no store is named: set {keys} to the path or the URL of one")
            slice_number = whole_number(self.env, self.REFOLD_SLICE)
            with translated_for_eventsourcing():
                self._log, _ = open_database(location_of(location), create=False)
                self._recorder = StoreRecorder(self._log, slice_number)
        return self._recorder

    def aggregate_recorder(self, purpose: str = "events") -> StoreRecorder:
        """
        Return the recorder of events.

        Raises:
            NotSupportedError: another `purpose` is asked for.
        """
        if purpose != "events":
            raise NotSupportedError(f"{purpose} cannot be recorded beside Refold's events: turn them off")
        return self.application_recorder()

    def tracking_recorder(self, tracking_recorder_class: type[TrackingRecorder] | None = None) -> NoReturn:
        """Raise NotSupportedError: a projection has its own database."""
        raise NotSupportedError("a projection keeps its rows by refold.infrastructure.sqlite, .postgres or another one")

    def process_recorder(self) -> NoReturn:
        """Raise NotSupportedError: contexts write Refold's events."""
        raise NotSupportedError(WRITTEN_BY_CONTEXTS)

    def close(self) -> None:
        """Close the store that was opened here; one that was given stays open."""
        log, self._log = self._log, None
        if log is not None:
            log.close()
