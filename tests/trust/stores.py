"""Stores of each kind for tests of what a company must promise: where they lie, and every byte that lies there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import refold
from refold.infrastructure.trust import key_ring, sealed_log
from refold.infrastructure.trust.keys import Keys, MasterKeys
from tests.support.postgres import Server

WORD = "Xylophonquartz"


class Place:
    """Where a store lies, and its files."""

    def __init__(
        self, location: str, folder: Path, server: Server | None = None, keys: Keys | None = None, encrypt: bool = True
    ) -> None:
        self.location, self._folder, self._server = location, folder, server
        self.keys, self._encrypt = keys, encrypt

    def open(self, *, read_only: bool = False) -> refold.Store:
        """Open the store."""
        return refold.open(self.location, keys=self.keys, encrypt=self._encrypt, read_only=read_only)

    @property
    def is_memory(self) -> bool:
        """Whether a store is gone when it is closed."""
        return self.location == ":memory:"

    @property
    def is_server(self) -> bool:
        """Whether the store is on a server."""
        return self._server is not None

    @property
    def has_keys(self) -> bool:
        """Whether the store is opened with keys."""
        return self.keys is not None

    @property
    def is_sealed(self) -> bool:
        """Whether the store is encrypted."""
        return self.keys is not None and self._encrypt

    def holding(self, word: str = WORD) -> list[str]:
        """Return the files of the store that hold a word; of a server not its write-ahead log, which it reuses."""
        root = self._folder
        if self._server is not None:
            with psycopg.connect(self.location, autocommit=True) as connection:
                connection.execute("CHECKPOINT")
            root = self._server.data
        files = [path for path in root.rglob("*") if path.is_file() and "pg_wal" not in path.parts]
        return [str(path) for path in files if word.encode() in _bytes_of(path)]


def _bytes_of(path: Path) -> bytes:
    """Return what is in a file; a server may have removed it meanwhile."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


KINDS = ("memory", "sqlite", "postgres", "sealed", "keyed")


def wait_for_nobody(patched: pytest.MonkeyPatch) -> None:
    """Let keys be destroyed at once: no event is on its way."""
    patched.setattr(key_ring, "KNOWN_SECONDS", 0.0)
    for name in ("KNOWN_SECONDS", "IN_FILE_SECONDS", "ON_SERVER_SECONDS"):
        patched.setattr(sealed_log, name, 0.0)


def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """Yield the place of a store that is empty yet, of the kind that a fixture asks for."""
    keys = MasterKeys({"first": bytes(range(32))}) if request.param.startswith(("sealed", "keyed")) else None
    wait_for_nobody(request.getfixturevalue("monkeypatch"))
    if request.param.endswith("postgres"):
        server = request.getfixturevalue("pg_server")
        yield Place(request.getfixturevalue("ready_pg_url"), tmp_path, server, keys)
        return
    folder = tmp_path / "store"
    folder.mkdir()
    location = ":memory:" if request.param.endswith("memory") else str(folder / "agents.db")
    yield Place(location, folder, keys=keys, encrypt=request.param != "keyed")
