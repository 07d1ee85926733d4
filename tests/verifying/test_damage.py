"""A store that was damaged: everything that is wrong is described, and nothing crashes."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

import refold
from refold.domain.chat.events import ItemsEvicted
from refold.domain.erasure.events import STREAM
from refold.domain.errors import DamagedError, InvalidInputError
from refold.domain.log.ports import Range
from refold.domain.positions import BEGINNING
from refold.domain.spans import Span
from refold.domain.totals import Totals
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.verifying import event_check
from refold.projections.catalogue import CATALOGUE
from tests.contract.writing import append

from .damaging import bytes_of_log, rows_of, sql, told, verified, view_of, written

NOT_COMPARED = "projection all"
FAR = "position 11 to 99"


@pytest.fixture
def place(place: str) -> str:
    """Where a store lies that holds what `written` wrote."""
    written(place)
    return place


HALF = "chat:\ud800"
ASKED_WRONGLY: list[Callable[[refold.Store], object]] = [
    lambda store: store.validity("\ud800"),
    lambda store: store.lineage("\ud800"),
    lambda store: store.audit(HALF),
    lambda store: store.find_contexts(user="\ud800"),
    lambda store: store.find_contexts(cursor=HALF),
    lambda store: store.log.read(HALF),
    lambda store: store.log.read_events(HALF),
    lambda store: store.log.read_ranges([Range(HALF, 0, 5)]),
    lambda store: store.log.head(HALF),
    lambda store: store.log.end(HALF),
    lambda store: store.log.version_at(HALF, 5),
]


def test_a_text_that_no_row_can_have(place: str) -> None:
    """That is the fault of whoever asks, and not damage."""
    with refold.open(place) as store:
        for ask in ASKED_WRONGLY:
            with pytest.raises(InvalidInputError, match="lone surrogate"):
                ask(store)


def test_an_event_that_tells_of_what_must_be_kept(place: str) -> None:
    """No erasure excuses a change of it, so it is damage like that of any other event."""
    with refold.open(place) as store:
        store.hold("a", why="a case")
        assert store.holds() == {"chat:a": "a case"}
    sql(place, f"UPDATE event SET recorded_at = recorded_at - 1 WHERE {rows_of(place, STREAM)}")

    with refold.open(place) as store:
        with pytest.raises(DamagedError, match=f"event {STREAM}@1 is damaged: it does not match its digest"):
            store.log.read(STREAM)
        assert store.chat("a").items


def test_more_than_there_can_be(place: str) -> None:
    """Numbers that no database counts up to bring what there is."""
    with refold.open(place) as store:
        assert store.search("large", limit=1 << 70) == store.search("large")
        assert store.log.read_all(after=BEGINNING, limit=1 << 70) == store.log.read_all(after=BEGINNING, limit=100)
        assert store.log.read("chat:a", after=1 << 70, until=1 << 71) == []
        assert store.log.read("chat:a", until=1 << 71) == store.log.read("chat:a")


# What is done to chat:a (versions 1 to 4), chat:f (a fork of it), or the whole log, and what is told of it.
DAMAGES: dict[str, tuple[str, list[object], list[str]]] = {
    "payload": ("UPDATE event SET payload = ? WHERE {a} AND version = 2", [b"\x00\xc1"], ["event chat:a@2"]),
    "digest": ("UPDATE event SET digest = ? WHERE {a} AND version = 2", [bytes(32)], ["event chat:a@2..3"]),
    "meta": ("UPDATE event SET meta = ? WHERE {a} AND version = 3", [b"\xc1"], ["event chat:a@3"]),
    "version": ("DELETE FROM event WHERE {a} AND version = 2", [], ["event chat:a@2", "event chat:a@3"]),
    "first": ("DELETE FROM event WHERE {a} AND version = 1", [], ["event chat:a@1", "event chat:a@2"]),
    "end": ("DELETE FROM event WHERE {f} AND version = 2", [], ["position 9"]),
    "whole": ("DELETE FROM event WHERE {f}", [], ["position 8 to 9"]),
    "time": ("UPDATE event SET recorded_at = 1 WHERE {a} AND version = 3", [], ["event chat:a@3"]),
    "place": ("UPDATE event SET position = 99 WHERE {a} AND version = 4", [], ["event chat:a@4", "position 7", FAR]),
    "row": ("DELETE FROM stream WHERE id = ?", ["chat:b"], ["position 2", "position 4", "position 6", "position 10"]),
    "text": ("UPDATE blob SET data = ?", [b"\x00ab"], ["event chat:a@4", "text"]),
    "no text": ("DELETE FROM blob", [], ["event chat:a@4"]),
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGES)
def test_each_damage_is_described(place: str, name: str) -> None:
    """It is named, with the stream and version or the position, and that projections were not compared is said once."""
    statement, values, wanted = DAMAGES[name]
    sql(place, statement.format(a=rows_of(place, "chat:a"), f=rows_of(place, "chat:f")), *values)

    report = verified(place)

    found = ["text" if one.startswith("text ") else one for one in told(report)]
    assert found == [*wanted, NOT_COMPARED]
    assert not report.is_whole
    assert all(problem.reason and not problem.repairable for problem in report.problems)


def test_many_holes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """HOLES_MAX of them are described, and the others are counted."""
    place = str(tmp_path / "store.db")
    written(place)
    sql(place, "DELETE FROM stream WHERE id = 'chat:b'")

    for limit, more in ((5, []), (4, []), (3, ["there are 1 holes more like these"])):
        monkeypatch.setattr(event_check, "HOLES_MAX", limit)
        found = [one for one in verified(place).problems if one.kind == "position"]
        assert len(found) == 4
        assert [one.reason for one in found if one.where == "the log"] == more


def test_swapped_positions(place: str) -> None:
    """Both events are told of: a digest covers the position."""
    positions = [
        row[0] for row in sql(place, f"SELECT position FROM event WHERE {rows_of(place, 'chat:b')} ORDER BY 1")
    ]
    first, second = positions[1:3]
    sql(place, f"UPDATE event SET position = -position WHERE position IN ({first}, {second})")
    sql(place, f"UPDATE event SET position = {first + second} + position WHERE position < 0")

    assert told(verified(place)) == ["event chat:b@2..3", NOT_COMPARED]


def test_what_a_missing_stream_leaves_is_explained(place: str) -> None:
    """The positions say whose events lie there: of a stream that nobody can name."""
    sql(place, "DELETE FROM stream WHERE id = ?", "chat:b")

    reasons = {problem.reason for problem in verified(place).problems if problem.kind == "position"}

    assert len(reasons) == 1
    assert "its row is missing, and events belong to it" in reasons.pop()


def test_several_damages_at_once(place: str) -> None:
    """Each of them is in the report, whichever comes first."""
    a, f = rows_of(place, "chat:a"), rows_of(place, "chat:f")
    sql(place, f"UPDATE event SET payload = ? WHERE {a} AND version = 2", b"\x00\xc1")
    sql(place, f"UPDATE event SET recorded_at = 1 WHERE {rows_of(place, 'chat:b')} AND version = 3")
    sql(place, f"DELETE FROM event WHERE {f} AND version = 2")
    sql(place, "DELETE FROM blob")

    found = told(verified(place))

    assert [one for one in found if one.startswith("event")] == ["event chat:a@2", "event chat:a@4", "event chat:b@3"]
    assert {"position 9", NOT_COMPARED} <= set(found)


def test_the_end_of_the_log(place: str) -> None:
    """
    A log cannot tell that its last event is gone, but its projections have seen it; they can be made anew.

    That there was more is said afterwards, too: to repair takes nothing away that tells of it.
    """
    sql(place, f"DELETE FROM event WHERE {rows_of(place, 'chat:b')} AND version = 4")

    report, repaired, after = verified(place), verified(place, repair=True), verified(place)

    assert told(report)[:2] == ["position 9", "projection catalogue"]
    assert {problem.repairable for problem in report.problems if problem.kind == "projection"} == {True}
    assert [(problem.kind, problem.is_repaired) for problem in repaired.problems][:2] == [
        ("position", False),
        ("projection", True),
    ]
    assert not repaired.is_whole
    assert told(after) == ["position 9", "version chat:b@4", "position 10"]
    assert all(not problem.repairable for problem in after.problems)


def cut(place: str, stream: str, version: int) -> None:
    """Take the last event of a stream away, and let another one be recorded at its position."""
    sql(place, f"DELETE FROM event WHERE {rows_of(place, stream)} AND version = {version}")
    with refold.open(place) as store:
        store.chat("b").add_message("user", "instead", "i")


@pytest.mark.parametrize("goes_on", [False, True])
def test_an_end_that_was_written_over(place: str, goes_on: bool) -> None:
    """The projections' marks tell it: the event at their position is another; also once they went on, and for good."""
    cut(place, "chat:b", 4)
    if goes_on:
        with refold.open(place) as store:
            store.chat("b").add_message("user", "and more", "j")
            assert store.search("more")
            # Now no mark is where the log was cut.
            store._runner.catch_up(*PROJECTIONS)

    reports = [verified(place), verified(place, repair=True), verified(place)]

    for report in reports:
        [problem] = [one for one in report.problems if one.kind == "position"]
        assert re.fullmatch(r"(\d+\.)?10", problem.where)
        assert "has seen another event at it: the log was cut there or before" in problem.reason
        assert (problem.repairable, report.is_whole) == (False, False)


