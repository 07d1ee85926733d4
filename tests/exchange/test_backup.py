"""A backup has every event of a store, bit for bit, and grows by what was added; what is made of it is equal."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

import refold
from refold.domain.clock import time_of
from refold.domain.errors import (
    DamagedFileError,
    InvalidInputError,
    LogWentBackError,
    NotFoundError,
    StorageBusyError,
    StorageClosedError,
    StorageUnavailableError,
)
from refold.domain.positions import Position
from refold.infrastructure.databases import ring_of
from refold.infrastructure.exchange import backup_file
from refold.infrastructure.exchange.backup import back_up_from, check_backup
from refold.infrastructure.exchange.backup_file import writing_backup
from refold.infrastructure.exchange.restore import restore
from refold.infrastructure.log.postgres import staged_log
from refold.infrastructure.log.sqlite import staged_log as sqlite_aside
from refold.infrastructure.store_id import lineage_of

from .backed_up import events_of, fill_store, filled, rows_of, say

KINDS = ["sqlite", "postgres"]
Places = tuple[str, str, Path]


@pytest.fixture(params=KINDS)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Places:
    """Return where a filled store is, where one is to be restored to, and the file of the backup."""
    if request.param == "postgres":
        source, target = (str(request.getfixturevalue(name)) for name in ("ready_pg_url", "pg_url"))
    else:
        source, target = str(tmp_path / "source.db"), str(tmp_path / "target.db")
    return filled(source), target, tmp_path / "store.backup"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make chunks of a few events."""
    monkeypatch.setattr("refold.infrastructure.exchange.backup.CHUNK_EVENTS", 8)


def test_a_store_comes_back(places: Places) -> None:
    """Events, positions, times, digests and keys are the same; the rest is made anew; it verifies and goes on."""
    source, target, path = places
    with refold.open(source) as store:
        backed_up, moment = store.backup(path), store.now()

    with pytest.raises(StorageClosedError, match="is closed"):
        store.backup(path)
    restored = refold.restore(path, target)

    assert events_of(target) == events_of(source)
    assert rows_of(target) == rows_of(source)
    assert (backed_up.events, backed_up.added) == (moment.events, moment.events)
    assert (restored.moment, restored.events) == (backed_up.moment, moment.events) == (str(moment), moment.events)
    assert check_backup(path).moment == str(moment)
    with refold.open(target) as store:
        assert store.verify().problems == ()
        assert store.chat("later").add_message("user", "message 3", idempotency_key="key 3").id
        assert store.chat("first").add_message("user", "on it goes").text == "on it goes"
        assert store.now().events == moment.events + 1
        assert store.subscribe(name="mailer").moment.events == 7


def test_a_store_in_memory_is_backed_up(tmp_path: Path) -> None:
    """It becomes a file."""
    with refold.open(":memory:") as store:
        fill_store(store)
        store.backup(tmp_path / "memory.backup")
        rows, version = store.contexts(), store.chat("later").version
    with refold.open(":memory:") as other, pytest.raises(InvalidInputError, match="of another store"):
        other.backup(tmp_path / "memory.backup")

    restore(tmp_path / "memory.backup", tmp_path / "now.db")

    with refold.open(tmp_path / "now.db") as store:
        assert (store.contexts(), store.chat("later").version) == (rows, version)
        assert store.verify().is_whole
    with pytest.raises(InvalidInputError, match=r"in memory has no location: call its backup\(\)"):
        back_up_from(":memory:", tmp_path / "another.backup")


