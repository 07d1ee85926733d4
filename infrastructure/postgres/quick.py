"""
The quick way of an append: small events of streams whose ends this process remembers.

It makes the same rows as a plan does, for the commonest case alone and in as few steps as can be: after each wait
for a disk the processor has forgotten this program, and a step costs several times what it costs in a loop.
Whatever is not common is left to the general way, before anything is sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...domain.envelope import RecordedEvent, chain_digest, encode_payload
from ...domain.ports import ANY_VERSION, NewEvents, Receipt
from ...domain.positions import Position
from ..codec import encode_meta, tag_of
from ..compression import Compression
from ..texts import LARGE_TEXT_BYTES
from .planning import Lane, Memory, Row, Tip, inserts
from .runs import RUN, begin_run, covered
from .wire import Call, int4, int8

__all__ = ["QuickRows", "Ready", "all_ready"]

EVENTS_MAX = 64


class Ready(NamedTuple):
    """What can go the quick way: events for one stream, where it lies and ends, and the events encoded."""

    new: NewEvents
    slice: int
    lane: Lane
    tip: Tip
    payloads: list[bytes]
    metas: list[bytes | None]
    tags: list[bytes]


def all_ready(batches: Sequence[Sequence[NewEvents]], memory: Memory) -> list[Ready] | None:
    """
    Return what the quick way needs of these batches; None where one of them cannot go it.
    """
    readies: list[Ready] = []
    for batch in batches:
        for new in batch:
            ready = _ready(new, memory)
            if ready is None:
                return None
            readies.append(ready)
    # The second of two for one stream would have to know the end that the first one leaves.
    if len(readies) != 1 and len({ready.new.stream for ready in readies}) != len(readies):
        return None
    return readies or None


def _ready(new: NewEvents, memory: Memory) -> Ready | None:
    number = memory.slices.get(new.stream, -1)
    lane = memory.lanes.get(number)
    tip = None if lane is None else lane.tips.get(new.stream)
    if lane is None or tip is None or new.idempotency_key is not None:
        return None
    # A refusal needs a proof, which the general way has.
    if new.expected_version not in (tip.version, ANY_VERSION) or not 0 < len(new.events) <= EVENTS_MAX:
        return None
    try:
        payloads = [encode_payload(event) for event in new.events]
        metas = [encode_meta(meta) for meta in new.metas]
        tags = [memory.tags[tag_of(event)] for event in new.events]
    except (KeyError, ValueError, TypeError, OverflowError):
        return None
    if len(metas) != len(payloads) or max(map(len, payloads)) >= LARGE_TEXT_BYTES:
        return None
    return Ready(new, number, lane, tip, payloads, metas, tags)


class QuickRows:
    """The rows of one trip, as they come together; memory moves on as if they were written."""

    def __init__(self, compression: Compression, first_id: int, now: int) -> None:
        self._compression = compression
        self._next_id = first_id
        self._now = now
        self._events: list[Row] = []
        self._runs: list[Row] = []

    def add(self, ready: Ready) -> Receipt:
        """
        Add the rows of some events, and return the receipt of what will have been recorded.
        """
        new, number, lane, tip, payloads, metas, tags = ready
        stream, version, place, digest, run = new.stream, tip.version or 0, lane.position, tip.digest, tip.run
        recorded_at = lane.recorded_at = max(self._now, lane.recorded_at)
        where, key, time = int4(number), int4(tip.key), int8(recorded_at)
        recorded: list[RecordedEvent] = []
        for event, meta, payload, packed, tag in zip(new.events, new.metas, payloads, metas, tags, strict=True):
            version += 1
            place += 1
            position = Position(number, place)
            digest = chain_digest(digest, stream, version, position, recorded_at, meta, payload)
            stored = self._compression.shrink(payload)
            self._events.append((
                where, key, int8(place), int4(version), tag, time,
                self._next_id.to_bytes(16, "big"), packed, stored, digest,
            ))  # fmt: skip
            self._next_id += 1
            recorded.append(RecordedEvent(stream, version, position, recorded_at, event, meta, digest))
            if version % RUN == 1:
                run = begin_run(number, stream, version)
            if run is not None:
                run.update(covered(place, recorded_at, packed, stored, digest))
                if version % RUN == 0:
                    self._runs.append((where, key, int4(version), run.digest()))
        lane.position, tip.version, tip.digest, tip.run = place, version, digest, run
        return Receipt(tuple(recorded))

    def calls(self, prefix: str) -> list[Call]:
        """
        Return the statements that write the rows.
        """
        calls = list(inserts(prefix + "event", self._events))
        if self._runs:
            calls += inserts(prefix + "run", self._runs)
        return calls
