"""
The form of events that both databases write and read: bytes and their place, no domain types.

A `Draft` is an event before it has a place; a `Part` is a run of drafts for one stream, with the version they were
decided on; a `Request` is what one caller wants appended, all or nothing. A `Batch` is a set of ranges that one query
reads.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...domain.errors import InvalidInputError
from ...domain.log.admission import admitted
from ...domain.log.envelope import NO_META, Meta, RecordedEvent, require_payload_size
from ...domain.log.ports import ANY_VERSION, NewEvents, Range, Receipt, require_same_call
from ...domain.positions import Position
from .codec import encode_meta, tag_of
from .compression import Compression, Plain
from .large_texts import LARGE_TEXT_BYTES, LargeText, extract_texts

ANY = -(1 << 62)
# Ranges with a gap of at most this many versions are fetched in one query. Fetching a row that was not asked for is
# cheap, since it is not decoded; one query costs as much as a few dozen such rows.
GAP_VERSIONS_MAX = 64


class Draft(NamedTuple):
    """
    An event to be appended. `payload` is the input of the digest; `stored` is its stored form.

    If `texts` is not empty, `stored` is made from `plain` when the texts have their keys. With a `digest` the event was
    erased: the digest is that of the event as it was recorded, and `stored` is what is left of it.
    """

    tag: str
    payload: bytes
    stored: bytes
    meta: Meta
    plain: Any = None
    texts: Sequence[LargeText] = ()
    digest: bytes = b""


class Part(NamedTuple):
    """
    Drafts for one stream. `first_version` is the version that the first draft must get (ANY: the next one).

    An empty stream may start at one of `starts`: streams of Refold start at 1, streams of other applications at 0 or 1.
    A new stream gets the slice of its `root` if it has one, else `slice`. `expected_digest` is the one of `NewEvents`.
    Its events are recorded at `recorded_at`, or now if that is later: copied events keep their times.
    """

    stream: str
    first_version: int
    drafts: Sequence[Draft]
    slice: int = 0
    starts: tuple[int, ...] = (1,)
    idempotency_key: str | None = None
    root: str = ""
    expected_digest: bytes = b""
    recorded_at: int = 0

    def fits(self, end: int | None) -> bool:
        """Return whether it may come after the last version of its stream, None for a stream without events."""
        return self.first_version == ANY or self.first_version in (self.starts if end is None else (end + 1,))

    def first_after(self, end: int | None) -> int:
        """Return the version of its first draft, if it fits."""
        if self.first_version != ANY:
            return self.first_version
        return self.starts[-1] if end is None else end + 1


class Request(NamedTuple):
    """
    A request of one caller: the parts to append, all or none.

    `also` runs in the same transaction, after the events are written. On SQLite its argument is the connection; on
    PostgreSQL it is the list of statements, to which it adds its own.
    """

    parts: Sequence[Part]
    also: Callable[[Any], None] | None = None


class Head(NamedTuple):
    """The end of a stream: its integer key, its last version (None if it has no event), its last digest."""

    key: int
    version: int | None
    digest: bytes


class AssignedPlace(NamedTuple):
    """The place that a draft got in the log."""

    version: int
    slice: int
    number: int
    recorded_at: int
    digest: bytes


class EarlierVersions(NamedTuple):
    """The first and last version that were recorded earlier under an idempotency key."""

    first_version: int
    last_version: int


# The result of a request, one item for each part: the places of its drafts. If an idempotency key was used before,
# nothing of the request is written: parts with such a key have a `EarlierVersions`, the others None.
Appended = list[list[AssignedPlace] | EarlierVersions | None]


def drafts_of(new: NewEvents, compression: Compression | Plain) -> list[Draft]:
    """
    Return the events of a batch as drafts.

    Raises:
        InvalidInputError: a log does not accept one of them.
        LimitExceededError: an event has more than PAYLOAD_BYTES_MAX bytes, or its meta more than META_BYTES_MAX.
    """
    try:
        for text in (new.stream, new.idempotency_key):
            if text is not None and not text.isascii():
                text.encode()
        for meta in new.metas:
            if meta is not NO_META:
                encode_meta(meta)
        return [
            draft_of(tag_of(event), meta, admitted(event, new.stream), compression)
            for event, meta in zip(new.events, new.metas, strict=True)
        ]
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"an event of {new.stream!r} cannot be stored: {error}") from error


def part_of(new: NewEvents, compression: Compression | Plain, *, lane: int = 0, root: str = "") -> Part:
    """
    Return new events as a part, which gets the slice of its root, or the slice `lane` without one.

    Raises:
        InvalidInputError, LimitExceededError: as for `drafts_of`.
    """
    first = ANY if new.expected_version == ANY_VERSION else new.expected_version + 1
    drafts, key = drafts_of(new, compression), new.idempotency_key
    return Part(new.stream, first, drafts, lane, idempotency_key=key, root=root, expected_digest=new.expected_digest)


def draft_of(tag: str, meta: Meta, payload: bytes, compression: Compression | Plain) -> Draft:
    """
    Return the event with this tag and payload as a draft.

    Raises:
        LimitExceededError: it has more bytes than PAYLOAD_BYTES_MAX.
    """
    if len(payload) < LARGE_TEXT_BYTES:
        return Draft(tag, payload, compression.shrink(payload), meta)
    plain, texts = extract_texts(require_payload_size(payload))
    stored = b"" if texts else compression.shrink(payload)
    return Draft(tag, payload, stored, meta, plain, texts)


ReadStream = Callable[..., list[RecordedEvent]]


def receipts_of(batch: Sequence[NewEvents], answer: Appended, read: ReadStream) -> list[Receipt]:
    """
    Return a receipt for each part of a batch; `read` fetches the events that were recorded earlier under the same key.

    Raises:
        IdempotencyError: another call used the key; nothing was written.
        DamagedError: those events cannot be read, or were not recorded under the key.
    """
    receipts: list[Receipt] = []
    for new, placed in zip(batch, answer, strict=True):
        if not isinstance(placed, list):
            return [_repeated(new, part, read) for new, part in zip(batch, answer, strict=True)]
        receipts.append(Receipt(_recorded(new, placed)))
    return receipts


def _repeated(new: NewEvents, known: list[AssignedPlace] | EarlierVersions | None, read: ReadStream) -> Receipt:
    if not isinstance(known, EarlierVersions):
        return Receipt((), True)
    recorded = read(new.stream, after=known.first_version - 1, until=known.last_version)
    require_same_call(new.stream, new.idempotency_key or "", new.fingerprint, recorded)
    return Receipt(tuple(recorded), True)


def _recorded(new: NewEvents, placed: list[AssignedPlace]) -> tuple[RecordedEvent, ...]:
    stream = new.stream
    # The list comes first because a tuple from a generator costs twice as much, and every append runs this code.
    return tuple(
        [
            RecordedEvent(stream, version, Position(lane, number), recorded_at, event, meta, digest)
            for event, meta, (version, lane, number, recorded_at, digest) in zip(
                new.events, new.metas, placed, strict=True
            )
        ]
    )


class Batch:
    """Ascending ranges of one stream that are near each other, fetched together from `after` to `until`."""

    __slots__ = ("_afters", "_ends", "after", "ranges", "stream", "until")

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self.stream = ranges[0].stream
        self.after, self.until = max(ranges[0].after, 0), ranges[-1].until
        # An empty range holds nothing, and would have the events up to it opened.
        self._afters = [one.after for one in ranges if one.after < one.until]
        self._ends = [one.until for one in ranges if one.after < one.until]

    @property
    def count(self) -> int:
        """How many versions were asked for."""
        return sum(max(0, one.until - max(0, one.after)) for one in self.ranges)

    @property
    def is_empty(self) -> bool:
        """Whether the batch holds no version."""
        return self.until <= self.after

    def wants(self, version: int) -> bool:
        """Return whether a version was asked for."""
        return bisect_left(self._ends, version) < bisect_left(self._afters, version)

    def bounds(self, begin: int, end: int) -> range:
        """
        Return the smallest range that holds all versions asked for among those from `begin` up to, not including,
        `end`.
        """
        low, high = bisect_left(self._ends, begin), bisect_left(self._afters, end - 1)
        if low >= high:
            return range(begin, begin)
        return range(max(begin, self._afters[low] + 1), min(end, self._ends[high - 1] + 1))

    def places(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of each range among `count` fetched events."""
        for one in self.ranges:
            start = min(max(one.after - self.after, 0), count)
            yield start, max(start, min(one.until - self.after, count))


def batches(ranges: Sequence[Range]) -> list[Batch]:
    """Return ranges in their order, grouped into batches that are fetched in one query."""
    if not ranges:
        return []
    cuts = [place for place, (one, other) in enumerate(pairwise(ranges), 1) if not _are_near(one, other)]
    return [Batch(ranges[start:end]) for start, end in pairwise([0, *cuts, len(ranges)])]


def _are_near(one: Range, other: Range) -> bool:
    if one.stream != other.stream or one.after >= one.until or other.after >= other.until:
        return False
    return 0 <= other.after - max(one.until, 0) <= GAP_VERSIONS_MAX
