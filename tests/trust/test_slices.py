"""What is known of one slice: the versions and the contents of its segments."""

from types import SimpleNamespace
from typing import Any

import pytest

from refold.infrastructure.log.evidence import SEGMENT, SegmentRow, segment_of
from refold.infrastructure.trust.merkle import root_of
from refold.infrastructure.trust.slices import (
    END_BYTES,
    KEY_BYTES,
    VERSION_BYTES,
    SliceEvidence,
    View,
    contents_hash,
    sealed_by,
    stream_key,
)
from refold.infrastructure.trust.witness import NOTHING_SEEN, SliceSeen


def test_a_version_that_was_looked_up_stays_right() -> None:
    """While events are added, in the segment that is not full and in those that are."""
    slices = SliceEvidence()
    for number in range(1, SEGMENT + 3):
        stream = "chat:a" if number % 2 else "chat:b"
        slices.add(SimpleNamespace(stream=stream, version=(number + 1) // 2, digest=bytes([number % 7]) * 32))  # type: ignore[arg-type]
        assert slices.last_version(stream) == (number + 1) // 2
    assert slices.last_version("chat:c") == 0


def test_complete_segments_by_their_rows() -> None:
    """Each has its own contents; of a stream in several, the last version is that of the newest."""
    name, other = stream_key("chat:a"), stream_key("chat:b")
    ends = (name + (7).to_bytes(VERSION_BYTES), name + (9).to_bytes(VERSION_BYTES), other + (3).to_bytes(VERSION_BYTES))
    rows = [SegmentRow(number, bytes([number]) * 32, bytes([7 - number]) * 32, end) for number, end in enumerate(ends)]
    slices = SliceEvidence()
    for row in rows:
        slices.add_row(row)

    assert [slices.contents_of(number) for number in range(3)] == [row.contents for row in rows]
    assert (slices.segments, slices.count, slices.view) == (3, 3 * SEGMENT, (3 * SEGMENT, {}))
    assert [slices.last_version(stream) for stream in ("chat:a", "chat:b", "chat:c")] == [9, 3, 0]


def test_a_slice_that_is_looked_up_for_many_streams() -> None:
    """Few versions are kept in memory, and they are right."""
    slices = SliceEvidence()
    for number in range(1, 9):
        slices.add(SimpleNamespace(stream=f"chat:{number}", version=number, digest=bytes(32)))  # type: ignore[arg-type]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("refold.infrastructure.trust.slices.VERSIONS_KEPT_MAX", 3)
        assert [slices.last_version(f"chat:{number}") for number in range(1, 9)] == [*range(1, 9)]

    assert len(slices._versions) <= 3


def test_the_short_form_of_a_stream_across_two_entries() -> None:
    """It is no entry: the version is that of the entry before it, or none."""
    key, other = stream_key("chat:a"), bytes(KEY_BYTES)
    # The key stands here only by chance, behind what is an entry.
    across = other + b"\0\0" + key + bytes(2 * END_BYTES - KEY_BYTES - 2 - KEY_BYTES)
    before = key + (7).to_bytes(VERSION_BYTES)
    for ends, version in ((across, 0), (before + across, 7), (across + before, 7)):
        slices = SliceEvidence()
        slices.add_row(SegmentRow(0, bytes(32), bytes(32), ends))
        assert slices.last_version("chat:a") == version


def test_events_and_the_rows_of_their_segments() -> None:
    """Whoever has the rows and the events behind them knows the same as from all events."""
    digests = [number.to_bytes(32) for number in range(1, 2 * SEGMENT + 4)]
    events: list[Any] = [
        SimpleNamespace(stream=f"chat:{number % 3}", version=number, digest=digest)
        for number, digest in enumerate(digests, 1)
    ]
    one, other = SliceEvidence(), SliceEvidence()
    assert (one.view, one.seen()) == (View(0, {}), NOTHING_SEEN)

    added = [one.add(event) for event in events]
    rows = [row for row in added if row is not None]
    for row in rows:
        other.add_row(row)
    for event in events[2 * SEGMENT :]:
        assert other.add(event) is None

    assert [number for number, row in enumerate(added, 1) if row is not None] == [SEGMENT, 2 * SEGMENT]
    parts = [digests[:SEGMENT], digests[SEGMENT : 2 * SEGMENT]]
    assert [row[:3] for row in rows] == [(n, root_of(part), contents_hash(part)) for n, part in enumerate(parts)]
    sealed = sealed_by(rows[1], sealed_by(rows[0], NOTHING_SEEN.sealed))
    assert one.seen() == other.seen() == SliceSeen(len(digests), root_of(digests), sealed)
    assert one.view == other.view == View(2 * SEGMENT, dict(enumerate(digests[2 * SEGMENT :], 2 * SEGMENT + 1)))
    assert [segment_of(position) for position in (1, SEGMENT, SEGMENT + 1, 2 * SEGMENT)] == [0, 0, 1, 1]
