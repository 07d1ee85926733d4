"""
What items are, by their births: rows of the context that a view is of, of its ancestors, and of any other.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from ..domain.errors import DamagedError
from ..domain.spans import Ref, refs_of
from ..projections.validity import VALIDITY, ValidityRow, brought_by, item_key, mark_key
from .projecting.store import ProjectionStore

__all__ = ["described", "version_in"]


def described(store: ProjectionStore, births: Iterable[str], rows: Iterable[ValidityRow]) -> dict[str, ValidityRow]:
    """
    Return by births the rows that say what the items are; `rows` have been read already.

    Raises:
        DamagedError: there is no such item.
    """
    known = {row.birth: row for row in rows if row.type}
    missing = {birth: item_key(*_place(birth)) for birth in births if birth not in known}
    found = store.load(VALIDITY, missing.values()) if missing else {}
    known |= {birth: found[key] for birth, key in missing.items() if key in found and found[key].type}
    copied = _copied(store, [birth for birth in missing if birth not in known])
    sources = described(store, [source for source, _ in copied.values()], ()) if copied else {}
    copies = {birth: msgspec.structs.replace(sources[source], agent=agent) for birth, (source, agent) in copied.items()}
    return known | copies


def version_in(birth: str) -> int:
    """
    Return the version of the event that brought an item into the world.
    """
    return _place(birth)[1].version


def _copied(store: ProjectionStore, births: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return what items are copies of that a merge put another agent's name on, and which."""
    keys = {
        birth: mark_key(stream, ref.version) for birth, (stream, ref) in zip(births, map(_place, births), strict=True)
    }
    marks = store.load(VALIDITY, keys.values()) if keys else {}
    copied = {}
    for birth, key in keys.items():
        brought = brought_by(marks[key]) if key in marks else None
        refs = [ref for placement in brought.placed or () for ref in refs_of(placement.items)] if brought else []
        if brought is None or brought.agent is None or len(refs) != 1:
            raise DamagedError(birth, "a merge or fork names it as an item, and it is none")
        copied[birth] = (f"{refs[0].stream or _place(birth)[0]}@{refs[0].version}", brought.agent)
    return copied


def _place(birth: str) -> tuple[str, Ref]:
    stream, _, version = birth.rpartition("@")
    return stream, Ref(int(version), stream)
