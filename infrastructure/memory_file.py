"""A memory in its own SQLite file, under the seed's name and with the seed's calls; and the seed's files."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from pydantic import ValidationError

from ..domain.arguments import require_path
from ..domain.concurrency.threads import in_thread
from ..domain.errors import InvalidInputError, NotFoundError, StorageUnavailableError
from ..domain.ids import decoded_id
from ..domain.memory.memory import InMemoryMemoryStore, Memory
from ..domain.memory.records import MemoryRecord
from .files import parse_foreign
from .open import open_store

OLD_RECORDS = (
    "SELECT scope, key, value, kind, tags, timestamp, updated_at FROM agent_memory ORDER BY updated_at, scope, key"
)


class SqliteMemoryStore(Memory):
    """
    A memory in a file, which is an ordinary store: `refold.open(path).memory()` reads the same records.

    `":memory:"` lives as long as its process.

    Raises:
        StorageUnavailableError: the file is no store; a file of the seed is named, and the way to take it over.
    """

    def __init__(self, *, path: str | Path) -> None:
        try:
            self._store = open_store(path)
        except StorageUnavailableError as error:
            if not _has_old_records(path):
                raise
            raise StorageUnavailableError(
                f"{path} holds the records of an older memory: open a new file, and take them over with "
                f"import_agent_memory(memory, {str(path)!r})"
            ) from error
        super().__init__(self._store._attachment(None))

    def __repr__(self) -> str:
        return f"SqliteMemoryStore({self._store!r})"

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


def _has_old_records(path: str | Path) -> bool:
    try:
        with closing(_read_only(Path(path))) as connection:
            return bool(connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'agent_memory'").fetchone())
    except (sqlite3.Error, OSError, ValueError):
        return False


def _read_only(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True)


def import_agent_memory(memory: Memory, path: str | Path) -> int:
    """
    Remember the records of an old file, which has a table `agent_memory`, and return how many there were.

    They are remembered in the order of their `updated_at`, and keep their `timestamp`. A key that the memory has is
    left as it is, so an import may be repeated. The file is not changed.

    Raises:
        NotFoundError: there is no such file.
        InvalidInputError: it has no such table, or a record cannot be read; nothing was remembered.
    """
    file = require_path(path)
    if not file.is_file():
        raise NotFoundError(f"there is no file {file}")
    try:
        with closing(_read_only(file)) as connection:
            rows = connection.execute(OLD_RECORDS).fetchall()
        records = [_old_record(*row) for row in rows]
        # In memory first: a record that can be read may still be refused, such as one whose time has no zone.
        rehearsal = InMemoryMemoryStore()
        for record in records:
            rehearsal.scope(record.scope).put(record)
    except (sqlite3.Error, ValidationError, ValueError, TypeError, RecursionError) as error:
        raise InvalidInputError(f"{file} cannot be read as a file of memories: {error}") from error
    new = [record for record in records if memory.scope(record.scope).get(record.key) is None]
    for record in new:
        memory.scope(record.scope).put(record)
    return len(new)


def _old_record(
    scope: str, key: str, value: str, kind: str, tags: str, timestamp: object, updated_at: object
) -> MemoryRecord:
    record = {"scope": scope, "key": key, "value": parse_foreign(value), "kind": kind, "tags": parse_foreign(tags)}
    return MemoryRecord.model_validate({**record, "timestamp": timestamp, "updated_at": updated_at})
