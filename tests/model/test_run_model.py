"""Runs against plain lists and dicts, on memory, SQLite and PostgreSQL."""

from pathlib import Path

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .lives import live
from .run_machine import RunMachine


class MemoryRunMachine(RunMachine):
    """The life of runs in memory."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new log."""
        return MemoryLog()


def test_memory() -> None:
    """Runs in memory are what the model says."""
    live(MemoryRunMachine, examples=30, steps=40)


def test_sqlite(tmp_path: Path) -> None:
    """Runs in a file are what the model says."""

    class SqliteRunMachine(RunMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteRunMachine, examples=12, steps=30)


def test_postgres(ready_pg_url: str) -> None:
    """Runs in a database are what the model says."""

    class PostgresRunMachine(RunMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresRunMachine, examples=6, steps=25)