def test_a_context_that_was_longer(place: str) -> None:
    """The catalogue knows it longer, wherever the log ends now; and nobody makes a stream without an event."""
    sql(place, f"DELETE FROM event WHERE {rows_of(place, 'chat:b')} AND version = 4")
    sql(place, f"DELETE FROM event WHERE {rows_of(place, 'chat:f')}")
    with refold.open(place) as store:
        for number in range(3):
            store.chat("a").add_message("user", "more", f"m{number}")

    reports = [verified(place), verified(place, repair=True), verified(place)]

    for report in reports:
        found = [(one.where, one.repairable) for one in report.problems if one.kind == "version"]
        assert sorted(found) == [("chat:b@4", False), ("chat:f", False), ("chat:f@2", False)]


def test_a_subscriber_that_has_seen_more(tmp_path: Path) -> None:
    """Somebody acknowledged what is not there any more."""
    place = str(tmp_path / "store.db")
    with refold.open(place) as store:
        chat = store.chat("a")
        for number in range(3):
            chat.add_message("user", "text", f"m{number}")
        with store.subscribe(name="mail") as events:
            for _ in range(4):
                next(events)
            events.ack()
    sql(place, "DELETE FROM event WHERE position = 4")

    [problem] = verified(place).problems

    assert (problem.where, problem.repairable) == ("3", False)
    assert problem.reason == "the log ends here, and subscription mail has seen it up to 4"


