"""Memories against plain dicts, on memory, SQLite and PostgreSQL."""

from pathlib import Path

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .lives import live
from .memory_machine import MemoryMachine


class MemoryInMemoryMachine(MemoryMachine):
    """The life of a memory in memory."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new log."""
        return MemoryLog()


def test_memory() -> None:
    """What is remembered in memory is what must be."""
    live(MemoryInMemoryMachine, examples=25)


def test_sqlite(tmp_path: Path) -> None:
    """What is remembered in a file is what must be."""

    class SqliteMemoryMachine(MemoryMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteMemoryMachine, examples=15)


def test_postgres(ready_pg_url: str) -> None:
    """What is remembered in a database is what must be."""

    class PostgresMemoryMachine(MemoryMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresMemoryMachine, examples=6)
