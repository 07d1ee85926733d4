"""
Blocks: older events, packed up to 64 at a time and compressed; and how they are opened.

Each 512 positions are a segment. When a segment is complete, its events are removed from `event` in the order of
streams and versions, 64 at a time, and become one row: a block (see `seal.py`). Each stream in it has a row in `part`,
which has the versions that the block holds. A block takes a quarter of the bytes of its events, and reading it costs
one row, one decompression, one checksum and one decoding instead of 64. Payloads and digests are kept byte for byte
(docs/adr/0003).

Each event is checked against its digest when it is read for the first time. A block that was checked is decoded as a
whole; if only a few events of a long part are wanted, only these are decoded.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import accumulate, chain, groupby, islice, repeat
from typing import Any, NamedTuple

import msgspec

from ....domain.concurrency.known_types import known
from ....domain.erasure.events import seal_of
from ....domain.errors import DamagedError
from ....domain.log.envelope import NO_META, Chain, Event, Meta, RecordedEvent
from ....domain.positions import ONE_SEQUENCE, Position
from ..block_body import DIGEST_BYTES, block_checksum, require_one_size
from ..codec import Codec
from ..compression import Compression, has_references
from ..evidence import SEGMENT, Evidence
from ..large_texts import resolve_references, text_of
from ..row_faults import VALUE_FAULTS, CheckedBefore, require_digests, unreadable

ALL = slice(None)
BLOCKS_KEPT = 4
# In a block of short parts the other events are likely to be wanted soon. If less than this share of a long part is
# wanted, the rest of it is not decoded.
SMALL_SHARE = 4


class BlockPart(NamedTuple):
    """The events of one stream in a block: `size` of them, from `first_version` on."""

    stream: str
    first_version: int
    size: int


class BlockBody(NamedTuple):
    """The content of a block, column by column; payloads are msgpack maps as they were."""

    parts: list[BlockPart]
    positions: list[int]
    times: list[int]
    metas: list[msgspec.Raw | None]
    payloads: list[msgspec.Raw]


class Block(NamedTuple):
    """A block as it is stored; `digests` are those of its events, 32 bytes each."""

    key: int
    segment: int
    checksum: bytes
    digests: bytes
    body: bytes


def checksum_of(segment: int, digests: bytes, body: bytes) -> bytes:
    """Return the checksum of a block with this content."""
    return block_checksum(segment.to_bytes(8, "big"), digests, body)


def checked_body(compression: Compression, block: Block) -> bytes:
    """
    Return the expanded body of a block.

    Raises:
        DamagedError: the block does not match its checksum; the error has its key and its positions.
    """
    first = block.segment * SEGMENT + 1
    what = f"block {block.key} (of positions {first} to {first + SEGMENT - 1})"
    if checksum_of(block.segment, block.digests, block.body) != block.checksum:
        raise DamagedError(what, "its bytes do not match its checksum")
    return compression.expand(block.body, what)


class Place(NamedTuple):
    """
    A part of a block according to its row: the index of its first event in the block, and the position and time of that
    event.

    `before` is the digest before that event.
    """

    part: BlockPart
    start: int
    first: tuple[int, int]
    before: bytes


# Takes a connection, a stream, a version and a seal; returns whether an erasure says that this is left of the event.
IsErased = Callable[[sqlite3.Connection, str, int, bytes], bool]
# Takes a block and some of its parts, by the index of their first events; returns the digests before these.
DigestsBefore = Callable[[Block, Mapping[int, BlockPart]], list[bytes]]


class _Opened(NamedTuple):
    """The content of a block, column by column; with `is_raw` the events are not decoded yet."""

    parts: list[BlockPart]
    positions: list[int]
    times: list[int]
    metas: list[Meta | None]
    events: list[Any]
    is_raw: bool = False


def _shape_of(event: Any) -> Any:
    """Return the type of the columns of a block with such events."""
    return tuple[list[BlockPart], list[int], list[int], list[Meta | None], list[event]]


class BlockReader:
    """Opens the blocks of one log; may be used by any number of threads."""

    def __init__(self, codec: Codec, compression: Compression, is_erased: IsErased, chain: Chain) -> None:
        self._chain = chain
        self._codec = codec
        self._compression = compression
        self._is_erased = is_erased
        # The blocks that were read last, the newest first; replaced as a whole because several threads read at once.
        self._opened: tuple[tuple[Block, _Opened], ...] = ()
        self._known = CheckedBefore()
        self.evidence: Evidence | None = None
        # The checksums of blocks with events that are known from outside of the database.
        self._proven = CheckedBefore()
        self._raw_decoder = msgspec.msgpack.Decoder(known(_shape_of(msgspec.Raw)))
        # Made for the first block that is read a second time: it needs the events of all kinds of contexts.
        self._decoder: msgspec.msgpack.Decoder[Any] | None = None

    def events(
        self, connection: sqlite3.Connection, block: Block, bounds: slice, chained: Place | DigestsBefore
    ) -> list[Event]:
        """
        Return the events within some bounds of a block; if a place is given, the block must have that part there.

        Raises:
            DamagedError: the part is not there, or an event was changed.
        """
        return self._checked(connection, block, bounds, chained)[1]

    def recorded(
        self, connection: sqlite3.Connection, block: Block, bounds: slice, chained: Place | DigestsBefore
    ) -> list[RecordedEvent]:
        """Return the events of `events` with their envelopes."""
        opened, events = self._checked(connection, block, bounds, chained)
        start, stop, _ = bounds.indices(len(opened.events))
        named = islice(_streams(opened), start, stop), islice(_versions(opened), start, stop)
        places = map(Position, repeat(ONE_SEQUENCE), opened.positions[bounds])
        digests = _digests(block, start, stop)
        # Every log is read as a whole now and then: `map` makes an envelope in two thirds of the time of a loop.
        return list(map(RecordedEvent, *named, places, opened.times[bounds], events, _metas(opened, bounds), digests))

    def bounds_of(self, block: Block, streams: Container[str]) -> Iterator[slice]:
        """Yield the bounds of the events of some streams in a block."""
        parts = self._open(block, ALL, None).parts
        for is_wanted, some in groupby(_placed(parts), lambda placed: placed[1].stream in streams):
            if is_wanted:
                (first, part), *rest = some
                last, end = rest[-1] if rest else (first, part)
                yield slice(first, last + end.size)

    def _checked(
        self, connection: sqlite3.Connection, block: Block, bounds: slice, chained: Place | DigestsBefore
    ) -> tuple[_Opened, list[Event]]:
        """Open a block; check the events within bounds, unless that was done before, and return them."""
        opened = self._open(block, bounds, chained if isinstance(chained, Place) else None)
        start, stop, _ = bounds.indices(len(opened.events))
        if self.evidence is not None and block.checksum not in self._proven:
            digests = _digests(block, 0, len(opened.events))
            if self.evidence.require(ONE_SEQUENCE, opened.positions, digests):
                self._proven.add(block.checksum)
        befores = _digests_before_parts(block, opened, range(start, stop), chained)
        check = b"".join((block.checksum, start.to_bytes(4), stop.to_bytes(4), *befores.values()))
        key = hashlib.blake2b(check, digest_size=DIGEST_BYTES).digest()
        is_known = key in self._known
        if is_known and not opened.is_raw:
            return opened, opened.events[bounds]
        raw = opened if opened.is_raw else self._raw(block)
        payloads = self._payloads(connection, block, raw, range(start, stop))

        def name(place: int) -> str:
            return _names(opened, range(start, stop))[place]

        if not is_known:
            self._check(connection, block, opened, range(start, stop), befores, payloads, name)
            # A large text is stored elsewhere and may change.
            if not has_references(block.body):
                self._known.add(key)
                self._known.add(block.checksum)
        return opened, self._codec.decode_many(payloads, name) if opened.is_raw else opened.events[bounds]

    def _check(
        self,
        connection: sqlite3.Connection,
        block: Block,
        opened: _Opened,
        places: range,
        befores: Mapping[int, bytes],
        payloads: Sequence[Any],
        name: Callable[[int], str],
    ) -> None:
        """Check events at some places of a block against their digests, or against the seals of erasures."""
        start, stop = places.start, places.stop
        stored = _digests(block, start, stop)
        previous = [block.digests[(start - 1) * DIGEST_BYTES : start * DIGEST_BYTES], *stored]
        for place, digest in befores.items():
            previous[place - start] = digest
        positions, times = opened.positions[start:stop], opened.times[start:stop]
        metas = _metas(opened, slice(start, stop))
        computed = self._chain.digests(
            previous, islice(_streams(opened), start, stop), islice(_versions(opened), start, stop),
            (repeat(ONE_SEQUENCE), positions), times, metas, map(memoryview, payloads),
        )  # fmt: skip

        def is_erased(place: int) -> bool:
            stream, version = next(islice(zip(_streams(opened), _versions(opened), strict=True), start + place, None))
            where, payload = (stream, version, Position(ONE_SEQUENCE, positions[place])), bytes(payloads[place])
            seal = seal_of(previous[place], stored[place], where, times[place], metas[place], payload)
            return self._is_erased(connection, stream, version, seal)

        require_digests(computed, stored, name, is_erased)

    def forget(self) -> None:
        """Drop the opened blocks."""
        self._opened = ()

    def _payloads(self, connection: sqlite3.Connection, block: Block, raw: _Opened, places: range) -> list[Any]:
        payloads = raw.events[places.start : places.stop]
        if not has_references(block.body):
            return payloads
        whats = _names(raw, places)
        return list(map(resolved, repeat(connection), repeat(self._compression), map(bytes, payloads), whats))

    def _open(self, block: Block, bounds: slice, place: Place | None) -> _Opened:
        """
        Return an opened block, kept if possible: a fork's ancestors are read one after another, and a block often holds
        the end of one and the start of the next.
        """
        # The whole block is compared: one that was damaged since must not pass for the opened one.
        kept = self._opened
        known = next((pair for pair in kept if pair[0].key == block.key and pair[0] == block), None)
        if known is None:
            is_whole = place is None or (bounds.stop - bounds.start) * SMALL_SHARE > place.part.size
            try:
                known = (block, self._open_unknown(block, is_whole=is_whole))
            except VALUE_FAULTS as error:
                raise unreadable(f"block {block.key}", error) from error
        if not kept or known is not kept[0]:
            self._opened = (known, *[pair for pair in kept if pair is not known][: BLOCKS_KEPT - 1])
        opened = known[1]
        if place is not None:
            _check_place(opened, place)
        return opened

    def _open_unknown(self, block: Block, *, is_whole: bool) -> _Opened:
        # The check needs the bytes of each event, so then events are decoded one by one.
        if not is_whole or block.checksum not in self._known:
            return self._raw(block)
        decoder = self._decoder = self._decoder or msgspec.msgpack.Decoder(known(_shape_of(self._codec.events)))
        # Some may be of an older shape, or refer to large texts.
        with suppress(msgspec.ValidationError):
            opened = _of_one_size(block, _Opened(*decoder.decode(checked_body(self._compression, block))))
            if not any(self._codec.mends(*part) for part in opened.parts):
                return opened
        return self._raw(block)

    def _raw(self, block: Block) -> _Opened:
        body = checked_body(self._compression, block)
        try:
            opened = _Opened(*self._raw_decoder.decode(body))._replace(is_raw=True)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            raise DamagedError(f"block {block.key}", str(error)) from error
        return _of_one_size(block, opened)


def _of_one_size(block: Block, opened: _Opened) -> _Opened:
    columns = (opened.positions, opened.times, opened.metas, opened.events)
    require_one_size(f"block {block.key}", block.digests, opened.parts, *columns)
    return opened


def resolved(connection: sqlite3.Connection, compression: Compression, payload: bytes, what: str) -> bytes:
    """
    Return a payload with the large texts that it refers to.

    Raises:
        DamagedError: one of them is missing or was changed.
    """

    def text(key: int) -> str:
        found = connection.execute("SELECT hash, data FROM blob WHERE key = ?", (key,)).fetchone()
        if not found:
            raise DamagedError(f"blob {key}", f"it is missing, and {what} refers to it")
        return text_of(compression.expand(found[1], f"blob {key}"), found[0], f"blob {key}")

    return resolve_references(payload, text)


def _streams(opened: _Opened) -> Iterator[str]:
    return chain.from_iterable(repeat(part.stream, part.size) for part in opened.parts)


def _versions(opened: _Opened) -> Iterator[int]:
    return chain.from_iterable(range(part.first_version, part.first_version + part.size) for part in opened.parts)


def _names(opened: _Opened, places: range) -> list[str]:
    """Return the names of the events at some places of a block."""
    named = islice(zip(_streams(opened), _versions(opened), strict=True), places.start, places.stop)
    return [f"event {stream}@{version}" for stream, version in named]


def _metas(opened: _Opened, bounds: slice) -> list[Meta]:
    return [meta or NO_META for meta in opened.metas[bounds]]


def _digests(block: Block, start: int, stop: int) -> list[bytes]:
    return [
        block.digests[place : place + DIGEST_BYTES]
        for place in range(start * DIGEST_BYTES, stop * DIGEST_BYTES, DIGEST_BYTES)
    ]


def _placed(parts: Sequence[BlockPart]) -> Iterator[tuple[int, BlockPart]]:
    """Return parts with the index of their first events."""
    return zip(accumulate((part.size for part in parts), initial=0), parts, strict=False)


def _digests_before_parts(
    block: Block, opened: _Opened, places: range, chained: Place | DigestsBefore
) -> dict[int, bytes]:
    """Return the digests before those parts that begin within some places of a block, by the index where they begin."""
    if isinstance(chained, Place):
        return {chained.start: chained.before} if chained.start in places else {}
    parts = {place: part for place, part in _placed(opened.parts) if place in places}
    return dict(zip(parts, chained(block, parts), strict=True))


def _check_place(opened: _Opened, place: Place) -> None:
    """Check that a part is in its block where its row says, and that it begins with the event that its row says."""
    wanted, start = place.part, place.start
    what = f"part {wanted.stream}@{wanted.first_version}..{wanted.first_version + wanted.size - 1}"
    if (start, wanted) not in _placed(opened.parts):
        raise DamagedError(what, "it is not where its row says it is")
    if (opened.positions[start], opened.times[start]) != place.first:
        raise DamagedError(what, "its row has another position or time than its first event")
