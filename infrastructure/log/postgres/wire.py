"""
The wire: many statements, one round trip.

The statements of a trip are handed to libpq together, and it alone decides when to write to the socket; psycopg's own
pipeline writes once per statement and costs twice as much. A trip may be opened early, so that the server works on its
first statements while this process still prepares the last (`send`, then `run`). Values go out and come back in
PostgreSQL's binary form.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from struct import Struct
from time import monotonic
from typing import Any, NamedTuple

from psycopg import Connection, Error, OperationalError
from psycopg.abc import PQGen
from psycopg.adapt import Transformer
from psycopg.errors import QueryCanceled, ReadOnlySqlTransaction, error_from_result
from psycopg.pq import ConnStatus, DiagnosticField, ExecStatus, TransactionStatus
from psycopg.pq.abc import PGresult
from psycopg.waiting import Ready, Wait

from ....domain.concurrency.locks import keep_for_ever, renew_in_child
from ..row_faults import incomplete_insert_error

PATIENCE_SECONDS = 30.0
CANCEL_SECONDS = 5.0
PREPARED_MAX = 200
# A trip with more bytes of values is divided.
TRIP_BYTES_MAX = 4 << 20
TRIP_CALLS_MAX = 500
CALLS_MAX = 256
SILENCE = "no answer for so long: the server hangs, or a pooler has no connection to lend"
FATAL = (b"FATAL", b"PANIC")
FINE = (ExecStatus.COMMAND_OK, ExecStatus.TUPLES_OK)
Rows = list[tuple[Any, ...]]
int4 = Struct("!i").pack
int8 = Struct("!q").pack


class SilentError(OperationalError):
    """The server, or the pooler in front of it, gave no answer within the time limit."""


class Call(NamedTuple):
    """A statement with `$1`, `$2` ... and its values in binary form; with `rows`, an INSERT of so many rows."""

    sql: str
    values: Sequence[bytes | None] = ()
    rows: int = 0

    @property
    def size(self) -> int:
        """How many bytes its values have together."""
        return sum(map(len, filter(None, self.values)))


BEGIN = Call("BEGIN ISOLATION LEVEL READ COMMITTED")
# All its statements see one moment.
BEGIN_STILL = Call("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
COMMIT = Call("COMMIT")
ROLLBACK = Call("ROLLBACK")
# The setting ends with its transaction: a pooler would hand on one of the session to other clients.
FORBID_CHANGES = Call("SELECT set_config('transaction_read_only', 'on', true)")


class Wire:
    """
    One connection. With `prepares`, a statement is prepared when it is sent a second time. Behind a pooler this is off,
    because another server process may run the next transaction. With `read_only` the server refuses every change.
    """

    def __init__(
        self, connection: Connection[Any], *, patience_seconds: float = PATIENCE_SECONDS, read_only: bool = False
    ) -> None:
        self.prepares = False
        self._read_only = read_only
        self.trips = 0
        self._connection = connection
        self._pgconn = connection.pgconn
        self._patience = patience_seconds
        self._waiting: _Patience | None = None
        self._transformer = Transformer(connection)
        self._seen: set[str] = set()
        self._names: dict[str, bytes] = {}
        # The answers that are due: None for each execution, the text of a statement for each preparation, and an empty
        # one where nobody asked.
        self._owed: list[str | None] = []
        # The statements that must write rows, each with its place among them.
        self._written: list[tuple[int, Call]] = []
        renew_in_child(self)

    def _after_fork(self) -> None:
        let_go(self._connection)

    @property
    def is_lost(self) -> bool:
        """Whether the connection is gone."""
        return self._pgconn.status == ConnStatus.BAD

    def has_ended(self) -> bool:
        """
        Return whether this connection was closed while nobody used it, for example by a timeout or a restart of the
        server or of a pooler.
        """
        try:
            # The first call reads the last message of the server, the second one finds the end.
            self._pgconn.consume_input()
            self._pgconn.consume_input()
        except OperationalError:
            return True
        return self.is_lost

    @property
    def is_under_way(self) -> bool:
        """Whether a trip was begun and is not finished."""
        return bool(self._owed)

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction was begun, or the trip that begins it."""
        return bool(self._owed) or self._pgconn.transaction_status == TransactionStatus.INTRANS

    def run(self, *calls: Call) -> list[Rows]:
        """
        Run statements in one round trip, with those that `send` began it with, and return the rows of each.

        Raises:
            psycopg.Error: a statement failed, and the ones after it were skipped.
        """
        self.dispatch(*calls)
        return [self._rows(result) for result in self._arrive()]

    def send(self, *calls: Call) -> None:
        """Open a trip, or continue it: send statements without waiting for answers."""
        self._hand_all_over(calls, self._pgconn.flush)

    def dispatch(self, *calls: Call) -> None:
        """Send the last statements of a trip; the caller may do other work before `conclude`."""
        self._hand_all_over(calls, self._pgconn.pipeline_sync)

    def dispatch_all(self, calls: Iterable[Call]) -> None:
        """Send statements like `dispatch`; if they have many bytes, the first in trips that are finished before."""
        *earlier, last = trips(calls)
        for trip in earlier:
            self.run_trip(trip)
        self.dispatch(*last)

    def conclude(self) -> None:
        """Wait for the end of a trip whose rows are not needed."""
        self._arrive()

    def run_trip(self, trip: Sequence[Call]) -> list[Rows]:
        """Run the statements of a round trip, as `trips` groups them."""
        return [self.run_apart(trip[0])] if trip[0].size > TRIP_BYTES_MAX else self.run(*trip)

    def run_apart(self, call: Call) -> Rows:
        """Run one statement alone, after the trip that was begun: it has too many bytes for a pipeline."""
        if self._owed:
            self.run()
        try:
            values = list(call.values)
            self._pgconn.send_query_params(call.sql.encode(), values, None, _binary(len(values)), 1)
            (result,) = self._connection.wait(self._answers(pipelined=False))
        except BaseException:
            self.close()
            raise
        self.trips += 1
        return self._rows(self._checked([None], [result], [(0, call)] if call.rows else [])[0])

    def settle(self) -> bool:
        """End the transaction that an error left open, and return whether the connection can be used again."""
        if self._owed:
            self.close()
        if self._pgconn.transaction_status not in (TransactionStatus.IDLE, TransactionStatus.UNKNOWN):
            try:
                self.run(ROLLBACK)
            except Error:
                self.close()
        return not self.is_lost

    @contextmanager
    def given_up(self) -> Iterator[Connection[Any]]:
        """Lend psycopg's connection for a block, and close it after that, with all that was set on it."""
        try:
            yield self._connection
        finally:
            self.close()

    def close(self) -> None:
        """Close the connection; may be called twice."""
        self._owed, self._written = [], []
        self._connection.close()

    def _hand_all_over(self, calls: Sequence[Call], end: Callable[[], object]) -> None:
        try:
            self._hand_over(calls)
            end()
        except BaseException:
            self.close()
            raise

    def _hand_over(self, calls: Sequence[Call]) -> None:
        sent = [*self._forbidding(calls)] if self._read_only else calls
        if not self._owed:
            self._pgconn.enter_pipeline_mode()
        for call in sent:
            # psycopg before 3.3 takes values in a list only.
            sql, values = call.sql, list(call.values)
            name = self._names.get(sql)
            if name is not None:
                self._pgconn.send_query_prepared(name, values, _binary(len(values)), 1)
            elif sql in self._seen and len(self._names) < PREPARED_MAX:
                name = b"refold_%d" % len(self._names)
                self._names[sql] = name
                self._owed.append(sql)
                self._pgconn.send_prepare(name, sql.encode())
                self._pgconn.send_query_prepared(name, values, _binary(len(values)), 1)
            else:
                self._pgconn.send_query_params(sql.encode(), values, None, _binary(len(values)), 1)
                if self.prepares:
                    self._seen.add(sql)
            if call.rows:
                self._written.append((len(self._owed), call))
            self._owed.append("" if call is FORBID_CHANGES else None)

    def _forbidding(self, calls: Sequence[Call]) -> Iterator[Call]:
        """Yield statements, and in each transaction, before it can change anything, the one that forbids it."""
        is_begun = self.is_under_way or self._pgconn.transaction_status != TransactionStatus.IDLE
        for call in calls:
            begins = call.sql.startswith("BEGIN")
            if not (is_begun or begins):
                yield FORBID_CHANGES
            yield call
            if begins:
                yield FORBID_CHANGES
            is_begun = call not in (COMMIT, ROLLBACK)

    def _arrive(self) -> list[PGresult]:
        try:
            results = self._connection.wait(self._answers())
            self._pgconn.exit_pipeline_mode()
        except BaseException:
            # The remaining answers of the server would be taken for answers to later statements.
            self.close()
            raise
        owed, written, self._owed, self._written = self._owed, self._written, [], []
        self.trips += 1
        return self._checked(owed, results, written)

    def _checked(
        self, owed: list[str | None], results: list[PGresult], written: Sequence[tuple[int, Call]]
    ) -> list[PGresult]:
        """Return the results of executions whose rows are asked for."""
        for result in results:
            if result.status not in FINE:
                self._forget_unprepared(owed, results)
                error = error_from_result(result)
                if isinstance(error, ReadOnlySqlTransaction) and not self._read_only:
                    # A new connection may find the primary, or a database that is writable again.
                    self.close()
                if isinstance(error, QueryCanceled) and self._waiting is not None and self._waiting.has_cancelled:
                    # The server says that a user asked for it.
                    why = f"no answer for {self._patience:g} s, as while another transaction holds a lock"
                    raise QueryCanceled(why) from error
                raise error
        if len(results) != len(owed):
            self.close()
            raise OperationalError("the server gave another number of answers than it was asked for")
        for place, call in written:
            if results[place].command_tuples != call.rows:
                raise incomplete_insert_error(call.sql.split()[2], results[place].command_tuples or 0, call.rows)
        if owed.count(None) == len(owed):
            return results
        return [result for statement, result in zip(owed, results, strict=True) if statement is None]

    def _rows(self, result: PGresult) -> Rows:
        count = result.ntuples
        if not count:
            return []
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, count, tuple)

    def _forget_unprepared(self, owed: list[str | None], results: list[PGresult]) -> None:
        # Names are numbered, so all names after the first failure are dropped, and none before it.
        for statement, result in zip(owed, results, strict=False):
            if statement is not None and result.status != ExecStatus.COMMAND_OK:
                self._names.pop(statement, None)

    def _answers(self, *, pipelined: bool = True) -> PQGen[list[PGresult]]:
        """
        Collect the answers of a trip; psycopg resumes this when there is something to read, or after a while without
        anything.
        """
        pgconn = self._pgconn
        patience = self._waiting = _Patience(self._connection, self._patience)
        while pgconn.flush():
            ready = yield Wait.RW
            patience.check(ready)
            if ready & Ready.R:
                pgconn.consume_input()
        results: list[PGresult] = []
        while True:
            while pgconn.is_busy():
                ready = yield Wait.R
                patience.check(ready)
                if ready:
                    self._consume(results)
            result = pgconn.get_result()
            if result is None:
                if self.is_lost:
                    raise OperationalError("the server closed the connection")
                if not pipelined:
                    return results
            elif result.status == ExecStatus.PIPELINE_SYNC:
                return results
            else:
                results.append(result)

    def _consume(self, results: Sequence[PGresult]) -> None:
        """Read what the server sent. If it closed the connection, raise an error with its reason, if it gave one."""
        try:
            self._pgconn.consume_input()
        except OperationalError as error:
            for result in results:
                # A pooler's own errors, as pgbouncer's, have no field that is the same in every language.
                severity = DiagnosticField.SEVERITY_NONLOCALIZED, DiagnosticField.SEVERITY
                if any(result.error_field(field) in FATAL for field in severity):
                    message = result.error_field(DiagnosticField.MESSAGE_PRIMARY) or b""
                    raise OperationalError(message.decode(errors="replace")) from error
            raise


