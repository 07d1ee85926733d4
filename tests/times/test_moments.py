"""Names for moments of a whole store: given, moved, seen by everybody."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import InvalidInputError, NotFoundError
from refold.domain.moments import STREAM
from refold.domain.positions import Moment
from tests.support.processes import Program

NAMER = Program("tests.times.namer")


def test_a_name_stands_for_its_moment(store: refold.Store) -> None:
    """The present one by default, or one that is given: as a moment, a position, or by another name."""
    chat = store.chat("a", session="s")
    chat.add_message("user", "one")
    position, first = chat.history()[-1].position, store.now()

    assert store.name_moment("first") == first
    chat.add_message("user", "two")
    second = store.now()
    given = [store.name_moment("now"), store.name_moment("again", "first"), store.name_moment("there", first)]
    at_event = [store.name_moment("event", position), store.name_moment("text", f"pos:{position}")]

    assert given == [second, first, first]
    assert store.moments() == {"first": first, "now": second, "again": first, "there": first} | dict(
        zip(("event", "text"), at_event, strict=True)
    )
    assert [store.at(name).chat("a").version for name in store.moments()] == [2, 3, 2, 2, 2, 2]


def test_one_of_many_names(monkeypatch: pytest.MonkeyPatch) -> None:
    """The moment of one is found without reading those of the others; on PostgreSQL the text of each is long."""
    with refold.open(":memory:") as store:
        for number in range(9):
            store.name_moment(f"m{number}")
        parsed: list[str] = []
        parse = Moment.parse

        def noted(text: str) -> Moment:
            parsed.append(text)
            return parse(text)

        monkeypatch.setattr(Moment, "parse", noted)

        assert store.at("m3").moment == parse("3")
        assert parsed == ["3"]


def test_a_name_moves(store: refold.Store) -> None:
    """It stands for the last moment that it was given to; the same again is nothing new."""
    chat = store.chat("a")
    store.name_moment("here")
    chat.add_message("user", "one")
    last = store.now()

    assert store.name_moment("here", last) == store.name_moment("here", last) == last

    assert store.moments() == {"here": last}
    assert store.log.head(STREAM) == 2
    assert [row.key for row in store.contexts()] == ["chat:a"]


@pytest.mark.parametrize("name", ["", "1st", "a b", "a@b", "a:b", "a..b", "x" * 101, "a\n", "-a", "a\ud800"])
def test_what_cannot_be_a_name(store: refold.Store, name: str) -> None:
    """It could be taken for something else; nothing is recorded."""
    store.chat("a")

    with pytest.raises(InvalidInputError):
        store.name_moment(name)
    assert (store.moments(), store.log.head(STREAM)) == ({}, 0)


def test_what_cannot_be_named(store: refold.Store) -> None:
    """A time says itself when it is; a version belongs to one context; an unknown name says nothing."""
    store.chat("a")
    wrong: list[Any] = [datetime.now(UTC), "2026-11-21T10:00:00Z", 3, "3"]
    for moment in wrong:
        with pytest.raises(InvalidInputError):
            store.name_moment("here", moment)
    with pytest.raises(NotFoundError, match="unheard-of"):
        store.name_moment("here", "unheard-of")
    with store.transaction(), pytest.raises(InvalidInputError, match="no moment is named within a transaction"):
        store.name_moment("here")
    store.name_moment("b")
    store.name_moment("a")
    with pytest.raises(NotFoundError, match="names: a, b"):
        store.at("unheard-of")

    assert sorted(store.moments()) == ["a", "b"]


def test_who_gave_it(store: refold.Store) -> None:
    """A name is an event like any other: with an actor, a cause, a time, and a digest."""
    store.chat("a").add_message("user", "one")
    with refold.acting(actor="mia", because="chat:a@2"):
        moment = store.name_moment("here")

    [event] = store.log.read(STREAM)

    assert (event.event.name, event.event.moment) == ("here", str(moment))
    assert (event.meta.actor, event.meta.causation) == ("mia", "chat:a@2")
    assert store.verify().is_whole


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_handles_and_two_processes(request: pytest.FixtureRequest, tmp_path: Path, kind: str) -> None:
    """All of them name at once; every name stands for what its giver saw, for everybody."""
    place = str(tmp_path / "store.db") if kind == "sqlite" else str(request.getfixturevalue("ready_pg_url"))
    with refold.open(place) as one, refold.open(place) as other:
        one.name_moment("empty")
        processes = [NAMER.start(place, who, 8) for who in ("mia", "leo")]
        for number in range(8):
            (one, other)[number % 2].name_moment(f"mine-{number}")
        said = [line.split() for process in processes for line in process.communicate(timeout=60)[0].splitlines()]

        assert [process.returncode for process in processes] == [0, 0]
        assert (len(said), one.moments()) == (16, other.moments())
        assert len(one.moments()) == 1 + 8 + 16
        for name, moment, version in said:
            assert one.moments()[name] == Moment.parse(moment)
            assert other.at(name).chat(name.split("-")[0]).version == int(version)
        assert one.verify().is_whole
