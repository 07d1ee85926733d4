"""
The cached append: small events of one stream, which is new or whose end this process remembers.

It makes the same rows as a plan, but only for the commonest case and in few steps: after each wait for a disk the
processor caches hold other data, so a step costs several times as much as in a loop. Work that can wait is done while
the server commits. All other cases use the planned append.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ....domain.errors import LimitExceededError
from ....domain.ids import slice_of
from ....domain.log.admission import admitted
from ....domain.log.envelope import Chain, RecordedEvent
from ....domain.log.ports import ANY_VERSION, NewEvents, Receipt
from ....domain.positions import Position
from ..codec import encode_meta, tag_of
from ..compression import Compression
from ..large_texts import LARGE_TEXT_BYTES
from .planning import Memory, SliceEnd, StreamTip
from .wire import int4, int8

BYTES_MAX = 1 << 20
# The size of the events is not known yet when the way is chosen, so their number is limited.
EVENTS_MAX = 64
Row = tuple[bytes, bytes, bytes, bytes, bytes, bytes, bytes, bytes | None, bytes, bytes]
StreamRow = tuple[bytes, bytes, bytes]


class End(NamedTuple):
    """The place and the end of a stream; a new one has no version yet."""

    slice: int
    slice_end: SliceEnd
    tip: StreamTip


class PreparedAppend(NamedTuple):
    """Events for the cached append, and the values to store."""

    new: NewEvents
    payloads: list[bytes]
    stored: list[bytes]
    metas: list[bytes | None]
    tags: list[bytes]


ReadyAtEnds = Sequence[tuple[PreparedAppend, End]]


def ends_of(news: Sequence[NewEvents], memory: Memory) -> list[End] | None:
    """
    Return the ends of the streams of these events. None if one of them cannot be appended this way, as one without
    events, whose version is only compared; or if two streams are in one slice: the second would need the end that the
    first one leaves.
    """
    ends: list[End] = []
    for new in news:
        number = memory.slice_of(new.stream)
        if number is None:
            end = _beginning(new, memory)
            if end is None:
                return None
            ends.append(end)
            continue
        slice_end = memory.slice_ends.get(number)
        tip = None if slice_end is None else slice_end.tips.get(new.stream)
        if slice_end is None or tip is None or tip.version is None or new.idempotency_key is not None:
            return None
        if not 0 < len(new.events) < EVENTS_MAX or new.expected_digest not in (b"", tip.digest):
            return None
        # A refusal needs a proof, which the planned append reads.
        if new.expected_version not in (tip.version, ANY_VERSION):
            return None
        ends.append(End(number, slice_end, tip))
    return ends if len(ends) == 1 or len({end.slice for end in ends}) == len(ends) > 0 else None


def guessed_slices(news: Sequence[NewEvents], memory: Memory) -> dict[str, int] | None:
    """
    Return the slice of each of these streams, as far as is known; None if no other process writes there, or if the
    cached append cannot write there: in a slice that is not remembered, or for an idempotency key.
    """
    guesses: dict[str, int] = {}
    for new in news:
        known = memory.slice_of(new.stream)
        number = slice_of(new.root or new.stream) if known is None else known
        if (
            number not in memory.slice_ends
            or new.idempotency_key is not None
            or not new.events
            or not (new.stream + new.root).isprintable()
        ):
            return None
        guesses[new.stream] = number
    return None if memory.shared.keys().isdisjoint(guesses.values()) else guesses


def _beginning(new: NewEvents, memory: Memory) -> End | None:
    """Return the end of a stream that is to be new; if its id is taken, the database refuses its row."""
    root = new.root or new.stream
    if new.expected_version != 0 or new.idempotency_key is not None or not 0 < len(new.events) < EVENTS_MAX:
        return None
    names = new.stream + root
    if not names.isprintable():
        # The name may be one that cannot be stored; the planned append has an error message for it.
        return None
    number = slice_of(root)
    slice_end = memory.slice_ends.get(number)
    return None if slice_end is None else End(number, slice_end, StreamTip(slice_end.stream_key + 1))


def ready(news: Sequence[NewEvents], memory: Memory, compression: Compression) -> list[PreparedAppend] | None:
    """Return the input of the cached append; None if the events are not small, or a type of event is new."""
    together: list[PreparedAppend] = []
    size = 0
    try:
        for new in news:
            payloads = [admitted(event, new.stream) for event in new.events]
            metas = [encode_meta(meta) for meta in new.metas]
            tags = [memory.tags[tag_of(event)] for event in new.events]
            if len(metas) != len(payloads) or max(map(len, payloads), default=LARGE_TEXT_BYTES) >= LARGE_TEXT_BYTES:
                return None
            size += sum(map(len, payloads))
            together.append(PreparedAppend(new, payloads, [*map(compression.shrink, payloads)], metas, tags))
    except (KeyError, ValueError, TypeError, OverflowError, LimitExceededError):
        return None
    # The events of a single stream are EVENTS_MAX at most, each smaller than LARGE_TEXT_BYTES.
    return together if len(together) == 1 or size <= BYTES_MAX else None


def rows_of(placed: ReadyAtEnds, first_id: int, now: int, chain: Chain) -> list[Row]:
    """Return the rows to write, stream after stream."""
    rows: list[Row] = []
    for (new, payloads, all_stored, metas, tags), (number, slice_end, tip) in placed:
        stream, version, place, digest = new.stream, tip.version or 0, slice_end.position, tip.digest
        recorded_at = slice_end.recorded_at = max(now, slice_end.recorded_at)
        where, key, time = int4(number), int4(tip.key), int8(recorded_at)
        for meta, payload, stored, packed, tag in zip(new.metas, payloads, all_stored, metas, tags, strict=True):
            version += 1
            place += 1
            digest = chain.digest(digest, stream, version, Position(number, place), recorded_at, meta, payload)
            event_id = first_id.to_bytes(16, "big")
            rows.append((where, key, int8(place), int4(version), tag, time, event_id, packed, stored, digest))
            first_id += 1
    return rows


def stream_rows_of(placed: ReadyAtEnds) -> list[StreamRow]:
    """Return the rows of those streams that are new."""
    return [
        (events.new.stream.encode(), int4(end.slice), int4(end.tip.key))
        for events, end in placed
        if end.tip.version is None
    ]


def received(placed: ReadyAtEnds, rows: list[Row], memory: Memory) -> list[Receipt]:
    """Return the receipts of events that are about to be recorded, and advance the memory as if they were."""
    receipts: list[Receipt] = []
    digests = iter([row[9] for row in rows])
    for (new, *_), (number, slice_end, tip) in placed:
        stream, version, place, recorded_at = new.stream, tip.version or 0, slice_end.position, slice_end.recorded_at
        if tip.version is None:
            memory.open(stream, number, tip)
        recorded: list[RecordedEvent] = []
        for event, meta in zip(new.events, new.metas, strict=True):
            version += 1
            place += 1
            digest = next(digests)
            recorded.append(RecordedEvent(stream, version, Position(number, place), recorded_at, event, meta, digest))
        slice_end.position, tip.version = place, version
        slice_end.digest = tip.digest = recorded[-1].digest
        receipts.append(Receipt(tuple(recorded)))
    return receipts
