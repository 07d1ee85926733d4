"""The past of a chat context: `.at(...)` in every form it takes."""

from datetime import UTC, datetime
from typing import Any

import pytest

import refold
from refold.domain.chat.context import ChatContext
from refold.domain.concurrency.promises import Promise
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.positions import BEGINNING, Moment

from .chat_events import OPENED, said
from .fakes import CountingSystem, LateLog, handle_on, record, texts


def told() -> ChatContext:
    """Return a context of version 5: opened, one, two, the name "half" for version 2, three; a second apart."""
    log = MemoryLog(CountingSystem(1_000))
    record(log, OPENED)
    chat = handle_on(log)
    chat.add_message("user", "one")
    chat.add_message("user", "two")
    chat.name_version("half", 2)
    chat.add_message("user", "three")
    return chat


def second(number: float) -> datetime:
    """Return the time of the version with this number; between two of them with a fraction."""
    return datetime.fromtimestamp(1_000 + number, UTC)


@pytest.mark.parametrize(
    ("address", "version"),
    [
        (0, 0),
        (2, 2),
        (5, 5),
        (-1, 4),
        (-5, 0),
        ("3", 3),
        ("-2", 3),
        ("half", 2),
        (second(3), 3),
        (second(2.5), 2),
        (second(0), 0),
        (second(99), 5),
        (second(4).isoformat(), 4),
        ("1970-01-01T00:16:41+00:00", 1),
        ("2999-01-01T00:00:00Z", 5),
        ("pos:0", 0),
        ("pos:4", 4),
        ("pos:99", 5),
        (BEGINNING, 0),
        (Moment(((-1, 2),)), 2),
    ],
)
def test_every_kind_of_address(address: Any, version: int) -> None:
    """A version, a time, a position or a name; the view is what had been said by then."""
    view = told().at(address)

    assert view.version == version
    assert texts(view) == ["one", "two", "three"][: max(0, version - 1 - (version > 3))]


@pytest.mark.parametrize("address", [6, -6, "6", "-6", "nobody", "hal", 10**30, -(10**30)])
def test_a_past_that_never_was(address: Any) -> None:
    """No such version or name: NotFoundError, which is a KeyError and says what there is."""
    with pytest.raises(NotFoundError, match=r"from 0 to 5|names: half"):
        told().at(address)


@pytest.mark.parametrize("address", [True, None, "", "--5", "2026-11-21T10:00", "pos:x"])
def test_an_address_that_is_none(address: Any) -> None:
    """InvalidInputError, before anything is read."""
    with pytest.raises(InvalidInputError):
        told().at(address)


def test_the_past_needs_no_present() -> None:
    """A view of a version reads that version alone: the context itself is not loaded for it."""
    chat = handle_on(told()._journal.log)

    assert texts(chat.at(2)) == ["one"]
    assert not chat._journal.is_loaded


def test_the_tail_of_the_past() -> None:
    """The last items before a version, found without loading those before them."""
    whole = told()
    chat, told_items = handle_on(whole._journal.log), whole.items

    assert chat.at(4).tail(1) == told_items[1:2]
    assert chat.tail(2) == told_items[1:]
    assert not chat._journal.is_loaded


@pytest.mark.parametrize(("version", "expected"), [(None, 5), (2, 2), (5, 5), (1, 1)])
def test_naming_a_version(version: int | None, expected: int) -> None:
    """The present one by default; the version that was named is given back."""
    chat = told()

    assert chat.name_version("here", version) == expected
    assert chat.names() == {"half": 2, "here": expected}
    assert chat.at("here").version == expected


@pytest.mark.parametrize("version", [0, -1, 6])
def test_naming_a_version_that_is_none(version: int) -> None:
    """Only what is there can be named."""
    with pytest.raises(NotFoundError):
        told().name_version("here", version)


@pytest.mark.parametrize("name", ["x", "v2", "r-1", "\u00fc1", "pos", "item", "n" * 100])
def test_a_version_is_found_by_its_name(name: str) -> None:
    """Whatever the name is like, in every kind of context."""
    store = refold.open(":memory:")
    for context in (store.chat("a"), store.queue("a"), store.pool("a"), store.window("a"), store.run("mia", "s")):
        context.name_version(name)
        context.name_version("later")
        assert context.version_at(name) == 1
        assert context.at(name).version == 1


def test_names_given_out_are_a_copy() -> None:
    """Changing them changes nothing."""
    chat = told()

    chat.names().clear()

    assert chat.names() == {"half": 2}


def test_a_name_counts_from_when_it_is_looked_for() -> None:
    """A name that was moved means its newest version, also when it is asked of an unloaded handle."""
    chat = told()
    chat.name_version("half", 3)

    assert handle_on(chat._journal.log).at("half").version == 3


def test_recorded_events_of_the_past() -> None:
    """`history` gives the events with their envelopes, a range of versions."""
    chat = told()

    assert [event.version for event in chat.history()] == [1, 2, 3, 4, 5]
    assert [event.version for event in chat.history(after=1, until=3)] == [2, 3]
    assert [event.meta.actor for event in chat.history(after=1)] == ["triage"] * 4


def test_the_past_of_a_handle_that_is_behind() -> None:
    """A handle sees the past up to its own version, also where the log has gone on."""
    chat = told()
    record(chat._journal.log, said("m9", "four"))

    assert chat.at("2999-01-01T00:00:00Z").version == 5
    assert chat.at("pos:99").version == 5
    with pytest.raises(NotFoundError):
        chat.at(6)


def test_what_was_seen_while_events_are_queued() -> None:
    """It is looked for when they are in the log, as for every view of the past."""
    log = LateLog(lambda: Promise(lambda: log.land()))
    record(log, OPENED)
    chat = handle_on(log, durability="enqueue")
    chat.add_message("user", "one")
    chat.add_function_call("lookup", "{}", "k")

    assert texts(chat.seen("k")) == ["one"]


def test_what_differs_between_two_moments() -> None:
    """The items that came and left, by what they say; of a view of the past up to its own version."""
    chat = told()
    one, *_, three = chat.items
    chat.evict([one.id])

    change = chat.diff("half")
    assert (change.removed, change.changed, change.moved) == ([one], [], [])
    assert change.added == chat.items
    assert chat.diff(-1, "half").removed == chat.at(5).items[1:]
    assert chat.diff(chat.at("half"), chat) == change
    fork = chat.at("half").fork()
    fork.add_message("user", "else")
    assert (fork.diff(chat).added, fork.diff(chat).removed) == (fork.items, chat.items)
    assert fork.diff(chat.at("half")).added == chat.diff("half", fork).added == fork.items[1:]
    assert chat.at(3).diff(2).added == chat.readonly.diff(2, 3).added == chat.items[:1]
    chat.evict([three.id])
    chat.add_message("user", "three")
    assert not chat.diff(6)
    with pytest.raises(NotFoundError):
        chat.diff(99)
