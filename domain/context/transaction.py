"""
A transaction: changes to several contexts that are recorded in one append, or not at all.

Within the block, every context decides on its own view of the coming state; the log gets the events only at the end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

import msgspec

from ..canonical import FINGERPRINT_BYTES, fingerprint, require_given_key
from ..clock import REAL_SYSTEM
from ..concurrency.locks import News
from ..concurrency.threads import OwnThreads, in_thread_or_here
from ..errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, RefoldError, StorageBusyError
from ..ids import split_stream_id
from ..log.envelope import Event, Meta, RecordedEvent
from ..log.gate import behind_gate, gate_of
from ..log.ports import Log, NewEvents, Receipt, StreamEnd, require_known, require_same_call
from ..named_events import LogAhead

# How long a change waits for a transaction that has changed the same handle.
HANDLE_SECONDS_MAX = 10.0
# How often a waiting thread checks for the end by itself: an interrupt may come before it is woken.
LOOK_SECONDS = 0.1
# How often a waiting task checks for it.
TURN_SECONDS = 0.005
# Stands for the call of events that accompany other calls: those of a context that was opened or adopted.
NO_CALL = bytes(FINGERPRINT_BYTES)


class _Part(msgspec.Struct):
    """The events of one stream, and a function that gives its owner the result: a receipt, or None to roll back."""

    first: NewEvents
    # One list, which grows in one step: so an interrupt leaves no event without its meta.
    recorded: list[tuple[Event, Meta]]
    settle: Callable[[Receipt | None], None] | None

    def joined(self, key: str | None, whole: bytes | None) -> NewEvents:
        """
        Return the whole part. Its envelopes get the transaction's key, so that it stays known wherever they are copied.

        In each meta, the fingerprint of the `whole` transaction is followed by that of the event's call.
        """
        events, metas = tuple(event for event, _ in self.recorded), tuple(meta for _, meta in self.recorded)
        if key is not None and whole is not None:
            metas = tuple(
                msgspec.structs.replace(meta, idempotency_key=key, fingerprint=whole + (meta.fingerprint or NO_CALL))
                for meta in metas
            )
        return msgspec.structs.replace(self.first, events=events, metas=metas, idempotency_key=key)


def child_exists(stream: str) -> InvalidInputError:
    """Return the error for a fork or a branch whose id is taken: to decide again would not help."""
    made = "fork" if split_stream_id(stream)[0] == "chat" else "branch"
    return InvalidInputError(f"{stream} exists already: {made} under another id")


class Call(NamedTuple):
    """
    A call within a transaction that has a key.

    It has two fingerprints, that of the call alone and that of the call in this transaction; the events that were
    recorded before under the key in its stream; and those among them that this call recorded.
    """

    alone: bytes
    own: bytes
    recorded: list[RecordedEvent]
    events: list[RecordedEvent]


def is_of_no_call(recorded: bytes | None) -> bool:
    """Return whether an event with this fingerprint only accompanied the calls of a transaction."""
    return recorded is not None and recorded[FINGERPRINT_BYTES:] == NO_CALL


class Transaction:
    """The changes collected so far, one part per stream."""

    def __init__(self, log: Log, idempotency_key: str | None) -> None:
        self.log = log
        self.idempotency_key = idempotency_key
        self._parts: dict[str, _Part] = {}
        # Streams that get no events, and must have these versions still.
        self._compared: dict[str, NewEvents] = {}
        # Used only with a key. `_made`: for each call's own fingerprint, the fingerprint of the call alone and the
        # number of earlier calls that recorded events in its stream. `_repeated`: the calls that are repeated, by
        # stream. `_before` and `_events`: what was recorded before under the key.
        self._made: dict[bytes, tuple[bytes, int]] = {}
        self._repeated: dict[str, list[bytes]] = {}
        self._before: dict[str, list[RecordedEvent]] = {}
        self._events: dict[tuple[str, bytes], list[RecordedEvent]] = {}
        self._children = 0
        # The streams whose events must lie in the log before those of a stream.
        self._before_it: dict[str, set[str]] = {}
        # A task that was started within the block may run longer than it; its later changes do not join the
        # transaction.
        self._is_open = True
        self._is_over = False
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._ending = News()
        # The transactions for which changes within this one wait.
        self._awaited: list[Transaction] = []

    @property
    def is_open(self) -> bool:
        """Whether changes still join it. In a child process that was forked within the block they do not."""
        return self._is_open and self._is_here

    @property
    def _is_here(self) -> bool:
        return self._process == os.getpid()

    @property
    def is_under_way(self) -> bool:
        """Whether it is open, or being committed. In the committing thread, every later call comes after the commit."""
        return self.is_open or not (self._is_over or self._thread == threading.get_ident())

    def wait_until_over(self, stream: str) -> None:
        """
        Wait until a transaction of another thread is over that has changed a stream through the same handle.

        Raises:
            DecisionRefusedError: it was begun in this thread, which would wait for itself.
            StorageBusyError: it was not over in time, or waits itself for the transaction that is open here.
        """
        if self._thread == threading.get_ident():
            raise DecisionRefusedError(
                f"{stream} was changed in a transaction that has not ended: end it first, or use another handle"
            )
        with self._waited_for(stream):
            for _ in self._while_under_way(stream):
                self._ending.wait_past(0, timeout_seconds=LOOK_SECONDS)

    async def over(self, stream: str) -> None:
        """Do what `wait_until_over` does, without a thread: those of the loop are left to the transaction's calls."""
        import asyncio

        with self._waited_for(stream):
            for _ in self._while_under_way(stream):
                await asyncio.sleep(TURN_SECONDS)

    @contextmanager
    def _waited_for(self, stream: str) -> Iterator[None]:
        """Note that the transaction that is open here waits for this one; refuse it if this one waits for it."""
        waiting = _CURRENT.get()
        if waiting is None or not waiting.is_open:
            yield
            return
        waiting._awaited.append(self)
        try:
            reached = [self]
            for one in reached:
                if one is waiting:
                    raise StorageBusyError(
                        f"{stream} is in a transaction that waits for this one: try again, and change contexts in the"
                        " same order everywhere"
                    )
                reached += [other for other in one._awaited if other not in reached]
            yield
        finally:
            waiting._awaited.remove(self)

    def _while_under_way(self, stream: str) -> Iterator[None]:
        """Yield as long as the transaction is under way; raise a StorageBusyError when it took too long."""
        deadline = REAL_SYSTEM.monotonic() + HANDLE_SECONDS_MAX
        while self.is_under_way:
            if REAL_SYSTEM.monotonic() >= deadline:
                raise StorageBusyError(
                    f"{stream} stayed in a transaction of another thread: try again, or use a handle for each thread"
                )
            yield

    def events_of(self, stream: str) -> list[Event]:
        """Return the events to record in a stream."""
        part = self._parts.get(stream)
        return [] if part is None else [event for event, _ in part.recorded]

    @property
    def recorded(self) -> dict[str, int]:
        """The last recorded version of each stream that gets events; those of the transaction come behind it."""
        return {stream: part.first.expected_version for stream, part in self._parts.items()}

    def ahead(self) -> dict[str, tuple[int, list[Event]]]:
        """Return the events to record, by stream, each with the version behind which they come."""
        return {stream: (part.first.expected_version, self.events_of(stream)) for stream, part in self._parts.items()}

    def record_after(self, stream: str, others: Iterable[str]) -> None:
        """Record the events of a stream behind those of others, whose events they change; no two may do so mutually."""
        self._before_it.setdefault(stream, set()).update(others)

    def _parts_in_order(self) -> list[_Part]:
        if not self._before_it:
            return list(self._parts.values())
        from graphlib import TopologicalSorter

        before = {stream: self._before_it.get(stream, set()) & self._parts.keys() for stream in self._parts}
        return [self._parts[stream] for stream in TopologicalSorter(before).static_order()]

    def add(self, new: NewEvents, settle: Callable[[Receipt | None], None] | None = None) -> None:
        """
        Add the events of one decision; `settle`, if given, is called once per stream when the block ends.

        Raises:
            InvalidInputError: a second handle of the same stream writes in this transaction.
            NotAllowedError: the actor may not record them.
        """
        if (gate := gate_of(self.log)) is not None:
            gate.admit(new)
        part = self._parts.get(new.stream)
        if part is None:
            self._parts[new.stream] = _Part(new, list(zip(new.events, new.metas, strict=True)), settle)
            return
        decided_on = part.first.expected_version + len(part.recorded)
        if new.expected_version != decided_on:
            raise InvalidInputError(f"{new.stream} is written through two handles in one transaction: use one")
        part.recorded.extend(zip(new.events, new.metas, strict=True))

    def compare(self, unerased: Iterable[NewEvents]) -> None:
        """Record the transaction only if streams that get no events have the expected versions still."""
        for one in unerased:
            self._compared.setdefault(one.stream, one)

    def call_in(self, stream: str, call: object) -> Call | None:
        """
        Return a call in a stream with its fingerprints in this transaction; None if the transaction has no key.

        Raises:
            InvalidInputError: the call has a value that is not JSON.
        """
        if self.idempotency_key is None:
            return None
        if stream not in self._before:
            recorded = self.log.recorded_under(stream, self.idempotency_key)
            # Earlier versions did not record to which call an event belongs; a repetition is then recognized at the
            # end.
            self._before[stream] = [one for one in recorded if one.meta.fingerprint]
            for one in self._before[stream]:
                self._events.setdefault((stream, _own_part(one)), []).append(one)
        alone, recorded_before = fingerprint(call), self._calls_recorded(stream)
        # The same call made a second time is a different call.
        own = fingerprint((alone.hex(), len(self._repeated.get(stream, ())) + recorded_before))
        self._made[own] = (alone, recorded_before)
        events = self._events.get((stream, own)) or self._events.get((stream, alone), [])
        return Call(alone, own, self._before[stream], events)

    def note_repeated(self, stream: str, made: Call) -> None:
        """Note that a call had recorded events before: it belongs to the transaction's fingerprint."""
        self._repeated.setdefault(stream, []).append(made.alone)

    def _calls_recorded(self, stream: str) -> int:
        """Return how many calls recorded events in a stream; counted by the events, so correct after an interrupt."""
        part = self._parts.get(stream)
        metas = () if part is None else (meta for _, meta in reversed(part.recorded))
        last = next((meta.fingerprint for meta in metas if meta.fingerprint in self._made), None)
        return 0 if last is None else self._made[last][1] + 1

    def _calls_of(self, stream: str) -> list[str]:
        """Return the fingerprints of the calls from which the transaction's own is made, in order."""
        part = self._parts.get(stream)
        # A call may have recorded several events, which all have its own fingerprint.
        owns = dict.fromkeys(meta.fingerprint for _, meta in part.recorded) if part else ()
        recorded = [self._made[own][0] for own in owns if own in self._made]
        return [call.hex() for call in [*self._repeated.get(stream, ()), *recorded]]

    def key_of_next_child(self) -> str | None:
        """
        Return a key for the next fork or branch without an id; None if the transaction has no key.

        The key is the same when the block is repeated.
        """
        if self.idempotency_key is None:
            return None
        self._children += 1
        return f"{self.idempotency_key}\0{self._children}"

    def _fingerprint(self) -> bytes | None:
        if self.idempotency_key is None:
            return None
        streams = dict.fromkeys((*self._repeated, *self._parts))
        calls = {stream: found for stream in streams if (found := self._calls_of(stream))}
        flat = [call for of_stream in calls.values() for call in of_stream]
        # A transaction with one call has that call's fingerprint, so that the call may be repeated without a
        # transaction.
        return bytes.fromhex(flat[0]) if len(flat) == 1 else fingerprint(calls)

    def _end_here(self) -> None:
        """Take no more changes. The thread that ends it may be another than that in which it was begun."""
        self._thread, self._is_open = threading.get_ident(), False

    def commit(self) -> None:
        """
        Append all events at once; on an error every view is rolled back and the error is raised.

        Raises:
            IdempotencyError: another transaction, or another call, was recorded under the key.
            InvalidInputError: the id of a fork or a branch is taken.
            DecisionRefusedError: this process was forked within the block: only the parent can commit.
        """
        self._end_here()
        if not self._is_here:
            raise DecisionRefusedError(
                "this process was forked within a transaction, which the parent commits: end the child in the block"
            )
        parts = self._parts_in_order()
        try:
            receipts = self._receipts(parts)
        except RefoldError as error:
            self.roll_back()
            if isinstance(error, ConcurrencyError) and (compared := self._compared.get(error.stream)) is not None:
                expected, remedy = compared.expected_version, "make the transaction again"
                raise ConcurrencyError(error.stream, expected=expected, actual=error.actual, remedy=remedy) from error
            if isinstance(error, ConcurrencyError):
                # The view may have newer events than the log, if the database went back.
                refused = self._parts[error.stream].first
                require_known(self.log, refused.stream, StreamEnd(refused.expected_version, refused.expected_digest))
                if getattr(refused.events[0], "lineage", ()):
                    raise child_exists(error.stream) from error
            raise
        # After an interrupt within this loop, each view that was not settled finds the result out itself.
        for part, receipt in zip(parts, receipts, strict=True):
            if part.settle is not None:
                part.settle(receipt)

    def _receipts(self, parts: list[_Part]) -> list[Receipt]:
        key, whole = self.idempotency_key, self._fingerprint()
        if key is not None and whole is not None:
            repeated = {stream: recorded for stream, recorded in self._before.items() if recorded}
            for stream, recorded in repeated.items():
                require_same_call(stream, key, whole, recorded)
            if repeated:
                return [Receipt((), True)] * len(parts)
        batch = [part.joined(key, whole) for part in parts]
        if not batch:
            return []
        return behind_gate(self.log).append([*batch, *self._compared.values()]).result()[: len(batch)]

    def roll_back(self) -> None:
        """Make every context drop its decisions within the block."""
        self._end_here()
        # The views of a child process dropped them at the fork.
        for part in self._parts.values() if self._is_here else ():
            if part.settle is not None:
                part.settle(None)

    def finish(self) -> None:
        """Note that the transaction is over: a view that was not settled by now must find the result out itself."""
        self._is_open, self._is_over = False, True
        self._ending.announce()


