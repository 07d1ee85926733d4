"""A log against a dict of lists, on memory, SQLite and PostgreSQL."""

from pathlib import Path

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .lives import live
from .log_machine import LogMachine


class MemoryLogMachine(LogMachine):
    """The life of a log in memory, which cannot be opened twice."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new one."""
        return MemoryLog()


def test_memory() -> None:
    """A log in memory is a dict of lists."""
    live(MemoryLogMachine, examples=25)


def test_sqlite(tmp_path: Path) -> None:
    """A log in a file is a dict of lists."""

    class SqliteLogMachine(LogMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteLogMachine, examples=20)


def test_postgres(ready_pg_url: str) -> None:
    """A log in a database is a dict of lists."""

    class PostgresLogMachine(LogMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresLogMachine, examples=8)
