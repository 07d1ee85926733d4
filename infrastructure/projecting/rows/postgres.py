"""
Rows of projections on PostgreSQL: round trips, values in binary form, and the tables of this database.

Searched rows have an index, GIN over the tsvector of their words, which the server computes, without places. It is made
from an array: PostgreSQL's own parser would split texts into other words. The vector is a column and not only in the
index, because the server scans the rows if that seems to cost less. Phrases are matched against the words. Another
index, by time, finds the newest rows with a common word.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from types import SimpleNamespace
from typing import Any, TypeVar

from psycopg import errors

from ....domain.errors import DamagedError, StorageReadOnlyError
from ....domain.ids import slice_of
from ....domain.log.envelope import RecordedEvent
from ....domain.positions import BEGINNING, Moment
from ....domain.words import Term
from ....projections.contract import RANKED_CHARACTERS, Projection, SearchedRow, SearchQuery
from ...log.postgres.blocks import digest_of
from ...log.postgres.connection import IN_SCHEMA
from ...log.postgres.errors import first_line
from ...log.postgres.log import PostgresLog
from ...log.postgres.schema import MADE_BY_ANOTHER, SEQUENTIAL, distribution
from ...log.postgres.side_tables import MAKE_SEGMENTS, MAKE_SNAPSHOTS
from ...log.postgres.wire import BEGIN, BEGIN_STILL, COMMIT, ROLLBACK, Call, Wire, int4, trips
from ...log.row_faults import REBUILD
from ..store import Checkpoint, Plan, Save, Values
from .checkpoints import (
    CHECKPOINT,
    GROUPS,
    LOCKED_CHECKPOINT,
    MOVED,
    NOTE,
    STORED_NAME,
    Stored,
    is_divided,
    is_unmoved,
    save_note,
    undivided,
)
from .database import WALKED_ROWS, DatabaseProjectionStore, Dialect, Statement, Transaction, Work, columns, without_nul
from .postgres_transaction import WAIT_BRIEFLY, WireTransaction, call_of, carried_out

T = TypeVar("T")
# An array gives each word once; as a text, all words together would have to fit into a vector.
VECTOR = "vector tsvector GENERATED ALWAYS AS (array_to_tsvector(array_remove(string_to_array(words, ' '), ''))) STORED"
MAKE_CHECKPOINTS = Call(
    'CREATE TABLE IF NOT EXISTS checkpoint (slice int NOT NULL, projection text COLLATE "C" NOT NULL,'
    " version int NOT NULL, moment text NOT NULL, PRIMARY KEY (slice, projection, version))"
)
MAKE_NOTES = Call(
    'CREATE TABLE IF NOT EXISTS note (slice int NOT NULL, name text COLLATE "C" NOT NULL, value text NOT NULL,'
    " PRIMARY KEY (slice, name))"
)
COLUMNS = (
    "SELECT attname::text, format_type(atttypid, atttypmod), attnotnull FROM pg_attribute"
    " WHERE attrelid = to_regclass($1::text) AND attnum > 0 AND NOT attisdropped"
)
COMPUTED = (
    "SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass($1::text) AND attname = 'vector' AND attgenerated = 's'"
)
# As `Dialect.table_of` names them: other programs may have tables in the schema.
VIEWS = (
    "SELECT substring(relname, '^view_(.*)_[0-9]+$'), substring(relname, '[0-9]+$') FROM pg_class"
    f" WHERE relkind = 'r' AND relname ~ '^view_[a-z][a-z0-9_]*_[0-9]+$' AND {IN_SCHEMA}"
)
PROJECTIONS = "SELECT projection, version FROM checkpoint WHERE slice = 0"
DIGEST = f"SELECT {digest_of('(SELECT key FROM stream WHERE slice = $1 AND id = $2)', '$3')}"
ADD_NOTE = "INSERT INTO note VALUES (0, $1, $2) ON CONFLICT DO NOTHING RETURNING name"
CHANGE_NOTE = "UPDATE note SET value = $3 WHERE slice = 0 AND name = $1 AND value = $2 RETURNING name"
DELETE_NOTE = "DELETE FROM note WHERE slice = 0 AND name = $1 AND value = $2 RETURNING name"
# The last row of each batch that is copied, and the rows up to it; on a cluster they are ordered by slice.
NO_ROW = (int4(-1), "")
AHEAD = "SELECT slice, key FROM {table} WHERE (slice, key) > ($1, $2) ORDER BY slice, key LIMIT 1 OFFSET $3"
COPY_REST = "INSERT INTO {into} SELECT * FROM {table} WHERE (slice, key) > ($1, $2)"
COPY_SOME = COPY_REST + " AND (slice, key) <= ($3, $4)"
FIND = """
    SELECT {columns}
    FROM {table} AS r
    WHERE {rows}r.vector @@ CAST(CAST($1 AS text) AS tsquery)
        AND NOT EXISTS (
            SELECT FROM jsonb_array_elements_text(CAST(CAST($2 AS text) AS jsonb)) AS asked (phrase)
            WHERE strpos(' ' || r.words || ' ', asked.phrase) = 0)
        AND (CAST($3 AS text) IS NULL OR r.kind = $3)
        AND (CAST($4 AS text) IS NULL OR r.version <@ CAST(CAST($4 AS jsonb) ->> r.stream AS int8multirange))
    ORDER BY r.recorded_at DESC, r.version DESC, r.key DESC
    LIMIT $5
