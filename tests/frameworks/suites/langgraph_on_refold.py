"""A plugin of pytest for LangGraph's own tests, in which Refold answers for its savers and stores on SQLite."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.store.sqlite import AsyncSqliteStore, SqliteStore

import refold
from refold.langgraph import RefoldSaver, RefoldStore


class Saver(RefoldSaver):
    """A saver that is told to make its tables."""

    def setup(self) -> None:
        """Do nothing: the tables are there."""


class Memories(RefoldStore):
    """A store that is told to make its tables."""

    def setup(self) -> None:
        """Do nothing: the tables are there."""


class AsyncMemories(RefoldStore):
    """The same for those who await it."""

    async def setup(self) -> None:
        """Do nothing: the tables are there."""


def pytest_configure() -> None:
    """Put Refold in the place of the others, before the tests import them."""
    SqliteSaver.from_conn_string = _saver
    AsyncSqliteSaver.from_conn_string = asynccontextmanager(_async_saver)
    SqliteStore.from_conn_string = _memories
    AsyncSqliteStore.from_conn_string = asynccontextmanager(_async_memories)


def _opened(location: str) -> refold.Store:
    return refold.open(location if location == ":memory:" else f"{location}.refold")


@contextmanager
def _saver(location: str) -> Iterator[RefoldSaver]:
    with _opened(location) as store:
        yield Saver(store)


async def _async_saver(location: str) -> AsyncIterator[RefoldSaver]:
    with _saver(location) as saver:
        yield saver


@contextmanager
def _memories(location: str, *, index: Any = None, ttl: Any = None) -> Iterator[RefoldStore]:
    with _opened(location) as store:
        yield Memories(store, index=index, ttl=ttl)


async def _async_memories(location: str, *, index: Any = None, ttl: Any = None) -> AsyncIterator[RefoldStore]:
    with _opened(location) as store:
        yield AsyncMemories(store, index=index, ttl=ttl)
