"""
The rows of projections in a database: the statements, and the order in which they are sent, once for all databases.

A `Dialect` holds the differences between the tables of the databases. The module of each database opens connections
and runs transactions.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from ....domain.ids import end_of_prefix
from ....domain.log.envelope import RecordedEvent
from ....domain.positions import BEGINNING, Moment
from ....projections.contract import Found, Projection, SearchedRow, SearchQuery, best_of
from ...log.row_faults import REBUILD, opening
from ..store import (
    ERASED,
    TAKEN,
    TAKEN_SEARCHED,
    Checkpoint,
    Plan,
    ProjectionStore,
    Save,
    SetAside,
    Values,
    Where,
    column_text,
    columns_of,
    duplicate_key_error,
    is_replaceable,
    rows_of,
)
from .checkpoints import (
    ADD_CHECKPOINT,
    CHECKPOINT,
    DELETE_CHECKPOINT,
    DELETE_GROUP,
    DELETE_NOTE,
    GROUP_ROWS,
    LOCKED_CHECKPOINT,
    LOCKED_GROUP_ROW,
    NOTE,
    NOTES,
    PUT_NOTE,
    RENAME_CHECKPOINT,
    RENAME_NOTE,
    Stored,
    are_made,
    aside_in,
    aside_note,
    changes,
    checkpoint_in,
    compared,
    is_divided,
    note_text,
    require_types,
    save_note,
    slice_of_group,
    undivided,
)

T = TypeVar("T")
# The names in braces differ between databases and between projections. Placeholders are in the order of their numbers,
# each once, since SQLite gets them without numbers: Python 3.12.0 to 3.12.3 warn of numbered ones.
SELECT = "SELECT {columns} FROM {table} WHERE {rows}"
ALL_ROWS = SELECT + "TRUE ORDER BY key"
ROWS_OF_KEYS = SELECT + "{of_key}key IN ({marks})"
ROWS_UNDER = SELECT + "key >= $1 AND key < $2 ORDER BY key"
PAGE = SELECT + "key > $1{conditions} ORDER BY key LIMIT {limit}"
WALK = SELECT + "key {over} $1 ORDER BY key LIMIT $2"
COUNT = "SELECT count(*) FROM {table} WHERE {rows}TRUE"
PUT_ROWS = "INSERT INTO {table} ({key}{names}) VALUES {values} ON CONFLICT ({key}key) DO UPDATE SET {changes}"

# How many rows are read at a time when all rows are read.
WALKED_ROWS = 2_048


class Statement(NamedTuple):
    """A statement, and the values of its placeholders in order."""

    sql: str
    values: Values = ()


@dataclass(frozen=True, eq=False)
class Dialect:
    """
    How a database stores rows, checkpoints and notes.

    If tables have a column `slice`, then `scope`, `first` and `key` are this column in a condition, in a new row and
    in a key. `rows` is the condition for rows of projections; if those are spread, `slice_of_key` gives their slices.
    """

    mark: str
    types: Mapping[type, str]
    # How many rows one statement loads, and on PostgreSQL stores: the largest number that is left, and at last all.
    rows_at_once: Sequence[int]
    scope: str = ""
    first: str = ""
    key: str = ""
    rows: str = ""
    slice_of_key: Callable[[str], bytes] | None = None
    # Whether each version of a projection has a table of its own; if not, a newer version takes over the table.
    keeps_versions: bool = False
    # Whether a text may have a NUL; otherwise it gets the symbol for NUL instead, and the log keeps the NUL.
    has_nul: bool = True
    # Whether all values of a column have its type.
    is_typed: bool = False
    add: str = "INSERT"
    lock: str = ""
    # Into how many groups of slices a projection may be divided.
    groups: int = 1

    def table(self, projection: Projection) -> str:
        """Return the name of the table of a projection."""
        return self.table_of(projection.name, projection.version)

    def table_of(self, name: str, version: int) -> str:
        """Return the name of the table of a version of a projection."""
        return f"view_{name}_{version}" if self.keeps_versions else f"view_{name}"

    def column_types(self, row: type[msgspec.Struct]) -> str:
        """Return the columns of rows of a class with their types, for CREATE TABLE."""
        return ", ".join(
            f'"{column.name}" {self.types[column.type]}' + " NOT NULL" * (not column.is_optional)
            for column in columns_of(row)
            if column.type is not None
        )

    def stored_columns(self, row: type[msgspec.Struct], found: Iterable[Values]) -> dict[str, str] | None:
        """Return the types, in words, of columns given by name, type and NOT NULL; None if there are none."""
        own = TAKEN_SEARCHED if issubclass(row, SearchedRow) else TAKEN
        kinds = {text.partition(" ")[0].lower(): kind for kind, text in self.types.items()}
        kinds["double"] = float
        types = {}
        for name, kind, is_required in found:
            known = kinds.get(kind.partition(" ")[0].lower())
            types[name] = kind if known is None else column_text(known, is_optional=not is_required)
        return {name: kind for name, kind in types.items() if name not in own} or None

    def statement(self, sql: str, *values: Any, of: Projection | None = None, **more: str) -> Statement:
        """Return a statement; `of` is its projection, and `more` has the values of further names in braces."""
        about = () if of is None else (of.name, of.version, of.row)
        return Statement(_text(self, sql, tuple(more.items()), *about), values)

    def put_rows(self, projection: Projection, count: int) -> str:
        """Return the statement that adds rows, or replaces the rows with the same keys."""
        return _put_rows(self, count, projection.name, projection.version, projection.row)


@lru_cache(maxsize=512)
def _put_rows(dialect: Dialect, count: int, name: str, version: int, row: type[msgspec.Struct]) -> str:
    names = list(row.__struct_fields__)
    # Where rows are spread, the slice is the first of a row's values.
    first, width = ("", len(names) + 1) if dialect.slice_of_key else (dialect.first, len(names))
    rows = [", ".join(f"${row * width + place}" for place in range(1, width + 1)) for row in range(count)]
    # A row of a key alone changes nothing, and a statement must set something.
    changed = [one for one in names if one != "key"] or names
    changes = ", ".join(f'"{one}" = excluded."{one}"' for one in changed)
    more = {"names": _quoted(names), "values": ", ".join(f"({first}{one})" for one in rows), "changes": changes}
    return _text(dialect, PUT_ROWS, tuple(more.items()), name, version, row)


# All arguments are positional, which makes a hit cost 2 us. To build a statement takes 8, and `contexts` needs three.
@lru_cache(maxsize=512)
def _text(
    dialect: Dialect,
    sql: str,
    more: tuple[tuple[str, str], ...],
    name: str = "",
    version: int = 0,
    row: type[msgspec.Struct] = msgspec.Struct,
) -> str:
    pieces = {piece: getattr(dialect, piece) for piece in ("scope", "first", "key", "rows", "add", "lock")}
    text = sql.format(
        table=dialect.table_of(name, version),
        # With the table before it: SQLite reads a quoted name of a column that is not there as a text.
        columns=_quoted(row.__struct_fields__, f"{dialect.table_of(name, version)}."),
        version=version,
        own_version=f" AND version = {version}" if dialect.keeps_versions else "",
        **pieces,
        **dict(more),
    )
    return text if dialect.mark == "$" else re.sub(r"\$[0-9]+", dialect.mark, text)


def columns(projection: Projection, of: str = "") -> str:
    """Return the columns of a projection's rows, in the order of its fields; each has the prefix `of`."""
    return _quoted(projection.row.__struct_fields__, of)


