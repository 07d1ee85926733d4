"""
Whole tables of rows on SQLite, and notes beside them: dropping, putting in place, comparing and setting.

Each function works within a transaction of its caller's.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

from ...domain.errors import DamagedError
from ...projections.contract import Projection, SearchedRow
from .sqlite_search import drop_index, rename_searched
from .store import SetAside, aside_note, noted_aside, said_aside, twice_made

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
