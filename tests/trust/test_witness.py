"""A store and its witness: what was changed behind the store's back is refused when it is read."""

import json
import os
import shutil
import socket
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

import refold
from refold.domain.clock import time_of
from refold.domain.errors import DamagedError, TamperedError
from refold.domain.log.envelope import NO_DIGEST, NO_META, UNKEYED
from refold.domain.log.ports import LiveLog, Range
from refold.domain.positions import Position
from refold.infrastructure.log.evidence import SegmentRow
from refold.infrastructure.trust import checkpoints, known_events
from refold.infrastructure.trust.known_events import _other_events
from refold.infrastructure.trust.witness import (
    FileWitness,
    WitnessHistory,
    WriterClosed,
    WriterOpened,
    is_over,
    text_of,
)
from refold.projections.catalogue import CATALOGUE
from tests.contract.damage import forge_blocks

from .forging import EventRow, Place, rechained, rewrite, with_text

# By whether the store is in a file.
TABLES = {
    True: "SELECT name FROM sqlite_schema WHERE type = 'table'",
    False: "SELECT table_name FROM information_schema.tables",
}
TEXTS = [f"text {number:03}" for number in range(560)]


@pytest.fixture
def filled(place: Place) -> Place:
    """A store with two chats: a long one, of which a segment is complete, and a short one. All are rows."""
    with place.open() as store:
        chat = store.chat("a", session="s")
        with store.transaction():
            for text in TEXTS:
                chat.add_message("user", text)
        other = store.chat("b", session="s")
        for text in ("one", "two", "six"):
            other.add_message("user", text)
    return place


def texts_of(store: refold.Store, chat: str) -> list[str]:
    """Return the texts of a chat."""
    return [str(getattr(item, "text", None)) for item in store.chat(chat, create=False).items]


def read(place: Place, chat: str = "a") -> list[str]:
    """Open the store, and read a chat."""
    with place.open() as store:
        return texts_of(store, chat)


def test_nothing_was_changed(filled: Place) -> None:
    """What was written is read, also by somebody who opens it again and writes more."""
    # The row of the segment that is complete.
    assert [*filled.sql("SELECT number FROM segment")] == [(0,)]
    with filled.open() as store:
        store.chat("b").add_message("user", "more")
        assert texts_of(store, "a") == TEXTS

    assert read(filled, "b") == ["one", "two", "six", "more"]
    with filled.open() as store:
        assert store.verify().problems == ()


def cut_off(place: Place) -> None:
    """Take the last event away."""
    place.remove(place.rows("chat:b")[-1])


def forge_one(place: Place) -> None:
    """Append an event with the digest that it must have."""
    *_, last = place.rows("chat:b")
    forged = with_text(last, "six", "bad")._replace(version=last.version + 1, position=last.position + 1)
    place.add(next(rechained("chat:b", [forged], last.digest)))


def change_a_text(place: Place) -> None:
    """Change a text in a complete segment, with all digests behind it; on SQLite it is in a block."""
    if place.is_file:
        change_a_sealed_text(place)
        return
    rewrite(place, "chat:a", lambda rows: [*rows[:7], with_text(rows[7], "text 006", "text 999"), *rows[8:]])


def change_a_sealed_text(place: Place) -> None:
    """Change a text in a block of a file, with all digests behind it and the checksums of blocks."""
    keys = [key for (key,) in place.sql("SELECT key FROM block ORDER BY key")]
    ends: list[bytes] = []

    def change(bodies: list[list[list[Any]]], digests: list[list[bytes]]) -> None:
        bodies[0][4][7] = Raw(bytes(bodies[0][4][7]).replace(b"text 006", b"text 999"))
        before, version = NO_DIGEST, 0
        for (_, positions, times, metas, payloads), some in zip(bodies, digests, strict=True):
            for number, (position, time, meta, payload) in enumerate(
                zip(positions, times, metas, payloads, strict=True)
            ):
                version += 1
                assert meta is None
                place_of_event = Position(-1, position)
                before = UNKEYED.digest(before, "chat:a", version, place_of_event, time, NO_META, bytes(payload))
                some[number] = before
        ends.append(before)

    forge_blocks(place.url, change, *keys)
    for row in rechained("chat:a", place.rows("chat:a"), ends[0]):
        place.put(row)


def change_a_late_text(place: Place) -> None:
    """Change a text in the segment that is not complete, with all digests behind it."""
    rewrite(place, "chat:b", lambda rows: [*rows[:2], with_text(rows[2], "two", "bad"), *rows[3:]])


def change_a_time(place: Place) -> None:
    """Change when something was said, with all digests behind it."""
    rewrite(place, "chat:b", lambda rows: [*rows[:2], rows[2]._replace(recorded_at=5), *rows[3:]])


