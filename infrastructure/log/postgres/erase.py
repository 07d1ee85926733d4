"""
Erasing on PostgreSQL: payloads in rows and in blocks are replaced, and large texts deleted, in the transaction of an
append that holds the locks of all slices concerned.

Only sealing moves rows without such a lock. If a row became part of a block meanwhile, this is noticed, and the erasure
is repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ....domain.errors import ConcurrencyError
from ....domain.log.ports import Remnant
from ..block_body import DIGEST_BYTES, packed
from ..codec import encode_meta
from ..compression import REFERENCES, Compression, erased_form
from ..large_texts import references_in
from .blocks import BLOCK_AS_ROW, BLOCKS_OF_SLICE, PART_OF_VERSION, PARTS, Blocks, checksum_of
from .stored_events import PLACE
from .wire import Call, Rows, Wire, in_round_trips, int4, int8

ROW = "SELECT payload FROM event WHERE slice = $1 AND stream_key = $2 AND version = $3 AND digest = $4 FOR UPDATE"
REPLACE_ROW = "UPDATE event SET meta = $4, payload = $5 WHERE slice = $1 AND stream_key = $2 AND version = $3"
BLOCK_OF_VERSION = (
    f"SELECT p.start + $3 - p.first_version, {BLOCK_AS_ROW.format('p')} FROM {PARTS}"
    f" AND {PART_OF_VERSION.format(stream='$2', version='$3')} ORDER BY p.last_version LIMIT 1"
)
REPLACE_BLOCK = "UPDATE block SET body = $4, checksum = $5 WHERE slice = $1 AND last = $2 AND place = $3"
REFERRING = f"SELECT payload FROM event WHERE slice = $1 AND get_byte(payload, 0) & {REFERENCES} <> 0"
DELETE_TEXT = "DELETE FROM blob WHERE slice = $1 AND key = $2"
HAS_SNAPSHOTS = "SELECT to_regclass('snapshot')::text"
DELETE_SNAPSHOT = "DELETE FROM snapshot WHERE slice = $1 AND stream = $2"
# The row of the newest type is what other processes compare before each append: from now on they read again which large
# texts there are.
CHANGE_LINEAGE = "UPDATE tag SET name = name WHERE key = (SELECT max(key) FROM tag)"


class _Wanted(NamedTuple):
    """An event to be replaced, and the slice and key of its stream."""

    slice: int
    key: int
    remnant: Remnant

    @property
    def place(self) -> tuple[bytes, bytes, bytes]:
        """Slice, key and version in binary form."""
        return int4(self.slice), int4(self.key), int4(self.remnant.version)


class Eraser:
    """Replaces events of one log by what is left of them, over the connection of a transaction."""

    def __init__(self, wire: Wire, compression: Compression, blocks: Blocks) -> None:
        self._wire, self._compression, self._blocks = wire, compression, blocks
        # The slices and keys of the large texts to which erased events referred.
        self._texts: dict[int, set[int]] = {}

    def erase(self, remnants: Sequence[Remnant]) -> None:
        """
        Replace events, and delete what only they had: large texts, and the snapshots of their streams.

        Raises:
            ConcurrencyError: an event was replaced meanwhile, or is being moved into a block.
        """
        streams = sorted({one.stream for one in remnants})
        answers = self._run([Call(PLACE, (stream.encode(),)) for stream in streams])
        places = {stream: rows[0] for stream, rows in zip(streams, answers, strict=True) if rows}
        there = [(places[one.stream], one) for one in remnants if one.stream in places]
        wanted = [_Wanted(place[0], place[1], one) for place, one in there]
        if len(wanted) < len(remnants):
            gone = next(one for one in remnants if one.stream not in places)
            raise ConcurrencyError(gone.stream, expected=gone.version, actual=0)
        self._replace_in_blocks(self._replace_rows(wanted))
        ((snapshots,),) = self._run([Call(HAS_SNAPSHOTS)])[0]
        if snapshots:
            self._run([Call(DELETE_SNAPSHOT, (int4(lane), int4(key))) for lane, key in places.values()])
        for number, keys in self._texts.items():
            unused = keys.difference(self._texts_in_use(number))
            self._run([Call(DELETE_TEXT, (int4(number), int8(key))) for key in unused])
        self._run([Call(CHANGE_LINEAGE)])

    def _run(self, calls: Sequence[Call]) -> list[Rows]:
        return in_round_trips(self._wire.run, calls)

    def _replace_rows(self, wanted: Sequence[_Wanted]) -> list[_Wanted]:
        """Replace the events that are rows; return the others."""
        left: list[_Wanted] = []
        calls: list[Call] = []
        found = self._run([Call(ROW, (*one.place, one.remnant.digest)) for one in wanted])
        for one, rows in zip(wanted, found, strict=True):
            if not rows:
                left.append(one)
                continue
            self._note_texts(one.slice, rows[0][0], f"event {one.remnant.stream}@{one.remnant.version}")
            calls.append(
                Call(REPLACE_ROW, (*one.place, encode_meta(one.remnant.meta), erased_form(one.remnant.payload)))
            )
        self._run(calls)
        return left

    def _note_texts(self, number: int, stored: bytes, what: str) -> None:
        if stored[0] & REFERENCES:
            keys = references_in(self._compression.expand(stored, what))
            self._texts.setdefault(number, set()).update(keys)

    def _replace_in_blocks(self, wanted: Sequence[_Wanted]) -> None:
        by_block: dict[tuple[int, int, int], list[tuple[int, Remnant]]] = {}
        blocks: dict[tuple[int, int, int], Any] = {}
        found = self._run([Call(BLOCK_OF_VERSION, one.place) for one in wanted])
        for one, rows in zip(wanted, found, strict=True):
            if not rows:
                raise ConcurrencyError(one.remnant.stream, expected=one.remnant.version, actual=one.remnant.version)
            place, *block = rows[0]
            name = (block[0], block[3], block[2])
            blocks[name] = tuple(block)
            by_block.setdefault(name, []).append((place, one.remnant))
        for name, some in by_block.items():
            self._run([self._replaced(blocks[name], some)])

    def _replaced(self, block: Any, some: Iterable[tuple[int, Remnant]]) -> Call:
        number, _, place, last, first, digests, _, _ = block
        body = self._blocks.opened(block)
        for index, one in some:
            if digests[index * DIGEST_BYTES : (index + 1) * DIGEST_BYTES] != one.digest:
                raise ConcurrencyError(one.stream, expected=one.version, actual=one.version)
            self._note_texts(number, body.payloads[index], f"event {one.stream}@{one.version}")
            body.metas[index] = encode_meta(one.meta)
            body.payloads[index] = erased_form(one.payload)
        stored = packed(self._compression, body)
        checksum = checksum_of(number, first, last, place, digests, stored)
        return Call(REPLACE_BLOCK, (int4(number), int8(last), int4(place), stored, checksum))

    def _texts_in_use(self, number: int) -> Iterator[int]:
        """Yield the keys of the large texts to which events of a slice refer."""
        for (stored,) in self._run([Call(REFERRING, (int4(number),))])[0]:
            yield from references_in(self._compression.expand(stored, "an event"))
        last, place = 0, 0
        while rows := self._run([Call(BLOCKS_OF_SLICE, (int4(number), int8(last), int4(place)))])[0]:
            for block in rows:
                for stored in self._blocks.opened(block).payloads:
                    if stored[0] & REFERENCES:
                        yield from references_in(stored[1:])
            last, place = rows[-1][3], rows[-1][2]
