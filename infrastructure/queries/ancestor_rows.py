"""The stays of items in a context and in its ancestors: rows of each, the root's first, and how far they count."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from ...domain.errors import DamagedError
from ...domain.spans import Ref, Segment
from ...projections.contract import Projection
from ...projections.intervals import STILL_THERE, StayRow, item_key, rows_prefix
from ..projecting.store import ProjectionStore

R = TypeVar("R", bound=StayRow)
L = TypeVar("L", bound="AncestorRows[Any]")


class Staying(Protocol):
    """From which version to which something is there."""

    @property
    def v0(self) -> int:
        """The version with which it came."""

    @property
    def v1(self) -> int:
        """The version with which it left; 0 while it is there."""


def holds(stay: Staying, version: int) -> bool:
    """Return whether an item was there at a version during a stay."""
    return stay.v0 <= version and (stay.v1 == STILL_THERE or version < stay.v1)


class AncestorRows(Generic[R]):
    """The rows of one context, an ancestor or itself."""

    projection: ClassVar[Projection]
    mark_types: ClassVar[tuple[str, ...]]

    def __init__(self, store: ProjectionStore, context: str) -> None:
        self.context = context
        rows: list[R] = store.rows_under(self.projection, rows_prefix(context))
        self.marks = [row for row in rows if row.type in self.mark_types]
        self.rows = {row.birth: row for row in rows if row.type not in self.mark_types}

    @property
    def parent(self) -> Segment | None:
        """The context that it goes on from; None where there is none."""
        raise NotImplementedError

    def birth_of(self, ref: Ref) -> str:
        """Return the birth of an item that an event of the context names."""
        return f"{ref.stream or self.context}@{ref.version}"


def levels_of(level_of: Callable[[str], L], context: str) -> list[tuple[L, int | None]]:
    """
    Return the levels of a context, its root's first, each with the last version that counts: None is all of it.

    Raises:
        DamagedError: it goes on from itself.
    """
    levels: dict[str, tuple[L, int | None]] = {context: (level_of(context), None)}
    level = levels[context][0]
    while (parent := level.parent) is not None:
        if parent.stream in levels:
            raise DamagedError(context, f"what it goes on from leads back to {parent.stream}")
        level = level_of(parent.stream)
        levels[parent.stream] = (level, parent.version)
    return list(reversed(levels.values()))


def born_rows(store: ProjectionStore, projection: Projection, births: Iterable[str], rows: Iterable[R]) -> dict[str, R]:
    """Return by births the rows that say what the items are, as far as there are any; `rows` have been read already."""
    known = {row.birth: row for row in rows if row.type}
    missing = {birth: item_key(*place_of(birth)) for birth in births if birth not in known}
    found = store.load(projection, missing.values()) if missing else {}
    return known | {birth: found[key] for birth, key in missing.items() if key in found and found[key].type}


def place_of(birth: str) -> tuple[str, Ref]:
    """Return the stream of the event that brought an item into the world, and the item's name."""
    stream, _, version = birth.rpartition("@")
    return stream, Ref(int(version), stream)


def version_in(birth: str) -> int:
    """Return the version of the event that brought an item into the world."""
    return place_of(birth)[1].version
