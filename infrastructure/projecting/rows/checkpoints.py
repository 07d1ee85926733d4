"""
Checkpoints, notes and values of rows as databases store them, and checks of what they give back.

A projection may be divided into groups of slices, so that each group is followed by another worker. Then its row in
slice 0 only says so, and each group has a row in the slice behind its number: the moment up to which the group is made,
a blank, and the id of the transaction that stored rows of the group last. A runner changes, and locks, only rows of
groups in which it went on. All lock rows in the same order: those in slice 0 first, then by projection and slice.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, NamedTuple

import msgspec

from ....domain.concurrency.known_types import known
from ....domain.errors import DamagedError
from ....domain.positions import BEGINNING, Moment, Partition
from ....projections.contract import Projection
from ...log.row_faults import NO_NOTE, REBUILD, opening
from ..store import Checkpoint, Column, Save, SetAside, Values, Where, columns_of, stored_moment

# The names in braces differ between databases; see `database.py`.
CHECKPOINT = "SELECT moment FROM checkpoint WHERE {scope}projection = $1 AND version = {version}"
LOCKED_CHECKPOINT = CHECKPOINT + "{lock}"
ADD_CHECKPOINT = "{add} INTO checkpoint VALUES ({first}$1, {version}, $2)"
SET_CHECKPOINT = "UPDATE checkpoint SET moment = $1 WHERE {scope}projection = $2 AND version = {version}"
RENAME_CHECKPOINT = "UPDATE checkpoint SET projection = $1 WHERE {scope}projection = $2 AND version = {version}"
DELETE_CHECKPOINT = "DELETE FROM checkpoint WHERE {scope}projection = $1{own_version}"
NOTE = "SELECT value FROM note WHERE {scope}name = $1"
NOTES = "SELECT name, value FROM note WHERE {scope}name >= $1 AND name < $2 ORDER BY name"
PUT_NOTE = "INSERT INTO note VALUES ({first}$1, $2) ON CONFLICT ({key}name) DO UPDATE SET value = excluded.value"
DELETE_NOTE = "DELETE FROM note WHERE {scope}name = $1"
RENAME_NOTE = "UPDATE note SET name = $1 WHERE {scope}name = $2"

# The name of a projection, of its shadow or of a part of that. A name that was read from a database is put into a
# statement only if it has this form: a user who may write a checkpoint must not be able to inject a statement.
STORED_NAME = re.compile("[a-z][a-z0-9_]*")
# Enough for as many workers, and few enough that a page with events of all slices changes few rows.
GROUPS = 8
DIVIDED = f"{GROUPS} groups"
GROUP_ROW = "SELECT slice, moment FROM checkpoint WHERE slice = $1 AND projection = $2 AND version = {version}"
LOCKED_GROUP_ROW = GROUP_ROW + "{lock}"
# In one statement: each pass of a worker reads all of them.
GROUP_ROWS = (
    f"SELECT slice, moment FROM checkpoint WHERE slice IN ({', '.join(f'${one}' for one in range(1, GROUPS + 1))})"
    f" AND projection = ${GROUPS + 1} AND version = {{version}} ORDER BY slice"
)
ADD_GROUP = "INSERT INTO checkpoint VALUES ($1, $2, {version}, $3)"
SET_GROUP = "UPDATE checkpoint SET moment = $1 WHERE slice = $2 AND projection = $3 AND version = {version}"
DELETE_GROUP = "DELETE FROM checkpoint WHERE slice = $1 AND projection = $2 AND version = {version}"


class Stored(NamedTuple):
    """A checkpoint, and whether it is stored; otherwise there is none."""

    checkpoint: Checkpoint
    is_stored: bool


# Stands for a checkpoint that another runner has changed in part.
MOVED = Stored(Checkpoint(save="another"), True)


def is_divided(found: Sequence[Values]) -> bool:
    """Return whether the row in slice 0 says that a projection is divided into groups."""
    return bool(found) and found[0][0] == DIVIDED


def slice_of_group(number: int) -> bytes:
    """Return the slice of the row of a group, as PostgreSQL takes it."""
    return (number + 1).to_bytes(4, "big")


def checkpoint_in(projection: Projection, rows: Sequence[Values]) -> Checkpoint | None:
    """
    Return the checkpoint of a divided projection, given the rows of its groups; None if some are missing.

    Raises:
        DamagedError: a row does not hold a moment.
    """
    if len(rows) != GROUPS:
        return None
    groups = [_group(projection, row) for row in rows]
    heads = {lane: number for moment, _ in groups for lane, number in moment.heads}
    return Checkpoint(Moment.of(heads), parts=tuple(save for _, save in groups))


def undivided(projection: Projection, found: Sequence[Values], noted: Sequence[Values]) -> Stored:
    """
    Return the checkpoint of a projection that is not divided, given its row and the note of the last save.

    Raises:
        DamagedError: one of them cannot be read.
    """
    return Stored(Checkpoint(moment_of(projection, found), note_text(save_note(projection), noted) or ""), bool(found))


def are_made(parts: Sequence[Stored] | None, moment: Moment) -> bool:
    """Return whether the rows of all partitions of a log, given their checkpoints, are made up to a moment."""
    if parts is None:
        return False
    moments = [one.checkpoint.moment for one in parts]
    return all(made.includes(Partition(number, len(parts)).share(moment)) for number, made in enumerate(moments))


def is_unmoved(save: Save, rows: Sequence[Values]) -> bool:
    """Return whether the groups that a save changes are still as they were, given their rows."""
    changed = save.changed(GROUPS)
    kept = [(_share(save.before.moment, number), save.before.parts[number]) for number in changed]
    return kept == [_group(save.projection, row) for row in rows]


def changes(save: Save, checkpoint: Checkpoint, *, is_stored: bool) -> Iterator[tuple[str, list[Any]]]:
    """Yield the statements that store the checkpoint after a save, with their values."""
    name, before = save.projection.name, save.before.parts
    if not before:
        text = DIVIDED if checkpoint.parts else str(checkpoint.moment)
        yield (SET_CHECKPOINT, [text, name]) if is_stored else (ADD_CHECKPOINT, [name, text])
    if not checkpoint.parts:
        yield PUT_NOTE, [save_note(save.projection), checkpoint.save]
        return
    for number in save.changed(GROUPS) if before else range(GROUPS):
        place, text = slice_of_group(number), f"{_share(checkpoint.moment, number)} {checkpoint.parts[number]}"
        yield (SET_GROUP, [text, place, name]) if before else (ADD_GROUP, [place, name, text])


def _group(projection: Projection, row: Values) -> tuple[Moment, str]:
    moment, _, save = row[1].partition(" ")
    return stored_moment(moment, f"the checkpoint of {projection.name}", remedy=REBUILD), save


def _share(moment: Moment, number: int) -> Moment:
    return Partition(number, GROUPS).share(moment)


def aside_in(noted: str | None) -> list[SetAside]:
    """Return the events in the note of a projection, which has them as JSON."""
    with opening("the note of the events that a projection set aside", remedy=REBUILD):
        return [] if noted is None else msgspec.json.decode(noted, type=known(list[SetAside]))


def moment_of(projection: Projection, found: Sequence[Values]) -> Moment:
    """
    Return the moment of a projection's checkpoint, given its rows; the beginning if there is no row.

    Raises:
        DamagedError: the checkpoint does not hold a moment.
    """
    what = f"the checkpoint of {projection.name}"
    return stored_moment(found[0][0], what, remedy=REBUILD) if found else BEGINNING


def note_text(name: str, found: Sequence[Values]) -> str | None:
    """
    Return the value of a note, given its rows; None if there is no row.

    Raises:
        DamagedError: the value is not a text.
    """
    if not found:
        return None
    value = found[0][0]
    if not isinstance(value, str):
        raise DamagedError(f"the note {name}", f"{value!r:.100} is no text", remedy=NO_NOTE)
    return value


def save_note(projection: Projection) -> str:
    """Return the name of the note with the id of the transaction that stored rows of a projection last."""
    return f"save/{projection.name}.{projection.version}"


def aside_note(projection: Projection) -> str:
    """Return the name of the note with the events that a projection set aside."""
    return f"aside/{projection.name}.{projection.version}"


def require_types(projection: Projection, rows: list[Values]) -> None:
    """
    Require that values have the types of the fields they are for: SQLite accepts a text in a column of integers, and on
    PostgreSQL a column may have been altered.

    Raises:
        DamagedError: a value has another type.
    """
    try:
        # msgspec takes a third of the time of a loop in Python.
        msgspec.convert(rows, known(types_of(projection.row)), builtin_types=(bytes,))
    except msgspec.ValidationError:
        pairs = ((value, column) for row in rows for value, column in zip(row, columns_of(projection.row), strict=True))
        wrong, column = next(pair for pair in pairs if not _is_of(*pair))
        reason = f"{wrong!r:.100} is in its column {column.name}"
        raise DamagedError(f"the table of {projection.name}", reason, remedy=REBUILD) from None


def _is_of(value: object, column: Column) -> bool:
    return type(value) is column.type or (value is None and column.is_optional)


@cache
def types_of(row: type[msgspec.Struct]) -> Any:
    """Return the type of a list of the values of rows of a class."""
    types = [field.type for field in msgspec.structs.fields(row)]
    return list[tuple[*types]]  # type: ignore[valid-type]  # it is made up here


def compared(where: Where) -> list[tuple[str, str | int]]:
    """Return the conditions on columns, each with its value; a range has two conditions."""
    found: list[tuple[str, str | int]] = []
    for name, value in where.items():
        bounds = [(">=", value.start), ("<", value.stop)] if isinstance(value, range) else [("=", value)]
        found += [(f'"{name}" {sign}', bound) for sign, bound in bounds]
    return found