def without_nul(value: Any) -> Any:
    """Return a value of a column that cannot hold a NUL."""
    return value.replace("\0", "\u2400") if isinstance(value, str) else value


def _quoted(names: Iterable[str], of: str = "") -> str:
    return ", ".join(f'{of}"{name}"' for name in names)


class Transaction(Protocol):
    """A transaction that has begun, or begins with its first statement."""

    def ask(self, *statements: Statement) -> list[list[Values]]:
        """Run statements and return the rows of each."""

    def put(self, projection: Projection, rows: Iterable[msgspec.Struct]) -> None:
        """Store rows of a projection."""


# It reads what it needs, and returns the statements that finish the transaction; None cancels the transaction.
Work = Callable[[Transaction], Iterable[Statement] | None]


class DatabaseProjectionStore(ProjectionStore):
    """One table per projection, with a column per field of its rows; a table of checkpoints, and one of notes."""

    sql: Dialect

    @property
    def groups(self) -> int:
        return self.sql.groups

    @abstractmethod
    def _ask(self, projection: Projection, *statements: Statement) -> list[list[Values]]:
        """Return the rows of each statement about a projection; no rows if it has no checkpoint."""

    @abstractmethod
    def _ask_notes(self, statement: Statement) -> list[Values]:
        """Return the rows of a statement about notes."""

    @abstractmethod
    def _transact(self, work: Work) -> list[list[Values]] | None:
        """
        Run a transaction, and return the rows of the statements that finished it.

        Returns None, and changes nothing, if `work` returned None or another process came first.
        """

    @abstractmethod
    def _locked(
        self, transaction: Transaction, *projections: Projection, seen: Sequence[RecordedEvent] = ()
    ) -> list[Stored] | None:
        """
        Return the checkpoints and whether each is stored, and lock them until the transaction ends.

        Returns None if the log has lost an event of `seen`.
        """

    def _locked_for(
        self, transaction: Transaction, saves: Sequence[Save], seen: Sequence[RecordedEvent]
    ) -> list[Stored] | None:
        """Do as `_locked` for saves; of a divided projection only the rows of groups that change are locked."""
        return self._locked(transaction, *(one.projection for one in saves), seen=seen)

    def _stored(self, transaction: Transaction, *projections: Projection, sql: str = CHECKPOINT) -> list[Stored]:
        """Return the checkpoints of projections, read with a statement."""
        # The ids of saves are read after all checkpoints: where these are locked, nobody changes the ids any more.
        asked = [self.sql.statement(sql, one.name, of=one) for one in projections]
        asked += [self.sql.statement(NOTE, save_note(one)) for one in projections]
        answers = transaction.ask(*asked)
        pairs = [*zip(projections, answers, answers[len(projections) :], strict=False)]
        divided = [one for one, found, _ in pairs if is_divided(found)] if self.groups > 1 else []
        locks = [self._locks(one, range(self.groups)) for one in divided if sql == LOCKED_CHECKPOINT]
        slices = [slice_of_group(number) for number in range(self.groups)]
        reads = [self.sql.statement(GROUP_ROWS, *slices, one.name, of=one) for one in divided]
        rows = transaction.ask(*chain(*locks), *reads)[-len(reads) :] if reads else []
        parts = {one.name: checkpoint_in(one, found) for one, found in zip(divided, rows, strict=True)}
        stored = [
            Stored(part, True) if (part := parts.get(one.name)) else undivided(one, found, noted)
            for one, found, noted in pairs
        ]
        return self._since_erasure(transaction, stored)

    def _since_erasure(self, transaction: Transaction, found: list[Stored]) -> list[Stored]:
        """Return checkpoints; one that is not stored gets the note of the last erasure."""
        if all(one.is_stored or one.checkpoint.save for one in found):
            return found
        last = note_text(ERASED, transaction.ask(self.sql.statement(NOTE, ERASED))[0]) or ""
        none = Stored(Checkpoint(save=last), False)
        return [one if one.is_stored or one.checkpoint.save else none for one in found]

    def _locks(self, projection: Projection, groups: Iterable[int]) -> list[Statement]:
        """Return the statements that read and lock the rows of groups."""
        slices = map(slice_of_group, groups)
        return [self.sql.statement(LOCKED_GROUP_ROW, one, projection.name, of=projection) for one in slices]

    @abstractmethod
    def _make_table(self, projection: Projection) -> Sequence[Statement]:
        """Make the table of a projection, or return the statements that make it together with the first checkpoint."""

    @abstractmethod
    def _drop_table(self, projection: Projection) -> Sequence[Statement]:
        """Return the statements that drop the table of a projection and its index."""

    @abstractmethod
    def _rename_table(self, shadow: Projection, projection: Projection) -> list[Statement]:
        """Return the statements that rename the table of `shadow` to that of `projection`, which has no table."""

    @abstractmethod
    def _copy_rows(self, shadow: Projection, parts: Sequence[Projection], plan: Plan) -> Callable[[Transaction], bool]:
        """
        Copy the rows of `parts` to `shadow`, which has none, as long as the plan is noted; or let the function that is
        returned do so in the transaction that drops `parts`. It returns whether they are copied.
        """

    @abstractmethod
    def _candidates(self, projection: Projection, query: SearchQuery) -> list[Any]:
        """Return the newest rows that match a query, found by their words, as many as are ranked."""

    def _rows(self, projection: Projection, found: Iterable[Values]) -> list[Any]:
        return rows_of(projection.row, self._values(projection, found))

    def _values(self, projection: Projection, found: Iterable[Values]) -> list[Values]:
        """Return values of rows, each of which has the type of its field."""
        rows: list[Values] = [*map(tuple, found)]
        with opening(f"the table of {projection.name}", remedy=REBUILD):
            require_types(projection, rows[:1] if self.sql.is_typed else rows)
        return rows

    # Reading

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        statements = []
        for some in in_batches(sorted(keys), self.sql.rows_at_once):
            slices = [*map(self.sql.slice_of_key, some)] if self.sql.slice_of_key else []
            marks = [f"${number}" for number, _ in enumerate((*some, *slices), 1)]
            of_key = f"slice IN ({', '.join(marks[len(some) :])}) AND " if slices else ""
            more = {"marks": ", ".join(marks[: len(some)]), "of_key": of_key}
            statements.append(self.sql.statement(ROWS_OF_KEYS, *some, *slices, of=projection, **more))
        found = self._ask(projection, *statements)
        return {row.key: row for row in self._rows(projection, chain.from_iterable(found))}

    def set_aside(self, projection: Projection) -> list[SetAside]:
        return aside_in(self.note(aside_note(projection)))

    def rows(self, projection: Projection) -> list[Any]:
        return self._rows_asked(projection, self.sql.statement(ALL_ROWS, of=projection))

    def _pages(self, projection: Projection, ask: Callable[[Statement], list[Values]]) -> Iterator[list[Values]]:
        """Yield the values of all rows, ordered by key; `ask` returns some of them at a time."""
        statement = self.sql.statement(WALK, "", WALKED_ROWS, of=projection, over=">=")
        while rows := self._values(projection, ask(statement)):
            yield rows
            statement = self.sql.statement(WALK, rows[-1][0], WALKED_ROWS, of=projection, over=">")

    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        ranges = ((prefix, end_of_prefix(prefix)) for prefix in prefixes)
        return self._rows_asked(projection, *(self.sql.statement(ROWS_UNDER, *one, of=projection) for one in ranges))

    def page(
        self, projection: Projection, *, after: str, limit: int, before: str | None = None, where: Where | None = None
    ) -> list[Any]:
        wanted = [*([] if before is None else [("key <", before)]), *compared(where or {})]
        conditions = "".join(f" AND {condition} ${number}" for number, (condition, _) in enumerate(wanted, 2))
        values = (after, *(value for _, value in wanted), limit)
        more = {"conditions": conditions, "limit": f"${len(values)}"}
        return self._rows_asked(projection, self.sql.statement(PAGE, *values, of=projection, **more))

    def _rows_asked(self, projection: Projection, *statements: Statement) -> list[Any]:
        return self._rows(projection, chain.from_iterable(self._ask(projection, *statements)))

    def count(self, projection: Projection) -> int:
        return sum(number for (number,) in self._ask(projection, self.sql.statement(COUNT, of=projection))[0])

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        if query.keys is not None:
            return best_of(query.newest_of(self.load(projection, query.keys).values()), query)
        return best_of(self._candidates(projection, query), query)

    # Changing

    def save(self, *saves: Save, seen: Sequence[RecordedEvent] = ()) -> list[Checkpoint | None]:
        # All runners lock checkpoints in the same order, so no two of them wait for each other.
        ordered = sorted(saves, key=lambda one: one.projection.name)
        made = {one.projection.name: self._make_table(one.projection) for one in ordered}
        saved: dict[str, Checkpoint] = {}

        def save(transaction: Transaction) -> Iterable[Statement] | None:
            found = self._locked_for(transaction, ordered, seen)
            last: list[Statement] = []
            for one, (present, is_stored) in zip(ordered, found or (), strict=found is not None):
                if present == one.before:
                    checkpoint = saved[one.projection.name] = one.checkpoint(self.groups)
                    if present.moment == BEGINNING and made[one.projection.name]:
                        transaction.ask(*made[one.projection.name])
                    last += self._put(transaction, one, checkpoint, is_stored)
            return last or None

        is_done = self._transact(save) is not None
        return [saved.get(one.projection.name) if is_done else None for one in saves]

    def _put(
        self, transaction: Transaction, save: Save, checkpoint: Checkpoint, is_stored: bool
    ) -> Iterator[Statement]:
        """Put rows into the table of a projection; yield the statements that store their checkpoint and notes."""
        projection = save.projection
        transaction.put(projection, save.rows.values())
        for sql, values in changes(save, checkpoint, is_stored=is_stored):
            yield self.sql.statement(sql, *values, of=projection)
        for note in save.notes.items():
            yield self.sql.statement(PUT_NOTE, *note)
        if save.aside:
            # Read in this transaction: a rebuild replaces the note, and may leave the checkpoint where it was.
            name = aside_note(projection)
            kept = aside_in(note_text(name, transaction.ask(self.sql.statement(NOTE, name))[0]))
            yield from self._put_aside(projection, [*kept, *save.aside])

    def _put_aside(self, projection: Projection, aside: Sequence[SetAside]) -> list[Statement]:
        if not aside:
            return []
        return [self.sql.statement(PUT_NOTE, aside_note(projection), msgspec.json.encode(aside).decode())]

    def drop(self, projection: Projection) -> None:
        self._transact(lambda _: self._drops(projection))

    def _drops(self, projection: Projection) -> list[Statement]:
        # The checkpoint comes first: a runner that stores rows takes its locks in the same order.
        return [
            *self._forgets(projection),
            *self._drop_table(projection),
            self.sql.statement(DELETE_NOTE, aside_note(projection)),
            self.sql.statement(DELETE_NOTE, save_note(projection)),
        ]

    def _forgets(self, projection: Projection) -> list[Statement]:
        """Return the statements that delete the checkpoint of a projection, with the rows of its groups."""
        groups = map(slice_of_group, range(self.groups) if self.groups > 1 else ())
        deletes = (self.sql.statement(DELETE_GROUP, one, projection.name, of=projection) for one in groups)
        return [self.sql.statement(DELETE_CHECKPOINT, projection.name, of=projection), *deletes]

    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        def replace(transaction: Transaction) -> Iterable[Statement] | None:
            found = self._locked(transaction, projection, shadow)
            if found is None:
                return None
            live, built = (one.checkpoint.moment for one in found)
            if not is_replaceable(live, built, before):
                return None
            return [
                *self._drops(projection),
                *self._rename_table(shadow, projection),
                self.sql.statement(RENAME_CHECKPOINT, projection.name, shadow.name, of=shadow),
                *(self.sql.statement(RENAME_NOTE, of(projection), of(shadow)) for of in (aside_note, save_note)),
            ]

        return self._transact(replace) is not None

    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment, plan: Plan) -> bool:
        copied = self._copy_rows(shadow, parts, plan)
        aside = [one for part in parts for one in self.set_aside(part)]
        added = self.sql.statement(ADD_CHECKPOINT, shadow.name, str(moment), of=shadow)
        is_whole = True

        def finish(transaction: Transaction) -> Iterable[Statement] | None:
            nonlocal is_whole
            # A worker of another plan that goes on with a part waits for its lock, and then finds no part.
            is_whole = are_made(self._locked(transaction, *parts), moment) and self._is_noted(transaction, *plan)
            is_whole = is_whole and copied(transaction)
            last = (added, *self._put_aside(shadow, aside), *chain(*map(self._drops, parts)))
            return last if is_whole else None

        if self._transact(finish) is None and is_whole:
            raise duplicate_key_error(shadow)
        return is_whole

    # Notes

    def _is_noted(self, transaction: Transaction, name: str, value: str | None) -> bool:
        """Return whether a note has this value in a transaction."""
        return note_text(name, transaction.ask(self.sql.statement(NOTE, name))[0]) == value

    def note(self, name: str) -> str | None:
        return note_text(name, self._ask_notes(self.sql.statement(NOTE, name)))

    def notes(self, prefix: str) -> dict[str, str]:
        found = self._ask_notes(self.sql.statement(NOTES, prefix, end_of_prefix(prefix)))
        return {name: value for name, value in found if isinstance(value, str)}


def in_batches(items: Sequence[T], sizes: Sequence[int]) -> Iterator[Sequence[T]]:
    """Yield items in batches of the first size while there are enough, then of the next sizes, and at last the rest."""
    start = 0
    for size in sizes:
        while len(items) - start >= size:
            yield items[start : start + size]
            start += size
    if start < len(items):
        yield items[start:]
