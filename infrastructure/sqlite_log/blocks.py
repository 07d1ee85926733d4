"""
Opening sealed blocks: checking, expanding, decoding.

All of a block is decoded in one go; where only a few events of a long part are wanted, only these.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain, islice, repeat
from typing import Any, NamedTuple

import msgspec

from ...domain.envelope import NO_META, Event, Meta, RecordedEvent
from ...domain.errors import DamagedError
from ...domain.positions import Position
from ..codec import Codec
from ..compression import Compression, has_references
from ..texts import resolve_references, text_of
from .sealing import Block, BlockPart, checked_body

__all__ = ["ALL", "DIGEST_BYTES", "ONE_SEQUENCE", "BlockReader", "Place", "resolved"]

ONE_SEQUENCE = -1
DIGEST_BYTES = 32
ALL = slice(None)
BLOCKS_KEPT = 4
# In a block of short parts the next is likely to be wanted soon; of a long one, so small a share is all there is to it.
SMALL_SHARE = 4
# A part of a block, and the place of its first event among the block's.
Place = tuple[BlockPart, int]


class _Opened(NamedTuple):
    """What lies in a block, column by column; with `is_raw` the events are not decoded yet."""

    parts: list[BlockPart]
    positions: list[int]
    times: list[int]
    metas: list[Meta | None]
    events: list[Any]
    is_raw: bool = False


class BlockReader:
    """Opens the blocks of one log; may be used by any number of threads."""

    def __init__(self, codec: Codec, compression: Compression) -> None:
        self._codec = codec
        self._compression = compression
        # The blocks that were looked at last, the newest first; replaced as a whole: several threads read at once.
        self._opened: tuple[tuple[Block, _Opened], ...] = ()
        shape = tuple[list[BlockPart], list[int], list[int], list[Meta | None], list[codec.events]]  # type: ignore[name-defined]
        raw_shape = tuple[list[BlockPart], list[int], list[int], list[Meta | None], list[msgspec.Raw]]
        self._decoder = msgspec.msgpack.Decoder(shape)
        self._raw_decoder = msgspec.msgpack.Decoder(raw_shape)

    def events(
        self, connection: sqlite3.Connection, block: Block, bounds: slice, place: Place | None = None
    ) -> list[Event]:
        """
        Return the events within some bounds of a block; with `place`, the block must have that part there.

        Raises:
            DamagedError: it has not, or is not what was written.
        """
        return self._decoded(connection, block, self._open(block, bounds, place), bounds)

    def recorded(
        self, connection: sqlite3.Connection, block: Block, bounds: slice, place: Place | None = None
    ) -> list[RecordedEvent]:
        """
        Return what `events` does with the envelopes.
        """
        opened = self._open(block, bounds, place)
        events = self._decoded(connection, block, opened, bounds)
        start, stop, _ = bounds.indices(len(opened.events))
        named = islice(_streams(opened), start, stop), islice(_versions(opened), start, stop)
        places = map(Position, repeat(ONE_SEQUENCE), opened.positions[bounds])
        metas = [meta or NO_META for meta in opened.metas[bounds]]
        digests = [block.digests[n * DIGEST_BYTES : (n + 1) * DIGEST_BYTES] for n in range(start, stop)]
        # Every log is read as a whole at times: `map` makes an envelope in two thirds of the time of a loop.
        return list(map(RecordedEvent, *named, places, opened.times[bounds], events, metas, digests))

    def _decoded(self, connection: sqlite3.Connection, block: Block, opened: _Opened, bounds: slice) -> list[Event]:
        if not opened.is_raw:
            return opened.events[bounds]
        start, stop, _ = bounds.indices(len(opened.events))
        named = islice(zip(_streams(opened), _versions(opened), strict=True), start, stop)
        whats = [f"event {stream}@{version}" for stream, version in named]
        payloads = map(bytes, opened.events[bounds])
        if has_references(block.body):
            payloads = map(resolved, repeat(connection), repeat(self._compression), payloads, whats)
        return list(map(self._codec.decode, payloads, whats))

    def _open(self, block: Block, bounds: slice, place: Place | None) -> _Opened:
        """A fork's ancestors are read one after the other, and a block often holds the end of one and the next."""
        # All of it is compared: what was damaged since is not what was opened.
        kept = self._opened
        known = next((pair for pair in kept if pair[0].key == block.key and pair[0] == block), None)
        if known is None:
            known = (block, self._open_unknown(block, is_whole=place is None or _is_much(bounds, place[0])))
        if not kept or known is not kept[0]:
            self._opened = (known, *[pair for pair in kept if pair is not known][: BLOCKS_KEPT - 1])
        opened = known[1]
        if place is not None:
            _check_place(opened.parts, *place)
        return opened

    def _open_unknown(self, block: Block, *, is_whole: bool) -> _Opened:
        body = checked_body(self._compression, block)
        opened = None
        if is_whole:
            # Some may be of an older form, or refer to large texts: then they are decoded one by one.
            with suppress(msgspec.ValidationError):
                opened = _Opened(*self._decoder.decode(body))
        if opened is None:
            opened = _Opened(*self._raw_decoder.decode(body))._replace(is_raw=True)
        sizes = {len(opened.positions), len(opened.times), len(opened.metas), len(opened.events)}
        if sizes | {sum(part.size for part in opened.parts)} != {len(block.digests) // DIGEST_BYTES}:
            raise DamagedError(f"block {block.key}", "its columns are of different lengths")
        return opened


def resolved(connection: sqlite3.Connection, compression: Compression, payload: bytes, what: str) -> bytes:
    """
    Return a payload with the large texts that it refers to.

    Raises:
        DamagedError: one of them is missing, or is not what was written.
    """

    def text(key: int) -> str:
        found = connection.execute("SELECT hash, data FROM blob WHERE key = ?", (key,)).fetchone()
        if not found:
            raise DamagedError(f"blob {key}", f"it is missing, and {what} refers to it")
        return text_of(compression.expand(found[1], f"blob {key}"), found[0], f"blob {key}")

    return resolve_references(payload, text)


def _is_much(bounds: slice, part: BlockPart) -> bool:
    return bool((bounds.stop - bounds.start) * SMALL_SHARE > part.size)


def _streams(opened: _Opened) -> Iterator[str]:
    return chain.from_iterable(repeat(part.stream, part.size) for part in opened.parts)


def _versions(opened: _Opened) -> Iterator[int]:
    return chain.from_iterable(range(part.first_version, part.first_version + part.size) for part in opened.parts)


def _check_place(parts: list[BlockPart], wanted: BlockPart, start: int) -> None:
    """See to it that a part lies in its block where its row says it does."""
    before = parts[: parts.index(wanted)] if wanted in parts else None
    if before is None or sum(part.size for part in before) != start:
        what = f"part {wanted.stream}@{wanted.first_version}..{wanted.first_version + wanted.size - 1}"
        raise DamagedError(what, "it is not where its row says it is")
