"""Backups and restores beside writers, on disks that fail, and where they are killed at any of their steps."""

from __future__ import annotations

import json
import os
import sqlite3
import threading
import time
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import refold
from refold.domain.clock import RealSystem
from refold.domain.errors import DamagedFileError, StorageBusyError, StorageError, StorageFullError
from refold.infrastructure.exchange import backup, backup_file
from refold.infrastructure.exchange import restore as restoring
from refold.infrastructure.exchange.backup import back_up_from, check_backup
from refold.infrastructure.exchange.backup_file import BackupFile, reading_backup, writing_backup
from refold.infrastructure.exchange.copying import Incoming
from refold.infrastructure.exchange.restore import restore
from refold.infrastructure.store_id import lineage_of
from tests.contract.stores import start_python
from tests.support.effort import IS_DEEP
from tests.support.waiting import soon

from .backed_up import events_of, filled, rows_of


def left_by(*arguments: str) -> list[str]:
    """Return what is found after each step at which a process was killed."""
    with start_python("tests.exchange.kills", *arguments) as process:
        printed, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    found: list[str] = json.loads(printed)
    return found


@pytest.mark.long
def test_a_backup_that_is_killed_leaves_the_one_before(tmp_path: Path) -> None:
    """At each step the backup before counts, or the new one; the next run does the rest."""
    filled(str(tmp_path / "source.db"))

    found = left_by("backups", str(tmp_path))

    first, second = found[: found.index("old")], found[found.index("old") :]
    assert first == ["none"] * first.count("none") + ["new"] * first.count("new")
    assert second == ["old"] * second.count("old") + ["new"] * second.count("new")
    assert min(first.count("none"), first.count("new"), second.count("old"), second.count("new")) > 1


def test_a_chunk_ends_before_it_is_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what payloads, envelopes and names take; an event that is larger by itself has a chunk of its own."""
    monkeypatch.setattr("refold.infrastructure.exchange.backup.CHUNK_BYTES_MAX", 1_000)
    sizes = [(10, 0), (10, 300), (10, 300), (10, 300), (600, 0), (300, 0), (1_500, 0), (10, 0), (10, 0)]
    with refold.open(":memory:") as store:
        for text, actor in sizes:
            with refold.acting(actor="a" * actor or None):
                store.chat("a").add_message("user", "t" * text)
        store.backup(tmp_path / "a.backup")

    with reading_backup(tmp_path / "a.backup") as file:
        assert [len(file.open(frame)) for frame in file.chunks] == [3, 2, 1, 1, 1, 2]


def test_a_store_on_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no room for an id, and is backed up elsewhere without one, until it gets one."""

    def full(_: object) -> str:
        raise StorageFullError("no room left")

    path, source = tmp_path / "a.backup", str(tmp_path / "source.db")
    filled(source)
    monkeypatch.setattr(backup, "lineage_of", full)
    report = back_up_from(source, path)
    monkeypatch.undo()
    again = back_up_from(source, path)

    assert (report.lineage, report.events) == ("", len(events_of(source)))
    assert (again.lineage != "", again.added) == (True, 0)
    assert check_backup(path).lineage == again.lineage


