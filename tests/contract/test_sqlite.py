"""The contract on SQLite."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from refold.domain.ports import LiveLog

from .chat import ChatContextContract
from .contract import LogContract
from .durable import DurableContract
from .processes import ProcessesContract
from .stores import Store, store_at


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """
    A file that does not exist yet.
    """
    store = store_at(tmp_path / "log.db")
    yield store
    store.close()


@pytest.fixture
def log(store: Store) -> LiveLog:
    """
    An empty log.
    """
    return store.open()


class TestSqliteLog(LogContract):
    """A log in a file."""


class TestSqliteLogOnDisk(DurableContract, ProcessesContract):
    """What is more: it is kept, and shared by processes."""


class TestSqliteChat(ChatContextContract):
    """Chat contexts on it."""
