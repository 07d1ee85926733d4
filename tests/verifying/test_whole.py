"""A store that is whole is said to be: whatever is in it, and whoever wrote it."""

from __future__ import annotations

import itertools
import sqlite3
import tracemalloc
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import StorageUnavailableError
from refold.domain.log.ports import Page
from refold.domain.positions import Moment, Position
from refold.infrastructure.log.codec import CODEC, Codec, Upcaster
from refold.infrastructure.log.postgres.wire import Call, Wire
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.projecting import comparison
from refold.infrastructure.projecting.rows import database
from refold.infrastructure.projecting.rows import sqlite as sqlite_rows
from refold.infrastructure.projecting.rows.sqlite import ScratchProjectionStore, SqliteProjectionStore
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store
from refold.infrastructure.verifying import verify
from refold.projections.catalogue import CATALOGUE
from refold.projections.contract import Projection
from tests.contract.writing import append, said
from tests.support.every_kind import fill

from .damaging import sql, told

# A few for each projection; SLICES of them would be 1,024.
TRIPS_MAX = 250


async def test_every_kind_of_context(store: refold.Store) -> None:
    """Forks, merges, summaries, rounds, large texts, names of moments: all of it is looked at, and nothing is wrong."""
    await fill(store)
    store.name_moment("filled")

    report = store.verify()

    assert (report.problems, report.is_whole) == ((), True)
    assert report.streams == len(store.contexts()) + 1
    assert report.events == sum(number for _, number in store.now().heads)
    assert report.projections == len(store.projections())


def test_an_empty_store(store: refold.Store) -> None:
    """There is nothing in it to be wrong, and repairing it changes nothing."""
    assert [(one.streams, one.events, one.problems) for one in (store.verify(), store.verify(repair=True))] == [
        (0, 0, ())
    ] * 2


