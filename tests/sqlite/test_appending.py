"""The cached append takes one statement or one short transaction, whatever was remembered wrongly."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import refold
from refold.domain.errors import ConcurrencyError, DamagedError
from refold.domain.ids import slice_of
from refold.infrastructure.log.sqlite.append import ROWS_IN_ONE_MAX, Appender
from refold.infrastructure.log.sqlite.connection import WRITES_BEFORE_FILLING
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.log.sqlite.open_files import WAL_BYTES

from ..contract.writing import append, check_chain, everything, new, said

SIZES = [1, 2, ROWS_IN_ONE_MAX, ROWS_IN_ONE_MAX + 1, 60]


@pytest.mark.parametrize("size", SIZES)
def test_two_logs_on_one_file_in_turn(tmp_path: Path, size: int) -> None:
    """What one process remembers of the end is wrong each time; no position is taken twice or left out."""
    logs = [SqliteLog(tmp_path / "log.db") for _ in range(2)]

    for number in range(6):
        events = [said(100 * number + place) for place in range(size)]
        append(logs[number % 2], f"chat:{number % 2}", *events)

    recorded = everything(logs[0])
    assert [one.position.number for one in recorded] == list(range(1, 6 * size + 1))
    for stream in ("chat:0", "chat:1"):
        check_chain(logs[1].read(stream))
    for log in logs:
        log.close()


@pytest.mark.parametrize("size", SIZES)
def test_a_stale_writer_writes_nothing(tmp_path: Path, size: int) -> None:
    """Not even the first rows of a batch."""
    mine, others = (SqliteLog(tmp_path / "log.db") for _ in range(2))
    append(mine, "chat:a", said(0))
    append(mine, "chat:a", said(1), expected=1)
    append(others, "chat:a", said(2))

    with pytest.raises(ConcurrencyError):
        append(mine, "chat:a", *(said(10 + place) for place in range(size)), expected=2)

    assert [one.event.id for one in everything(mine)] == ["m0", "m1", "m2"]
    mine.close()
    others.close()


@pytest.mark.parametrize("location", ["log.db", ":memory:"])
def test_who_is_alone_looks_nothing_up(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """New streams and known ones, one event and several, with a version or with any; a key has to be looked for."""
    log = SqliteLog(location if location.startswith(":") else tmp_path / location)
    append(log, "chat:a", said(0))
    looked_up: list[int] = []
    locked = Appender.append_locked

    def noted(appender: Appender, requests: Any, *given: Any) -> Any:
        looked_up.append(len(requests))
        return locked(appender, requests, *given)

    monkeypatch.setattr(Appender, "append_locked", noted)
    append(log, "chat:a", said(1), expected=1)
    append(log, "chat:a", said(2), said(3))
    append(log, "chat:b", said(4), expected=0)
    append(log, "chat:b", said(5), said(6), expected=1)
    append(log, "chat:c", said(7), said(8), expected=0)
    assert looked_up == []

    append(log, "chat:c", said(9), key="k")
    assert looked_up == [1]
    log.close()


@pytest.mark.parametrize("location", ["log.db", ":memory:"])
def test_whoever_writes_holds_the_lock(tmp_path: Path, location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fork and the end of the process wait for it; it is held in each way to append, and released behind it."""
    held: list[bool] = []
    locks: set[Any] = set()
    inside = {name: getattr(Appender, name) for name in ("_append_behind", "_appended_or_refused")}

    def noted(name: str) -> Any:
        def call(appender: Appender, *given: Any) -> Any:
            lock: Any = appender._database.memory_lock
            locks.add(lock)
            held.append(lock._is_owned())
            return inside[name](appender, *given)

        return call

    for name in inside:
        monkeypatch.setattr(Appender, name, noted(name))
    log = SqliteLog(location if location == ":memory:" else tmp_path / location)
    for number in range(4):
        append(log, "chat:a", said(number), key=f"k{number}" if number == 2 else None)
    log.close()

    assert len(held) > 4
    assert all(held)
    assert not any(lock._is_owned() for lock in locks)


def test_several_streams_at_once(tmp_path: Path) -> None:
    """Each goes on at its own version, in one order of the log."""
    log = SqliteLog(tmp_path / "log.db")
    for stream in ("chat:a", "chat:b"):
        append(log, stream, said(0))

    receipts = log.append([new("chat:b", said(1), said(2), expected=1), new("chat:a", said(3), expected=1)]).result()

    assert [[one.version for one in receipt.events] for receipt in receipts] == [[2, 3], [2]]
    assert [one.position.number for receipt in receipts for one in receipt.events] == [3, 4, 5]
    assert [receipt.events for receipt in receipts] == [
        tuple(log.read("chat:b", after=1)),
        tuple(log.read("chat:a", after=1)),
    ]
    log.close()


def test_nothing_to_append(tmp_path: Path) -> None:
    """An empty batch is no error and no event, before the first append and after it."""
    log = SqliteLog(tmp_path / "log.db")

    assert log.append([]).result() == []
    append(log, "chat:a", said(0))
    assert log.append([]).result() == []

    assert len(everything(log)) == 1
    log.close()


