"""
Appending on PostgreSQL: first the cached append, else the planned one under locks; also the numbers of event types.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import chain
from operator import attrgetter
from typing import NamedTuple

import psycopg

from ....domain.clock import System
from ....domain.concurrency.locks import renew_in_child
from ....domain.errors import (
    ConcurrencyError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageUnavailableError,
)
from ....domain.log.envelope import UNKEYED, Chain
from ....domain.log.ports import NewEvents, Receipt
from ..compression import Compression, key_in
from ..records import Request
from .blocks import Blocks
from .cached_append import End, ReadyAtEnds, Row, ends_of, guessed_slices, ready, received, rows_of, stream_rows_of
from .connection import PostgresDatabase, pause_before
from .errors import CALLED_OFF, DUPLICATE, first_line, is_lost_connection, is_silent, translate
from .locked_queries import Guard, Inquiry, StreamMovedError
from .planning import STORED, Answer, EventIds, Memory, NotKnownError, Order, Plan, inserts
from .wire import BEGIN, COMMIT, ROLLBACK, Call, Wire, int4

TAG_ATTEMPTS_MAX = 10
ATTEMPTS_MAX = 6
# SQLSTATE division_by_zero: the `look` statement raises it if the slice has another end than remembered.
STALE = "22012"
# The transaction that wrote the newest tag. It is another one when somebody has added a tag, and when the rows of an
# older copy of the database were put back under open connections: then tags and the dictionary may be gone. To look at
# it costs the server 2 to 5 of an append's microseconds.
LINEAGE = "coalesce((SELECT t.xmin::text FROM {p}tag AS t ORDER BY t.key DESC LIMIT 1), '')"
# Each server of a Citus cluster has tags of its own, written in transactions of its own.
LINEAGE_ON_CITUS = "coalesce((SELECT t.key || ' ' || t.name FROM {p}tag AS t ORDER BY t.key DESC LIMIT 1), '')"
# The keys of events that are not encrypted.
NO_KEYS: dict[int, bytes] = {}
WORTH_RETRYING = (DUPLICATE, *CALLED_OFF)


def number_tags(wire: Wire, table: str, lineage: str, wanted: Set[str]) -> tuple[dict[str, bytes], bytes]:
    """
    Return the numbers of all tags, after giving the wanted ones a number, and the lineage of these rows.

    New tags are added in their own transactions, because other processes may add the same ones.

    Raises:
        StorageBusyError: other processes were faster each time.
    """
    for _ in range(TAG_ATTEMPTS_MAX):
        rows = wire.run(Call(f"SELECT name, key, {lineage} FROM {table}"))[0]
        known = {name: int4(key) for name, key, _ in rows}
        missing = sorted(wanted - known.keys())
        if not missing:
            return known, rows[0][2].encode() if rows else b""
        last = max((key for _, key, _ in rows), default=0)
        insert = f"INSERT INTO {table} VALUES ($1, $2) ON CONFLICT DO NOTHING"
        wire.run(*(Call(insert, (int4(key), name.encode())) for key, name in enumerate(missing, last + 1)))
    raise StorageBusyError(f"new types of events could not be added to {table}: others did so all the time, try again")


class Interrupted(NamedTuple):
    """A cached append that failed: the id of its first event (0 if none was sent), and the error."""

    first_id: int
    failure: psycopg.Error


class OpenedTransaction(NamedTuple):
    """
    A cached append that has begun the transaction with the locks of its slices, and has sent no events; the planned
    append continues from there.
    """


class Appender:
    """Places requests in one log; not thread safe: its owner makes sure that one thread at a time uses it."""

    def __init__(
        self,
        database: PostgresDatabase,
        prefix: str,
        system: System,
        compression: Compression,
        guard: Guard | None = None,
        blocks: Blocks | None = None,
        chain: Chain = UNKEYED,
    ) -> None:
        self._blocks = blocks
        self._chain = chain
        self._database = database
        self._prefix = prefix
        self._system = system
        self._compression = compression
        # True while an append runs. If the next append finds it true, the last one was interrupted.
        self._is_at_stake = False
        self._lock = f"SELECT 1 FROM {prefix}slice_lock WHERE slice = $1 FOR UPDATE"
        self._guard = guard
        self._require_open_key = ""
        self._set_lineage(LINEAGE)
        self._after_fork()
        renew_in_child(self)

    def distribute(self) -> None:
        """Expect the tables to be distributed over the servers of a Citus cluster."""
        self._set_lineage(LINEAGE_ON_CITUS)
        self._after_fork()

    def require_open_keys(self, statement: str) -> None:
        """
        Run this statement, which fails if a key may encrypt no event any more, in each append: `{key}` is its value.

        It runs after the locks are taken: a process that closes a key waits for all that hold them.
        """
        self._require_open_key = statement
        self._set_lineage(self._lineage)

    def _set_lineage(self, lineage: str) -> None:
        prefix = self._prefix
        self._lineage = lineage.format(p=prefix)
        # Divides by zero, which ends the transaction, if the last event of the slice is not the remembered one, or the
        # tags are not. It compares digests, not positions: an older copy of the database may have reached the same
        # position again.
        self._look = (
            f"SELECT 1 / (coalesce((SELECT e.digest FROM {prefix}event e WHERE e.slice = l.slice"
            f" ORDER BY e.position DESC LIMIT 1), ''::bytea) = $2 AND {self._lineage} = $3)::int"
        )
        of_slice = f" FROM {prefix}slice_lock l WHERE l.slice = $1"
        # The same, and whether a key may be used: a statement of its own would cost the server several times as much.
        self._look_at_key = f"{self._look}, ({self._require_open_key.format(key='$4')}){of_slice}"
        self._look += of_slice

    def _after_fork(self) -> None:
        # Another thread may have been changing it. And ids that continue the parent's would be given out twice.
        self._memory = Memory(self._chain)
        self._ids = EventIds()
        self._inquiry = Inquiry(self._memory, self._prefix, self._lock, self._lineage, self._guard, self._blocks)
        # The connection that the memory was read on: another connection may lead to another copy of the database.
        self._wire: Wire | None = None

    def known_slice(self, stream: str) -> int | None:
        """Return the slice of a stream, or None if it is not remembered."""
        return self._memory.slices.get(stream)

    def distrust(self) -> None:
        """Make the next append read everything again, as on a new connection; may be called from any thread."""
        self._wire = None

    def append(
        self,
        slices: Collection[int],
        draft: Callable[[], Sequence[Request]],
        before: Interrupted | OpenedTransaction | None = None,
    ) -> list[Answer]:
        """
        Append the requests that `draft` returns, and return the result of each.

        All requests that are not refused are written in one transaction. `slices` are the known slices of the streams,
        and for new streams those they will get. `draft` is called once, while the server already works.

        Raises:
            StorageError: the database failed; nothing was written, unless the error says otherwise.
        """
        if before is None:
            self._settle_interrupted()
        orders: list[Order] = []
        interrupted = before if isinstance(before, Interrupted) else None

        def drafted() -> list[Order]:
            if not orders:
                orders.extend(self._orders(draft(), interrupted))
            return orders

        with self._forgetting_unless_written(slices):
            failure = interrupted.failure if interrupted else None
            is_begun = isinstance(before, OpenedTransaction)
            # A prediction of the end of a shared slice would fail.
            is_predicted = is_begun or self._memory.shared.keys().isdisjoint(slices)
            if failure is None and is_predicted and all(number in self._memory.slice_ends for number in slices):
                try:
                    answers = self._append_by_memory(sorted(slices), drafted, is_begun=is_begun)
                    if answers is not None:
                        return answers
                except psycopg.Error as error:
                    failure = self._retryable(error, slices)
            return self._append_locked(drafted(), failure)

    def append_copies(self, slices: Collection[int], request: Request) -> list[Answer]:
        """
        Append events of another log, as `append` does, also those whose keys are closed there.

        Raises:
            StorageError: as above.
        """
        statement, self._require_open_key = self._require_open_key, ""
        try:
            return self.append(slices, lambda: [request])
        finally:
            self._require_open_key = statement

    def append_cached(self, news: Sequence[NewEvents]) -> list[Receipt] | Interrupted | OpenedTransaction | None:
        """
        Append to streams of different slices in one round trip, or in two if another process writes there, too; None
        if the cached append cannot.

        If it only began, or failed with a passing error, call `append` with its result.

        Raises:
            StorageError: as above.
        """
        self._settle_interrupted()
        guesses = guessed_slices(news, self._memory) if self._memory.shared else None
        ends = None if guesses else ends_of(news, self._memory)
        if ends is None and guesses is None:
            return None
        slices = [*guesses.values()] if guesses else [end.slice for end in ends or ()]
        first_id = 0
        try:
            wire = self._database.writer()
            if wire is not self._wire:
                return None
            self._is_at_stake = True
            if ends is not None:
                # The server takes the locks while the events are encoded here.
                wire.send(BEGIN, *self._locks_and_looks(ends, news))
            together = ready(news, self._memory, self._compression)
            if guesses:
                # Others wait for these locks, so the events are encoded before.
                self._inquiry.read_ends(wire, guesses)
                ends = ends_of(news, self._memory)
            if together is None or ends is None:
                return OpenedTransaction()
            now = self._now()
            # A loop: a function call for each stream would cost more.
            count = 0
            for new in news:
                count += len(new.events)
            first_id = self._ids.take(count, now)
            placed = [*zip(together, ends, strict=True)]
            rows = rows_of(placed, first_id, now, self._chain)
            checks = self.key_checks(row[STORED] for row in rows) if guesses else ()
            wire.dispatch(*checks, *self._inserts(placed, rows), COMMIT)
            receipts = received(placed, rows, self._memory)
            wire.conclude()
        except StreamMovedError:
            self._database.settle_writer()
            self._is_at_stake = False
            return None
        except BaseException as error:
            return Interrupted(first_id, self._forget_and_retry(error, slices))
        if guesses or self._memory.opened:
            self._memory.keep(slices)
        self._is_at_stake = False
        return receipts

    def _settle_interrupted(self) -> None:
        """If an interrupt ended the last append, forget all that it remembered: it may not have been written."""
        if self._is_at_stake:
            self._memory.forget()
            self._database.settle_writer()
            self._is_at_stake = False

    def _inserts(self, placed: ReadyAtEnds, rows: Sequence[Row]) -> Iterator[Call]:
        calls = inserts(self._prefix + "event", rows)
        opened = stream_rows_of(placed)
        return chain(inserts(self._prefix + "stream", opened), calls) if opened else calls

    def key_checks(self, stored: Iterable[bytes | None]) -> list[Call]:
        """Return the statements that fail if a key of these events, in their stored form, may be used no more."""
        if not self._require_open_key:
            return []
        keys = {key for one in stored if one is not None and (key := key_in(one))}
        return [Call(self._require_open_key.format(key="$1"), (key,)) for key in sorted(keys)]

    def _forget_and_retry(self, error: BaseException, slices: Iterable[int]) -> psycopg.Error:
        # This comes before anything that can be interrupted, because the memory may have advanced already.
        self._memory.forget(slices)
        self._database.settle_writer()
        if not isinstance(error, psycopg.Error):
            raise error
        try:
            return self._retryable(error, slices)
        except psycopg.Error:
            raise translate(error, self._database.where) from error

    def _locks_and_looks(self, ends: Sequence[End], news: Sequence[NewEvents]) -> list[Call]:
        calls: list[Call] = []
        keys = _keys_of(ends, news) if self._require_open_key else NO_KEYS
        # In the order of slices, like all writers: else two of them could wait for each other.
        for number, slice_end, _ in ends if len(ends) == 1 else sorted(ends, key=attrgetter("slice")):
            where, key = int4(number), keys and keys[number]
            values = (where, slice_end.digest, self._memory.lineage)
            look = Call(self._look_at_key, (*values, key)) if key else Call(self._look, values)
            calls += (Call(self._lock, (where,)), look)
        return calls

    def locks(self, slices: Iterable[int]) -> list[Call]:
        """Return the statements that lock slices."""
        return [Call(self._lock, (int4(number),)) for number in slices]

    def _looks(self, ends: Mapping[int, bytes]) -> list[Call]:
        return [Call(self._look, (int4(number), digest, self._memory.lineage)) for number, digest in ends.items()]

    def _is_new(self, wire: Wire) -> bool:
        """Return whether this is a new connection; if so, forget all that was read on the last one."""
        if wire is self._wire:
            return False
        self._memory.forget_all()
        self._wire = wire
        return True

    @contextmanager
    def _forgetting_unless_written(self, slices: Collection[int]) -> Iterator[None]:
        """Forget the plan if it is not written, and translate psycopg's errors."""
        self._is_at_stake = True
        try:
            yield
        except BaseException as error:
            self._memory.forget()
            if isinstance(error, psycopg.Error):
                raise translate(error, self._database.where) from error
            raise
        self._memory.keep(slices)
        self._is_at_stake = False

    def _retryable(self, error: psycopg.Error, slices: Iterable[int]) -> psycopg.Error:
        """Return an error after which the locked append may succeed; raise any other."""
        if error.sqlstate in (STALE, *WORTH_RETRYING):
            # Only the memory of these slices is wrong.
            if error.sqlstate == STALE:
                self._memory.note_overtaken(slices)
            self._memory.forget(slices)
            return error
        self._memory.forget()
        if is_lost_connection(error):
            return error
        raise error

    def _append_by_memory(
        self, slices: Sequence[int], drafted: Callable[[], list[Order]], *, is_begun: bool
    ) -> list[Answer] | None:
        """Append in one round trip; None if the memory does not suffice."""
        ends = {number: self._memory.slice_ends[number].digest for number in slices}
        with self._database.writing(under_way=is_begun) as wire:
            if self._is_new(wire):
                return None
            if not is_begun:
                wire.send(BEGIN, *self.locks(slices), *self._looks(ends))
            assert wire.is_in_transaction, "rows must not go out without their lock"
            orders = drafted()
            plan = Plan(self._memory, self._now(), self._compression)
            try:
                answers = plan.answers(orders)
            except NotKnownError:
                if plan.size:
                    self._memory.forget(slices)
                wire.run(ROLLBACK)
                return None
            self._write(wire, plan)
            wire.conclude()
        return answers

    def append_with(self, requests: Sequence[Request], work: Callable[[Wire], None]) -> list[Answer]:
        """
        Append requests in one transaction with `work`, which runs once the slices of all parts are locked, unless one
        of them is refused: then nothing is done.

        Raises:
            StorageError: the database failed; nothing was written, unless the error says otherwise.
        """
        self._settle_interrupted()
        slices = {part.slice for request in requests for part in request.parts}
        with self._forgetting_unless_written(slices):
            return self._append_locked(self._orders(requests, None), None, work)

    def _append_locked(
        self, orders: list[Order], failure: psycopg.Error | None, work: Callable[[Wire], None] | None = None
    ) -> list[Answer]:
        # Whether a COMMIT may have been sent whose answer was not received.
        is_uncertain = failure is not None and is_lost_connection(failure)
        unreachable: StorageError | None = None
        for attempt in range(ATTEMPTS_MAX):
            if attempt and failure is not None:
                pause_before(attempt - 1)
            is_sent = False
            try:
                with self._database.writing() as wire:
                    self._is_new(wire)
                    plan, answers = self._planned(wire, orders, look_for_ids=failure is not None)
                    if work is not None:
                        if any(isinstance(answer, ConcurrencyError) for answer in answers):
                            # A refused request changes nothing: the work belongs to the events that would record it.
                            wire.run(ROLLBACK)
                            return answers
                        work(wire)
                    is_sent = True
                    self._write(wire, plan)
                    wire.conclude()
                    return answers
            except StreamMovedError:
                continue
            except (StorageUnavailableError, StorageBusyError, StorageFullError) as error:
                # Wait for an unreachable server only if it was reachable a moment ago.
                if failure is None:
                    raise
                unreachable = error
                if is_silent(error):
                    break
            except psycopg.Error as error:
                self._memory.forget()
                failure = error
                is_uncertain = is_uncertain or (is_sent and is_lost_connection(error))
                if not (is_lost_connection(error) or error.sqlstate in WORTH_RETRYING):
                    break
        raise self._outcome(failure, unreachable, is_uncertain=is_uncertain) from (failure or unreachable)

    def _planned(self, wire: Wire, orders: list[Order], *, look_for_ids: bool) -> tuple[Plan, list[Answer]]:
        wanted = {draft.tag for order in orders for part in order.request.parts for draft in part.drafts}
        if not wanted <= self._memory.tags.keys():
            is_first = not self._memory.tags
            self._memory.tags, self._memory.lineage = number_tags(wire, self._prefix + "tag", self._lineage, wanted)
            if is_first and self._guard is not None:
                self._guard.check(wire)
        found = self._inquiry.run(wire, orders, look_for_ids=look_for_ids)
        plan = Plan(self._memory, self._now(), self._compression, found)
        return plan, plan.answers(orders)

    def _write(self, wire: Wire, plan: Plan) -> None:
        """Send the rows and COMMIT: in one trip, unless the rows are too large for one."""
        wire.dispatch_all([*self.key_checks(plan.stored()), *plan.calls(self._prefix), COMMIT])

    def _orders(self, requests: Sequence[Request], interrupted: Interrupted | None) -> list[Order]:
        counts = [sum(len(part.drafts) for part in request.parts) for request in requests]
        first_id = (interrupted and interrupted.first_id) or self._ids.take(sum(counts), self._now())
        orders = []
        for request, count in zip(requests, counts, strict=True):
            orders.append(Order(request, first_id))
            first_id += count
        return orders

    def _now(self) -> int:
        return int(self._system.now() * 1_000_000)

    def _outcome(
        self, failure: psycopg.Error | None, unreachable: StorageError | None, *, is_uncertain: bool
    ) -> Exception:
        if is_uncertain:
            last = failure if unreachable is None else unreachable.__cause__
            reason = f" ({first_line(last)})" if isinstance(last, psycopg.Error) else ""
            return StorageUnavailableError(
                f"{self._database.where} went away while events were handed to it and cannot be reached again{reason}:"
                " look whether they are recorded before you repeat them, or give them an idempotency key"
            )
        # Nothing was written. An unreachable server at the next try is a better reason than the error before it.
        if unreachable is not None:
            return unreachable
        if failure is None or failure.sqlstate == STALE:
            return StorageUnavailableError(f"{self._database.where}: streams turned up elsewhere again and again")
        return failure


def _keys_of(ends: Sequence[End], news: Sequence[NewEvents]) -> dict[int, bytes]:
    """Return the id of the key of encrypted events, by slice: the events of a stream share one key."""
    pairs = zip(ends, news, strict=True)
    return {end.slice: getattr(new.events[0], "k", "").encode() if new.events else b"" for end, new in pairs}
