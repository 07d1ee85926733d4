"""
The part of a log that is the same on every database: committing, receipts, snapshots, and the comparison with evidence.

It knows which events are in the log because they were acknowledged. They suffice to notice that the log went back, and
to say which events are gone.

The module `log.py` of each database has the rest: how requests are written, and how events are read.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

from ...domain.concurrency.locks import News, fork_safe_lock, synchronized
from ...domain.concurrency.promises import Settled
from ...domain.errors import ConcurrencyError, InvalidInputError, LogWentBackError, Lost, RefoldError
from ...domain.log.envelope import Chain, Event, Meta, RecordedEvent
from ...domain.log.ports import NewEvents, Pending, Range, Receipt, StreamEnd
from ...domain.positions import Moment, require_kind
from .background import LogSnapshots
from .codec import Codec
from .compression import Compression, Plain
from .evidence import Evidence, require_boundary, require_version
from .group_commit import GroupCommitter, Leavable
from .large_texts import LARGE_TEXT_BYTES
from .records import Appended, Draft, Part, Request, draft_of, receipts_of

T = TypeVar("T")
Batch = Sequence[NewEvents]
Answer = list[Receipt] | Exception
NO_LIMIT = 1 << 62
ENDS_MAX = 10_000
RECENT_MAX = 256
NOTHING: Mapping[str, StreamEnd] = MappingProxyType({})


class AcknowledgedEnd(NamedTuple):
    """An event that was acknowledged; while it is there, so is every event before it in its slice (`lane`)."""

    stream: str
    version: int
    digest: bytes
    number: int
    lane: int


class CurrentDatabase(Protocol):
    """A database as it is now, without anything remembered of it."""

    def heads(self, streams: Sequence[str]) -> Sequence[int]:
        """Return the last version of each stream; 0 if it has none."""

    def digests(self, places: Sequence[tuple[str, int]]) -> Sequence[bytes | None]:
        """Return the digest at each version of a stream; None if there is no such event."""


def is_small(request: Request) -> bool:
    """Return whether the events of a request are small enough to be kept for a while."""
    return not any(len(draft.payload) >= LARGE_TEXT_BYTES for part in request.parts for draft in part.drafts)


class MissingDatabase:
    """A database that does not exist any more."""

    def heads(self, streams: Sequence[str]) -> list[int]:
        return [0 for _ in streams]

    def digests(self, places: Sequence[tuple[str, int]]) -> list[None]:
        return [None for _ in places]


class Acknowledged:
    """The ends of the streams that this process wrote to, and the newest small events."""

    def __init__(self) -> None:
        self._ends: dict[str, AcknowledgedEnd] = {}
        self._last_by_slice: dict[int, AcknowledgedEnd] = {}
        self._recent: deque[RecordedEvent] = deque(maxlen=RECENT_MAX)
        self._noted: list[Receipt] = []
        # A reader that finds a missing event sorts `_noted` while the writer adds to it.
        self._lock = fork_safe_lock()

    def note(self, receipts: Sequence[Receipt], *, are_small: bool = False) -> None:
        """
        Remember receipts that are on disk now. Small events are kept for a while; large ones would need too much
        memory.
        """
        if are_small:
            # Every append calls this, so receipts are only collected here and sorted later, many at once.
            self._noted.extend(receipts)
            if len(self._noted) < RECENT_MAX:
                return
        self._put_in_order()
        if not are_small:
            self._take(receipts)

    @synchronized
    def _put_in_order(self) -> None:
        noted = self._noted[:]
        # The writer may have noted more meanwhile.
        del self._noted[: len(noted)]
        self._take(noted)
        for receipt in noted:
            self._recent.extend(receipt.events[-RECENT_MAX:])

    @synchronized
    def _take(self, receipts: Sequence[Receipt]) -> None:
        last = {one.events[-1].stream: one.events[-1] for one in receipts if one.events and not one.replayed}
        for stream, event in last.items():
            lane, number = event.position.slice, event.position.number
            end = self._ends[stream] = AcknowledgedEnd(stream, event.version, event.digest, number, lane)
            # Streams come in the order of their first event here, so another stream of the slice may have a later
            # event.
            if lane not in self._last_by_slice or self._last_by_slice[lane].number < number:
                self._last_by_slice[lane] = end
        if len(self._ends) > ENDS_MAX:
            self._ends = dict(list(self._ends.items())[ENDS_MAX // 2 :])

    @synchronized
    def forget_events(self) -> None:
        """Forget the newest events; their places and digests stay known."""
        self._put_in_order()
        self._recent.clear()

    def witness(self, number: int) -> AcknowledgedEnd | None:
        """Return the event that was acknowledged last in a slice, or None: if it is gone, the log went back."""
        self._put_in_order()
        return self._last_by_slice.get(number)

    def went_back(self, where: str, present: CurrentDatabase, stream: str, known: StreamEnd) -> LogWentBackError:
        """Return the error for a log that lacks `known` of a stream; it lists all events that are gone."""
        lost = self.lost(present, {stream: known})
        (found,) = present.heads([stream])
        return LogWentBackError(where, stream=stream, acknowledged=known.version, found=found, lost=lost)

    def lost(self, present: CurrentDatabase, known: Mapping[str, StreamEnd] = NOTHING) -> list[Lost]:
        """
        Return the events that were acknowledged, or are `known`, but are missing; from now on trust only those that
        exist.

        So the log reports the loss to this process once. After that, each view that shows a lost event reports it until
        it is read again.
        """
        noted = self._all_noted()
        ends = {stream: StreamEnd(end.version, end.digest) for stream, end in noted.items()}
        for stream, end in known.items():
            ends[stream] = max(end, ends.get(stream, end))
        digests = present.digests([(stream, end.version) for stream, end in ends.items()])
        gone = [
            stream
            for (stream, end), digest in zip(ends.items(), digests, strict=True)
            if digest is None or end.digest not in (b"", digest)
        ]
        lost = [
            one
            for stream, head in zip(gone, present.heads(gone), strict=True)
            for one in self._lost_of(stream, head, ends[stream].version, present)
        ]
        self._forget({stream: noted[stream] for stream in gone if stream in noted})
        return lost

    @synchronized
    def _all_noted(self) -> dict[str, AcknowledgedEnd]:
        self._put_in_order()
        return {**self._ends}

    @synchronized
    def _forget(self, gone: Mapping[str, AcknowledgedEnd]) -> None:
        # An event that was noted after the search may be gone as well, and nobody knows that yet: keep it.
        self._ends = {stream: end for stream, end in self._ends.items() if gone.get(stream) != end}
        self._last_by_slice = {end.lane: end for end in sorted(self._ends.values(), key=attrgetter("number"))}

    def _lost_of(self, stream: str, head: int, end: int, present: CurrentDatabase) -> Iterator[Lost]:
        """Yield the versions after `head`, and the earlier ones that now hold other events."""
        recent = {one.version: one for one in [*self._recent] if one.stream == stream and one.version <= end}
        digests = present.digests([(stream, version) for version in recent])
        others = {one.version for one, digest in zip(recent.values(), digests, strict=True) if one.digest != digest}
        for version in sorted({*others, *range(head + 1, end), end}):
            yield Lost(f"{stream}@{version}", recent[version].event if version in recent else None)


def joined(batches: Sequence[Batch]) -> Batch:
    """Return batches as one; an append of one thread has one, which is given back."""
    return batches[0] if len(batches) == 1 else [new for batch in batches for new in batch]


class DatabaseLog(ABC):
    """A log in a database; see `refold.domain.log.ports.LiveLog` for what its methods promise."""

    has_slices: bool
    # Its table is that of the database, and is there once the database is open.
    _snapshots: LogSnapshots
    _reader: Any
    # All that read events.
    _readers: Sequence[Any]

    def __init__(self, codec: Codec, packing: Compression | Plain, paused: Leavable | None = None) -> None:
        self.codec, self.chain, self.news = codec, Chain(), News()
        # How new rows are compressed.
        self._packing = packing
        self.evidence: Evidence | None = None
        self._acknowledged = Acknowledged()
        self._committer: GroupCommitter[Batch, list[Receipt]] = GroupCommitter(self._commit, paused)

    # Writing

    def append(self, batch: Batch, *, wait: bool = True) -> Pending[list[Receipt]]:
        if len(batch) != 1 and len({new.stream for new in batch}) != len(batch):
            return Settled(None, InvalidInputError("a stream may stand in a batch once: join its events"))
        return self._committer.submit(batch, wait=wait)

    @abstractmethod
    def _commit(self, batches: Sequence[Batch]) -> Sequence[Answer]:
        """Append batches in one transaction; return the receipts of each, or the error by which it is refused."""

    def _shared_out(self, batches: Sequence[Batch], receipts: list[Receipt]) -> Sequence[Answer]:
        """Note the receipts of a cached append, and return those of each batch."""
        self._note(receipts, are_small=True)
        if len(batches) == 1:
            return (receipts,)
        left = iter(receipts)
        return [[next(left) for _ in batch] for batch in batches]

    @abstractmethod
    def _part(self, new: NewEvents) -> Part:
        """Return new events in the form in which they are written."""

    def _drafted(self, batch: Batch) -> Request | Exception:
        """Return a batch in the form in which it is written, or the error by which it is refused."""
        try:
            return Request([self._part(new) for new in batch])
        except (RefoldError, ValueError, TypeError, OverflowError) as error:
            return error

    def _answered(
        self, batches: Sequence[Batch], drafted: Sequence[Request | Exception], answers: Iterable[Appended | Exception]
    ) -> Iterator[Answer]:
        """Yield the answer to each batch, given those to the requests that were drafted."""
        left = iter(answers)
        for batch, request in zip(batches, drafted, strict=True):
            if isinstance(request, Exception):
                yield request
                continue
            if isinstance(answer := next(left), Exception):
                yield answer
                continue
            try:
                receipts = receipts_of(batch, answer, self.read)
            except RefoldError as error:
                # The earlier call with this key may be another one, or damaged. The other requests of the group are
                # written.
                yield error
            else:
                self._note(receipts, are_small=is_small(request))
                yield receipts

    def _note(self, receipts: list[Receipt], *, are_small: bool) -> None:
        self._acknowledged.note(receipts, are_small=are_small)
        if self.evidence is not None:
            self.evidence.note(receipts)

    def _receipts(self, new: Batch, answer: Appended | ConcurrencyError) -> list[Receipt]:
        """Return the receipts of events that were appended with other work, and note them."""
        if isinstance(answer, ConcurrencyError):
            raise answer
        receipts = receipts_of(new, answer[: len(new)], self.read)
        self._note(receipts, are_small=False)
        return receipts

    def draft(self, tag: str, meta: Meta, payload: bytes) -> Draft:
        """Return an event, given by its payload, in the form that `copy_in` takes."""
        return draft_of(tag, meta, payload, self._packing)

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        return meta, payload

    def forget(self) -> None:
        self._acknowledged.forget_events()

    # Reading

    def use_evidence(self, evidence: Evidence) -> None:
        """Compare with this evidence what is read from now on."""
        self.evidence = self._snapshots.evidence = evidence
        for reader in self._readers:
            reader.use_evidence(evidence)

    @abstractmethod
    def _reached(self, stream: str) -> int:
        """Return the last version that is known of a stream from outside of the database."""

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        return self._read(self._reader.read_stream, Range(stream, after, NO_LIMIT if until is None else until), known)

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        return self._read(self._reader.read_events, Range(stream, after, NO_LIMIT if until is None else until), known)

    def _read(self, read: Callable[..., list[T]], wanted: Range, known: StreamEnd | None) -> list[T]:
        """Return the events of a range, and require that none is missing that is known from outside of the database."""
        reached = self._reached(wanted.stream)
        found = read(wanted, known)
        if reached:
            require_version(wanted.stream, max(wanted.after, 0) + len(found), min(wanted.until, reached))
        return found

    @abstractmethod
    def _read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]: ...

    @abstractmethod
    def _last_version(self, stream: str) -> int: ...

    @abstractmethod
    def _version_at(self, stream: str, moment: Moment | int) -> int: ...

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        if self.evidence is None:
            return self._read_ranges(ranges)
        reached = {stream: self._reached(stream) for stream in {one.stream for one in ranges}}
        found = self._read_ranges(ranges)
        for (stream, after, until), events in zip(ranges, found, strict=True):
            require_version(stream, max(after, 0) + len(events), min(until, reached[stream]))
        return found

    def head(self, stream: str) -> int:
        reached = self._reached(stream)
        found = self._last_version(stream)
        if reached:
            require_version(stream, found, reached)
        return found

    def version_at(self, stream: str, moment: Moment | int) -> int:
        if isinstance(moment, Moment):
            require_kind(moment, has_slices=self.has_slices)
        version = self._version_at(stream, moment)
        if self.evidence is not None:
            require_boundary(partial(self.read, stream), version, partial(_is_in, moment))
        return version

    # Snapshots

    def snapshot(self, stream: str) -> bytes | None:
        return self._snapshots.read(stream)

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        self._snapshots.keep(stream, pack)

    def streams_with_snapshot(self) -> list[str]:
        return self._snapshots.table.streams()


def _is_in(moment: Moment | int, one: RecordedEvent) -> bool:
    """Return whether a moment includes an event."""
    if isinstance(moment, int):
        return one.recorded_at <= moment
    return one.position.number <= moment.head(one.position.slice)
