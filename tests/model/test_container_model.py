"""Queues and pools against plain lists, on memory, SQLite and PostgreSQL."""

from pathlib import Path

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .container_machine import ContainerMachine
from .lives import live


class MemoryContainerMachine(ContainerMachine):
    """The life of queues and pools in memory."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new log."""
        return MemoryLog()


def test_memory() -> None:
    """Queues and pools in memory are what plain lists are."""
    live(MemoryContainerMachine, examples=30, steps=40)


def test_sqlite(tmp_path: Path) -> None:
    """Queues and pools in a file are what plain lists are."""

    class SqliteContainerMachine(ContainerMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteContainerMachine, examples=12, steps=30)


def test_postgres(ready_pg_url: str) -> None:
    """Queues and pools in a database are what plain lists are."""

    class PostgresContainerMachine(ContainerMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresContainerMachine, examples=6, steps=25)
