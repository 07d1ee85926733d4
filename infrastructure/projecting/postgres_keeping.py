"""Whole tables of rows on PostgreSQL, and notes beside them: dropping, putting in place, comparing and setting."""

from __future__ import annotations

from collections.abc import Sequence

from ...projections.contract import Projection
from ..postgres_log.wire import Call, int4
from .store import SetAside, aside_note, said_aside

MAKE_NOTES = Call(
    'CREATE TABLE IF NOT EXISTS note (slice int NOT NULL, name text COLLATE "C" NOT NULL, value text NOT NULL,'
    " PRIMARY KEY (slice, name))"
)
DELETE_CHECKPOINT = "DELETE FROM checkpoint WHERE slice = $1 AND projection = $2 AND version = $3"
RENAME_CHECKPOINT = "UPDATE checkpoint SET projection = $4 WHERE slice = $1 AND projection = $2 AND version = $3"
NOTE = "SELECT value FROM note WHERE slice = $1 AND name = $2"
NOTES = "SELECT name, value FROM note WHERE slice = $1 AND name >= $2 AND name < $3 ORDER BY name"
PUT_NOTE = "INSERT INTO note VALUES ($1, $2, $3) ON CONFLICT (slice, name) DO UPDATE SET value = EXCLUDED.value"
ADD_NOTE = "INSERT INTO note VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING name"
CHANGE_NOTE = "UPDATE note SET value = $4 WHERE slice = $1 AND name = $2 AND value = $3 RETURNING name"
DELETE_NOTE = "DELETE FROM note WHERE slice = $1 AND name = $2 AND value = $3 RETURNING name"

FORGET_NOTE = "DELETE FROM note WHERE slice = $1 AND name = $2"
RENAME_NOTE = "UPDATE note SET name = $3 WHERE slice = $1 AND name = $2"
PUT_NOTE = "INSERT INTO note VALUES ($1, $2, $3) ON CONFLICT (slice, name) DO UPDATE SET value = EXCLUDED.value"


def put_aside_call(lane: bytes, projection: Projection, aside: Sequence[SetAside]) -> Call:
    """Return the statement that notes all that a projection set aside, of which there is something."""
    return Call(PUT_NOTE, (lane, aside_note(projection).encode(), (said_aside(aside) or "").encode()))


def drop_calls(table: str, lane: bytes, projection: Projection) -> list[Call]:
    """Return the statements that drop the rows of a projection and their checkpoint."""
    return [
        # In the order in which whoever stores rows takes hold of them.
        Call(DELETE_CHECKPOINT, (lane, projection.name.encode(), int4(projection.version))),
        Call(f"DROP TABLE IF EXISTS {table}"),
        Call(FORGET_NOTE, (lane, aside_note(projection).encode())),
    ]


def replace_calls(tables: tuple[str, str], lane: bytes, projection: Projection, shadow: Projection) -> list[Call]:
    """Return the statements that let the rows and the checkpoint of `shadow` be those of `projection`."""
    live, built = tables
    names = (lane, shadow.name.encode(), int4(shadow.version), projection.name.encode())
    return [
        *drop_calls(live, lane, projection),
        Call(f"ALTER TABLE {built} RENAME TO {live}"),
        # Its key and its index would keep their names, which the next shadow's would take.
        Call(f"ALTER TABLE {live} RENAME CONSTRAINT {built}_pkey TO {live}_pkey"),
        Call(f"ALTER INDEX IF EXISTS {built}_vector RENAME TO {live}_vector"),
        Call(RENAME_CHECKPOINT, names),
        Call(RENAME_NOTE, (lane, aside_note(shadow).encode(), aside_note(projection).encode())),
    ]


def note_call(lane: bytes, name: str) -> Call:
    """Return the question what was noted under a name."""
    return Call(NOTE, (lane, name.encode()))


def notes_call(lane: bytes, first: str, end: str) -> Call:
    """Return the question what was noted under names from `first` on and before `end`."""
    return Call(NOTES, (lane, first.encode(), end.encode()))


def put_note_call(lane: bytes, name: str, value: str) -> Call:
    """Return the statement that notes something, whatever was noted there."""
    return Call(PUT_NOTE, (lane, name.encode(), value.encode()))


def set_note_call(lane: bytes, name: str, before: str | None, after: str | None) -> Call:
    """Return the statement that notes something, and returns a row if `before` was still noted there."""
    if before is None:
        return Call(ADD_NOTE, (lane, name.encode(), (after or "").encode()))
    if after is None:
        return Call(DELETE_NOTE, (lane, name.encode(), before.encode()))
    return Call(CHANGE_NOTE, (lane, name.encode(), before.encode(), after.encode()))
