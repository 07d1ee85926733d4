"""What an append costs in round trips: one, once the process knows where the stream ends."""

from typing import NoReturn

import pytest

import refold
from refold.domain.chat.context import ChatContext
from refold.domain.errors import ConcurrencyError
from refold.domain.log.envelope import Meta
from refold.domain.log.ports import NewEvents, Range
from refold.infrastructure.log.postgres import planning, read, stored_events
from refold.infrastructure.log.postgres.append import Appender
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.planning import QUIET_APPENDS
from tests.contract.writing import append, check_order, everything, new, said
from tests.domain.chat_events import OPENED
from tests.domain.chat_events import said as message
from tests.domain.fakes import handle_on, record

from .conftest import OpenLog
from .proxy import Proxy


@pytest.fixture
def watched(open_log: OpenLog, proxy: Proxy) -> PostgresLog:
    """A log behind the proxy that has written to its stream before."""
    log = open_log(proxy.url)
    for number in range(3):
        append(log, "chat:a", said(number), expected=number)
    return log


def test_an_append_is_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """One event or a hundred, with a key or without: one exchange each."""
    before = proxy.trips

    append(watched, "chat:a", said(3), expected=3)
    append(watched, "chat:a", *[said(number) for number in range(100)], expected=4)
    append(watched, "chat:a", said(4), key="once")
    # The slice of a stream is remembered, not taken from its root again.
    append(watched, "chat:a", said(5), key="twice", root="")

    assert proxy.trips - before == 4


