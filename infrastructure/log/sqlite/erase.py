"""
Erasing on SQLite: payloads in rows and in blocks are replaced, and large texts deleted, in the caller's transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from ....domain.concurrency.known_types import known
from ....domain.errors import ConcurrencyError
from ....domain.log.ports import Remnant
from ..block_body import DIGEST_BYTES, packed
from ..codec import encode_meta
from ..compression import PLAIN, REFERENCES, ZSTD, Compression, erased_form, has_references, mark_references
from ..large_texts import references_in
from .blocks import Block, BlockBody, BlockPart, checked_body, checksum_of
from .connection import first_value
from .read import BLOCK_COLUMNS, KEY_OF_STREAM
from .side_tables import delete_snapshots

ROW = "SELECT payload FROM event WHERE stream = ? AND version = ? AND digest = ?"
REPLACE_ROW = "UPDATE event SET meta = ?, payload = ? WHERE stream = ? AND version = ?"
PLACE_IN_BLOCK = (
    "SELECT block, start + ? - first_version FROM part WHERE stream = ? AND last_version >= ? AND first_version <= ?"
    " ORDER BY last_version LIMIT 1"
)
BLOCK = f"SELECT {BLOCK_COLUMNS} FROM block WHERE key = ?"
REPLACE_BLOCK = "UPDATE block SET checksum = ?, body = ? WHERE key = ?"
REFERRING = ", ".join(f"x'{mark | REFERENCES:02x}'" for mark in (PLAIN, ZSTD))
ROWS_REFERRING = f"SELECT payload FROM event WHERE substr(payload, 1, 1) IN ({REFERRING})"
BLOCKS_REFERRING = f"SELECT {BLOCK_COLUMNS} FROM block WHERE substr(body, 1, 1) IN ({REFERRING})"
NIL = msgspec.Raw(b"\xc0")
_Raws = list[msgspec.Raw]
_DECODER: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(
    known(tuple[list[BlockPart], list[int], list[int], _Raws, _Raws])
)


class Eraser:
    """Replaces events of one log by what is left of them."""

    def __init__(self, compression: Compression, connection: sqlite3.Connection) -> None:
        self._compression = compression
        self._connection = connection
        # The keys of the large texts to which erased events referred.
        self._texts: set[int] = set()

    def erase(self, remnants: Sequence[Remnant]) -> None:
        """
        Replace events, and delete what only they had: large texts, and the snapshots of their streams.

        Raises:
            ConcurrencyError: an event was replaced meanwhile.
        """
        in_blocks: dict[int, list[tuple[int, Remnant]]] = {}
        streams = {one.stream for one in remnants}
        keys = {stream: first_value(self._connection, KEY_OF_STREAM, stream) for stream in streams}
        for one in remnants:
            key = keys[one.stream]
            if self._replace_row(key, one):
                continue
            found = self._connection.execute(PLACE_IN_BLOCK, (one.version, key, one.version, one.version)).fetchone()
            if found is None:
                raise ConcurrencyError(one.stream, expected=one.version, actual=one.version)
            in_blocks.setdefault(found[0], []).append((found[1], one))
        for number, some in in_blocks.items():
            self._replace_in_block(Block(*self._connection.execute(BLOCK, (number,)).fetchone()), some)
        delete_snapshots(self._connection, keys.values())
        if self._texts:
            unused = self._texts.difference(self._texts_in_use())
            self._connection.executemany("DELETE FROM blob WHERE key = ?", [(key,) for key in unused])

    def _replace_row(self, key: int, one: Remnant) -> bool:
        stored = first_value(self._connection, ROW, key, one.version, one.digest)
        if stored is None:
            return False
        if has_references(stored):
            self._texts.update(references_in(self._compression.expand(stored, f"event {one.stream}@{one.version}")))
        values = (encode_meta(one.meta), erased_form(one.payload), key, one.version)
        self._connection.execute(REPLACE_ROW, values)
        return True

    def _replace_in_block(self, block: Block, some: Iterable[tuple[int, Remnant]]) -> None:
        body = BlockBody(*_DECODER.decode(checked_body(self._compression, block)))
        refers = has_references(block.body)
        for place, one in some:
            if block.digests[place * DIGEST_BYTES : (place + 1) * DIGEST_BYTES] != one.digest:
                raise ConcurrencyError(one.stream, expected=one.version, actual=one.version)
            if refers:
                self._texts.update(references_in(bytes(body.payloads[place])))
            meta = encode_meta(one.meta)
            body.metas[place] = NIL if meta is None else msgspec.Raw(meta)
            body.payloads[place] = msgspec.Raw(one.payload)
        stored = packed(self._compression, body)
        if refers and any(references_in(bytes(payload)) for payload in body.payloads):
            stored = mark_references(stored)
        checksum = checksum_of(block.segment, block.digests, stored)
        self._connection.execute(REPLACE_BLOCK, (checksum, stored, block.key))

    def _texts_in_use(self) -> Iterator[int]:
        """Yield the keys of the large texts to which events refer, as far as they are among those looked for."""
        for (stored,) in self._connection.execute(ROWS_REFERRING):
            yield from references_in(self._compression.expand(stored, "an event"))
        for columns in self._connection.execute(BLOCKS_REFERRING):
            body = BlockBody(*_DECODER.decode(checked_body(self._compression, Block(*columns))))
            for payload in body.payloads:
                yield from references_in(bytes(payload))
