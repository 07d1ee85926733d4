"""A memory in an SQLite file of its own, under the name and with the calls of the seed."""

from __future__ import annotations

from pathlib import Path

from ..domain.clock import REAL_SYSTEM
from ..domain.concurrency.threads import in_thread
from ..domain.context.context import Home
from ..domain.ids import decoded_id
from ..domain.memory.memory import Memory
from .open import open_store


class SqliteMemoryStore(Memory):
    """
    A memory in a file, which is a store like any other: `refold.open(path).memory()` reads the same.

    `":memory:"` lives as long as its process.
    """

    def __init__(self, *, path: str | Path) -> None:
        self._store = open_store(path)
        home = Home(self._store.log, system=REAL_SYSTEM, durability="commit", unflushed=None, is_detached=False)
        super().__init__(home)

    async def count(self) -> int:
        """Return how many records there are, in all scopes."""
        return sum((await in_thread(self._counts)).values())

    async def clear(self) -> None:
        """
        Forget everything, in all scopes; the past stays.

        Raises:
            ConcurrencyError: another writer came first.
        """
        for scope in await in_thread(self._counts):
            await self.forget(scope=scope)

    def close(self) -> None:
        """Let go of the file; may be called twice."""
        self._store.close()

    def _counts(self) -> dict[str, int]:
        rows = self._store.contexts()
        return {decoded_id(row.id): row.items for row in rows if row.kind == "memory" and row.items}
