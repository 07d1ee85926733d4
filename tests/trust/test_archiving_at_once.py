"""Two archives into one file at the same moment: neither takes away the file that the other one needs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import refold
from refold.domain.errors import HeldError, InvalidInputError
from refold.infrastructure.exchange.archiving import Archivist


def test_a_file_that_is_being_archived_into_is_no_other_archives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who comes second is refused, though the bytes are the same, until the first has committed."""
    file, write = tmp_path / "cold", Archivist._write

    def crossed(self: Archivist, *arguments: Any) -> Any:
        written = write(self, *arguments)
        monkeypatch.setattr(Archivist, "_write", write)
        with pytest.raises(InvalidInputError, match="is there already"):
            other.archive(file, "a", why="cold")
        return written

    with refold.open(tmp_path / "s.db") as store, refold.open(tmp_path / "s.db") as other:
        store.chat("a").add_message("user", "the only copy")
        monkeypatch.setattr(Archivist, "_write", crossed)
        store.archive(file, "a", why="cold")
        with pytest.raises(InvalidInputError, match="already: unarchive it first"):
            other.archive(file, "a", why="cold")

        store.unarchive("a")

        assert "the only copy" in repr(store.chat("a").items)


def test_a_refused_archive_takes_away_its_own_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file of a copy of the store has the same bytes, and stays."""
    file, write = tmp_path / "cold", Archivist._write

    def crossed(self: Archivist, *arguments: Any) -> Any:
        written = write(self, *arguments)
        store.hold("a", why="case 12")
        return written

    with refold.open(tmp_path / "s.db") as store:
        store.chat("a").add_message("user", "a text")
    shutil.copy(tmp_path / "s.db", tmp_path / "copy.db")
    with refold.open(tmp_path / "s.db") as store, refold.open(tmp_path / "copy.db") as copy:
        with monkeypatch.context() as patched:
            patched.setattr(Archivist, "_write", crossed)
            with pytest.raises(HeldError):
                store.archive(file, "a", why="cold")
        assert not file.exists()
        store.release("a", why="closed")
        copy.archive(file, "a", why="cold")
        monkeypatch.setattr(Archivist, "_write", crossed)
        with pytest.raises(HeldError):
            store.archive(file, "a", why="cold")

        copy.unarchive("a")

        assert "a text" in repr(copy.chat("a").items)