def trips(calls: Iterable[Call]) -> Iterator[list[Call]]:
    """Group statements into round trips; a statement that is larger than a trip gets one of its own."""
    trip: list[Call] = []
    size = 0
    for call in calls:
        if trip and (len(trip) == TRIP_CALLS_MAX or size + call.size > TRIP_BYTES_MAX):
            yield trip
            trip, size = [], 0
        trip.append(call)
        size += call.size
    if trip:
        yield trip


def in_round_trips(run: Callable[..., list[Rows]], calls: Sequence[Call]) -> list[Rows]:
    """Return the rows of each statement, a bounded number of them in one round trip."""
    return [rows for start in range(0, len(calls), CALLS_MAX) for rows in run(*calls[start : start + CALLS_MAX])]


class _Patience:
    """
    The time to wait for a silent server. When it is over, the server is asked once to cancel the statement: it must not
    run later, when nobody waits for it.
    """

    def __init__(self, connection: Connection[Any], seconds: float) -> None:
        self._connection = connection
        self._seconds = seconds
        self._deadline = monotonic() + seconds
        self.has_cancelled = False

    def check(self, ready: int) -> None:
        """Note whether the server sent something (`ready`)."""
        if ready:
            self._deadline = monotonic() + self._seconds
            return
        if monotonic() < self._deadline:
            return
        if self.has_cancelled:
            raise SilentError(SILENCE)
        self.has_cancelled = True
        try:
            self._connection.cancel_safe(timeout=CANCEL_SECONDS)
        except OperationalError as error:
            raise SilentError(SILENCE) from error
        self._deadline = monotonic() + CANCEL_SECONDS


def let_go(connection: Connection[Any]) -> None:
    """Let go, in a child process, of the socket of a connection of the parent's."""
    pgconn = connection.pgconn
    if pgconn.status == ConnStatus.BAD:
        return
    # The socket belongs to the parent. Here nothing may be read from it or sent on it, not even the message that ends
    # the connection. And while it is open here, the server would not notice the parent's end.
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, pgconn.socket, inheritable=False)
    os.close(nowhere)
    keep_for_ever(connection)


@cache
def _binary(count: int) -> list[int]:
    return [1] * count
