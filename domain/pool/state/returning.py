"""Items that had left, looked up so that they can come back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...errors import NotFoundError
from ...spans import Ref
from ..events import ContainerEvent
from ..items import Held
from .departures import Departures
from .fold import Resolved
from .naming import absolute, ref_of


def returning(stream: str, events: Iterable[ContainerEvent | Resolved], names: Sequence[str]) -> list[Held]:
    """
    Return the items of the container `stream` that left with its events so far under these names: births, or in a
    pool ids.

    An id means the item that left last with it. The items are named with their stream.

    Raises:
        NotFoundError: no such item left, or it is back.
    """
    departures = Departures(stream)
    departures.go_on(events)
    gone = {ref: left.held for ref, left in departures.gone().items()}
    by_id = {held.event.id: ref for ref, held in gone.items()} if departures.state.is_pool else {}
    found: dict[Ref, Held] = {}
    for name in names:
        ref = by_id.get(name) or (ref_of(name, stream) if "@" in name or name.isdecimal() else None)
        if ref is None or ref not in gone:
            raise NotFoundError(f"{stream} let go of no item {name!r}: `evicted()` lists those that left")
        found[ref] = Held(absolute(ref, stream), gone[ref].event)
    return list(found.values())
