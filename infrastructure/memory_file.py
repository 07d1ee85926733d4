"""A memory in its own SQLite file, under the seed's name and with the seed's calls."""

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
    A memory in a file, which is an ordinary store: `refold.open(path).memory()` reads the same records.

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
        Forget all records, in all scopes; their history is kept.

        Raises:
            ConcurrencyError: another writer was faster.
        """
        for scope in await in_thread(self._counts):
            await self.forget(scope=scope)

    def close(self) -> None:
        """Close the file; may be called twice."""
        self._store.close()

    def _counts(self) -> dict[str, int]:
        rows = self._store.contexts()
        return {decoded_id(row.id): row.items for row in rows if row.kind == "memory" and row.items}
