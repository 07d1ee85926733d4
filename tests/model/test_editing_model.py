"""Editing, forking, merging and summarising against plain lists, on memory, SQLite and PostgreSQL."""

from pathlib import Path

import pytest

from refold.domain.chat.state import stored
from refold.domain.context import folded_stream
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .editing_machine import EditingMachine
from .lives import live


@pytest.fixture(autouse=True)
def short_streams_have_snapshots(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let views of streams as short as here begin with snapshots, and read a few items at a time."""
    monkeypatch.setattr(folded_stream, "SNAPSHOT_EVENTS", 6)
    monkeypatch.setattr(stored, "WINDOW_MIN", 2)


class MemoryEditingMachine(EditingMachine):
    """The life of contexts in memory."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new log."""
        return MemoryLog()


def test_memory() -> None:
    """Contexts in memory are what plain lists are."""
    live(MemoryEditingMachine, examples=30, steps=50)


def test_sqlite(tmp_path: Path) -> None:
    """Contexts in a file are what plain lists are."""

    class SqliteEditingMachine(EditingMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteEditingMachine, examples=20, steps=40)


def test_postgres(ready_pg_url: str) -> None:
    """Contexts in a database are what plain lists are."""

    class PostgresEditingMachine(EditingMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresEditingMachine, examples=8)