def test_small_events_of_known_streams_are_not_planned(watched: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """They take the cached append; the planned one costs twice the processor's time."""

    def planned(*_: object) -> NoReturn:
        raise AssertionError("it was planned")

    monkeypatch.setattr(Appender, "append", planned)
    append(watched, "chat:a", said(3), said(4), expected=3)

    assert watched.head("chat:a") == 5


def test_a_fork_is_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """A new stream in a slice that is known needs no look at the database first."""
    before = proxy.trips

    append(watched, "chat:fork", said(9), expected=0)

    assert proxy.trips - before == 1


def test_a_large_text_is_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """The text's own row goes along, also where the text is known already."""
    before = proxy.trips

    append(watched, "chat:a", said(3, "x" * 10_000))
    append(watched, "chat:a", said(4, "x" * 10_000), said(5, "y" * 10_000))

    assert proxy.trips - before == 2


def test_several_slices_are_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """A transaction over several slices, all of them known."""
    append(watched, "chat:b", said(1), root="another")
    before = proxy.trips

    watched.append([new("chat:a", said(3)), new("chat:b", said(2))]).result()

    assert proxy.trips - before == 1


def test_a_refusal_is_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """That nobody else wrote since is all there is to ask."""
    before = proxy.trips

    with pytest.raises(ConcurrencyError) as refused:
        append(watched, "chat:a", said(3), expected=1)

    assert (refused.value.actual, proxy.trips - before) == (3, 1)


def test_a_shared_slice_takes_two(watched: PostgresLog, log: PostgresLog, proxy: Proxy) -> None:
    """Once another process was seen to write there: one trip locks the slice and reads its end, one writes."""

    def trips(*parts: NewEvents) -> int:
        append(log, "chat:other", said(0))
        before = proxy.trips
        watched.append(parts).result()
        return proxy.trips - before

    # On a busy machine the refusal arrives before the rows are sent, and they are an exchange of their own.
    assert trips(new("chat:a", said(3), expected=3)) in (4, 5)
    assert trips(new("chat:a", said(4), expected=4)) == 2
    assert trips(new("chat:a", *[said(number) for number in range(70)])) == 2
    assert trips(new("chat:fork", said(5), expected=0)) == 2
    assert trips(new("chat:a", said(6, "x" * 10_000))) == 2
    assert trips(new("chat:a", said(7)), new("chat:fork", said(8))) == 2
    check_order(everything(log))


def test_a_refusal_in_a_shared_slice_takes_two(watched: PostgresLog, log: PostgresLog, proxy: Proxy) -> None:
    """The one that names the version at which the other process left the stream."""
    append(log, "chat:a", said(3))
    append(watched, "chat:a", said(4))
    append(log, "chat:a", said(5))
    before = proxy.trips

    with pytest.raises(ConcurrencyError) as refused:
        append(watched, "chat:a", said(6), expected=5)

    assert (refused.value.actual, proxy.trips - before) == (6, 2)
    append(watched, "chat:a", said(6), expected=6)


def test_a_slice_that_is_shared_no_more(watched: PostgresLog, log: PostgresLog, proxy: Proxy) -> None:
    """When the other process has not written for a while, an append is one round trip again."""
    append(log, "chat:a", said(3))
    for number in range(QUIET_APPENDS + 1):
        append(watched, "chat:a", said(number))
    before = proxy.trips

    append(watched, "chat:a", said(5))

    assert proxy.trips - before == 1


def test_streams_used_last_are_remembered(watched: PostgresLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a process writes to more streams than it remembers, those that it has not used for long are looked up."""
    monkeypatch.setattr(planning, "STREAMS_MAX", 3)
    for name in ("b", "c", "d"):
        append(watched, "chat:a", said(1))
        append(watched, f"chat:{name}", said(1), expected=0)

    def trips(stream: str) -> int:
        before = proxy.trips
        append(watched, stream, said(2))
        return proxy.trips - before

    assert [trips(f"chat:{name}") for name in ("a", "d", "c", "b")] == [1, 1, 1, 3]


def test_a_first_append_takes_two(open_log: OpenLog, proxy: Proxy) -> None:
    """To a stream that this process does not know yet: one to look, one to write."""
    log = open_log(proxy.url)
    append(log, "chat:a", said(1), root="a")
    before = proxy.trips

    append(log, "chat:z", said(1), root="z")

    assert proxy.trips - before == 2


def test_streams_of_one_slice_do_not_push_each_other_out(open_log: OpenLog, log: PostgresLog, proxy: Proxy) -> None:
    """Each of them is looked up once, and stays known while others of its slice are looked up."""
    streams = [f"chat:{number}" for number in range(5)]
    for stream in streams:
        append(log, stream, said(1))
    watched = open_log(proxy.url)
    for stream in streams:
        append(watched, stream, said(2))
    before = proxy.trips

    for stream in streams:
        append(watched, stream, said(3), expected=2)

    assert proxy.trips - before == 5


def test_a_read_is_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """Once the stream's place is known."""
    watched.read("chat:a")
    before = proxy.trips

    assert (len(watched.read("chat:a")), len(watched.read_events("chat:a"))) == (3, 3)
    assert proxy.trips - before == 2


def test_many_ranges_are_one_round_trip(watched: PostgresLog, proxy: Proxy) -> None:
    """Of several streams, long ones with their checksums, once it is known where they lie."""
    for number in range(5):
        append(watched, f"chat:{number}", *[said(place) for place in range(70)], expected=0)
    ranges = [Range(f"chat:{number}", after, after + 66) for number in range(5) for after in (0, 3)]
    unknown = proxy.trips
    watched.read_ranges(ranges)
    before = proxy.trips

    assert [len(events) for events in watched.read_ranges(ranges)] == [66] * 10
    assert (before - unknown, proxy.trips - before) == (2, 1)


def test_a_line_of_forks_is_a_few_round_trips(watched: PostgresLog, proxy: Proxy) -> None:
    """More and more ancestors are read at once."""
    chat = handle_on_new(watched)
    for _ in range(60):
        chat = chat.fork()
        chat.add_message("user", "hello")
    before = proxy.trips

    assert len(handle_on(watched, f"chat:{chat.id}").items) == 61
    assert proxy.trips - before < 20


def handle_on_new(log: PostgresLog) -> ChatContext:
    """Return a handle on a context with one message."""
    record(log, OPENED, message("m0"), stream="chat:root")
    return handle_on(log, "chat:root")


def test_rows_of_a_projection_are_three_round_trips(proxy: Proxy) -> None:
    """The end of the log, how far the rows go, and the rows: a process looks for its tables once."""
    with refold.open(proxy.url) as store:
        store.chat("a").add_message("user", "Hello.")
        store.contexts()
        before = proxy.trips

        store.contexts()

        assert proxy.trips - before <= 3


def test_few_names_and_metas_stay_in_memory(open_log: OpenLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are read; those that were forgotten are looked up, and decoded, again."""
    monkeypatch.setattr(read, "STREAMS_MAX", 3)
    monkeypatch.setattr(stored_events, "METAS_MAX", 3)
    log = open_log()
    for number in range(12):
        meta = Meta(f"actor {number}")
        new = NewEvents(stream=f"chat:{number}", expected_version=0, events=(said(number),), metas=(meta,))
        log.append([new]).result()

    for _ in range(2):
        found = [log.read(f"chat:{number}")[0] for number in range(12)]
        assert [(one.event.id, one.meta.actor) for one in found] == [(f"m{n}", f"actor {n}") for n in range(12)]
        assert len(everything(log)) == 12
    assert max(len(log._reader._places), len(log._reader._names), len(log._reader._opener._metas)) <= 4


def test_whole_runs_are_checked_once(open_log: OpenLog) -> None:
    """Wherever a reader begins, a run has the same versions; what was read of it before is not checked again."""
    log = open_log()
    append(log, "chat:b", *map(said, range(5)), root="r")
    append(log, "chat:a", *map(said, range(4 * stored_events.RUN)), root="r")
    for start in (0, 10, 70):
        assert len(log.read("chat:a", after=start)) == 4 * stored_events.RUN - start

    assert len(log._reader._opener._known._hashes) == 4
