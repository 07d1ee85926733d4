"""
Reading where some events lie in blocks and the newest in rows: whatever is asked for is given, and no more is opened.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import refold
from refold.chat import ChatMessage, ChatRole
from refold.domain.errors import DamagedError, NotFoundError
from refold.domain.log.ports import Range
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure.log import row_faults
from refold.infrastructure.log.compression import Compression
from refold.infrastructure.log.records import Batch
from refold.infrastructure.log.row_faults import CheckedBefore, require_digests
from refold.infrastructure.log.sqlite import blocks
from refold.infrastructure.log.sqlite import log as log_module
from refold.infrastructure.log.sqlite.blocks import Block
from refold.infrastructure.log.sqlite.connection import SqliteDatabase
from refold.infrastructure.log.sqlite.log import SqliteLog
from tests.verifying.damaging import sql

from ..contract.damage import LARGE
from ..contract.writing import append, everything, ids, numbers, said
from ..domain.chat_events import said as chat_said
from ..domain.strategies import PROPERTY

SEGMENT = 512


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with 700 events of one stream, of which the first 512 are sealed; the third holds a large text."""
    path = tmp_path / "log.db"
    log = SqliteLog(path)
    for start in range(0, 700, 50):
        append(log, "chat:a", *(said(n, LARGE if n == 3 else f"text {n}") for n in range(start + 1, start + 51)))
    log.close()
    assert sql(path, "SELECT min(version), count(*) FROM event") == [(513, 188)]
    return path


@pytest.fixture
def log(path: Path) -> Iterator[SqliteLog]:
    """The log in it."""
    log = SqliteLog(path)
    yield log
    log.close()


@pytest.mark.parametrize("step", [2, 3, 11, 63])
@pytest.mark.parametrize("size", [1, 2, 40])
@pytest.mark.parametrize("start", [0, 300, 470, 513])
def test_ranges_of_blocks_and_rows(log: SqliteLog, start: int, size: int, step: int) -> None:
    """In blocks, in rows, and across the border between them."""
    ranges = [Range("chat:a", after, after + size) for after in range(start, 720, size + step)]

    wanted = [[f"m{version}" for version in range(one.after + 1, min(one.until, 700) + 1)] for one in ranges]
    assert [ids(events) for events in log.read_ranges(ranges)] == wanted


@pytest.mark.parametrize(("after", "until"), [(0, 1), (5, 9), (60, 70), (63, 64), (511, 514), (0, 700)])
def test_envelopes_of_a_part_of_a_block(log: SqliteLog, after: int, until: int) -> None:
    """Each has its own version, position, time and digest, however few of the block are wanted."""
    few, everything = log.read("chat:a", after=after, until=until), log.read("chat:a")

    assert few == everything[after:until]
    assert [one.version for one in few] == list(range(after + 1, until + 1))


def test_what_is_not_wanted_is_not_opened(log: SqliteLog, path: Path) -> None:
    """Where a text is lost, the events that do not refer to it can be read, those of the same block too."""
    with closing(sqlite3.connect(path)) as connection, connection:
        assert connection.execute("DELETE FROM blob").rowcount == 1

    assert ids(log.read_events("chat:a", until=2)) == ["m1", "m2"]
    with pytest.raises(DamagedError, match="event chat:a@3 refers to it"):
        log.read_events("chat:a", after=2, until=3)


def test_a_version_that_is_missing_between(path: Path) -> None:
    """Among rows and among blocks: that one of those asked for is missing is told, also where later ones are there."""
    sql(path, "DELETE FROM event WHERE version = 600")
    sql(path, "DELETE FROM part WHERE first_version <= 100 AND last_version >= 100")
    log = SqliteLog(path)

    for missing in (600, 100):
        with pytest.raises(DamagedError, match="it is missing"):
            log.read_ranges([Range("chat:a", after, after + 1) for after in (missing - 45, missing - 1, missing + 45)])
    log.close()


def test_versions_of_the_past(tmp_path: Path) -> None:
    """At every position and every time, in blocks and rows, whoever wrote between; and a hole is told of."""
    log = SqliteLog(path := tmp_path / "log.db")
    for start in range(0, 700, 35):
        append(log, "chat:a", *map(said, range(start, start + 21)))
        append(log, "chat:b", *map(said, range(start, start + 14)))
    log.close()
    log = SqliteLog(path)
    events = log.read_all(after=BEGINNING, limit=800).events

    for stream, version in (("chat:a", 0), ("chat:b", 0)):
        for place, event in enumerate(events, 1):
            version += event.stream == stream
            assert log.version_at(stream, Moment(((-1, place),))) == version
        last = {event.recorded_at: event.version for event in events if event.stream == stream}
        assert [log.version_at(stream, time) for time in last] == list(last.values())
    sql(path, "DELETE FROM event WHERE version BETWEEN 350 AND 400")
    with pytest.raises(DamagedError, match=r"chat:a@3.*missing"):
        log.version_at("chat:a", Moment(((-1, 683),)))
    log.close()


