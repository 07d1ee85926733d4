"""
The form in which both databases take and give events: bytes with their place, no domain types.

A `Draft` is an event before it has a place; a `Part` is a run of drafts for one stream, with the version they
were decided on; a `Request` is what one caller wants appended, all or nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from ...domain.errors import InvalidInputError
from ...domain.log.admission import admitted
from ...domain.log.envelope import NO_META, Event, Meta, RecordedEvent, require_payload_size
from ...domain.log.ports import NewEvents, Receipt, require_same_call
from ...domain.positions import Position
from .codec import encode_meta, tag_of
from .compression import Compression, Plain
from .large_texts import LARGE_TEXT_BYTES, LargeText, extract_texts

ANY = -(1 << 62)


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
