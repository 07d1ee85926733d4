"""The statements of each call on SQLite, to the letter: see tests/golden/told/statements."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

import refold
from refold.domain.errors import ConcurrencyError, StorageBusyError, StorageError
from refold.infrastructure.log.sqlite.log import SqliteLog
from tests.contract.writing import append, said
from tests.support.statements import LARGE, Calls, heard_on_sqlite, tell, tell_calls, tell_sealed, without_background
from tests.support.written_down import assert_as_written, stop_clock


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is sent or noted by itself, or at another time."""
    stop_clock(monkeypatch)
    without_background(monkeypatch)


def test_statements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call sends, how often, and whether what is known was asked for again."""
    with heard_on_sqlite(monkeypatch) as heard:
        tell(str(tmp_path / "s.db"), heard)

    assert_as_written("statements/sqlite", heard.told().replace(str(tmp_path), "FOLDER"))


def test_statements_about_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where events were packed: how many blocks are read for an answer, and how each is found."""

    def seal(store: refold.Store) -> None:
        assert isinstance(store.log, SqliteLog)
        while store.log._seal_block():
            pass

    with heard_on_sqlite(monkeypatch) as heard:
        tell_sealed(str(tmp_path / "s.db"), heard, seal)

    assert_as_written("statements/sqlite_blocks", heard.told())


@pytest.mark.usefixtures("brief_waits")
def test_statements_after_faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a call that failed leaves behind: what was remembered is asked for again, and nothing else is."""
    place = tmp_path / "s.db"

    def faults() -> Calls:
        chat = store.chat("a")
        chat.add_message("user", "first")
        yield "a message", lambda: chat.add_message("user", "second")
        other.execute("BEGIN IMMEDIATE")
        yield "a message while another holds the lock", lambda: refused(StorageBusyError, chat.add_message, "user", "x")
        yield "an eviction while another does", lambda: refused(StorageBusyError, chat.evict, [chat.items[0].id])
        yield "a large text while another does", lambda: refused(StorageBusyError, chat.add_message, "user", LARGE)
        other.execute("ROLLBACK")
        yield "a message after it", lambda: chat.add_message("user", "third")
        yield "and one more", lambda: chat.add_message("user", "fourth")
        yield "a message to a version that is gone", lambda: refused(ConcurrencyError, append_at, store, 1)
        yield "a message after that", lambda: chat.add_message("user", "fifth")
        other.execute("DROP TABLE idempotency")
        yield "a keyed one without its table", lambda: refused(StorageError, add_keyed, chat)
        yield "a message without it", lambda: chat.add_message("user", "sixth")

    with (
        heard_on_sqlite(monkeypatch) as heard,
        refold.open(str(place)) as store,
        closing(sqlite3.connect(place, isolation_level=None)) as other,
    ):
        other.set_trace_callback(None)
        tell_calls(faults(), heard)

    assert_as_written("statements/sqlite_faults", heard.told().replace(str(tmp_path), "FOLDER"))


def refused(kind: type[Exception], call: Callable[..., object], *given: object) -> None:
    """Make a call that fails."""
    with pytest.raises(kind):
        call(*given)


def append_at(store: refold.Store, version: int) -> None:
    """Append to a version that is not the last."""
    append(store.log, "chat:a", said(9), expected=version)


def add_keyed(chat: refold.ChatContext) -> None:
    """Add a message under a key."""
    chat.add_message("user", "keyed", idempotency_key="k")
