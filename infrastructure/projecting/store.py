"""The store of the rows of projections: the port, and its implementation in memory."""

from __future__ import annotations

import os
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import islice, starmap
from operator import attrgetter
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar, get_args

import msgspec

from ...domain.concurrency.locks import fork_safe_lock, synchronized
from ...domain.errors import DamagedError, InvalidInputError, StorageReadOnlyError
from ...domain.ids import end_of_prefix
from ...domain.log.envelope import RecordedEvent
from ...domain.positions import BEGINNING, Moment
from ...projections.contract import Found, Projection, SearchQuery, best_of

T = TypeVar("T")
Values = Sequence[Any]
# The values that columns of wanted rows have, by name; a range has the numbers in it.
Where = Mapping[str, str | int | range]
# The note of a build in partitions, and the value that it has as long as no other process takes over.
Plan = tuple[str, str | None]
# The types of fields that all tables can hold; each may have None as well.
COLUMN_TYPES = (str, int, float, bytes)
# Names of columns that tables have beside the fields of their rows; tables of searched rows have more of them.
# PostgreSQL has some in every table.
TAKEN = ("slice", "tableoid", "xmin", "cmin", "xmax", "cmax", "ctid")
TAKEN_SEARCHED = (*TAKEN, "number", "vector")
# The note of the last erasure: each erasure gives it another value.
ERASED = "erased"


class SetAside(NamedTuple):
    """An event, as `stream@version`, that a projection could not fold and went on without, and why."""

    event: str
    error: str


class Checkpoint(NamedTuple):
    """
    The moment up to which rows are made, and the id of the transaction that stored them last. If there are no rows,
    `save` is the note of the last erasure: so no rows are stored that were made from events as they were before it.

    The moment alone does not say which rows there are: after an older copy was put back, another runner may lead its
    rows to the same moment again. `parts` are the ids of the last transactions of each group of slices, instead of
    `save`, if the projection is divided into groups.
    """

    moment: Moment = BEGINNING
    save: str = ""
    parts: tuple[str, ...] = ()


class Save(NamedTuple):
    """
    Rows of a projection to be stored, provided that its checkpoint is still `before`; then it is at `after`.

    `notes` and the events that were set `aside` are stored with them. With `divides` the projection is divided into
    groups of slices, if it is not yet. In a divided projection only groups that change need still be as `before`.
    """

    projection: Projection
    rows: Mapping[str, Any]
    before: Checkpoint
    after: Moment
    notes: Mapping[str, str] = MappingProxyType({})
    aside: Sequence[SetAside] = ()
    divides: bool = False

    def changed(self, groups: int) -> list[int]:
        """Return the groups of slices, of so many, in which this save goes on."""
        before = dict(self.before.moment.heads)
        return sorted({lane % groups for lane, number in self.after.heads if before.get(lane) != number})

    def checkpoint(self, groups: int = 1) -> Checkpoint:
        """Return the checkpoint after this save, with an id that no other has."""
        save, parts = os.urandom(16).hex(), self.before.parts
        if not (parts or self.divides):
            return Checkpoint(self.after, save)
        moment = Moment.of(dict(self.before.moment.heads) | dict(self.after.heads))
        changed = self.changed(groups) if parts else range(groups)
        ids = (save if number in changed else parts[number] for number in range(groups))
        return Checkpoint(moment, parts=tuple(ids))


class Column(NamedTuple):
    """
    A field of a row as a column: its name, its type in words (`int | None`), the type without None, and if it has None.

    The type is None if no table can hold it.
    """

    name: str
    text: str
    type: type | None
    is_optional: bool


@cache
def columns_of(row: type[msgspec.Struct]) -> tuple[Column, ...]:
    """Return the columns of rows of a class, in the order of its fields."""
    return tuple(_column(field.name, field.type) for field in msgspec.structs.fields(row))


def column_texts(row: type[msgspec.Struct]) -> dict[str, str]:
    """Return the types of the columns of rows of a class, in words, by name."""
    return {column.name: column.text for column in columns_of(row)}


def _column(name: str, kind: Any) -> Column:
    kinds = [one for one in get_args(kind) or (kind,) if one is not type(None)]
    base = kinds[0] if len(kinds) == 1 and kinds[0] in COLUMN_TYPES else None
    is_optional = base is not None and base is not kind
    if base is None or (is_optional and type(None) not in get_args(kind)):
        return Column(name, kind.__name__ if type(kind) is type else str(kind), None, False)
    return Column(name, column_text(base, is_optional=is_optional), base, is_optional)


