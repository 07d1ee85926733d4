"""
The runner: brings projections up to date, page by page.

Each page is folded in memory; its rows and the new checkpoint are stored in one transaction. Killed at any
moment it goes on from the last checkpoint, and what it had not stored never was. Two runners do no harm: the
second finds that the checkpoint has moved and starts from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from ...domain.envelope import RecordedEvent
from ...domain.ports import LiveLog
from ...domain.positions import Moment
from ...projections.contract import BulkProjection, Found, Projection, SearchedRow, SearchQuery
from .store import ProjectionStore

__all__ = ["ProjectionRunner", "fold_page"]

PAGE_EVENTS = 2_048
# Writers wait while a page is stored, and an index takes longer than rows alone.
SEARCHED_PAGE_EVENTS = 512


class ProjectionRunner:
    """Runs projections of one log in this process, on demand."""

    def __init__(self, log: LiveLog, store: ProjectionStore, projections: Sequence[Projection]) -> None:
        self._log = log
        self._store = store
        self.projections = {projection.name: projection for projection in projections}

    def catch_up(self, projection: Projection) -> Moment:
        """
        Fold everything that the projection has not seen yet; return the moment it has then reached.
        """
        checkpoint = self._store.checkpoint(projection)
        limit = SEARCHED_PAGE_EVENTS if issubclass(projection.row, SearchedRow) else PAGE_EVENTS
        while True:
            page = self._log.read_all(after=checkpoint, limit=limit)
            if not page.events:
                return checkpoint
            rows = fold_page(projection, page.events, self._store)
            if self._store.save(projection, rows, before=checkpoint, after=page.moment):
                checkpoint = page.moment
            else:
                checkpoint = self._store.checkpoint(projection)

    def rows(self, projection: Projection) -> list[Any]:
        """
        Return all rows of a projection, brought up to date first.
        """
        self.catch_up(projection)
        return self._store.rows(projection)

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """
        Return the rows of a projection that a query asks for, brought up to date first, the best first.
        """
        self.catch_up(projection)
        return self._store.search(projection, query)


def fold_page(projection: Projection, events: Sequence[RecordedEvent], store: ProjectionStore) -> dict[str, Any]:
    """
    Return the rows that `events` change, as they are afterwards.
    """
    touched: dict[str, list[RecordedEvent]] = {}
    for event in events:
        for key in projection.keys(event):
            touched.setdefault(key, []).append(event)
    rows: dict[str, Any] = store.load(projection, touched)
    evolve_all = projection.evolve_all if isinstance(projection, BulkProjection) else partial(_evolve_all, projection)
    for key, of_key in touched.items():
        rows[key] = evolve_all(key, rows.get(key), of_key)
    return rows


def _evolve_all(projection: Projection, key: str, row: Any | None, events: Sequence[RecordedEvent]) -> Any:
    for event in events:
        row = projection.evolve(key, row, event)
    return row
