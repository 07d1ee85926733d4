"""When old events are packed: not while somebody writes, unless they become too many; and never later than closing."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from refold.domain.errors import DamagedError, StorageClosedError, StorageReadOnlyError
from refold.domain.positions import Moment
from refold.infrastructure.log import background, block_body
from refold.infrastructure.log.block_body import BLOCK_EVENTS, OvertakenError
from refold.infrastructure.log.sqlite import connection as connection_module
from refold.infrastructure.log.sqlite import log as sqlite_log
from refold.infrastructure.log.sqlite.log import WINDOW_MAX, SqliteLog, _next_window
from tests.verifying.damaging import sql

from ..contract.test_sqlite_restores import File
from ..contract.writing import append, check_chain, everything, new, said
from ..support.waiting import soon

SEGMENT = 512


@pytest.fixture
def log(tmp_path: Path) -> Iterator[SqliteLog]:
    opened = SqliteLog(tmp_path / "log.db")
    yield opened
    opened.close()


def rows(log: SqliteLog) -> int:
    """Return how many events are not packed."""
    with log.database.reading() as connection:
        return int(connection.execute("SELECT count(*) FROM event").fetchone()[0])


def write(log: SqliteLog, first: int, count: int, text: str = "text") -> None:
    """Append few events at a time, which become rows: a batch that completes a segment by itself is packed at once."""
    for start in range(first, first + count, BLOCK_EVENTS):
        end = min(start + BLOCK_EVENTS, first + count)
        append(log, "chat:a", *(said(number, text) for number in range(start, end)))


def test_a_writer_who_does_not_pause_is_left_alone(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complete segments stay as they are while events go on coming."""
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)
    write(log, 0, 3 * SEGMENT)

    time.sleep(0.1)

    assert rows(log) == 3 * SEGMENT
    check_chain(log.read("chat:a"))


def test_a_pause_is_used(log: SqliteLog) -> None:
    """Soon after the last append only the segment that goes on stays rows."""
    write(log, 0, 2 * SEGMENT + 5)

    assert soon(lambda: rows(log) == 5)
    assert [one.position.number for one in everything(log, limit=100)] == list(range(1, 2 * SEGMENT + 6))


def test_the_backlog_is_bounded(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A writer who never pauses does not pile up rows for ever."""
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(sqlite_log, "BACKLOG_EVENTS_MAX", 2 * SEGMENT)

    with monkeypatch.context() as patch:
        patch.setattr(log._sealing, "wake", lambda: None)
        write(log, 0, 4 * SEGMENT)
    write(log, 4 * SEGMENT, SEGMENT)

    assert soon(lambda: rows(log) < 3 * SEGMENT)


def test_rows_that_were_there_before_wait_for_a_pause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many another process left: an append need not wait for them, until this one leaves as many itself."""
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)
    monkeypatch.setattr(sqlite_log, "BACKLOG_EVENTS_MAX", SEGMENT)
    path = tmp_path / "log.db"
    with closing(SqliteLog(path)) as earlier, monkeypatch.context() as patch:
        patch.setattr(earlier._sealing, "wake", lambda: None)
        write(earlier, 0, 4 * SEGMENT)

    with closing(SqliteLog(path)) as log:
        write(log, 4 * SEGMENT, 5)
        assert not log._is_sealing_pressing()
        time.sleep(0.1)
        assert rows(log) == 4 * SEGMENT + 5
        write(log, 4 * SEGMENT + 5, SEGMENT)
        assert log._is_sealing_pressing()


def test_closing_packs_what_is_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed file is small, also when nobody paused before."""
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)
    log = SqliteLog(tmp_path / "log.db")
    write(log, 0, 2 * SEGMENT + 5)

    log.close()

    again = SqliteLog(tmp_path / "log.db")
    assert rows(again) == 5
    check_chain(again.read("chat:a"))
    again.close()


def pragma(connection: sqlite3.Connection, name: str) -> int:
    """Return a number that SQLite knows of the file."""
    found: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return found


def test_a_closed_file_is_as_short_as_its_content(tmp_path: Path) -> None:
    """The room that rows took before they were sealed is given back."""
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    write(log, 0, 4 * SEGMENT, "x" * 500)
    log.close()

    with closing(sqlite3.connect(path)) as connection:
        assert pragma(connection, "freelist_count") * 4 < pragma(connection, "page_count")
    again = SqliteLog(path)
    check_chain(again.read("chat:a"))
    assert len(again.read("chat:a")) == 4 * SEGMENT
    again.close()


def test_a_closed_file_of_an_earlier_refold_gives_back_from_then_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is written anew, so that it can."""
    path = tmp_path / "log.db"
    with monkeypatch.context() as earlier:
        earlier.setattr(connection_module, "SHORTENED_LATER", "PRAGMA auto_vacuum = NONE")
        log = SqliteLog(path)
    write(log, 0, 4 * SEGMENT, "x" * 500)
    with log.database.reading() as reader:
        before = pragma(reader, "auto_vacuum")
    log.close()

    with closing(sqlite3.connect(path)) as connection:
        assert (before, pragma(connection, "auto_vacuum")) == (0, 2)


