"""A log on top of another one's past: reads go through it, writes stay above."""

import pytest

from refold.domain.clock import REAL_SYSTEM
from refold.domain.errors import ConcurrencyError, DecisionRefusedError
from refold.domain.log.envelope import Meta
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.overlay_log import OverlayLog
from refold.domain.log.ports import NewEvents, Range, StreamEnd
from refold.domain.positions import BEGINNING, Moment
from tests.contract.writing import NO_META, append, ids, new, said
from tests.support.effort import CountedLock

A, B, C = "chat:a", "chat:b", "chat:c"


@pytest.fixture
def below() -> MemoryLog:
    """A log with three events of one stream, two of them past, and two of another that begins later."""
    log = MemoryLog()
    append(log, A, said(1), said(2))
    append(log, A, said(3))
    append(log, B, said(4), said(5))
    return log


def over(below: MemoryLog, number: int = 2) -> OverlayLog:
    """Return what lies over a log as it was at a position."""
    return OverlayLog(below, Moment(((-1, number),)), REAL_SYSTEM)


def begun(log: OverlayLog, stream: str, *numbers: int, expected: int = 0) -> None:
    """Append messages to a stream."""
    events = tuple(map(said, numbers))
    metas = (NO_META,) * len(events)
    new = NewEvents(stream=stream, expected_version=expected, events=events, metas=metas, root="r")
    log.append([new]).result()


def test_the_past_is_cut(below: MemoryLog) -> None:
    """Every way of reading ends where the moment is, also where nothing is said of an end, or a later one."""
    log = over(below)

    assert (log.head(A), log.head(B), log.head("chat:x")) == (2, 0, 0)
    for until in (None, 2, 3, 99):
        assert ids(log.read_events(A, until=until)) == ["m1", "m2"]
        assert [one.version for one in log.read(A, until=until)] == [1, 2]
    assert ids(log.read_events(A, after=1)) == ["m2"]
    assert ids(log.read_events(A, until=1)) == ["m1"]
    assert log.read_events(A, after=2) == log.read(B) == log.read_events(B, until=2) == []
    assert list(map(ids, log.read_ranges([Range(A, 0, 9), Range(B, 0, 9), Range(A, 1, 2)]))) == [
        ["m1", "m2"],
        [],
        ["m2"],
    ]


@pytest.mark.parametrize("moment", [BEGINNING, Moment(((-1, 1),)), Moment(((-1, 99),))])
def test_any_moment(below: MemoryLog, moment: Moment) -> None:
    """Before the beginning there is nothing; beyond the end there is what there is now, and no more later."""
    log = OverlayLog(below, moment, REAL_SYSTEM)
    head = min(3, moment.head(-1))

    assert (log.head(A), log.version_at(A, Moment(((-1, 99),)))) == (head, head)
    append(below, A, said(9))
    assert (log.head(A), len(log.read(A))) == (head, head)


def test_a_time(below: MemoryLog) -> None:
    """Microseconds cut every stream at the last event that was recorded by then."""
    last = below.read(B)[-1].recorded_at

    assert OverlayLog(below, last, REAL_SYSTEM).head(B) == 2
    assert OverlayLog(below, 1, REAL_SYSTEM).head(A) == 0


def test_new_streams_lie_above(below: MemoryLog) -> None:
    """They can be read in every way, among those below; the log below does not know them, and may have its own."""
    log = over(below)
    begun(log, C, 7)
    begun(log, B, 8)
    begun(log, C, 9, expected=1)

    assert (log.head(C), ids(log.read_events(C)), ids(log.read_events(B))) == (2, ["m7", "m9"], ["m8"])
    ranges = [Range(C, 0, 2), Range(A, 0, 2), Range(C, 1, 2)]
    assert list(map(ids, log.read_ranges(ranges))) == [["m7", "m9"], ["m1", "m2"], ["m9"]]
    assert log.version_at(C, Moment(((-1, 99),))) == 2
    assert (below.head(C), below.head(B)) == (0, 2)


