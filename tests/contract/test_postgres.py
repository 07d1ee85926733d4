"""The contract on PostgreSQL."""

from collections.abc import Iterator

import pytest

from refold.domain.ports import LiveLog

from .chat import ChatContextContract
from .contract import LogContract
from .durable import DurableContract
from .processes import ProcessesContract
from .stores import Store, store_at


@pytest.fixture
def store(pg_url: str) -> Iterator[Store]:
    """
    An empty database.
    """
    store = store_at(pg_url)
    yield store
    store.close()


@pytest.fixture
def log(store: Store) -> LiveLog:
    """
    An empty log.
    """
    return store.open()


class TestPostgresLog(LogContract):
    """A log in a database."""


class TestPostgresLogOnDisk(DurableContract, ProcessesContract):
    """What is more: it is kept, and shared by processes."""


class TestPostgresChat(ChatContextContract):
    """Chat contexts on it."""