def column_text(kind: type, *, is_optional: bool) -> str:
    """Return the type of a column in words."""
    return kind.__name__ + " | None" * is_optional


class ProjectionStore(Protocol):
    """
    Rows and checkpoints of projections.

    A projection whose rows each belong to one slice may be divided into `groups` of slices: group N has those slices
    that leave N when divided by `groups`. Each group has a checkpoint of its own, so that several runners can each save
    some groups at the same time.
    """

    @property
    def groups(self) -> int:
        """The number of groups; 1 if no projection can be divided."""
        return 1

    def checkpoints(self, *projections: Projection) -> list[Checkpoint]:
        """Return how far the rows of each projection are made; the beginning if there are none of this version."""

    def checkpoint(self, projection: Projection) -> Moment:
        """Return the moment up to which the rows are made; the beginning if there are none of this version."""
        return self.checkpoints(projection)[0].moment

    def columns(self, projection: Projection) -> dict[str, str] | None:
        """Return the types, in words, of the stored columns by name; None if there is no table of this version."""

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        """Return the rows under `keys` that exist."""

    def save(self, *saves: Save, seen: Sequence[RecordedEvent] = ()) -> list[Checkpoint | None]:
        """
        Store rows, checkpoints and notes in one transaction, and return the new checkpoints.

        A projection that another runner saved first is not changed, and its checkpoint is None. Nothing at all is
        stored if the log has lost an event of `seen` meanwhile because an older copy replaced it.
        """

    def set_aside(self, projection: Projection) -> list[SetAside]:
        """Return the events that the rows were made without, in the order in which the projection met them."""

    def rows(self, projection: Projection) -> list[Any]:
        """Return all rows, ordered by key."""

    def walk(self, projection: Projection, visit: Callable[[Moment, Iterator[list[Values]]], T]) -> T:
        """
        Return what `visit` returns, which gets the checkpoint and all rows as of one moment, ordered by key, in lists.

        A row is a tuple of the values of its fields: `rows_of` makes rows. They are read as they are taken, so that
        they need not fit into memory.
        """

    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        """Return the rows whose keys begin with a prefix, ordered by key; of several, prefix by prefix."""

    def page(
        self, projection: Projection, *, after: str, limit: int, before: str | None = None, where: Where | None = None
    ) -> list[Any]:
        """Return up to `limit` rows with keys between the two, ordered by key; with `where` those with these values."""

    def count(self, projection: Projection) -> int:
        """Return the number of rows."""

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        """
        Return the rows that match a query, the best first; of equal rows the newest first.

        The rows are `SearchedRow`s, with the first RANKED_CHARACTERS of their words. All stores find the same rows and
        rank them in the same way. If more rows match than CANDIDATES_MAX or the limit, the newest of them are ranked.
        """

    def index_fault(self, projection: Projection) -> str | None:
        """Return how the full-text index of `SearchedRow`s differs from the rows; None if it does not."""

    def drop(self, projection: Projection) -> None:
        """Drop the rows and the checkpoint of a projection, if there are any."""

    def drop_others(self, *known: Projection) -> None:
        """
        Drop the rows and checkpoints of all projections that are not among these, in these versions.

        After that no part of the store holds a row that was dropped, now or earlier.
        """

    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        """
        Replace the rows and the checkpoint of `projection` by those of `shadow`, in one transaction.

        Readers see either the old or the new rows. Returns False, and changes nothing, if there is no `shadow`, or if
        the rows of `projection` have moved on from `before` and the shadow does not include their checkpoint.
        """

    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment, plan: Plan) -> bool:
        """
        Move the rows of all `parts` to `shadow`, which has none, with the checkpoint `moment`; drop `parts`.

        Returns False, and changes nothing, if the note of the plan has another value, because another process took
        over, or if a part is not made up to `moment`, for example after an erasure, which drops rows.

        Raises:
            InvalidInputError: two parts have a row with the same key.
        """

    def note(self, name: str) -> str | None:
        """Return the value of a note; None if there is none."""

    def notes(self, prefix: str) -> dict[str, str]:
        """Return all notes whose names begin with a prefix."""

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        """Change a note to `after`, or remove it if that is None; False, and nothing is done, if it is not `before`."""

    def note_erasure(self) -> None:
        """Refuse from now on the first rows of a projection if they were made from events that were read before."""
        while not self.set_note(ERASED, before=self.note(ERASED), after=os.urandom(16).hex()):
            pass


