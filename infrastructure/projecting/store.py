"""Where the rows of projections lie: the port, and the version of it that lives in memory."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple, Protocol

from ...domain.concurrency.locks import fork_safe_lock, synchronized
from ...domain.errors import InvalidInputError
from ...domain.log.envelope import RecordedEvent
from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Found, Projection, SearchQuery


class Snapshot(NamedTuple):
    """All rows of a projection, and the moment up to which they are made."""

    moment: Moment
    rows: list[Any]


class SetAside(NamedTuple):
    """An event, as `stream@version`, that a projection could not fold and went on without, and why."""

    event: str
    error: str


class ProjectionStore(Protocol):
    """Rows and checkpoints of projections."""

    def checkpoint(self, projection: Projection) -> Moment:
        """Return the moment up to which the rows are made; the beginning when there are none of this version."""

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """Return the rows under `keys` that exist."""

    def save(
        self,
        projection: Projection,
        rows: Mapping[str, Any],
        *,
        before: Moment,
        after: Moment,
        notes: Mapping[str, str] | None = None,
        aside: Sequence[SetAside] = (),
        seen: RecordedEvent | None = None,
    ) -> bool:
        """
        Store rows, the checkpoint `after` and `notes` in one transaction, if the checkpoint is still `before`.

        With them goes what was set `aside` between the two. Returns False, and stores nothing, when another runner was
        there first, or the log has lost what was `seen` meanwhile: an older copy took its place.
        """

    def set_aside(self, projection: Projection) -> list[SetAside]:
        """Return the events that the rows were made without, in the order in which they were met."""

    def rows(self, projection: Projection) -> list[Any]:
        """Return all rows, ordered by key."""

    def snapshot(self, projection: Projection) -> Snapshot:
        """Return all rows, ordered by key, and the checkpoint of the very same instant."""

    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        """
        Return the rows whose keys begin with a prefix, which ends in an ASCII character, ordered by key.

        Those of several prefixes come prefix by prefix.
        """

    def page(
        self, projection: Projection, *, after: str, limit: int, where: Mapping[str, str | int] | None = None
    ) -> list[Any]:
        """
        Return up to `limit` rows with keys behind `after`, ordered by key; those whose fields are as `where` says.
        """

    def count(self, projection: Projection) -> int:
        """Return the number of rows."""

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """
        Return the rows that a query asks for, the best first, of equal ones the newest first.

        The rows are `SearchedRow`s. All stores find the same ones; which of them fit best, each decides for itself.
        """

    def index_fault(self, projection: Projection) -> str | None:
        """
        Return how the index by which the rows, `SearchedRow`s, are found differs from them; None where it does not.
        """

    def drop(self, projection: Projection) -> None:
        """Forget the rows and the checkpoint of a projection; nothing happens where there are none."""

    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        """
        Put the rows and the checkpoint of `shadow` in the place of those of `projection`, in one transaction.

        Whoever reads sees the ones or the others, and never none. Returns False, and changes nothing, where there is
        no `shadow`, or the rows of `projection` are made further than its: further than they were at `before`.
        """

    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment) -> None:
        """
        Let the rows of `parts` together be those of `shadow`, which has none, made up to `moment`; drop `parts`.

        Raises:
            InvalidInputError: two of them have a row of the same key.
        """

    def note(self, name: str) -> str | None:
        """Return what was noted under a name, None where nothing was."""

    def notes(self, prefix: str) -> dict[str, str]:
        """Return all that was noted under names that begin with a prefix, which ends in an ASCII character."""

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        """
        Note something under a name, or nothing any more, if `before` is still what is noted there.

        Returns False, and changes nothing, where it is not.
        """


class _Table:
    """The rows of one version of a projection, and the moment up to which they are made."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.moment = BEGINNING
        self.aside: list[SetAside] = []
        self.rows: dict[str, Any] = {}
        self._ordered: list[str] | None = None
        self._saved: tuple[Mapping[str, Any], Moment, list[SetAside]] | None = None

    def update(self, rows: Mapping[str, Any], moment: Moment, aside: Sequence[SetAside] = ()) -> None:
        """Take in rows, and what they are made up to."""
        # The one step by which they are stored; an interrupt behind it leaves the rest to whoever comes next.
        self._saved = (rows, moment, [*self.aside, *aside])
        self.finish()

    def finish(self) -> None:
        """Put the rows that were saved last in their places, if they are not there yet; harmless if done twice."""
        if self._saved is not None:
            rows, self.moment, self.aside = self._saved
            self.rows.update(rows)
            self._ordered = self._saved = None

    @property
    def keys(self) -> list[str]:
        """The keys in order, which are put in order once after each change."""
        if self._ordered is None:
            self._ordered = sorted(self.rows)
        return self._ordered


