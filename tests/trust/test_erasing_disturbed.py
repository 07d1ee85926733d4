"""Erasing while others record, hold, verify and erase, and where the database refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

import refold
from refold.domain.erasure.events import STREAM, ErasureFinished
from refold.domain.errors import ConcurrencyError, HeldError, StorageError
from refold.infrastructure.log.row_faults import MissingTableError
from refold.infrastructure.projecting.runner import CATCH_UPS_MAX, ProjectionRunner
from refold.infrastructure.trust import erasing
from refold.infrastructure.trust.erasing import Eraser
from refold.infrastructure.trust.selection import Selection
from refold.infrastructure.verifying import store_check
from tests.trust.stores import KINDS, WORD, places

ADDRESS = "The delivery address is 12 Rue de la Paix in Paris."


def overtaken(store: refold.Store, monkeypatch: pytest.MonkeyPatch, first: Callable[[], object]) -> None:
    """Let something come before the first attempt to erase."""
    log = type(store._whole_log)
    erase, calls = log.erase, list[int]()

    def erase_later(self: Any, remnants: Any, new: Any) -> Any:
        calls.append(len(remnants))
        if len(calls) == 1:
            first()
        return erase(self, remnants, new)

    monkeypatch.setattr(log, "erase", erase_later)


def test_a_context_that_is_held_meanwhile(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps its texts, and who erases is told."""
    with refold.open(location) as store:
        store.chat("a").add_message("user", WORD)
        overtaken(store, monkeypatch, lambda: store.hold("a", why="a case"))

        with pytest.raises(HeldError, match="chat:a"):
            store.erase(context="a", why="x", dry_run=False)

        assert WORD in repr(store.log.read_events("chat:a"))
        assert [type(event).__name__ for event in store.log.read_events(STREAM)] == ["ContextHeld"]


