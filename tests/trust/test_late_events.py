"""Events before whose record somebody is erased, with whose key they are encrypted, or others come first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import patch

import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.concurrency.promises import Settled
from refold.domain.errors import ConcurrencyError, InvalidInputError, StorageBusyError
from refold.domain.log.envelope import NO_META
from refold.domain.log.ports import ANY_VERSION, NewEvents
from refold.infrastructure.databases import ring_of
from refold.infrastructure.log.postgres.wire import Wire
from refold.infrastructure.trust import sealed_log
from refold.infrastructure.trust.key_ring import KeyRing
from refold.infrastructure.trust.keys import MasterKeys
from tests.trust.stores import WORD, Place, places


@pytest.fixture(params=["sealed", "sealed-postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """The place of an encrypted store."""
    yield from places(request, tmp_path)


def before_it_is_recorded(store: refold.Store, call: Callable[[], object]) -> None:
    """Have something happen once between the encryption of an event and its commit, as if the process was stopped."""
    below: Any = store.log.below  # type: ignore[attr-defined]
    append = below.append

    def appended(*given: Any, **options: Any) -> Any:
        below.append = append
        call()
        return append(*given, **options)

    below.append = appended


@pytest.mark.parametrize("count", [1, 40, 0], ids=["one", "many", "repeatable"])
@pytest.mark.parametrize("name", ["a", "new"])
def test_an_event_that_comes_after_its_key_was_destroyed(place: Place, name: str, count: int) -> None:
    """It is refused, as nobody could read it, nor erase it; tried again, it gets a new key."""
    with place.open() as store, place.open() as other:
        store.chat("a", user="mia").add_message("user", WORD)
        chat = other.chat(name, user="mia")
        assert len(chat.items) == (name == "a")

        def add() -> None:
            with other.transaction(idempotency_key=None if count else "k"):
                for number in range(count or 1):
                    chat.add_message("user", f"late {number}")

        before_it_is_recorded(other, lambda: store.erase(user="mia", why="ticket 7", dry_run=False))
        with pytest.raises(StorageBusyError, match=r"somebody was erased .* try again"):
            add()
        other.chat("b", user="tom").add_message("user", "hello")
        other.chat("later", user="mia").add_message("user", "again")

    with place.open() as store:
        assert len(store.search("again")) == len(store.search("hello")) == 1
        assert store.search("late") == store.search(WORD) == []
        assert store.erase(user="mia", why="ticket 8", dry_run=False).events > 0
        assert store.verify().problems == ()


def test_an_event_that_comes_right_before_its_key_is_destroyed(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is being looked through for events with the key, so none comes any more."""
    destroy = KeyRing.destroy
    with place.open() as store, place.open() as other:
        store.chat("a", user="mia").add_message("user", WORD)
        chat, ring = other.chat("a"), ring_of(other.log)
        assert len(chat.items) == 1
        known = ring.newest(other.log.user_subject("mia"))  # type: ignore[attr-defined]

        def overtaken(erasing: KeyRing, *given: Any) -> int:
            with monkeypatch.context() as late:
                late.setattr(ring, "newest", lambda _: known)
                with pytest.raises(StorageBusyError, match="somebody was erased"):
                    chat.add_message("user", "late")
            return destroy(erasing, *given)

        monkeypatch.setattr(KeyRing, "destroy", overtaken)
        store.erase(user="mia", why="ticket 7", dry_run=False)

        assert not ring.retired()
        chat.add_message("user", "later")
        assert len(store.search("later")) == 1
        assert store.verify().problems == ()


def test_an_append_that_has_looked_at_its_key_when_that_is_closed(place: Place) -> None:
    """The erasure waits for its end, and finds the event: then it keeps the key."""
    if not place.is_server:
        pytest.skip("a file has one writer at a time")
    with place.open() as store, place.open() as other:
        chat = store.chat("a", user="mia")
        chat.add_message("user", WORD)
        log: Any = store.log
        erasing: Any = ring_of(other.log)
        log.retire_keys("mia")
        # It still knows the key that another process has retired.
        (retired,) = erasing.retired()
        stale = store.log.ring.key(retired.id)  # type: ignore[attr-defined]
        log.ring.newest = lambda _: stale
        dispatch, closed = Wire.dispatch, Event()

        def close() -> None:
            erasing.close([retired])
            closed.set()

        closing = Thread(target=close)

        def dispatched(wire: Wire, *calls: Any) -> None:
            """Look at the key, and let the rest wait until somebody closes it."""
            if any("INSERT INTO event" in call.sql for call in calls):
                place_of_rows = next(place for place, call in enumerate(calls) if "INSERT" in call.sql)
                wire.run(*calls[:place_of_rows])
                closing.start()
                assert not closed.wait(0.3)
                calls = calls[place_of_rows:]
            dispatch(wire, *calls)

        with patch.object(Wire, "dispatch", dispatched):
            chat.add_message("user", "in time")
        closing.join()

        assert other.log.destroy_retired_keys() == 0  # type: ignore[attr-defined]
        assert len(other.chat("a").items) == 2


