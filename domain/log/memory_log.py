"""
The log in memory: the executable specification of a log, and the log of a detached context.

It has one sequence of events and one lock. The logs on SQLite and PostgreSQL must give the same answers; the contract
tests check all three.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence

import msgspec

from ..clock import REAL_SYSTEM, System
from ..concurrency.locks import News, fork_safe_lock, synchronized
from ..concurrency.promises import Settled
from ..errors import (
    ConcurrencyError,
    DamagedError,
    InvalidInputError,
    LogWentBackError,
    RefoldError,
    StorageClosedError,
    StorageReadOnlyError,
)
from ..positions import ONE_SEQUENCE, Moment, Position, moment_of, require_kind
from .admission import admitted, require_names
from .envelope import (
    NO_DIGEST,
    NO_META,
    Chain,
    Event,
    Meta,
    RecordedEvent,
    encode_payload,
    require_meta_size,
    require_payload_size,
)
from .ports import KeyRow, NewEvents, Page, Pending, Range, Receipt, Remnant, StreamEnd, require_same_call


class MemoryLog:
    """A log that lives as long as its process; one that is `read_only` stays empty."""

    has_slices = False

    def __init__(self, system: System = REAL_SYSTEM, *, read_only: bool = False) -> None:
        self.chain = Chain()
        self._system, self._read_only, self._is_closed = system, read_only, False
        self._lock = fork_safe_lock()
        self.news = News()
        self._all: list[RecordedEvent] = []
        self._streams: dict[str, list[RecordedEvent]] = {}
        # The number of events that are listed under their streams.
        self._indexed = 0
        self._keys: dict[tuple[str, str | None], tuple[RecordedEvent, ...]] = {}
        self._snapshots: dict[str, bytes] = {}
        self._guard: Callable[[Iterable[Event]], None] | None = None

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        try:
            receipts = self._append(batch)
        except UnicodeEncodeError as error:
            return Settled(None, InvalidInputError(f"an event cannot be stored: {error}"))
        except RefoldError as error:
            return Settled(None, error)
        self.news.announce()
        return Settled(receipts)

    @synchronized
    def _append(self, batch: Sequence[NewEvents]) -> list[Receipt]:
        self._require_open()
        if self._read_only:
            raise StorageReadOnlyError("the log in memory was opened for reading only")
        if len({new.stream for new in batch}) != len(batch):
            raise InvalidInputError("a stream may stand in a batch once: join its events")
        for new in batch:
            require_names(new)
        known = [self._events_under(new.stream, new.idempotency_key) for new in batch]
        if any(events is not None for events in known):
            for new, events in zip(batch, known, strict=True):
                if events is not None and new.idempotency_key is not None:
                    require_same_call(new.stream, new.idempotency_key, new.fingerprint, events)
            return [Receipt(events or (), True) for events in known]
        for new in batch:
            end = self.end(new.stream)
            if not new.fits(end):
                raise ConcurrencyError(new.stream, expected=new.expected_version, actual=end.version)
        if self._guard is not None:
            self._guard(event for new in batch for event in new.events)
        # Encoding can refuse an event, so all events are encoded before the first change.
        payloads = [[require_payload_size(admitted(event, new.stream)) for event in new.events] for new in batch]
        encode_payload([(new.stream, new.metas, new.idempotency_key) for new in batch])
        for meta in {meta for new in batch for meta in new.metas if meta is not NO_META}:
            require_meta_size(encode_payload(meta))
        now = max(int(self._system.now() * 1_000_000), self._all[-1].recorded_at if self._all else 0)
        added: list[RecordedEvent] = []
        receipts = [self._placed(new, encoded, now, added) for new, encoded in zip(batch, payloads, strict=True)]
        for new, receipt in zip(batch, receipts, strict=True):
            if new.idempotency_key is not None and receipt.events:
                self._keys[new.stream, new.idempotency_key] = receipt.events
        # One step records all events: an interrupt comes before or after it.
        self._all += added
        self._index()
        return receipts

    def _placed(self, new: NewEvents, payloads: list[bytes], now: int, added: list[RecordedEvent]) -> Receipt:
        stream, before = self._stream(new.stream), len(added)
        version, digest = len(stream), stream[-1].digest if stream else NO_DIGEST
        for event, meta, payload in zip(new.events, new.metas, payloads, strict=True):
            version += 1
            position = Position(ONE_SEQUENCE, len(self._all) + len(added) + 1)
            digest = self.chain.digest(digest, new.stream, version, position, now, meta, payload)
            added.append(RecordedEvent(new.stream, version, position, now, event, meta, digest))
        return Receipt(tuple(added[before:]))

    def _events_under(self, stream: str, key: str | None) -> tuple[RecordedEvent, ...] | None:
        """
        Return the events that were recorded under a key; an append that was interrupted may have left a key without
        events.
        """
        events = self._keys.get((stream, key))
        if events is None or events[-1] not in self._all[events[-1].position.number - 1 :][:1]:
            return None
        return events

    def _stream(self, stream: str) -> list[RecordedEvent]:
        if self._indexed < len(self._all):
            self._index()
        return self._streams.get(stream, [])

    @synchronized
    def _index(self) -> None:
        """List under their streams the events that are not listed yet; an interrupt may have left some."""
        while self._indexed < len(self._all):
            recorded = self._all[self._indexed]
            events = self._streams.setdefault(recorded.stream, [])
            if len(events) < recorded.version:
                events.append(recorded)
            self._indexed += 1

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        events = self._stream(stream)
        if known and known.version:
            there = events[known.version - 1].digest if known.version <= len(events) else None
            if there is None or known.digest not in (b"", there):
                raise LogWentBackError("the log in memory", stream=stream, acknowledged=known[0], found=len(events))
        return events[max(after, 0) : None if until is None else max(until, 0)]

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        return [recorded.event for recorded in self.read(stream, after=after, until=until, known=known)]

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        return [self.read_events(stream, after=after, until=until) for stream, after, until in ranges]

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        return list(self._events_under(stream, key) or ())

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        start = require_kind(after, has_slices=False).head(ONE_SEQUENCE)
        events = self._all[start : start + limit if until is None else min(start + limit, until.head(ONE_SEQUENCE))]
        end = start + len(events) if events else len(self._all)
        return Page(events, moment_of(end) if events or end < start else after)

    def head(self, stream: str) -> int:
        return len(self._stream(stream))

    def end(self, stream: str) -> StreamEnd:
        events = self._stream(stream)
        return StreamEnd(len(events), events[-1].digest) if events else StreamEnd(0)

    def version_at(self, stream: str, moment: Moment | int) -> int:
        events = self._stream(stream)
        if isinstance(moment, int):
            return bisect.bisect_right(events, moment, key=lambda event: event.recorded_at)
        bound = require_kind(moment, has_slices=False).head(ONE_SEQUENCE)
        return bisect.bisect_right(events, bound, key=lambda event: event.position.number)

    def now(self) -> Moment:
        return moment_of(len(self._all))

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        count = self.news.count
        if len(self._all) <= seen.head(ONE_SEQUENCE):
            # The events of a closed log can still be read, but no other event will come.
            self._require_open()
            self.news.wait_past(count, timeout_seconds=timeout_seconds)

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        self._stream("")
        return sorted(stream for stream in self._streams if stream.startswith(prefix))[:limit]

    def snapshot(self, stream: str) -> bytes | None:
        return self._snapshots.get(stream)

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        packed = pack()
        if packed is not None:
            self._snapshots[stream] = packed

    def streams_with_snapshot(self) -> list[str]:
        return list(self._snapshots)

    def erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        receipts = self._erase(remnants, new)
        for stream in {one.stream for one in remnants}:
            self._snapshots.pop(stream, None)
        self.news.announce()
        return receipts

    @synchronized
    def _erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        changed: dict[int, RecordedEvent] = {}
        for one in remnants:
            (recorded,) = self.read(one.stream, after=one.version - 1, until=one.version) or (None,)
            if recorded is None or recorded.digest != one.digest:
                raise ConcurrencyError(one.stream, expected=one.version, actual=self.head(one.stream))
            changed[recorded.position.number] = msgspec.structs.replace(recorded, event=one.event, meta=one.meta)
        if self._guard is not None:
            self._guard(one.event for one in remnants)
        receipts = self._append(new)
        for number, recorded in changed.items():
            self._all[number - 1] = self._streams[recorded.stream][recorded.version - 1] = recorded
        for name, events in list(self._keys.items()):
            self._keys[name] = tuple(changed.get(one.position.number, one) for one in events)
        return receipts

    @synchronized
    def guard_by(self, guard: Callable[[Iterable[Event]], None]) -> None:
        """Have `guard` look at all events from now on before they are recorded; it raises an error to refuse them."""
        self._guard = guard

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        return meta, payload

    def scrub(self) -> list[str]:
        return []

    def forget(self) -> None:
        """Do nothing, since no other process has these events."""

    def files(self) -> list[str]:
        return []

    def damaged_files(self) -> list[DamagedError]:
        return []

    def damaged_texts(self) -> list[DamagedError]:
        return []

    def damaged_rows(self) -> list[DamagedError]:
        return []

    def doubtful_streams(self) -> list[str]:
        return []

    def idempotency_keys(self) -> list[KeyRow]:
        return [
            KeyRow(stream, key or "", events[0].version, events[-1].version)
            for stream, key in list(self._keys)
            if (events := self._events_under(stream, key))
        ]

    def close(self) -> None:
        """Take no more events, as a log in a database; what is there can be read, since it stays in memory."""
        self._is_closed = True
        self.news.announce()

    def _require_open(self) -> None:
        if self._is_closed:
            raise StorageClosedError("the store in memory is closed: open another one")
