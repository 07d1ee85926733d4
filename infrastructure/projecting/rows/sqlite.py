"""Rows of projections on SQLite: reading, saving and comparing them, and putting whole tables in place."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from itertools import chain
from typing import Any, TypeVar

import msgspec

from ....domain.errors import DamagedError
from ....domain.log.envelope import RecordedEvent
from ....domain.positions import BEGINNING, Moment
from ....projections.contract import Found, Projection, SearchedRow, SearchQuery
from ...log.row_faults import REBUILD, opening
from ...log.sqlite.log import SqliteLog
from ...log.sqlite.read import stored_digest
from ..store import (
    SetAside,
    Snapshot,
    aside_note,
    checkpoint_moment,
    end_of_prefix,
    is_replaceable,
    made_found,
    made_rows,
    noted_aside,
    said_aside,
    twice_made,
)
from .sqlite_search import create_searched, drop_index, find, index_fault, rename_searched

ROWS_AT_ONCE = 10_000
NOTES = "CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID"


def drop_table(connection: sqlite3.Connection, projection: Projection) -> None:
    """Drop the rows of a projection, their index and their checkpoint, where there are any."""
    table = f"view_{projection.name}"
    drop_index(connection, table)
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    if _has_table(connection, "checkpoint"):
        connection.execute("DELETE FROM checkpoint WHERE projection = ?", (projection.name,))
    if _has_table(connection, "note"):
        connection.execute("DELETE FROM note WHERE name = ?", (aside_note(projection),))


def put_in_place(connection: sqlite3.Connection, projection: Projection, shadow: Projection) -> None:
    """Let the rows and the checkpoint of `shadow`, which has some, be those of `projection`."""
    drop_table(connection, projection)
    live, built = f"view_{projection.name}", f"view_{shadow.name}"
    if issubclass(projection.row, SearchedRow):
        rename_searched(connection, built, live)
    else:
        connection.execute(f"ALTER TABLE {built} RENAME TO {live}")
    connection.execute("UPDATE checkpoint SET projection = ? WHERE projection = ?", (projection.name, shadow.name))
    if _has_table(connection, "note"):
        connection.execute("UPDATE note SET name = ? WHERE name = ?", (aside_note(projection), aside_note(shadow)))


def copy_rows(
    connection: sqlite3.Connection, *, part: Projection, shadow: Projection, columns: str, after: str
) -> str | None:
    """
    Copy some rows of `part` to those of `shadow`, from the first key behind `after` on; return the last key.

    None comes back when there are no more.

    Raises:
        InvalidInputError: `shadow` has a row of such a key.
    """
    table = f"view_{part.name}"
    if not _has_table(connection, table):
        return None
    ahead = f"SELECT key FROM {table} WHERE key > ? ORDER BY key LIMIT 1 OFFSET ?"
    found = connection.execute(ahead, (after, ROWS_AT_ONCE - 1)).fetchone()
    last = found[0] if found else None
    bounds = "key > ?" if last is None else "key > ? AND key <= ?"
    copy = f"INSERT INTO view_{shadow.name} ({columns}) SELECT {columns} FROM {table} WHERE {bounds}"
    try:
        connection.execute(copy, (after,) if last is None else (after, last))
    except sqlite3.IntegrityError as error:
        raise twice_made(shadow) from error
    return last


def note(connection: sqlite3.Connection, name: str) -> str | None:
    """Return what was noted under a name, None where nothing was."""
    if not _has_table(connection, "note"):
        return None
    found = connection.execute("SELECT value FROM note WHERE name = ?", (name,)).fetchone()
    if found and not isinstance(found[0], str):
        remedy = "delete its row from the table note"
        raise DamagedError(f"the note {name}", f"{found[0]!r:.100} is no text", remedy=remedy)
    return found[0] if found else None


def notes_between(connection: sqlite3.Connection, first: str, end: str) -> dict[str, str]:
    """Return all texts that were noted under names from `first` on and before `end`."""
    if not _has_table(connection, "note"):
        return {}
    asked = "SELECT name, value FROM note WHERE name >= ? AND name < ? AND typeof(value) = 'text' ORDER BY name"
    return dict(connection.execute(asked, (first, end)))


def put_notes(connection: sqlite3.Connection, noted: Mapping[str, str]) -> None:
    """Note something under names, whatever was noted there."""
    if noted:
        connection.execute(NOTES)
        connection.executemany("INSERT OR REPLACE INTO note VALUES (?, ?)", noted.items())


def set_note(connection: sqlite3.Connection, name: str, before: str | None, after: str | None) -> bool:
    """Note something under a name, if `before` is still what is noted there; say whether it was."""
    connection.execute(NOTES)
    if note(connection, name) != before:
        return False
    if after is None:
        connection.execute("DELETE FROM note WHERE name = ?", (name,))
    else:
        connection.execute("INSERT OR REPLACE INTO note VALUES (?, ?)", (name, after))
    return True


def add_aside(connection: sqlite3.Connection, projection: Projection, aside: Sequence[SetAside]) -> None:
    """Note that a projection set events aside, beside those that it did before."""
    if not aside:
        return
    name = aside_note(projection)
    before = note(connection, name)
    set_note(connection, name, before, said_aside([*noted_aside(before), *aside]))


def _has_table(connection: sqlite3.Connection, table: str) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)).fetchone() is not None


TYPES = {int: "INTEGER", str: "TEXT", bytes: "BLOB", float: "REAL"}
KEYS_MAX = 500
# A table or column that is missing, an index whose own tables are not what they were, text that is no UTF-8.
BROKEN_TABLE = (sqlite3.SQLITE_ERROR, sqlite3.SQLITE_CORRUPT_VTAB)
T = TypeVar("T")
CHECKPOINTS = (
    "CREATE TABLE IF NOT EXISTS checkpoint (projection TEXT PRIMARY KEY, version INTEGER NOT NULL,"
    " moment TEXT NOT NULL)"
)


class SqliteProjectionStore:
    """One table per projection, named `view_` and the projection's name, a column per field of its rows."""

    def __init__(self, log: SqliteLog) -> None:
        self._log = log

    @contextmanager
    def _reading(self, projection: Projection) -> Iterator[sqlite3.Connection]:
        """Lend a connection; name the projection where its rows or its index cannot be read."""
        what = f"the table of {projection.name}"
        with self._log.database.reading() as connection, opening(what, remedy=REBUILD):
            try:
                yield connection
            except sqlite3.DatabaseError as error:
                if getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) not in BROKEN_TABLE:
                    raise
                raise DamagedError(what, f"it cannot be read ({error})", remedy=REBUILD) from error

    def checkpoint(self, projection: Projection) -> Moment:
        with self._reading(projection) as connection:
            return _checkpoint(connection, projection)

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        wanted, found = sorted(keys), {}
        with self._reading(projection) as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return {}
            for start in range(0, len(wanted), KEYS_MAX):
                some = wanted[start : start + KEYS_MAX]
                marks = ",".join("?" * len(some))
                statement = f"SELECT {_columns(projection)} FROM view_{projection.name} WHERE key IN ({marks})"
                found.update({row.key: row for row in _rows(projection, connection.execute(statement, some))})
        return found

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
        def save(connection: sqlite3.Connection) -> bool:
            if seen and stored_digest(connection, seen.stream, seen.version) != seen.digest:
                return False
            if not _save(connection, projection, rows, before, after, notes or {}):
                return False
            if aside:
                add_aside(connection, projection, aside)
            return True

        return self._log.write(save)

    def set_aside(self, projection: Projection) -> list[SetAside]:
        return noted_aside(self.note(aside_note(projection)))

    def rows(self, projection: Projection) -> list[Any]:
        return self.snapshot(projection).rows

    def snapshot(self, projection: Projection) -> Snapshot:
        with self._reading(projection) as connection:
            moment = _checkpoint(connection, projection)
            if moment == BEGINNING:
                return Snapshot(moment, [])
            statement = f"SELECT {_columns(projection)} FROM view_{projection.name} ORDER BY key"
            return Snapshot(moment, _rows(projection, connection.execute(statement)))

    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        with self._reading(projection) as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return []
            columns, table = _columns(projection), f"view_{projection.name}"
            statement = f"SELECT {columns} FROM {table} WHERE key >= ? AND key < ? ORDER BY key"
            ranges = [(prefix, end_of_prefix(prefix)) for prefix in prefixes]
            return _rows(projection, chain.from_iterable(connection.execute(statement, one) for one in ranges))

    def drop(self, projection: Projection) -> None:
        self._log.write(lambda connection: drop_table(connection, projection))

    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        def replace(connection: sqlite3.Connection) -> bool:
            live, built = _checkpoint(connection, projection), _checkpoint(connection, shadow)
            if not is_replaceable(live, built, before):
                return False
            put_in_place(connection, projection, shadow)
            return True

        return self._log.write(replace)

    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment) -> None:
        self._log.write(lambda connection: _create(connection, shadow))
        for part in parts:
            after: str | None = ""
            while after is not None:
                after = self._log.write(
                    partial(copy_rows, part=part, shadow=shadow, columns=_columns(part), after=after)
                )

        def finish(connection: sqlite3.Connection) -> None:
            _set_checkpoint(connection, shadow, moment)
            for part in parts:
                add_aside(connection, shadow, noted_aside(note(connection, aside_note(part))))
                drop_table(connection, part)

        self._log.write(finish)

    def note(self, name: str) -> str | None:
        with self._log.database.reading() as connection:
            return note(connection, name)

    def notes(self, prefix: str) -> dict[str, str]:
        with self._log.database.reading() as connection:
            return notes_between(connection, prefix, end_of_prefix(prefix))

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        return self._log.write(lambda connection: set_note(connection, name, before, after))

    def page(
        self, projection: Projection, *, after: str, limit: int, where: Mapping[str, str | int] | None = None
    ) -> list[Any]:
        """
        Return up to `limit` rows with keys behind `after`, ordered by key; those whose fields are as `where` says.
        """
        conditions = "".join(f' AND "{name}" = ?' for name in where or {})
        with self._reading(projection) as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return []
            columns, table = _columns(projection), f"view_{projection.name}"
            statement = f"SELECT {columns} FROM {table} WHERE key > ?{conditions} ORDER BY key LIMIT ?"
            found = connection.execute(statement, (after, *(where or {}).values(), limit))
            return _rows(projection, found)

    def count(self, projection: Projection) -> int:
        with self._reading(projection) as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return 0
            return int(connection.execute(f"SELECT count(*) FROM view_{projection.name}").fetchone()[0])

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        with self._reading(projection) as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return []
            found = find(connection, f"view_{projection.name}", projection.row.__struct_fields__, query)
            # Behind each row stands its rank.
            _require_types(projection, [values[:-1] for values in found])
            return made_found(projection, found)

    def index_fault(self, projection: Projection) -> str | None:
        with self._reading(projection) as connection:
            if _checkpoint(connection, projection) == BEGINNING:
                return None
            return index_fault(connection, f"view_{projection.name}")