def test_opened_blocks_are_forgotten(tmp_path: Path) -> None:
    """Once texts were erased, none of them is held."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        write(log, 0, 2 * SEGMENT)
        assert soon(lambda: rows(log) <= SEGMENT)
        log.read("chat:a")
        assert log._reader._blocks._opened

        log.forget()

        assert log._reader._blocks._opened == ()


def test_a_file_in_use_stays_as_it_is(tmp_path: Path) -> None:
    """Closing waits for nobody, and takes nothing away from him."""
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    write(log, 0, 4 * SEGMENT, "x" * 500)
    assert soon(lambda: rows(log) <= SEGMENT)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        log.close()
        assert pragma(other, "freelist_count") > 0


def test_a_file_that_is_closed_or_being_written_is_left_alone(tmp_path: Path) -> None:
    """Its room is given back at the end, and never within a transaction, whose writer waits for others as before."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        append(log, "chat:a", said(1))
        with log.database.writing() as writer:
            patience = pragma(writer, "busy_timeout")
            log.database.give_back_space()
            assert (writer.in_transaction, pragma(writer, "busy_timeout")) == (True, patience)

    log.database.give_back_space()


def test_closed_in_the_middle_of_a_transaction(tmp_path: Path) -> None:
    """A thread that stores rows ends first, and the next one is told; the connection is not opened again."""
    log = SqliteLog(tmp_path / "log.db")
    is_writing, may_end, waiting = threading.Event(), threading.Event(), threading.Event()

    def store(connection: sqlite3.Connection) -> int:
        is_writing.set()
        may_end.wait(10)
        return int(connection.execute("SELECT 1").fetchone()[0])

    def close() -> None:
        waiting.set()
        log.database.close()

    with ThreadPoolExecutor(2) as threads:
        stored = threads.submit(log.database.write, store)
        is_writing.wait(10)
        closed = threads.submit(close)
        waiting.wait(10)
        with pytest.raises(TimeoutError):
            closed.result(0.05)
        may_end.set()
        assert (stored.result(10), closed.result(10)) == (1, None)

    with pytest.raises(StorageClosedError):
        _ = log.database.writer


def steps_to_the_next(log: SqliteLog) -> int:
    """Return how many steps the database takes to find what is to be sealed next."""
    steps: list[int] = []
    with log.database.reading() as connection:
        connection.set_progress_handler(lambda: steps.append(1), 1)
        assert log._sealer.next_slice(connection) is not None
        connection.set_progress_handler(None, 0)
    return len(steps)


def test_what_is_next_is_found_at_once(tmp_path: Path) -> None:
    """That takes no more behind 5,000 rows than behind 1,000."""
    log = SqliteLog(tmp_path / "log.db")
    write(log, 0, 1_000)
    few = steps_to_the_next(log)
    write(log, 1_000, 4_000)
    assert steps_to_the_next(log) < 1.5 * few
    log.close()


@pytest.mark.parametrize(
    ("window", "found", "limit", "then"),
    [(8, 3, 8, 16), (8, 4, 8, 8), (8, 8, 8, 8), (8, 9, 8, 4), (1, 9, 8, 1), (WINDOW_MAX, 0, 8, WINDOW_MAX)],
)
def test_a_partition_looks_at_about_a_page(window: int, found: int, limit: int, then: int) -> None:
    """At twice as many positions where less than half a page was found, at half as many where it was too much."""
    assert _next_window(window, found, limit) == then


