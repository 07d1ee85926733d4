"""The room of deleted rows is given back beside writers, and nothing else changes."""

import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

import refold
from refold.infrastructure.log.sqlite import connection
from refold.infrastructure.space import give_back, space_of
from tests.cli.running import refold as command
from tests.contract.stores import KEYS

from .backed_up import events_of


def filled(store: refold.Store) -> None:
    """Store a table that is large, and drop its rows."""
    chat = store.chat("a")
    for number in range(200):
        chat.add_message("user", " ".join(f"word{number}x{place}" for place in range(200)))
    store.search("word1x1")
    for _ in range(2):
        store.rebuild("search")


def test_a_file_gets_shorter_beside_writers(tmp_path: Path) -> None:
    """Whoever writes goes on, in this process and in another one; all events are there."""
    place = tmp_path / "a.db"
    with refold.open(place) as store, refold.open(place) as other:
        filled(store)
        before = space_of(store.log)
        thread = threading.Thread(target=_write, args=(other,))
        thread.start()
        given = store.vacuum()
        thread.join()
        after = space_of(store.log)
        assert store.verify().is_whole
        written = len(other.chat("beside").items)

    assert before.free > 100_000
    assert given > before.free / 2
    assert after.free < before.free / 4
    assert place.stat().st_size < before.size - given / 2
    assert len(events_of(str(place))) == 201 + 1 + written


def test_an_encrypted_file_gets_shorter(tmp_path: Path) -> None:
    """Its log lies below the one that encrypts."""
    place = tmp_path / "a.db"
    with refold.open(place, keys=KEYS) as store:
        store.chat("a").add_message("user", "hello")
        with closing(sqlite3.connect(place)) as other, other:
            other.execute("CREATE TABLE large AS SELECT zeroblob(200000)")
            other.execute("DROP TABLE large")

        assert store.vacuum() >= 200_000
        assert store.verify().is_whole


def _write(store: refold.Store) -> None:
    chat = store.chat("beside")
    for _ in range(20):
        chat.add_message("user", "on it goes")


def test_a_file_of_an_earlier_refold_keeps_its_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Until it is written anew, as a small one is when it is closed; the command says so."""
    place = tmp_path / "a.db"
    monkeypatch.setattr(connection, "SHORTENED_LATER", "PRAGMA auto_vacuum = NONE")
    with refold.open(place) as store:
        filled(store)
        before = space_of(store.log)
        assert (before.gives_back, give_back(store.log)) == (False, 0)
        assert space_of(store.log) == before
        assert before.free
        told = command("vacuum", db=place)

    assert told.err.startswith("note: an earlier Refold made this file")


def test_tables_are_vacuumed(ready_pg_url: str) -> None:
    """On PostgreSQL rows that nobody sees leave their places to others; the server says how many there were."""
    with refold.open(ready_pg_url) as store:
        filled(store)
        assert store.vacuum() >= 0
        assert space_of(store.log).size > 0
        assert store.verify().is_whole


def test_a_store_in_memory_has_no_such_room() -> None:
    """Nothing is free, and nothing is given back."""
    with refold.open(":memory:") as store:
        filled(store)
        assert (store.vacuum(), space_of(store.log).size) == (0, 0)


@pytest.mark.parametrize("place", ["missing.db", "folder"])
def test_what_is_no_store(place: str, tmp_path: Path) -> None:
    """It is refused, and no file is made."""
    (tmp_path / "folder").mkdir()

    assert command("vacuum", db=tmp_path / place).code == 1
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