def test_a_run_counts_once_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The beginning of the file, which says how long it is, changes after all else was synced, and is synced itself."""
    path, synced, sync = tmp_path / "a.backup", list[bytes](), os.fsync

    def note(number: int) -> None:
        sync(number)
        synced.append(path.read_bytes())

    with refold.open(":memory:") as store:
        store.chat("a")
        store.backup(path)
        store.chat("a").add_message("user", "hello")
        monkeypatch.setattr(os, "fsync", note)
        before, head = path.read_bytes(), backup_file._HEAD
        store.backup(path)

    *_, first, last = synced
    assert last == path.read_bytes() == last[:head] + first[head:]
    assert first[:head] == before[:head] != last[:head]


def test_what_a_crash_left_behind_the_end_goes_with_the_next_run(tmp_path: Path) -> None:
    """Otherwise the file would keep bytes for ever that belong to no event, and may have been erased since."""
    path = tmp_path / "a.backup"
    with refold.open(tmp_path / "source.db") as store:
        store.chat("a").add_message("user", "before")
        store.backup(path)
        with path.open("ab") as file:
            file.write(b"half a chunk" * 10_000)
        store.chat("a").add_message("user", "after")

        store.backup(path)

    assert b"half a chunk" not in path.read_bytes()
    assert check_backup(path).events == 3


@pytest.mark.long
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_restore_that_is_killed_has_not_begun_or_is_done(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """At each step the old store is there, whole, or the new one; and nothing else is left."""
    source, target = str(tmp_path / "source.db"), str(tmp_path / "target.db")
    if kind == "postgres":
        source, target = (str(request.getfixturevalue(name)) for name in ("ready_pg_url", "pg_url"))
    back_up_from(filled(source), tmp_path / "a.backup")

    # A database takes many steps, and each restore much longer.
    stride = 9 if kind == "postgres" and not IS_DEEP else 1
    found = left_by("restores", source, target, str(tmp_path / "a.backup"), str(stride))

    assert found == ["old"] * found.count("old") + ["new"] * found.count("new")
    assert found.count("old") > 1
    # Few steps come after the one that puts it in place.
    assert "new" in found or stride > 1
    assert [path.name for path in tmp_path.iterdir() if ".refold.tmp" in path.name] == []
    if kind == "postgres":
        assert _schemas(target) == ["public"]


def _schemas(url: str) -> list[str]:
    import psycopg

    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname !~ '^(pg_|information_)'")
        return sorted(name for (name,) in found)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_writers_go_on_beside_backups(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Threads and another process; each backup is a prefix of the log, and the last one is all of it."""
    source, path = str(tmp_path / "source.db"), tmp_path / "a.backup"
    if kind == "postgres":
        source = str(request.getfixturevalue("ready_pg_url"))
    filled(source)
    stop, target = threading.Event(), str(tmp_path / "target.db")
    with refold.open(source) as store, start_python("tests.exchange.kills", "writes", source, "process") as process:
        assert process.stdout is not None
        process.stdout.readline()
        threads = [threading.Thread(target=_write, args=(store, f"thread {n}", stop)) for n in range(3)]
        for thread in threads:
            thread.start()
        reports = [store.backup(path) for _ in range(4)]
        process.kill()
        stop.set()
        for thread in threads:
            thread.join()
        last = store.backup(path)
        end = store.now()

    # A run that follows at once may find nothing new.
    assert reports[0].added
    assert [report.events for report in reports] == sorted(report.events for report in reports)
    assert check_backup(path).moment == last.moment == str(end)
    if kind == "postgres":
        target = str(request.getfixturevalue("pg_url"))
    middle = reports[1].moment
    restore(path, target, at=f"pos:{middle}")
    assert events_of(target) == events_of(source, until=refold.Moment.parse(middle))
    restore(path, target, overwrite=True)
    assert events_of(target) == events_of(source)
    assert rows_of(target) == rows_of(source)


def _write(store: refold.Store, name: str, stop: threading.Event) -> None:
    chat = store.chat(name)
    while not stop.is_set():
        chat.add_message("user", "on it goes")


def test_an_open_store_is_not_replaced(tmp_path: Path) -> None:
    """Who has it open would write into a file that nobody finds; so it stays, with all that is in it."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    back_up_from(source, path)

    with refold.open(source) as store:
        store.chat("later").add_message("user", "still here")
        with pytest.raises(refold.StorageError, match="open in another process"):
            restore(path, source, overwrite=True)
        store.chat("later").add_message("user", "and again")

    assert check_backup(path).events + 2 == len(events_of(source))


def test_a_broken_store_is_replaced(tmp_path: Path) -> None:
    """With its WAL, which would be read as a part of the new one."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    back_up_from(source, path)
    whole = events_of(source)
    Path(source).write_bytes(b"\0" * 9_000)
    Path(f"{source}-wal").write_bytes(b"\0" * 9_000)

    with pytest.raises(refold.RefoldError):
        restore(path, source)
    restore(path, source, overwrite=True)

    assert events_of(source) == whole


