"""A stream lies in one slice, and a slice's positions have no holes."""

import psycopg
import pytest

from refold.domain.errors import DamagedError
from refold.domain.ids import slice_of
from refold.domain.log.ports import ANY_VERSION
from refold.domain.positions import BEGINNING, Moment, Position
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import Call, Rows
from tests.contract.writing import append, everything, new, said

from .conftest import OpenLog


def test_the_root_decides_once(log: PostgresLog, open_log: OpenLog) -> None:
    """A stream stays where it was opened, whatever root later appends give, in this process or another."""
    append(log, "chat:a", said(1), root="session")
    append(log, "chat:a", said(2), root="elsewhere")
    append(open_log(), "chat:a", said(3), root="yet elsewhere")

    home = slice_of("session")
    assert [one.position for one in log.read("chat:a")] == [Position(home, number) for number in (1, 2, 3)]


def test_streams_of_one_root_share_a_sequence(log: PostgresLog) -> None:
    """A fork lies with its parent: their positions are one sequence."""
    append(log, "chat:a", said(1), root="a")
    append(log, "chat:b", said(2), root="a")
    append(log, "chat:a", said(3), root="a")

    assert [one.position.number for one in everything(log)] == [1, 2, 3]
    assert {one.position.slice for one in everything(log)} == {slice_of("a")}


def test_each_slice_counts_for_itself(log: PostgresLog) -> None:
    """One batch over several slices is one transaction, and each slice gives its own positions."""
    roots = ["r1", "r2", "r3"]
    log.append([new(f"chat:{root}", said(1), said(2), root=root) for root in roots]).result()

    assert log.now() == Moment.of({slice_of(root): 2 for root in roots})
    assert Moment.parse(str(log.now())) == log.now()


def test_a_moment_is_a_cut(log: PostgresLog) -> None:
    """At a moment a stream is as it was when its slice stood there; of later slices it knows nothing."""
    append(log, "chat:a", said(1), root="a")
    before = log.now()
    append(log, "chat:a", said(2), root="a")
    append(log, "chat:b", said(3), root="b")

    assert [log.version_at("chat:a", before), log.version_at("chat:b", before)] == [1, 0]
    assert [log.version_at("chat:a", log.now()), log.version_at("chat:b", log.now())] == [2, 1]
    assert log.version_at("chat:a", Moment.parse(str(log.read("chat:a")[0].position))) == 1


def test_pages_are_in_the_order_of_time(log: PostgresLog) -> None:
    """Slices are merged by time, and a page says exactly how far each of them was read."""
    for number in range(40):
        append(log, f"chat:{number % 3}", said(number), root=f"r{number % 3}")

    page = log.read_all(after=BEGINNING, limit=25)
    times = [one.recorded_at for one in page.events]
    assert times == sorted(times)
    assert sum(number for _, number in page.moment.heads) == 25
    rest = log.read_all(after=page.moment, limit=100)
    assert sorted(int(one.event.id[1:]) for one in page.events + rest.events) == list(range(40))


def test_a_slice_with_a_long_past_is_read_in_chunks(log: PostgresLog) -> None:
    """One slice has all the old events, the other all the new ones: the page is still full and in order."""
    log.append([new("chat:a", *[said(number) for number in range(300)], root="a")]).result()
    log.append([new("chat:b", *[said(number) for number in range(300, 400)], root="b")]).result()

    page = log.read_all(after=BEGINNING, limit=390)

    assert [one.event.id for one in page.events] == [f"m{number}" for number in range(390)]


def test_those_who_fold_everything_fetch_each_row_once(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many slices there are: up to a moment they are read one after the other, and nothing behind it."""
    for number in range(40):
        append(log, f"chat:{number % 9}", said(number), root=f"r{number % 9}")
    until, fetched = log.now(), 0
    append(log, "chat:0", said(40))
    ask = log.database.ask

    def counted(*calls: Call) -> list[Rows]:
        nonlocal fetched
        found = ask(*calls)
        fetched += sum(len(rows) for call, rows in zip(calls, found, strict=True) if "position >" in call.sql)
        return found

    monkeypatch.setattr(log.database, "ask", counted)
    moment, events = BEGINNING, list[str]()
    while not moment.includes(until):
        page = log.read_all(after=moment, limit=7, until=until)
        events += [one.event.id for one in page.events]
        moment = page.moment

    assert (fetched, sorted(events, key=lambda one: int(one[1:]))) == (40, [f"m{number}" for number in range(40)])


def test_ids_are_compared_by_bytes(log: PostgresLog) -> None:
    """Ids that a language would take for one are two."""
    for version, stream in enumerate(("chat:a", "chat:A", "chat:ä", "chat:a\u0308")):
        append(log, stream, said(version), expected=0)

    assert [log.head(stream) for stream in ("chat:a", "chat:A", "chat:ä", "chat:a\u0308", "chat:á")] == [1] * 4 + [0]


def test_a_hole_is_noticed(log: PostgresLog, pg_url: str) -> None:
    """A position that is gone is named, by readers of the log and of the stream."""
    append(log, "chat:a", *[said(number) for number in range(5)], root="a")
    with psycopg.connect(pg_url) as connection:
        connection.execute("delete from event where position = 3")

    with pytest.raises(DamagedError, match=rf"position {slice_of('a')}\.3 is damaged: there is no event"):
        log.read_all(after=BEGINNING, limit=10)
    with pytest.raises(DamagedError, match="event chat:a@3 is damaged: it is missing"):
        log.read("chat:a")


def test_any_version_of_a_stream_nobody_knows(open_log: OpenLog) -> None:
    """Whoever takes any version finds a stream that another process opened, in whatever slice."""
    append(open_log(), "chat:a", said(1), root="session")

    receipt = append(open_log(), "chat:a", said(2), expected=ANY_VERSION, root="other")

    assert (receipt.events[0].version, receipt.events[0].position.slice) == (2, slice_of("session"))