def test_a_held_context_takes_in_the_texts_meanwhile(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever erases is told, and the held context keeps what it shows."""
    with refold.open(location) as store:
        chat, held = store.chat("a"), store.chat("b")
        chat.add_message("user", WORD)
        store.hold("b", why="a case")
        overtaken(store, monkeypatch, lambda: asyncio.run(held.merge(chat)))

        with pytest.raises(HeldError, match="chat:b"):
            store.erase(context="a", why="x", dry_run=False)
        assert WORD in repr(held.items)

        store.release("b", why="closed")
        assert store.erase(context="a", why="x", dry_run=False).events == 1
        assert WORD not in repr(held.items)


def test_others_that_never_pause(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After some attempts it is given up, and said."""
    with refold.open(location) as store:
        store.chat("a").add_message("user", WORD)

        def overtake(self: Any, remnants: Any, new: Any) -> Any:
            raise ConcurrencyError(STREAM, expected=0, actual=1)

        monkeypatch.setattr(type(store._whole_log), "erase", overtake)
        with pytest.raises(StorageError, match="others recorded all the time what was to be erased: try again"):
            store.erase(context="a", why="x", dry_run=False)
        assert WORD in repr(store.log.read_events("chat:a"))


def failing(*_: object, **__: object) -> Any:
    """Fail as a database does."""
    raise StorageError("the disk does not answer")


def test_an_end_that_the_database_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The store is opened all the same, which is logged; the next one that opens it finishes the erasure."""
    path = tmp_path / "agents.db"
    with refold.open(path) as store, monkeypatch.context() as patched:
        store.chat("a").add_message("user", WORD)
        log = type(store._whole_log)
        patched.setattr(log, "scrub", failing)
        with pytest.raises(StorageError, match=r"the disk does not answer\. The texts are erased from the log already"):
            store.erase(context="a", why="x", dry_run=False)
    with monkeypatch.context() as patched:
        patched.setattr(log, "scrub", failing)
        with refold.open(path) as store:
            assert WORD not in repr(store.log.read_events("chat:a"))
            assert not isinstance(store.log.read_events(STREAM)[-1], ErasureFinished)
    said = "whether an erasure is finished will be looked at when the store is opened again: the disk does not answer"
    assert [one.getMessage() for one in caplog.records] == [said]

    with refold.open(path) as store:
        assert isinstance(store.log.read_events(STREAM)[-1], ErasureFinished)


def test_rows_of_which_nobody_can_say_whether_they_are_there(location: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made anew at once, as those are that were there."""
    with refold.open(location) as store:
        store.chat("a").add_message("user", WORD)
        rows: Any = store._projections
        with monkeypatch.context() as patched:
            patched.setattr(type(rows), "checkpoint", failing)
            store.erase(context="a", why="x", dry_run=False)

        assert {one.name for one in store.projections() if one.rows} >= {"catalogue", "search"}
        assert store.search(WORD) == []


def test_rows_that_another_erasure_drops_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are made once more; after some attempts the error is that of the database."""
    with refold.open(":memory:") as store:
        store.chat("a").add_message("user", WORD)
        assert store.search(WORD)
        assert store.contexts()
        pages, failures = ProjectionRunner.pages, [CATCH_UPS_MAX - 1]

        def failing_first(
            runner: ProjectionRunner, *projections: Any, failed: dict[str, Exception], **options: Any
        ) -> Any:
            # Those before are questions of the erasure itself.
            if len(projections) > 1 and failures[0]:
                failures[0] -= 1
                failed[projections[0].name] = MissingTableError("there is no table of rows")
                return iter(())
            return pages(runner, *projections, failed=failed, **options)

        monkeypatch.setattr(ProjectionRunner, "pages", failing_first)
        assert store.erase(context="a", why="x", dry_run=False).receipt
        assert (failures, store.search(WORD)) == ([0], [])
        store.chat("a").add_message("user", WORD)
        failures[0] = CATCH_UPS_MAX
        with pytest.raises(StorageError, match="no table of rows"):
            store.erase(context="a", why="x", dry_run=False)


@pytest.fixture(params=[*KINDS, "sealed-postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[refold.Store]:
    """A store of each kind."""
    for place in places(request, tmp_path):
        with place.open() as opened:
            yield opened


def test_an_erasure_that_gives_up_says_what_is_gone(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others record all the time; it can be called again, and does the rest."""
    store.chat("b", user="tom").add_message("user", "hello")
    chat = store.chat("a", user="mia")
    chat.add_message("user", WORD)
    log: Any = store._whole_log
    erase = type(log).erase

    def erased(*given: Any) -> Any:
        receipts = erase(*given)
        chat.add_message("user", WORD)
        return receipts

    with monkeypatch.context() as busy:
        busy.setattr(erasing, "ATTEMPTS_MAX", 20)
        busy.setattr(type(log), "erase", erased)
        with pytest.raises(refold.StorageError, match=r"Texts of 2\d events are erased from the log .* call it again"):
            store.erase(user="mia", why="ticket 7", dry_run=False)

    assert store.erase(user="mia", why="ticket 7", dry_run=False).events > 0
    assert store.search(WORD) == []
    assert len(store.search("hello")) == 1
    assert store.verify().problems == ()


def test_verify_looks_again_while_texts_are_erased(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are those of the texts until they are made anew, which is no problem of the store."""
    store.chat("a", user="mia").add_message("user", WORD)
    assert len(store.search(WORD)) == 1
    verified, reports, looked = store_check._verified, list[Any](), Event()

    def look(*given: Any) -> Any:
        report = verified(*given)
        reports.append(report)
        looked.set()
        return report

    checking = Thread(target=lambda: reports.append(store.verify(processes=1)))

    def make_anew(eraser: Eraser, *given: Any) -> None:
        if not looked.is_set():
            checking.start()
            assert looked.wait(60)
        made(eraser, *given)

    made = Eraser._make_anew
    monkeypatch.setattr(store_check, "_verified", look)
    monkeypatch.setattr(Eraser, "_make_anew", make_anew)
    store.erase(user="mia", why="ticket 7", dry_run=False)
    checking.join()

    assert reports[0].problems != ()
    assert reports[-1].problems == ()


def test_two_erasures_of_a_user_at_once(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """In an encrypted store, the key that one has made is retired by the other."""
    log: Any = store.log
    if not hasattr(log, "newest_key"):
        pytest.skip("there are no keys of users")
    store.chat("a", user="mia").add_message("user", WORD)
    newest_key = type(log).newest_key

    def overtaken(log: Any, user: str) -> str:
        key: str = newest_key(log, user)
        monkeypatch.setattr(type(log), "newest_key", newest_key)
        log.retire_keys(user)
        return key

    monkeypatch.setattr(type(log), "newest_key", overtaken)
    assert store.erase(user="mia", why="ticket 7", dry_run=False).events >= 2

    assert store.search(WORD) == []
    assert not log.ring.retired()
    assert store.verify().problems == ()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_context_that_the_user_opens_meanwhile(
    store: refold.Store, monkeypatch: pytest.MonkeyPatch, dry_run: bool
) -> None:
    """Copies of its texts are reported, wherever they are in the log."""
    store.chat("before", user="tom").add_message("user", ADDRESS)
    store.chat("a", user="mia").add_message("user", "Hello.")
    complete = Selection.complete

    def late(selection: Selection) -> None:
        # Not `undo`, which would bring the long waits back.
        monkeypatch.setattr(Selection, "complete", complete)
        store.chat("opened", user="mia").add_message("user", ADDRESS)
        store.chat("after", user="tom").add_message("user", ADDRESS)
        complete(selection)

    monkeypatch.setattr(Selection, "complete", late)
    erasure = store.erase(user="mia", why="ticket 7", dry_run=dry_run)

    assert erasure.copies == ("chat:before@2", "chat:after@2")
    assert [one.context for one in erasure.contexts] == ["chat:a", "chat:opened"]