def change_an_actor(place: Place) -> None:
    """Change who said something, with all digests behind it."""
    actor = b"\x91\xa3bad"
    rewrite(place, "chat:b", lambda rows: [*rows[:2], rows[2]._replace(meta=actor), *rows[3:]])


def exchange(place: Place) -> None:
    """Exchange the contents of two events, with all digests behind them."""

    def exchanged(rows: list[EventRow]) -> list[EventRow]:
        one, other = rows[2], rows[3]
        rows[2:4] = [one._replace(payload=other.payload), other._replace(payload=one.payload)]
        return rows

    rewrite(place, "chat:b", exchanged)


def move(place: Place) -> None:
    """Move the last event of a chat to the end of another one, with the digest that it must have there."""
    *_, last = place.rows("chat:b")
    end = place.rows("chat:a")[-1]
    moved = last._replace(stream=end.stream, version=end.version + 1)
    place.put(next(rechained("chat:a", [moved], end.digest)))


def forget_a_stream(place: Place) -> None:
    """Take the row of a stream away, whose events stay."""
    place.sql("DELETE FROM stream WHERE id = 'chat:b'")


FORGERIES: dict[str, Callable[[Place], None]] = {
    "its end is cut off": cut_off,
    "an event is forged": forge_one,
    "an old text is another": change_a_text,
    "a late text is another": change_a_late_text,
    "a time is another": change_a_time,
    "an actor is another": change_an_actor,
    "events are exchanged": exchange,
    "an event is moved": move,
    "a stream is gone": forget_a_stream,
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_what_was_changed_is_refused(filled: Place, forgery: str) -> None:
    """Nobody is served what was changed, although all digests are right; each without a witness shows that."""
    FORGERIES[forgery](filled)

    if forgery == "its end is cut off":
        with pytest.raises(TamperedError, match="the log ends before it"):
            filled.open()
    with pytest.raises(DamagedError) as refused:
        pytest.fail(f"{read(filled, 'a')[-3:]} and {read(filled, 'b')} were served")
    if forgery == "a stream is gone":
        return
    assert isinstance(refused.value, TamperedError)
    with refold.open(filled.url) as store:
        # Its bytes are consistent: nobody but the witness can say.
        assert len(texts_of(store, "a")) >= len(TEXTS)


def test_when_a_version_was_written(filled: Place) -> None:
    """Its time is looked for in a column of its row: another time there than the event has is refused."""
    last = filled.rows("chat:b")[-1]
    with filled.open() as store:
        assert store.log.version_at("chat:b", last.recorded_at) == last.version
        filled.put(last._replace(recorded_at=last.recorded_at + 60_000_000))

        with pytest.raises(DamagedError, match=f"chat:b@{last.version}"):
            store.log.version_at("chat:b", last.recorded_at)


READS: dict[str, Callable[[LiveLog], object]] = {
    "read": lambda log: log.read("chat:a"),
    "read_events": lambda log: log.read_events("chat:a", after=1),
    "read_ranges": lambda log: log.read_ranges([Range("chat:a", 0, 4)]),
    "head": lambda log: log.head("chat:a"),
    "end": lambda log: log.end("chat:a"),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_the_end_of_a_stream(place: Place, read: Callable[[LiveLog], object]) -> None:
    """It is missed, although the log goes on behind it, and all else can be read."""
    with place.open() as store:
        for text in ("one", "two", "six"):
            store.chat("a", session="s").add_message("user", text)
        store.chat("b", session="s").add_message("user", "later")
        store._witnessed_by().write()
        place.remove(place.rows("chat:a")[-1])

        with pytest.raises(TamperedError, match=r"event chat:a@4 .*: it is missing, and version 4 is known"):
            read(store.log)
        assert len(store.log.read("chat:b")) == 2
        assert len(store.log.read("chat:a", until=3)) == 3


def test_a_row_of_the_catalogue(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of contexts or users is compared with the events of one context; a row that differs is refused."""
    with place.open() as store:
        store.chat("a").add_message("user", "Hello.")
        assert [row.items for row in store.contexts()] == [1]
    (table,) = {str(name) for (name,) in place.sql(TABLES[place.is_file]) if "catalogue" in str(name)}
    place.sql(f"UPDATE {table} SET items = 7")

    for ask in (refold.Store.contexts, partial(refold.Store.usage, by=["user"])):
        with place.open() as store, pytest.raises(TamperedError, match="the row of chat:a in the projection catalogue"):
            ask(store)
    with place.open() as store:
        checked = store._checkpoints
        assert checked is not None
        rows = store._runner.rows(CATALOGUE)
        with pytest.raises(TamperedError):
            checked.sample(rows)
        # At most once a second: it is not looked at again at once.
        checked.sample(rows)
        checked._sampled_at = 0.0
        with pytest.raises(TamperedError):
            checked.sample([msgspec.structs.replace(rows[0], version=3)])
        # A long one is not drawn.
        checked._sampled_at = 0.0
        monkeypatch.setattr(checkpoints, "SAMPLED_EVENTS_MAX", 1)
        checked.sample(rows)
        monkeypatch.setattr(checkpoints, "SAMPLED_EVENTS_MAX", 2)
        with pytest.raises(TamperedError):
            checked.sample(rows)


def test_an_older_copy(tmp_path: Path) -> None:
    """A file that was replaced by an older copy of itself is refused, and so is an empty one."""
    place, aside = Place(str(tmp_path / "store.db"), tmp_path / "witness.log"), tmp_path / "aside.db"
    with place.open() as store:
        store.chat("a").add_message("user", "first")
    shutil.copy(place.url, aside)
    with place.open() as store:
        store.chat("a").add_message("user", "second")

    shutil.copy(aside, place.url)
    with pytest.raises(TamperedError, match="ends before it"):
        place.open()
    Path(place.url).unlink()
    with pytest.raises(TamperedError, match="its witness saw"):
        place.open()


def test_a_witness_comes_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the store is closed for the first time, it knows all events that were there before, page by page."""
    place = Place(str(tmp_path / "store.db"), tmp_path / "witness.log")
    with refold.open(place.url) as store:
        chat = store.chat("a")
        for number in range(30):
            chat.add_message("user", str(number))
    monkeypatch.setattr(checkpoints, "READ_EVENTS", 3)

    with place.open() as store:
        events = store.now().events

    seen = WitnessHistory(FileWitness(place.witness).entries())
    assert seen.last is not None
    assert (seen.last.is_behind, seen.last.events) == (False, events)
    assert [one.events for one in seen.checkpoints] == [*range(3, events, 3), events]


def test_where_events_differ() -> None:
    """In the first segment that is another one, else behind all segments; without all of them it is not known."""
    rows = [SegmentRow(number, bytes([number]) * 32, b"", b"") for number in range(3)]
    other = rows[1]._replace(root=b"another")

    assert _other_events(4, 1_600, rows, [rows[0], other, rows[2]]).what == "positions 4.513 to 4.1024"
    assert _other_events(4, 1_600, rows, rows).what == "positions 4.1537 to 4.1600"
    assert _other_events(-1, 1_600, rows[:2], rows).what == "positions 1 to 1600"


def test_no_thread_is_left(place: Place) -> None:
    """A store that is closed has nobody who writes checkpoints."""
    with place.open() as store:
        store.chat("a").add_message("user", "hello")
        thread = store._witnessed_by()._work._thread
        assert thread is not None

    assert not thread.is_alive()


def test_a_checkpoint_names_the_slices_that_grew(place: Place) -> None:
    """The first one names all."""
    with place.open() as store:
        for name in ("a", "b", "c", "d"):
            store.chat(name).add_message("user", "hello")
        store._witnessed_by().write()
        store.chat("a").add_message("user", "more")
        store._witnessed_by().write()
    lines = [json.loads(line) for line in place.witness.read_text().splitlines()]
    first, *_, last = [line for line in lines if line["kind"] == "checkpoint"]

    assert first["full"]
    assert sum(events for events, *_ in first["slices"].values()) == first["events"]
    assert (last.get("full"), len(last["slices"])) == (None, 1)


def test_few_segments_are_kept_in_memory(filled: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many that are read, the ones that were read first are let go."""
    monkeypatch.setattr(known_events, "SEGMENTS_KEPT_MAX", 4)
    with filled.open() as store:
        known = store._witnessed_by().known
        known._segments.update({(99, number): frozenset() for number in range(4)})
        assert texts_of(store, "a") == TEXTS

        assert len(known._segments) == 4
        assert (99, 0) not in known._segments


def change_one_text(place: Place) -> None:
    """Change a text in a complete segment, with the digests as far as it is read."""
    if place.is_file:
        change_a_sealed_text(place)
        return
    rows = place.rows("chat:a")[6:8]
    place.put(next(rechained("chat:a", [with_text(rows[1], "text 006", "text 999")], rows[0].digest)))


@pytest.mark.parametrize(
    ("change", "stream", "said"),
    [
        (change_a_late_text, "chat:b", "another event is known at it"),
        (change_one_text, "chat:a", "an event among them is missing, or is another one"),
    ],
)
def test_what_is_changed_while_it_is_open(
    filled: Place, change: Callable[[Place], None], stream: str, said: str
) -> None:
    """An event that this process has seen before is refused, in a segment that is complete or not."""
    with filled.open() as store:
        store.log.read(stream)
        change(filled)

        with pytest.raises(TamperedError, match=said):
            store.log.read(stream, until=8)


def test_a_snapshot_without_keys(place: Place) -> None:
    """Only that which this process stored itself is used, and only as it was."""
    with place.open() as store:
        store.chat("b").add_message("user", "one")
        store.log.keep_snapshot("chat:b", lambda: b"what the events give")
        log: Any = store.log
        log._snapshots.close()
        assert log.snapshot("chat:b") == b"what the events give"
        with place.open() as other:
            assert other.log.snapshot("chat:b") is None

        place.sql("UPDATE snapshot SET packed = ?", b"what somebody would like them to give")

        assert log.snapshot("chat:b") is None


def test_what_else_a_witness_has(place: Place) -> None:
    """Lines that are no entries, and those of other stores, are named when the store is compared with it."""
    with place.open() as store:
        store.chat("b").add_message("user", "one")
    other = text_of(WriterClosed(lineage="another", time="2026-01-01T00:00:00+00:00", writer="w"))
    with place.witness.open("a") as file:
        file.write(f"no entry\n{other}\nneither\n")

    with place.open() as store:
        assert store.compare_with_witness() == [
            ("the witness", "2 of its lines are no entries"),
            ("the witness", "it has entries of other stores, another"),
        ]


def test_an_earlier_checkpoint_of_other_events(place: Place) -> None:
    """The events lead to the last checkpoint and not to one before: it is said where, and when it was written."""
    with place.open() as store:
        for number in range(3):
            store.chat("b").add_message("user", str(number))
            store.flush()
    lines = [json.loads(line) for line in place.witness.read_text().splitlines()]
    checkpoints = [line for line in lines if line["kind"] == "checkpoint"]
    # A new store's first one may be written twice: for what was there, and for what was committed meanwhile.
    first, second = next((one, next_) for one, next_ in pairwise(checkpoints) if one["events"] < next_["events"])
    ((lane, (count, _, sealed)),) = second["slices"].items()
    second["slices"] = {lane: (count, bytes(32).hex(), sealed)}
    place.witness.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))

    with place.open() as store:
        before = "" if lane == "-1" else f"{lane}."
        where = f"positions {before}{first['events'] + 1} to {before}{count}"
        fault = f"they are not those that the witness saw at {second['time']}"
        assert store.compare_with_witness() == [(where, fault)]


def test_an_end_that_is_cut_off_while_it_is_open(place: Place) -> None:
    """What another process has added, and a witness saw, is missed."""
    with place.open() as store:
        store.chat("b").add_message("user", "one")
        store.flush()
        with place.open() as other:
            other.chat("b").add_message("user", "two")
        last = place.rows("chat:b")[-1]
        cut_off(place)

        ((where, why),) = store.compare_with_witness()

    assert where == (f"position {last.position}" if place.is_file else f"position {last.slice}.{last.position}")
    assert why == "there is no event at it, and the witness saw one"


def test_whether_a_writer_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this machine by its process, also that of another user; on others by the time of its last word."""
    now, day = 1_790_000_000.0, 86_400

    def writer(host: str, opened: str) -> WriterOpened:
        return WriterOpened(lineage="a", time=opened, writer="w", host=host, pid=os.getpid())

    def opened(days: float) -> str:
        return time_of(int((now - days * day) * 1_000_000)).isoformat()

    assert not is_over(writer(socket.gethostname(), opened(99)), now)
    assert not is_over(writer("elsewhere", opened(6.9)), now)
    assert is_over(writer("elsewhere", opened(7.1)), now)
    assert is_over(writer("elsewhere", "at some time"), now)

    def refuse(pid: int, number: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not is_over(writer(socket.gethostname(), opened(99)), now)

    def miss(pid: int, number: int) -> None:
        raise ProcessLookupError

    monkeypatch.setattr(os, "kill", miss)
    assert is_over(writer(socket.gethostname(), opened(0)), now)


@pytest.mark.parametrize("left", ["{", '{"kind":"opened"', '{"kind":"closed"}\n', ""])
def test_half_a_line_is_a_line_of_its_own(left: str, tmp_path: Path) -> None:
    """A process that was killed may leave it, also a single byte; what the next one adds can be read."""
    (tmp_path / "witness").write_text(left)

    FileWitness(tmp_path / "witness").add("the next")

    assert FileWitness(tmp_path / "witness").entries() == [*left.splitlines(), "the next"]
