"""
The ports of a log: what Refold needs from it.

Three logs implement them: memory (beside this file, the executable specification), SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from ..canonical import FINGERPRINT_BYTES
from ..concurrency.locks import News
from ..errors import DamagedError, IdempotencyError
from ..positions import Moment, Partition
from .envelope import Event, Meta, RecordedEvent

ANY_VERSION = -1
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A result that exists already, or will: `concurrent.futures.Future` is one."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the result and return it, or raise the error."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return the error, if there is one."""

    def done(self) -> bool:
        """Return whether `result` returns without waiting."""

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        """Call `call` with this object when it is done: at once if it is done already."""


class StreamEnd(NamedTuple):
    """A version of a stream, the last one that somebody knows, and its digest; empty where that is not known."""

    version: int
    digest: bytes = b""


class NewEvents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    Events to be appended to one stream, decided on `expected_version` (0: the stream must not exist yet).

    `metas` has one entry per event. `root` decides the slice of a new stream: its session's id, or its own.
    `expected_digest`, if it is not empty, is the digest of the event at `expected_version`: a log that was restored
    from an older copy may have another event there. `idempotency_key` makes a repetition harmless: the events that were
    recorded under it are returned instead, unless the metas have a fingerprint and the events are of another call.
    """

    stream: str
    expected_version: int
    events: tuple[Event, ...]
    metas: tuple[Meta, ...]
    root: str = ""
    idempotency_key: str | None = None
    expected_digest: bytes = b""

    def fits(self, end: StreamEnd) -> bool:
        """Return whether these events were decided on this end of their stream."""
        if self.expected_version == ANY_VERSION:
            return True
        return self.expected_version == end.version and self.expected_digest in (b"", end.digest)

    @property
    def fingerprint(self) -> bytes | None:
        """The fingerprint of the call that made them, if their metas have it."""
        return self.metas[0].fingerprint if self.metas else None


def require_same_call(stream: str, key: str, fingerprint: bytes | None, recorded: Sequence[RecordedEvent]) -> None:
    """
    Require that the events recorded under an idempotency key are of the call with this fingerprint.

    If one of the two fingerprints is not known, nothing is required: raw appends give none, and earlier versions of
    Refold stored none.

    Raises:
        IdempotencyError: they are of another call.
        DamagedError: they were not recorded under this key.
    """
    if not recorded or any(one.meta.idempotency_key != key for one in recorded):
        raise DamagedError(stream, f"its key {key!r} names versions that were not recorded under it")
    known = recorded[0].meta.fingerprint
    if fingerprint and known and fingerprint[:FINGERPRINT_BYTES] != known[:FINGERPRINT_BYTES]:
        raise IdempotencyError(stream, key, recorded)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The result of appending one `NewEvents`; `replayed` if they had been recorded before under their key."""

    events: tuple[RecordedEvent, ...]
    replayed: bool = False


class Range(NamedTuple):
    """Versions of one stream: those above `after`, up to and including `until`."""

    stream: str
    after: int
    until: int


class KeyRow(NamedTuple):
    """A stored idempotency key: the versions of its stream that were recorded under it."""

    stream: str
    key: str
    first_version: int
    last_version: int


class Remnant(NamedTuple):
    """
    The rest of an event whose texts are erased: the event, its meta and its payload take the place of those that were
    recorded. `digest` is that of the recorded event, and stays.
    """

    stream: str
    version: int
    digest: bytes
    event: Event
    meta: Meta
    payload: bytes


class Page(msgspec.Struct, frozen=True):
    """
    Events in the order of the log, and the moment from which to continue. If the log ends before the requested moment,
    the page is empty and has the end of the log.
    """

    events: list[RecordedEvent]
    moment: Moment


class Log(Protocol):
    """An append-only log of events in streams, as contexts need it."""

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """
        Append all of `batch` or nothing; the result is there once it is on disk.

        With `wait` the caller's own thread may do the work, and the returned result is done. A batch may have each
        stream once.

        Raises (from `result()`):
            ConcurrencyError: a stream's head is not at the expected version, or has another digest.
            IdempotencyError: another call was recorded under an idempotency key.
            LogWentBackError: the log does not have events that it had acknowledged before.
            InvalidInputError: an event cannot be encoded, or a name has a NUL.
            StorageError: the database refused; nothing was written.
        """

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        """
        Return the events of a stream with versions above `after`, up to and including `until`, in order.

        `known` is an end of the stream that the caller knows to be recorded.

        Raises:
            DamagedError: an event is missing, or does not match its digest.
            LogWentBackError: the stream does not have the version in `known`, or has it with another digest.
        """

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        """Return the events of `read` without their envelopes, which a fold does not need."""

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """Return the events of `read_events` for each of several ranges, with few queries to the database."""

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        """Return the events of a stream that were appended under an idempotency key, if there are any."""

    def head(self, stream: str) -> int:
        """Return the version of the last event of a stream; 0 where there is none."""

    def end(self, stream: str) -> StreamEnd:
        """Return the version of `head` with the digest of that event; the digest of version 0 is empty."""

    def version_at(self, stream: str, moment: Moment | int) -> int:
        """Return the last version of a stream at a moment: a cut of the log, or microseconds since 1970."""

    def streams(self, prefix: str = "", *, limit: int | None = None) -> list[str]:
        """Return the ids of all streams, or of those that begin with `prefix`, in order; at most `limit`."""

    def snapshot(self, stream: str) -> bytes | None:
        """Return the snapshot that is kept of a stream, as it was given; it may be damaged, or not fit the stream."""

    def keep_snapshot(self, stream: str, pack: Callable[[], bytes | None]) -> None:
        """
        Keep the snapshot of a stream that `pack` returns, at some later time or never; it replaces the one before.

        Another thread may call `pack`; if it returns None, nothing is kept.
        """


