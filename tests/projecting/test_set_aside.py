"""What cannot be folded, or not even decoded, is set aside: the projection goes on, and says without what."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.errors import DamagedError, ProjectionError
from refold.domain.log.envelope import RecordedEvent
from refold.domain.positions import BEGINNING
from refold.infrastructure.log.codec import CODEC, Codec
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.projecting import folding
from refold.infrastructure.projecting.folding import FAULT, Fault, note_fault
from refold.infrastructure.projecting.rows.postgres import PostgresProjectionStore
from refold.infrastructure.projecting.rows.sqlite import SqliteProjectionStore
from refold.infrastructure.projecting.runner import PAGE_EVENTS
from refold.infrastructure.projecting.store import SetAside
from refold.infrastructure.projecting.worker import ProjectionWorker
from refold.infrastructure.store import Store
from tests.contract.writing import append
from tests.verifying.damaging import sql

from .counts import POISONED, Count, Counts
from .histories import projections_of, something_of_everything, talk_at_length
from .test_faults import standing, work_on

WORDS = ("a", "poison", "b", "c", "poison")
ASIDE = (SetAside("chat:a@3", POISONED), SetAside("chat:a@6", POISONED))


class Going(Counts):
    """It goes on, as every projection does that does not say otherwise."""

    on_fault: Any = "set_aside"


class Mended(Going):
    """It has learnt to take everything."""

    def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
        """Count one more."""
        return Count(key, (row.events if row else 0) + 1)


class Newer(Mended):
    """The same, as another version."""

    version = 2


@pytest.fixture
def poisoned(store: refold.Store) -> refold.Store:
    """A store with a projection that cannot take two events."""
    store.add_projection(Going())
    for word in WORDS:
        store.chat("a").add_message("user", word)
    return store


def test_it_goes_on(poisoned: refold.Store) -> None:
    """Its rows are made without the two, which are listed with the reason, once."""
    for _ in range(2):
        assert poisoned.rows("counts") == [Count("chat:a", 4)]
    status = standing(poisoned)
    assert (status.behind, status.stopped_at, status.set_aside) == (0, None, ASIDE)
    assert poisoned.events_missed() == 2
    assert [problem.reason for problem in poisoned.verify().problems] == [
        f"its rows are made without {event}: {POISONED}" for event, _ in ASIDE
    ]


@pytest.mark.usefixtures("small_pages")
@pytest.mark.parametrize("before", [0, 6, 7, 8, 31, 32])
def test_wherever_it_lies(store: refold.Store, before: int) -> None:
    """The first message, the last one of a page, one in its middle: all others are folded once, whoever does it."""
    store.add_projection(Going())
    chat = talk_at_length(store, before)
    chat.add_message("user", "poison")
    talk_at_length(store, 3)
    work_on(store, "counts")
    talk_at_length(store, 2)

    assert store.rows("counts") == [Count("chat:long", before + 6)]
    assert [one.event for one in standing(store).set_aside] == [f"chat:long@{before + 2}"]
    assert (store.check("counts").differing, store.check("counts").set_aside) == (0, 1)


def test_a_rebuild(poisoned: refold.Store) -> None:
    """It folds again what was set aside: in vain as long as nothing is mended, and then no more is set aside."""
    poisoned.rows("counts")
    assert poisoned.rebuild("counts").set_aside == 2
    assert standing(poisoned).set_aside == ASIDE
    again = Store(poisoned.log, poisoned._projections)
    again.add_projection(Mended())

    assert (again.rebuild("counts").set_aside, again.rows("counts")) == (0, [Count("chat:a", 6)])
    assert (standing(again).set_aside, again.events_missed(), again.verify().problems) == ((), 0, ())


def test_a_newer_version(poisoned: refold.Store) -> None:
    """It begins anew by itself, and what the older one set aside is none of its."""
    poisoned.rows("counts")
    again = Store(poisoned.log, poisoned._projections)
    again.add_projection(Newer())

    assert (again.rows("counts"), standing(again).set_aside) == ([Count("chat:a", 6)], ())


@pytest.mark.parametrize("way", ["another version", "an erasure"])
def test_rows_that_are_made_anew(poisoned: refold.Store, way: str) -> None:
    """Each event is set aside once, whatever was set aside for the rows before them."""
    poisoned.rows("counts")
    if way == "an erasure":
        poisoned._projections.drop_others()
        assert poisoned._projections.set_aside(Going()) == []
    else:
        again = Store(poisoned.log, poisoned._projections)
        again.add_projection(Newer())
        again.rows("counts")

    assert poisoned.rows("counts") == [Count("chat:a", 4)]
    assert standing(poisoned).set_aside == ASIDE


def test_repaired(poisoned: refold.Store) -> None:
    """`verify` with repair makes it anew, and says of each event whether that helped."""
    poisoned.rows("counts")
    again = Store(poisoned.log, poisoned._projections)
    again.add_projection(Mended())

    assert [one.is_repaired for one in poisoned.verify(repair=True).problems] == [False, False]
    assert again.verify(repair=True).is_whole
    assert again.verify().problems == ()


def test_rows_that_were_never_made(poisoned: refold.Store) -> None:
    """They would be made without the events, and nobody has repaired anything."""
    report = poisoned.verify()

    assert [(one.where, one.is_repaired) for one in report.problems] == [("counts", False), ("counts", False)]
    assert not report.is_whole
    assert [one.is_repaired for one in poisoned.verify(repair=True).problems] == [False, False]


def test_repairing_what_has_set_too_many_aside(poisoned: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is reported like everything else, and ends nothing."""
    monkeypatch.setattr(folding, "ASIDE_EVENTS_MAX", 1)
    with pytest.raises(ProjectionError):
        poisoned.rows("counts")

    report = poisoned.verify(repair=True)

    told = [(one.where, one.reason.partition(": ")[0], one.is_repaired) for one in report.problems]
    assert told == [
        ("counts", "it cannot fold chat:a@6", False),
        ("counts", "its rows are made without chat:a@3", False),
    ]


