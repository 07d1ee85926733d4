"""
Events that a projection cannot fold: found, and set aside, so that it goes on without them.

A projection that says so, or has set very many aside, stops before such an event, alone: that is noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from ...domain.errors import DamagedError, ProjectionError, StorageError
from ...domain.log.envelope import RecordedEvent
from ...projections.contract import Projection, StoppableProjection
from .folding import fold_page
from .store import ProjectionStore, SetAside

# More than that is no accident, and an answer without them none that anybody wants.
ASIDE_EVENTS_MAX = 1_000
ERROR_CHARACTERS_MAX = 200


class Fault(NamedTuple):
    """The event that stopped a projection, as `stream@version`, the error, and the projection's version then."""

    event: str
    error: str
    version: int


def fault_of(store: ProjectionStore, projection: Projection) -> Fault | None:
    """Return what stopped a projection; None where nothing did, or a newer version of it may do better."""
    noted = store.note(_note(projection))
    try:
        fault = None if noted is None else msgspec.json.decode(noted, type=Fault)
    except msgspec.DecodeError:
        # A note that is none stops nobody: where an event is in the way, that comes to light again.
        return None
    return fault if fault is not None and fault.version == projection.version else None


def note_fault(store: ProjectionStore, projection: Projection, fault: Fault | None) -> None:
    """Note what stopped a projection, or that nothing does any more."""
    before = store.note(_note(projection))
    after = None if fault is None else msgspec.json.encode(fault).decode()
    if before != after:
        store.set_note(_note(projection), before=before, after=after)


def sets_aside(projection: Projection) -> bool:
    """Return whether a projection goes on without an event that it cannot fold."""
    return not isinstance(projection, StoppableProjection) or projection.on_fault != "stop"


class Around(NamedTuple):
    """
    What events gave that were folded one by one: the rows, and the events that were set aside.

    With a `failure` no more than the first `folded` events were; it is about the one behind them.
    """

    rows: Mapping[str, Any]
    aside: list[SetAside]
    failure: ProjectionError | None = None
    folded: int = 0


def fold_around(
    projection: Projection, events: Sequence[RecordedEvent], store: ProjectionStore, undecodable: Mapping[str, str]
) -> Around:
    """
    Fold events one by one, without those that cannot be; a projection that is to stop at such a one stops.

    It stops too where it has set ASIDE_EVENTS_MAX aside. `undecodable` are events that cannot be decoded, and why not.
    """
    rows, aside = _Rows(projection, store), list[SetAside]()
    before = len(store.set_aside(projection))
    stops = not sets_aside(projection)
    for count, event in enumerate(events):
        # What a signal handler raised does not come again, and no event is set aside for it.
        failed = _fold_one(projection, event, rows) and _fold_one(projection, event, rows)
        error = failed or undecodable.get(event.reference)
        if error is None:
            continue
        reason = str(error) or repr(error)
        if stops or before + len(aside) >= ASIDE_EVENTS_MAX:
            if not stops:
                reason = f"it has set ASIDE_EVENTS_MAX ({ASIDE_EVENTS_MAX:,}) events aside already: {reason}"
            failure = ProjectionError(projection.name, event.reference, reason)
            failure.__cause__ = error if isinstance(error, Exception) else None
            return Around(rows.changed, aside, failure, count)
        aside.append(SetAside(event.reference, reason[:ERROR_CHARACTERS_MAX]))
    return Around(rows.changed, aside)


class _Rows:
    """The rows of a projection as they are after some events that are not stored yet."""

    def __init__(self, projection: Projection, store: ProjectionStore) -> None:
        self._projection, self._store = projection, store
        self.changed: dict[str, Any] = {}

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        stored = self._store.load(projection, [key for key in keys if key not in self.changed])
        return {**stored, **{key: self.changed[key] for key in keys if key in self.changed}}


def _fold_one(projection: Projection, event: RecordedEvent, rows: _Rows) -> Exception | None:
    try:
        changed = fold_page(projection, (event,), rows)
        # A text that cannot be encoded comes to light only where it is.
        msgspec.msgpack.encode(changed)
    except (StorageError, DamagedError):
        # Not the fault of any event.
        raise
    except Exception as error:
        return error
    rows.changed.update(changed)
    return None


def _note(projection: Projection) -> str:
    return f"fault/{projection.name}"