@pytest.mark.parametrize(("stream", "has"), [("chat:nowhere", "there is no such stream"), ("chat:b", "version 4")])
def test_a_reference_to_what_is_not_there(place: str, stream: str, has: str) -> None:
    """The event that names it is told of, with what it names; it does not keep rows from being repaired."""
    with refold.open(place) as store:
        evicted = ItemsEvicted(items=(Span.of(stream, [7]),), change=Totals())
        append(store.log, "chat:a", evicted)

    [problem] = verified(place).problems
    sql(place, f"UPDATE {view_of(place, CATALOGUE)} SET items = 99 WHERE key = 'chat:b'")
    repaired, after = verified(place, repair=True), verified(place)

    assert (problem.kind, problem.where) == ("reference", "chat:a@5")
    assert f"{stream}@7" in problem.reason
    assert has in problem.reason
    assert told(repaired) == [*told(after), "projection catalogue"] == ["reference chat:a@5", "projection catalogue"]


def test_nothing_is_touched(place: str) -> None:
    """Neither looking nor repairing changes a byte of the log, however damaged it is."""
    sql(place, f"UPDATE event SET payload = ? WHERE {rows_of(place, 'chat:a')} AND version = 2", b"\x00\xc1")
    sql(place, "DELETE FROM blob")
    before = bytes_of_log(place)

    verified(place)
    verified(place, repair=True)

    assert bytes_of_log(place) == before


def test_a_version_far_behind_the_others(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a long stretch without an event is not looked at, and the report says where it ended."""
    monkeypatch.setattr(event_check, "PAGE_EVENTS", 2)
    monkeypatch.setattr(event_check, "EMPTY_PAGES_MAX", 3)
    sql(place, f"UPDATE event SET version = 99 WHERE {rows_of(place, 'chat:b')} AND version = 4")

    far, missing, *_ = verified(place).problems

    assert (far.kind, far.where, missing.where) == ("version", "chat:b@10", "chat:b@4..10")
    assert far.reason == "its last version is 99, and there is none for long: what follows was not looked at"


def test_a_place_of_a_subscription_that_nobody_can_read(tmp_path: Path) -> None:
    """It says nothing about where the log ended, and the check goes on."""
    place = str(tmp_path / "store.db")
    written(place)
    with refold.open(place) as store, store.subscribe(name="mail") as events:
        next(events)
        events.ack()
    sql(place, "UPDATE note SET value = 'x' WHERE name = 'subscription/mail'")

    assert verified(place).problems == ()
