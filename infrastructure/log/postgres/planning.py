"""
Planning an append: the known ends of slices and streams, and the rows that follow from them.

All numbers that count up in a slice (positions, keys of streams and of texts) are given out under the slice's lock and
together with an event. So if the last position of a slice is the remembered one, all that is remembered of the slice is
right.

A plan neither reads nor writes the database. It makes rows, determines the answer to each request in case they are
written, and advances the memory as if they were. If they are not written, the caller must make the memory forget them.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ....domain.errors import ConcurrencyError
from ....domain.log.envelope import NO_DIGEST, UNKEYED, Chain
from ....domain.positions import Position
from ..codec import encode_meta
from ..compression import Compression, mark_references
from ..large_texts import LargeText, insert_references
from ..records import ANY, Appended, AssignedPlace, Draft, EarlierVersions, Part, Request
from .wire import Call, int4, int8

STREAMS_MAX = 10_000
# After this many appends in a row before which nobody else wrote to a slice, its end is predicted again.
QUIET_APPENDS = 8
BLOBS_MAX = 1_000
ROWS_MAX = 64
CHUNK_BYTES_MAX = 1 << 20
# After this many ids a new random number is drawn.
IDS_MAX = 1_000
TABLES = ("stream", "blob", "event", "idempotency")
# The place of an event's stored form in its row.
STORED = 8
Answer = Appended | ConcurrencyError
Row = tuple[bytes | None, ...]


class NotKnownError(Exception):
    """The remembered ends are not enough for a plan."""


class Order(NamedTuple):
    """A request and the id of its first event; the ids of the others follow."""

    request: Request
    first_id: int


@dataclass(slots=True)
class StreamTip:
    """The end of a stream: its key, last version and digest."""

    key: int = 0
    version: int | None = None
    digest: bytes = NO_DIGEST


@dataclass(slots=True)
class SliceEnd:
    """
    The end of one slice: its last position, with the time and the digest of the event there (empty without one), the
    last keys given out, and the streams that are known.
    """

    position: int = 0
    recorded_at: int = 0
    digest: bytes = b""
    stream_key: int = 0
    blob_key: int = 0
    tips: dict[str, StreamTip] = field(default_factory=dict)
    blobs: dict[tuple[bytes, str], int] = field(default_factory=dict)


class Memory:
    """
    The memory of one process: ends of slices, valid until another process writes there; slices of streams, in the order
    of their last use, valid for ever; and tags, valid in the lineage that they were read in (see append.py).

    `shared` are the slices in which another process wrote lately, each with the number of appends since: their ends are
    read under the lock instead of predicted. `chain` computes the digests.
    """

    def __init__(self, chain: Chain = UNKEYED) -> None:
        self.chain = chain
        self.slice_ends: dict[int, SliceEnd] = {}
        self.slices: OrderedDict[str, int] = OrderedDict()
        self.tags: dict[str, bytes] = {}
        self.lineage = b""
        self.opened: list[str] = []
        self.shared: dict[int, int] = {}

    def slice_of(self, stream: str) -> int | None:
        """Return the slice of a stream that is remembered; the streams used last are remembered longest."""
        number = self.slices.get(stream)
        if number is not None:
            self.slices.move_to_end(stream)
        return number

    def note_overtaken(self, slices: Iterable[int]) -> None:
        """Remember that another process wrote to one of these slices."""
        self.shared.update(dict.fromkeys(slices, 0))

    def note_quiet(self, number: int) -> None:
        """Remember that nobody else wrote to a slice since the last append here."""
        quiet = self.shared.pop(number, QUIET_APPENDS) + 1
        if quiet < QUIET_APPENDS:
            self.shared[number] = quiet

    def open(self, stream: str, number: int, tip: StreamTip) -> None:
        """Remember that a stream is about to be opened in a slice; its tip has the next key of the slice."""
        slice_end = self.slice_ends[number]
        slice_end.stream_key, slice_end.tips[stream] = tip.key, tip
        self.slices[stream] = number
        self.opened.append(stream)

    def forget(self, slices: Iterable[int] | None = None) -> None:
        """Forget the ends of all slices, or of these; streams that were about to be opened do not exist."""
        for number in [*self.slice_ends] if slices is None else slices:
            self.slice_ends.pop(number, None)
        for stream in self.opened:
            self.slices.pop(stream, None)
        self.opened.clear()

    def forget_all(self) -> None:
        """Forget everything, even the permanent facts: this may be an older copy of the database."""
        self.forget()
        self.slices.clear()
        self.tags.clear()
        self.shared.clear()

    def keep(self, slices: Iterable[int]) -> None:
        """Remember that the plans for these slices are written."""
        self.opened.clear()
        for number in slices:
            slice_end = self.slice_ends.get(number)
            # Not earlier: a plan needs the texts that were found for it, and those it placed itself.
            if slice_end is not None and len(slice_end.blobs) > BLOBS_MAX:
                slice_end.blobs.clear()
        while len(self.slices) > STREAMS_MAX:
            stream, number = self.slices.popitem(last=False)
            if number in self.slice_ends:
                self.slice_ends[number].tips.pop(stream, None)

    def tip_of(self, part: Part) -> StreamTip | None:
        """Return the end of a part's stream."""
        slice_end = self.slice_ends.get(self.slices.get(part.stream, part.slice))
        return None if slice_end is None else slice_end.tips.get(part.stream)


