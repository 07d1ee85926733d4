"""
Marks: which event a projection saw last, by its position and digest, noted together with the checkpoint.

A log whose last events are gone looks whole, and when it is written on, their positions are taken by others. The mark
then contradicts the log. A contradiction that is found is noted for good, before the next mark takes the place of this
one: it is all that is left of those events.
"""

from __future__ import annotations

from collections.abc import Iterator

from ...domain.errors import InvalidInputError, StorageError
from ...domain.log.envelope import RecordedEvent
from ...domain.log.ports import PagedLog
from ...domain.positions import Moment, Position
from ...projections.contract import Projection
from .store import ProjectionStore

MARK, TRACE = "mark/", "trace/"
# Other slices go on meanwhile, and their events may come first.
EVENTS_MAX = 64


def mark_note(projection: Projection) -> str:
    """Return the name of the note that holds the mark of a projection."""
    return MARK + projection.name


def mark_of(event: RecordedEvent) -> str:
    """Return the mark of an event."""
    return f"{event.position} {event.digest.hex()}"


def look_back(log: PagedLog, store: ProjectionStore, projection: Projection) -> None:
    """Note for good where the log contradicts the mark of a projection, which is about to go on."""
    mark = store.note(mark_note(projection))
    reason = None if mark is None else _contradiction(log, mark, projection.name)
    if mark is not None and reason is not None:
        keep_trace(store, mark.partition(" ")[0], reason)


def contradictions(log: PagedLog, store: ProjectionStore) -> Iterator[tuple[str, str]]:
    """Yield the position of each mark that the log contradicts, and what that says."""
    for name, mark in store.notes(MARK).items():
        reason = _contradiction(log, mark, name.removeprefix(MARK))
        if reason is not None:
            yield mark.partition(" ")[0], reason


def keep_trace(store: ProjectionStore, where: str, reason: str) -> None:
    """Note for good that the log went further at some place than it does now."""
    store.set_note(TRACE + where, before=None, after=reason)


def traces(store: ProjectionStore) -> dict[str, str]:
    """Return what was noted for good, by place."""
    return {name.removeprefix(TRACE): reason for name, reason in store.notes(TRACE).items()}


def _contradiction(log: PagedLog, mark: str, name: str) -> str | None:
    where, _, digest = mark.partition(" ")
    try:
        ((lane, number),) = Moment.parse(where).heads
    except (InvalidInputError, ValueError):
        # A mark that is none contradicts nothing, and the next one takes its place.
        return None
    heads = dict(log.now().heads)
    if heads.get(lane, 0) < number:
        return f"the projection {name} has seen an event at it, and the log ends before it"
    try:
        page = log.read_all(after=Moment.of({**heads, lane: number - 1}), limit=EVENTS_MAX)
    except StorageError:
        # Whoever reads there is told, and a projection may go on behind it.
        return None
    found = next((one for one in page.events if one.position == Position(lane, number)), None)
    if found is None or found.digest.hex() == digest:
        return None
    return f"the projection {name} has seen another event at it: the log was cut there or before, and written on"
