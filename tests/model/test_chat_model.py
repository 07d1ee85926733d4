"""Chat contexts against plain lists, on memory, SQLite and PostgreSQL."""

from pathlib import Path

from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog

from ..contract.stores import log_at
from .chat_machine import ChatMachine
from .lives import live


class MemoryChatMachine(ChatMachine):
    """The life of contexts in memory."""

    can_reopen = False

    def open_log(self) -> LiveLog:
        """Make a new log."""
        return MemoryLog()


def test_memory() -> None:
    """Contexts in memory are what was said, version by version."""
    live(MemoryChatMachine, examples=25)


def test_sqlite(tmp_path: Path) -> None:
    """Contexts in a file are what was said, version by version."""

    class SqliteChatMachine(ChatMachine):
        def open_log(self) -> LiveLog:
            return log_at(str(tmp_path / "log.db"))

    live(SqliteChatMachine, examples=15)


def test_postgres(ready_pg_url: str) -> None:
    """Contexts in a database are what was said, version by version."""

    class PostgresChatMachine(ChatMachine):
        def open_log(self) -> LiveLog:
            return log_at(ready_pg_url)

    live(PostgresChatMachine, examples=6)
