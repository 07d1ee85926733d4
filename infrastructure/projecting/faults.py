"""
Events that a projection cannot fold: found, noted, and told of, so that one of them stops one projection alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec

from ...domain.envelope import RecordedEvent
from ...domain.errors import ProjectionError, StorageError
from ...projections.contract import Projection
from .folding import fold_page
from .store import ProjectionStore

__all__ = ["Fault", "fault_of", "note_fault", "poisoned"]


class Fault(NamedTuple):
    """The event that stopped a projection, as `stream@version`, the error, and the projection's version then."""

    event: str
    error: str
    version: int


def fault_of(store: ProjectionStore, projection: Projection) -> Fault | None:
    """
    Return what stopped a projection; None where nothing did, or a newer version of it may do better.
    """
    noted = store.note(_note(projection))
    fault = None if noted is None else msgspec.json.decode(noted, type=Fault)
    return fault if fault is not None and fault.version == projection.version else None


def note_fault(store: ProjectionStore, projection: Projection, fault: Fault | None) -> None:
    """
    Note what stopped a projection, or that nothing does any more.
    """
    before = store.note(_note(projection))
    after = None if fault is None else msgspec.json.encode(fault).decode()
    if before != after:
        store.set_note(_note(projection), before=before, after=after)


def poisoned(
    projection: Projection, events: Sequence[RecordedEvent], store: ProjectionStore
) -> tuple[list[RecordedEvent], ProjectionError | None]:
    """
    Return the events before the first that cannot be folded, and the error that says which it is; None for none.
    """

    def fails(count: int) -> bool:
        return _failure(projection, events[:count], store) is not None

    # What fails with fewer events fails with more, so that the first is found by halving.
    count = bisect_left(range(1, len(events) + 1), True, key=fails) + 1
    if count > len(events):
        return list(events), None
    error = _failure(projection, events[:count], store)
    event = events[count - 1]
    return list(events[: count - 1]), ProjectionError(projection.name, event.reference, str(error) or repr(error))


def _failure(projection: Projection, events: Sequence[RecordedEvent], store: ProjectionStore) -> Any:
    try:
        # A text that cannot be encoded comes to light only where it is.
        msgspec.msgpack.encode(fold_page(projection, events, store))
    except StorageError:
        # Not the fault of any event.
        raise
    except Exception as error:
        return error
    return None


def _note(projection: Projection) -> str:
    return f"fault/{projection.name}"
