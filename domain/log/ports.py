"""
What Refold asks of a log.

Three logs answer it: memory (beside this file, the executable specification), SQLite and PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from ..canonical import FINGERPRINT_BYTES, require_key
from ..concurrency.locks import News
from ..errors import DamagedError, IdempotencyError, InvalidInputError
from ..positions import Moment, Partition
from .envelope import Event, Meta, RecordedEvent

ANY_VERSION = -1
T_co = TypeVar("T_co", covariant=True)


class Pending(Protocol[T_co]):
    """A result that is there already, or will be: `concurrent.futures.Future` is one."""

    def result(self, timeout: float | None = None) -> T_co:
        """Wait for the result and return it, or raise what went wrong."""

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the end and return what went wrong, if anything."""

    def done(self) -> bool:
        """Return whether `result` would not wait."""

    def add_done_callback(self, call: Callable[[Any], object], /) -> None:
        """Call `call` with this when it is done: at once when it is already."""


class StreamEnd(NamedTuple):
    """A version of a stream, the last one as somebody knows it, and its digest; empty where that is not known."""

    version: int
    digest: bytes = b""


class NewEvents(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """
    Events to be appended to one stream, decided on `expected_version` (0: the stream must not exist yet).

    `metas` has one entry per event. `root` decides the slice of a new stream: its session's id, or its own.
    `expected_digest`, where it is not empty, is that of the event at `expected_version`: a log that was restored
    from an older copy may have another one there. `idempotency_key` makes a repetition harmless: the events recorded
    under it are given back instead, unless the metas have a fingerprint and it is another call's.
    """

    stream: str
    expected_version: int
    events: tuple[Event, ...]
    metas: tuple[Meta, ...]
    root: str = ""
    idempotency_key: str | None = None
    expected_digest: bytes = b""

    def fits(self, end: StreamEnd) -> bool:
        """Return whether these were decided on this end of their stream."""
        if self.expected_version == ANY_VERSION:
            return True
        return self.expected_version == end.version and self.expected_digest in (b"", end.digest)

    @property
    def fingerprint(self) -> bytes | None:
        """The fingerprint of the call that they are of, where their metas say it."""
        return self.metas[0].fingerprint if self.metas else None


def require_names(new: NewEvents) -> None:
    """
    Require that every log can keep the names that come with events, and that their envelopes bear their key.

    Raises:
        InvalidInputError: one holds a NUL, which columns of text do not take everywhere, a key is too long, or it is
            not in a meta.
    """
    # Each append comes by here, and hardly any has one.
    if new.idempotency_key is not None:
        require_key(new.idempotency_key)
    elif "\0" not in f"{new.stream}{new.root}":
        return
    # The root of a stream that is there already is of no account.
    root = new.root if new.expected_version == 0 else ""
    for name, what in ((new.stream, "id"), (root, "root")):
        if name and "\0" in name:
            raise InvalidInputError(f"the {what} {name!r} of {new.stream!r} holds a NUL: leave it out")
    key = new.idempotency_key
    if key is not None and any(meta.idempotency_key != key for meta in new.metas):
        raise InvalidInputError(
            f"the idempotency key {key!r} of {new.stream!r} is not in the meta of each event: put it there"
        )


def require_same_call(stream: str, key: str, fingerprint: bytes | None, recorded: Sequence[RecordedEvent]) -> None:
    """
    Require that what was recorded under an idempotency key is of the call with this fingerprint.

    Where one of the two is not known nothing is required: raw appends give none, and earlier versions kept none.

    Raises:
        IdempotencyError: it is another call's.
        DamagedError: it was not recorded under this key.
    """
    if not recorded or any(one.meta.idempotency_key != key for one in recorded):
        raise DamagedError(stream, f"its key {key!r} names versions that were not recorded under it")
    known = recorded[0].meta.fingerprint
    if fingerprint and known and fingerprint[:FINGERPRINT_BYTES] != known[:FINGERPRINT_BYTES]:
        raise IdempotencyError(stream, key, recorded)


class Receipt(msgspec.Struct, frozen=True, gc=False):
    """The result of appending one `NewEvents`; `replayed` when they had been recorded before under their key."""

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


class Page(msgspec.Struct, frozen=True):
    """
    Events in the order of the log, and the moment to go on from. Where there are none because the log ends before the
    moment that was asked for, it is that end.
    """

    events: list[RecordedEvent]
    moment: Moment


class Log(Protocol):
    """An append-only log of events in streams: what a context needs of it."""

    def append(self, batch: Sequence[NewEvents], *, wait: bool = True) -> Pending[list[Receipt]]:
        """
        Append all of `batch` or nothing; the answer is there once it is on disk.

        With `wait` the caller's own thread may do the work, and what comes back is done. A stream may stand
        in a batch once.

        Raises (from `result()`):
            ConcurrencyError: a stream's head is not at the expected version, or has another digest.
            IdempotencyError: another call was recorded under an idempotency key.
            LogWentBackError: the log lacks what it had acknowledged before.
            InvalidInputError: an event cannot be encoded, or a name holds a NUL.
            StorageError: the database refused; nothing was written.
        """

    def read(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[RecordedEvent]:
        """
        Return the events of a stream with versions above `after`, up to and including `until`, in order.

        `known` is what the caller knows to have been recorded.

        Raises:
            DamagedError: an event is missing, or does not match its digest.
            LogWentBackError: the stream does not have the version that is `known`, or with another digest.
        """

    def read_events(
        self, stream: str, *, after: int = 0, until: int | None = None, known: StreamEnd | None = None
    ) -> list[Event]:
        """Return what `read` does without the envelopes, which is all that a fold needs."""

    def read_ranges(self, ranges: Sequence[Range]) -> list[list[Event]]:
        """
        Return what `read_events` does for each of several ranges, with as few questions to the database as can be.
        """

    def recorded_under(self, stream: str, key: str) -> list[RecordedEvent]:
        """Return the events of a stream that were appended under an idempotency key, if any were."""

    def head(self, stream: str) -> int:
        """Return the version of the last event of a stream; 0 where there is none."""

    def end(self, stream: str) -> StreamEnd:
        """Return what `head` does, with the digest of that event; that of version 0 is empty."""

    def version_at(self, stream: str, moment: Moment | int) -> int:
        """Return the last version of a stream at a moment: a cut of the log, or microseconds since 1970."""

    def streams(self, prefix: str = "") -> list[str]:
        """Return the ids of all streams, or of those that begin with `prefix`, in order."""


def require_known(log: Log, stream: str, known: StreamEnd) -> None:
    """
    Require that a log still has what is known to have been recorded.

    Raises:
        LogWentBackError: it does not.
    """
    log.read(stream, after=known.version, until=known.version, known=known)


class PagedLog(Protocol):
    """A log, or a partition of one, that can be read from its beginning to its end."""

    def read_all(self, *, after: Moment, limit: int, undecodable: bool = False) -> Page:
        """
        Return up to `limit` events behind `after`, in the order of the log, and the moment they end at.

        With `undecodable` an event that cannot be decoded is an `Undecodable`.

        Raises:
            DamagedError: an event is missing, does not match its digest, or cannot be decoded.
        """

    def now(self) -> Moment:
        """Return the moment of the last event."""


@runtime_checkable
class PartitionedLog(Protocol):
    """A log that several processes can read in partitions, side by side, each having opened it at its location."""

    @property
    def location(self) -> str:
        """The path or URL that it is opened with."""

    def prepare_partitions(self) -> None:
        """Make ready what is needed to read it in partitions quickly."""

    def partition(self, partition: Partition) -> PagedLog:
        """
        Return one partition of it. Its pages may have some events more than their limit, and fewer at its end alone.
        """


class LiveLog(Log, PagedLog, Protocol):
    """A log that can be read as a whole, followed and closed: what stores and projections need of it."""

    @property
    def news(self) -> News:
        """The news of this process, announced behind each of its appends."""

    @property
    def has_slices(self) -> bool:
        """Whether positions count within slices; else the whole log is one sequence."""

    def wait_for_news(self, seen: Moment, *, timeout_seconds: float) -> None:
        """Return once there may be an event behind `seen`, or the time is up; a hint, never a promise."""

    def files(self) -> Sequence[str]:
        """Return the paths of the files that this log lies in, or will, over which nothing else may be written."""

    def damaged_files(self) -> Iterable[DamagedError]:
        """Return an error for each fault of the file itself that the database finds."""

    def damaged_texts(self) -> Iterable[DamagedError]:
        """Return an error for each large text that is stored apart from its event and is not what was stored."""

    def damaged_rows(self) -> Iterable[DamagedError]:
        """
        Return an error for each row beside the events that is missing, or is not what they say: names of types, keys.
        """

    def idempotency_keys(self) -> Iterable[KeyRow]:
        """Yield what is kept of every idempotency key, in no order."""

    def close(self) -> None:
        """Finish what was handed in, then let go of the database; may be called twice."""