class Table:
    """The rows of one version of a projection, and the moment up to which they are made."""

    def __init__(self, version: int, row: type[msgspec.Struct]) -> None:
        self.version, self.row = version, row
        self.checkpoint = Checkpoint()
        self.aside: list[SetAside] = []
        self.rows: dict[str, Any] = {}
        # Sorted keys, and those that came since.
        self._keys: tuple[list[str], set[str]] = ([], set())
        self._saved: tuple[Mapping[str, Any], Checkpoint, list[SetAside]] | None = None

    def update(self, rows: Mapping[str, Any], checkpoint: Checkpoint, aside: Sequence[SetAside] = ()) -> None:
        """Store rows, and the checkpoint up to which they are made."""
        # This assignment stores them in one step. If an interrupt follows, the next caller finishes the rest.
        self._saved = (rows, checkpoint, [*self.aside, *aside])
        self.finish()

    def finish(self) -> None:
        """Apply the rows that were saved last, if that was not done yet; to do it twice is harmless."""
        if self._saved is not None:
            rows, self.checkpoint, self.aside = self._saved
            self._keys[1].update(key for key in rows if key not in self.rows)
            self.rows.update(rows)
            self._saved = None

    @property
    def keys(self) -> list[str]:
        """The sorted keys. Most changes bring few new ones, or none: to sort all of them anew takes 8 times as long."""
        ordered, new = self._keys
        if new:
            self._keys = ordered, _ = sorted([*ordered, *new]), set()
        return ordered


class MemoryProjectionStore(ProjectionStore):
    """Rows in dicts; they are lost when the process ends."""

    def __init__(self) -> None:
        self._tables: dict[str, Table] = {}
        self._notes: dict[str, str] = {}
        self._lock = fork_safe_lock()

    @synchronized
    def checkpoints(self, *projections: Projection) -> list[Checkpoint]:
        self._look()
        return [self._table(one).checkpoint for one in projections]

    @synchronized
    def columns(self, projection: Projection) -> dict[str, str] | None:
        return column_texts(self._table(projection).row)

    @synchronized
    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        rows = self._fresh_table(projection).rows
        return {key: rows[key] for key in keys if key in rows}

    @synchronized
    def save(self, *saves: Save, seen: Sequence[RecordedEvent] = ()) -> list[Checkpoint | None]:
        return [*map(self._save, saves)]

    def _save(self, save: Save) -> Checkpoint | None:
        table, checkpoint = self._table(save.projection), save.checkpoint()
        if table.checkpoint != save.before:
            return None
        # Encoded to find texts that no database can hold.
        msgspec.msgpack.encode(list(save.rows.values()))
        self._notes.update(save.notes)
        self._tables[save.projection.name] = table
        table.update(save.rows, checkpoint, save.aside)
        return checkpoint

    @synchronized
    def set_aside(self, projection: Projection) -> list[SetAside]:
        return list(self._fresh_table(projection).aside)

    def rows(self, projection: Projection) -> list[Any]:
        return self._moment_and_rows(projection)[1]

    def walk(self, projection: Projection, visit: Callable[[Moment, Iterator[list[Values]]], T]) -> T:
        moment, rows = self._moment_and_rows(projection)
        return visit(moment, iter([[*map(msgspec.structs.astuple, rows)]]))

    @synchronized
    def _moment_and_rows(self, projection: Projection) -> tuple[Moment, list[Any]]:
        table = self._fresh_table(projection)
        return table.checkpoint.moment, [table.rows[key] for key in table.keys]

    @synchronized
    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        table = self._fresh_table(projection)
        keys = table.keys
        places = [(bisect_left(keys, one), bisect_left(keys, end_of_prefix(one))) for one in prefixes]
        return [table.rows[key] for start, end in places for key in keys[start:end]]

    @synchronized
    def page(
        self, projection: Projection, *, after: str, limit: int, before: str | None = None, where: Where | None = None
    ) -> list[Any]:
        table = self._fresh_table(projection)
        end = None if before is None else bisect_left(table.keys, before)
        behind = (table.rows[key] for key in islice(table.keys, bisect_right(table.keys, after), end))
        wanted = [(attrgetter(name), one if isinstance(one, range) else (one,)) for name, one in (where or {}).items()]
        asked = (row for row in behind if all(value_of(row) in values for value_of, values in wanted))
        return list(islice(asked, limit))

    @synchronized
    def count(self, projection: Projection) -> int:
        return len(self._fresh_table(projection).rows)

    def index_fault(self, projection: Projection) -> None:
        """Return None: this store has no index, and searches the rows themselves."""

    @synchronized
    def drop(self, projection: Projection) -> None:
        self._tables.pop(projection.name, None)

    @synchronized
    def drop_others(self, *known: Projection) -> None:
        kept = {(one.name, one.version) for one in known}
        self._tables = {name: table for name, table in self._tables.items() if (name, table.version) in kept}

    @synchronized
    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        if not is_replaceable(self.checkpoint(projection), self.checkpoint(shadow), before):
            return False
        self._tables[projection.name] = self._tables.pop(shadow.name)
        return True

    @synchronized
    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment, plan: Plan) -> bool:
        name, value = plan
        if self.note(name) != value:
            return False
        table = Table(shadow.version, shadow.row)
        for part in parts:
            if table.rows.keys() & self._table(part).rows.keys():
                raise duplicate_key_error(shadow)
            table.update(self._table(part).rows, Checkpoint(moment), self._table(part).aside)
        self._tables[shadow.name] = table
        for part in parts:
            self.drop(part)
        return True

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
        rows = self.rows(projection) if query.keys is None else self.load(projection, query.keys).values()
        return best_of(query.newest_of(rows), query)

    def _erased(self) -> str:
        return self._notes.get(ERASED, "")

    def _look(self) -> None:
        """Take over what other processes changed, before each question; nobody else changes rows in memory."""

    def _fresh_table(self, projection: Projection) -> Table:
        self._look()
        return self._table(projection)

    def _table(self, projection: Projection) -> Table:
        """Return the table of this version; an empty one if there is none."""
        table = self._tables.get(projection.name)
        if table is None or table.version != projection.version:
            table = Table(projection.version, projection.row)
            table.checkpoint = Checkpoint(save=self._erased())
            return table
        table.finish()
        return table


