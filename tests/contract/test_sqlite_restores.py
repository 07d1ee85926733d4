"""Files that go back, are replaced, deleted or lose their WAL under an open store."""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import DamagedError, LogWentBackError
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import Receipt
from refold.domain.positions import BEGINNING, ONE_SEQUENCE
from refold.infrastructure.log.database_log import RECENT_MAX, Acknowledged, MissingDatabase
from refold.infrastructure.log.sqlite.log import SqliteLog
from refold.infrastructure.log.sqlite.open_files import OpenFiles
from tests.verifying.damaging import sql

from ..support.effort import CountedLock
from .restores import RestoreContract, texts
from .writing import append, said


class File:
    """A file, and a copy of it, which SQLite makes and puts back: so others may have it open."""

    def __init__(self, folder: Path) -> None:
        self.url = str(folder / "log.db")
        self._copy = str(folder / "copy.db")

    def keep(self) -> None:
        """Keep a copy of what there is."""
        _copied(self.url, self._copy)

    def put_back(self) -> None:
        """Put the copy that was kept in the place of what there is."""
        _copied(self._copy, self.url)

    def cut_tail(self) -> None:
        """Delete the last event, and nothing else."""
        sql(self.url, "DELETE FROM event WHERE position = (SELECT max(position) FROM event)")


def _copied(source: str, target: str) -> None:
    with closing(sqlite3.connect(source)) as connection, closing(sqlite3.connect(target)) as copy:
        connection.backup(copy)


@pytest.fixture
def place(tmp_path: Path) -> File:
    """A file that does not exist yet."""
    return File(tmp_path)


class TestSqliteRestores(RestoreContract):
    """A copy put back into a file that is open."""


BESIDE = ("-wal", "-shm")


def copied_over(path: Path, copy: Path) -> None:
    """Overwrite a file with its copy."""
    shutil.copyfile(copy, path)


def replaced(path: Path, copy: Path) -> None:
    """Put a copy in the place of a file, as another file."""
    shutil.copyfile(copy, copy.with_suffix(".new"))
    os.replace(copy.with_suffix(".new"), path)


def deleted(path: Path, copy: Path) -> None:
    """Delete a file."""
    path.unlink()


def untouched(path: Path, copy: Path) -> None:
    """Leave a file as it is."""


def written_to(path: Path) -> tuple[refold.Store, Path]:
    """Return an open store with a chat of two messages, the second of which its copy lacks."""
    copy = path.with_name("copy.db")
    with refold.open(path) as store:
        store.chat("a").add_message("user", "one")
        _copied(str(path), str(copy))
    store = refold.open(path)
    store.chat("a").add_message("user", "two")
    return store, copy


def without_files_beside(path: Path) -> None:
    """Delete the WAL and its index."""
    for suffix in BESIDE:
        path.with_name(path.name + suffix).unlink()


@pytest.mark.parametrize("durability", ["commit", "enqueue"])
@pytest.mark.parametrize("is_wal_deleted", [False, True])
@pytest.mark.parametrize("change", [replaced, deleted, untouched, copied_over])
def test_what_lies_at_the_path_is_another_file(
    tmp_path: Path, change: Callable[[Path, Path], None], is_wal_deleted: bool, durability: Any
) -> None:
    """No write and no read goes into a file, or a WAL, that nobody else will find; a store opened anew goes on."""
    if not is_wal_deleted and change in (untouched, copied_over):
        pytest.skip("a file that is the same, with its WAL")
    path = tmp_path / "log.db"
    store, copy = written_to(path)
    chat = store.chat("a", durability=durability)
    _ = chat.items
    change(path, copy)
    if is_wal_deleted:
        without_files_beside(path)

    def append() -> None:
        chat.add_message("user", "three")
        store.flush()

    def write_together() -> None:
        with store.transaction():
            chat.add_message("user", "three")

    for call in (chat.refresh, append, write_together, store.contexts, lambda: store.chat("b")):
        with pytest.raises(LogWentBackError, match=r"log\.db(-wal)? was deleted or replaced") as caught:
            call()
        if change is deleted:
            assert [one.reference for one in caught.value.lost] == ["chat:a@1", "chat:a@2", "chat:a@3"]
    with suppress(LogWentBackError):
        store.close()


