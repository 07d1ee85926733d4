"""An export onto the database it reads: refused, under whatever name, and the database is as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure.exchange import export_events
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