def test_progress_is_told(tmp_path: Path, small: None) -> None:
    """Of a backup in events, of a restore in pieces; the last step says that all is done."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    taken, put = list[tuple[int, int]](), list[tuple[int, int]]()

    report = back_up_from(source, path, progress=lambda *step: taken.append(step))
    restore(path, tmp_path / "b.db", progress=lambda *step: put.append(step))

    assert taken == sorted({*taken})
    assert taken[-1] == (report.events, report.events) != taken[0]
    assert put == [(done + 1, len(put)) for done in range(len(put))] != []


def test_the_next_run_adds_what_is_new(places: Places, small: None) -> None:
    """In small steps it is what it is at once; where nothing was added, nothing is written."""
    source, target, path = places
    first = back_up_from(source, path)
    for number in range(20):
        say(source, f"more {number}")

    second = back_up_from(source, path)
    again = back_up_from(source, path)

    assert (second.added, second.events) == (20, first.events + 20)
    assert (again.added, again.size) == (0, second.size)
    restore(path, target)
    assert events_of(target) == events_of(source)


def _position(store: refold.Store) -> str:
    return f"pos:{store.now()}"


def _name(store: refold.Store) -> str:
    store.name_moment("then")
    return "then"


@pytest.mark.parametrize("moment", [_position, _name], ids=["position", "name"])
def test_an_earlier_moment_is_what_the_store_showed_then(
    places: Places, small: None, moment: Callable[[refold.Store], str]
) -> None:
    """A restored store has the contexts of `store.at(moment)`, and nothing that came after."""
    source, target, path = places
    with refold.open(source) as store:
        back_up_from(source, path)
        at = moment(store)
    for number in range(9):
        say(source, f"too late {number}")
    back_up_from(source, path)

    report = restore(path, target, at=at)

    with refold.open(source) as store, refold.open(target) as restored:
        then = store.at(at)
        assert restored.contexts() == then.contexts()
        assert restored.chat("later").version == then.chat("later").version
        assert then.moment == restored.now()
        assert restored.verify().is_whole
    assert events_of(target) == events_of(source, until=refold.Moment.parse(report.moment))


def test_a_time_is_a_moment_too(places: Places) -> None:
    """All that was recorded up to it, and nothing later."""
    source, target, path = places
    with refold.open(source) as store:
        middle = store.log.read("chat:later")[20].recorded_at
    back_up_from(source, path)
    at = time_of(middle).isoformat()

    restore(path, target, at=at)

    with refold.open(source) as store, refold.open(target) as restored:
        assert restored.contexts() == store.at(at).contexts()
        assert 0 < restored.now().events < store.now().events


def test_each_restored_store_has_an_id_of_its_own(places: Places, tmp_path: Path) -> None:
    """So a witness tells it from the store that was backed up, and a backup of that one does not go on with it."""
    source, target, path = places
    with refold.open(source) as store:
        lineage = lineage_of(store._projections)
    back_up_from(source, path)

    report = restore(path, target)

    assert report.source_lineage == lineage != report.lineage
    with refold.open(target) as store:
        assert lineage_of(store._projections) == report.lineage
    with pytest.raises(InvalidInputError, match="of another store"):
        back_up_from(target, path)
    assert back_up_from(target, tmp_path / "its own").lineage == report.lineage


def test_a_store_with_events_is_left_alone(places: Places) -> None:
    """Unless it is to be overwritten; then nothing of it is left."""
    source, target, path = places
    back_up_from(source, path)
    with refold.open(target) as store:
        store.chat("mine").add_message("user", "precious")
        store.contexts()
        before = lineage_of(store._projections)

    with pytest.raises(InvalidInputError, match="has events"):
        restore(path, target)
    assert [row.id for row in rows_of(target)] == ["mine"]
    report = restore(path, target, overwrite=True)

    assert events_of(target) == events_of(source)
    assert rows_of(target) == rows_of(source)
    assert report.lineage != before


def test_nobody_appends_to_a_store_that_is_found_empty(pg_url: str) -> None:
    """From the look for events to the end of the transaction, so that a restore replaces none."""
    refold.open(pg_url).close()
    with psycopg.connect(pg_url) as guard, psycopg.connect(pg_url) as writer:
        ((schema,),) = guard.execute("SELECT current_schema()").fetchall()
        staged_log._require_empty(guard, schema, "it")
        with pytest.raises(psycopg.errors.LockNotAvailable):
            writer.execute("LOCK TABLE event IN ROW EXCLUSIVE MODE NOWAIT")


@pytest.mark.parametrize("kind", KINDS)
def test_events_that_came_meanwhile_are_left_alone(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """What is made aside takes the place of an empty store, and not of one that somebody has begun to use."""
    place = str(request.getfixturevalue("pg_url")) if kind == "postgres" else str(tmp_path / "target.db")
    made = staged_log.made_aside if kind == "postgres" else sqlite_aside.made_aside
    refold.open(place).close()
    for name in ("first", "second"):
        with made(place, overwrite=False) as (beside, put_in_place):
            with refold.open(beside) as store:
                store.chat(name)
            with pytest.raises(InvalidInputError, match="has events") if name == "second" else nullcontext():
                put_in_place()

    assert [row.id for row in rows_of(place)] == ["first"]


def test_a_store_that_went_back_is_noticed(tmp_path: Path) -> None:
    """Its backup is not gone on with, and stays as it is."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    older = Path(source).read_bytes()
    say(source, "this is lost")
    back_up_from(source, path)
    kept = path.read_bytes()

    Path(source).write_bytes(older)
    with pytest.raises(LogWentBackError, match="lacks events that are in the backup"):
        back_up_from(source, path)
    say(source, "another one in its place")
    with pytest.raises(LogWentBackError, match="back up into a new file"):
        back_up_from(source, path)

    assert path.read_bytes() == kept


