"""
Projections of a database that is only read: its own rows stay as they are, and those that are asked for lie in memory.
"""

from __future__ import annotations

from .store import MemoryProjectionStore, ProjectionStore


class ReadOnlyProjectionStore(MemoryProjectionStore):
    """Rows in memory, brought up to date like any; `kept` are those that lie in the database, perhaps far behind."""

    def __init__(self, kept: ProjectionStore) -> None:
        super().__init__()
        self.kept = kept


def kept_by(store: ProjectionStore) -> ProjectionStore:
    """Return the rows and notes that stay when a store is closed."""
    return store.kept if isinstance(store, ReadOnlyProjectionStore) else store