def test_a_new_stream_is_one_short_transaction(tmp_path: Path) -> None:
    """Nothing is read before: its row goes in with its first events, and from then on it is known."""
    log = SqliteLog(tmp_path / "log.db")
    append(log, "chat:a", said(0))
    carried_out: list[str] = []
    log.database.writer.set_trace_callback(carried_out.append)

    append(log, "chat:b", said(1), said(2), expected=0)
    append(log, "chat:b", said(3), expected=2)

    log.database.writer.set_trace_callback(None)
    kinds = [statement.split()[0] for statement in carried_out]
    assert kinds == ["BEGIN", "INSERT", "INSERT", "INSERT", "COMMIT", "INSERT"]
    assert "event" in carried_out[-1]
    log.close()


@pytest.mark.parametrize("size", SIZES)
def test_new_streams_of_two_logs_in_turn(tmp_path: Path, size: int) -> None:
    """Each begins streams at an end that has moved on: none is lost, no position is taken twice or left out."""
    logs = [SqliteLog(tmp_path / "log.db") for _ in range(2)]

    for number in range(6):
        events = [said(100 * number + place) for place in range(size)]
        append(logs[number // 2 % 2], f"chat:{number}", *events, expected=0)

    recorded = everything(logs[0])
    assert [one.position.number for one in recorded] == list(range(1, 6 * size + 1))
    for number in range(6):
        check_chain(logs[1].read(f"chat:{number}"))
        assert logs[1].head(f"chat:{number}") == size
    for log in logs:
        log.close()


def test_an_id_that_another_process_took(tmp_path: Path) -> None:
    """Who comes second is told, and leaves nothing behind; what he begins next goes in."""
    mine, others = (SqliteLog(tmp_path / "log.db") for _ in range(2))
    append(mine, "chat:a", said(0))
    append(others, "chat:b", said(1), expected=0)

    with pytest.raises(ConcurrencyError) as refused:
        append(mine, "chat:b", said(2), expected=0)
    append(mine, "chat:c", said(3), expected=0)

    assert (refused.value.expected, refused.value.actual) == (0, 1)
    assert [one.event.id for one in everything(mine)] == ["m0", "m1", "m3"]
    mine.close()
    others.close()


def test_no_stream_without_its_events(tmp_path: Path) -> None:
    """Where the events cannot be written, their stream's row is not there either, and its id stays free."""
    log = SqliteLog(tmp_path / "log.db")
    append(log, "chat:a", said(0))
    writer = log.database.writer
    writer.execute("CREATE TEMP TRIGGER no BEFORE INSERT ON event BEGIN SELECT RAISE(ABORT, 'no'); END")

    with pytest.raises(DamagedError, match="refuses a row"):
        append(log, "chat:b", said(1), expected=0)
    streams = writer.execute("SELECT id FROM stream").fetchall()
    writer.execute("DROP TRIGGER no")

    assert (streams, writer.in_transaction) == ([("chat:a",)], False)
    assert append(log, "chat:b", said(1), expected=0).events[0].position.number == 2
    log.close()


def test_a_stream_that_is_begun_twice_in_a_group(tmp_path: Path) -> None:
    """The second of them is refused, and what others of the group wanted is done."""
    log = SqliteLog(tmp_path / "log.db")
    append(log, "chat:a", said(0))
    gate = threading.Event()

    def hold(_: object) -> None:
        gate.wait(10)

    holding = threading.Thread(target=log.write, args=(hold,))
    holding.start()
    wanted = [
        new("chat:b", said(1), expected=0),
        new("chat:b", said(2), expected=0),
        new("chat:c", said(3), expected=0),
    ]
    pending = [log.append([one], wait=False) for one in wanted]
    gate.set()
    holding.join()

    assert [type(one.exception(10)) for one in pending] == [type(None), ConcurrencyError, type(None)]
    assert [one.event.id for one in everything(log)] == ["m0", "m1", "m3"]
    log.close()


def test_each_of_some_streams_is_appended_to_in_one_statement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ends of those it opened are remembered; where they are too many, they are looked up anew, and are right."""
    log = SqliteLog(tmp_path / "log.db")
    streams = [f"chat:{number}" for number in range(5)]
    for number in range(2):
        append(log, "chat:first", said(number))
    for stream in streams:
        append(log, stream, said(0), expected=0)
    statements: list[str] = []
    log.database.writer.set_trace_callback(statements.append)
    for stream in streams:
        append(log, stream, said(1))
    assert [one.partition(" ")[0] for one in statements] == ["INSERT"] * 5

    monkeypatch.setattr("refold.infrastructure.log.sqlite.append.HEADS_MAX", 2)
    for stream in streams:
        append(log, stream, said(2))
        assert len(log._appender._heads) <= 3
    assert [one.version for one in log.read("chat:4")] == [1, 2, 3]
    log.close()


def test_streams_that_were_there_before_are_appended_to_in_one_statement(tmp_path: Path) -> None:
    """One look at the end of each stream is enough, as long as nobody else writes; then all are looked up anew."""
    path, streams = tmp_path / "log.db", [f"chat:{number}" for number in range(3)]
    with closing(SqliteLog(path)) as earlier:
        for stream in streams:
            append(earlier, stream, said(0))

    with closing(SqliteLog(path)) as log, closing(SqliteLog(path)) as other:
        for stream in streams:
            append(log, stream, said(1))
        statements: list[str] = []
        log.database.writer.set_trace_callback(statements.append)
        for stream in streams:
            append(log, stream, said(2))
        assert [one.partition(" ")[0] for one in statements] == ["INSERT"] * 3

        append(other, streams[0], said(3))
        for stream in streams:
            append(log, stream, said(4))
        assert [event.version for event in log.read(streams[0])] == [1, 2, 3, 4, 5]
        assert [event.version for event in log.read(streams[2])] == [1, 2, 3, 4]


def test_a_stream_that_was_opened_is_appended_to_in_one_statement(tmp_path: Path) -> None:
    """Opening it showed its end, which holds as long as the log ends there; else it is looked up anew."""
    path = tmp_path / "log.db"
    with closing(SqliteLog(path)) as earlier:
        for stream in ("chat:a", "chat:b", "chat:c"):
            append(earlier, stream, said(0))

    with closing(SqliteLog(path)) as log, closing(SqliteLog(path)) as other:
        append(log, "chat:a", said(1))
        statements: list[str] = []
        log.database.writer.set_trace_callback(statements.append)
        assert log.end("chat:b").version == 1
        append(log, "chat:b", said(2), expected=1)
        assert [one.partition(" ")[0] for one in statements] == ["INSERT"]

        # What was opened before another process wrote, or before this one did, is not believed.
        for writer in (other, log):
            assert log.end("chat:c").version == log.head("chat:c")
            head = log.head("chat:c")
            append(writer, "chat:c", said(head + 10), expected=head)
            with pytest.raises(ConcurrencyError):
                append(log, "chat:c", said(head + 20), expected=head)
        append(log, "chat:b", said(3), expected=2)
        check_chain(log.read("chat:b"))
        check_chain(log.read("chat:c"))
        assert [one.version for one in log.read("chat:c")] == [1, 2, 3]


def test_news_of_this_process_wake_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower does not wait for its next look at the file, which is for other processes."""
    monkeypatch.setattr("refold.infrastructure.log.sqlite.log.POLL_SECONDS", 60.0)
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        seen = log.now()
        follower = threading.Thread(target=log.wait_for_news, args=(seen,), kwargs={"timeout_seconds": 60.0})
        follower.start()
        while not log.news._sleepers:
            pass

        append(log, "chat:a", said(0))

        follower.join(20)
        assert not follower.is_alive()


@pytest.mark.parametrize("root", ["r", ""])
def test_a_new_stream_has_the_slice_of_its_root(tmp_path: Path, root: str) -> None:
    """In the first append, which is planned, and in a later one, which is cached; one without a root is its own."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        for stream in ("chat:a", "chat:b"):
            append(log, stream, said(0), expected=0, root=root)

            assert log.slice_of_stream(stream) == slice_of(root or stream)


def test_a_transaction_that_an_interrupt_left_is_rolled_back(tmp_path: Path) -> None:
    """The next append that needs a transaction of its own does not go on with it."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        append(log, "chat:a", said(0))
        log.database.writer.execute("BEGIN IMMEDIATE")
        log.database.writer.execute("INSERT INTO tag (name) VALUES ('left')")

        append(log, "chat:a", said(1), key="k")

        assert log.database.writer.execute("SELECT count(*) FROM tag WHERE name = 'left'").fetchone() == (0,)
        assert len(log.read("chat:a")) == 2


def test_what_a_refused_append_looked_up_is_not_kept(tmp_path: Path) -> None:
    """The first append of a process is refused, others write, and the next one that fits is taken."""
    with closing(SqliteLog(tmp_path / "log.db")) as other, closing(SqliteLog(tmp_path / "log.db")) as log:
        append(other, "chat:a", said(0))
        with pytest.raises(ConcurrencyError):
            append(log, "chat:a", said(1), expected=0)
        append(other, "chat:a", said(2))

        append(log, "chat:a", said(3), expected=2)

        assert [one.version for one in log.read("chat:a")] == [1, 2, 3]


@pytest.mark.parametrize("free", [2 * WAL_BYTES - 1, 1 << 40])
def test_a_wal_that_has_no_room_to_be_filled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    """Events take the room there is: on a disk that is nearly full, and in a file that may not grow much."""
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=free))
    with refold.open(tmp_path / "store.db") as store:
        writer = store.log.database.writer  # type: ignore[attr-defined]
        if free > 2 * WAL_BYTES:
            writer.execute("PRAGMA max_page_count = 200")
        for number in range(WRITES_BEFORE_FILLING + 2):
            store.chat("a").add_message("user", f"message {number}")

        assert (tmp_path / "store.db-wal").stat().st_size < WAL_BYTES
        assert writer.execute("PRAGMA cache_size").fetchone() == (-2_000,)
        assert len(store.chat("a").items) == WRITES_BEFORE_FILLING + 2
