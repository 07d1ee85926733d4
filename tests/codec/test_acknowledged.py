"""What a process knows of a log because it was acknowledged, and how it tells what is gone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from refold.domain.errors import Lost
from refold.domain.log.envelope import NO_META, RecordedEvent
from refold.domain.log.ports import Receipt, StreamEnd
from refold.domain.positions import Position
from refold.infrastructure.log import database_log
from refold.infrastructure.log.database_log import Acknowledged, AcknowledgedEnd, MissingDatabase, is_small
from refold.infrastructure.log.large_texts import LARGE_TEXT_BYTES
from refold.infrastructure.log.records import Draft, Part, Request


def event(stream: str, version: int, number: int, lane: int = 0) -> RecordedEvent:
    """Return an event at a place, whose digest names it."""
    digest = f"{stream}@{version}".encode()
    return RecordedEvent(stream, version, Position(lane, number), number, f"event {number}", NO_META, digest)


def receipts(*events: RecordedEvent) -> list[Receipt]:
    """Return the receipt of each event."""
    return [Receipt((one,)) for one in events]


class Events:
    """A database that has some events."""

    def __init__(self, *events: RecordedEvent) -> None:
        self._there = {(one.stream, one.version): one.digest for one in events}

    def heads(self, streams: Sequence[str]) -> list[int]:
        """Return the last version of each stream."""
        return [max((version for name, version in self._there if name == stream), default=0) for stream in streams]

    def digests(self, places: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the digest at each place."""
        return [self._there.get(one) for one in places]


A = [event("a", version, version) for version in (1, 2, 3)]
B = [event("b", 1, 4), event("b", 2, 5, lane=7)]


@pytest.mark.parametrize("are_small", [False, True])
def test_the_last_event_of_each_slice(are_small: bool) -> None:
    """It is the one with the highest position, whichever stream was named first; a repetition says nothing."""
    known = Acknowledged()
    known.note([Receipt((A[0], A[1])), Receipt((B[0],)), Receipt((A[2],))], are_small=are_small)
    known.note([Receipt((B[1],), True), Receipt(())], are_small=are_small)

    assert known.witness(0) == AcknowledgedEnd("b", 1, b"b@1", 4, 0)
    assert known.witness(7) is None
    known.note(receipts(B[1]), are_small=are_small)
    assert known.witness(7) == AcknowledgedEnd("b", 2, b"b@2", 5, 7)


def test_nothing_is_gone() -> None:
    """As long as each stream has its last event, whatever comes behind it."""
    known = Acknowledged()
    known.note(receipts(*A[:2], *B), are_small=True)

    assert known.lost(Events(*A, *B), {"a": StreamEnd(2)}) == []


def test_what_is_gone_is_told_once() -> None:
    """With the events that are kept, by their versions; a stream that is whole stays known."""
    known = Acknowledged()
    known.note(receipts(*A, *B), are_small=True)

    assert known.lost(Events(A[0], *B)) == [Lost("a@2", A[1].event), Lost("a@3", A[2].event)]
    assert known.lost(Events(A[0], *B)) == []
    assert known.witness(0) is None
    assert known.witness(7) == AcknowledgedEnd("b", 2, b"b@2", 5, 7)
    assert known.lost(MissingDatabase()) == [Lost("b@1", B[0].event), Lost("b@2", B[1].event)]


def test_other_events_in_their_place() -> None:
    """Those are named whose digest is another one, and what only a reader knows, without its event."""
    known = Acknowledged()
    known.note(receipts(*A[:2]), are_small=True)
    forged = RecordedEvent("a", 1, Position(0, 1), 1, "forged", NO_META, b"forged")

    lost = known.lost(Events(forged, A[1]), {"a": StreamEnd(3, b"a@3"), "b": StreamEnd(1)})

    assert lost == [Lost("a@1", A[0].event), Lost("a@3"), Lost("b@1")]
    error = known.went_back("here", Events(A[0]), "a", StreamEnd(2, b"a@2"))
    assert (error.stream, error.acknowledged, error.found) == ("a", 2, 1)
    assert [one.reference for one in error.lost] == ["a@2"]


def test_events_that_are_forgotten_are_still_missed() -> None:
    """Large ones are not kept, and erased ones leave the memory."""
    small, large = Acknowledged(), Acknowledged()
    small.note(receipts(*A), are_small=True)
    small.forget_events()
    large.note(receipts(*A))

    for known in (small, large):
        assert known.lost(MissingDatabase()) == [Lost("a@1"), Lost("a@2"), Lost("a@3")]


def test_few_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest events, and the newer half of the ends of streams."""
    monkeypatch.setattr(database_log, "ENDS_MAX", 4)
    monkeypatch.setattr(database_log, "RECENT_MAX", 2)
    known = Acknowledged()
    for number in range(1, 5):
        known.note(receipts(event(f"s{number}", 1, number)), are_small=True)
    assert len(known.lost(MissingDatabase())) == 4
    for number in range(1, 6):
        known.note(receipts(event(f"s{number}", 1, number)), are_small=True)

    assert [one.reference for one in known.lost(MissingDatabase())] == ["s3@1", "s4@1", "s5@1"]


def test_receipts_are_sorted_many_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """And before those of large events, which are not collected: the last event of a stream stays the last."""
    monkeypatch.setattr(database_log, "RECENT_MAX", 3)
    known, waiting = Acknowledged(), []
    for one in A:
        known.note(receipts(one), are_small=True)
        waiting.append(len(known._noted))
    assert waiting == [1, 2, 0]

    known = Acknowledged()
    known.note(receipts(A[0]), are_small=True)
    known.note(receipts(A[1]))

    assert known.lost(Events(A[0])) == [Lost("a@2")]


def test_small_requests() -> None:
    """Those in which each event is smaller than a large text."""
    small, large = (Draft("t", b"x" * size, b"", NO_META) for size in (LARGE_TEXT_BYTES - 1, LARGE_TEXT_BYTES))
    requests = [Request([]), Request([Part("a", 1, [small])]), Request([Part("a", 1, [small]), Part("b", 1, [large])])]

    assert [is_small(request) for request in requests] == [True, True, False]
    assert (MissingDatabase().heads(["a", "b"]), MissingDatabase().digests([("a", 1)])) == ([0, 0], [None])
