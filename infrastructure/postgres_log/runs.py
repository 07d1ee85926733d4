"""
Runs: 64 consecutive events of a stream that have one checksum between them.

An event's own digest costs as much to check as to fetch and decode the event. One SHA-256 over the rows of 64, as
they lie in the database, costs a quarter of that. It is computed as they are appended, for versions 1 to 64, 65 to
128 and so on; a run whose beginning its writer did not see has none, and there the digests are checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from struct import Struct
from typing import Protocol

__all__ = ["RUN", "RunHash", "begin_run", "covered", "run_checksum"]

RUN = 64
_place_and_sizes = Struct("!qqII").pack
# Position, time, meta, payload as stored, digest.
Stored = tuple[int, int, bytes | None, bytes, bytes]


class RunHash(Protocol):
    """What `hashlib` gives."""

    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...


def begin_run(number: int, stream: str, first_version: int) -> RunHash:
    """
    Return the hash of a run without events; it covers where the run lies: slice, stream, versions.
    """
    return hashlib.sha256(f"{number}.{stream}@{first_version}".encode())


def covered(position: int, recorded_at: int, meta: bytes | None, payload: bytes, digest: bytes) -> bytes:
    """
    Return what a run's checksum covers of one event: all that reading it gives, as it is stored.
    """
    packed = meta or b""
    return _place_and_sizes(position, recorded_at, len(packed), len(payload)) + packed + payload + digest


def run_checksum(number: int, stream: str, first_version: int, events: Iterable[Stored]) -> bytes:
    """
    Return the checksum of a whole run.
    """
    parts: list[bytes] = []
    for position, recorded_at, meta, payload, digest in events:
        packed = meta or b""
        parts += (_place_and_sizes(position, recorded_at, len(packed), len(payload)), packed, payload, digest)
    run = begin_run(number, stream, first_version)
    run.update(b"".join(parts))
    return run.digest()
