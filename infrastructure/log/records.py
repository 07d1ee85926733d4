"""
The form in which both databases take and give events: bytes with their place, no domain types.

A `Draft` is an event before it has a place; a `Part` is a run of drafts for one stream, with the version they
were decided on; a `Request` is what one caller wants appended, all or nothing. A `Batch` is what is read in one go.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from ...domain.errors import InvalidInputError
from ...domain.log.admission import admitted
from ...domain.log.envelope import NO_META, Event, Meta, RecordedEvent, require_payload_size
from ...domain.log.ports import NewEvents, Range, Receipt, require_same_call
from ...domain.positions import Position
from .codec import encode_meta, tag_of
from .compression import Compression, Plain
from .large_texts import LARGE_TEXT_BYTES, LargeText, extract_texts

ANY = -(1 << 62)
# Ranges that lie so near each other are fetched in one go: rows that nobody asked for cost little to fetch and are not
# opened, and a question to the database costs as much as a dozen or two of them.
GAP_VERSIONS_MAX = 64


class Draft(NamedTuple):
    """
    An event to be appended. `payload` is what the digest covers; `stored` its stored form.

    Where `texts` is not empty, `stored` is made from `plain` once these have been given their keys.
    """

    tag: str
    payload: bytes
    stored: bytes
    meta: Meta
    plain: Any = None
    texts: Sequence[LargeText] = ()


class Part(NamedTuple):
    """
    Drafts for one stream. `first_version` is the version the first must get (ANY: the next one).

    An empty stream may start at one of `starts`; Refold's start at 1, foreign ones at 0 or 1. A new one gets the
    slice of its `root` where it has one, else `slice`. `expected_digest` as in `NewEvents`.
    """

    stream: str
    first_version: int
    drafts: Sequence[Draft]
    slice: int = 0
    starts: tuple[int, ...] = (1,)
    idempotency_key: str | None = None
    root: str = ""
    expected_digest: bytes = b""


class Request(NamedTuple):
    """
    What one caller wants appended.

    `also` runs in the same transaction, behind the events: on SQLite it is given the connection, on PostgreSQL
    the list of statements, to which it adds its own.
    """

    parts: Sequence[Part]
    also: Callable[[Any], None] | None = None


class Head(NamedTuple):
    """The end of a stream: its integer key, its last version (None: it has no event), its last digest."""

    key: int
    version: int | None
    digest: bytes


class Placed(NamedTuple):
    """Where a draft came to lie."""

    version: int
    slice: int
    number: int
    recorded_at: int
    digest: bytes


class Known(NamedTuple):
    """The versions, first and last, that were recorded under an idempotency key before."""

    first_version: int
    last_version: int


# What became of a request, part by part: where its drafts lie; or nothing of it was written, and the parts whose
# idempotency key was known say so.
Appended = list[list[Placed] | Known | None]


def drafts_of(new: NewEvents, compression: Compression | Plain) -> list[Draft]:
    """
    Return the events of a batch ready to be placed.

    Raises:
        InvalidInputError: one is none that a log takes.
        LimitExceededError: one has more bytes than PAYLOAD_BYTES_MAX, or its meta than META_BYTES_MAX.
    """
    try:
        for text in (new.stream, new.idempotency_key):
            if text is not None and not text.isascii():
                text.encode()
        for meta in new.metas:
            if meta is not NO_META:
                encode_meta(meta)
        return [
            draft_of(event, meta, admitted(event, new.stream), compression)
            for event, meta in zip(new.events, new.metas, strict=True)
        ]
    except UnicodeEncodeError as error:
        raise InvalidInputError(f"an event of {new.stream!r} cannot be stored: {error}") from error


def draft_of(event: Event, meta: Meta, payload: bytes, compression: Compression | Plain) -> Draft:
    """
    Return an event ready to be placed.

    Raises:
        LimitExceededError: it has more bytes than PAYLOAD_BYTES_MAX.
    """
    if len(payload) < LARGE_TEXT_BYTES:
        return Draft(tag_of(event), payload, compression.shrink(payload), meta)
    plain, texts = extract_texts(require_payload_size(payload))
    stored = b"" if texts else compression.shrink(payload)
    return Draft(tag_of(event), payload, stored, meta, plain, texts)


ReadStream = Callable[..., list[RecordedEvent]]


def receipts_of(batch: Sequence[NewEvents], answer: Appended, read: ReadStream) -> list[Receipt]:
    """
    Return a receipt for each part of a batch; `read` fetches what was recorded before under the same key.

    Raises:
        IdempotencyError: that was another call's; nothing was written.
        DamagedError: it cannot be read, or was not recorded under the key.
    """
    receipts: list[Receipt] = []
    for new, placed in zip(batch, answer, strict=True):
        if not isinstance(placed, list):
            return [_repeated(new, part, read) for new, part in zip(batch, answer, strict=True)]
        receipts.append(Receipt(_recorded(new, placed)))
    return receipts


def _repeated(new: NewEvents, known: list[Placed] | Known | None, read: ReadStream) -> Receipt:
    if not isinstance(known, Known):
        return Receipt((), True)
    recorded = read(new.stream, after=known.first_version - 1, until=known.last_version)
    require_same_call(new.stream, new.idempotency_key or "", new.fingerprint, recorded)
    return Receipt(tuple(recorded), True)


def _recorded(new: NewEvents, placed: list[Placed]) -> tuple[RecordedEvent, ...]:
    stream = new.stream
    # A list first: a tuple from a generator costs twice as much, and this is on the way of every append.
    return tuple(
        [
            RecordedEvent(stream, version, Position(lane, number), recorded_at, event, meta, digest)
            for event, meta, (version, lane, number, recorded_at, digest) in zip(
                new.events, new.metas, placed, strict=True
            )
        ]
    )


class Batch:
    """Ranges of one stream that ascend and lie near each other, and so are fetched from `after` to `until`."""

    __slots__ = ("_befores", "_ends", "after", "ranges", "stream", "until")

    def __init__(self, ranges: Sequence[Range]) -> None:
        self.ranges = ranges
        self.stream = ranges[0].stream
        self.after, self.until = max(ranges[0].after, 0), ranges[-1].until
        self._befores = [one.after for one in ranges]
        self._ends = [one.until for one in ranges]

    @property
    def count(self) -> int:
        """How many versions were asked for."""
        return sum(max(0, one.until - max(0, one.after)) for one in self.ranges)

    @property
    def is_empty(self) -> bool:
        """Whether no version lies in it."""
        return self.until <= self.after

    def wants(self, version: int) -> bool:
        """Return whether a version was asked for."""
        return bisect_left(self._ends, version) < bisect_left(self._befores, version)

    def bounds(self, begin: int, end: int) -> range:
        """
        Return from where to where, of the versions from `begin` up to but not including `end`, some were asked for.
        """
        low, high = bisect_left(self._ends, begin), bisect_left(self._befores, end - 1)
        if low >= high:
            return range(begin, begin)
        return range(max(begin, self._befores[low] + 1), min(end, self._ends[high - 1] + 1))

    def places(self, count: int) -> Iterator[tuple[int, int]]:
        """Yield for each range where it begins and ends among `count` events fetched."""
        for one in self.ranges:
            start = min(max(one.after - self.after, 0), count)
            yield start, max(start, min(one.until - self.after, count))


def batches(ranges: Sequence[Range]) -> list[Batch]:
    """Return ranges, in their order, in groups that are fetched in one go."""
    if not ranges:
        return []
    cuts = [place for place, (one, other) in enumerate(pairwise(ranges), 1) if not _are_near(one, other)]
    return [Batch(ranges[start:end]) for start, end in pairwise([0, *cuts, len(ranges)])]


def _are_near(one: Range, other: Range) -> bool:
    if one.stream != other.stream or one.after >= one.until or other.after >= other.until:
        return False
    return 0 <= other.after - max(one.until, 0) <= GAP_VERSIONS_MAX