def test_a_wal_that_was_deleted_is_saved_by_closing(tmp_path: Path) -> None:
    """What was acknowledged before and after is in the file once the store that has it open is closed."""
    path = tmp_path / "log.db"
    store, _ = written_to(path)
    chat = store.chat("a")
    without_files_beside(path)
    with pytest.raises(LogWentBackError):
        chat.add_message("user", "three")

    store.close()

    with refold.open(path) as again:
        assert texts(again.chat("a"))[:2] == ["one", "two"]
        assert again.verify().is_whole


def test_a_file_that_was_replaced_goes_on_when_it_is_opened_again(tmp_path: Path) -> None:
    """The old store takes nothing more, the new one has what the copy has, and keeps what it acknowledges."""
    path = tmp_path / "log.db"
    store, copy = written_to(path)
    chat = store.chat("a")
    _ = chat.items
    replaced(path, copy)
    without_files_beside(path)

    with refold.open(path) as again:
        again.chat("a").add_message("user", "another two")
        with pytest.raises(LogWentBackError) as caught:
            chat.add_message("user", "three")
        assert [one.reference for one in caught.value.lost] == ["chat:a@3"]
        assert len(chat.items) == 2
        store.close()
        again.chat("a").add_message("user", "more")

    with refold.open(path) as last:
        assert texts(last.chat("a")) == ["one", "another two", "more"]
        assert last.verify().is_whole


@pytest.mark.parametrize("count", [1, 3_000])
def test_a_copy_written_over_an_open_file_is_no_silent_loss(tmp_path: Path, count: int) -> None:
    """With its WAL left beside it, the file has all, or whoever reads it is told that it is broken."""
    path = tmp_path / "log.db"
    store, copy = written_to(path)
    chat = store.chat("a")
    with store.transaction():
        for number in range(count):
            chat.add_message("user", f"{number}: " + "x" * 400)
    copied_over(path, copy)

    try:
        with refold.open(path) as again:
            found = len(again.chat("a").items)
            assert found == 2 + count
    except (LogWentBackError, DamagedError):
        assert count > 1
    with suppress(LogWentBackError, DamagedError):
        store.close()


def test_a_folder_in_which_others_write(tmp_path: Path) -> None:
    """Files that come and go beside an open one do not matter; it is looked at when its folder has changed."""
    path = tmp_path / "a"
    path.touch()
    files = OpenFiles(str(path))
    (tmp_path / "c").touch()
    assert files.missing() is None
    os.utime(tmp_path, ns=(1, 1))
    assert (files.missing(), files.trusted) == (None, 1)

    path.unlink()

    assert files.missing() == str(path)
    files.close()
    assert files.missing() == str(path)