def test_too_many(poisoned: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stops before the first that is more than ASIDE_EVENTS_MAX, and goes on once there is room."""
    monkeypatch.setattr(folding, "ASIDE_EVENTS_MAX", 1)
    for _ in range(2):
        with pytest.raises(ProjectionError, match=r"cannot fold chat:a@6: it has set ASIDE_EVENTS_MAX \(1\) events"):
            poisoned.rows("counts")
    assert (standing(poisoned).behind, standing(poisoned).set_aside) == (1, ASIDE[:1])

    monkeypatch.setattr(folding, "ASIDE_EVENTS_MAX", 2)
    assert poisoned.rows("counts") == [Count("chat:a", 4)]
    assert standing(poisoned).set_aside == ASIDE


def test_one_that_was_stopped(poisoned: refold.Store) -> None:
    """What an older Refold noted as its end is tried again by a worker, and not looked at any more."""
    note_fault(poisoned._projections, Going(), Fault("chat:a@3", "it is poisoned", 1))
    assert standing(poisoned).stopped_at == "chat:a@3"

    ProjectionWorker(poisoned.log, poisoned._projections, [Going()]).work()

    assert (standing(poisoned).behind, standing(poisoned).stopped_at, standing(poisoned).set_aside) == (0, None, ASIDE)
    assert poisoned._projections.notes(FAULT) == {}


def test_those_that_choose_to_stop(poisoned: refold.Store) -> None:
    """They stop at what others go on without."""
    poisoned._runner.projections["counts"] = Counts()

    with pytest.raises(ProjectionError, match=f"cannot fold chat:a@3: {POISONED}"):
        poisoned.rows("counts")
    assert (standing(poisoned).set_aside, standing(poisoned).behind) == ((), 4)


def test_opened_again(place: str) -> None:
    """The list is kept with the rows."""
    with refold.open(place) as store:
        store.add_projection(Going())
        for word in WORDS:
            store.chat("a").add_message("user", word)
        store.rows("counts")
    with refold.open(place) as store:
        store.add_projection(Going())
        assert standing(store).set_aside == ASIDE


# Damage

UNKNOWN = b'\x00{"t":"chat.whispered.v1","words":"psst"}'


@pytest.fixture
def said(place: str) -> str:
    """A database with a chat of six events, and rows of the projection up to the last but one."""
    return say(place)


def say(place: str) -> str:
    """Make such a database at a place, and return that."""
    with refold.open(place) as store:
        store.add_projection(Going())
        for word in WORDS[:-1]:
            store.chat("a").add_message("user", word)
        assert store.rows("counts") == [Count("chat:a", 4)]
        store.chat("a").add_message("user", WORDS[-1])
    return place


def test_an_event_that_is_damaged(place: str) -> None:
    """It may have said anything: nothing goes on without it, though no projection could fold, or decode, what it is."""
    with refold.open(place) as store:
        for word in WORDS:
            store.chat("a").add_message("user", word)
    sql(place, "UPDATE event SET payload = ? WHERE version = 3", UNKNOWN)

    with refold.open(place) as store:
        store.add_projection(Going())
        for name in ("counts", "catalogue", "counts"):
            with pytest.raises(DamagedError, match="event chat:a@3 is damaged: it does not match its digest"):
                store.rows(name)
            assert (standing(store, name).set_aside, standing(store, name).behind) == ((), 6)


def test_rows_that_cannot_be_read(poisoned: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event is set aside for them, and none passed over: the next time it goes on where it stood."""

    def load(*arguments: object) -> dict[str, Any]:
        raise DamagedError("the table of counts", "a value in it cannot be read")

    with monkeypatch.context() as patch:
        patch.setattr(poisoned._projections, "load", load)
        with pytest.raises(DamagedError, match="the table of counts"):
            poisoned.rows("counts")

    assert (standing(poisoned).set_aside, standing(poisoned).behind) == ((), 6)
    assert poisoned.rows("counts") == [Count("chat:a", 4)]


def test_a_row_of_another_type(tmp_path: Path) -> None:
    """The same where it is so, as SQLite alone lets it be: it goes on once the rows were made anew."""
    place = say(str(tmp_path / "store.db"))
    sql(place, "UPDATE view_counts SET events = 'many'")

    with refold.open(place) as store:
        store.add_projection(Going())
        with pytest.raises(DamagedError, match="the table of counts is damaged: 'many' is in its column events"):
            store.rows("counts")
        assert [one.event for one in standing(store).set_aside] == ["chat:a@3"]
        assert store.rebuild("counts").set_aside == 2
        assert store.rows("counts") == [Count("chat:a", 4)]


def test_a_list_that_cannot_be_read(said: str) -> None:
    """Nobody knows then what the rows lack: `verify` says so, and mends it."""
    sql(said, "UPDATE note SET value = 'nothing' WHERE name LIKE 'aside/%'")

    with refold.open(said) as store:
        store.add_projection(Going())
        assert re.search(r"set aside is damaged.*`rebuild` makes it anew", standing(store).error or "")
        assert [problem.where for problem in store.verify().problems] == ["counts"]
        assert [problem.is_repaired for problem in store.verify(repair=True).problems] == [True, False, False]
        assert standing(store).set_aside == ASIDE


def test_a_mark_that_cannot_be_read(said: str) -> None:
    """It says nothing about the log, and the next one takes its place."""
    sql(said, "UPDATE note SET value = 'nothing' WHERE name LIKE 'mark/%'")

    with refold.open(said) as store:
        store.add_projection(Going())
        assert all(problem.kind == "projection" for problem in store.verify().problems)
        assert store.rows("counts") == [Count("chat:a", 4)]
    assert sql(said, "SELECT count(*) FROM note WHERE name = 'mark/counts' AND value = 'nothing'") == [(0,)]


class Unencodable(Going):
    """It makes a key that no database can hold of a poisoned event."""

    def keys(self, event: RecordedEvent) -> list[str]:
        """Return the stream, or half of a pair."""
        return ["\ud800" if getattr(event.event, "content", None) == ("poison",) else event.stream]

    evolve = Mended.evolve


def test_a_key_that_cannot_be_looked_up(store: refold.Store) -> None:
    """That is no damage, on no database."""
    store.add_projection(Unencodable())
    for word in WORDS:
        store.chat("a").add_message("user", word)

    assert store.rows("counts") == [Count("chat:a", 4)]
    assert [one.event for one in standing(store).set_aside] == ["chat:a@3", "chat:a@6"]


class UnsaidError(Exception):
    """An error that has no text."""

    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ValueError("half \ud800"), r"ValueError: half \ud800"),
        (ValueError("a\0b"), "ValueError: a\0b"),
        (UnsaidError(), "UnsaidError"),
    ],
    ids=["a surrogate", "a NUL", "no text"],
)
@pytest.mark.parametrize("on_fault", ["set_aside", "stop"])
def test_errors_with_any_text(
    store: refold.Store, error: Exception, reason: str, on_fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Their text is stored as far as it can be, and stops nothing."""
    # A worker of pytest's cannot hand over what is logged of half a character.
    caplog.set_level(logging.CRITICAL, folding.log.name)
    counts: Any = Mended()
    counts.on_fault = on_fault

    def evolve(key: str, row: Count | None, event: RecordedEvent) -> Count:
        if getattr(event.event, "content", None) == ("poison",):
            raise error
        return Mended.evolve(counts, key, row, event)

    counts.evolve = evolve
    store.add_projection(counts)
    for word in WORDS:
        store.chat("a").add_message("user", word)

    if on_fault == "stop":
        work_on(store, "counts")
        assert str(standing(store).error).endswith(reason)
        return
    assert store.rows("counts") == [Count("chat:a", 4)]
    assert [one.error.endswith(reason) for one in standing(store).set_aside] == [True, True]


@pytest.mark.parametrize("before", [0, PAGE_EVENTS - 2])
def test_a_row_that_would_go(store: refold.Store, before: int) -> None:
    """Rows stay: None in the place of a row is a fault, wherever a page ends."""
    counts: Any = Mended()
    counts.evolve = lambda key, row, event: (
        None if getattr(event.event, "content", None) == ("poison",) else Mended.evolve(counts, key, row, event)
    )
    store.add_projection(counts)
    talk_at_length(store, before)
    for word in WORDS:
        store.chat("b").add_message("user", word)

    assert Count("chat:b", 4) in store.rows("counts")
    (first, _) = standing(store).set_aside
    assert first == SetAside(
        "chat:b@3", "under 'chat:b' it makes None of a row, and rows are never removed: return a row that says so"
    )
    assert store.check("counts").differing == 0


def test_a_text_that_no_database_holds(store: refold.Store) -> None:
    """It is no text in memory either."""
    counts: Any = Mended()
    counts.row = msgspec.defstruct("Said", [("key", str), ("said", str)], frozen=True)
    counts.evolve = lambda key, row, event: counts.row(key, "\ud800" if event.version == 6 else "a")
    store.add_projection(counts)
    for word in WORDS:
        store.chat("a").add_message("user", word)

    assert store.rows("counts") == [counts.row("chat:a", "a")]
    assert [one.event for one in standing(store).set_aside] == ["chat:a@6"]
    assert store.check("counts").differing == 0


# Events that cannot be decoded


class Future(msgspec.Struct, frozen=True, kw_only=True, tag_field="t", tag="chat.whispered.v1"):
    """An event as a newer Refold writes it."""

    words: str


def store_on(place: str, codec: Codec) -> Store:
    """Open the store at a place with another codec."""
    if place.startswith("postgres"):
        log = PostgresLog(place, codec=codec)
        return Store(log, PostgresProjectionStore(log))
    file = SqliteLog(place, codec=codec)
    return Store(file, SqliteProjectionStore(file))


def whisper(place: str) -> None:
    """Let something of everything happen, and a newer Refold write an event in the midst of it."""
    with store_on(place, Codec(CODEC.events | Future)) as store:
        chat = store.chat("newer")
        chat.add_message("user", "before")
        append(store.log, "chat:newer", Future(words="psst"), expected=2)
        append(store.log, "chat:newer", Future(words="psst"), expected=3)
        store.chat("other").add_message("user", "behind")


@pytest.mark.long
def test_what_cannot_be_decoded(place: str) -> None:
    """All projections go on without it, and say so; to read the stream itself is an error that names it."""
    whisper(place)
    with refold.open(place) as store:
        something_of_everything(store)

        assert [hit.context for hit in store.search("behind")] == ["other"]
        for name in projections_of(store):
            store.rows(name)
            assert [one.event for one in standing(store, name).set_aside] == ["chat:newer@3", "chat:newer@4"], name
            assert "its tag is 'chat.whispered.v1'" in standing(store, name).set_aside[0].error
        with pytest.raises(DamagedError, match=r"event chat:newer@3 .*whispered"):
            store.log.read("chat:newer")
        with pytest.raises(DamagedError, match=r"event chat:newer@3 .*whispered"):
            store.log.read_all(after=BEGINNING, limit=100)
        found = store.verify().problems
        assert ("event", "chat:newer@3..4") in [(one.kind, one.where) for one in found]


def test_what_cannot_be_decoded_right_behind_what_was_seen(place: str) -> None:
    """A process that compares the last event that was seen with the log goes on without it as well."""
    with refold.open(place) as store:
        store.chat("a").add_message("user", "before")
        assert store.search("before")
    with store_on(place, Codec(CODEC.events | Future)) as store:
        append(store.log, "chat:a", Future(words="psst"), expected=2)

    with refold.open(place) as store:
        assert store.search("before")
        assert [one.event for one in standing(store, "search").set_aside] == ["chat:a@3"]


def test_mended_by_an_upcaster_for_that_event(place: str) -> None:
    """It is folded again with the next rebuild, by everyone who has the upcaster; the others are as they were."""
    whisper(place)

    def said(payload: dict[str, Any]) -> dict[str, Any]:
        return {"t": "chat.named.v1", "name": payload["words"], "version": 1}

    mended = Codec(CODEC.events, mended={f"chat:newer@{version}": said for version in (3, 4)})
    with refold.open(place) as store:
        store.contexts()
        assert standing(store, "catalogue").set_aside
    with store_on(place, mended) as store:
        assert store.rebuild("catalogue").set_aside == 0
        assert {row.id: row.version for row in store.contexts()}["newer"] == 4
        assert store.chat("newer").at("psst").version == 1
        assert store.verify().is_whole or store.verify(repair=True).is_whole


def test_one_event_mended_of_those_that_can_be_decoded(place: str) -> None:
    """One of many in a sealed block too: it alone is another, wherever it is read."""
    with refold.open(place) as store:
        talk_at_length(store, 1_500)
        before = store.log.read_events("chat:long")

    def mend(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "content": "mended"}

    with store_on(place, Codec(CODEC.events, mended={"chat:long@1000": mend})) as store:
        after = store.log.read_events("chat:long")
        page = store.log.read_all(after=BEGINNING, limit=2_000).events

    assert [number for number, pair in enumerate(zip(before, after, strict=True), 1) if pair[0] != pair[1]] == [1_000]
    assert after[999].content == "mended"  # type: ignore[attr-defined]
    assert [one.event for one in page] == after