@pytest.mark.parametrize("others", [1, 2, 3, 5])
def test_events_of_another_stream_between_those_of_a_slice_stay(tmp_path: Path, others: int) -> None:
    """Only the rows that are in the block are removed, however many positions lie between them."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        write(log, 0, BLOCK_EVENTS // 2)
        append(log, "chat:b", *map(said, range(others)))
        write(log, BLOCK_EVENTS // 2, BLOCK_EVENTS // 2 + SEGMENT)
        with log.database.reading() as connection:
            first = log._sealer.next_slice(connection)
        assert first is not None

        log.database.write(lambda connection: log._sealer.store(connection, first))

        assert first.positions == [*range(1, 33), *range(33 + others, 65 + others)]
        assert [one.event.id for one in log.read("chat:b")] == [f"m{number}" for number in range(others)]
        check_chain(log.read("chat:a"))


@pytest.mark.parametrize("change", ["payload = substr(payload, 1, 2)", "meta = payload"])
def test_an_erasure_while_events_are_packed(tmp_path: Path, change: str) -> None:
    """What is left of an event that was erased before is replaced by another erasure: the block has the last of it."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        write(log, 0, SEGMENT + 1)
        with log.database.reading() as connection:
            found = log._sealer.next_slice(connection)
        assert found is not None
        log.database.write(lambda connection: connection.execute(f"UPDATE event SET {change} WHERE version = 5"))

        with pytest.raises(OvertakenError):
            log.database.write(lambda connection: log._sealer.store(connection, found))


