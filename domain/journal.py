"""
The command handler: one stream as one process sees it.

A journal decides on its folded state, hands the events to the log, and folds what was recorded. It does so in
three ways: at once ("commit"), in the background until `flush()` ("enqueue"), or as part of a transaction.
The state is a value, so taking a decision back is putting the old value in its place.

An interrupt may come upon any line. What a call had begun is then unsettled: the next call asks the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Literal, NamedTuple, TypeVar

from .acting import current_meta
from .canonical import require_key
from .decider import Decider
from .envelope import Event, RecordedEvent, encode_payload, require_payload_size
from .errors import (
    ConcurrencyError,
    DecisionRefusedError,
    InvalidInputError,
    LogWentBackError,
    RefoldError,
    StorageError,
)
from .locks import locked, synchronized
from .outbox import Outbox
from .ports import Log, NewEvents, Receipt, StreamEnd, require_known
from .process_forks import renew_in_child
from .transaction import Transaction, current_transaction

__all__ = ["Durability", "Journal", "Outcome", "Place", "require_durability"]

S = TypeVar("S")
Durability = Literal["commit", "enqueue"]
CATCH_UPS_MAX = 100
PENDING_MAX = 10_000
# Events that nobody looked at since the state was used last; with as many as the state had before, it is dropped.
UNUSED_EVENTS_MAX = 1_024
SETTLED_KEPT_MAX = 1_024
UNKNOWN = -1


def require_durability(durability: str) -> Durability:
    """
    Return `durability` if there is one of that name.

    Raises:
        InvalidInputError: there is none.
    """
    if durability not in ("commit", "enqueue"):
        raise InvalidInputError(f"durability is {durability!r}: take 'commit' or 'enqueue'")
    return "commit" if durability == "commit" else "enqueue"


class Place(NamedTuple):
    """Where a journal lies: its stream, the root that decides its slice, and who acts by default."""

    stream: str
    root: str
    actor: str | None = None


class Outcome(NamedTuple):
    """The events a command led to; `replayed` when its idempotency key was known: then the old ones."""

    events: tuple[Event, ...]
    replayed: bool = False


class Journal(Generic[S]):
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
        unflushed: set[Journal[Any]] | None = None,
        base: S | None = None,
    ) -> None:
        # The state at version 1 where it is known already, as a fork's is from its parent's.
        self._base = base
        self.log, self.place, self.decider = log, place, decider
        self.durability: Durability = require_durability(durability)
        # Its owner's list of journals with queued events, so that none is forgotten before its flush.
        self._unflushed = set() if unflushed is None else unflushed
        self._lock: threading.RLock | _FirstLook = threading.RLock()
        self._version = version
        # Of the last event that is known to be in the log; empty while that is not known.
        self._digest = digest
        self._state: S | None = decider.initial_state if version == 0 and base is None else None
        self._outbox = Outbox(log)
        # True while a decision is handed over; found so by the next call, it was interrupted.
        self._is_unsettled = False
        # The version at which somebody asked for the state: what is only appended to need not be kept.
        self._used_at = 0
        self._transaction: Transaction | None = None
        self._in_transaction: list[Any] = []
        self._before_transaction: tuple[int, S | None] | None = None
        self.came_between: tuple[RecordedEvent, ...] = ()
        # Whether its stream began in a transaction that was rolled back, so that there is nothing to go on from.
        self._is_void = False
        renew_in_child(self)

    @property
    def unflushed(self) -> set[Journal[Any]]:
        """Where journals with queued events are noted: its owner's list."""
        return self._unflushed

    @property
    def version(self) -> int:
        """The version this view has reached."""
        return self._version if self._version != UNKNOWN else locked(self._lock, lambda: self._version)

    @property
    def state(self) -> S:
        """The folded state at `version`; read from the log at the first use."""
        state, self._used_at = self._state, self._version
        if state is not None:
            # Whoever is waiting for the disk holds the lock, and to look must not wait for that.
            return state
        return self._loaded()

    @synchronized
    def _loaded(self) -> S:
        if self._state is None:
            self._state = self.past(self._version)
        return self._state

    @property
    def is_void(self) -> bool:
        """Whether the stream began in a transaction that was rolled back, so that nothing can be recorded in it."""
        return self._is_void

    @property
    def is_loaded(self) -> bool:
        """Whether the state is in memory; appending does not need it."""
        return self._state is not None

    @property
    def is_ahead(self) -> bool:
        """Whether something was decided that is not known to be in the log yet."""
        return bool(self._in_transaction) or self._outbox.is_ahead

    @property
    def queued(self) -> int:
        """How many events were queued and are not known to be on disk, those included that were refused."""
        return len(self._outbox.events) + len(self._outbox.settlement.refused)

    @synchronized
    def events(self, *, after: int = 0, until: int) -> list[Event]:
        """
        Return the events of this view: from the log, and behind them those that are not known to be in it yet.
        """
        decided = [*self._outbox.events, *self._in_transaction]
        recorded = self._version - len(decided)
        last = min(until, recorded)
        known = None
        if not self._is_unsettled:
            known = StreamEnd(last, self._known_digest() if last == recorded else b"")
        events = self.log.read_events(self.place.stream, after=after, until=last, known=known)
        return events + decided[max(0, after - recorded) : max(0, until - recorded)]

    def _known_digest(self) -> bytes:
        """Return the digest of the last event that is known to be in the log; empty where the queue may know better."""
        return b"" if self in self._unflushed else self._digest

    def _went_back(self, recorded: StreamEnd) -> LogWentBackError | None:
        try:
            require_known(self.log, self.place.stream, recorded)
        except LogWentBackError as error:
            return error
        return None

    @property
    def known(self) -> StreamEnd:
        """The last version that this view knows to be in the log."""
        with self._lock:
            recorded = self._version - len(self._outbox.events) - len(self._in_transaction)
            return StreamEnd(recorded, self._known_digest())

    def require_known(self) -> None:
        """
        Require that the log still has what this view knows to be in it.

        Raises:
            LogWentBackError: it does not.
        """
        require_known(self.log, self.place.stream, self.known)

    def past(self, version: int) -> S:
        """
        Return the state as it was at a version.
        """
        base = self._base
        if base is not None and version:
            later = self.events(after=1, until=version)
            return self.decider.fold(base, self.decider.complete(self.log, later))
        events = self.decider.complete(self.log, self.events(until=version))
        return self.decider.fold(self.decider.initial_state, events)

    @synchronized
    def decided_past(self, version: int) -> S | None:
        """
        Return the state at a version that only this view knows of, within a transaction; None for one in the log.
        """
        return self.past(version) if version > self._version - len(self._in_transaction) else None

    @synchronized
    def refresh(self) -> tuple[RecordedEvent, ...]:
        """
        Catch up with what others wrote; return it.

        Raises:
            LogWentBackError: the log lacks what this view shows; the view is as it was.
        """
        if self._is_unsettled or self._transaction is not None:
            self._settle_interrupted()
        self.flush()
        known = StreamEnd(self._version - len(self._in_transaction), self._digest)
        news = tuple(self.log.read(self.place.stream, after=self._version, known=known))
        if news:
            events = self.decider.complete(self.log, [one.event for one in news])
            self._advance(events, by=len(news), digest=news[-1].digest)
        return news

    @synchronized
    def execute(
        self,
        command: object,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        catch_up: bool = True,
    ) -> Outcome:
        """
        Decide a command and record its events.

        With `catch_up` (appends) the view catches up when somebody else came first, and decides again;
        what came between is then in `came_between`. Otherwise, or with `expected_version`, it is an error.

        Raises:
            ConcurrencyError: another writer came first; the view is as it was.
            RefusedError: the decision was refused, or the stream was begun in a transaction that was rolled
                back; nothing was changed.
            StorageError: the database refused; the view is as it was. LogWentBackError: it lacks what the view shows.
        """
        if idempotency_key is not None:
            require_key(idempotency_key)
        if self._is_void:
            raise DecisionRefusedError(f"{self.place.stream} was rolled back with all it held: begin it again")
        if self._is_unsettled or self._transaction is not None:
            self._settle_interrupted()
        self._wait_for_queue()
        self.came_between = ()
        strict = expected_version is not None or not catch_up
        if expected_version not in (None, self._version):
            self.require_known()
            actual = max(self._version, self.log.head(self.place.stream))
            raise ConcurrencyError(self.place.stream, expected=int(expected_version or 0), actual=actual)
        for attempt in range(CATCH_UPS_MAX):
            try:
                return self._decide_and_record(command, idempotency_key)
            except ConcurrencyError:
                if strict or attempt == CATCH_UPS_MAX - 1:
                    self.require_known()
                    raise
                self.came_between += self.refresh()
        raise AssertionError("the loop returns or raises")

    def _wait_for_queue(self) -> None:
        """Flush where the queue is full, or a transaction begins: what was queued goes before it, on its own."""
        begins = self._transaction is None and self in self._unflushed and current_transaction(self.log)
        if begins or len(self._outbox) >= PENDING_MAX:
            self.flush()

    def _decide_and_record(self, command: object, key: str | None) -> Outcome:
        known = self._state
        if known is None:
            # Another thread may have let the state go since its owner read it; what is fresh does not need it.
            needs_state = self._version > 0 and not getattr(command, "fresh", False)
            known = self.state if needs_state else self.decider.initial_state
        decided = tuple(self.decider.decide(command, known))
        if not decided:
            return Outcome(())
        events = tuple([self.decider.recorded(event) for event in decided])
        meta = current_meta(default_actor=self.place.actor, idempotency_key=key)
        new = NewEvents(
            stream=self.place.stream,
            expected_version=self._version,
            events=events,
            metas=(meta,) * len(events),
            root=self.place.root,
            idempotency_key=key,
            expected_digest=self._known_digest() if self._unflushed else self._digest,
        )
        open_transaction = current_transaction(self.log)
        if open_transaction or self.durability == "enqueue":
            _require_sizes(events)
        if open_transaction:
            return self._join(open_transaction, new, decided)
        if self.durability == "enqueue":
            return self._enqueue(new, decided)
        self._is_unsettled = True
        try:
            receipt = self.log.append((new,)).result()[0]
        except RefoldError:
            # Either nothing was written, or the next call meets a conflict and catches up.
            self._is_unsettled = False
            raise
        return self._settle(receipt, decided)

    def _settle(self, receipt: Receipt, decided: Sequence[Any]) -> Outcome:
        if receipt.replayed:
            # What was decided just now is not what was recorded then.
            self._base = None
            self._is_unsettled = False
            self.refresh()
        else:
            self._advance(decided, digest=receipt.events[-1].digest)
        self._is_unsettled = False
        return Outcome(tuple([one.event for one in receipt.events]), receipt.replayed)

    def _advance(self, decided: Sequence[Any], *, by: int | None = None, digest: bytes | None = None) -> None:
        """
        Fold events into the state, which take the version on `by` so many, their own number if not given; with a
        `digest` they are known to be in the log, and it is that of the last.
        """
        state, version = self._state, self._version + (len(decided) if by is None else by)
        if state is not None and decided:
            # Whoever looks again reads no more than was appended meanwhile, and again as much.
            is_unused = version - self._used_at > max(UNUSED_EVENTS_MAX, self._used_at)
            state = None if is_unused else self.decider.fold(state, decided)
        # At once: an interrupt between two of them would have the same events folded again.
        self._state, self._version, self._digest = state, version, self._digest if digest is None else digest

    def _join(self, open_transaction: Transaction, new: NewEvents, decided: tuple[Any, ...]) -> Outcome:
        if new.idempotency_key is not None:
            raise InvalidInputError("give the idempotency key to the transaction, not to a call within it")
        self._is_unsettled = True
        is_first = self._transaction is None
        if is_first:
            self._transaction, self._before_transaction = open_transaction, (self._version, self._state)
        try:
            open_transaction.add(new, self._settle_transaction)
        except RefoldError:
            if is_first:
                self._transaction, self._before_transaction = None, None
            self._is_unsettled = False
            raise
        self._advance(decided)
        self._in_transaction.extend(decided)
        self._is_unsettled = False
        return Outcome(new.events)

    @synchronized
    def _settle_transaction(self, receipt: Receipt | None) -> None:
        self._is_unsettled = True
        before = self._before_transaction
        if before is not None and (receipt is None or receipt.replayed):
            self._version, self._state = before
            self._base = None if self._version == 0 else self._base
            self._is_void = self._version == 0 and receipt is None
        elif receipt is not None and receipt.events:
            self._digest = receipt.events[-1].digest
        self._transaction, self._before_transaction, self._in_transaction = None, None, []
        self._is_unsettled = False
        if receipt is not None and receipt.replayed:
            self.refresh()

    def _settle_interrupted(self) -> None:
        """
        Put the view right after a call that was interrupted: what it had decided may be recorded, or may not.
        """
        joined, before = self._transaction, self._before_transaction
        if joined is not None and before is not None and joined.is_under_way:
            if self._is_unsettled:
                events = joined.events_of(self.place.stream)
                self._version, self._state, self._in_transaction = before[0] + len(events), None, events
        elif joined is not None and before is not None:
            # It ended, and was interrupted before it told this view.
            self._is_unsettled = True
            self._transaction, self._before_transaction, self._in_transaction = None, None, []
            self.forget()
            self._is_void = before[0] == 0 and self._version == 0
        elif self._is_unsettled:
            self._outbox.wait()
            self.forget()
        self._is_unsettled = False

    def _enqueue(self, new: NewEvents, decided: Sequence[Any]) -> Outcome:
        self._is_unsettled = True
        is_first = self not in self._unflushed
        self._outbox.put(new, lambda: self._unflushed.add(self))
        if is_first and len(self._unflushed) % SETTLED_KEPT_MAX == 0:
            _let_go_of_settled(self._unflushed)
        self._advance(decided)
        self._is_unsettled = False
        return Outcome(new.events)

    @synchronized
    def flush(self) -> None:
        """
        Wait until everything queued is on disk.

        Raises:
            ConcurrencyError, StorageError: with `refused`, the events that did not get in; the view has
                been set back to what the log holds.
        """
        if self not in self._unflushed:
            return
        self._outbox.wait()
        settlement = self._outbox.settlement
        if settlement.failure is None and not settlement.replayed:
            self._unflushed.discard(self)
            self._digest = settlement.digest
            self._outbox.start_afresh()
            self._unflushed.discard(self)
            return
        failure = settlement.failure
        if isinstance(failure, ConcurrencyError) and not settlement.replayed:
            recorded = StreamEnd(self._version - len(settlement.refused), settlement.digest or self._digest)
            failure = self._went_back(recorded) or failure
        self.forget()
        if isinstance(failure, ConcurrencyError | StorageError):
            failure.refused = settlement.refused
        # As late as can be: who is interrupted before is told by the next flush.
        self._unflushed.discard(self)
        self._outbox.start_afresh()
        if failure is not None:
            raise failure

    @synchronized
    def forget(self) -> None:
        """
        Drop the state and go to the head of the log; the state is read again at its next use.

        Where something is decided that is not in the log yet, the version stays: that counts too.
        """
        self._state = None
        if self.is_ahead:
            return
        self._base = None
        self._version, self._digest = self.log.end(self.place.stream)
        if self._version == 0:
            self._state = self.decider.initial_state

    @synchronized
    def move_to(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """
        Go on in another log, where the same events were recorded as a stream of their own.
        """
        self.log, self.place, self._base = log, place, None
        self._outbox = Outbox(log)
        self._state, self._digest = None, b""
        self.durability, self._unflushed = durability, unflushed

    def retry(self, attempt: Callable[[], Any], *, attempts_max: int = CATCH_UPS_MAX) -> Any:
        """
        Refresh and run `attempt`, again as long as another writer comes first.

        Raises:
            ConcurrencyError: `attempts_max` attempts were not enough.
        """
        for number in range(attempts_max):
            self.refresh()
            try:
                result = attempt()
                self.flush()
                return result
            except ConcurrencyError:
                if number == attempts_max - 1:
                    raise
        raise AssertionError("the loop returns or raises")

    def _after_fork(self) -> None:
        """Leave to the parent what was queued, and what another thread or a transaction was changing."""
        is_whole = isinstance(self._lock, _FirstLook) or self._lock.acquire(blocking=False)
        if is_whole and not (self in self._unflushed or self._transaction is not None):
            if not isinstance(self._lock, _FirstLook):
                self._lock.release()
            return
        self._unflushed.discard(self)
        self._outbox = Outbox(self.log)
        self._transaction, self._before_transaction, self._in_transaction = None, None, []
        self._state, self._version, self._is_unsettled = None, UNKNOWN, False
        self._lock = _FirstLook(self)


class _FirstLook:
    """The lock of a journal that a child cannot use as it is: whoever comes first goes to the head of the log."""

    def __init__(self, journal: Journal[Any]) -> None:
        self._journal = journal
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        self._lock.acquire()
        try:
            if self._journal._lock is self:
                self._journal._lock = self._lock
                self._journal.forget()
        except BaseException:
            self._journal._lock = self
            self._lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def _require_sizes(events: Sequence[Event]) -> None:
    """Refuse at the call what is too large: the log would do so later. It has words for what cannot be encoded."""
    for event in events:
        with suppress(ValueError, TypeError, OverflowError):
            require_payload_size(encode_payload(event))


def _let_go_of_settled(unflushed: set[Journal[Any]]) -> None:
    """Forget journals whose events are all on disk: whoever opened them may never flush, and let go of them."""
    for journal in list(unflushed):
        journal._outbox.forget_if_settled(partial(unflushed.discard, journal))