class EarlierEvents(NamedTuple):
    """Events that were recorded earlier: by idempotency keys of streams, and by ids of events."""

    keys: dict[tuple[str, str], EarlierVersions]
    recorded: dict[int, AssignedPlace]


class Plan:
    """
    Rows to write after the ends in `memory`; `size` is about how many bytes they have.

    With `found`, everything was read under the locks: a stream that is not in `memory` does not exist. Without it, such
    a stream is assumed to be new if its writer says so; if it exists, the database refuses the rows.
    """

    def __init__(self, memory: Memory, now: int, compression: Compression, found: EarlierEvents | None = None) -> None:
        self._memory = memory
        self._now = now
        self._compression = compression
        self._is_sure = found is not None
        self._found = found or EarlierEvents({}, {})
        self._rows: dict[str, list[Row]] = {}
        self._also: list[Call] = []
        self.size = 0

    def answers(self, orders: Sequence[Order]) -> list[Answer]:
        """
        Plan requests and return the answer to each; a refused request changes nothing.

        Raises:
            NotKnownError: the memory is not enough; nothing of this plan may be written.
        """
        if not self._is_sure:
            self._require_known(orders)
        return [self._add(order) for order in orders]

    def calls(self, prefix: str) -> Iterator[Call]:
        """Return the statements that write the rows, then those that requests add."""
        for table in TABLES:
            rows = self._rows.get(table)
            if rows:
                yield from inserts(prefix + table, rows)
        yield from self._also

    def stored(self) -> list[bytes | None]:
        """Return the stored forms of the events."""
        return [row[STORED] for row in self._rows.get("event", ())]

    def _require_known(self, orders: Sequence[Order]) -> None:
        opened: set[str] = set()
        memory = self._memory
        for order in orders:
            for part in order.request.parts:
                tip = memory.tip_of(part)
                if tip is None and part.stream not in opened:
                    # Without events there is no row of the stream, which the database refuses if it exists.
                    if part.stream in memory.slices or part.first_version not in part.starts or not part.drafts:
                        raise NotKnownError
                    opened.add(part.stream)
                if any(draft.tag not in memory.tags for draft in part.drafts):
                    raise NotKnownError

    def _add(self, order: Order) -> Answer:
        parts = order.request.parts
        if self._found.keys:
            repeated = [self._found.keys.get((part.stream, part.idempotency_key or "")) for part in parts]
            if any(repeated):
                return list(repeated)
        if order.first_id in self._found.recorded:
            return self._recorded_before(order)
        refusal = self._refusal(parts)
        # The request may have been recorded earlier under its key, which only the database knows: it refuses the row of
        # the key, where there is one.
        if not self._is_sure and any(one.idempotency_key is not None and (refusal or not one.drafts) for one in parts):
            raise NotKnownError
        if refusal is not None:
            return refusal
        answer: Appended = []
        event_id = order.first_id
        for part in parts:
            answer.append(self._place(part, event_id))
            event_id += len(part.drafts)
        if order.request.also is not None:
            order.request.also(self._also)
        return answer

    def _recorded_before(self, order: Order) -> Appended:
        ids = iter(range(order.first_id, order.first_id + sum(len(part.drafts) for part in order.request.parts)))
        return [[self._found.recorded[next(ids)] for _ in part.drafts] for part in order.request.parts]

    def _refusal(self, parts: Sequence[Part]) -> ConcurrencyError | None:
        """Check that all parts fit before one is placed; a stream may come up several times in a request."""
        ends: dict[str, int | None] = {}
        for part in parts:
            tip = self._memory.tip_of(part)
            end = ends.get(part.stream, tip.version if tip else None)
            is_other = part.stream not in ends and tip is not None and part.expected_digest not in (b"", tip.digest)
            if not part.fits(end) or (is_other and part.first_version != ANY):
                return ConcurrencyError(part.stream, expected=part.first_version - 1, actual=end or 0)
            ends[part.stream] = part.first_after(end) + len(part.drafts) - 1
        return None

    def _place(self, part: Part, event_id: int) -> list[AssignedPlace]:
        if not part.drafts:
            return []
        number = self._memory.slices.get(part.stream, part.slice)
        slice_end = self._memory.slice_ends[number]
        tip = slice_end.tips.get(part.stream) or self._open_stream(part.stream, number, slice_end)
        first = version = part.first_after(tip.version)
        recorded_at = slice_end.recorded_at = max(self._now, slice_end.recorded_at, part.recorded_at)
        where, stream, time = int4(number), int4(tip.key), int8(recorded_at)
        placed, rows, tags = [], self._rows.setdefault("event", []), self._memory.tags
        digest_of = self._memory.chain.digest
        for draft in part.drafts:
            slice_end.position += 1
            position, meta = Position(number, slice_end.position), draft.meta
            tip.digest = draft.digest or digest_of(
                tip.digest, part.stream, version, position, recorded_at, meta, draft.payload
            )
            stored = self._refer(draft, number, slice_end) if draft.texts else draft.stored
            packed = encode_meta(meta)
            self.size += len(stored)
            rows.append((
                where, stream, int8(slice_end.position), int4(version), tags[draft.tag], time,
                event_id.to_bytes(16, "big"), packed, stored, tip.digest,
            ))  # fmt: skip
            placed.append(AssignedPlace(version, number, slice_end.position, recorded_at, tip.digest))
            version += 1
            event_id += 1
        tip.version, slice_end.digest = version - 1, tip.digest
        if part.idempotency_key is not None:
            self._found.keys[part.stream, part.idempotency_key] = EarlierVersions(first, version - 1)
            row = (where, stream, part.idempotency_key.encode(), int4(first), int4(version - 1))
            self._rows.setdefault("idempotency", []).append(row)
        return placed

    def _open_stream(self, stream: str, number: int, slice_end: SliceEnd) -> StreamTip:
        tip = StreamTip(slice_end.stream_key + 1)
        self._rows.setdefault("stream", []).append((stream.encode(), int4(number), int4(tip.key)))
        self._memory.open(stream, number, tip)
        return tip

    def _refer(self, draft: Draft, number: int, slice_end: SliceEnd) -> bytes:
        keys = [self._blob(text, draft.meta.key_id or "", number, slice_end) for text in draft.texts]
        return mark_references(self._compression.shrink(insert_references(draft.plain, keys)))

    def _blob(self, text: LargeText, key_id: str, number: int, slice_end: SliceEnd) -> int:
        key = slice_end.blobs.get((text.digest, key_id))
        if key is None:
            slice_end.blob_key += 1
            key = slice_end.blobs[text.digest, key_id] = slice_end.blob_key
            data = self._compression.shrink_block(text.data)
            self.size += len(data)
            row = (int4(number), int8(key), text.digest, key_id.encode(), data)
            self._rows.setdefault("blob", []).append(row)
        return key


