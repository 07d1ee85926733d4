"""
What a projection is: a pure fold of recorded events into rows, one row per key.

The runner asks for the keys an event touches, hands over their rows, and stores what comes back together with
the checkpoint, in one transaction. A projection so knows nothing of databases, pages or crashes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import msgspec

from ..domain.envelope import RecordedEvent

__all__ = ["BulkProjection", "Projection", "Row"]

Row = msgspec.Struct


class Projection(Protocol):
    """
    A fold into rows of type `row`, a Struct of str, int and bytes fields whose first field is `key`.

    `name` is the table's name; `version` rises when the meaning of the rows changes: then they are made anew.
    """

    @property
    def name(self) -> str:
        """The name of the projection and of its table."""

    @property
    def version(self) -> int:
        """The version of the meaning of its rows."""

    @property
    def row(self) -> type[Row]:
        """The type of its rows."""

    def keys(self, event: RecordedEvent) -> Sequence[str]:
        """
        Return the keys of the rows that `event` changes.
        """

    def evolve(self, key: str, row: Any | None, event: RecordedEvent) -> Row:
        """
        Return the row under `key` after `event`; `row` is the one before it, None where there was none.
        """


@runtime_checkable
class BulkProjection(Projection, Protocol):
    """A projection with a shorter way for many events at once, as they come when it is made anew."""

    def evolve_all(self, key: str, row: Any | None, events: Sequence[RecordedEvent]) -> Row:
        """
        Return what `evolve` returns after each of `events` in turn; there is at least one.
        """