def log_within(log: Log) -> Log | LogAhead:
    """Return a log as the open transaction of this flow of control sees it; the log itself if none is open on it."""
    current = current_transaction(log)
    return log if current is None else LogAhead(log, current.ahead())


def _own_part(recorded: RecordedEvent) -> bytes:
    """Return the fingerprint of an event's call within its transaction, or of a call that was made alone."""
    whole = recorded.meta.fingerprint or b""
    return whole[FINGERPRINT_BYTES:] or whole


_CURRENT: ContextVar[Transaction | None] = ContextVar("refold_transaction", default=None)


def current_transaction(log: Log) -> Transaction | None:
    """Return the transaction that is open on this log in this flow of control, if any."""
    current = _CURRENT.get()
    return current if current is not None and current.is_open and current.log is log else None


def require_no_transaction(log: Log, refusal: str) -> None:
    """
    Require that no transaction is open here, for a call that writes at once and could not be rolled back with it.

    Raises:
        InvalidInputError: one is open; the message begins with `refusal`.
    """
    if current_transaction(log) is not None:
        raise InvalidInputError(f"{refusal} within a transaction: do it before or after it")


@contextmanager
def transaction(log: Log, *, idempotency_key: str | None = None) -> Iterator[Transaction]:
    """
    Commit all changes made within the block in one append; commit none of them if the block raises.

    Raises:
        InvalidInputError: a transaction is open already; they do not nest.
    """
    outer = _CURRENT.get()
    if outer is not None and outer.is_open:
        raise InvalidInputError("a transaction is open already, and they do not nest: join the two blocks")
    if idempotency_key is not None:
        idempotency_key = require_given_key(idempotency_key)
    opened = Transaction(log, idempotency_key)
    try:
        _CURRENT.set(opened)
        yield opened
        _CURRENT.set(outer)
        opened.commit()
    except BaseException:
        if opened.is_open:
            opened.roll_back()
        raise
    finally:
        _CURRENT.set(outer)
        opened.finish()