def test_few_checks_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above a number of them all are forgotten, and computed again later; the newest is known."""
    monkeypatch.setattr(row_faults, "CHECKED_MAX", 3)
    checked = CheckedBefore()

    counts = []
    for number in range(8):
        checked.add(bytes([number]))
        assert bytes([number]) in checked
        counts.append(sum(bytes([known]) in checked for known in range(8)))

    assert counts == [1, 2, 3, 1, 2, 3, 1, 2]


def test_few_names_stay_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams are read; those that were forgotten are looked up again."""
    monkeypatch.setattr(log_module, "STREAMS_MAX", 10)
    log = SqliteLog(tmp_path / "log.db")
    for number in range(50):
        append(log, f"chat:{number}", said(number))

    for _ in range(2):
        assert [log.read(f"chat:{number}")[0].event.id for number in range(50)] == [
            f"m{number}" for number in range(50)
        ]
        assert numbers(everything(log)) == [f"m{number}" for number in range(50)]
    assert len(log._keys) <= 10
    assert len(log._names) <= 10
    log.close()


def test_a_reader_that_was_interrupted(path: Path) -> None:
    """Its traceback keeps an unfinished statement; nobody reads later what the file was when that began."""
    with closing(SqliteLog(path)) as log, closing(SqliteLog(path)) as other:

        def be_interrupted() -> None:
            with log.database.reading() as connection:
                rows = connection.execute("SELECT version FROM event")
                next(rows)
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt) as caught:
            be_interrupted()
        append(other, "chat:a", said(701))

        assert numbers(log.read("chat:a", after=699)) == ["m700", "m701"]
        assert caught.tb is not None


def test_a_large_text_is_checked_each_time(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lies outside of its block: that the block was right once says nothing of the next time."""
    checks: list[str] = []
    check = blocks.BlockReader._check

    def noted(reader: Any, connection: Any, block: Block, *given: Any) -> None:
        checks.append(str(block.key))
        check(reader, connection, block, *given)

    monkeypatch.setattr(blocks.BlockReader, "_check", noted)

    def checks_of_two_reads(after: int) -> int:
        checks.clear()
        for _ in range(2):
            assert len(log.read("chat:a", after=after, until=after + 3)) == 3
        return len(checks)

    assert (checks_of_two_reads(0), checks_of_two_reads(300)) == (2, 1)


@pytest.fixture
def statements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements of all connections that are made from now on, but for those that only begin and end something."""
    made = SqliteDatabase._connect
    seen: list[str] = []

    def note(statement: str) -> None:
        if not statement.startswith(("BEGIN", "COMMIT", "ROLLBACK", "PRAGMA")):
            seen.append(statement)

    def connect(database: SqliteDatabase) -> sqlite3.Connection:
        connection = made(database)
        connection.set_trace_callback(note)
        return connection

    monkeypatch.setattr(SqliteDatabase, "_connect", connect)
    return seen


def at(number: int) -> Moment:
    """Return a moment of the log."""
    return Moment(((-1, number),)) if number else BEGINNING


# Each call, and how many statements it takes at most: the first time, when the stream is looked up, and then.
EFFORT: dict[str, tuple[Callable[[SqliteLog], object], int, int]] = {
    "a part of a block": (lambda log: log.read("chat:a", after=5, until=9), 3, 2),
    "rows": (lambda log: log.read_events("chat:a", after=600, until=610), 3, 2),
    "a large text": (lambda log: log.read_events("chat:a", after=2, until=3), 4, 3),
    "no such stream": (lambda log: log.read("chat:x"), 1, 1),
    "a hundred ranges": (lambda log: log.read_ranges([Range("chat:a", n, n + 1) for n in range(0, 700, 7)]), 4, 3),
    "the first page": (lambda log: log.read_all(after=BEGINNING, limit=100), 3, 3),
    "a page of blocks": (lambda log: log.read_all(after=at(100), limit=100), 3, 3),
    "a page of rows": (lambda log: log.read_all(after=at(600), limit=50), 4, 3),
    "an empty page": (lambda log: log.read_all(after=at(700), limit=50), 3, 3),
    "the head": (lambda log: log.head("chat:a"), 2, 1),
    "the end": (lambda log: log.end("chat:a"), 3, 3),
    "now": (lambda log: log.now(), 1, 1),
    "nothing under a key": (lambda log: log.recorded_under("chat:a", "k"), 2, 1),
}


@pytest.mark.parametrize(("ask", "first", "then"), EFFORT.values(), ids=EFFORT)
def test_how_many_statements(
    path: Path, statements: list[str], ask: Callable[[SqliteLog], object], first: int, then: int
) -> None:
    """A stream that was read once is known, and so is a block's place; the answer is the same."""
    with closing(SqliteLog(path)) as log:
        answers, efforts = [], []
        for _ in range(3):
            statements.clear()
            answers.append(ask(log))
            efforts.append(len(statements))

    assert answers[0] == answers[1] == answers[2]
    assert (efforts[0] <= first, efforts[1] <= then, efforts[2] <= then) == (True, True, True), efforts


@pytest.mark.parametrize("limit", [1, 7, 100, 600])
@pytest.mark.parametrize("after", [0, 1, 63, 64, 100, 511, 512, 513, 650, 699, 700, 701])
def test_a_page_from_anywhere(log: SqliteLog, after: int, limit: int) -> None:
    """In blocks, in rows, and across the border between them, whatever was read before it."""
    page = log.read_all(after=at(after), limit=limit)

    assert numbers(page.events) == [f"m{number}" for number in range(after + 1, min(700, after + limit) + 1)]
    assert page.moment == at(min(700, after + limit))


RANGES = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 6)), min_size=1, max_size=5).map(
    lambda steps: [
        Range("chat:a", after, after + size)
        for place, (_, size) in enumerate(steps)
        for after in [sum(gap + before for gap, before in steps[:place]) + steps[place][0]]
    ]
)