def _save(
    connection: sqlite3.Connection,
    projection: Projection,
    rows: Mapping[str, Any],
    before: Moment,
    after: Moment,
    noted: Mapping[str, str],
) -> bool:
    if _checkpoint(connection, projection) != before:
        return False
    if before == BEGINNING:
        _create(connection, projection)
    connection.executemany(_upsert(projection), [msgspec.structs.astuple(row) for row in rows.values()])
    _set_checkpoint(connection, projection, after)
    put_notes(connection, noted)
    return True


def _set_checkpoint(connection: sqlite3.Connection, projection: Projection, moment: Moment) -> None:
    values = (projection.name, projection.version, str(moment))
    connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?, ?)", values)


def _checkpoint(connection: sqlite3.Connection, projection: Projection) -> Moment:
    if not connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'checkpoint'").fetchone():
        return BEGINNING
    found = connection.execute(
        "SELECT moment FROM checkpoint WHERE projection = ? AND version = ?",
        (projection.name, projection.version),
    ).fetchone()
    return checkpoint_moment(projection, found)


def _rows(projection: Projection, found: Iterable[Sequence[Any]]) -> list[Any]:
    rows = list(found)
    _require_types(projection, rows)
    return made_rows(projection, rows)


def _require_types(projection: Projection, rows: list[Sequence[Any]]) -> None:
    """
    Require that values have the types of their columns: SQLite takes a text in a column of integers.

    Raises:
        DamagedError: one has another type.
    """
    try:
        # That takes a third of the time of any loop here.
        msgspec.convert(rows, _types_of(projection.row), builtin_types=(bytes,))
    except msgspec.ValidationError:
        fields = msgspec.structs.fields(projection.row)
        pairs = ((value, field) for row in rows for value, field in zip(row, fields, strict=True))
        wrong, field = next(pair for pair in pairs if type(pair[0]) is not pair[1].type)
        reason = f"{wrong!r:.100} is in its column {field.name}"
        raise DamagedError(f"the table of {projection.name}", reason, remedy=REBUILD) from None


