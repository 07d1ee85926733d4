"""What one process remembers is wrong when another wrote: then it looks again, and nothing is lost or doubled."""

import psycopg
import pytest

import refold
from refold.domain.errors import ConcurrencyError, DamagedError
from refold.infrastructure.log.postgres.append import Appender
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.contract.writing import append, at_once, check_chain, check_order, everything, new, numbers, said

from .conftest import OpenLog
from .tables import count


@pytest.fixture
def other(open_log: OpenLog, log: PostgresLog) -> PostgresLog:
    """A second process's log, as far as the database can tell; both have written to one stream."""
    other = open_log()
    append(log, "chat:a", said(0))
    append(other, "chat:a", said(1))
    return other


def test_taking_turns(log: PostgresLog, other: PostgresLog) -> None:
    """Each append finds the memory of its process stale."""
    for number in range(2, 8):
        append((log, other)[number % 2], "chat:a", said(number), expected=number)

    assert numbers(log.read("chat:a")) == [f"m{number}" for number in range(8)]
    check_chain(log.read("chat:a"))


def test_a_stale_expectation_is_a_conflict(log: PostgresLog, other: PostgresLog) -> None:
    """The writer is told the version that the other one reached."""
    with pytest.raises(ConcurrencyError) as refused:
        append(log, "chat:a", said(2), expected=1)

    assert (refused.value.expected, refused.value.actual) == (1, 2)
    append(log, "chat:a", said(2), expected=2)


def test_a_fresh_expectation_is_none(log: PostgresLog, other: PostgresLog) -> None:
    """A writer who saw what the other wrote is right, though the log that he uses remembers less."""
    append(log, "chat:a", said(2), expected=2)

    assert log.head("chat:a") == other.head("chat:a") == 3


def test_a_stream_that_another_opened(log: PostgresLog, other: PostgresLog) -> None:
    """Whoever takes a stream for new that is not is refused, wherever it lies."""
    append(other, "chat:b", said(1), root="r")
    append(other, "chat:c", said(1), root="elsewhere")

    for stream in ("chat:b", "chat:c"):
        with pytest.raises(ConcurrencyError):
            append(log, stream, said(2), expected=0, root="r")
        assert log.head(stream) == 1


