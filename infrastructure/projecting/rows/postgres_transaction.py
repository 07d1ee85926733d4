"""
A transaction on rows of projections on PostgreSQL: its round trips, its waiting for tables, values in binary form.

A table can be dropped or renamed only while nobody reads it, and all later statements wait behind one that waits for
this. So such a statement waits briefly, lets the others go first, and is tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain
from struct import Struct
from typing import Any

import msgspec
from msgspec.structs import astuple
from psycopg import errors

from ....domain.errors import DamagedError, StorageBusyError
from ....projections.contract import Projection
from ...log.postgres.connection import pause_before
from ...log.postgres.errors import first_line
from ...log.postgres.schema import MADE_BY_ANOTHER
from ...log.postgres.wire import BEGIN, COMMIT, TRIP_BYTES_MAX, Call, Wire, int8, trips
from ...log.row_faults import REBUILD
from ..store import Values, columns_of
from .database import Dialect, Statement, Work, in_batches, without_nul

WAIT_BRIEFLY = Statement("SET LOCAL lock_timeout = '1s'")
# With the pauses between them, 9 s.
TABLE_ATTEMPTS_MAX = 5
IN_USE = (
    "a long transaction on the server uses rows of a projection that are to be replaced or dropped: end it"
    " (pg_stat_activity names it), then try again"
)
float8 = Struct("!d").pack


class WireTransaction:
    """A transaction that begins with its first statements, in the same round trip."""

    def __init__(self, wire: Wire, sql: Dialect, *, is_begun: bool = False) -> None:
        self._wire = wire
        self._sql = sql
        self.is_begun = is_begun

    def ask(self, *statements: Statement) -> list[Any]:
        calls = [*map(call_of, statements)]
        if self.is_begun:
            return self._wire.run(*calls)
        self.is_begun = True
        return self._wire.run(BEGIN, *calls)[1:]

    def _row_values(self, row: Any) -> list[bytes | None]:
        # Where rows are spread, the slice is the first value.
        place = [self._sql.slice_of_key(row.key)] if self._sql.slice_of_key else []
        # By the types of the columns: to look at the type of each value takes twice the time.
        packs = zip(_packs(row.__class__), astuple(row), strict=True)
        return [*place, *[None if value is None else pack(value) for pack, value in packs]]

    def put(self, projection: Projection, rows: Iterable[msgspec.Struct]) -> None:
        try:
            for trip in trips(_puts(self._sql, projection, [*map(self._row_values, rows)])):
                self._wire.run_trip(trip)
        except (errors.DataError, errors.DatatypeMismatch) as error:
            # Rows have values that every column of their type takes, so the column was altered.
            what = f"the table of {projection.name}"
            raise DamagedError(what, f"it refuses a row ({first_line(error)})", remedy=REBUILD) from error


def carried_out(work: Work, wire: Wire, sql: Dialect, before: Sequence[Statement]) -> list[list[Values]] | None:
    """
    Run a transaction after the statements `before`; return None if `work` cancels it or another process came first.

    Raises:
        StorageBusyError: a table that it drops or renames stayed in use.
    """
    for attempt in range(1, TABLE_ATTEMPTS_MAX + 1):
        transaction, last = WireTransaction(wire, sql), list[Statement]()
        try:
            if before:
                transaction.ask(*before)
            found = work(transaction)
            if found is None:
                # The lender of the connection rolls back what is left open on it.
                return None
            last += found
            return transaction.ask(*last, Statement(COMMIT.sql))[:-1]
        except MADE_BY_ANOTHER:
            # Both processes added the first row, such as a first checkpoint; a missing row cannot be locked.
            return None
        except errors.LockNotAvailable as error:
            if WAIT_BRIEFLY not in last:
                raise
            if attempt == TABLE_ATTEMPTS_MAX:
                raise StorageBusyError(IN_USE) from error
            wire.settle()
            pause_before(attempt)
    raise AssertionError("the loop returns or raises")


def call_of(statement: Statement) -> Call:
    """Return a statement with its values in binary form."""
    return Call(statement.sql, [_binary(value) for value in statement.values])


def _puts(dialect: Dialect, projection: Projection, rows: Sequence[list[bytes | None]]) -> Iterator[Call]:
    """Yield the statements that store rows, given by their values: many in one, unless that is too large for a trip."""
    for lot in in_batches(rows, dialect.rows_at_once):
        call = Call(dialect.put_rows(projection, len(lot)), [*chain.from_iterable(lot)])
        if len(lot) > 1 and call.size > TRIP_BYTES_MAX:
            yield from (Call(dialect.put_rows(projection, 1), one) for one in lot)
        else:
            yield call


@cache
def _packs(row: type[msgspec.Struct]) -> tuple[Callable[[Any], bytes], ...]:
    return tuple(_PACKS[column.type] for column in columns_of(row) if column.type is not None)


def _text(value: str) -> bytes:
    return str(without_nul(value)).encode()


# A whole number fits a field of floats, but its eight bytes mean another float.
_PACKS: dict[type, Callable[[Any], bytes]] = {
    str: _text,
    int: int8,
    bytes: bytes,
    float: lambda one: float8(float(one)),
}


def _binary(value: int | str | bytes | None) -> bytes | None:
    if isinstance(value, str):
        return _text(value)
    return int8(value) if isinstance(value, int) else value
