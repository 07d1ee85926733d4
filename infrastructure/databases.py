"""Opens the parts of a store, given a path or a URL: a log, and the rows of its projections."""

from __future__ import annotations

from ..domain.errors import InvalidInputError
from ..domain.log.memory_log import MemoryLog
from ..domain.log.ports import LiveLog
from .projecting.store import MemoryProjectionStore, ProjectionStore

POSTGRES = ("postgresql://", "postgres://")
Database = tuple[LiveLog, ProjectionStore]


def open_database(
    location: str, *, create: bool = True, read_only: bool = False, synchronous: str = "FULL"
) -> Database:
    """
    Open the database at a location: a path (SQLite), a URL "postgresql://...", or ":memory:".

    Raises:
        InvalidInputError: the location is invalid.
        StorageUnavailableError: the database is missing, cannot be reached, or is not one of Refold's.
    """
    if location == ":memory:":
        return MemoryLog(), MemoryProjectionStore()
    if location.startswith(POSTGRES):
        return _open_postgres(location, create)
    if "://" in location:
        raise InvalidInputError(f"{location!r} is no location: give a path, postgresql://... or :memory:")
    return _open_sqlite(location, create, read_only, synchronous)


def _open_sqlite(path: str, create: bool, read_only: bool, synchronous: str) -> Database:
    from .log.sqlite.log import SqliteLog
    from .projecting.rows.sqlite import SqliteProjectionStore
    from .projecting.store import ReadOnlyProjectionStore

    log = SqliteLog(path, create=create, read_only=read_only, synchronous=synchronous)
    kept = SqliteProjectionStore(log)
    return log, ReadOnlyProjectionStore(kept) if read_only else kept


def _open_postgres(url: str, create: bool) -> Database:
    from .log.postgres.log import PostgresLog
    from .projecting.rows.postgres import PostgresProjectionStore

    log = PostgresLog(url, create=create)
    return log, PostgresProjectionStore(log)