@cache
def _types_of(row: type[msgspec.Struct]) -> Any:
    types = [field.type for field in msgspec.structs.fields(row)]
    return list[tuple[*types]]  # type: ignore[valid-type]  # it is made up here


def _create(connection: sqlite3.Connection, projection: Projection) -> None:
    table = f"view_{projection.name}"
    fields = msgspec.structs.fields(projection.row)
    columns = ", ".join(f'"{field.name}" {TYPES[field.type]} NOT NULL' for field in fields)
    connection.execute(CHECKPOINTS)
    # Rows of an older version are of no use: the fold starts from the beginning.
    drop_index(connection, table)
    connection.execute(f"DROP TABLE IF EXISTS {table}")
    if issubclass(projection.row, SearchedRow):
        create_searched(connection, table, columns)
    else:
        connection.execute(f"CREATE TABLE {table} ({columns}, PRIMARY KEY (key)) WITHOUT ROWID")


def _upsert(projection: Projection) -> str:
    names = projection.row.__struct_fields__
    marks = ", ".join("?" * len(names))
    changes = ", ".join(f'"{name}" = excluded."{name}"' for name in names if name != "key")
    table = f"view_{projection.name}"
    return f"INSERT INTO {table} ({_columns(projection)}) VALUES ({marks}) ON CONFLICT (key) DO UPDATE SET {changes}"


def _columns(projection: Projection) -> str:
    return ", ".join(f'"{name}"' for name in projection.row.__struct_fields__)