def test_an_event_that_cannot_be_packed_is_named(tmp_path: Path) -> None:
    """By its stream and version, and nothing is packed."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        write(log, 0, SEGMENT + 1)
        change = "UPDATE event SET payload = cast(x'fe' || payload AS BLOB) WHERE version = 5"
        log.database.write(lambda connection: connection.execute(change))

        with log.database.reading() as connection, pytest.raises(DamagedError, match="event chat:a@5 is damaged"):
            log._sealer.next_slice(connection)


@pytest.mark.parametrize("others", [0, BLOCK_EVENTS, SEGMENT + 1])
def test_a_copy_put_back_while_events_are_packed(tmp_path: Path, others: int) -> None:
    """Nothing is packed: the rows may be the last of the file now, or others at the same positions."""
    place = File(tmp_path)
    with closing(SqliteLog(place.url)) as log, closing(SqliteLog(place.url)) as other:
        kept = 1 if others else SEGMENT
        write(log, 0, kept)
        place.keep()
        write(log, kept, SEGMENT + 1)
        with log.database.reading() as connection:
            found = log._sealer.next_slice(connection)
        assert found is not None
        place.put_back()
        with closing(SqliteLog(place.url)) as another:
            if others:
                append(another, "chat:b", *map(said, range(others)))
            before = everything(another)

        with pytest.raises(OvertakenError):
            log.database.write(lambda connection: log._sealer.store(connection, found))

        assert everything(other) == before
        receipt = append(other, "chat:c", said(1))
        assert receipt.events[0].position.number == len(before) + 1


def test_a_row_that_is_in_a_block_as_well(log: SqliteLog, tmp_path: Path) -> None:
    """No event is given out twice: the stream is damaged behind the block."""
    write(log, 0, 1)
    with closing(sqlite3.connect(tmp_path / "log.db", isolation_level=None)) as other:
        [row] = other.execute("SELECT * FROM event").fetchall()
        write(log, 1, SEGMENT)
        log.close()
        assert other.execute("SELECT count(*) FROM event").fetchone() == (1,)
        other.execute(f"INSERT INTO event VALUES ({', '.join('?' * len(row))})", row)

    with closing(SqliteLog(tmp_path / "log.db")) as again:
        for read in (again.read, again.read_events):
            with pytest.raises(DamagedError, match=r"event chat:a@\d+ is damaged: it is missing"):
                read("chat:a")
        with pytest.raises(DamagedError, match="position"):
            everything(again)


def test_a_damaged_block_hides_its_own_events_alone(log: SqliteLog, tmp_path: Path) -> None:
    """The others of its segment can be read in the order of the log, up to the damage and behind it."""
    write(log, 0, SEGMENT + 1)
    log.close()
    sql(tmp_path / "log.db", "UPDATE block SET body = zeroblob(30) WHERE key = 3")

    first, last = 2 * BLOCK_EVENTS, 3 * BLOCK_EVENTS
    with closing(SqliteLog(tmp_path / "log.db")) as again:
        for after, limit in ((0, first), (first - 1, 1), (last, SEGMENT), (last, 1)):
            page = again.read_all(after=Moment.parse(str(after)), limit=limit)
            assert len(page.events) == min(limit, SEGMENT + 1 - after)
        for after, limit in ((0, SEGMENT), (first, 1), (last - 1, 9)):
            with pytest.raises(DamagedError, match=r"block 3 \(of positions 1 to 512\)"):
                again.read_all(after=Moment.parse(str(after)), limit=limit)


@pytest.mark.parametrize("are_rows", [False, True])
def test_events_of_many_bytes_are_in_more_blocks(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, are_rows: bool
) -> None:
    """
    A block has few bytes, whatever its events have; one that has more by itself is in a block by itself. So where rows
    are packed, and where a batch is.
    """
    monkeypatch.setattr(block_body, "BLOCK_BYTES_MAX", 3_000)
    events = [said(number, "x" * (3_500 if number == 9 else 800)) for number in range(SEGMENT + 1)]
    at_once = SEGMENT if are_rows else len(events)
    for start in range(0, len(events), at_once):
        append(log, "chat:a", *events[start : start + at_once])
    assert are_rows or rows(log) == 1
    log.close()

    with closing(SqliteLog(tmp_path / "log.db")) as again:
        with again.database.reading() as connection:
            sizes = [size for (size,) in connection.execute("SELECT length(digests) / 32 FROM block ORDER BY key")]
        assert (sizes[:5], max(sizes), sum(sizes)) == ([3, 3, 3, 1, 3], 3, SEGMENT)
        check_chain(again.read("chat:a"))


@pytest.mark.parametrize(("before", "left"), [(0, 7), (BLOCK_EVENTS + 1, 72), (2 * SEGMENT, 4 * SEGMENT + 7)])
def test_a_batch_that_completes_segments_is_packed_by_its_append(
    log: SqliteLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: int, left: int
) -> None:
    """Its events do not become rows there, and the rows of its streams are packed with them, unless they are many."""
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)
    append(log, "chat:b", *map(said, range(3)))
    write(log, 0, before)
    first, second = [*map(said, range(before, before + 2 * SEGMENT))], [*map(said, range(SEGMENT))]

    log.append([new("chat:a", *first, expected=before), new("chat:c", *second, expected=0)]).result()
    append(log, "chat:a", said(1), expected=before + 2 * SEGMENT)

    assert rows(log) == left
    with closing(SqliteLog(tmp_path / "log.db", read_only=True)) as other:
        for one in (log, other):
            for stream, count in (("chat:a", before + 2 * SEGMENT + 1), ("chat:b", 3), ("chat:c", SEGMENT)):
                assert (one.end(stream).version, len(one.read(stream))) == (count, count)
                check_chain(one.read(stream))
            assert [event.position.number for event in everything(one)] == [*range(1, before + 3 * SEGMENT + 5)]
            assert one.doubtful_streams() == set()


def test_rows_that_are_damaged_are_not_packed_with_a_batch(log: SqliteLog) -> None:
    """The batch is appended all the same, and the damage still stands in its row."""
    write(log, 0, 5)
    log.database.write(lambda connection: connection.execute("UPDATE event SET digest = payload WHERE version = 3"))

    append(log, "chat:a", *map(said, range(5, 2 * SEGMENT)))

    assert (rows(log), len(log.read("chat:a", after=4))) == (2 * SEGMENT, 2 * SEGMENT - 4)
    with pytest.raises(DamagedError, match="chat:a@3"):
        log.read("chat:a")


def test_rows_that_a_batch_packs_while_they_are_to_be_packed(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are packed once."""
    monkeypatch.setattr(background, "QUIET_SECONDS", 60.0)
    write(log, 0, SEGMENT)
    append(log, "chat:b", said(1))
    with log.database.reading() as connection:
        found = log._sealer.next_slice(connection)
    assert found is not None
    append(log, "chat:a", *map(said, range(SEGMENT, 3 * SEGMENT)))

    with pytest.raises(OvertakenError):
        log.database.write(lambda connection: log._sealer.store(connection, found))

    check_chain(log.read("chat:a"))


def test_a_log_that_was_retired_takes_no_blocks(log: SqliteLog) -> None:
    """A batch that would be packed is refused as a whole."""
    write(log, 0, 1)
    log.retire()

    with pytest.raises(StorageReadOnlyError):
        append(log, "chat:a", *map(said, range(1, 2 * SEGMENT)))

    assert (rows(log), log.end("chat:a").version) == (1, 1)
