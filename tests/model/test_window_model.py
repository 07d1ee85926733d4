"""Context windows against plain lists, on memory, SQLite and PostgreSQL."""

from pathlib import Path

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .lives import live
from .window_machine import WindowMachine


class MemoryWindowMachine(WindowMachine):
    """The life of windows in memory."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new log."""
        return MemoryLog()


def test_memory() -> None:
    """Windows in memory are what they must be, version by version."""
    live(MemoryWindowMachine, examples=25)


def test_sqlite(tmp_path: Path) -> None:
    """Windows in a file are what they must be, version by version."""

    class SqliteWindowMachine(WindowMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteWindowMachine, examples=15)


def test_postgres(ready_pg_url: str) -> None:
    """Windows in a database are what they must be, version by version."""

    class PostgresWindowMachine(WindowMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresWindowMachine, examples=6)
