"""A copy of a store on another database is the same log: its events, times, keys, named moments and subscriptions."""

from __future__ import annotations

import asyncio
import os
import signal
from array import array
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.chat.events import Opened
from refold.domain.clock import REAL_SYSTEM
from refold.domain.errors import ConcurrencyError, DamagedError, InvalidInputError, StorageReadOnlyError
from refold.domain.log.envelope import NO_META
from refold.domain.log.ports import NewEvents
from refold.domain.moments import ORDER_EVENTS_MAX, STREAM, StoreCopied, order_of, slices_in
from refold.infrastructure.exchange import copying
from refold.infrastructure.exchange.copying import BYTES, copy_store
from refold.infrastructure.log.records import Part
from tests.cli.running import refold as run
from tests.contract.stores import log_at
from tests.support.every_kind import fill
from tests.support.processes import Program
from tests.verifying.damaging import sql

from .backed_up import events_of

COPY = Program("tests.exchange.test_copying")
PAIRS = [("sqlite", "postgres"), ("postgres", "sqlite"), ("sqlite", "sqlite"), ("postgres", "postgres")]


@pytest.fixture
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str]:
    """Return where a store lies, and where its copy is to lie."""
    urls = iter(("ready_pg_url", "pg_url"))
    kinds = getattr(request, "param", ("sqlite", "sqlite"))
    source, target = (
        str(request.getfixturevalue(next(urls))) if kind == "postgres" else str(tmp_path / f"{place}.db")
        for place, kind in enumerate(kinds)
    )
    with refold.open(source) as store:
        store.chat("first").add_message("user", "a large text; " * 500)
        store.name_moment("filled")
        chat = store.chat("later", session="s9")
        for number in range(40):
            chat.add_message("user", f"message {number}", idempotency_key=f"key {number}")
        subscription = store.subscribe(name="mailer")
        for _ in range(7):
            next(subscription)
        subscription.ack()
        subscription.stop()
    return source, target


def contents(place: str) -> dict[str, list[tuple[Any, ...]]]:
    """Return what every context holds, as it is stored: versions, times, envelopes and bytes."""
    with closing(log_at(place, codec=BYTES)) as log:
        return {
            stream: [(one.version, one.recorded_at, one.meta, bytes(one.event)) for one in log.read(stream)]
            for stream in log.streams()
            if stream != STREAM
        }


def keys(place: str) -> list[Any]:
    """Return the idempotency keys of a log."""
    with closing(log_at(place)) as log:
        return sorted(log.idempotency_keys())


@pytest.mark.parametrize("places", PAIRS, indirect=True, ids="-".join)
def test_all_of_a_store_is_moved(places: tuple[str, str]) -> None:
    """The copy verifies, shows the same at each moment, takes new events, and its subscribers go on where they were."""
    source, target = places
    with refold.open(source, create=False) as store:
        asyncio.run(fill(store))
        head, seen = store.now(), [row.key for row in store.at("filled").contexts()]
        after = store.subscribe(name="mailer").moment
        rest = [one.reference for one in store.log.read_all(after=after, limit=500).events]

    report = copy_store(source, target, move=True)

    assert (report.events, report.copied, report.moment, report.is_moved) == (head.events, head.events, str(head), True)
    assert contents(target) == contents(source)
    assert keys(target) == keys(source) != []
    with refold.open(target, create=False) as store:
        assert store.verify().problems == ()
        assert [row.key for row in store.at("filled").contexts()] == seen
        after = store.subscribe(name="mailer").moment
        following = [one.reference for one in store.log.read_all(after=after, limit=500).events]
        record = store.log.read(STREAM)[-1]
        assert sorted(following) == sorted([*rest, record.reference])
        copied = record.event
        assert (copied.moment, copied.events, copied.root.hex()) == (str(head), head.events, report.root)
        assert store.chat("later").add_message("user", "message 3", idempotency_key="key 3").id
        assert len(store.chat("later").items) == 40
        store.chat("later").add_message("user", "on the new one")
    with refold.open(source, create=False) as store, pytest.raises(StorageReadOnlyError, match="was moved"):
        store.chat("later").add_message("user", "on the old one")


