"""The whole store as it was: every context at one moment, and the same moment for all."""

import asyncio
import sqlite3
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import refold
from refold.domain.clock import RealSystem
from refold.domain.errors import InvalidInputError, NotFoundError, RefusedError
from refold.domain.positions import Moment
from refold.infrastructure.queries import at
from refold.infrastructure.queries.at import store_difference
from refold.infrastructure.queries.cuts import LogEnd, cut_at
from refold.projections.growth import GROWTH, GROWTH_EVENTS
from tests.support.every_kind import fill, opened, seen, told

from .cuts import cuts, folded, store_of

ZONES = [timezone(timedelta(hours=hours)) for hours in (0, 5, -8)]


def time_of(event: refold.RecordedEvent) -> datetime:
    """Return when an event was recorded."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=event.recorded_at)


async def test_every_kind_at_every_moment(store: refold.Store) -> None:
    """It shows what a store shows that holds the events up to there and no others; and so for its catalogue."""
    await fill(store)

    for moment, events in cuts(store.log, step=6):
        then = store.at(moment)
        assert then.contexts() == folded(events)
        assert await seen(then) == await seen(store_of(events))


async def test_it_is_what_each_context_shows_at_its_version(store: refold.Store) -> None:
    """By position, a context of every kind is as it is at the version that it had."""
    await fill(store)
    moment, _ = cuts(store.log, step=64)[1]

    for row in store.at(moment).contexts():
        if row.kind != "memory":
            then = told(row.kind, opened(store.at(moment), row))
            assert then == told(row.kind, opened(store, row).at(row.version))


def begun(store: refold.Store) -> tuple[refold.ChatContext, refold.RecordedEvent]:
    """Write a message, another context and a message more; return the first context and its first message's event."""
    chat = store.chat("a", session="s")
    chat.add_message("user", "one")
    event = chat.history()[-1]
    store.pool("p", session="s")
    chat.add_message("user", "two")
    return chat, event


def test_every_way_to_say_when(store: refold.Store) -> None:
    """A position, a moment, an event's position, its text, an aware time anywhere, its text, a name."""
    chat = store.chat("a", session="s")
    chat.add_message("user", "one")
    event, moment = chat.history()[-1], store.now()
    store.name_moment("begun")
    chat.add_message("user", "two")
    time = time_of(event)
    zones = [time.astimezone(zone) for zone in ZONES]

    ways: list[Any] = [
        moment,
        f"pos:{moment}",
        event.position,
        f"pos:{event.position}",
        "begun",
        *zones,
        *map(str, zones),
    ]

    # Two events may have been recorded in one microsecond.
    wanted = [2] * 5 + [chat.at(time).version] * 6
    assert [store.at(way).chat("a").version for way in ways] == wanted
    assert store.at(store.now()).chat("a").version == 3
    assert store.at("9999-12-31T00:00:00Z").chat("a").version == 3


