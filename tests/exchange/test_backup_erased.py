"""What was erased is in no backup that is made afterwards, also not in an older file, and stays erased."""

import os
import stat
from itertools import count
from pathlib import Path

import pytest

import refold
from refold.domain.erasure.events import require_unarchived
from refold.domain.errors import StorageBusyError
from refold.infrastructure.exchange import backup
from refold.infrastructure.exchange.backup import back_up_from, check_backup
from refold.infrastructure.exchange.backup_file import reading_backup
from refold.infrastructure.exchange.restore import restore

from .backed_up import events_of

SECRET = "the planted text"


@pytest.fixture(params=["sqlite", "postgres"])
def places(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, Path]:
    """Return where a store with a secret is, where one is to be restored to, and the file of the backup."""
    source, target = str(tmp_path / "source.db"), str(tmp_path / "target.db")
    if request.param == "postgres":
        source, target = (str(request.getfixturevalue(name)) for name in ("ready_pg_url", "pg_url"))
    with refold.open(source) as store:
        store.chat("kept").add_message("user", "stays")
        store.chat("gone").add_message("user", SECRET)
        store.chat("gone").add_message("user", f"once more {SECRET}")
    return source, target, tmp_path / "a.backup"


def erase(place: str) -> None:
    """Erase the chat with the secret."""
    with refold.open(place) as store:
        store.erase(why="asked for", context="gone", dry_run=False)


def chunks_of(path: Path) -> bytes:
    """Return all payloads of a backup."""
    with reading_backup(path) as file:
        return b"".join(payload for frame in file.chunks for payload in file.open(frame).payloads)


def test_what_was_erased_leaves_a_backup_that_has_it(places: tuple[str, str, Path]) -> None:
    """The next run writes the file anew; what it makes of it verifies."""
    source, target, path = places
    back_up_from(source, path)
    assert SECRET.encode() in chunks_of(path)

    erase(source)
    report = back_up_from(source, path)

    assert SECRET.encode() not in chunks_of(path)
    assert back_up_from(source, path).size == report.size
    restore(path, target)
    assert events_of(target) == events_of(source)
    with refold.open(target) as store:
        assert store.verify().is_whole
        assert len(store.chat("gone").items) == 2


def test_what_is_erased_while_it_is_backed_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file has the erasure, by which the rest of an event is known, and no text that was read before it."""
    source, target, path = str(tmp_path / "source.db"), str(tmp_path / "target.db"), tmp_path / "a.backup"
    with refold.open(source) as store:
        for text in ("stays", SECRET):
            store.chat("gone").add_message("user", text)
    monkeypatch.setattr(backup, "CHUNK_EVENTS", 2)
    asked = iter((lambda: erase(source),))

    report = back_up_from(source, path, progress=lambda *_: next(asked, lambda: None)())

    assert (report.events, report.added) == (5, 5)
    assert b"stays" not in chunks_of(path)
    assert check_backup(path).events == 5
    restore(path, target)
    with refold.open(target) as store:
        assert store.verify().is_whole
    monkeypatch.setattr(backup, "ATTEMPTS_MAX", 2)
    whys = count()
    with pytest.raises(StorageBusyError, match="others erased all the time"):
        back_up_from(source, tmp_path / "b.backup", progress=lambda *_: hold(source, str(next(whys))))


def hold(place: str, why: str) -> None:
    """Record an event among the erasures."""
    with refold.open(place) as store:
        store.hold("gone", why=why)


def test_a_failing_machine_does_not_bring_it_back(
    places: tuple[str, str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder is synced to disk when the file without it has replaced the other one."""
    source, _, path = places
    back_up_from(source, path)
    erase(source)
    before, synced = path.stat().st_ino, list[int]()

    def note(handle: int) -> None:
        if stat.S_ISDIR(os.fstat(handle).st_mode):
            synced.append(path.stat().st_ino)

    monkeypatch.setattr(os, "fsync", note)
    back_up_from(source, path)

    assert synced == [before, path.stat().st_ino]
    assert path.stat().st_ino != before


def test_an_earlier_moment_does_not_bring_it_back(places: tuple[str, str, Path]) -> None:
    """The erasure comes along, although it was later."""
    source, target, path = places
    with refold.open(source) as store:
        moment, version = store.now(), store.chat("kept").version
    erase(source)
    with refold.open(source) as store:
        store.chat("kept").add_message("user", "too late")
    back_up_from(source, path)

    report = restore(path, target, at=f"pos:{moment}")

    assert report.moment == str(moment)
    with refold.open(target) as store:
        assert store.verify().is_whole
        assert store.chat("kept").version == version
        assert SECRET not in str(list(store.chat("gone").items))


def test_a_moment_before_what_was_erased_has_no_erasure(places: tuple[str, str, Path]) -> None:
    """Of an erasure of what was not there yet, nothing comes along."""
    source, target, path = places
    with refold.open(source) as store:
        moment = store.now()
        store.chat("later").add_message("user", SECRET)
        store.erase(why="asked for", context="later", dry_run=False)
    back_up_from(source, path)

    restore(path, target, at=f"pos:{moment}")

    with refold.open(target) as store:
        assert store.verify().is_whole
        assert store.now() == moment


def test_a_moment_before_an_archive(places: tuple[str, str, Path], tmp_path: Path) -> None:
    """It lists the archive of contexts that it has; of one that began later, nothing keeps it from being copied."""
    source, target, path = places
    with refold.open(source) as store:
        moment = store.now()
        store.chat("later").add_message("user", SECRET)
        store.archive(tmp_path / "cold", "kept", "later", why="cold")
        back_up_from(source, path)

    restore(path, target, at=f"pos:{moment}")

    with refold.open(target) as store:
        assert list(store.archives()) == ["chat:kept"]
        store.unarchive("kept")
        assert store.archives() == {}
        require_unarchived(store.log)


def test_a_check_knows_what_was_erased(places: tuple[str, str, Path]) -> None:
    """A remnant does not match its digest, and the backup is whole."""
    source, _, path = places
    erase(source)

    assert back_up_from(source, path).events == check_backup(path).events