def test_a_folder_that_changed_just_now_is_not_trusted(tmp_path: Path) -> None:
    """A file that is deleted within the same tick of its clock is missed otherwise."""
    path = tmp_path / "a"
    path.touch()
    files = OpenFiles(str(path))
    # Like the time of a file system that counts in steps of two seconds, and after the next step.
    now = (time.time_ns() // 1_000_000_000 + 1) * 1_000_000_000
    os.utime(tmp_path, ns=(now, now))

    assert (files.missing(), files.trusted) == (None, 0)

    files.close()


def test_what_is_acknowledged_while_somebody_is_told(tmp_path: Path) -> None:
    """It is not forgotten with what that one is told of: it may be gone as well."""
    with closing(SqliteLog(tmp_path / "log.db")) as log:
        first, second = append(log, "chat:a", said(1)), append(log, "chat:b", said(2))
    known = Acknowledged()
    known.note([first])

    class Meanwhile(MissingDatabase):
        def digests(self, places: Sequence[tuple[str, int]]) -> list[None]:
            known.note([second])
            return super().digests(places)

    told = [
        [one.reference for one in known.lost(present)]
        for present in (Meanwhile(), MissingDatabase(), MissingDatabase())
    ]

    assert told == [["chat:a@1"], ["chat:b@1"], []]


def acknowledged(*, count: int = 1, stream: str = "chat:a", log: MemoryLog | None = None) -> list[Receipt]:
    """Return receipts of small events of a stream."""
    log = MemoryLog() if log is None else log
    return [append(log, stream, said(number)) for number in range(1, count + 1)]


def test_what_is_acknowledged_is_noted_under_a_lock() -> None:
    """A reader that finds something missing looks at it while the writer goes on."""
    known = Acknowledged()
    known._lock = lock = CountedLock()  # type: ignore[assignment]
    steps: list[Callable[[], object]] = [
        # Most of the time the list alone grows, and this costs an append nothing.
        lambda: known.note(acknowledged(), are_small=True),
        # To put in order what was noted, to take it, and to take this.
        lambda: known.note(acknowledged()),
        lambda: known.witness(ONE_SEQUENCE),
        lambda: known.lost(MissingDatabase()),
    ]
    taken = []
    for step in steps:
        lock.taken = 0
        step()
        taken.append(lock.taken)

    assert taken == [0, 3, 2, 4]


@pytest.mark.parametrize("count", [RECENT_MAX - 1, RECENT_MAX, RECENT_MAX + 1, 2 * RECENT_MAX + 1])
def test_the_newest_events_are_kept_as_they_were(count: int) -> None:
    """All that is gone is listed, and of the newest, 256 at most, what they said; then it is told of no more."""
    known = Acknowledged()
    for receipt in acknowledged(count=count):
        known.note([receipt], are_small=True)
        assert len(known._noted) < RECENT_MAX
    lost = known.lost(MissingDatabase())

    assert [one.reference for one in lost] == [f"chat:a@{version}" for version in range(1, count + 1)]
    assert [one.event.id if isinstance(one.event, MessageAdded) else "" for one in lost] == [
        "" if version <= count - RECENT_MAX else f"m{version}" for version in range(1, count + 1)
    ]
    assert known.lost(MissingDatabase()) == []


def test_the_ends_of_many_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those noted first are forgotten, half of them at once, where there are too many; the last of all is known."""
    monkeypatch.setattr("refold.infrastructure.log.database_log.ENDS_MAX", 4)
    known, log = Acknowledged(), MemoryLog()
    for number in range(5):
        known.note(acknowledged(stream=f"chat:{number}", log=log), are_small=number % 2 == 0)
    witness = known.witness(ONE_SEQUENCE)

    assert witness is not None
    assert (witness.stream, witness.number) == ("chat:4", 5)
    assert [one.reference for one in known.lost(MissingDatabase())] == ["chat:2@1", "chat:3@1", "chat:4@1"]
    assert known.witness(ONE_SEQUENCE) is None


def test_the_witness_of_a_slice_is_its_last_event() -> None:
    """In whatever order its streams were noted; a repetition acknowledges nothing new."""
    known, log = Acknowledged(), MemoryLog()
    (first,), (second,) = acknowledged(stream="chat:a", log=log), acknowledged(stream="chat:b", log=log)
    known.note([second, first])
    known.note([Receipt(append(MemoryLog(), "chat:c", said(1)).events, True), Receipt(())])
    witness = known.witness(ONE_SEQUENCE)

    assert witness == ("chat:b", 1, second.events[0].digest, 2, ONE_SEQUENCE)
    assert [one.reference for one in known.lost(MissingDatabase())] == ["chat:b@1", "chat:a@1"]


@pytest.mark.parametrize(
    "look",
    [
        lambda log: log.read_all(after=BEGINNING, limit=9),
        lambda log: append(log, "chat:b", said(3)),
        lambda log: append(log, "chat:a", said(3), key="k"),
        lambda log: append(log, "chat:a", said(3)),
    ],
    ids=["a page", "another stream", "with a key", "the same stream"],
)
def test_a_log_that_went_back_is_noticed_by(place: File, look: Callable[[SqliteLog], object]) -> None:
    """Whatever is asked next, of whichever stream, and told what is gone; then it goes on from what there is."""
    with closing(SqliteLog(place.url)) as log:
        append(log, "chat:a", said(1))
        place.keep()
        append(log, "chat:a", said(2))
        place.put_back()
        with pytest.raises(LogWentBackError) as caught:
            look(log)

        assert [one.reference for one in caught.value.lost] == ["chat:a@2"]
        look(log)