@pytest.mark.parametrize("encrypt", [True, False])
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_store_with_keys_is_replaced(
    kind: str, encrypt: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """With its keys, by which whoever opened the new one would take that for encrypted."""
    source, target = str(tmp_path / "a.db"), str(tmp_path / "b.db")
    if kind == "postgres":
        source, target = (str(request.getfixturevalue(name)) for name in ("ready_pg_url", "pg_url"))
    path, keys = tmp_path / "a.backup", refold.KeyFile(tmp_path / "keys.json")
    with refold.open(filled(source)) as store:
        shown = store.chat("later").items
        store.backup(path)
    keys.make()
    with refold.open(target, keys=keys, encrypt=encrypt, witness=tmp_path / "witness") as store:
        store.chat("secret").add_message("user", "precious")
        store.contexts()

    restore(path, target, overwrite=True)

    with refold.open(target) as store:
        assert store.chat("later").items == shown
        assert store.verify().is_whole


def test_snapshots_go_on_in_a_restored_store(pg_url: str, tmp_path: Path) -> None:
    """Also for who had the one before open, which had a table of them: the restored one has none yet."""
    path = tmp_path / "a.backup"
    back_up_from(filled(pg_url), path)
    with refold.open(pg_url) as store:

        def is_kept(packed: bytes) -> bool:
            store.log.keep_snapshot("chat:later", lambda: packed)
            return soon(lambda: [*store.log.streams_with_snapshot()] == ["chat:later"])

        assert is_kept(b"one")

        restore(path, pg_url, overwrite=True)

        assert store.log.snapshot("chat:later") is None
        assert store.verify().is_whole
        assert is_kept(b"another")
        assert store.log.snapshot("chat:later") == b"another"


def test_a_record_that_says_more_than_there_is_is_noticed(tmp_path: Path) -> None:
    """All events are there and whole, but the record says that they go on."""
    path, forged = tmp_path / "a.backup", tmp_path / "forged.backup"
    back_up_from(filled(str(tmp_path / "a.db")), path)
    with reading_backup(path) as old, writing_backup(forged) as new:
        for frame in old.chunks:
            new.add(old.open(frame))
        longer = msgspec.structs.replace(old.record, moment=str(old.record.events + 1))
        new.finish(lambda root, chunks: msgspec.structs.replace(longer, root=root, chunks=chunks))

    with pytest.raises(DamagedFileError, match="it has other events than its record says"):
        check_backup(forged)


FRAMES = {
    "no record": (backup_file.RECORD, b"\xc1", "it cannot be read"),
    "no chunk": (backup_file.CHUNK, b"\0\xc1", "it cannot be read"),
    "a dictionary": (backup_file.CHUNK, b"\2\0\7" + bytes(9), "dictionary 7 is damaged: there are none in a backup"),
}


@pytest.mark.parametrize(("kind", "body", "said"), FRAMES.values(), ids=FRAMES)
def test_what_has_its_hash_and_cannot_be_read(kind: bytes, body: bytes, said: str, tmp_path: Path) -> None:
    """The backup is not gone on with, and the error says where and why."""
    source, path = filled(str(tmp_path / "a.db")), tmp_path / "a.backup"
    back_up_from(source, path)
    with writing_backup(path) as file:
        file._append(kind, body)
    before = path.read_bytes()

    with pytest.raises(DamagedFileError, match=said):
        back_up_from(source, path)

    assert path.read_bytes() == before


def test_the_columns_of_a_chunk_agree(tmp_path: Path) -> None:
    """Each has a value for every event, and each event is of a stream that the chunk has."""
    path, replaced = tmp_path / "a.backup", msgspec.structs.replace
    with refold.open(":memory:") as store:
        store.chat("a")
        store.backup(path)

    with writing_backup(path) as file:
        [chunk] = map(file.open, file.chunks)
        shorter = {name: getattr(chunk, name)[:-1] for name in chunk.__struct_fields__[2:]}
        wrong = [(replaced(chunk, **{name: value}), "not of one length") for name, value in shorter.items()]
        wrong += [(replaced(chunk, places=[place]), "an event is of no stream in it") for place in (-1, 1)]
        # A few bytes of the file would become gigabytes.
        columns = chunk.__struct_fields__[:-1]
        longer = {name: getattr(chunk, name) * (backup_file.CHUNK_EVENTS + 1) for name in columns}
        wrong += [(replaced(chunk, **{name: value}), "length <= 1024") for name, value in longer.items()]
        for bad, fault in wrong:
            file.add(bad)
            with pytest.raises(DamagedFileError, match=fault):
                file.open(file.left[-1])


def test_what_a_disk_keeps_otherwise_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a run counts, what it wrote is read back; the backup before stays whole."""
    source, path, add = filled(str(tmp_path / "a.db")), tmp_path / "a.backup", BackupFile.add
    events = back_up_from(source, path).events
    with refold.open(source) as store:
        store.chat("later").add_message("user", "one more")

    def add_badly(file: BackupFile, chunk: backup_file.Chunk) -> None:
        add(file, chunk)
        file._file.flush()
        whole = path.read_bytes()
        path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))

    with monkeypatch.context() as patched:
        patched.setattr(BackupFile, "add", add_badly)
        with pytest.raises(DamagedFileError, match="the bytes there do not match their hash"):
            back_up_from(source, path)

    assert check_backup(path).events == events
    assert back_up_from(source, path).events == events + 1


def test_a_restored_store_is_compared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written otherwise than the backup has it is not put in place."""
    path, add = tmp_path / "a.backup", Incoming.add
    back_up_from(filled(str(tmp_path / "a.db")), path)

    def add_later(incoming: Incoming, one: refold.RecordedEvent, *rest: Any, **options: Any) -> None:
        add(incoming, msgspec.structs.replace(one, recorded_at=one.recorded_at + 1), *rest, **options)

    monkeypatch.setattr(Incoming, "add", add_later)
    with pytest.raises(DamagedFileError, match="the events that were restored are not those of the backup"):
        restore(path, tmp_path / "b.db")

    assert [one.name for one in tmp_path.iterdir() if one.name.startswith("b.db")] == []


def test_a_disk_that_fails_as_a_store_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is told as what it is, and the store stays."""
    source, path, target = filled(str(tmp_path / "a.db")), tmp_path / "a.backup", str(tmp_path / "b.db")
    back_up_from(source, path)
    refold.open(target).close()
    connect = sqlite3.connect

    class Failing(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            if sql != "BEGIN EXCLUSIVE":
                return super().execute(sql, *values)
            failed = sqlite3.OperationalError("disk I/O error")
            failed.sqlite_errorcode = sqlite3.SQLITE_IOERR
            raise failed

    monkeypatch.setattr(sqlite3, "connect", lambda *given, **options: connect(*given, factory=Failing, **options))

    with pytest.raises(StorageError, match=r"the disk of .*b\.db failed: disk I/O error"):
        restore(path, target)
    monkeypatch.undo()
    assert rows_of(target) == []


@pytest.mark.parametrize("is_read", [False, True])
def test_a_restored_file_is_whole_by_itself(is_read: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where closing left a part of it in its WAL, as on a full disk, it is taken in, or the store stays as it was."""
    source, path, target = filled(str(tmp_path / "a.db")), tmp_path / "a.backup", tmp_path / "b.db"
    back_up_from(source, path)
    others = []

    def keep_wal(rows: Any) -> str:
        (aside,) = (one for one in tmp_path.iterdir() if one.name.endswith(".refold.tmp"))
        others.append(sqlite3.connect(aside, isolation_level=None))
        others[0].execute("BEGIN" if is_read else "SELECT 1")
        others[0].execute("SELECT * FROM event").fetchone()
        return lineage_of(rows)

    monkeypatch.setattr(restoring, "lineage_of", keep_wal)
    with pytest.raises(StorageBusyError, match="open in another process") if is_read else nullcontext():
        restore(path, target)
    others[0].close()

    assert target.exists() is not is_read
    assert is_read or events_of(str(target)) == events_of(source)


def test_a_time_that_this_clock_has_not_reached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What another clock recorded later is not restored."""
    source, target, path = str(tmp_path / "a.db"), str(tmp_path / "b.db"), tmp_path / "a.backup"
    began = time.time()
    with refold.open(source) as store:
        for hours in (1, 2):
            with monkeypatch.context() as ahead:
                ahead.setattr(RealSystem, "now", lambda _, at=began + 3_600 * hours: at)
                store.chat("ahead").add_message("user", str(hours))
    back_up_from(source, path)

    restore(path, target, at=datetime.fromtimestamp(began + 5_400, UTC).isoformat())

    with refold.open(target) as restored:
        assert [getattr(item, "content", None) for item in restored.chat("ahead").items] == [["1"]]
