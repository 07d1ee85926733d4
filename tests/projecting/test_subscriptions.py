"""Subscriptions: which events they give, from where on, and how they are acknowledged by a name."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.chat.events import ERASED_TEXT
from refold.domain.errors import ConcurrencyError, DamagedError, InvalidInputError, StorageReadOnlyError
from refold.domain.log.envelope import RecordedEvent
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure import subscription
from tests.support.effort import pages_read

from ..contract.writing import everything
from .histories import something_of_everything, talk_at_length
from .test_set_aside import whisper

PROCESSES, EVENTS_EACH = 3, 40


def first(count: int, events: Iterator[RecordedEvent]) -> list[RecordedEvent]:
    """Take as many events."""
    return list(itertools.islice(events, count))


def streams(events: Iterable[RecordedEvent]) -> list[str]:
    """Return whose events these are, each once."""
    return sorted({event.stream for event in events})


def wanted(store: refold.Store, *prefixes: str) -> list[RecordedEvent]:
    """Return the events of the log that a subscriber should see."""
    return [event for event in everything(store.log) if event.stream.startswith(prefixes)]


def test_everything(store: refold.Store) -> None:
    """From the beginning to the end, in the order of the log, and on with what comes."""
    something_of_everything(store)
    there = everything(store.log)

    with store.subscribe() as events:
        assert first(len(there), events) == there
        assert events.moment == store.now()
        store.chat("new").add_message("user", "hello")
        assert [event.reference for event in first(2, events)] == ["chat:new@1", "chat:new@2"]


@pytest.mark.parametrize(
    ("options", "prefixes"),
    [
        ({"kinds": "queue"}, ["queue:"]),
        ({"kinds": ["chat", "run"]}, ["chat:", "run:"]),
        ({"contexts": "pool:b0"}, ["pool:b0"]),
        ({"contexts": ["chat:c0-fork", "window:b0"]}, ["chat:c0-fork", "window:b0"]),
        ({"kinds": "memory", "contexts": ["memory:b0", "chat:c0"]}, ["memory:"]),
    ],
)
def test_some_of_them(store: refold.Store, options: dict[str, Any], prefixes: list[str]) -> None:
    """Those of some kinds, of some contexts, of both at once; what is not wanted lies behind the subscriber as well."""
    something_of_everything(store)
    expected = wanted(store, *prefixes)
    store.chat("end").add_message("user", "not wanted, or the last")

    with store.subscribe(**options) as events:
        assert first(len(expected), events) == expected
        assert len(streams(expected)) > 0
    with store.subscribe(after=events.moment) as rest:
        behind = next(rest)
    assert behind not in expected


@pytest.mark.parametrize("at", [":memory:", "s.db"])
def test_one_context_of_many(at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a log of one sequence, the events of others between two of its own are not read, however many they are."""
    monkeypatch.setattr(subscription, "PAGE_EVENTS", 8)
    with refold.open(at if at == ":memory:" else str(tmp_path / at)) as store:
        one, other = store.chat("one"), store.chat("other", durability="enqueue")
        for _ in range(3):
            for _ in range(100):
                other.add_message("user", "not wanted")
            store.flush()
            one.add_message("user", "wanted")
        pages = pages_read(store, monkeypatch)
        with store.subscribe(contexts=["chat:one"]) as events:
            seen = first(4, events)

    assert [event.reference for event in seen] == [f"chat:one@{version}" for version in range(1, 5)]
    assert sum(pages) <= 8 * 4


