"""
One stream as folded in this process: its state, and the last event that is known to be in the log.

It reads and folds, under one lock for all threads; `Journal` adds the decisions.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from ..concurrency.locks import locked, renew_in_child, synchronized
from ..errors import InvalidInputError, LogWentBackError, RefoldError
from ..log.envelope import Event, RecordedEvent
from ..log.gate import gate_of
from ..log.ports import Log, StreamEnd, require_known
from ..named_events import LogAhead
from .decider import Decider, trusted
from .outbox import Outbox
from .transaction import Transaction

S = TypeVar("S")
Durability = Literal["commit", "enqueue"]
UNKNOWN = -1
# Folding this many events takes 10 to 20 ms.
SNAPSHOT_EVENTS = 1_024


def require_durability(durability: str) -> Durability:
    """
    Return `durability` if it is a known value.

    Raises:
        InvalidInputError: it is not.
    """
    if durability not in ("commit", "enqueue"):
        raise InvalidInputError(f"durability is {durability!r}: take 'commit' or 'enqueue'")
    return "commit" if durability == "commit" else "enqueue"


class Place(NamedTuple):
    """The place of a journal: its stream, the root that decides its slice, and the default actor."""

    stream: str
    root: str
    actor: str | None = None


class FoldedStream(Generic[S]):
    """One stream's state in this process; all methods may be called from any thread."""

    def __init__(
        self,
        log: Log,
        place: Place,
        decider: Decider[S],
        *,
        version: int,
        digest: bytes = b"",
        durability: Durability = "commit",
        unflushed: set[Any] | None = None,
        base: S | None = None,
    ) -> None:
        # The state at version 1 if it is known already; that of a fork comes from its parent.
        self._base = base
        self.log, self.place, self.decider = log, place, decider
        self.gate = gate_of(log)
        self.durability: Durability = require_durability(durability)
        # The owner's set of journals with queued events; it keeps each alive until its flush.
        self.unflushed: set[Any] = set() if unflushed is None else unflushed
        self._lock: threading.RLock | _FirstLook = threading.RLock()
        self._version = version
        # The digest of the last event that is known to be in the log; empty while it is not known.
        self._digest = digest
        self._state: S | None = decider.initial_state if version == 0 and base is None else None
        self._outbox = Outbox(log)
        # True while a decision is given to the log. If a call finds it true, the call before it was interrupted.
        self._is_unsettled = False
        # The version of the last snapshot that was made here; most kinds make one after many appends.
        self._kept_at = 0 if decider.packing is not None and decider.packing.while_writing else 1 << 62
        # The version at which the state was last used: for a stream that is only appended to, no state is kept.
        self._used_at = 0
        self._transaction: Transaction | None = None
        self._in_transaction: list[Any] = []
        self._before_transaction: tuple[int, S | None] | None = None
        self.came_between: tuple[RecordedEvent, ...] = ()
        # How many more appends do not predict their version, because other writers append, too.
        self._crowded = 0
        # Whether the stream is gone, with a transaction that was rolled back or a log that went back, so that no call
        # can continue it.
        self.is_void = False
        renew_in_child(self)

    @property
    def version(self) -> int:
        """The version that is folded, or will be at the first use."""
        return self._version if self._version != UNKNOWN else locked(self._lock, lambda: self._version)

    @property
    def state(self) -> S:
        """The folded state at `version`; read from the log at the first use."""
        state, self._used_at = self._state, self._version
        if state is not None:
            # A writer that waits for the disk holds the lock; reading the state must not wait for it.
            return state
        return self._loaded()

    @synchronized
    def _loaded(self) -> S:
        if self._state is None:
            known = None if self.is_ahead or self._is_unsettled else StreamEnd(self._version, self._known_digest())
            found = None if known is None else self._from_snapshot(known)
            self._state = self.past(self._version) if found is None else found[0]
            if found is None or found[1] >= SNAPSHOT_EVENTS:
                self._keep_snapshot(self._state, known)
        return self._state

    def _from_snapshot(self, end: StreamEnd) -> tuple[S, int] | None:
        """Return the state at a version of the log, and the number of events folded for it; None without a snapshot."""
        packing = self.decider.packing
        # A short stream has none, and the state of a fork comes from its parent.
        if packing is None or self._base is not None or end.version < SNAPSHOT_EVENTS:
            return None
        read = packing.read(self.log, self.place.stream, end)
        if read is None:
            return None
        state, events = read
        with trusted(self.place.stream):
            completed = self.decider.complete(self.log, [one.event for one in events])
            return self.decider.fold(state, completed), len(events)

    def _keep_snapshot(self, state: S, end: StreamEnd | None) -> None:
        """Let the log keep a snapshot, so that the next one to open this stream need not fold all of it."""
        packing = self.decider.packing
        if packing is not None and end is not None and end.version >= SNAPSHOT_EVENTS and end.digest:
            self._kept_at = max(self._kept_at, end.version)
            packing.keep(self.log, self.place.stream, state, end)

    @property
    def is_loaded(self) -> bool:
        """Whether the state is in memory; appending does not need it."""
        return self._state is not None

    @property
    def is_ahead(self) -> bool:
        """Whether some decided events are not known to be in the log yet."""
        return bool(self._in_transaction) or self._outbox.is_ahead

    @property
    def queued(self) -> int:
        """The number of queued events that are not known to be on disk, including refused ones."""
        return len(self._outbox.events) + len(self._outbox.settlement.refused)

    @synchronized
    def events(self, *, after: int = 0, until: int) -> list[Event]:
        """Return the events of the stream: those in the log, then those that are not known to be in it yet."""
        decided = [*self._outbox.events, *self._in_transaction]
        recorded = self._version - len(decided)
        last = min(until, recorded)
        # After an interrupt, it may not be known yet which decided events are recorded.
        known = None if self._is_unsettled else StreamEnd(last, self._known_digest() if last == recorded else b"")
        events = self.log.read_events(self.place.stream, after=after, until=last, known=known)
        return events + decided[max(0, after - recorded) : max(0, until - recorded)]

    def _known_digest(self) -> bytes:
        """Return the digest of the last event known to be in the log; empty where the queue may have a newer one."""
        return b"" if self in self.unflushed else self._digest

    def _went_back(self, recorded: StreamEnd) -> LogWentBackError | None:
        try:
            require_known(self.log, self.place.stream, recorded)
        except LogWentBackError as error:
            return error
        except RefoldError:
            # The log cannot be asked now.
            return None
        return None

    @property
    @synchronized
    def known(self) -> StreamEnd:
        """The last version that is known to be in the log."""
        recorded = self._version - len(self._outbox.events) - len(self._in_transaction)
        return StreamEnd(recorded, self._known_digest())

    def require_known(self) -> None:
        """
        Require that the log still has the events that were known to be in it.

        Raises:
            LogWentBackError: it does not.
        """
        require_known(self.log, self.place.stream, self.known)

    def completed(self, version: int) -> Sequence[Any]:
        """
        Return the events up to a version in the form that the fold takes: with the items that they name, and after the
        events of ancestors.
        """
        return self._completed(self.events(until=version), skipped=0)

    def _completed(self, events: Sequence[Event], *, skipped: int) -> Sequence[Any]:
        joined = self._transaction
        # An event of a transaction may name others of it, which are not in the log yet.
        ahead = {} if joined is None else joined.ahead()
        log = LogAhead(self.log, {**ahead, self.place.stream: (0, events)})
        return self.decider.complete(log, events[skipped:] if skipped else events)

    def past(self, version: int) -> S:
        """Return the state as it was at a version."""
        return self._folded(self.events(until=version))

    def recorded_past(self, version: int) -> S:
        """Return the state at a version that is in the log. It needs no lock, which a writer may hold for long."""
        found = self._from_snapshot(StreamEnd(version))
        if found is not None:
            return found[0]
        return self._folded(self.log.read_events(self.place.stream, until=version, known=StreamEnd(version)))

    def _folded(self, events: Sequence[Event]) -> S:
        # A fork's first event stands for all events of its parent, so that they need not be read.
        base = self._base if events else None
        with trusted(self.place.stream):
            if base is not None:
                return self.decider.fold(base, self._completed(events, skipped=1))
            return self.decider.fold(self.decider.initial_state, self._completed(events, skipped=0))

    @synchronized
    def decided_past(self, version: int) -> S | None:
        """Return the state at a version that exists only in an open transaction; None for a version in the log."""
        return self.past(version) if version > self._version - len(self._in_transaction) else None

    @synchronized
    def forget(self) -> None:
        """
        Drop the state and go to the head of the log; the state is read again at its next use.

        If some decided events are not in the log yet, the version stays, since it includes them.
        """
        self._state = None
        if not self.is_ahead:
            self._stand_at(self.log.end(self.place.stream))

    def _stand_at(self, end: StreamEnd) -> None:
        """Show the stream as it is in the log, which ends there; nothing is queued."""
        self._state, self._base, before = None, None, self._version
        self._version, self._digest = end
        # The event that opened the stream is gone too; without it, later events could never be opened again.
        self.is_void = self._version == 0 and (self.is_void or (before != 0 and self.decider.is_opened))
        if self._version == 0:
            self._state = self.decider.initial_state

    def _after_fork(self) -> None:
        """Leave queued events, and changes by another thread or a transaction, to the parent process."""
        # The thread that settles its events may hold its lock, also after the last of them was flushed.
        self._outbox = Outbox(self.log)
        is_whole = isinstance(self._lock, _FirstLook) or self._lock.acquire(blocking=False)
        if is_whole and not (self in self.unflushed or self._transaction is not None):
            if not isinstance(self._lock, _FirstLook):
                self._lock.release()
            return
        self.unflushed.discard(self)
        self._transaction, self._before_transaction, self._in_transaction = None, None, []
        self._state, self._version, self._is_unsettled = None, UNKNOWN, False
        self._lock = _FirstLook(self)


class _FirstLook:
    """The lock of a stream that a child process cannot use as it is: its first user goes to the head of the log."""

    def __init__(self, stream: FoldedStream[Any]) -> None:
        self._stream = stream
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if self._stream._lock is self:
                self._stream._lock = self._lock
                self._stream.forget()
        except BaseException:
            self._stream._lock = self
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()