def test_positions_and_digests_come_back(places: tuple[str, str], pg_url: str, tmp_path: Path) -> None:
    """From SQLite to PostgreSQL and back: the same positions, so the same digests, to the bit."""
    source, back = places[0], str(tmp_path / "back.db")

    there = copy_store(source, pg_url)
    home = copy_store(pg_url, back, lag_seconds=0)

    assert home.target_moment == there.moment
    with closing(log_at(source)) as log, closing(log_at(back)) as other:
        assert log.read_all(after=refold.Moment(), limit=9_999) == other.read_all(after=refold.Moment(), limit=9_999)


def test_a_store_that_was_moved_is_copied(places: tuple[str, str], pg_url: str, tmp_path: Path) -> None:
    """The record of the move is an event like others, beside the names of moments, and is copied as it is."""
    copy_store(places[0], pg_url, move=True)
    copy_store(pg_url, str(tmp_path / "again.db"), lag_seconds=0)

    with refold.open(pg_url) as store, refold.open(tmp_path / "again.db") as again:
        moved = [one.event for one in store.log.read(STREAM)]
        assert type(moved[-1]) is StoreCopied
        assert again.log.read(STREAM)[-1].event == moved[-1]
        assert again.verify().is_whole


@pytest.mark.parametrize("at_once", [ORDER_EVENTS_MAX, 8], ids=["one record", "many records"])
@pytest.mark.parametrize("places", [("sqlite", "postgres")], indirect=True, ids="-".join)
def test_old_positions_are_understood(places: tuple[str, str], at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A position that somebody wrote down when the store was a file names the same moment on the server."""
    source, target = places
    monkeypatch.setattr(copying, "ORDER_EVENTS_MAX", at_once)
    copy_store(source, target, move=True)

    with refold.open(source, create=False, read_only=True) as old, refold.open(target, create=False) as new:
        for position in (1, 2, 17, old.now().events):
            there = {row.key: row.version for row in new.at(f"pos:{position}").contexts()}
            assert there == {row.key: row.version for row in old.at(f"pos:{position}").contexts()}


@pytest.mark.long
@pytest.mark.parametrize("places", PAIRS[:2], indirect=True, ids="-".join)
def test_it_goes_on_after_a_kill(places: tuple[str, str]) -> None:
    """Killed before or after any page, the next call takes the rest, and the copy is equal."""
    source, target = places
    for pages in ("1 before", "2 after"):
        count, when = pages.split()
        with COPY.start(source, target, int(count), when) as killed:
            assert killed.wait(60) == -signal.SIGKILL

    report = copy_store(source, target, move=True, lag_seconds=0)

    assert 0 < report.copied < report.events
    assert contents(target) == contents(source)


def test_a_move_that_was_killed_at_its_end_is_finished(places: tuple[str, str]) -> None:
    """The source takes no events then, and nothing is lost: another call does the rest."""
    source, target = places
    copy_store(source, target)
    with refold.open(source) as store:
        store.chat("later").add_message("user", "the last one")
    with closing(log_at(source)) as log:
        log.retire()  # type: ignore[attr-defined]  # a log in a database

    report = copy_store(source, target, move=True)

    assert (report.copied, report.is_moved) == (1, True)
    assert contents(target) == contents(source)


@pytest.mark.parametrize("places", PAIRS, indirect=True, ids="-".join)
def test_a_move_that_was_killed_after_its_end_says_so(places: tuple[str, str]) -> None:
    """Another call has nothing left to do, whatever was written since; a mere copy is refused."""
    source, target = places
    first = copy_store(source, target, move=True, lag_seconds=0)
    with refold.open(target) as store:
        store.chat("later").add_message("user", "written since")

    again = copy_store(source, target, move=True)

    assert again == msgspec.structs.replace(first, copied=0, inexact={})
    with pytest.raises(InvalidInputError, match="does not begin with"):
        copy_store(source, target)
    with closing(log_at(source)) as log:
        log.reopen()  # type: ignore[attr-defined]  # a log in a database
    assert copy_store(source, target, move=True).is_moved
    with refold.open(source) as store, pytest.raises(StorageReadOnlyError, match="was moved"):
        store.chat("later").add_message("user", "never")


def test_what_is_written_meanwhile_comes_with_the_next_call(places: tuple[str, str]) -> None:
    """A copy is of one moment; another call takes what was added since, and nothing twice."""
    source, target = places
    first = copy_store(source, target)
    with refold.open(source) as store:
        store.chat("later").add_message("user", "one more")
        store.name_moment("later")

    assert copy_store(source, target).copied == 2
    assert copy_store(source, target).copied == 0
    assert contents(target) == contents(source)
    assert first.is_moved is False


def test_progress_is_told(places: tuple[str, str]) -> None:
    """With the events that are copied so far, of all."""
    steps = list[tuple[int, int]]()

    report = copy_store(*places, progress=lambda *step: steps.append(step))

    assert steps[-1] == (report.events, report.events)


def test_what_was_written_otherwise_is_noticed(places: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy is compared with the source before it counts, and the source goes on."""
    source, target = places
    add = copying.Incoming.add

    def add_later(incoming: Any, one: refold.RecordedEvent, *rest: Any) -> None:
        add(incoming, msgspec.structs.replace(one, recorded_at=one.recorded_at + 1), *rest)

    monkeypatch.setattr(copying.Incoming, "add", add_later)
    with pytest.raises(DamagedError, match="it is not equal to the source's: copy again"):
        copy_store(source, target, move=True)

    with refold.open(source) as store:
        store.chat("later").add_message("user", "still open")


def test_few_slices_are_kept_in_memory(places: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """However many streams are copied."""
    monkeypatch.setattr(copying, "SLICES_KEPT_MAX", 1)
    side = copying._side_at(places[0], None, create=False)
    with closing(side.log):
        side.read_on()

        assert side.tally.events == side.log.now().events > 40
        assert len(side._slices) == 1


def test_a_copy_that_was_written_to_is_left_alone(places: tuple[str, str]) -> None:
    """It has become a store of its own: nothing goes on from there, and nothing is written."""
    source, target = places
    copy_store(source, target)
    with refold.open(target) as store:
        store.chat("mine").add_message("user", "hello")
    before = contents(target)

    with pytest.raises(InvalidInputError, match="does not begin with, or texts that were erased there since"):
        copy_store(source, target, move=True)

    assert contents(target) == before
    with refold.open(source) as store:
        store.chat("later").add_message("user", "still open")


def test_others_in_the_target_are_noticed(places: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Another writer ends the copy with an error; neither is lost."""
    source, target = places
    monkeypatch.setattr(copying, "PAGE_EVENTS", 8)
    refold.open(target).close()
    take, pages = copying.Incoming.write, iter(range(999))

    def write(incoming: Any) -> None:
        if next(pages) == 2:
            sql(target, "UPDATE event SET version = version + 100 WHERE version = 1")
        take(incoming)

    monkeypatch.setattr(copying.Incoming, "write", write)
    with pytest.raises((ConcurrencyError, DamagedError)):
        copy_store(source, target)


def test_a_failed_move_lets_the_source_go_on(places: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is shut out of a store whose copy is not equal."""
    source, target = places

    def fail(copy: object) -> None:
        raise DamagedError("the copy", "it is not equal")

    monkeypatch.setattr(copying._Copy, "require_keys", fail)
    with pytest.raises(DamagedError):
        copy_store(source, target, move=True)

    with refold.open(source) as store:
        store.chat("later").add_message("user", "still open")


def test_a_move_compares_the_keys(places: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are in no digest: where one is missing in the copy, the source goes on."""
    source, target = places
    verify = copying._Copy.verify

    def verify_and_lose(copy: Any) -> None:
        verify(copy)
        sql(target, "DELETE FROM idempotency WHERE key = 'key 3'")

    monkeypatch.setattr(copying._Copy, "verify", verify_and_lose)
    with pytest.raises(DamagedError, match="they are not equal to the source's"):
        copy_store(source, target, move=True)

    with refold.open(source) as store:
        store.chat("later").add_message("user", "still open")
    with closing(log_at(source)) as log:
        log.retire()  # type: ignore[attr-defined]  # a log in a database
    with pytest.raises(DamagedError, match="they are not equal to the source's"):
        copy_store(source, target, move=True)
    # It may have been moved elsewhere before, and two stores would go on.
    with refold.open(source) as store, pytest.raises(StorageReadOnlyError, match="init --reopen"):
        store.chat("later").add_message("user", "never")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writers_that_were_there_before_are_refused(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Also a process with the store open, on its quickest way; when the store is open again, it goes on."""
    place = str(request.getfixturevalue("ready_pg_url")) if kind == "postgres" else str(tmp_path / "a.db")
    with refold.open(place) as store, closing(log_at(place)) as log:
        chat = store.chat("a")
        chat.add_message("user", "before")
        log.retire()  # type: ignore[attr-defined]  # a log in a database
        for _ in range(2):
            with pytest.raises(StorageReadOnlyError, match="init --reopen"):
                chat.add_message("user", "meanwhile")
        log.reopen()  # type: ignore[attr-defined]

        chat.add_message("user", "after")

        said = [item.text for item in store.chat("a").items if isinstance(item, refold.ChatMessage)]
        assert said == ["before", "after"]


def test_bytes_that_nobody_understands_are_copied(places: tuple[str, str]) -> None:
    """An event of an older or a newer Refold stays to the bit what it is."""
    source, target = places
    payload = msgspec.msgpack.encode({"t": "chat.tomorrow.v9", "x": 1})
    with closing(log_at(source)) as log:
        draft = log.draft("chat.tomorrow.v9", NO_META, payload)  # type: ignore[attr-defined]
        log.copy_in([Part("chat:odd", 1, [draft], 5)])  # type: ignore[attr-defined]

    copy_store(source, target)

    assert [row[3] for row in contents(target)["chat:odd"]] == [payload]


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_page_that_does_not_follow(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """If another process has written to the target meanwhile, nothing of the page is taken."""
    place = str(tmp_path / "c.db") if kind == "sqlite" else str(request.getfixturevalue("ready_pg_url"))
    payload = msgspec.msgpack.encode({"t": "chat.tomorrow.v9", "x": 1})
    with closing(log_at(place)) as log:
        draft = log.draft("chat.tomorrow.v9", NO_META, payload)  # type: ignore[attr-defined]
        with pytest.raises(ConcurrencyError, match="chat:late"):
            log.copy_in(  # type: ignore[attr-defined]
                [Part("chat:odd", 1, [draft], 5), Part("chat:late", 2, [draft], 5)]
            )

        assert log.streams() == []


class _Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def now(self) -> float:
        return self.time

    def new_id(self, prefix: str) -> str:
        return REAL_SYSTEM.new_id(prefix)


@pytest.fixture
def skewed(ready_pg_url: str) -> Iterator[tuple[str, Any]]:
    """A log on PostgreSQL, and a function that appends an event of a new stream at a time."""
    clock = _Clock()
    with closing(log_at(ready_pg_url, system=clock)) as log:

        def append(name: str, time: float) -> None:
            clock.time = time
            event = Opened()
            news = NewEvents(stream=f"chat:{name}", expected_version=0, events=(event,), metas=(NO_META,), root=name)
            log.append([news]).result()

        yield ready_pg_url, append


def test_clocks_that_differ_are_waited_for(skewed: tuple[str, Any], tmp_path: Path) -> None:
    """What is newer than the lag waits until the writers are stopped, so that times never fall in the file."""
    url, append = skewed
    now = REAL_SYSTEM.now()
    append("a", now - 500)
    append("b", now - 10)

    assert copy_store(url, str(tmp_path / "c.db")).events == 1
    append("c", now - 20)
    assert copy_store(url, str(tmp_path / "c.db"), move=True).copied == 2
    assert contents(str(tmp_path / "c.db")) == contents(url)


def test_clocks_that_differ_more_are_refused(skewed: tuple[str, Any], tmp_path: Path) -> None:
    """The copy so far stays, and the message says what to do."""
    url, append = skewed
    now = REAL_SYSTEM.now()
    append("a", now - 10)
    copy_store(url, str(tmp_path / "c.db"), lag_seconds=0)
    append("b", now - 20)

    with pytest.raises(InvalidInputError, match=r"chat:b@1 was recorded before .* --lag"):
        copy_store(url, str(tmp_path / "c.db"), lag_seconds=0)


def test_a_named_moment_between_events_of_a_file(skewed: tuple[str, Any], tmp_path: Path) -> None:
    """It becomes the last position that includes nothing else, and is reported; nobody misses an event."""
    url, append = skewed
    append("late", 2_000_000.0)
    with refold.open(url) as store:
        store.name_moment("then")
    append("early", 1_900_000.0)

    report = copy_store(url, str(tmp_path / "c.db"), lag_seconds=0)
    told = run("copy", url, tmp_path / "d.db", "--lag", 0, "--json")
    later = run("copy", url, tmp_path / "d.db")

    assert report.inexact == told.json["inexact"] == {"then": "0"}
    assert "the moment then lies between events there: it is pos:0 now\n" in told.err
    left = "events of the last 60 seconds are left for the next call (--lag)"
    assert (left in told.err, left in later.err) == (False, True)


def test_a_page_does_not_divide_what_one_key_stands_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends before the first of these events, or after the last: they are one part of a copy."""
    source, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    pages, write = list[list[int]](), copying.Incoming.write
    with refold.open(source) as store:
        chat = store.chat("a")
        for key in ("one", "two"):
            with store.transaction(idempotency_key=key):
                for _ in range(3):
                    chat.add_message("user", "hello")

    def note(incoming: copying.Incoming) -> None:
        pages.append([len(part.drafts) for part in incoming._parts])
        write(incoming)

    monkeypatch.setattr(copying, "PAGE_EVENTS", 2)
    monkeypatch.setattr(copying.Incoming, "write", note)
    copy_store(source, target)

    assert [page for page in pages if page] == [[1, 3], [3]]
    assert events_of(source) == events_of(target)[:7]


@pytest.mark.parametrize("bad", ["itself", "memory", "missing"])
def test_what_cannot_be_copied(bad: str, places: tuple[str, str], tmp_path: Path) -> None:
    """The message says why, and no file appears."""
    source = {"itself": places[0], "memory": ":memory:", "missing": str(tmp_path / "none.db")}[bad]
    target = places[0] if bad == "itself" else places[1]

    for move in (False, True):
        with pytest.raises(refold.RefoldError, match=r"onto itself|in memory|there is no database"):
            copy_store(source, target, move=move)

    assert not Path(places[1]).exists()
    assert bad == "itself" or not Path(source).exists()


def test_the_order_of_events_is_kept_in_few_bytes() -> None:
    """Slices are 16 bits, whatever the machine; what is no such order is refused."""
    order = order_of(array("H", [1, 1023, 1]))

    assert list(slices_in(order)) == [1, 1023, 1]
    with pytest.raises(InvalidInputError, match="cannot be read"):
        StoreCopied(source="a", moment="1", events=1, root=b"", order=b"no zlib").require_admissible()


def main(source: str, target: str, pages: int, when: str) -> None:
    """Copy a store in small pages, and die before or after one of them."""
    copying.PAGE_EVENTS = 8
    write, written = copying.Incoming.write, 0

    def counted(incoming: Any) -> None:
        nonlocal written
        if written == pages and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        write(incoming)
        written += 1
        if written > pages:
            os.kill(os.getpid(), signal.SIGKILL)

    setattr(copying.Incoming, "write", counted)  # noqa: B010 - a method
    copy_store(source, target, lag_seconds=0)