def test_many_contexts_are_not_asked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages say sooner which events are theirs. Up to the limit each is asked, until the subscription stops."""
    asked: list[str] = []
    with refold.open(":memory:") as store:
        contexts = [f"chat:c{number}" for number in range(subscription.SKIPPED_STREAMS_MAX + 1)]
        for context in contexts:
            store.chat(context.removeprefix("chat:"))
        version_at = store.log.version_at
        with store.subscribe(contexts=contexts) as many, store.subscribe(contexts=contexts[1:]) as few:

            def noted(stream: str, moment: Moment) -> int:
                asked.append(stream)
                few.stop()
                return version_at(stream, moment)

            monkeypatch.setattr(store.log, "version_at", noted)
            assert next(many).stream == contexts[0]
            assert asked == []
            next(few, None)

    assert len(asked) == 1


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"kinds": ["chat", "chats"]}, "there is no kind of context 'chats': there are chat, queue, pool"),
        ({"contexts": ["chat:a", "b"]}, "'b' names no context: write its kind before its id"),
        ({"contexts": ["letter:a"]}, "'letter:a' names no context"),
        ({"name": ""}, "'' cannot name"),
        ({"name": "two words"}, "'two words' cannot name"),
    ],
)
def test_what_cannot_be(store: refold.Store, options: dict[str, Any], reason: str) -> None:
    """It is told at once, and not when the first event comes."""
    with pytest.raises(InvalidInputError, match=reason):
        store.subscribe(**options)


def test_from_anywhere(store: refold.Store) -> None:
    """Handed in again, the moment of each event leads to the next one."""
    something_of_everything(store)
    there = everything(store.log)
    seen: list[RecordedEvent] = []
    moment = BEGINNING

    for count in itertools.cycle([1, 7, 2]):
        with store.subscribe(after=moment) as events:
            seen += first(min(count, len(there) - len(seen)), events)
            moment = events.moment
        if len(seen) == len(there):
            break

    assert seen == there


def test_a_name_goes_on_where_it_was(store: refold.Store) -> None:
    """What was acknowledged is not given again, what was only given is; `after` is where the first one begins."""
    talk_at_length(store, 10)
    start = store.log.read_all(after=BEGINNING, limit=2).moment

    def given(count: int, acknowledged: int, name: str = "mailer") -> list[int]:
        versions = []
        with store.subscribe(name=name, after=start, kinds="chat") as events:
            for number in range(count):
                versions.append(next(events).version)
                if number + 1 == acknowledged:
                    events.ack()
        return versions

    assert given(4, 2) == [3, 4, 5, 6]
    assert given(3, 0) == [5, 6, 7]
    assert given(3, 3) == [5, 6, 7]
    assert given(2, 1, "another") == [3, 4]
    assert given(1, 1) == [8]


def test_a_name_in_the_next_process(place: str) -> None:
    """It is kept in the database."""
    with refold.open(place) as store:
        talk_at_length(store, 3)
        with store.subscribe(name="mailer") as events:
            first(2, events)
            events.ack()
    with refold.open(place) as store, store.subscribe(name="mailer") as events:
        assert next(events).version == 3


def test_two_of_one_name(store: refold.Store) -> None:
    """Who acknowledges second is told, and nothing that the first one did is undone; the next one is fine."""
    talk_at_length(store, 6)
    quick, slow = store.subscribe(name="mailer"), store.subscribe(name="mailer")
    first(4, quick)
    first(2, slow)
    quick.ack()

    for _ in range(2):
        with pytest.raises(ConcurrencyError, match="another one acknowledged subscription/mailer in the meantime"):
            slow.ack()
    quick.ack()
    next(quick)
    quick.ack()
    with store.subscribe(name="mailer") as events:
        assert next(events).version == 6
        events.ack()
    next(quick)
    with pytest.raises(ConcurrencyError):
        quick.ack()


def test_without_a_name(store: refold.Store) -> None:
    """There is nothing to acknowledge by."""
    with store.subscribe() as events, pytest.raises(InvalidInputError, match=r"by its name: subscribe\(name="):
        events.ack()


def test_a_store_that_is_only_read(tmp_path: Path) -> None:
    """It goes on where the name stands, says that it cannot remember more, and leaves what is remembered alone."""
    path = tmp_path / "a.db"
    with refold.open(path) as store:
        chat = store.chat("a")
        chat.add_message("user", "one")
        events = store.subscribe(name="mailer")
        next(events)
        events.ack()

    with refold.open(path, read_only=True) as store:
        events = store.subscribe(name="mailer")
        assert next(events).version == 2
        with pytest.raises(StorageReadOnlyError, match="subscription/mailer cannot be acknowledged"):
            events.ack()
        assert next(store.subscribe(name="another")).version == 1
    with refold.open(path) as store:
        assert next(store.subscribe(name="mailer")).version == 2


def test_an_event_that_cannot_be_decoded(place: str) -> None:
    """It is an error that names it, and then the subscription goes on behind it; where it is not wanted, it is none."""
    whisper(place)
    with refold.open(place) as store:
        there = store.log.read_all(after=BEGINNING, limit=100, undecodable=True).events
        readable = [one for one in there if one.stream != "chat:newer" or one.version < 3]
        given: list[RecordedEvent] = []
        named: list[str] = []
        with store.subscribe(name="mailer") as events:
            while len(given) < len(readable):
                try:
                    given.append(next(events))
                except DamagedError as error:
                    named.append(error.what)
            events.ack()

        assert (given, named) == (readable, ["event chat:newer@3", "event chat:newer@4"])
        with store.subscribe(contexts="chat:other") as events:
            assert [one.version for one in first(2, events)] == [1, 2]


def test_what_is_erased_before_it_is_handed_out(store: refold.Store) -> None:
    """It comes as what is left of it, once, and the subscription has no text of it any more."""
    for number in range(3):
        store.chat("a").add_message("user", f"secret {number}")
    with store.subscribe() as events:
        assert [one.version for one in first(2, events)] == [1, 2]
        store.erase(context="a", why="asked for", dry_run=False)
        assert "secret" not in repr(vars(events))
        rest = first(2, events)

    assert [(one.version, one.event.content) for one in rest] == [(3, (ERASED_TEXT,)), (4, (ERASED_TEXT,))]
