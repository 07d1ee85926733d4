"""
The content of a block: up to 64 older events, column by column, compressed together, under one checksum.

Payloads, metas and digests are kept byte for byte (docs/adr/0003). Each database has its own columns, and its own way
to find a block: see `blocks.py` there.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import msgspec

from ...domain.errors import DamagedError, RefoldError
from .compression import Compression, expanded_size

DIGEST_BYTES = 32
BLOCK_EVENTS = 64
BLOCK_BYTES_MAX = 1 << 20
_ENCODER = msgspec.msgpack.Encoder()
T = TypeVar("T")


class OvertakenError(RefoldError):
    """Another process was faster; there is nothing left to do."""


def packed(compression: Compression, body: Sequence[Any]) -> bytes:
    """Return a body in its stored form."""
    return compression.shrink_block(_ENCODER.encode(body))


def bounded(rows: Sequence[T], payload_and_meta: Callable[[T], tuple[bytes, bytes | None]]) -> Sequence[T]:
    """Return as many of the first rows as fit into a block, but at least one."""
    size = 0
    for count, row in enumerate(rows[:BLOCK_EVENTS]):
        payload, meta = payload_and_meta(row)
        size += expanded_size(payload) + len(meta or b"")
        if count and size > BLOCK_BYTES_MAX:
            return rows[:count]
    return rows[:BLOCK_EVENTS]


def in_blocks(rows: Sequence[T], payload_and_meta: Callable[[T], tuple[bytes, bytes | None]]) -> Iterator[Sequence[T]]:
    """Yield as many rows at a time as fit into a block."""
    while rows:
        some = bounded(rows, payload_and_meta)
        yield some
        rows = rows[len(some) :]


def runs(named: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each run of consecutive versions of one stream; rows are given as stream and version."""
    start = 0
    for end in range(1, len(named) + 1):
        if end == len(named) or named[end] != (named[end - 1][0], named[end - 1][1] + 1):
            yield start, end
            start = end


def block_checksum(place: bytes, digests: bytes, body: bytes) -> bytes:
    """Return the checksum that a block must have: blake2b-256 over its place, its digests and its body."""
    return hashlib.blake2b(place + digests + body, digest_size=32).digest()


def require_one_size(what: str, digests: bytes, parts: Sequence[tuple[Any, int, int]], *columns: Sequence[Any]) -> None:
    """
    Check that the columns of a block are of the same length.

    Raises:
        DamagedError: they are not; `what` names the block.
    """
    sizes = {len(column) for column in columns}
    if sizes | {sum(part[2] for part in parts)} != {len(digests) // DIGEST_BYTES}:
        raise DamagedError(what, "its columns are of different lengths")