def test_an_event_that_comes_while_others_are_waited_for(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another process still knew the key: the event is erased as well, so that nothing needs the key."""
    with place.open() as store, place.open() as other:
        store.chat("a", user="mia").add_message("user", WORD)
        chat, ring = other.chat("a"), ring_of(other.log)
        assert len(chat.items) == 1
        known = ring.newest(other.log.user_subject("mia"))  # type: ignore[attr-defined]

        def wait(_: float) -> None:
            assert store.search(WORD) == []
            with monkeypatch.context() as late:
                late.setattr(ring, "newest", lambda _: known)
                chat.add_message("user", f"late {WORD}")
            assert len(store.search("late")) == 1

        monkeypatch.setattr("refold.infrastructure.trust.sealed_log.time.sleep", wait)
        done = store.erase(user="mia", why="ticket 7", dry_run=False)

        assert (done.events, ring.retired(), store.search("late")) == (3, [], [])
        assert done.receipt is not None
        assert done.receipt.is_sound(store.log)
        assert store.verify().problems == ()


def test_an_event_in_memory_that_comes_after_its_key_was_destroyed() -> None:
    """Of two threads, one is stopped while the other one erases somebody."""
    with refold.open(":memory:", keys=MasterKeys({"first": bytes(range(32))})) as store:
        chat = store.chat("a", user="mia")
        chat.add_message("user", WORD)
        before_it_is_recorded(store, lambda: store.erase(user="mia", why="ticket 7", dry_run=False))
        with pytest.raises(StorageBusyError, match="somebody was erased"):
            chat.add_message("user", "late")


def test_events_of_others_that_are_committed_together_with_a_late_one(place: Place) -> None:
    """They are recorded: the late one is refused by itself."""
    with place.open() as store, place.open() as other:
        store.chat("a", user="mia").add_message("user", WORD)
        late = other.chat("a", durability="enqueue")
        fine = [other.chat(name, user="tom", durability="enqueue") for name in "bc"]
        other.flush()
        below: Any = other.log.below  # type: ignore[attr-defined]
        with below._committer.turn():
            for chat in (fine[0], late, fine[1]):
                chat.add_message("user", "queued")
            store.erase(user="mia", why="ticket 7", dry_run=False)

        with pytest.raises(StorageBusyError, match="somebody was erased"):
            other.flush()

        assert [row.key for row in store.contexts() if row.items] == ["chat:a", "chat:b", "chat:c"]
        assert [hit.context for hit in store.search("queued")] == ["c", "b"]
        assert store.verify().problems == ()


def test_an_append_to_any_end_is_tried_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others always come first; the last attempt's error is that of the caller."""
    monkeypatch.setattr(sealed_log, "ATTEMPTS_MAX", 3)
    errors = [ConcurrencyError("chat:a", expected=number, actual=number + 1) for number in range(4)]
    left = [*errors]
    with refold.open(":memory:", keys=MasterKeys({"m1": bytes(32)})) as store:
        store.chat("a")
        log: Any = store.log
        monkeypatch.setattr(log.below, "append", lambda *_, **__: Settled(None, left.pop(0)))
        event = MessageAdded(id="m", created_at=0.0, role="user", content=("text",))
        new = NewEvents(stream="chat:a", expected_version=ANY_VERSION, events=(event,), metas=(NO_META,), root="a")

        assert log.append([new]).exception() is errors[2]


def test_a_context_that_another_user_opens_first() -> None:
    """What comes later is that user's, too, and leaves with the first."""
    with refold.open(":memory:", keys=MasterKeys({"m1": bytes(32)})) as store:
        before_it_is_recorded(store, lambda: store.chat("a", user="mia"))
        with pytest.raises(InvalidInputError, match="was opened with user 'mia'"):
            store.chat("a", user="tom")
        store.chat("a").add_message("user", "hello")

        log: Any = store.log
        assert log.subject_of("chat:a") == log.user_subject("mia")
        assert len({one.meta.key_id for one in log.read("chat:a")}) == 1


@pytest.mark.parametrize("is_waiting", [True, False])
def test_an_interrupt_is_no_error_of_an_append(place: Place, is_waiting: bool) -> None:
    """It ends the call that waits or reads the receipts; the append goes on."""

    def interrupted(_: object = None) -> Any:
        raise KeyboardInterrupt

    def settled(_: object = None) -> Any:
        return None

    ask: Any = interrupted if is_waiting else settled
    made: Any = list if is_waiting else interrupted
    below: Any = SimpleNamespace(result=ask, exception=ask)
    with place.open() as store, pytest.raises(KeyboardInterrupt):
        sealed_log._Receipts(below, made, cast(sealed_log.SealedLog, store.log)).exception()
