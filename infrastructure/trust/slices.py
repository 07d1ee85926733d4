"""
The evidence of one slice: what a process knows of its events from the witness, or from having written or read them.

512 positions are a segment. A complete one has a row in the database: its Merkle root, a hash of its digests in the
order of their bytes, and the last version of each stream in it. So the digests of a segment are checked by one hash, in
whatever order its blocks hold them, and the end of a stream is found without reading it. The rows prove nothing by
themselves: the witness has a hash over all of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...domain.log.envelope import RecordedEvent
from ..log.evidence import SEGMENT, SegmentRow
from .merkle import HASH_BYTES, GrowingTree, leaf_hash
from .witness import NOTHING_SEEN, SliceSeen

HEIGHT = SEGMENT.bit_length() - 1
KEY_BYTES = 16
VERSION_BYTES = 4
END_BYTES = KEY_BYTES + VERSION_BYTES
VERSIONS_KEPT_MAX = 10_000
_blake2b = hashlib.blake2b


def sealed_by(row: SegmentRow, before: bytes) -> bytes:
    """Return the hash over a row and all before it, given the hash over those."""
    return _blake2b(before + row.root + row.contents + row.ends, digest_size=HASH_BYTES).digest()


class View(NamedTuple):
    """The events of a slice that are known: all positions of complete segments, and single ones behind them."""

    complete: int
    tail: Mapping[int, bytes]


def contents_hash(digests: Iterable[bytes]) -> bytes:
    """Return the hash of the digests of a segment, which come in any order."""
    return _blake2b(b"".join(sorted(digests)), digest_size=HASH_BYTES).digest()


def stream_key(stream: str) -> bytes:
    """Return the short form of a stream's id."""
    return _blake2b(stream.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


class SliceEvidence:
    """The known events of one slice, from its beginning to position `count`; one thread at a time adds to it."""

    def __init__(self) -> None:
        self.count = 0
        self.sealed = NOTHING_SEEN.sealed
        self._tree, self._small = GrowingTree(), GrowingTree()
        self._contents = bytearray()
        self._ends = bytearray()
        self._tail_ends: dict[bytes, int] = {}
        self._tail: dict[int, bytes] = {}
        # Replaced as a whole when a segment is complete, so that a reader has one or the other.
        self.view = View(0, self._tail)
        # Versions that were looked up: they stay right while events are added.
        self._versions: dict[bytes, int] = {}

    @property
    def segments(self) -> int:
        """How many segments are complete."""
        return self.count // SEGMENT

    def seen(self) -> SliceSeen:
        """Return the slice as a checkpoint has it."""
        return SliceSeen(self.count, self._tree.root(self._small), self.sealed)

    def add_row(self, row: SegmentRow) -> None:
        """Add a complete segment by its row."""
        self._close(row)
        self.count += SEGMENT
        self.view = View(self.count, self._tail)

    def add(self, recorded: RecordedEvent) -> SegmentRow | None:
        """Add the event at the next position; return the row of the segment that it completes."""
        self.count += 1
        self._small.add(leaf_hash(recorded.digest))
        key = stream_key(recorded.stream)
        if key in self._versions:
            self._versions[key] = recorded.version
        self._tail_ends[key] = recorded.version
        # Last, because other threads read it meanwhile.
        self._tail[self.count] = recorded.digest
        if self.count % SEGMENT:
            return None
        ends = b"".join(name + version.to_bytes(VERSION_BYTES) for name, version in self._tail_ends.items())
        row = SegmentRow(self.segments - 1, self._small.root(), contents_hash(self._tail.values()), ends)
        self._small = GrowingTree()
        self._close(row)
        self._tail, self._tail_ends = {}, {}
        self.view = View(self.count, self._tail)
        return row

    def _close(self, row: SegmentRow) -> None:
        self._tree.add(row.root, HEIGHT)
        self._contents += row.contents
        self._ends += row.ends
        self.sealed = sealed_by(row, self.sealed)

    def contents_of(self, segment: int) -> bytes:
        """Return the hash of the digests of a complete segment."""
        return bytes(self._contents[segment * HASH_BYTES : (segment + 1) * HASH_BYTES])

    def last_version(self, stream: str) -> int:
        """Return the last known version of a stream; 0 if none of its events is known."""
        key = stream_key(stream)
        version = self._versions.get(key)
        if version is None:
            version = max(self._tail_ends.get(key, 0), self._ended(key))
            if len(self._versions) >= VERSIONS_KEPT_MAX:
                self._versions.clear()
            self._versions[key] = version
        return version

    def _ended(self, key: bytes) -> int:
        """Return the last version of a stream in complete segments, the newest of which are looked at first."""
        end = len(self._ends)
        while (place := self._ends.rfind(key, 0, end)) >= 0:
            if place % END_BYTES == 0:
                return int.from_bytes(self._ends[place + KEY_BYTES : place + END_BYTES])
            # The bytes stand across two entries.
            end = place + KEY_BYTES - 1
        return 0
