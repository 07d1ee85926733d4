"""The sealed rows of projections: pages, processes that add them at once, and what is damaged."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import refold
from refold.infrastructure.trust import sealed_rows
from refold.infrastructure.trust.keys import KEY_BYTES, MasterKeys

KEYS = MasterKeys({"m1": bytes(KEY_BYTES)})


@pytest.fixture
def path(tmp_path: Path) -> str:
    """The path of a store that does not exist yet."""
    return str(tmp_path / "log.db")


@pytest.fixture
def store(path: str) -> Iterator[refold.Store]:
    """An encrypted store with a chat."""
    with refold.open(path, keys=KEYS) as store:
        store.chat("c").add_message("user", "first")
        yield store


def pages(path: str) -> list[int]:
    """Return the numbers of the stored pages."""
    with closing(sqlite3.connect(path)) as connection:
        return [number for (number,) in connection.execute("SELECT number FROM sealed_page ORDER BY number")]


def test_rows_are_kept(path: str, store: refold.Store) -> None:
    """A second store answers from the pages of the first, and folds only what is new."""
    assert len(store.search("first")) == 1
    count = len(pages(path))

    with refold.open(path, keys=KEYS) as again:
        assert len(again.search("first")) == 1
        assert len(pages(path)) == count
        again.chat("c").add_message("user", "second")
        assert len(again.search("second")) == 1

    assert len(store.search("second")) == 1
    assert len(pages(path)) == count + 1


def test_two_take_turns(path: str, store: refold.Store) -> None:
    """Each applies the pages of the other, and none is lost or applied twice."""
    with refold.open(path, keys=KEYS) as other:
        for number in range(12):
            writer, reader = (store, other) if number % 2 else (other, store)
            writer.chat("c").add_message("user", f"word{number}")
            assert len(writer.search(f"word{number}")) == 1
            assert [row.items for row in reader.contexts()] == [number + 2]
        assert [len(one.search("word11")) for one in (store, other)] == [1, 1]
        assert other.verify().problems == store.verify().problems == ()
    assert pages(path) == list(range(1, len(pages(path)) + 1))


def test_many_pages_become_one(path: str, store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The pages before it are deleted, and another store that has some of them goes on from it."""
    monkeypatch.setattr(sealed_rows, "PAGES_MIN", 4)
    with refold.open(path, keys=KEYS) as behind:
        assert len(behind.search("first")) == 1
        for number in range(20):
            store.chat("c").add_message("user", f"word{number}")
            assert len(store.search(f"word{number}")) == 1
        assert pages(path)[0] > 4
        assert len(pages(path)) < 20
        assert len(behind.search("word19")) == len(behind.search("first")) == 1
        assert len(behind.contexts()) == 1
    with refold.open(path, keys=KEYS) as again:
        assert len(again.search("word7")) == 1
        assert again.verify().problems == ()


def test_a_rebuild_takes_their_place(path: str, store: refold.Store) -> None:
    """Rebuilt rows equal those before, and other processes get them."""
    rows = store.contexts()
    with refold.open(path, keys=KEYS) as other:
        other.rebuild("catalogue")
        assert other.contexts() == rows
        assert store.contexts() == rows
        assert store.verify().problems == ()


@pytest.mark.parametrize("sql", ["UPDATE sealed_page SET body = x'00'", "DELETE FROM sealed_page WHERE number = 1"])
def test_damaged_pages_are_named(path: str, sql: str) -> None:
    """They are not taken for rows; events are not concerned."""
    with refold.open(path, keys=KEYS) as store:
        store.chat("c").add_message("user", "first")
        assert len(store.search("first")) == 1
        store.chat("c").add_message("user", "second")
        assert len(store.search("second")) == 1
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(sql)

    with refold.open(path, keys=KEYS) as store:
        with pytest.raises(refold.DamagedError, match="sealed rows"):
            store.search("first")
        assert len(store.chat("c").items) == 2


def test_a_reader_adds_no_page(path: str, store: refold.Store) -> None:
    """A store that is opened for reading folds into its own memory."""
    count = len(pages(path))

    with refold.open(path, keys=KEYS, read_only=True) as reader:
        assert len(reader.search("first")) == 1

    assert len(pages(path)) == count


def test_cursors_are_kept(path: str, store: refold.Store) -> None:
    """A subscriber goes on where it was, also in another process; its note is sealed."""
    events = store.subscribe(name="mail")
    assert next(events).version == 1
    events.ack()
    events.stop()

    with refold.open(path, keys=KEYS) as again:
        events = again.subscribe(name="mail")
        assert next(events).version == 2
        events.stop()
    with closing(sqlite3.connect(path)) as connection:
        notes = connection.execute("SELECT name, value FROM note").fetchall()
    assert [name for name, value in notes if "pos" in value or not value.isascii()] == []
    assert len(notes) == 1
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE note SET value = '!' || value")
    with refold.open(path, keys=KEYS) as again, pytest.raises(refold.DamagedError, match="it does not open"):
        again.subscribe(name="mail")
