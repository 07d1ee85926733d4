"""Rows of projections on PostgreSQL: reading, saving and comparing them, and putting whole tables in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from struct import Struct
from typing import Any

import msgspec
from psycopg import errors

from ....domain.errors import DamagedError
from ....domain.log.envelope import RecordedEvent
from ....domain.positions import Moment
from ....projections.contract import Found, Projection, SearchedRow, SearchQuery
from ...log.postgres.append import TRIP_BYTES_MAX
from ...log.postgres.connection import translated
from ...log.postgres.log import PostgresLog
from ...log.postgres.wire import BEGIN, COMMIT, ROLLBACK, Call, Rows, Wire, int4, int8
from ...log.row_faults import REBUILD
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
from .postgres_search import (
    VECTOR_COLUMN,
    VECTOR_VALUE,
    find_call,
    index_call,
    index_found_call,
    vector_of,
    words_call,
    wrong_vector_call,
)

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


TYPES = {int: "bigint", str: 'text COLLATE "C"', bytes: "bytea", float: "double precision"}
float8 = Struct("!d").pack
# One runner works on the whole log, so its rows and its cursor lie in one slice.
LANE = int4(0)
TRIP_ROWS_MAX = 500
# Two processes that make the same table at once see one of these; it is there then.
MADE_BY_ANOTHER = (errors.UniqueViolation, errors.DuplicateTable, errors.DuplicateObject)
MAKE_CHECKPOINTS = Call(
    'CREATE TABLE IF NOT EXISTS checkpoint (slice int NOT NULL, projection text COLLATE "C" NOT NULL,'
    " version int NOT NULL, moment text NOT NULL, PRIMARY KEY (slice, projection, version))"
)
BEGIN_STILL = Call("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
CHECKPOINT = "SELECT moment FROM checkpoint WHERE slice = $1 AND projection = $2 AND version = $3"
TABLE_GONE = f"SELECT to_regclass($4::text) IS NULL AND EXISTS ({CHECKPOINT})"
ADD_CHECKPOINT = "INSERT INTO checkpoint VALUES ($1, $2, $3, $4)"
SET_CHECKPOINT = "UPDATE checkpoint SET moment = $4 WHERE slice = $1 AND projection = $2 AND version = $3"


class PostgresProjectionStore:
    """One table per projection and version, with a column per field of its rows."""

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self._made: set[str] = set()

    def checkpoint(self, projection: Projection) -> Moment:
        self._make_once("checkpoint", MAKE_CHECKPOINTS)
        found = self._log.database.ask(_checkpoint(projection))[0]
        if not found:
            # Its table may have become another's, or none, by the hand of another process.
            self._made.discard(_table(projection))
        return _moment(projection, found)

    def load(self, projection: Projection, keys: Iterable[str]) -> dict[str, Any]:
        self._make(projection)
        sql = f"SELECT {_columns(projection)} FROM {_table(projection)} WHERE slice = $1 AND key = $2"
        wanted, found = sorted(keys), {}
        for start in range(0, len(wanted), TRIP_ROWS_MAX):
            calls = [Call(sql, (LANE, key.encode())) for key in wanted[start : start + TRIP_ROWS_MAX]]
            for rows in self._log.database.ask(*calls):
                found.update({row.key: row for row in made_rows(projection, rows)})
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
        self._make(projection)
        self._make_once("note", MAKE_NOTES)
        calls = [put_note_call(LANE, *noted) for noted in (notes or {}).items()]
        if aside:
            # Whoever adds to it as well moves the checkpoint, and this one comes second then.
            calls.append(put_aside_call(LANE, projection, [*self.set_aside(projection), *aside]))
        return self._log.exclusively(lambda: self._save(projection, rows, before, after, calls, seen))

    def set_aside(self, projection: Projection) -> list[SetAside]:
        return noted_aside(self.note(aside_note(projection)))

    def _save(
        self,
        projection: Projection,
        rows: Mapping[str, Any],
        before: Moment,
        after: Moment,
        notes: Sequence[Call],
        seen: RecordedEvent | None,
    ) -> bool:
        with translated(self._log.database.where), self._log.database.writing() as wire:
            # The row is locked, so that of two runners one goes on and the other sees that it came second.
            sql, values = _checkpoint(projection)
            found, there = wire.run(BEGIN, Call(sql + " FOR UPDATE", values), _digest_of(seen))[1:]
            is_there = seen is None or [tuple(row) for row in there] == [(seen.digest,)]
            if _moment(projection, found) != before or not is_there:
                wire.run(ROLLBACK)
                return False
            try:
                self._write(wire, projection, list(rows.values()))
                values = (LANE, projection.name.encode(), int4(projection.version), str(after).encode())
                wire.run(Call(SET_CHECKPOINT if found else ADD_CHECKPOINT, values), *notes, COMMIT)
            except errors.UniqueViolation:
                # The first checkpoint of all: nobody could lock a row that was not there yet.
                wire.run(ROLLBACK)
                return False
        return True

    def _write(self, wire: Wire, projection: Projection, rows: list[Any]) -> None:
        sql = _upsert(projection)
        for trip in _trips(Call(sql, (LANE, *_values(row))) for row in rows):
            _sent(wire, trip)

    def rows(self, projection: Projection) -> list[Any]:
        self._make(projection)
        return made_rows(projection, self._log.database.ask(_all_rows(projection))[0])

    def snapshot(self, projection: Projection) -> Snapshot:
        self._make(projection)
        _, found, rows, _ = self._log.database.ask(BEGIN_STILL, _checkpoint(projection), _all_rows(projection), COMMIT)
        return Snapshot(_moment(projection, found), made_rows(projection, rows))

    def rows_under(self, projection: Projection, *prefixes: str) -> list[Any]:
        self._make(projection)
        table = _table(projection)
        sql = f"SELECT {_columns(projection)} FROM {table} WHERE slice = $1 AND key >= $2 AND key < $3 ORDER BY key"
        calls = [Call(sql, (LANE, prefix.encode(), end_of_prefix(prefix).encode())) for prefix in prefixes]
        answers = [rows for trip in _trips(calls) for rows in self._log.database.ask(*trip)]
        return made_rows(projection, chain.from_iterable(answers))

    def drop(self, projection: Projection) -> None:
        self._make_once("checkpoint", MAKE_CHECKPOINTS)
        self._make_once("note", MAKE_NOTES)
        self._made.discard(_table(projection))
        self._run(*drop_calls(_table(projection), LANE, projection))

    def replace(self, projection: Projection, shadow: Projection, *, before: Moment) -> bool:
        self._make_once("note", MAKE_NOTES)
        return self._log.exclusively(lambda: self._replace(projection, shadow, before))

    def _replace(self, projection: Projection, shadow: Projection, before: Moment) -> bool:
        self._made.discard(_table(shadow))
        with translated(self._log.database.where), self._log.database.writing() as wire:
            locked = [Call(call.sql + " FOR UPDATE", call.values) for call in map(_checkpoint, (projection, shadow))]
            _, live, built = wire.run(BEGIN, *locked)
            if not is_replaceable(_moment(projection, live), _moment(shadow, built), before):
                wire.run(ROLLBACK)
                return False
            try:
                wire.run(*replace_calls((_table(projection), _table(shadow)), LANE, projection, shadow), COMMIT)
            except MADE_BY_ANOTHER:
                # It had no checkpoint, and somebody stored the first one meanwhile.
                wire.run(ROLLBACK)
                return False
        return True

    def gather(self, shadow: Projection, parts: Sequence[Projection], *, moment: Moment) -> None:
        for one in (shadow, *parts):
            self._make(one)
        aside = [one for part in parts for one in self.set_aside(part)]
        noted = [put_aside_call(LANE, shadow, aside)] if aside else []
        tables = [_table(part) for part in parts]
        values = (LANE, shadow.name.encode(), int4(shadow.version), str(moment).encode())
        copies = [Call(f"INSERT INTO {_table(shadow)} SELECT * FROM {table}") for table in tables]
        drops = [call for part, table in zip(parts, tables, strict=True) for call in drop_calls(table, LANE, part)]
        try:
            self._run(*copies, Call(ADD_CHECKPOINT, values), *noted, *drops)
        except DamagedError as error:
            if not isinstance(error.__cause__, errors.UniqueViolation):
                raise
            raise twice_made(shadow) from error
        self._made.difference_update(tables)

    def note(self, name: str) -> str | None:
        self._make_once("note", MAKE_NOTES)
        found = self._log.database.ask(note_call(LANE, name))[0]
        return found[0][0] if found else None

    def notes(self, prefix: str) -> dict[str, str]:
        self._make_once("note", MAKE_NOTES)
        return dict(self._log.database.ask(notes_call(LANE, prefix, end_of_prefix(prefix)))[0])

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        self._make_once("note", MAKE_NOTES)
        if before is None and after is None:
            return self.note(name) is None
        return bool(self._run(set_note_call(LANE, name, before, after))[0])

    def _run(self, *calls: Call) -> list[Rows]:
        """Carry out statements in a transaction of their own, and return the rows of each."""

        def run() -> list[Rows]:
            with translated(self._log.database.where), self._log.database.writing() as wire:
                return wire.run(BEGIN, *calls, COMMIT)

        return self._log.exclusively(run)[1:-1]

    def page(
        self, projection: Projection, *, after: str, limit: int, where: Mapping[str, str | int] | None = None
    ) -> list[Any]:
        """
        Return up to `limit` rows with keys behind `after`, ordered by key; those whose fields are as `where` says.
        """
        self._make(projection)
        given = where or {}
        conditions = "".join(f' AND "{name}" = ${number}' for number, name in enumerate(given, 4))
        table, columns = _table(projection), _columns(projection)
        sql = f"SELECT {columns} FROM {table} WHERE slice = $1 AND key > $2{conditions} ORDER BY key LIMIT $3"
        call = Call(sql, (LANE, after.encode(), int8(limit), *map(_binary, given.values())))
        return made_rows(projection, self._log.database.ask(call)[0])

    def count(self, projection: Projection) -> int:
        self._make(projection)
        call = Call(f"SELECT count(*) FROM {_table(projection)} WHERE slice = $1", (LANE,))
        return int(self._log.database.ask(call)[0][0][0])

    def search(self, projection: Projection, query: SearchQuery) -> list[Found]:
        self._make(projection)
        call = find_call(_table(projection), projection.row.__struct_fields__, LANE, query)
        return made_found(projection, self._log.database.ask(call)[0])

    def index_fault(self, projection: Projection) -> str | None:
        self._make(projection)
        wrong, last = 0, ""
        while rows := self._log.database.ask(words_call(_table(projection), LANE, last, TRIP_ROWS_MAX))[0]:
            calls = (wrong_vector_call(_table(projection), LANE, key, words) for key, words in rows)
            for trip in _trips(calls):
                wrong += sum(map(len, self._log.database.reading(partial(_sent, trip=trip))))
            last = rows[-1][0]
        return f"{wrong:,} rows are not in its index as they are" if wrong else None

    def _make(self, projection: Projection) -> None:
        """Make the tables where they are missing; once per process is enough to look."""
        if _table(projection) in self._made:
            return
        table, is_searched = _table(projection), _is_searched(projection)
        fields = [f'"{field.name}" {TYPES[field.type]} NOT NULL' for field in msgspec.structs.fields(projection.row)]
        columns = ", ".join([*fields, *([VECTOR_COLUMN] if is_searched else [])])
        make = f"CREATE TABLE IF NOT EXISTS {table} (slice int NOT NULL, {columns}, PRIMARY KEY (slice, key))"
        self._make_once("checkpoint", MAKE_CHECKPOINTS)
        is_gone = Call(TABLE_GONE, (*_checkpoint(projection).values, table.encode()))
        # Twice: another process may be dropping both, the table and its checkpoint, at this very moment.
        if all(self._log.database.ask(is_gone)[0][0][0] for _ in range(2)):
            raise DamagedError(f"the table of {projection.name}", "it cannot be read (it is gone)", remedy=REBUILD)
        self._make_one(Call(make))
        if is_searched and not self._log.database.ask(index_found_call(table))[0]:
            # Even to find it there it would wait for whoever writes rows.
            self._make_one(index_call(table))
        self._made.add(_table(projection))

    def _make_once(self, name: str, call: Call) -> None:
        if name not in self._made:
            self._make_one(call)
            self._made.add(name)

    def _make_one(self, call: Call) -> None:
        def make(wire: Wire) -> None:
            try:
                wire.run(call)
            except MADE_BY_ANOTHER:
                wire.settle()

        self._log.database.reading(make)


def _table(projection: Projection) -> str:
    return f"view_{projection.name}_{projection.version}"


def _digest_of(event: RecordedEvent | None) -> Call:
    lane, number = (event.position.slice, event.position.number) if event else (0, 0)
    return Call("SELECT digest FROM event WHERE slice = $1 AND position = $2", (int4(lane), int8(number)))


def _checkpoint(projection: Projection) -> Call:
    return Call(CHECKPOINT, (LANE, projection.name.encode(), int4(projection.version)))


def _all_rows(projection: Projection) -> Call:
    return Call(f"SELECT {_columns(projection)} FROM {_table(projection)} WHERE slice = $1 ORDER BY key", (LANE,))


def _moment(projection: Projection, found: Rows) -> Moment:
    return checkpoint_moment(projection, found[0] if found else None)


def _columns(projection: Projection) -> str:
    return ", ".join(f'"{name}"' for name in projection.row.__struct_fields__)


def _is_searched(projection: Projection) -> bool:
    return issubclass(projection.row, SearchedRow)


def _upsert(projection: Projection) -> str:
    names = projection.row.__struct_fields__
    marks = [f"${number}" for number in range(1, len(names) + 2)]
    if _is_searched(projection):
        names, marks = (*names, "vector"), [*marks, VECTOR_VALUE.format(number=len(marks) + 1)]
    changes = ", ".join(f'"{name}" = EXCLUDED."{name}"' for name in names if name != "key")
    return (
        f"INSERT INTO {_table(projection)} VALUES ({', '.join(marks)}) ON CONFLICT (slice, key) DO UPDATE SET {changes}"
    )


def _values(row: Any) -> list[bytes]:
    values = [_binary(value) for value in msgspec.structs.astuple(row)]
    return [*values, vector_of(row.words)] if isinstance(row, SearchedRow) else values


def _trips(calls: Iterable[Call]) -> Iterator[list[Call]]:
    """Group statements by the trips that carry them; one with more bytes than a trip takes is by itself."""
    trip: list[Call] = []
    size = 0
    for call in calls:
        if trip and (len(trip) == TRIP_ROWS_MAX or size + call.size > TRIP_BYTES_MAX):
            yield trip
            trip, size = [], 0
        trip.append(call)
        size += call.size
    if trip:
        yield trip


def _sent(wire: Wire, trip: list[Call]) -> list[Rows]:
    """Carry out the statements of a trip."""
    return [wire.run_apart(trip[0])] if trip[0].size > TRIP_BYTES_MAX else wire.run(*trip)


def _binary(value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return int8(value)
    if isinstance(value, float):
        return float8(value)
    # A NUL stays in the log; a text column cannot hold it, and shows its symbol instead.
    return value.replace("\0", "\u2400").encode() if isinstance(value, str) else value