def test_every_changed_byte_is_noticed(tmp_path: Path, small: None) -> None:
    """Wherever it is in the file; and nothing is restored."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    back_up_from(source, path)
    say(source, "a second run")
    back_up_from(source, path)
    whole = path.read_bytes()

    for place in [*range(100), *range(100, len(whole), 997), *range(len(whole) - 100, len(whole))]:
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises((DamagedFileError, InvalidInputError), match=r"hash|no backup|match|record"):
            restore(path, tmp_path / "b.db")
        with pytest.raises((DamagedFileError, InvalidInputError)):
            back_up_from(source, path)

    assert not (tmp_path / "b.db").exists()


def test_chunks_in_another_order_are_noticed(tmp_path: Path, small: None) -> None:
    """Each is as it was written, and the record behind them has the hash of all."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    back_up_from(source, path)
    whole = path.read_bytes()
    ends = [backup_file._HEAD]
    for _ in range(2):
        length = int.from_bytes(whole[ends[-1] + 1 : ends[-1] + 1 + backup_file.LENGTH_BYTES], "big")
        ends.append(ends[-1] + backup_file._FRAME + length)
    start, middle, end = ends
    path.write_bytes(whole[:start] + whole[middle:end] + whole[start:middle] + whole[end:])

    with pytest.raises(DamagedFileError, match="its record is of other events"):
        check_backup(path)


