"""
Where the rows of projections lie: the port, and the version of it that lives in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Found, Projection, SearchQuery

__all__ = ["MemoryProjectionStore", "ProjectionStore"]


class ProjectionStore(Protocol):
    """Rows and checkpoints of projections."""

    def checkpoint(self, projection: Projection) -> Moment:
        """
        Return the moment up to which the rows are made; the beginning when there are none of this version.
        """

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """
        Return the rows under `keys` that exist.
        """

    def save(self, projection: Projection, rows: Mapping[str, Any], *, before: Moment, after: Moment) -> bool:
        """
        Store rows and the checkpoint `after` in one transaction, if the checkpoint is still `before`.

        Returns False, and stores nothing, when another runner was there first.
        """

    def rows(self, projection: Projection) -> list[Any]:
        """
        Return all rows, ordered by key.
        """

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """
        Return the rows that a query asks for, the best first, of equal ones the newest first.

        The rows are `SearchedRow`s. All stores find the same ones; which of them fit best, each decides for itself.
        """


class MemoryProjectionStore:
    """Rows in dicts, as long as the process lives."""

    def __init__(self) -> None:
        self._rows: dict[str, dict[str, Any]] = {}
        self._checkpoints: dict[str, Moment] = {}

    def checkpoint(self, projection: Projection) -> Moment:
        """
        Return the moment up to which the rows are made.
        """
        return self._checkpoints.get(projection.name, BEGINNING)

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """
        Return the rows under `keys` that exist.
        """
        rows = self._rows.get(projection.name, {})
        return {key: rows[key] for key in keys if key in rows}

    def save(self, projection: Projection, rows: Mapping[str, Any], *, before: Moment, after: Moment) -> bool:
        """
        Store rows and checkpoint, if the checkpoint is still `before`.
        """
        if self.checkpoint(projection) != before:
            return False
        self._rows.setdefault(projection.name, {}).update(rows)
        self._checkpoints[projection.name] = after
        return True

    def rows(self, projection: Projection) -> list[Any]:
        """
        Return all rows, ordered by key.
        """
        return [row for _, row in sorted(self._rows.get(projection.name, {}).items())]

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """
        Look through all rows; one fits the better, the more often it has the terms.
        """
        rows = (row for row in self._rows.get(projection.name, {}).values() if _is_asked_for(row, query))
        counted = ((row, [term.count_in(row.words) for term in query.terms]) for row in rows)
        found = [Found(row, float(sum(counts))) for row, counts in counted if all(counts)]
        return sorted(found, key=_order)[: query.limit]


def _is_asked_for(row: Any, query: SearchQuery) -> bool:
    is_of_kind = query.kind in (None, row.kind)
    return is_of_kind and (query.streams is None or row.version <= query.streams.get(row.stream, 0))


def _order(found: Found) -> tuple[float, int, int, str]:
    return -found.rank, -found.row.recorded_at, -found.row.version, found.row.key
