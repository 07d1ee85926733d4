"""
Files: another program's is left exactly as it is, and a closed one is small and whole.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

import refold
from refold.domain.errors import InvalidInputError, StorageUnavailableError


def foreign_file(path: Path) -> bytes:
    """
    Make a database of another program, and return its bytes.
    """
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE diary (entry TEXT)")
        connection.execute("INSERT INTO diary VALUES ('dear me')")
    connection.close()
    return path.read_bytes()


def test_another_programs_file_is_not_touched(tmp_path: Path) -> None:
    """Not even its journal mode is changed."""
    path = tmp_path / "diary.db"
    before = foreign_file(path)

    with pytest.raises(StorageUnavailableError, match="another program"):
        refold.open(path)

    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_another_programs_file_in_wal_mode(tmp_path: Path) -> None:
    """Where the file's first bytes cannot tell, its tables do."""
    path = tmp_path / "diary.db"
    foreign_file(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.close()

    with pytest.raises(StorageUnavailableError, match="another program"):
        refold.open(path)


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    """A lone surrogate in a file's name is refused by name."""
    with pytest.raises(InvalidInputError, match="the location"):
        refold.open(str(tmp_path / "a\udcff.db"))


def test_a_closed_file_is_sealed(tmp_path: Path) -> None:
    """All complete segments are in blocks when a store has been closed, and the WAL is gone."""
    path = tmp_path / "store.db"
    with refold.open(path) as store:
        chat = store.chat("a")
        chat.add_items([refold.ChatMessage(role=refold.ChatRole.USER, content=[f"message {n}"]) for n in range(1_500)])

    connection = sqlite3.connect(path)
    rows = connection.execute("SELECT count(*), min(position) FROM event").fetchone()
    connection.close()
    assert rows == (1_501 - 1_024, 1_025)
    assert list(tmp_path.iterdir()) == [path]
    with refold.open(path) as store:
        assert [message.content for message in store.chat("a").messages()] == [[f"message {n}"] for n in range(1_500)]


def test_opening_in_a_queue_is_certain(tmp_path: Path) -> None:
    """Contexts that enqueue are opened at once, so that two processes may open the same one."""
    stores = [refold.open(tmp_path / "store.db", durability="enqueue") for _ in range(2)]
    chats = [store.chat("a") for store in stores]

    for store in stores:
        store.flush()

    assert [chat.version for chat in chats] == [1, 1]
    for store in stores:
        store.close()


def test_a_flush_tells_of_all_refusals(tmp_path: Path) -> None:
    """One refused context does not keep the others from being flushed, and none is told of twice."""
    with refold.open(tmp_path / "store.db") as other, refold.open(tmp_path / "store.db") as store:
        chats = [store.chat(name, durability="enqueue") for name in "abc"]
        for name in "ab":
            other.chat(name).add_message("user", "first")
        for chat in chats:
            chat.add_message("user", f"mine in {chat.id}")

        with pytest.raises(refold.ConcurrencyError) as caught:
            store.flush()

        refused = {event.content for event in caught.value.refused}  # type: ignore[attr-defined]
        assert refused == {("mine in a",), ("mine in b",)}
        store.flush()
        assert [len(chat.items) for chat in chats] == [1, 1, 1]