def test_a_file_that_was_cut_is_noticed(tmp_path: Path, small: None) -> None:
    """Also where it was cut between two runs, after which it looks like an older backup."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    first = back_up_from(source, path).size
    say(source, "a second run")
    whole = back_up_from(source, path).size

    for length in (whole - 1, first + 20, first, first - 1, 60):
        os.truncate(path, length)
        with pytest.raises(DamagedFileError, match="cut off"):
            check_backup(path)


def test_an_event_that_was_changed_with_its_hashes_is_noticed(tmp_path: Path) -> None:
    """The digest of the event is of another text; one that is moved to a slice, which a file has not, is missing."""
    path, forged = tmp_path / "a.backup", tmp_path / "forged.backup"
    back_up_from(filled(str(tmp_path / "a.db")), path)
    _forge(path, forged, "chat:later@4", lambda one: {"event": one.event.replace(b"message 2", b"MESSAGE 2")})
    with pytest.raises(DamagedFileError, match="event chat:later@4 does not match its digest"):
        check_backup(forged)
    with pytest.raises(DamagedFileError, match=r"forged.backup is damaged: event .* does not match its digest"):
        restore(forged, tmp_path / "b.db")
    _forge(path, forged, "chat:later@41", lambda one: {"position": Position(7, one.position.number)})
    with pytest.raises(DamagedFileError, match=r"forged.backup is damaged: the log: it ends 1 event too soon"):
        restore(forged, tmp_path / "b.db")

    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("b.db")] == []


def _forge(path: Path, forged: Path, reference: str, changed: Callable[[refold.RecordedEvent], Any]) -> None:
    """Write a backup anew with other fields in an event, and with the hashes that such a backup has."""
    forged.unlink(missing_ok=True)
    with backup_file.reading_backup(path) as old, writing_backup(forged) as new:
        for stream, one in (pair for frame in old.chunks for pair in old.open(frame).events()):
            event = msgspec.structs.replace(one, **changed(one)) if one.reference == reference else one
            new.add(backup_file.chunk_of([(stream, event)]))
        new.finish(lambda root, chunks: msgspec.structs.replace(old.record, root=root, chunks=chunks))


@pytest.mark.parametrize("bad", ["missing", "empty", "database", "text", "folder"])
def test_what_is_no_backup(bad: str, tmp_path: Path) -> None:
    """The message names the file, and nothing is made of it."""
    path, source = tmp_path / "file", filled(str(tmp_path / "a.db"))
    match bad:
        case "empty":
            path.touch()
        case "database":
            path = Path(source)
        case "text":
            path.write_text("# a list of things to do\n" * 10)
        case "folder":
            path.mkdir()
    before = path.read_bytes() if path.is_file() else b""

    with pytest.raises(InvalidInputError, match=str(path)):
        restore(path, tmp_path / "b.db")
    if bad in ("database", "text", "folder"):
        with pytest.raises(InvalidInputError, match=str(path)):
            back_up_from(source, path)

    assert (path.read_bytes() if path.is_file() else b"") == before
    assert not (tmp_path / "b.db").exists()


def test_where_nothing_can_be_restored_to(places: Places, tmp_path: Path) -> None:
    """Another kind of database, memory, a folder, another program's file; and a moment that there is not."""
    source, target, path = places
    back_up_from(source, path)

    with pytest.raises(InvalidInputError, match="into memory"):
        restore(path, ":memory:")
    other = str(tmp_path / "x.db") if target.startswith("postgres") else "postgresql:///nowhere"
    with pytest.raises(InvalidInputError, match="restore it into one of this kind"):
        restore(path, other)
    if not target.startswith("postgres"):
        with pytest.raises(StorageUnavailableError, match="is a folder: name a file in it"):
            restore(path, tmp_path)
        with pytest.raises(StorageUnavailableError, match=f"there is no folder {tmp_path / 'none'}: make it first"):
            restore(path, tmp_path / "none" / "b.db")
        assert not (tmp_path / "none").exists()
    with pytest.raises(NotFoundError, match=r"no moment of this store is named 'never' .*filled"):
        restore(path, target, at="never")
    with pytest.raises(InvalidInputError, match="a version"):
        restore(path, target, at="17")


def test_an_empty_file_is_taken(tmp_path: Path) -> None:
    """One that a program has made and not written to, as for a temporary file, is no store with events."""
    source, path, target = filled(str(tmp_path / "a.db")), tmp_path / "a.backup", tmp_path / "b.db"
    back_up_from(source, path)
    target.touch()

    restore(path, target)

    assert events_of(str(target)) == events_of(source)


