"""
The contract of projections: a projection is a pure fold of recorded events into rows, one row per key.

The runner asks the projection for the keys that an event changes and passes it their rows. It stores the returned
rows and the checkpoint in one transaction. So a projection does not deal with databases, pages or crashes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from ..domain.log.envelope import Event, RecordedEvent

if TYPE_CHECKING:
    from ..domain.words import Term

# At most this many of the newest rows that match are ranked. Reading them takes a few milliseconds, however many match.
CANDIDATES_MAX = 256
# A long text is ranked by this many characters of its words.
RANKED_CHARACTERS = 16_384
Row = msgspec.Struct
newness = attrgetter("recorded_at", "version", "key")


class SearchedRow(msgspec.Struct, frozen=True, kw_only=True):
    """
    A row that can be found by its words: the store keeps a full-text index of a projection with such rows.

    The row was made from version `version` of `stream`; `words` are those of `refold.domain.words.words_of`.
    """

    key: str
    kind: str
    stream: str
    version: int
    recorded_at: int
    words: str


class SearchQuery(NamedTuple):
    """
    A query for the rows with all `terms`; it can be limited to a kind, or to ranges of versions of streams.

    If the ranges hold few items, `keys` has the keys of all their rows. A store then reads these rows, and does not
    search for the words.
    """

    terms: Sequence[Term]
    limit: int
    kind: str | None = None
    streams: Mapping[str, Sequence[range]] | None = None
    keys: Sequence[str] | None = None

    @property
    def candidates(self) -> int:
        """How many of the newest rows that match are ranked."""
        return max(self.limit, CANDIDATES_MAX)

    def newest_of(self, rows: Iterable[Any]) -> list[Any]:
        """Return the newest of rows that match, as many as are ranked."""
        found = [row for row in rows if self._matches(row)]
        return sorted(found, key=newness, reverse=True)[: self.candidates]

    def _matches(self, row: Any) -> bool:
        is_within = self.streams is None or any(row.version in one for one in self.streams.get(row.stream, ()))
        return self.kind in (None, row.kind) and is_within and all(term.count_in(row.words) for term in self.terms)


class Found(NamedTuple):
    """A row that a search found. A higher rank fits better; compare ranks only within one query of one store."""

    row: Any
    rank: float


def best_of(rows: Iterable[Any], query: SearchQuery) -> list[Found]:
    """
    Return rows that match a query, the best first: those that have its terms often among few words.

    It is computed here, not in the databases, so that all stores rank alike, and only for some candidates: a database
    would rank every row that has a common word.
    """
    cut = (msgspec.structs.replace(row, words=row.words[:RANKED_CHARACTERS]) for row in rows)
    found = (Found(row, _rank(row.words, query)) for row in cut)
    return sorted(found, key=lambda one: (one.rank, newness(one.row)), reverse=True)[: query.limit]


def _rank(words: str, query: SearchQuery) -> float:
    # All occurrences of the terms may be after the characters that are ranked.
    count = max(1, sum(term.count_in(words) for term in query.terms))
    return count / (1 + math.log2(2 + words.count(" ")))


class Projection(Protocol):
    """
    A fold into rows of type `row`, a Struct of str, int, float and bytes fields whose first field is `key`.

    `name` is the name of the table. `version` rises when the meaning of the rows changes; the rows are then rebuilt.
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

        Returns None if there is still no row: an event may name something that belongs to another projection.
        """


@runtime_checkable
class BulkProjection(Projection, Protocol):
    """A projection that can fold many events of one key at once; this makes a rebuild faster."""

    def evolve_all(self, key: str, row: Any | None, events: Sequence[RecordedEvent]) -> Row | None:
        """Return the row that `evolve` returns after the last of `events`; there is at least one event."""


@runtime_checkable
class SelectiveProjection(Projection, Protocol):
    """A projection that folds only some types of events; the others cost it nothing."""

    @property
    def events(self) -> frozenset[type[Event]]:
        """The types of events that it asks to see."""


@runtime_checkable
class StoppableProjection(Projection, Protocol):
    """
    A projection that chooses how to handle an event that it cannot fold, or that cannot be read.

    With `set_aside`, the default of other projections, it goes on without the event, and the store lists the event as
    set aside. With `stop` it stops before the event until the fault is repaired.
    """

    @property
    def on_fault(self) -> Literal["set_aside", "stop"]:
        """The way to handle such an event."""


@runtime_checkable
class PartitionableProjection(Projection, Protocol):
    """
    A projection that several processes can rebuild together, if `stays_in_slice` is True.

    Each of its rows is then made from events of one slice only: a session's contexts, or one context and its forks.
    """

    @property
    def stays_in_slice(self) -> bool:
        """Whether each row is made from events of one slice only."""


@runtime_checkable
class PositionalProjection(Projection, Protocol):
    """
    A projection whose rows are about ranges of positions.

    On a log with slices each row is made from events of one slice; on a log with one sequence it is not.
    """

    @property
    def positions_of_row(self) -> int:
        """The number of positions that a row is about."""