@contextmanager
def current_or_new_transaction(log: Log, *, idempotency_key: str | None = None) -> Iterator[Transaction]:
    """Yield the transaction that is open on a log, or else a new one for the block."""
    current = current_transaction(log)
    if current is not None:
        yield current
        return
    with transaction(log, idempotency_key=idempotency_key) as opened:
        yield opened


class AsyncTransaction:
    """
    A transaction for `async with`; its commit waits in a thread.

    Its calls have threads of their own: calls of other tasks, which wait for its end, may have all of the loop's.
    """

    def __init__(self, manager: AbstractContextManager[Transaction]) -> None:
        self._manager, self._threads = manager, OwnThreads()

    async def __aenter__(self) -> Transaction:
        # In the task's own context, so that the threads of its calls get the transaction with a copy of that.
        opened = self._manager.__enter__()
        self._threads.begin()
        return opened

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is GeneratorExit:
                # The task is collected, as after its loop was closed. Nothing can be awaited, and nothing is committed.
                self._manager.__exit__(kind, error, trace)
            else:
                # Calls of tasks that the block began and did not wait for: they join it, and are rolled back with it.
                await in_thread_or_here(self._end, {*self._threads.calls}, kind, error, trace)
        finally:
            self._threads.end(is_collected=kind is GeneratorExit)

    def _end(self, others: set[object], *raised: Any) -> None:
        self._threads.wait_for(others, HANDLE_SECONDS_MAX)
        self._manager.__exit__(*raised)