def test_two_do_not_write_one_backup(tmp_path: Path) -> None:
    """The second one is told so, and one who restores meanwhile as well."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    back_up_from(source, path)

    with writing_backup(path):
        for call in (lambda: back_up_from(source, path), lambda: restore(path, tmp_path / "b.db")):
            with pytest.raises(StorageBusyError, match="another process is writing"):
                call()
    assert back_up_from(source, path).added == 0


def test_only_its_owner_reads_a_backup(tmp_path: Path) -> None:
    """It has all that the store has."""
    back_up_from(filled(str(tmp_path / "a.db")), tmp_path / "a.backup")

    assert (tmp_path / "a.backup").stat().st_mode & 0o777 == 0o600


@pytest.fixture
def sealed(tmp_path: Path) -> tuple[str, str, Path, refold.KeyFile]:
    """Return an encrypted store with a secret of a user, where it is restored to, the file, and the keys."""
    path = tmp_path / "sealed.backup"
    keys = refold.KeyFile(tmp_path / "keys.json")
    keys.make()
    source = str(tmp_path / "sealed.db")
    with refold.open(source, keys=keys) as store:
        store.chat("secret", user="mia").add_message("user", "PLANTED in the clear")
        store.chat("other", user="tom").add_message("user", "nothing")
    return source, str(tmp_path / "sealed again.db"), path, keys


def test_an_encrypted_store_is_backed_up_encrypted(sealed: tuple[str, str, Path, refold.KeyFile]) -> None:
    """Without its keys, by location or when it is open; the keys come along as they are wrapped."""
    source, target, path, keys = sealed
    back_up_from(source, path, keys=keys)
    with refold.open(source, keys=keys) as store:
        store.chat("secret").add_message("user", "PLANTED again")
        assert store.backup(path).added == 1
        shown = [item.text for item in store.chat("secret").items if isinstance(item, refold.ChatMessage)]
        store.name_moment("then")

    restore(path, target, keys=keys)

    with pytest.raises(refold.RefoldError, match="no keys were given"):
        restore(path, f"{target} too")
    for place in (path, Path(target)):
        assert b"PLANTED" not in place.read_bytes()
    with pytest.warns(RuntimeWarning, match="no digest was computed, as they are keyed"):
        assert check_backup(path).events == 5
    assert check_backup(path, keys=keys).events == 5
    with pytest.raises(refold.RefoldError, match="encrypted"):
        refold.open(target)
    with refold.open(target, keys=keys) as store:
        assert [item.text for item in store.chat("secret").items if isinstance(item, refold.ChatMessage)] == shown
        assert store.verify().is_whole
    back_up_from(source, path, keys=keys)
    with pytest.raises(InvalidInputError, match="names of moments are encrypted"):
        restore(path, target, at="then", overwrite=True, keys=keys)


def test_keys_that_were_destroyed_leave_the_backup(sealed: tuple[str, str, Path, refold.KeyFile]) -> None:
    """The next run takes them out of all records in the file, so that nobody reads in it what was erased."""
    source, target, path, keys = sealed
    back_up_from(source, path, keys=keys)
    with refold.open(source, keys=keys) as store:
        ring = ring_of(store.log)
        wrapped = [row.wrapped for row in ring.rows() if row.subject == ring_subject(store, "mia")]
        assert len(wrapped) == 1
        assert wrapped[0] in path.read_bytes()
        ring.retire(ring_subject(store, "mia"))
        ring.destroy(ring.retired())

    report = back_up_from(source, path, keys=keys)

    assert wrapped[0] not in path.read_bytes()
    assert (check_backup(path, keys=keys).events, back_up_from(source, path, keys=keys).size) == (
        report.events,
        report.size,
    )
    restore(path, target, keys=keys)
    with refold.open(target, keys=keys) as store:
        assert len(store.chat("other").items) == 1
        with pytest.raises(refold.RefoldError, match="destroyed"):
            _ = store.chat("secret").items


def ring_subject(store: refold.Store, user: str) -> str:
    """Return the subject of a user's keys."""
    return str(store.log.user_subject(user))  # type: ignore[attr-defined]  # the log of an encrypted store


def test_a_witness_tells_a_restored_store_from_one_that_went_back(tmp_path: Path) -> None:
    """A restored store says that it is another one; a file that was put back says that events are missing."""
    source, path, witness = tmp_path / "a.db", tmp_path / "a.backup", tmp_path / "witness.log"
    with refold.open(source, witness=witness) as store:
        store.chat("a").add_message("user", "before")
        store.backup(path)
    older = source.read_bytes()
    with refold.open(source, witness=witness) as store:
        store.chat("a").add_message("user", "after")
    source.write_bytes(older)
    with pytest.raises(refold.TamperedError) as went_back:
        refold.open(source, witness=witness).chat("a").items  # noqa: B018

    restored = restore(path, source, overwrite=True)

    with pytest.raises(refold.TamperedError, match=f"it is the store {restored.lineage}, and its witness saw") as told:
        refold.open(source, witness=witness)
    assert "it is the store" not in str(went_back.value)
    assert restored.source_lineage in str(told.value)
