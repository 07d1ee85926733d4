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
from ...projections.contract import BulkProjection, Projection
from .store import ProjectionStore

__all__ = ["ProjectionRunner", "fold_page"]

PAGE_EVENTS = 2_048


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
        while True:
            page = self._log.read_all(after=checkpoint, limit=PAGE_EVENTS)
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
