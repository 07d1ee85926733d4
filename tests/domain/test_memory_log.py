"""The log in memory, where another log's tests do not reach: events that are erased."""

from typing import Any

import msgspec
import pytest

from refold.domain.errors import ConcurrencyError
from refold.domain.log.envelope import NO_META, encode_payload
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import NewEvents, Remnant
from refold.domain.positions import BEGINNING
from tests.contract.writing import append, new, said

A, B = "chat:a", "chat:b"


@pytest.fixture
def log() -> MemoryLog:
    """A log with three events of a stream, the last two under a key, and one of another in between."""
    log = MemoryLog()
    append(log, A, said(1))
    append(log, B, said(2))
    log.append([new(A, said(3), said(4), key="k")]).result()
    log.keep_snapshot(A, lambda: b"a")
    log.keep_snapshot(B, lambda: b"b")
    return log


def remnant(log: MemoryLog, version: int, /, **changed: Any) -> Remnant:
    """Return what is left of an event of the first stream."""
    (recorded,) = log.read(A, after=version - 1, until=version)
    event = msgspec.structs.replace(recorded.event, content="[erased]")
    left = Remnant(A, version, recorded.digest, event, recorded.meta, encode_payload(event))
    return left._replace(**changed)


def test_what_is_left_of_an_event(log: MemoryLog) -> None:
    """It is read in every way, with its place, time and digest; the snapshot of its stream is gone, and no other."""
    before = log.read_all(after=BEGINNING, limit=9).events
    news = log.news.count
    record = NewEvents(stream=B, expected_version=1, events=(said(5),), metas=(NO_META,))
    (receipt,) = log.erase([remnant(log, 2)], [record])

    left = [msgspec.structs.replace(one, event=remnant(log, 2).event) if one.version == 2 else one for one in before]
    assert log.read_all(after=BEGINNING, limit=9).events == [*left, *receipt.events]
    assert log.read(A) == [one for one in left if one.stream == A]
    assert log.read(B) == [before[1], *receipt.events]
    assert log.recorded_under(A, "k") == log.read(A)[1:]
    assert (log.snapshot(A), log.snapshot(B), log.news.count) == (None, b"b", news + 1)
    assert log.streams_with_snapshot() == [B]


@pytest.mark.parametrize(
    ("version", "changed", "told"),
    [(2, {"digest": b"x" * 32}, (2, 3)), (3, {"version": 4}, (4, 3)), (1, {"stream": "chat:x"}, (1, 0))],
)
def test_another_event_is_not_erased(log: MemoryLog, version: int, changed: Any, told: tuple[int, int]) -> None:
    """Nothing has changed then."""
    before = log.read_all(after=BEGINNING, limit=9).events
    with pytest.raises(ConcurrencyError) as caught:
        log.erase([remnant(log, 1), remnant(log, version, **changed)], [])

    assert (caught.value.expected, caught.value.actual) == told
    assert (log.read_all(after=BEGINNING, limit=9).events, log.snapshot(A)) == (before, b"a")


def test_a_guard_sees_what_is_left(log: MemoryLog) -> None:
    """It may refuse it, and the events that name it."""
    seen: list[Any] = []

    def refuse(events: Any) -> None:
        seen.extend(events)
        raise ValueError("no")

    left = remnant(log, 1)
    log.guard_by(refuse)
    with pytest.raises(ValueError, match="no"):
        log.erase([left], [])

    assert (seen, log.read(A, until=1)[0].event) == ([left.event], said(1))


def test_what_a_log_in_memory_does_not_have(log: MemoryLog) -> None:
    """No files, and nothing that can be damaged; what is stored is what was given."""
    found = (log.scrub, log.files, log.damaged_files, log.damaged_texts, log.damaged_rows, log.doubtful_streams)

    assert [one() for one in found] == [[]] * 6
    assert log.sealed_payload(A, 1, NO_META, b"x") == (NO_META, b"x")
    assert [tuple(row) for row in log.idempotency_keys()] == [(A, "k", 2, 3)]
