"""Another process folds ahead: the same rows and the same index, whatever happens to it, and none stays behind."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import DamagedError, StorageClosedError
from refold.domain.positions import Moment
from refold.infrastructure.log.codec import CODEC, Codec
from refold.infrastructure.projecting import fold_ahead, runner
from refold.infrastructure.projecting.fold_ahead import FoldedPage, helper_for
from refold.infrastructure.projecting.folding import fold_page
from refold.projections.catalogue import CATALOGUE
from refold.projections.search import SEARCH
from tests.contract.writing import append
from tests.verifying.damaging import sql

from .counts import Counts
from .helped import PAGE, Watched, copied, filled, stored, stored_alone
from .telling import told
from .test_set_aside import Future, store_on


@pytest.fixture
def place(tmp_path: Path) -> str:
    """A store with something of everything in it, and with a message whose pieces are far apart."""
    return filled(str(tmp_path / "store.db"))


def pages_of(store: refold.Store) -> int:
    """Return how many pages a helper folds: all but the first one, which is smaller."""
    return -(-(store.now().events - PAGE) // (PAGE * runner.PAGES_AT_ONCE))


def test_the_rows_are_those_of_one_process(place: str, helpers: list[Watched]) -> None:
    """To the last number of a row and of a word; a helper folds all pages but the first, and is gone then."""
    expected = stored_alone(place)

    with refold.open(place) as store:
        [hit] = store.search('"on monday"')
        pages = pages_of(store)
        assert store.verify().problems == ()

    assert hit.snippet == "The parcel left Köln on Monday."
    assert stored(place) == expected
    assert [(one.pages, one.is_gone) for one in helpers] == [(pages, True)]
    assert pages > 10


def test_it_goes_on_from_a_checkpoint(place: str, helpers: list[Watched]) -> None:
    """A later search folds what is new, with a piece of a message that was there before."""
    with refold.open(place) as store:
        chat = store.chat("streamed")
        with chat.stream() as out:
            out.write("A second ")
            out.flush()
            assert not store.search('"a second parcel"')
            told(store, *map(str, range(40)), context="other")
            out.write("parcel.")
        assert [hit.item for hit in store.search('"a second parcel"')] == [out.message_id]
        told(store, "one more")
        told_after = store.search('"one more"')

    assert [one.pages > 3 for one in helpers] == [True, True, False]
    assert len(told_after) == 1
    assert stored(place)["terms"] == stored_alone_of(place)["terms"]


def stored_alone_of(place: str) -> dict[str, list[Any]]:
    """Return what one process stores for a search if it makes all rows anew."""
    copy = copied(place)
    with refold.open(copy) as store:
        store.rebuild("search")
    return stored(copy)


def test_progress_is_told_for_each_page(place: str, helpers: list[Watched]) -> None:
    """As when one process folds; the last one is the end."""
    with refold.open(place) as store:
        told_of: list[tuple[int, int]] = []
        store._runner.on_page = lambda done, total: told_of.append((done, total))
        store.search("parcel")
        end = store.now().events

    assert told_of == [(min(done, end), end) for done in range(PAGE, end + 2 * PAGE, 2 * PAGE)]
    assert helpers


def killed(helper: Watched) -> None:
    """Kill the process."""
    helper._process.kill()


def stopped(helper: Watched) -> None:
    """Stop it, so that it says nothing any more."""
    helper.is_stopped = True
    helper._process.send_signal(signal.SIGSTOP)


@pytest.mark.parametrize("harm", [killed, stopped])
@pytest.mark.parametrize("page", [1, 3])
def test_a_helper_that_fails_changes_nothing(
    place: str, helpers: list[Watched], monkeypatch: pytest.MonkeyPatch, harm: Callable[[Watched], None], page: int
) -> None:
    """This process goes on alone, before the first page of the helper or after some."""
    monkeypatch.setattr(fold_ahead, "PATIENCE_SECONDS", 0.3)
    monkeypatch.setattr(fold_ahead, "PAGES_AHEAD", 1)
    with refold.open(place) as store:
        # More than goes into a pipe, so that the helper is still at it.
        told(store, *(" ".join(f"word{number}x{text}" for number in range(4_000)) for text in range(10 * PAGE)))
        pages = pages_of(store)
    expected, seen = stored_alone(place), list[int]()

    def look(done: int, _: int) -> None:
        seen.append(done)
        if len(seen) == page:
            harm(helpers[0])

    with refold.open(place) as store:
        store._runner.on_page = look
        assert store.search("parcel")

    assert stored(place) == expected
    assert helpers[0].is_gone
    assert helpers[0].pages < pages


@pytest.mark.parametrize("fault", ["another log", "breaks off", "is not Python", "talks nonsense"])
def test_a_helper_that_does_not_begin(
    place: str, helpers: list[Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, fault: str
) -> None:
    """It is not waited for."""
    expected = stored_alone(place)
    if fault == "another log":
        monkeypatch.setattr("refold.infrastructure.helper_process._last_digest", lambda *_: "00")
    elif fault == "breaks off":
        monkeypatch.setattr(fold_ahead, "BEGIN", "1 / 0")
    elif fault == "is not Python":
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    else:
        monkeypatch.setattr(fold_ahead, "BEGIN", "import sys; sys.stdout.write('x' * 10_000)")

    with refold.open(place) as store:
        assert store.search("parcel")

    assert stored(place) == expected
    assert [(one.pages, one.is_gone) for one in helpers] == ([] if fault == "is not Python" else [(0, True)])


def test_an_event_that_cannot_be_decoded(place: str, helpers: list[Watched]) -> None:
    """This process sets it aside, as it does without a helper, and folds from its page on."""
    with store_on(place, Codec(CODEC.events | Future)) as newer:
        append(newer.log, "chat:newer", Future(words="psst"))
        end = newer.now().events
        told(newer, *map(str, range(20)))
    expected = stored_alone(place)

    with refold.open(place) as store:
        assert store.search("parcel")
        assert store.events_missed() == 1

    assert stored(place) == expected
    assert [(one.pages, one.is_gone) for one in helpers] == [((end - PAGE - 1) // (2 * PAGE), True)]


def test_an_event_that_is_damaged(place: str, helpers: list[Watched]) -> None:
    """This process reports it, as it does without a helper, and nothing is stored of the pages behind."""
    sql(place, "UPDATE event SET payload = x'00c1' WHERE position = ?", 20 * PAGE)

    with refold.open(place) as store:
        for _ in range(2):
            with pytest.raises(DamagedError, match="it does not match its digest"):
                store.search("parcel")
        assert 18 * PAGE <= store._projections.checkpoint(SEARCH).events < 20 * PAGE

    assert [one.is_gone for one in helpers] == [True, True]
    assert helpers[0].pages > 5


def test_rows_that_cannot_be_stored(place: str, helpers: list[Watched], monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is that of one process, and nothing of the page is stored."""

    def damaged(*_: object, **__: object) -> object:
        raise DamagedError("the table of search", "so this test says")

    with refold.open(place) as store:

        def fail(done: int, _: int) -> None:
            if done > 6 * PAGE:
                monkeypatch.setattr(store._runner._store, "save", damaged)

        store._runner.on_page = fail
        with pytest.raises(DamagedError, match="so this test says"):
            store.search("parcel")
        assert store._projections.checkpoint(SEARCH).events == 7 * PAGE

    assert helpers[0].is_gone


