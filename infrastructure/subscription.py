"""
Following the log from any moment of the past into the present, without gaps.

A subscription reads pages, and waits only when it has read everything. A wake-up is a hint: nothing depends on its
arrival.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from ..domain.arguments import refuse_copy, require_texts
from ..domain.concurrency.locks import renew_in_child, synchronized
from ..domain.concurrency.threads import in_waiting_thread
from ..domain.erasure import forgetting
from ..domain.errors import (
    ConcurrencyError,
    DamagedError,
    InvalidInputError,
    LogWentBackError,
    RefoldError,
    StorageReadOnlyError,
)
from ..domain.ids import require_name, split_stream_id
from ..domain.kinds import KINDS
from ..domain.log.envelope import RecordedEvent, Undecodable
from ..domain.log.gate import behind_gate, gate_of
from ..domain.log.ports import LiveLog, StreamEnd, require_known
from ..domain.positions import ONE_SEQUENCE, Moment
from .projecting.store import ProjectionStore, kept_by, stored_moment

PAGE_EVENTS = 512
WAIT_SECONDS = 0.25
# To skip, each stream is asked for its next event; with more streams than these, reading pages is quicker.
SKIPPED_STREAMS_MAX = 16


class EventFilter(NamedTuple):
    """Events of these kinds of contexts, and of these streams; None means any."""

    kinds: frozenset[str] | None
    streams: frozenset[str] | None

    def has(self, event: RecordedEvent) -> bool:
        if self.streams is not None and event.stream not in self.streams:
            return False
        return self.kinds is None or split_stream_id(event.stream)[0] in self.kinds


def event_filter(kinds: Iterable[str] | None, contexts: Iterable[str] | None) -> EventFilter:
    """
    Return the filter for kinds of contexts, and for contexts given as `kind:id`.

    Raises:
        InvalidInputError: there is no such kind, or a context is given without its kind.
    """
    asked = None if kinds is None else frozenset(require_texts(kinds, "kinds"))
    streams = None if contexts is None else frozenset(require_texts(contexts, "contexts"))
    unknown = sorted((asked or frozenset()) - set(KINDS))
    if unknown:
        raise InvalidInputError(f"there is no kind of context {unknown[0]!r}: there are {', '.join(KINDS)}")
    for stream in sorted(streams or ()):
        if split_stream_id(stream)[0] not in KINDS or ":" not in stream:
            raise InvalidInputError(
                f"{stream!r} names no context: write its kind before its id, as in 'chat:support-42'"
            )
    return EventFilter(asked, streams)


class AcknowledgedError(ConcurrencyError):
    """Another subscriber with the same name acknowledged events in the meantime."""

    def __str__(self) -> str:
        return f"another one acknowledged {self.stream} in the meantime: subscribe again, to go on where it stands"


class Cursor:
    """The moment up to which one subscriber has acknowledged; None before the first acknowledgement."""

    def __init__(self, store: ProjectionStore, name: str) -> None:
        self._store, self.name = kept_by(store), require_name(name, "subscription")
        self._is_read_only = self._store is not store
        self._noted = self._store.note(self._note)

    @property
    def _note(self) -> str:
        return f"subscription/{self.name}"

    @property
    def moment(self) -> Moment | None:
        """The moment up to which everything was acknowledged."""
        return None if self._noted is None else self._stored(self._noted)

    def _stored(self, noted: str) -> Moment:
        return stored_moment(noted, f"the note {self._note}", remedy="subscribe under another name, `after` a moment")

    def move(self, moment: Moment) -> None:
        """
        Record that everything up to a moment was acknowledged.

        Raises:
            AcknowledgedError: another subscriber with this name acknowledged in the meantime; nothing was recorded.
            StorageReadOnlyError: the store was opened for reading only.
        """
        if self._is_read_only:
            raise StorageReadOnlyError(
                f"{self._note} cannot be acknowledged in a store that was opened for reading only: it would be "
                "forgotten. Open it for writing, or keep the moment yourself"
            )
        text = str(moment)
        if text == self._noted:
            return
        if not self._store.set_note(self._note, before=self._noted, after=text):
            now = self._stored(self._store.note(self._note) or "0")
            raise AcknowledgedError(self._note, expected=_count(self.moment), actual=_count(now))
        self._noted = text


def _count(moment: Moment | None) -> int:
    return 0 if moment is None else moment.events


class Subscription(Iterator[RecordedEvent], AsyncIterator[RecordedEvent]):
    """
    An endless iterator over the wanted events after `after`, in the order of the log; `stop()` ends it.

    `for` waits in its thread; `async for` lets the event loop go on. `moment` is its place in the log: pass it as
    `after` to continue from there. If the log ends before that place, for example after the restore of an older copy,
    it raises LogWentBackError. At a wanted event that cannot be decoded, as one of a newer version, it raises
    DamagedError once: its place is behind that event then, and the next call goes on there. A subscription with a name
    can be acknowledged: `ack()` makes the store remember its place. Do not share one between threads or tasks; `stop()`
    may be called from any thread.
    """

    __reduce__ = refuse_copy

    def __init__(self, log: LiveLog, *, after: Moment, wanted: EventFilter, cursor: Cursor | None) -> None:
        # The gate is asked for each event when it is handed out: a page may hold events that the caller may not read.
        self._log, self._gate = behind_gate(log), gate_of(log)
        self._cursor = cursor
        self._wanted = wanted
        self._page: deque[RecordedEvent] = deque()
        # The last event that was read: its stream, version and digest. If it changes or disappears, the log went back.
        self._last: tuple[str, StreamEnd] | None = None
        self._stopped = threading.Event()
        # If a task is cancelled twice, it ends while its thread still reads.
        self._lock = threading.Lock()
        # The place in each slice; `moment` combines them.
        self._heads = dict(after.heads)
        # Whether to look for the next wanted event first: many pages may have none. In a log with slices, a place
        # behind the events of the others would be behind later ones, too.
        are_few = wanted.streams is not None and len(wanted.streams) <= SKIPPED_STREAMS_MAX
        self._skips = self._may_skip = are_few and not log.has_slices
        renew_in_child(self)
        forgetting.watch(log, self)

    def __repr__(self) -> str:
        name = "" if self._cursor is None else f", name={self._cursor.name!r}"
        return f"Subscription({self.moment}{name})"

    def _after_fork(self) -> None:
        was_stopped = self._stopped.is_set()
        self._stopped, self._lock = threading.Event(), threading.Lock()
        if was_stopped:
            self._stopped.set()

    def _forget_erased(self) -> None:
        # The rest of the page is read again, from the place of the subscription.
        self._page = deque()

    @property
    def moment(self) -> Moment:
        """The moment after the last returned event, and after all unwanted events before it."""
        return Moment.of(self._heads)

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> RecordedEvent:
        while not self._stopped.is_set():
            if (event := self._take()) is not None:
                return event
            self._fetch()
        raise StopIteration

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> RecordedEvent:
        while not self._stopped.is_set():
            if (event := self._take()) is not None:
                return event
            await in_waiting_thread(self._fetch)
        raise StopAsyncIteration

    def _take(self) -> RecordedEvent | None:
        """
        Return the next wanted event of the page; None if there is none.

        Raises:
            DamagedError: it cannot be decoded; the next call goes on behind it.
        """
        # A thread that erases may put another page in its place.
        while page := self._page:
            event = page[0]
            is_wanted = self._wanted.has(event)
            if is_wanted and self._gate is not None:
                self._gate.ask("read", event.stream)
            page.popleft()
            self._heads[event.position.slice] = event.position.number
            if is_wanted and isinstance(event.event, Undecodable):
                remedy = "the subscription goes on behind it, and one that begins before it meets it again"
                raise DamagedError(f"event {event.reference}", event.event.reason, remedy=remedy)
            if is_wanted:
                return event
        return None

    @synchronized
    def _fetch(self) -> None:
        """Read the next page, or wait a moment if there is none yet."""
        before = self._page
        if before:
            return
        if self._last is not None:
            require_known(self._log, *self._last)
        if self._may_skip:
            self._may_skip = False
            # If one of their events cannot be read, reading the pages says which one.
            with suppress(RefoldError):
                self._skip(self._wanted.streams or ())
        moment = self.moment
        page = self._log.read_all(after=moment, limit=PAGE_EVENTS, undecodable=True)
        if not page.events and not page.moment.includes(moment):
            raise LogWentBackError(
                f"the log of {moment.events:,} events that this subscription has seen",
                reason=f"it has {page.moment.events:,}",
                remedy="subscribe anew, without a name or under another one, from where you know to be right",
            )
        if not page.events:
            self._log.wait_for_news(moment, timeout_seconds=WAIT_SECONDS)
        elif self._page is before:
            # Nothing was erased since it was read.
            last = page.events[-1]
            self._last = last.stream, StreamEnd(last.version, last.digest)
            self._page = deque(page.events)
            is_full = len(page.events) == PAGE_EVENTS
            self._may_skip = self._skips and is_full and not self._wanted.has(last)

    def _skip(self, streams: Iterable[str]) -> None:
        """Go to the place before the next event of these streams; if there is none, before the last one of the log."""
        moment, end = self.moment, self._log.now().head(ONE_SEQUENCE) - 1
        for stream in streams:
            if self._stopped.is_set():
                return
            seen = self._log.version_at(stream, moment)
            for event in self._log.read(stream, after=seen, until=seen + 1):
                end = min(end, event.position.number - 1)
        if end > moment.head(ONE_SEQUENCE):
            # Replaced as a whole: `moment` reads it without the lock.
            self._heads = {ONE_SEQUENCE: end}

    def ack(self) -> None:
        """
        Make the store remember that everything up to `moment` is done.

        An event that was returned but not acknowledged is returned again to the next subscriber with this name.

        Raises:
            InvalidInputError: the subscription has no name.
            ConcurrencyError: another subscriber with this name acknowledged in the meantime.
            StorageReadOnlyError: the store was opened for reading only, and cannot remember it.
        """
        if self._cursor is None:
            raise InvalidInputError("a subscription is acknowledged by its name: subscribe(name=...)")
        self._cursor.move(self.moment)

    def stop(self) -> None:
        """End the iteration, at the latest after a quarter of a second."""
        self._stopped.set()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