"""


def _slice_of_key(key: str) -> bytes:
    return int4(slice_of(str(without_nul(key))))


ONE_SERVER = Dialect(
    mark="$",
    types={int: "bigint", str: 'text COLLATE "C"', bytes: "bytea", float: "double precision"},
    # In few sizes, so that each statement is prepared once. Single rows take the server twice the time.
    rows_at_once=(64, 8, 1),
    scope="slice = 0 AND ",
    first="0, ",
    key="slice, ",
    rows="slice = 0 AND ",
    keeps_versions=True,
    has_nul=False,
    is_typed=True,
    lock=" FOR UPDATE",
    groups=GROUPS,
)
CLUSTER = replace(ONE_SERVER, rows="", slice_of_key=_slice_of_key)


class PostgresProjectionStore(DatabaseProjectionStore):
    """
    One table per projection and version.

    One runner works on the whole log, so checkpoints and notes are stored in slice 0. On one server so are the rows,
    which are then in the order of their keys; on a cluster each row is in a slice that its key decides.
    """

    def __init__(self, log: PostgresLog) -> None:
        self._log = log
        self.sql = CLUSTER if log.is_distributed else ONE_SERVER
        # The tables that this process has seen or made.
        self._made: set[str] = set()

    def checkpoints(self, *projections: Projection) -> list[Checkpoint]:
        if not self._make_common():
            return [Checkpoint() for _ in projections]
        found = self._read_checkpoints(projections)
        for projection, (_, is_stored) in zip(projections, found, strict=True):
            if not is_stored:
                # Another process may have dropped its table, or put another in its place.
                self._made.discard(self.sql.table(projection))
        return [one.checkpoint for one in found]

    def _read_checkpoints(self, projections: Sequence[Projection]) -> list[Stored]:
        def read(wire: Wire) -> list[Stored]:
            return self._stored(WireTransaction(wire, self.sql, is_begun=True), *projections)

        try:
            return self._log.database.reading(read)
        except DamagedError:
            # Between two statements a rebuild may have replaced rows that are divided by rows that are not.
            return self._log.database.reading(read)

    def columns(self, projection: Projection) -> dict[str, str] | None:
        found = self._log.database.ask(Call(COLUMNS, (self.sql.table(projection).encode(),)))[0]
        return self.sql.stored_columns(projection.row, found)

    def _ask(self, projection: Projection, *statements: Statement) -> list[list[Values]]:
        if not self._is_made(projection):
            return [[] for _ in statements]
        answers: list[Any] = [
            rows for trip in trips(map(call_of, statements)) for rows in self._log.database.ask(*trip)
        ]
        return answers

    def walk(self, projection: Projection, visit: Callable[[Moment, Iterator[list[Values]]], T]) -> T:
        if not self._is_made(projection):
            return visit(BEGINNING, iter(()))

        def walked(wire: Wire) -> T:
            transaction = WireTransaction(wire, self.sql, is_begun=True)
            wire.run(BEGIN_STILL)
            try:
                moment = self._stored(transaction, projection)[0].checkpoint.moment
                rows = self._pages(projection, lambda statement: transaction.ask(statement)[0])
                return visit(moment, iter(()) if moment == BEGINNING else rows)
            finally:
                wire.run(ROLLBACK)

        return self._log.database.transacting(walked)

    def _ask_notes(self, statement: Statement) -> list[Values]:
        if not self._make_once("note", MAKE_NOTES):
            return []
        return [*self._log.database.ask(call_of(statement))[0]]

    def _transact(self, work: Work) -> list[list[Values]] | None:
        self._log.database.require_writable()
        self._make_common()
        # On a connection of its own: writers of this process need not wait for rows.
        before = [Statement(SEQUENTIAL.sql)] if self._log.is_distributed else []
        return self._log.database.transacting(lambda wire: carried_out(work, wire, self.sql, before))

    def _locked(
        self, transaction: Transaction, *projections: Projection, seen: Sequence[RecordedEvent] = ()
    ) -> list[Stored] | None:
        # The rows are locked: of two runners, one goes on, and the other then sees that the checkpoint has moved.
        stored = self._stored(transaction, *projections, sql=LOCKED_CHECKPOINT)
        return stored if _has_all(transaction, seen) else None

    def _locked_for(
        self, transaction: Transaction, saves: Sequence[Save], seen: Sequence[RecordedEvent]
    ) -> list[Stored] | None:
        divided = [one for one in saves if one.before.parts]
        whole = [one.projection for one in saves if not one.before.parts]
        # Two runners may add to the note of events that were set aside: one of them waits.
        adding = [one.projection for one in divided if one.aside]
        locks = [self.sql.statement(LOCKED_CHECKPOINT, one.name, of=one) for one in (*whole, *adding)]
        notes = [self.sql.statement(NOTE, save_note(one)) for one in whole]
        groups = [self._locks(one.projection, one.changed(GROUPS)) for one in divided]
        answers = iter(transaction.ask(*locks, *chain(*groups), *notes))
        stored = {one.name: next(answers) for one in (*whole, *adding)}
        of_groups = {
            one.projection.name: [*chain(*(next(answers) for _ in of_one))]
            for one, of_one in zip(divided, groups, strict=True)
        }
        noted = {one.name: next(answers) for one in whole}
        found = []
        for save in saves:
            name = save.projection.name
            if save.before.parts:
                found.append(Stored(save.before, True) if is_unmoved(save, of_groups[name]) else MOVED)
            elif is_divided(stored[name]):
                found.append(MOVED)
            else:
                found.append(undivided(save.projection, stored[name], noted[name]))
        return self._since_erasure(transaction, found) if _has_all(transaction, seen) else None

    def set_note(self, name: str, *, before: str | None, after: str | None) -> bool:
        if before is None and after is None:
            return self.note(name) is None
        # A single statement takes one round trip.
        if before is None:
            change = Statement(ADD_NOTE, (name, after))
        elif after is None:
            change = Statement(DELETE_NOTE, (name, before))
        else:
            change = Statement(CHANGE_NOTE, (name, before, after))
        return self._transact(lambda _: [change]) not in (None, [[]])

    # Tables

    def prepare(self, projections: Iterable[Projection]) -> None:
        """Make the tables of projections, so that users who may make none can use them."""
        self._make_common()
        self._make_once("snapshot", Call(MAKE_SNAPSHOTS))
        self._make_once("segment", Call(MAKE_SEGMENTS))
        for projection in projections:
            self._make_table(projection)

    def distribute(self) -> None:
        """Distribute the log over the servers of a cluster; rows are dropped, and made again at the next use."""
        if self._log.is_distributed:
            return
        self._make_common()
        views = [self.sql.table_of(name, version) for name, version in self._log.database.ask(Call(VIEWS))[0]]
        drops = (Call(f"DROP TABLE {name}") for name in views)
        self._log.database.ask(BEGIN, Call("DELETE FROM checkpoint"), *drops, COMMIT)
        self._log.distribute()
        self._log.database.ask(BEGIN, SEQUENTIAL, distribution("checkpoint"), distribution("note"), COMMIT)
        self.sql = CLUSTER
        self._made.clear()

    def _make_table(self, projection: Projection) -> Sequence[Statement]:
        # Each process looks for the table only once.
        table = self.sql.table(projection)
        if table in self._made:
            return []
        is_searched = issubclass(projection.row, SearchedRow)
        types = self.sql.column_types(projection.row) + f", {VECTOR}" * is_searched
        self._make_once("checkpoint", MAKE_CHECKPOINTS)
        checkpoint = call_of(self.sql.statement(CHECKPOINT, projection.name, of=projection))
        is_gone = Call(
            f"SELECT to_regclass($2::text) IS NULL AND EXISTS ({checkpoint.sql})", (*checkpoint.values, table.encode())
        )
        # Asked twice: another process may be dropping both the table and its checkpoint at this moment.
        if all(self._log.database.ask(is_gone)[0][0][0] for _ in range(2)):
            raise DamagedError(f"the table of {projection.name}", "it cannot be read (it is gone)", remedy=REBUILD)
        if self._log.database.read_only:
            return []
        create = Call(f"CREATE TABLE IF NOT EXISTS {table} (slice int NOT NULL, {types}, PRIMARY KEY (slice, key))")
        self._make(create, table)
        index_found = Call(f"SELECT 1 WHERE to_regclass('{table}_lexemes') IS NOT NULL")
        if is_searched and not self._log.database.ask(index_found)[0]:
            # Only run if the index is missing: even IF NOT EXISTS would wait for transactions that write rows.
            if not self._log.database.ask(Call(COMPUTED, (table.encode(),)))[0]:
                # Earlier versions stored vectors with the places of words.
                self._make(Call(f"ALTER TABLE {table} DROP COLUMN IF EXISTS vector"))
                self._make(Call(f"ALTER TABLE {table} ADD COLUMN IF NOT EXISTS {VECTOR}"))
            self._make(Call(f"CREATE INDEX IF NOT EXISTS {table}_newest ON {table} (slice, recorded_at)"))
            self._make(Call(f"CREATE INDEX IF NOT EXISTS {table}_lexemes ON {table} USING gin (vector)"))
        if not self._log.is_distributed:
            self._drop_left_over(table, checkpoint)
        self._made.add(table)
        return []

    def _drop_left_over(self, table: str, checkpoint: Call) -> None:
        """Delete rows whose checkpoint somebody removed: the events would be folded into them once more."""
        left_over = f"FROM {table} WHERE NOT EXISTS ({checkpoint.sql})"
        if self._log.database.ask(Call(f"SELECT 1 {left_over} LIMIT 1", checkpoint.values))[0]:
            # In one statement: another process may store its first rows and their checkpoint.
            self._log.database.ask(Call(f"DELETE {left_over}", checkpoint.values))

    def _make_common(self) -> bool:
        """Make the tables that all projections share, as `_make_once` does."""
        return self._make_once("checkpoint", MAKE_CHECKPOINTS) and self._make_once("note", MAKE_NOTES)

    def _make_once(self, name: str, call: Call) -> bool:
        """Make a table, unless the database is only read; return whether it is there."""
        if self._log.database.read_only:
            return self._log.database.ask(Call(f"SELECT to_regclass('{name}')::text"))[0] != [(None,)]
        if name not in self._made:
            self._make(call, name)
            self._made.add(name)
        return True

    def _is_made(self, projection: Projection) -> bool:
        """Make the table of a projection, unless the database is only read; return whether there may be rows."""
        if self._log.database.read_only and self.checkpoint(projection) == BEGINNING:
            return False
        self._make_table(projection)
        return True

    def _make(self, call: Call, table: str | None = None) -> None:
        calls = [call]
        if table is not None and self._log.is_distributed:
            calls = [BEGIN, SEQUENTIAL, call, distribution(table), COMMIT]

        def make(wire: Wire) -> None:
            try:
                wire.run(*calls)
            except MADE_BY_ANOTHER:
                wire.settle()
            except errors.InsufficientPrivilege as error:
                remedy = "let the owner of the tables do it, or run `refold init`"
                where = self._log.database.where
                raise StorageReadOnlyError(f"{where} forbids it ({first_line(error)}): {remedy}") from error

        try:
            self._log.database.reading(make)
        except StorageReadOnlyError:
            # If `refold init` made the table, or the primary before this server became a standby, it can be read.
            if table is None or self._log.database.ask(Call(f"SELECT to_regclass('{table}')::text"))[0] == [(None,)]:
                raise

    def _drop_table(self, projection: Projection) -> Sequence[Statement]:
        table = self.sql.table(projection)
        self._made.discard(table)
        # A runner that stored the first rows, after `_drops` looked, has committed their checkpoint by now.
        return [WAIT_BRIEFLY, Statement(self._dropping(table)), *self._forgets(projection)]

    def _dropping(self, table: str) -> str:
        """Return the statement that drops a table, or empties that of another user, as for the role that erases."""
        drop, end = f"DROP TABLE IF EXISTS {table}", f"WHEN insufficient_privilege THEN DELETE FROM {table}; END $$"
        return drop if self._log.is_distributed else f"DO $$ BEGIN {drop}; EXCEPTION {end}"

    def drop_others(self, *known: Projection) -> None:
        self._make_common()
        views, stored = self._log.database.ask(Call(VIEWS), Call(PROJECTIONS))
        # Rows that are put together from partitions have a table without a checkpoint.
        tables = ((name, int(version)) for name, version in views)
        gone: list[Any] = [
            SimpleNamespace(name=name, version=version, row=SearchedRow)
            for name, version in {*stored, *tables} - {(one.name, one.version) for one in known}
            if STORED_NAME.fullmatch(name)
        ]
        drops = [statement for one in gone for statement in self._drops(one)]
        if drops:
            self._transact(lambda _: [WAIT_BRIEFLY, *drops])

    def _rename_table(self, shadow: Projection, projection: Projection) -> list[Statement]:
        built, live = self.sql.table(shadow), self.sql.table(projection)
        self._made.discard(built)
        return [
            Statement(f"ALTER TABLE {built} RENAME TO {live}"),
            # The key and the indexes are renamed as well: the next shadow needs their names. Citus renames no
            # constraint, but with its index a key gets the other name, too.
            Statement(f"ALTER INDEX {built}_pkey RENAME TO {live}_pkey"),
            *(
                Statement(f"ALTER INDEX IF EXISTS {built}_{one} RENAME TO {live}_{one}")
                for one in ("lexemes", "newest")
            ),
        ]

    def _copy_rows(self, shadow: Projection, parts: Sequence[Projection], plan: Plan) -> Callable[[Transaction], bool]:
        for one in (shadow, *parts):
            self._make_table(one)
        return lambda transaction: all(self._is_copied(transaction, one, shadow, plan) for one in parts)

    def _is_copied(self, transaction: Transaction, part: Projection, shadow: Projection, plan: Plan) -> bool:
        """Copy rows in batches: the wire gives up on a server that is silent for long. False if the plan changes."""
        table, after = self.sql.table(part), NO_ROW
        while self._is_noted(transaction, *plan):
            ahead = transaction.ask(Statement(AHEAD.format(table=table), (*after, WALKED_ROWS - 1)))[0]
            last = [(int4(place), key) for place, key in ahead]
            copy = (COPY_SOME if last else COPY_REST).format(table=table, into=self.sql.table(shadow))
            transaction.ask(Statement(copy, (*after, *chain(*last))))
            if not last:
                return True
            (after,) = last
        return False

    # Searching

    def _candidates(self, projection: Projection, query: SearchQuery) -> list[Any]:
        rows = self.sql.rows and f"r.{self.sql.rows}"
        of = {"table": self.sql.table(projection), "columns": _searched_columns(projection), "rows": rows}
        lexemes = " & ".join(map(_lexemes, query.terms))
        phrases = json.dumps([term.pattern for term in query.terms if " " in term.words])
        within = ((name, [f"[{one.start},{one.stop})" for one in many]) for name, many in (query.streams or {}).items())
        multiranges = {name: f"{{{','.join(ranges)}}}" for name, ranges in within}
        streams = None if query.streams is None else json.dumps(multiranges)
        values = (lexemes, phrases, query.kind, streams, query.candidates)
        return self._rows_asked(projection, Statement(FIND.format(**of), values))

    def index_fault(self, projection: Projection) -> None:
        """Return None: the server itself computes the index from the words of the rows."""


def _has_all(transaction: Transaction, events: Sequence[RecordedEvent]) -> bool:
    """Return whether the log still has these events."""
    digests = (Statement(DIGEST, (int4(one.position.slice), one.stream, int4(one.version))) for one in events)
    there = [[*map(tuple, rows)] for rows in transaction.ask(*digests)]
    return there == [[(one.digest,)] for one in events]


def _searched_columns(projection: Projection) -> str:
    """Return the columns of searched rows of a table `r`, with as many of their words as are ranked."""
    return columns(projection, "r.").replace('r."words"', f'substr(r."words", 1, {RANKED_CHARACTERS})')


def _lexemes(term: Term) -> str:
    # No escaping is needed: words contain neither quotation marks nor backslashes.
    return " & ".join(f"'{word}'" for word in term.words.split()) + ":*" * term.is_prefix