class EventIds:
    """
    Ids for events: UUIDs of version 7, which rise with time, so that their index grows at its end. They count on from a
    random number, and a new one is drawn from time to time.
    """

    def __init__(self) -> None:
        self._next = 0
        self._left = 0

    def take(self, count: int, now: int) -> int:
        """Return the first of `count` ids that follow each other."""
        if count > self._left:
            chance = int.from_bytes(os.urandom(10), "big")
            # The top bit of the last 62 is left 0, so that counting does not overflow them.
            low = 2 << 62 | chance & (1 << 61) - 1
            # A clock that is not set may stand before 1970.
            self._next = (now // 1000 & (1 << 48) - 1) << 80 | 7 << 76 | (chance >> 61 & 0xFFF) << 64 | low
            self._left = max(count, IDS_MAX)
        first = self._next
        self._next += count
        self._left -= count
        return first


def inserts(table: str, rows: Sequence[Row]) -> Iterator[Call]:
    """Return multi-row INSERTs: 64 rows each, then 32, 16 ... down to 1, so that only few statements are prepared."""
    if len(rows) == 1:
        yield Call(_insert_statement(table, 1, len(rows[0])), rows[0], 1)
        return
    start = 0
    while start < len(rows):
        count = min(ROWS_MAX, 1 << (len(rows) - start).bit_length() - 1)
        call = _insert(table, rows[start : start + count])
        while count > 1 and call.size > CHUNK_BYTES_MAX:
            count //= 2
            call = _insert(table, rows[start : start + count])
        yield call
        start += count


def _insert(table: str, rows: Sequence[Row]) -> Call:
    values = [value for row in rows for value in row]
    return Call(_insert_statement(table, len(rows), len(rows[0])), values, len(rows))


@cache
def _insert_statement(table: str, rows: int, columns: int) -> str:
    places = [f"${number}" for number in range(1, rows * columns + 1)]
    tuples = [", ".join(places[start : start + columns]) for start in range(0, len(places), columns)]
    return f"INSERT INTO {table} VALUES ({'), ('.join(tuples)})"