@PROPERTY
@example(ranges=[Range("chat:a", 2, 7), Range("chat:a", 10, 10)], begin=7, count=11)
@given(ranges=RANGES, begin=st.integers(1, 40), count=st.integers(1, 20))
def test_what_a_batch_wants(ranges: list[Range], begin: int, count: int) -> None:
    """Of each version it knows whether it was asked for, and of some that follow each other the first and last such."""
    batch = Batch(ranges)
    wanted = {version for one in ranges for version in range(one.after + 1, one.until + 1)}
    there = [version for version in range(begin, begin + count) if version in wanted]

    assert [version for version in range(1, 60) if batch.wants(version)] == sorted(wanted)
    assert batch.count == len(wanted)
    bounds = batch.bounds(begin, begin + count)
    assert list(bounds) == (list(range(there[0], there[-1] + 1)) if there else [])


def test_blocks_that_were_opened_last_are_kept(log: SqliteLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever goes to and fro between a few of them opens each once; the one that was used longest ago makes room."""
    opened: list[str] = []
    inside = blocks.BlockReader._open_unknown

    def noted(reader: blocks.BlockReader, block: Block, **given: Any) -> Any:
        opened.append(str(block.key))
        return inside(reader, block, **given)

    monkeypatch.setattr(blocks.BlockReader, "_open_unknown", noted)

    def read(number: int) -> int:
        before = len(opened)
        assert ids(log.read_events("chat:a", after=64 * number, until=64 * number + 2)) == [
            f"m{64 * number + 1}", f"m{64 * number + 2}",
        ]  # fmt: skip
        return len(opened) - before

    assert [read(number) for number in (1, 1, 2, 1, 3, 4, 1)] == [1, 0, 1, 0, 1, 1, 0]
    assert [read(number) for number in (5, 1, 3, 4, 2)] == [1, 0, 0, 0, 1]


def test_an_addition_to_an_unread_chat_reads_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of its blocks is expanded once, and each event is checked once; the first one also when it is opened."""
    location = str(tmp_path / "store.db")
    with refold.open(location) as store:
        for name in "abcdef":
            store.chat(name).record_items([chat_said(f"{name}{number}") for number in range(99)])
    expanded, checked = list[int](), list[int]()
    body = blocks.checked_body

    def noted_body(compression: Compression, block: Block) -> bytes:
        expanded.append(block.key)
        return body(compression, block)

    def noted_digests(computed: Any, stored: Any, *rest: Any) -> None:
        checked.append(len(stored))
        require_digests(computed, stored, *rest)

    monkeypatch.setattr(blocks, "checked_body", noted_body)
    monkeypatch.setattr(blocks, "require_digests", noted_digests)
    with refold.open(location) as store:
        chat = store.chat("b", create=False)
        assert (len(expanded), checked) == (1, [1])
        chat.add_items([ChatMessage(id="new", role=ChatRole.USER, content="And then?")])
        assert (len(expanded), len({*expanded}), sum(checked)) == (3, 3, 101)


def test_a_reading_that_was_broken_off(log: SqliteLog) -> None:
    """Its connection is closed, as a statement of it may still hold the file; that of a whole reading is kept."""
    database = log.database
    with pytest.raises(NotFoundError), database.reading():
        raise NotFoundError("nothing there")
    assert not database._readers

    with database.reading():
        pass
    assert len(database._readers) == 1
