"""
A transaction: changes to several contexts that become one append, or nothing.

Within the block every context decides on its own view as it will be, and the log hears of it only at the end.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

import msgspec

from ..canonical import FINGERPRINT_BYTES, fingerprint, require_key
from ..errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, RefoldError
from ..log.envelope import Event, Meta, RecordedEvent
from ..log.ports import Log, NewEvents, Receipt, StreamEnd, require_known, require_same_call

# Stands for the call of what comes along with one: a context that was opened, or adopted.
NO_CALL = bytes(FINGERPRINT_BYTES)


class _Part(msgspec.Struct):
    """The events of one stream, and the call that tells its owner the end: a receipt, or None to roll back."""

    first: NewEvents
    # In one list, which grows in one step: an interrupt leaves no event without its meta.
    recorded: list[tuple[Event, Meta]]
    settle: Callable[[Receipt | None], None] | None

    def joined(self, key: str | None, whole: bytes | None) -> NewEvents:
        """
        Return all of it; the transaction's key goes into the envelopes too, so that it is known wherever they go, and
        behind the fingerprint of the `whole` transaction there is that of each event's call.
        """
        events, metas = tuple(event for event, _ in self.recorded), tuple(meta for _, meta in self.recorded)
        if key is not None and whole is not None:
            metas = tuple(
                msgspec.structs.replace(meta, idempotency_key=key, fingerprint=whole + (meta.fingerprint or NO_CALL))
                for meta in metas
            )
        return msgspec.structs.replace(self.first, events=events, metas=metas, idempotency_key=key)


class Call(NamedTuple):
    """
    A call within a transaction that has a key: its fingerprints, as a call alone and as this one of the transaction,
    and what was recorded when that was carried out before: in its stream altogether, and by this call.
    """

    alone: bytes
    own: bytes
    recorded: list[RecordedEvent]
    events: list[RecordedEvent]


def is_of_no_call(recorded: bytes | None) -> bool:
    """Return whether an event with this fingerprint came along with the calls of a transaction."""
    return recorded is not None and recorded[FINGERPRINT_BYTES:] == NO_CALL


class Transaction:
    """The changes collected so far, one part per stream."""

    def __init__(self, log: Log, idempotency_key: str | None) -> None:
        self.log = log
        self.idempotency_key = idempotency_key
        self._parts: dict[str, _Part] = {}
        # With a key: of the calls made, by their own fingerprints, that of the call alone and how many of its stream
        # had recorded something before; the calls that are repeated; and what was recorded before under the key.
        self._made: dict[bytes, tuple[bytes, int]] = {}
        self._repeated: dict[str, list[bytes]] = {}
        self._before: dict[str, list[RecordedEvent]] = {}
        self._events: dict[tuple[str, bytes], list[RecordedEvent]] = {}
        self._children = 0
        # A task that was started within the block may outlive it; what it then writes is its own.
        self._is_open = True
        self._is_over = False
        self._process, self._thread = os.getpid(), threading.get_ident()

    @property
    def is_open(self) -> bool:
        """Whether changes still join it; in a child that was forked within the block they are the child's own."""
        return self._is_open and self._is_here

    @property
    def _is_here(self) -> bool:
        return self._process == os.getpid()

    @property
    def is_under_way(self) -> bool:
        """Whether it is open, or being committed; in its own thread, whoever asks is not in the commit any more."""
        return self.is_open or not (self._is_over or self._thread == threading.get_ident())

    def events_of(self, stream: str) -> list[Event]:
        """Return what it is to record in a stream."""
        part = self._parts.get(stream)
        return [] if part is None else [event for event, _ in part.recorded]

    def add(self, new: NewEvents, settle: Callable[[Receipt | None], None] | None = None) -> None:
        """
        Add the events of one decision; `settle` is called once per stream when the block ends, if anybody waits.

        Raises:
            InvalidInputError: a second handle of the same stream writes in this transaction.
        """
        part = self._parts.get(new.stream)
        if part is None:
            self._parts[new.stream] = _Part(new, list(zip(new.events, new.metas, strict=True)), settle)
            return
        decided_on = part.first.expected_version + len(part.recorded)
        if new.expected_version != decided_on:
            raise InvalidInputError(f"{new.stream} is written through two handles in one transaction: use one")
        part.recorded.extend(zip(new.events, new.metas, strict=True))

    def call_in(self, stream: str, call: object) -> Call | None:
        """
        Return a call that is made in a stream as it is known in the transaction; None where that has no key.

        Raises:
            InvalidInputError: the call holds what is no JSON.
        """
        if self.idempotency_key is None:
            return None
        if stream not in self._before:
            recorded = self.log.recorded_under(stream, self.idempotency_key)
            # Earlier versions did not record which call is whose: that it is a repetition is then seen at the end.
            self._before[stream] = [one for one in recorded if one.meta.fingerprint]
            for one in self._before[stream]:
                self._events.setdefault((stream, _own_part(one)), []).append(one)
        alone, recorded_before = fingerprint(call), self._calls_recorded(stream)
        # The same call a second time is another one.
        own = fingerprint((alone.hex(), len(self._repeated.get(stream, ())) + recorded_before))
        self._made[own] = (alone, recorded_before)
        events = self._events.get((stream, own)) or self._events.get((stream, alone), [])
        return Call(alone, own, self._before[stream], events)

    def note_repeated(self, stream: str, made: Call) -> None:
        """Take note of a call that has recorded something before: it belongs to the transaction's fingerprint."""
        self._repeated.setdefault(stream, []).append(made.alone)

    def _calls_recorded(self, stream: str) -> int:
        """Return how many calls recorded something in a stream: what is recorded says it, also behind an interrupt."""
        part = self._parts.get(stream)
        metas = () if part is None else (meta for _, meta in reversed(part.recorded))
        last = next((meta.fingerprint for meta in metas if meta.fingerprint in self._made), None)
        return 0 if last is None else self._made[last][1] + 1

    def _calls_of(self, stream: str) -> list[str]:
        """Return the fingerprints of the calls that belong to the transaction's own, in order."""
        part = self._parts.get(stream)
        # A call may have recorded several events, which all bear its own fingerprint.
        owns = dict.fromkeys(meta.fingerprint for _, meta in part.recorded) if part else ()
        recorded = [self._made[own][0] for own in owns if own in self._made]
        return [call.hex() for call in [*self._repeated.get(stream, ()), *recorded]]

    def key_of_next_child(self) -> str | None:
        """
        Return a key for the next fork or branch without an id, the same when the block is repeated; None without one.
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
        # Of one call it is that call's, which may be repeated outside of a transaction.
        return bytes.fromhex(flat[0]) if len(flat) == 1 else fingerprint(calls)

    def commit(self) -> None:
        """
        Append everything as one; on an error every view is rolled back and the error goes on.

        Raises:
            IdempotencyError: another transaction, or another call, was recorded under the key.
            DecisionRefusedError: this process was forked within the block: it is the parent's to commit.
        """
        self._is_open = False
        if not self._is_here:
            raise DecisionRefusedError(
                "this process was forked within a transaction, which the parent commits: end the child in the block"
            )
        parts = list(self._parts.values())
        try:
            receipts = self._receipts(parts)
        except RefoldError as error:
            self.roll_back()
            if isinstance(error, ConcurrencyError):
                # The log may not be ahead of the view, but behind it.
                refused = self._parts[error.stream].first
                require_known(self.log, refused.stream, StreamEnd(refused.expected_version, refused.expected_digest))
            raise
        # Where an interrupt leaves open whether that was done, every view finds it out for itself.
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
        return self.log.append(batch).result() if batch else []

    def roll_back(self) -> None:
        """Let every context forget what it decided within the block."""
        self._is_open = False
        # A child's views forgot it at the fork.
        for part in self._parts.values() if self._is_here else ():
            if part.settle is not None:
                part.settle(None)

    def finish(self) -> None:
        """Say that nothing more is done for it: a view that was not told so by now must find out itself."""
        self._is_open, self._is_over = False, True


def _own_part(recorded: RecordedEvent) -> bytes:
    """Return the fingerprint of an event's call within its transaction, or of the call that was made alone."""
    whole = recorded.meta.fingerprint or b""
    return whole[FINGERPRINT_BYTES:] or whole


_CURRENT: ContextVar[Transaction | None] = ContextVar("refold_transaction", default=None)


def current_transaction(log: Log) -> Transaction | None:
    """Return the transaction that is open on this log in this flow of control, if any."""
    current = _CURRENT.get()
    return current if current is not None and current.is_open and current.log is log else None


@contextmanager
def transaction(log: Log, *, idempotency_key: str | None = None) -> Iterator[Transaction]:
    """
    Commit all changes made within the block as one, or none of them when it raises.

    Raises:
        InvalidInputError: a transaction is open already; they do not nest.
    """
    outer = _CURRENT.get()
    if outer is not None and outer.is_open:
        raise InvalidInputError("a transaction is open already, and they do not nest: join the two blocks")
    require_key(idempotency_key or "")
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
    """Yield the transaction that is open on a log, or else one for the block."""
    current = current_transaction(log)
    if current is not None:
        yield current
        return
    with transaction(log, idempotency_key=idempotency_key) as opened:
        yield opened