def test_a_store_that_is_closed_meanwhile(place: str, helpers: list[Watched], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is told to whoever searches, without another try, and the helper ends."""
    tries: list[int] = []

    def closed(*_: object, **__: object) -> object:
        tries.append(1)
        raise StorageClosedError("it is closed, so this test says")

    with refold.open(place) as store:

        def close(done: int, _: int) -> None:
            if done > 6 * PAGE:
                monkeypatch.setattr(store._runner._store, "save", closed)

        store._runner.on_page = close
        with pytest.raises(StorageClosedError, match="so this test says"):
            store.search("parcel")

    assert (helpers[0].is_gone, len(tries)) == (True, 1)


def test_pages_without_a_row(place: str, helpers: list[Watched]) -> None:
    """They need not be stored, and what comes behind them is found."""
    with refold.open(place) as store:
        for number in range(4 * PAGE * runner.PAGES_AT_ONCE):
            store.queue(f"silent {number}")
        told(store, "a walrus")
    expected = stored_alone(place)

    with refold.open(place) as store:
        assert len(store.search("walrus")) == 1
        assert (helpers[0].pages, helpers[0].is_gone) == (pages_of(store), True)

    assert stored(place) == expected


def test_a_helper_that_is_elsewhere(place: str, helpers: list[Watched]) -> None:
    """Its page is not taken if it does not follow, and the helper ends."""
    with refold.open(place) as store:
        helper = helper_for(store.log, store._projections, [SEARCH], store.now())
        assert helper is not None
        page = helper.after(Moment(), PAGE)

        assert page is not None
        assert helper.after(Moment(), PAGE) is None

    assert (helpers[0].is_over, helpers[0].is_gone, helpers[0].pages) == (True, True, 1)


def test_another_runner_comes_first(place: str, helpers: list[Watched]) -> None:
    """It stores all rows meanwhile; then this one has no use for its helper, and finds the same."""
    expected = stored_alone(place)

    with refold.open(place) as store, refold.open(place) as other:

        def overtake(done: int, _: int) -> None:
            if done > 6 * PAGE and not other.search("nowhere"):
                store._runner.on_page = None

        store._runner.on_page = overtake
        assert store.search("parcel")

    assert stored(place) == expected
    assert [one.is_gone for one in helpers] == [True, True]


def test_what_is_erased_meanwhile_is_not_found(place: str, helpers: list[Watched]) -> None:
    """A helper may have read a text before it was erased; its rows are not stored then."""
    with refold.open(place) as store, refold.open(place) as other:
        last = store.chat("last")
        last.add_message("user", "the password is xyzzy")

        def erase(done: int, _: int) -> None:
            if done > 6 * PAGE:
                store._runner.on_page = None
                # By now the helper has read all.
                while not helpers[0]._messages.qsize() >= fold_ahead.PAGES_AHEAD:
                    time.sleep(0.01)
                other.erase(context="last", why="a test", dry_run=False)

        store._runner.on_page = erase
        assert store.search("parcel")
        assert not store.search("xyzzy")
        assert not store.search("password")

    assert helpers[0].is_gone
    assert b"xyzzy" not in Path(place).read_bytes()


def test_an_interrupt_ends_the_helper(place: str, helpers: list[Watched]) -> None:
    """Ctrl-C in this process is enough, and the next search goes on."""
    expected = stored_alone(place)

    def interrupt(done: int, _: int) -> None:
        if done > 6 * PAGE:
            raise KeyboardInterrupt

    with refold.open(place) as store:
        store._runner.on_page = interrupt
        with pytest.raises(KeyboardInterrupt):
            store.search("parcel")
        assert helpers[0].is_gone
        store._runner.on_page = None
        assert store.search("parcel")

    assert stored(place) == expected
    assert [one.is_gone for one in helpers] == [True, True]


def test_who_gets_a_helper(place: str, helpers: list[Watched], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only a search of many events, in a file that another process can read and compare, on several cores."""
    with refold.open(place, witness=tmp_path / "witness") as seen, refold.open(place) as store:
        log: Any = store.log
        assert helper_for(seen.log, seen._projections, [SEARCH], log.now()) is None
        assert helper_for(log, store._projections, [CATALOGUE], log.now()) is None
        assert helper_for(log, store._projections, [SEARCH, Counts()], log.now()) is None
        for module, name, value in ((fold_ahead, "cores", lambda: 1), (sys, "executable", "/usr/bin/uwsgi")):
            with monkeypatch.context() as patched:
                patched.setattr(module, name, value)
                assert helper_for(log, store._projections, [SEARCH], log.now()) is None
        with (
            refold.open(tmp_path / "e.db", keys=refold.KeyFile(tmp_path / "keys.json")) as sealed,
            refold.open(place, read_only=True) as read_only,
            refold.open(":memory:") as memory,
        ):
            for one in (sealed, memory):
                told(one, *map(str, range(10)))
            for one in (sealed, read_only, memory):
                assert helper_for(one.log, one._projections, [SEARCH], one.now()) is None
        with closing(store_on(place, Codec(CODEC.events, mended={"chat:a@3": dict}))) as mended:
            assert helper_for(mended.log, mended._projections, [SEARCH], log.now()) is None
        assert helpers == []
        monkeypatch.setattr(runner, "AHEAD_EVENTS_MIN", log.now().events + 1)
        assert store.search("parcel")

    assert helpers == []


def test_a_row_of_an_earlier_page_is_read_before_it_is_stored(tmp_path: Path) -> None:
    """A helper is pages ahead: it takes rows from its own pages, until the checkpoint says that they are stored."""
    with refold.open(tmp_path / "store.db") as store:
        chat = store.chat("a")
        with chat.stream() as out:
            for piece in ("one ", "two ", "three "):
                out.write(piece)
                out.flush()
        events = store.log.read_all(after=Moment(), limit=100).events
        rows = fold_ahead._RowsAhead(store._projections, [SEARCH])
        folded = []
        for number, event in enumerate(events, 1):
            folded.append(fold_page(SEARCH, [event], rows))
            rows.add(SEARCH, Moment(((-1, number),)), folded[-1])

        assert [row.words for page in folded for row in page.values()][:3] == ["", "one", "one two"]
        assert len(rows._pages["search"]) == len([page for page in folded if page])
        store.search("one")
        assert rows.load(SEARCH, ["chat:a@2"])["chat:a@2"].words == "one two three"
        assert not rows._pages["search"]


def test_pages_of_large_texts_have_fewer_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several pages are held at a time, so that their size is what matters; short texts come many at a time again."""
    monkeypatch.setattr(fold_ahead, "PAGE_BYTES", 4_000)
    pages: list[bytes] = []
    monkeypatch.setattr(fold_ahead, "_write", pages.append)
    with refold.open(tmp_path / "store.db") as store:
        told(store, *["word " * 200] * 40, *["short"] * 200)
        fold_ahead._fold(store.log, store._projections, [SEARCH], Moment(), store.now(), 20)

    folded = [msgspec.msgpack.decode(page, type=FoldedPage) for page in pages]
    ends = [one.page.moment.events for one in folded]
    counts = [after - before for before, after in pairwise([0, *ends])]
    assert (counts[0], max(counts[1:5]), max(counts[8:])) == (20, 4, 20)
    assert all(len(page) < 2 * fold_ahead.PAGE_BYTES for page in pages[1:])
    assert [one.is_last for one in folded] == [*[False] * (len(folded) - 1), True]
    assert sum(len(one.rows(SEARCH)) for one in folded) == 240