class MemoryProjectionStore:
    """Rows in dicts, as long as the process lives."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._notes: dict[str, str] = {}
        self._lock = fork_safe_lock()

    @synchronized
    def checkpoint(self, projection: Projection) -> Moment:
        return self._table(projection).moment

    @synchronized
    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        rows = self._table(projection).rows
        return {key: rows[key] for key in keys if key in rows}

    @synchronized
    def save(
        self,
        projection: Projection,
        rows: Mapping[str, Any],
        *,
        before: Moment,
        after: Moment,
        notes: Mapping[str, str] | None = None,
        aside: Sequence[SetAside] = (),
        seen: RecordedEvent | None = None,
    ) -> bool:
        table = self._table(projection)
        if table.moment != before:
            return False
        self._notes.update(notes or {})
        self._tables[projection.name] = table
        table.update(rows, after, aside)
        return True

    @synchronized
    def set_aside(self, projection: Projection) -> list[SetAside]:
        return list(self._table(projection).aside)

    def rows(self, projection: Projection) -> list[Any]:
        return self.snapshot(projection).rows

    @synchronized
    def snapshot(self, projection: Projection) -> Snapshot:
        table = self._table(projection)
        return Snapshot(table.moment, [table.rows[key] for key in table.keys])

    @synchronized
    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        table = self._table(projection)
        keys = table.keys
        places = [(bisect_left(keys, one), bisect_left(keys, end_of_prefix(one))) for one in prefixes]
        return [table.rows[key] for start, end in places for key in keys[start:end]]

    @synchronized
    def page(
        self, projection: Projection, *, after: str, limit: int, where: Mapping[str, str | int] | None = None
    ) -> list[Any]:
        """
        Return up to `limit` rows with keys behind `after`, ordered by key; those whose fields are as `where` says.
        """
        table = self._table(projection)
        behind = (table.rows[key] for key in islice(table.keys, bisect_right(table.keys, after), None))
        asked = (row for row in behind if all(getattr(row, name) == value for name, value in (where or {}).items()))
        return list(islice(asked, limit))

    @synchronized
    def count(self, projection: Projection) -> int:
        return len(self._table(projection).rows)

    def index_fault(self, projection: Projection) -> None:
        """Return nothing: here the rows themselves are looked through."""

    @synchronized
    def drop(self, projection: Projection) -> None:
        self._tables.pop(projection.name, None)

    @synchronized
    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        if not is_replaceable(self.checkpoint(projection), self.checkpoint(shadow), before):
            return False
        self._tables[projection.name] = self._tables.pop(shadow.name)
        return True

    @synchronized
    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment) -> None:
        table = _Table(shadow.version)
        for part in parts:
            if table.rows.keys() & self._table(part).rows.keys():
                raise twice_made(shadow)
            table.update(self._table(part).rows, moment, self._table(part).aside)
        self._tables[shadow.name] = table
        for part in parts:
            self.drop(part)

    def note(self, name: str) -> str | None:
        return self._notes.get(name)

    @synchronized
    def notes(self, prefix: str) -> dict[str, str]:
        return {name: value for name, value in sorted(self._notes.items()) if name.startswith(prefix)}

    @synchronized
    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        if self._notes.get(name) != before:
            return False
        if after is None:
            self._notes.pop(name, None)
        else:
            self._notes[name] = after
        return True

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        rows = (row for row in self.rows(projection) if _is_asked_for(row, query))
        counted = ((row, [term.count_in(row.words) for term in query.terms]) for row in rows)
        found = [Found(row, float(sum(counts))) for row, counts in counted if all(counts)]
        return sorted(found, key=_order)[: query.limit]

    def _table(self, projection: Projection) -> _Table:
        """Return the table of this version; an empty one where there is none."""
        table = self._tables.get(projection.name)
        if table is None or table.version != projection.version:
            return _Table(projection.version)
        table.finish()
        return table


def twice_made(shadow: Projection) -> InvalidInputError:
    """Return the error for rows of one key that were made in two partitions of a log."""
    return InvalidInputError(
        f"the rows of {shadow.name} are made from events of several slices, though the projection says that they stay"
        " in one: let `stays_in_slice` be False"
    )


def end_of_prefix(prefix: str) -> str:
    """Return the least text that is greater than all that begin with `prefix`, which ends in an ASCII character."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)


def is_replaceable(live: Moment, built: Moment, before: Moment) -> bool:
    """
    Return whether rows made up to `live` may give way to rows made up to `built`.

    They stood at `before` when the others were not finished yet; so they may have a checkpoint that cannot be.
    """
    return built != BEGINNING and (live == before or built.includes(live))


def _is_asked_for(row: Any, query: SearchQuery) -> bool:
    is_of_kind = query.kind in (None, row.kind)
    return is_of_kind and (query.streams is None or row.version <= query.streams.get(row.stream, 0))


def _order(found: Found) -> tuple[float, int, int, str]:
    return -found.rank, -found.row.recorded_at, -found.row.version, found.row.key


class ReadOnlyProjectionStore(MemoryProjectionStore):
    """Rows in memory, brought up to date like any; `kept` are those that lie in the database, perhaps far behind."""

    def __init__(self, kept: ProjectionStore) -> None:
        super().__init__()
        self.kept = kept


def kept_by(store: ProjectionStore) -> ProjectionStore:
    """Return the rows and notes that stay when a store is closed."""
    return store.kept if isinstance(store, ReadOnlyProjectionStore) else store
