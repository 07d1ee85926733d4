"""
What a projection is: a pure fold of recorded events into rows, one row per key.

The runner asks for the keys an event touches, hands over their rows, and stores what comes back together with
the checkpoint, in one transaction. A projection so knows nothing of databases, pages or crashes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from ..domain.log.envelope import Event, RecordedEvent
from ..domain.words import Term

Row = msgspec.Struct


class SearchedRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A row that can be found by its words: a projection with such rows is indexed, whatever else they have.

    It was made from version `version` of `stream`; `words` are those of `refold.projections.words.words_of`.
    """

    key: str
    kind: str
    stream: str
    version: int
    recorded_at: int
    words: str


class SearchQuery(NamedTuple):
    """Rows that have all `terms`; only those of a kind, or of streams up to a version, where that is given."""

    terms: Sequence[Term]
    limit: int
    kind: str | None = None
    streams: Mapping[str, int] | None = None


class Found(NamedTuple):
    """A row that a search found. A higher rank fits better, than another row for the same query in the same store."""

    row: Any
    rank: float


class Projection(Protocol):
    """
    A fold into rows of type `row`, a Struct of str, int, float and bytes fields whose first field is `key`.

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
        """Return the keys of the rows that `event` changes."""

    def evolve(self, key: str, row: Any | None, event: RecordedEvent) -> Row | None:
        """
        Return the row under `key` after `event`; `row` is the one before it, None where there was none.

        None comes back where there is none now either: an event may name what lies in another projection.
        """


@runtime_checkable
class BulkProjection(Projection, Protocol):
    """A projection with a shorter way for many events at once, as they come when it is made anew."""

    def evolve_all(self, key: str, row: Any | None, events: Sequence[RecordedEvent]) -> Row | None:
        """Return what `evolve` returns after each of `events` in turn; there is at least one."""


@runtime_checkable
class SelectiveProjection(Projection, Protocol):
    """A projection that only some types of events concern; the others cost it nothing."""

    @property
    def events(self) -> frozenset[type[Event]]:
        """The types of events that it asks to see."""


@runtime_checkable
class StoppableProjection(Projection, Protocol):
    """
    A projection that says what becomes of an event that it cannot fold, or that cannot be read.

    It goes on without it where this is `set_aside`, as it does where nothing is said: the event is kept in the list of
    those that the rows are made without. With `stop` it stops before the event until it is mended.
    """

    @property
    def on_fault(self) -> Literal["set_aside", "stop"]:
        """The new row."""


@runtime_checkable
class PartitionableProjection(Projection, Protocol):
    """
    A projection that several processes can make anew together, if it says so.

    Each of its rows is made from events of one slice alone: of the contexts of a session, or of one and its forks.
    """

    @property
    def stays_in_slice(self) -> bool:
        """Whether that is so."""
