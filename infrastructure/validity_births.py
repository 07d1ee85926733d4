"""What items are, by their births: rows of the context that a view is of, of its ancestors, and of any other."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..domain.errors import DamagedError
from ..domain.spans import refs_of
from ..projections.stays import mark_key
from ..projections.validity import VALIDITY, ValidityRow, brought_by
from .projecting.store import ProjectionStore
from .stay_levels import born_rows, place_of


def described(store: ProjectionStore, births: Sequence[str], rows: Iterable[ValidityRow]) -> dict[str, ValidityRow]:
    """
    Return by births the rows that say what the items are; `rows` have been read already.

    Raises:
        DamagedError: there is no such item.
    """
    known = born_rows(store, VALIDITY, births, rows)
    copied = _copied(store, [birth for birth in births if birth not in known])
    sources = described(store, [source for source, _ in copied.values()], ()) if copied else {}
    copies = {birth: msgspec.structs.replace(sources[source], agent=agent) for birth, (source, agent) in copied.items()}
    return known | copies


def _copied(store: ProjectionStore, births: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what items are copies of that a merge put another agent's name on, and which."""
    keys = {
        birth: mark_key(stream, ref.version) for birth, (stream, ref) in zip(births, map(place_of, births), strict=True)
    }
    marks = store.load(VALIDITY, keys.values()) if keys else {}
    copied = {}
    for birth, key in keys.items():
        brought = brought_by(marks[key]) if key in marks else None
        refs = [ref for placement in brought.placed or () for ref in refs_of(placement.items)] if brought else []
        if brought is None or brought.agent is None or len(refs) != 1:
            raise DamagedError(birth, "a merge or fork names it as an item, and it is none")
        copied[birth] = (f"{refs[0].stream or place_of(birth)[0]}@{refs[0].version}", brought.agent)
    return copied
