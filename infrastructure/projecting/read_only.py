"""Rows of projections where a store is opened to read alone."""

from __future__ import annotations

from ...domain.concurrency.locks import synchronized
from ...domain.errors import StorageReadOnlyError
from .store import MemoryProjectionStore, ProjectionStore


class ReadOnlyProjectionStore(MemoryProjectionStore):
    """Rows in memory, which are brought up to date as usual; `kept` has the stored rows, which may be far behind."""

    def __init__(self, kept: ProjectionStore) -> None:
        super().__init__()
        self.kept = kept

    @synchronized
    def _forget_erased(self) -> None:
        """Drop all rows: some may be made of what another process erased."""
        self._tables.clear()
        self.note_erasure()


def kept_by(store: ProjectionStore) -> ProjectionStore:
    """Return the store of the rows and notes that remain when `store` is closed."""
    return store.kept if isinstance(store, ReadOnlyProjectionStore) else store


def require_kept(store: ProjectionStore, done: str) -> None:
    """
    Require that the rows of a store remain when it is closed; `done` says what would be done to them.

    Raises:
        StorageReadOnlyError: they do not.
    """
    if kept_by(store) is not store:
        raise StorageReadOnlyError(f"nothing can be {done} in a store that was opened for reading only")
