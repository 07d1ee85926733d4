"""What a store was at a moment, made in another way: a store that has nothing but the events up to there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from refold.domain.log.envelope import RecordedEvent
from refold.domain.log.memory_log import MemoryLog
from refold.domain.log.ports import LiveLog
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure.projecting.store import MemoryProjectionStore
from refold.infrastructure.store import Store
from refold.projections.catalogue import CATALOGUE, CatalogueRow


def cuts(log: LiveLog, *, step: int = 1) -> list[tuple[Moment, list[RecordedEvent]]]:
    """Return moments of a log, each `step` events behind the one before, with the events up to each."""
    found: list[tuple[Moment, list[RecordedEvent]]] = [(BEGINNING, [])]
    while True:
        moment, events = found[-1]
        page = log.read_all(after=moment, limit=step)
        if not page.events:
            return found
        found.append((page.moment, events + page.events))


def store_of(events: Iterable[RecordedEvent]) -> Store:
    """Return a store in memory that holds these events, with their envelopes."""
    log: Any = MemoryLog()
    for event in events:
        log._all.append(event)
        log._streams.setdefault(event.stream, []).append(event)
    return Store(log, MemoryProjectionStore())


def folded(events: Sequence[RecordedEvent]) -> list[CatalogueRow]:
    """Return the catalogue of events, folded one after the other."""
    rows: dict[str, CatalogueRow] = {}
    for event in events:
        for key in CATALOGUE.keys(event):
            rows[key] = CATALOGUE.evolve(key, rows.get(key), event)
    return [rows[key] for key in sorted(rows)]