def require_known(log: Log, stream: str, known: StreamEnd) -> None:
    """
    Require that a log still has the end of a stream that is known to be recorded.

    Raises:
        LogWentBackError: it does not.
    """
    log.read(stream, after=known.version, until=known.version, known=known)


class PagedLog(Protocol):
    """A log, or a partition of one, that can be read from its beginning to its end."""

    def read_all(self, *, after: Moment, limit: int, until: Moment | None = None, undecodable: bool = False) -> Page:
        """
        Return up to `limit` events behind `after`, in the order of the log, and the moment at which they end.

        With `until`, an earlier moment, no event after it is returned, and slices are read one after the other, so that
        each event is fetched once: only within a slice do events come in order. With `undecodable`, an event that
        cannot be decoded is returned as an `Undecodable`.

        Raises:
            DamagedError: an event is missing, does not match its digest, or cannot be decoded.
        """

    def now(self) -> Moment:
        """Return the moment of the last event."""


@runtime_checkable
class PartitionedLog(Protocol):
    """A log whose partitions several processes can read side by side; each process opens the log at its location."""

    @property
    def location(self) -> str:
        """The path or URL at which it is opened."""

    def prepare_partitions(self) -> None:
        """Prepare the log so that partitions are read quickly."""

    def partition(self, partition: Partition) -> PagedLog:
        """
        Return one partition of the log.

        Its pages may have some more events than their limit. Only the last page may have fewer.
        """


class LiveLog(Log, PagedLog, Protocol):
    """A log that can be read as a whole, followed and closed, as stores and projections need it."""

    @property
    def news(self) -> News:
        """The news of this process, announced after each of its appends."""

    @property
    def has_slices(self) -> bool:
        """Whether positions count within slices; otherwise the whole log is one sequence."""

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        """Return once there may be an event behind `seen`, or after the timeout; a hint, never a promise."""

    def files(self) -> Sequence[str]:
        """Return the paths of the files of this log, existing or not yet, which nothing else may overwrite."""

    def damaged_files(self) -> Iterable[DamagedError]:
        """Return an error for each fault of the file itself that the database finds."""

    def damaged_texts(self) -> Iterable[DamagedError]:
        """
        Return an error for each large text that is stored apart from its event and differs from the text that was
        stored.
        """

    def damaged_rows(self) -> Iterable[DamagedError]:
        """Return an error for each row beside the events (type names, keys) that is missing or does not match them."""

    def streams_with_snapshot(self) -> Iterable[str]:
        """Return the ids of the streams that have a snapshot, in no order."""

    def doubtful_streams(self) -> Iterable[str]:
        """
        Return the streams with a wrong row that is needed to read them by versions, but not to read the log in its
        order.
        """

    def idempotency_keys(self) -> Iterable[KeyRow]:
        """Yield the stored row of every idempotency key, in no order."""

    def erase(self, remnants: Sequence[Remnant], new: Sequence[NewEvents]) -> list[Receipt]:
        """
        Replace events by what is left of them, and append `new`, which names them: all or nothing.

        Large texts to which no event refers any more are deleted, and so are the snapshots of these streams.

        Raises:
            ConcurrencyError: an event is another one by now, or a stream's head is not at the expected version.
            StorageError: the database refused; nothing was changed.
        """

    def sealed_payload(self, stream: str, version: int, meta: Meta, payload: bytes) -> tuple[Meta, bytes]:
        """Return the meta and the payload of an event as they are stored: as they are, unless the log is encrypted."""

    def scrub(self) -> list[str]:
        """
        Remove the bytes that the database keeps of what was deleted or replaced in it, and drop what this process
        remembers; return where such bytes may still be.

        Raises:
            StorageError: the database refused, for example because a disk is full.
        """

    def forget(self) -> None:
        """Drop the events that this process keeps in memory: texts of them may have been erased."""

    def close(self) -> None:
        """
        Finish the appends that were begun, then close the database; may be called twice.

        Later calls raise a StorageClosedError, except that a log in memory can still be read.
        """