def test_a_time_at_which_this_clock_is_behind(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another clock recorded later is not shown; with nothing later, the time is still to come."""
    with monkeypatch.context() as ahead:
        ahead.setattr(RealSystem, "now", lambda _: datetime.now(UTC).timestamp() + 3_600)
        chat, event = begun(store)
        store.chat("b", session="another slice")
        last = time_of(chat.history()[-1])

    then, later = store.at(time_of(event)), store.at(last + timedelta(hours=1))
    chat.add_message("user", "three")

    assert then.chat("a").version == chat.at(time_of(event)).version
    assert (later.chat("a").version, type(later.moment)) == (3, Moment)


def test_a_time_to_come_beside_damage(tmp_path: Path) -> None:
    """Other contexts are shown all the same."""
    with refold.open(tmp_path / "a.db") as store:
        for name in ("whole", "damaged"):
            store.chat(name).add_message("user", "hello")
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection:
        connection.execute("UPDATE event SET payload = x'00' WHERE position = 4")
        connection.commit()

    with refold.open(tmp_path / "a.db", read_only=True) as store:
        assert len(store.at(datetime.now(UTC) + timedelta(days=1)).chat("whole").items) == 1


@pytest.mark.parametrize(
    "wrong", [3, -1, "3", "-1", True, None, 1.5, "", " ", "pos:", "pos:x", "2026-11-31", b"x", "1 2", "item:m1"]
)
def test_what_is_no_moment(store: refold.Store, wrong: Any) -> None:
    """A version belongs to one context, and a time needs its zone: nothing is guessed, and no wrong one is advised."""
    begun(store)

    for ask in (store.at, store.diff, store.what_if):
        with pytest.raises(InvalidInputError) as refused:
            ask(wrong)
        assert "write pos:-" not in str(refused.value)
    with pytest.raises(InvalidInputError):
        store.at(datetime(2026, 11, 21))
    with pytest.raises(NotFoundError, match="names: none yet"):
        store.at("unheard-of")


def test_what_did_not_exist_is_not_found(store: refold.Store) -> None:
    """Neither what began later, nor what there never was, nor anything before the beginning."""
    _, event = begun(store)
    store.queue("q"), store.window("w"), store.run("mia", "s").register_query("?")

    then, never = store.at(event.position), store.at("1999-01-01T00:00:00Z")

    assert [row.key for row in then.contexts()] == ["chat:a"]
    assert never.contexts() == store.at("pos:0").contexts() == []
    lost: list[Any] = [
        lambda: then.pool("p"),
        lambda: then.queue("q"),
        lambda: then.window("w"),
        lambda: then.run("mia", "s"),
        lambda: then.chat("x"),
        lambda: never.chat("a"),
    ]
    for look in lost:
        with pytest.raises(NotFoundError):
            look()
    assert asyncio.run(then.memory().search(scope="s")) == []
    assert [row.key for row in store.contexts()] == ["chat:a", "pool:p", "queue:q", "run:mia/s/0/0", "window:w"]


def test_the_past_cannot_be_changed(store: refold.Store) -> None:
    """Every kind refuses, and nothing is recorded."""
    begun(store)
    store.queue("q"), store.window("w"), store.run("mia", "s").register_query("?")
    moment = store.now()
    then = store.at(moment)

    calls: list[Any] = [
        lambda: then.chat("a").add_message("user", "x"),
        lambda: then.window("w").add(refold.BudgetItem("k", "v", "s")),
        lambda: then.run("mia", "s").register_query("?"),
        lambda: asyncio.run(then.queue("q").append(refold.PoolItem("x"))),
        lambda: asyncio.run(then.pool("p").add(refold.PoolItem("x", "", "i"))),
        lambda: asyncio.run(then.memory().forget(scope="s")),
    ]
    for call in calls:
        with pytest.raises(RefusedError):
            call()
    assert store.now() == moment


async def test_children_of_the_past_live_today(store: refold.Store) -> None:
    """A fork of a chat, a branch of a queue and of a pool: they are in the store, and not in its past."""
    chat, queue, pool = store.chat("a"), store.queue("q"), store.pool("p")
    chat.add_message("user", "one")
    await queue.append(refold.PoolItem("one"))
    await pool.add(refold.PoolItem("one", "", "i1"))
    moment = store.now()
    chat.add_message("user", "two")
    await queue.append(refold.PoolItem("two"))
    await pool.remove("i1")
    then = store.at(moment)

    then.chat("a").fork("a2").add_message("user", "otherwise")
    await then.queue("q").branch(context_id="q2").append(refold.PoolItem("otherwise"))
    await then.pool("p").branch(context_id="p2").add(refold.PoolItem("otherwise", "", "i2"))

    assert [item.content[0] for item in store.chat("a2", create=False).messages()] == ["one", "otherwise"]
    assert [item.content for item in store.queue("q2", create=False)] == ["one", "otherwise"]
    assert [item.content for item in store.pool("p2", create=False)] == ["one", "otherwise"]
    assert [row.key for row in then.contexts()] == ["chat:a", "pool:p", "queue:q"]
    assert store.verify().is_whole


def test_never_half_of_a_transaction(store: refold.Store) -> None:
    """Whoever looks at the present while others commit to two contexts sees both of their changes, or neither."""
    ended, halves = threading.Event(), list[tuple[int, int]]()
    chats = [store.chat(name) for name in ("left", "right")]

    def write() -> None:
        for number in range(60):
            with store.transaction():
                for chat in chats:
                    chat.add_message("user", f"text {number}")
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not ended.is_set():
        then = store.at(store.now())
        halves.append((then.chat("left").version, then.chat("right").version))
    writer.join()

    assert [one for one in halves if one[0] != one[1]] == []
    for event in chats[0].history()[1:]:
        then = store.at(time_of(event))
        assert then.chat("left").version == then.chat("right").version


def test_what_is_queued_counts(store: refold.Store) -> None:
    """What a context has queued is on disk before the past is looked at."""
    chat = store.chat("a", durability="enqueue")
    for number in range(20):
        chat.add_message("user", f"text {number}")

    assert store.at("9999-01-01T00:00:00Z").chat("a").version == 21
    assert store.at(store.now()).chat("a").version == 21


def test_what_it_says_of_itself(store: refold.Store) -> None:
    """The moment that is shown."""
    begun(store)
    moment = store.now()

    assert (store.at(moment).moment, str(store.at(moment))) == (moment, f"StoreAt({moment})")
    assert store.at("2001-11-21T10:00:00+01:00").moment == datetime(2001, 11, 21, 9, tzinfo=UTC)


def test_a_position_of_the_store_that_this_is_a_copy_of() -> None:
    """A number alone is of its one sequence; one with a slice, be it the first, is of this store."""
    old, end = Moment(((7, 1),)), Moment(((0, 9), (7, 9)))
    names: Any = SimpleNamespace(before_copy=lambda number: old)
    log: Any = SimpleNamespace(has_slices=True, now=lambda: end)

    assert cut_at("pos:5", names, LogEnd(log)) == old
    assert cut_at("pos:0.5", names, LogEnd(log)) == Moment(((0, 5),))


def test_which_contexts_changed_between_two_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Their events are read, whichever comes first; not of times, of moments far apart, or of none within the other."""
    with refold.open(":memory:") as store:
        first = store.now()
        for name in ("a", "b"):
            store.chat(name)
        second = store.now()
        store.chat("c").add_message("user", "hello")
        last = store.now()
        monkeypatch.setattr(at, "CHANGES_READ_MAX", 2)

        found = [at._changed_between(store.log, *pair) for pair in ((first, second), (last, second), (last, last))]
        assert found == [{"chat:a", "chat:b"}, {"chat:c"}, set()]
        for pair in ((first, last), (7, last), (last, 7), (7, 8), (Moment(((1, 1),)), Moment(((2, 1),)))):
            assert at._changed_between(store.log, *pair) is None


def test_a_cut_includes_its_own_event() -> None:
    """That at its time, or at its number of each slice; of other slices it has none."""
    by_time, by_number = at._inclusion(7), at._inclusion(Moment(((0, 3), (5, 9))))

    assert [by_time(0, 1, time) for time in (6, 7, 8)] == [True, True, False]
    assert [by_number(*place, 0) for place in ((0, 3), (0, 4), (5, 9), (5, 10), (6, 1))] == [
        True, False, True, False, False,
    ]  # fmt: skip


def test_a_moment_beyond_the_end_is_refused() -> None:
    """The end of the log is read only where a moment lies beyond the one that was seen."""
    reads: list[None] = []

    def now() -> Moment:
        reads.append(None)
        return Moment(((0, 9), (7, 9)))

    log: Any = SimpleNamespace(has_slices=True, now=now)
    end = LogEnd(log)

    there = [Moment(heads) for heads in (((0, 5),), ((0, 9), (7, 3)), ((7, 9),))]
    assert [end.require(moment) for moment in there] == there
    for heads, fault in ((((0, 12), (7, 3)), "no position 0.12, the log ends at 0.9"), (((3, 1),), "at 3.0")):
        with pytest.raises(NotFoundError, match=fault):
            end.require(Moment(heads))
    assert len(reads) == 3


def test_rows_that_go_away_meanwhile(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two of its questions, as in an erasure: the contexts are as they were all the same."""
    chat = store.chat("a")
    for count in (GROWTH_EVENTS + 10, 10):
        moment = store.now()
        with store.transaction():
            for _ in range(count):
                chat.add_message("user", "x")
    then, now = store.at(moment), store.at(store.now())
    real = type(store._projections).rows_under

    def going(projections: Any, projection: Any, *prefixes: str) -> list[Any]:
        if projection is GROWTH:
            monkeypatch.undo()
            projections.drop(GROWTH)
        return real(projections, projection, *prefixes)

    for ask in (then.contexts, lambda: [one.before for one in store_difference(then, now)]):
        monkeypatch.setattr(type(store._projections), "rows_under", going)
        assert [(row.key, row.version, row.items) for row in ask() if row] == [
            ("chat:a", GROWTH_EVENTS + 11, GROWTH_EVENTS + 10)
        ]


def test_a_position_of_another_kind_of_store(store: refold.Store) -> None:
    """A number alone is none of PostgreSQL, and one with a slice is none of a file: neither is the beginning."""
    chat, _ = begun(store)
    foreign = "17" if store.log.has_slices else "3.17"

    asks: list[Any] = [
        lambda: chat.at(f"pos:{foreign}"),
        lambda: store.at(f"pos:{foreign}"),
        lambda: store.diff(f"pos:{foreign}"),
        lambda: store.name_moment("then", f"pos:{foreign}"),
        lambda: next(iter(store.subscribe(after=Moment.parse(foreign)))),
    ]
    for ask in asks:
        with pytest.raises(InvalidInputError, match=f"{foreign} is no position of this store"):
            ask()
