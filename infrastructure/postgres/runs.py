"""
Runs: 64 consecutive events of a stream, whose stored payloads have one checksum between them.

An event's own digest costs as much to check as to fetch and decode the event. One SHA-256 over the stored bytes
of 64 does for whoever wants the events without their envelopes: it is computed as they are appended, versions 1
to 64, 65 to 128 and so on. Where a writer was not there from a run's beginning it has no checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

__all__ = ["RUN", "RunHash", "begin_run", "run_checksum"]

RUN = 64


class RunHash(Protocol):
    """What `hashlib` gives."""

    def update(self, data: bytes, /) -> None: ...
    def digest(self) -> bytes: ...
    def copy(self) -> RunHash: ...


def begin_run(stream: str, first_version: int) -> RunHash:
    """
    Return the hash of a run without any payload yet: it covers where the run lies.
    """
    return hashlib.sha256(f"{stream}@{first_version}".encode())


def run_checksum(stream: str, first_version: int, stored: Sequence[bytes]) -> bytes:
    """
    Return the checksum of a whole run.
    """
    run = begin_run(stream, first_version)
    run.update(b"".join(stored))
    return run.digest()
