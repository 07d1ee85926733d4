"""Hashes of the events of each slice, to find out whether two databases have the same events."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from ...domain.log.envelope import RecordedEvent

_encode = msgspec.msgpack.Encoder().encode


class Tally:
    """The number of events of each slice so far, a hash of these events, and a hash of their digests."""

    def __init__(self) -> None:
        self.counts: dict[int, int] = {}
        self._contents: dict[int, Any] = {}
        self._digests: dict[int, Any] = {}

    @property
    def events(self) -> int:
        """The number of events."""
        return sum(self.counts.values())

    def add(self, number: int, one: RecordedEvent, payload: bytes) -> None:
        """Add the next event of a slice."""
        if number not in self.counts:
            self.counts[number] = 0
            self._contents[number], self._digests[number] = hashlib.blake2b(), hashlib.blake2b()
        self.counts[number] += 1
        self._contents[number].update(_encode((one.stream, one.version, one.recorded_at, one.meta, payload)))
        self._digests[number].update(one.digest)

    def differs(self, other: Tally) -> int | None:
        """Return a slice in which two logs differ; None if there is none."""
        for number in sorted(self.counts.keys() | other.counts.keys()):
            if self._digest(number) != other._digest(number):
                return number
        return None

    def _digest(self, number: int) -> bytes | None:
        return self._contents[number].digest() if number in self.counts else None

    def root(self) -> bytes:
        """Return a hash of all digests: of each slice its number, its count and the hash of its digests in order."""
        listed = [(number, count, self._digests[number].digest()) for number, count in sorted(self.counts.items())]
        return hashlib.blake2b(_encode(listed), digest_size=32).digest()
