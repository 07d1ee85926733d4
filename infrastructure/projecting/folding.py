"""Folding a page of events into the rows that it changes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Protocol

from ...domain.errors import DamagedError
from ...domain.log.admission import require_few_named
from ...domain.log.envelope import RecordedEvent
from ...projections.contract import BulkProjection, Projection, SelectiveProjection
from .storable import require_keys, require_storable


class RowsBefore(Protocol):
    """Where the rows are found as they are before some events: a `ProjectionStore` is one."""

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """Return the rows under `keys` that exist."""


def fold_page(projection: Projection, events: Sequence[RecordedEvent], store: RowsBefore) -> dict[str, Any]:
    """
    Return the rows that `events` change, as they are afterwards.

    Raises:
        TypeError, ValueError: a row cannot be stored, or an event holds what no log takes; and whatever the projection
            itself raises.
        DamagedError: the rows that are there cannot be read, which is no event's fault.
    """
    touched: dict[str, list[RecordedEvent]] = {}
    with _BlamedOnEvents():
        for event in _concerning(projection, events):
            require_few_named(event.event)
            for key in projection.keys(event):
                touched.setdefault(key, []).append(event)
    if not touched:
        return {}
    require_keys(touched)
    rows: dict[str, Any] = store.load(projection, touched)
    evolve_all = projection.evolve_all if isinstance(projection, BulkProjection) else partial(_evolve_all, projection)
    with _BlamedOnEvents():
        for key, of_key in touched.items():
            row = evolve_all(key, rows.get(key), of_key)
            if row is not None:
                rows[key] = row
    require_storable(projection, rows)
    return rows


class _BlamedOnEvents:
    """A block that looks at events and reads no rows: what is damaged there was recorded like that."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, DamagedError):
            raise ValueError(f"{error.what}: {error.reason}") from error


def _concerning(projection: Projection, events: Sequence[RecordedEvent]) -> Sequence[RecordedEvent]:
    if not isinstance(projection, SelectiveProjection):
        return events
    wanted = projection.events
    return [event for event in events if type(event.event) in wanted]


def _evolve_all(projection: Projection, key: str, row: Any | None, events: Sequence[RecordedEvent]) -> Any:
    for event in events:
        row = projection.evolve(key, row, event)
    return row