class ReadOnlyProjectionStore(MemoryProjectionStore):
    """Rows in memory, which are brought up to date as usual; `kept` has the stored rows, which may be far behind."""

    def __init__(self, kept: ProjectionStore) -> None:
        super().__init__()
        self.kept = kept

    @synchronized
    def _forget_erased(self) -> None:
        """Drop all rows: some may be made of what another process erased."""
        self._tables.clear()
        self.note_erasure()


def kept_by(store: ProjectionStore) -> ProjectionStore:
    """Return the store of the rows and notes that remain when `store` is closed."""
    return store.kept if isinstance(store, ReadOnlyProjectionStore) else store


def require_kept(store: ProjectionStore, done: str) -> None:
    """
    Require that the rows of a store remain when it is closed; `done` says what would be done to them.

    Raises:
        StorageReadOnlyError: they do not.
    """
    if kept_by(store) is not store:
        raise StorageReadOnlyError(f"nothing can be {done} in a store that was opened for reading only")


def stored_moment(text: object, what: str, **remedy: str) -> Moment:
    """
    Return the moment that was stored as a text; `what` names the place in the error.

    Raises:
        DamagedError: the text is not a moment.
    """
    try:
        return Moment.parse(text if isinstance(text, str) else repr(text))
    except InvalidInputError as error:
        raise DamagedError(what, f"{text!r} is no position", **remedy) from error


def rows_of(row: type[msgspec.Struct], values: Iterable[Values]) -> list[Any]:
    """Return rows of a class, made from values that are in the order of its fields."""
    names = row.__struct_fields__
    # Positional arguments take a tenth of the time, but the row's class must allow them.
    if row.__match_args__ == names:
        return list(starmap(row, values))
    return [row(**dict(zip(names, one, strict=True))) for one in values]


def duplicate_key_error(shadow: Projection) -> InvalidInputError:
    """Return the error for two partitions of a log that made rows with the same key."""
    return InvalidInputError(
        f"the rows of {shadow.name} are made from events of several slices, though the projection says that they stay"
        " in one: let `stays_in_slice` be False"
    )


def is_replaceable(live: Moment, built: Moment, before: Moment) -> bool:
    """
    Return whether rows made up to `built` may replace rows made up to `live`.

    `before` is the checkpoint of the live rows from before the shadow was finished. If it has not moved, the live rows
    are replaced even if their checkpoint is wrong, for example after the end of the log.
    """
    return built != BEGINNING and (live == before or built.includes(live))