def test_the_past_cannot_grow(below: MemoryLog) -> None:
    """An append to a stream below is refused, and with it the whole batch."""
    log = over(below)
    batch = [
        NewEvents(stream=stream, expected_version=version, events=(said(6),), metas=(NO_META,))
        for stream, version in ((C, 0), (A, 2))
    ]

    with pytest.raises(DecisionRefusedError, match="chat:a can only be read here"):
        log.append(batch).result()
    assert (log.head(C), log.head(A), log.finish()) == (0, 2, [])


def test_a_stale_writer(below: MemoryLog) -> None:
    """Is told, and begins no stream that way."""
    log = over(below)

    with pytest.raises(ConcurrencyError):
        begun(log, C, 7, expected=3)
    assert log.finish() == []


def test_what_was_appended_is_given_back(below: MemoryLog) -> None:
    """Each stream from its beginning, without keys, in the order they began in; then nothing more is taken."""
    log = over(below)
    begun(log, C, 7)
    append_with_key = NewEvents(
        stream=B,
        expected_version=0,
        events=(said(8),),
        metas=(Meta(idempotency_key="k", fingerprint=b"f"),),
        root="b",
        idempotency_key="k",
    )
    log.append([append_with_key]).result()
    begun(log, C, 9, expected=1)

    given = log.finish()

    assert [(new.stream, new.expected_version, ids(new.events), new.root) for new in given] == [
        (C, 0, ["m7", "m9"], "r"),
        (B, 0, ["m8"], "b"),
    ]
    assert {new.idempotency_key for new in given} == {None}
    assert {meta for new in given for meta in new.metas} == {NO_META}
    with pytest.raises(DecisionRefusedError, match="takes nothing more"):
        begun(log, C, 10, expected=2)
    log.reopen()
    begun(log, C, 10, expected=2)
    assert ids(log.read_events(C)) == ["m7", "m9", "m10"]


def test_what_is_under_a_key(below: MemoryLog) -> None:
    """Here and below, there up to the moment."""
    below.append([new(A, said(8), key="later")])
    record = below.append([new("chat:k", said(9), key="k")]).result()[0]
    log = over(below, 9)
    log.append([new(C, said(7), key="k")])

    assert log.recorded_under(C, "k") == log.read(C)
    assert log.recorded_under("chat:k", "k") == list(record.events)
    assert [log.recorded_under(*name) for name in ((C, "x"), ("chat:k", "x"), (A, "k"))] == [[], [], []]
    assert [over(below, number).recorded_under("chat:k", "k") for number in (5, 6)] == [[], []]
    assert over(below, 7).recorded_under("chat:k", "k") == list(record.events)


def test_the_end_of_a_stream(below: MemoryLog) -> None:
    """What was appended here has its digest; what lies below has none, as its writers go on from another end."""
    log = over(below)
    begun(log, C, 7)

    assert (log.end(A), log.end(B)) == (StreamEnd(2), StreamEnd(0))
    assert log.end(C) == StreamEnd(1, log.read(C)[0].digest)


def test_an_append_takes_the_lock(below: MemoryLog) -> None:
    """And so does the end: nothing is appended while what there is is given back."""
    log = over(below)
    log._lock = lock = CountedLock()  # type: ignore[assignment]
    begun(log, C, 7)
    log.finish()

    assert lock.taken == 2


def test_snapshots(below: MemoryLog) -> None:
    """What is kept of a stream that was begun here stays here; the log below has those of its own streams."""
    log = over(below)
    begun(log, C, 7)
    below.keep_snapshot(A, lambda: b"below")
    log.keep_snapshot(C, lambda: b"here")
    log.finish()

    assert (log.snapshot(A), log.snapshot(C)) == (b"below", b"here")
    assert (below.snapshot(A), below.snapshot(C)) == (b"below", None)