def test_a_small_store_takes_few_round_trips(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices without blocks are found together, and next to no table is made for rows that nobody asked for yet."""
    trips: list[int] = []
    hand_over = Wire._hand_over

    def counted(wire: Wire, calls: Sequence[Call]) -> None:
        trips.append(len(calls))
        hand_over(wire, calls)

    with refold.open(pg_url) as store:
        store.chat("a").add_message("user", "hello")
        monkeypatch.setattr(Wire, "_hand_over", counted)
        assert store.verify().is_whole
        monkeypatch.undo()

    assert len(trips) < TRIPS_MAX
    # The contexts are compared with those of the catalogue.
    assert sql(pg_url, "SELECT tablename FROM pg_tables WHERE tablename LIKE 'view%'") == [
        (f"view_catalogue_{CATALOGUE.version}",)
    ]


def test_a_check_that_is_stopped_says_so(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the log is read, or between two projections; nothing that was not checked counts as sound."""
    monkeypatch.setattr(comparison, "PAGE_EVENTS", 16)
    for number in range(40):
        store.chat("a").add_message("user", f"text {number}")

    early = store.verify(stop=iter((False, True)).__next__)
    late = store.verify(stop=iter((False, False, False, False, True)).__next__)

    assert (early.events, early.projections, early.is_done, early.is_whole) == (32, 0, False, False)
    assert (late.events, late.projections, late.is_done, late.is_whole) == (41, 1, False, False)
    assert len(late.left_out) == len(store.projections()) - 1
    assert store.verify().is_whole
    assert verify(store.log, store._projections, [CATALOGUE]).is_whole


def test_others_go_on_writing(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written, and what is folded by others, while the store is looked at does no harm."""
    monkeypatch.setattr(comparison, "PAGE_EVENTS", 2)
    chat, texts = store.chat("a"), iter(range(40))
    for number in range(9):
        chat.add_message("user", f"before {number}")
    assert store.contexts()
    chat.add_message("user", "not folded yet")

    def go_on(_: object) -> None:
        for number in itertools.islice(texts, 2):
            chat.add_message("user", f"text {number}")
        assert store.contexts()

    report = store.verify(progress=go_on)

    assert (report.problems, report.events) == ((), 11)
    assert chat.version == 23


def test_the_log_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """For all checks and all projections together; and never more than a few events or rows are held."""
    with refold.open(tmp_path / "store.db") as store:
        for number in range(300):
            append(store.log, f"chat:{number % 7}", said(number))
        store._runner.catch_up(*store._runner.projections.values())
    monkeypatch.setattr(comparison, "PAGE_EVENTS", 16)
    monkeypatch.setattr(database, "WALKED_ROWS", 16)
    pages, held = list[int](), list[int]()
    read_all = SqliteLog.read_all

    def read(log: SqliteLog, *, undecodable: bool = False, **options: Any) -> Page:
        page = read_all(log, undecodable=undecodable, **options)
        # Alone, the last event that each projection saw is looked at.
        if undecodable and options["limit"] > 1:
            pages.append(len(page.events))
        return page

    def counting(values: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
        def counted(opened: SqliteProjectionStore, projection: Projection, found: Any) -> list[Any]:
            held.append(len(answer := values(opened, projection, found)))
            return answer

        return counted

    with refold.open(tmp_path / "store.db") as store:
        monkeypatch.setattr(SqliteLog, "read_all", read)
        for kind in (SqliteProjectionStore, ScratchProjectionStore):
            monkeypatch.setattr(kind, "_values", counting(kind._values))
        for name in ("read", "read_events", "read_ranges"):
            monkeypatch.setattr(SqliteLog, name, None)

        report = store.verify()

    assert (report.problems, report.events, sum(pages), max(pages)) == ((), 300, 300, 16)
    assert sum(held) > 1_000
    assert max(held) == 16
    scratch = ScratchProjectionStore(MemoryProjectionStore())
    scratch.close()
    with pytest.raises(StorageUnavailableError, match="closed"):
        scratch.checkpoints(CATALOGUE)


def test_no_room_for_temporary_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an error of its own: it says nothing about the rows that are stored, which a repair would drop."""
    monkeypatch.setattr(ScratchProjectionStore, "sql", replace(ScratchProjectionStore.sql, add="FAIL"))
    with refold.open(tmp_path / "store.db") as store:
        store.chat("a").add_message("user", "text")
        assert store.contexts()

        with pytest.raises(StorageUnavailableError, match="the temporary rows"):
            store.verify(repair=True)
        assert len(store._projections.rows(CATALOGUE)) == 1


def test_a_full_disk_under_temporary_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, and what to do."""
    monkeypatch.setattr(sqlite_rows, "PRAGMAS", [*sqlite_rows.PRAGMAS, "cache_size = -64", "max_page_count = 20"])
    with refold.open(tmp_path / "store.db") as store:
        for number in range(200):
            append(store.log, f"chat:{number}", said(number, ("text " * 1_000,)))
        assert store.search("text")

        says = r"no room left on the disk of the temporary rows: .*SQLITE_TMPDIR"
        with pytest.raises(StorageUnavailableError, match=says):
            store.check("search")


def test_nothing_is_written(tmp_path: Path) -> None:
    """The rows that the events give are made in a file of their own, which nobody sees."""
    with refold.open(tmp_path / "store.db") as store:
        store.chat("a").add_message("user", "text")
        assert store.contexts()
        files = {path.name for path in tmp_path.iterdir()}
        with closing(sqlite3.connect(tmp_path / "store.db")) as other:
            before = other.execute("PRAGMA data_version").fetchone()

            assert store.verify().is_whole

            assert other.execute("PRAGMA data_version").fetchone() == before
        assert {path.name for path in tmp_path.iterdir()} == files


class MessageOfTomorrow(MessageAdded, frozen=True, kw_only=True, gc=False, tag="chat.message_added.v1"):
    """What a later Refold may record: a field more."""

    added_tomorrow: str = ""


def newest(fields: dict[str, Any]) -> dict[str, Any]:
    """Bring a message of another time to today's shape."""
    return {**fields, "id": f"was {fields['id']}"}


class MessageOfYesterday(MessageAdded, frozen=True, kw_only=True, gc=False, tag="chat.message_added.v0"):
    """What an earlier Refold may have recorded."""


@pytest.mark.parametrize("count", [3, 700])
@pytest.mark.parametrize("kind", [MessageOfTomorrow, MessageOfYesterday])
def test_events_of_other_times(tmp_path: Path, kind: type[MessageAdded], count: int) -> None:
    """A field that is not known here, and a shape that is brought to the newest, are no damage, sealed or not."""
    more: dict[str, Any] = {"added_tomorrow": "x"} if kind is MessageOfTomorrow else {}
    writer = SqliteLog(tmp_path / "store.db", codec=Codec(CODEC.events))
    for start in range(0, count, 100):
        numbers = range(start, min(count, start + 100))
        append(writer, "chat:a", *(kind(id=f"m{n}", created_at=1.0, role="user", content="x", **more) for n in numbers))
    writer.close()
    upcasting = Codec(CODEC.events, {"chat.message_added.v0": Upcaster("chat.message_added.v1", newest)})

    log = SqliteLog(tmp_path / "store.db", codec=upcasting)
    with Store(log, MemoryProjectionStore()) as store:
        assert (store.verify().problems, store.verify().events) == ((), count)


# A log whose digests are right can still be out of order; only memory lets one be made so.


def reordered(store: refold.Store, *order: int) -> None:
    """Put the events of a log in memory into another order."""
    log: Any = store.log
    log._all = [log._all[number] for number in order]


def written() -> Store:
    """Return a store in memory with four events of two streams."""
    store = refold.open(":memory:")
    for number in range(2):
        for stream in ("chat:a", "chat:b"):
            append(store.log, stream, said(number))
    return store


def test_positions_that_do_not_rise() -> None:
    """Each event that is not where it should be is named."""
    store = written()
    reordered(store, 0, 2, 1, 3)

    assert told(store.verify()) == ["position chat:a@2", "position chat:b@1", "position chat:b@2"]


def test_versions_out_of_order() -> None:
    """The version behind another one that it does not follow, and the one that comes too late."""
    store = written()
    log: Any = store.log
    log._all = [
        msgspec.structs.replace(one, position=Position(-1, number))
        for number, one in enumerate([log._all[n] for n in (2, 1, 0, 3)], 1)
    ]

    report = store.verify()

    assert [one for one in told(report) if one.startswith("version")] == ["version chat:a@2", "version chat:a@1"]


def test_a_time_that_falls() -> None:
    """The event that says it was recorded before the one in front of it is named."""
    store = written()
    log: Any = store.log
    log._all[2] = msgspec.structs.replace(log._all[2], recorded_at=1)

    assert told(store.verify()) == ["position chat:a@2"]
    assert log.now() == Moment(((-1, 4),))


@pytest.mark.long
def test_memory_does_not_grow_with_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Events and rows of four times as many pages take as much memory as those of one."""
    monkeypatch.setattr(comparison, "PAGE_EVENTS", 32)
    monkeypatch.setattr(database, "WALKED_ROWS", 32)
    peaks = list[int]()
    for count in (4, 4, 16):
        with refold.open(tmp_path / f"{len(peaks)}.db") as store:
            for _ in range(count):
                texts = tuple(said(number, ("text " * 200,)) for number in range(32))
                append(store.log, "chat:a", *texts)
            store._runner.catch_up(*store._runner.projections.values())
            tracemalloc.start()
            assert store.verify().events == 32 * count
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()

    # The first one has what is loaded once.
    assert peaks[2] < 1.2 * peaks[1]