def test_streams_that_share_a_slice(log: PostgresLog, other: PostgresLog) -> None:
    """Two processes write to three streams of one slice in turn: what is remembered of none of them outlives that."""
    streams = ["chat:a", "chat:b", "chat:c"]
    for number in range(2, 38):
        append((log, other)[number // 4 % 2], streams[number % 3], said(number))

    with pytest.raises(ConcurrencyError):
        append(log, "chat:b", said(99), expected=log.head("chat:b") - 1)
    for stream in streams:
        check_chain(log.read(stream))
    assert len(everything(log)) == 38


def test_another_writes_between_a_look_and_the_next_lock(
    log: PostgresLog, other: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was remembered of a slice is dropped where its end has moved when it is read."""
    append(log, "chat:a", said(2))
    append(other, "chat:a", said(3))

    with monkeypatch.context() as patch:
        patch.setattr(Appender, "_append_by_memory", lambda *_, **__: None)
        append(log, "chat:z", said(0))

    append(log, "chat:a", said(4), expected=4)
    check_chain(log.read("chat:a"))


def test_one_slice_is_stale_and_the_other_is_not(log: PostgresLog, other: PostgresLog) -> None:
    """After the look that failed, the slice that nobody else wrote to is still as it is remembered."""
    append(log, "chat:x", said(0), root="elsewhere")

    append(log, "chat:a", said(2), expected=2)
    append(log, "chat:x", said(1), expected=1)

    assert (log.head("chat:a"), log.head("chat:x")) == (3, 2)
    check_chain(log.read("chat:x"))


def test_a_group_of_which_one_is_stale(log: PostgresLog, other: PostgresLog) -> None:
    """Those that are committed together with a stale one are not harmed."""
    parts = [new("chat:a", said(9), expected=1), new("chat:b", said(1)), new("chat:c", said(1), expected=0)]
    futures = [log.append([part], wait=False) for part in parts]

    assert isinstance(futures[0].exception(30), ConcurrencyError)
    assert [futures[place].exception(30) for place in (1, 2)] == [None, None]
    assert [log.head(stream) for stream in ("chat:a", "chat:b", "chat:c")] == [2, 1, 1]


def test_a_key_that_another_used(log: PostgresLog, other: PostgresLog) -> None:
    """Its events are given back, also to one whose expectation is long past."""
    first = append(other, "chat:a", said(2), key="once")

    again = append(log, "chat:a", said(2), expected=1, key="once")

    assert (again.replayed, again.events) == (True, first.events)
    assert log.head("chat:a") == 3


def test_a_repetition_in_a_group_that_moves_its_stream_on(log: PostgresLog) -> None:
    """The version that it was decided on is past, through another of its group; its key still comes first."""
    append(log, "chat:a", said(1), expected=0, key="once")
    parts = [new("chat:a", said(2), expected=1), new("chat:a", said(1), expected=1, key="once")]

    futures = [log.append([part], wait=False) for part in parts]

    assert [future.result(30)[0].replayed for future in futures] == [False, True]
    assert numbers(log.read("chat:a")) == ["m1", "m2"]


def test_a_large_text_that_another_stored(log: PostgresLog, other: PostgresLog) -> None:
    """It is stored once, and both read it."""
    text = "long " * 2_000
    append(other, "chat:a", said(2, text))
    append(log, "chat:a", said(3, text))

    assert [one.event.content for one in log.read("chat:a", after=2)] == [text, text]
    assert other.database.ask(count("blob"))[0] == [(1,)]


def test_all_at_once(open_log: OpenLog) -> None:
    """Five processes race for one stream and one new stream each; each event gets in once."""
    logs = [open_log() for _ in range(5)]

    def write(place: int) -> None:
        for number in range(10):
            append(logs[place], "chat:a", said(place * 100 + number))
        append(logs[place], f"chat:{place}", said(place), expected=0)

    assert at_once(*(lambda place=place: write(place) for place in range(5))) == []
    events = everything(logs[0])
    check_order(events)
    assert len({one.event.id for one in events if one.stream == "chat:a"}) == 50
    assert len(events) == 55


def test_processes_that_lock_several_slices(open_log: OpenLog) -> None:
    """Batches over the same slices, named in opposite orders, do not lock each other out."""
    logs = [open_log() for _ in range(3)]

    def write(place: int) -> None:
        roots = ["r1", "r2", "r3"][:: -1 if place % 2 else 1]
        for _ in range(10):
            logs[place].append([new(f"chat:{root}", said(place), root=root) for root in roots]).result()

    assert at_once(*(lambda place=place: write(place) for place in range(3))) == []
    assert [logs[0].head(f"chat:{root}") for root in ("r1", "r2", "r3")] == [30] * 3


def alter(pg_url: str, change: str) -> None:
    """Change a column of the catalogue's table by hand."""
    with psycopg.connect(pg_url, autocommit=True) as server:
        ((table,),) = server.execute("SELECT tablename FROM pg_tables WHERE tablename ~ '^view_catalogue_'")
        server.execute(f"ALTER TABLE {table} ALTER COLUMN {change}")


def test_a_table_of_rows_that_has_another_type(pg_url: str) -> None:
    """A statement that was prepared for the old type is prepared again."""
    with refold.open(pg_url) as store:
        store.chat("a")
        rows = store.contexts()
        alter(pg_url, "version TYPE integer")

        assert store.contexts() == rows


@pytest.mark.parametrize(
    "change", ["version TYPE integer", "version TYPE text", "version TYPE float", "key TYPE bytea USING key::bytea"]
)
def test_a_table_of_rows_that_takes_other_values(pg_url: str, change: str) -> None:
    """No answer has a value of another type; the error names the table, and a rebuild makes it anew."""
    with refold.open(pg_url) as store:
        chat = store.chat("a")
        store.contexts()
        alter(pg_url, change)
        chat.add_message("user", "hello")

        with pytest.raises(DamagedError, match=r"the table of catalogue is damaged: .* `rebuild` makes it anew"):
            store.contexts()

        assert [one.where for one in store.verify(repair=True).problems if not one.is_repaired] == []
        assert [(row.key, row.version) for row in store.contexts()] == [("chat:a", 2)]
