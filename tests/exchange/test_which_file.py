"""Which file is meant: an export onto the database it reads is refused, and another store of the name left alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.exchange import copy_store, export_events
from refold.infrastructure.exchange.parquet import export_parquet
from tests.cli.running import refold as run


def named(folder: Path, name: str) -> Path:
    """Return a path by which a file of the database in a folder is named; links are made."""
    database = folder / "a.db"
    path = folder / name
    match name:
        case "symlink":
            path.symlink_to(database)
        case "hardlink":
            os.link(database, path)
        case "elsewhere":
            path.symlink_to(folder, target_is_directory=True)
            return path / "a.db-wal"
        case "dangling":
            path.symlink_to("a.db-journal")
    return path


@pytest.mark.parametrize(
    "name", ["a.db", "a.db-wal", "a.db-shm", "a.db-journal", "symlink", "hardlink", "elsewhere", "dangling"]
)
@pytest.mark.parametrize("export", [export_events, export_parquet])
def test_onto_itself(export: Callable[..., object], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file itself, those that SQLite keeps beside it, and links to them."""
    monkeypatch.chdir(tmp_path)
    with refold.open("a.db") as store:
        store.chat("a").add_message("user", "kept")
        path = named(tmp_path, name)
        before = sorted(os.listdir())

        with pytest.raises(InvalidInputError, match="database"):
            export(store.log, path)

        assert sorted(os.listdir()) == before
        assert store.chat("a").version == 2
    with refold.open("a.db") as store:
        assert store.verify().is_whole
        assert export(store.log, tmp_path / "a.db-other")


def test_by_the_command_line(tmp_path: Path) -> None:
    """It fails with what was wrong, and changes nothing, though it reads the database only."""
    database = tmp_path / "a.db"
    with refold.open(database) as store:
        store.chat("a").add_message("user", "kept")
    before = database.read_bytes()

    ended = run("export", "-o", database, db=database)

    assert "export into another file" in ended.fault
    assert database.read_bytes() == before


@pytest.mark.parametrize("name", ["kept.backup", "symlink", "hardlink"])
def test_a_backup_is_not_restored_onto_itself(name: str, tmp_path: Path) -> None:
    """It would be lost with the first byte."""
    with refold.open(tmp_path / "a.db") as store:
        store.chat("a").add_message("user", "kept")
        store.backup(tmp_path / "kept.backup")
    (tmp_path / "symlink").symlink_to("kept.backup")
    os.link(tmp_path / "kept.backup", tmp_path / "hardlink")
    before = (tmp_path / "kept.backup").read_bytes()

    with pytest.raises(InvalidInputError, match="is the backup itself: restore it into another file"):
        refold.restore(tmp_path / "kept.backup", tmp_path / name, overwrite=True)

    assert (tmp_path / "kept.backup").read_bytes() == before


@pytest.mark.parametrize("name", ["a.db", "symlink", "hardlink"])
def test_a_store_is_not_copied_onto_itself(name: str, tmp_path: Path) -> None:
    """Under whatever name."""
    with refold.open(tmp_path / "a.db") as store:
        store.chat("a").add_message("user", "kept")

    with pytest.raises(InvalidInputError, match="cannot be copied onto itself"):
        copy_store(str(tmp_path / "a.db"), str(named(tmp_path, name)))


def test_another_store_of_the_name_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a change of folder: what opens the store once more finds its own file, and not one that lies there."""
    (tmp_path / "elsewhere").mkdir()
    with refold.open(tmp_path / "elsewhere" / "agents.db") as other:
        other.chat("other").add_message("user", "Not ours.")
    monkeypatch.chdir(tmp_path)
    with refold.open("agents.db") as store, ThreadPoolExecutor(1) as threads:
        store.chat("a").add_message("user", "Hello.")
        monkeypatch.chdir("elsewhere")

        kept = store.backup(tmp_path / "kept.backup")
        rebuilt = store.rebuild("catalogue", restart=True, executor=threads)
        archived = store.archive(tmp_path / "old.archive", "chat:a", why="it is over")

        assert (kept.source, kept.events) == (str(tmp_path / "agents.db"), 2)
        assert rebuilt.is_done
        assert [row.key for row in store.contexts()] == ["chat:a"]
        assert [one.context for one in archived.contexts] == ["chat:a"]
    refold.restore(tmp_path / "kept.backup", tmp_path / "back.db")
    with refold.open(tmp_path / "back.db") as back:
        assert [row.key for row in back.contexts()] == ["chat:a"]
