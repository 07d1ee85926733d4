"""The port by which a log asks for facts about its events from outside of the database: see infrastructure/trust."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from ...domain.errors import TamperedError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import Receipt
from ...domain.positions import Position

SEGMENT = 512


class Evidence(Protocol):
    """The known facts about events: from a witness of the checkpoints, or because this process wrote them."""

    def note(self, receipts: Sequence[Receipt]) -> None:
        """Note events that this process has committed; every append calls it, so it does nothing else."""

    def require_one(self, lane: int, position: int, digest: bytes) -> None:
        """
        Require that an event that was read is the one that is known.

        Raises:
            TamperedError: another event is known at its position.
        """

    def require(self, lane: int, positions: Sequence[int], digests: Sequence[bytes]) -> bool:
        """
        Require that events that were read, of one slice and with these digests, are those that are known.

        Returns whether all of them are known for ever, so that the same bytes need not be compared again.

        Raises:
            TamperedError: another event is known at one of the positions.
        """

    def last_version(self, stream: str, lane: int | None) -> int:
        """
        Return the last version that is known of a stream; 0 if none is. Ask before reading, for others may write.

        Its slice is None if the database does not know the stream.
        """

    def ends(self) -> Mapping[int, int]:
        """Return the last positions of slices that are known. Ask before reading, for others may write."""

    def is_authentic(self, stream: str, packed: bytes) -> bool:
        """Return whether a snapshot that was read is one of this log's own; nothing else vouches for it."""

    def note_snapshot(self, stream: str, packed: bytes) -> None:
        """Note a snapshot that is about to be stored."""


class SegmentRow(NamedTuple):
    """A complete segment: its Merkle root, the hash of its digests, and the ends of the streams in it."""

    number: int
    root: bytes
    contents: bytes
    ends: bytes


def place(lane: int, position: int) -> str:
    """Return a position as people see it."""
    return str(Position(lane, position))


def segment_of(position: int) -> int:
    """Return the number of the segment that holds a position."""
    return (position - 1) // SEGMENT


def require_version(stream: str, found: int, known: int) -> None:
    """
    Require that a stream reaches the version that is known.

    Raises:
        TamperedError: it ends before.
    """
    if found < known:
        raise TamperedError(f"event {stream}@{found + 1}", f"it is missing, and version {known} is known")


def require_ends(found: Mapping[int, int], known: Mapping[int, int]) -> None:
    """
    Require that slices, given with their last positions, have no fewer events than are known.

    Raises:
        TamperedError: one of them has fewer.
    """
    for lane, end in known.items():
        if found.get(lane, 0) < end:
            what = f"position {place(lane, found.get(lane, 0) + 1)}"
            reason = f"the log ends before it, and {place(lane, end)} is known: its end was cut off, or an older copy"
            raise TamperedError(what, f"{reason} was put back")


def require_boundary(
    read: Callable[..., Sequence[RecordedEvent]], version: int, is_in: Callable[[RecordedEvent], bool]
) -> None:
    """
    Require that a version of a stream is the last one of a moment: the columns that were searched have no digest.

    `read` returns the events of the stream, checked against what is known.

    Raises:
        TamperedError: it is not.
    """
    for recorded in read(after=max(version - 1, 0), until=version + 1):
        if is_in(recorded) != (recorded.version <= version):
            raise TamperedError(f"event {recorded.reference}", "its place or time is another one in its row")
