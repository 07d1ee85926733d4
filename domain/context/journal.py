"""
The command handler: one stream as one process sees it.

A journal decides on its folded state, gives the events to the log, and folds the recorded events. It records in three
ways: at once ("commit"), in the background until `flush()` ("enqueue"), or as part of a transaction. The state is a
value, so undoing a decision means using the old value again.

An interrupt may come at any line. A call that was interrupted is then unsettled: the next call asks the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, NamedTuple, TypeVar

from ..arguments import require_whole
from ..canonical import fingerprint, require_given_key
from ..concurrency.locks import synchronized
from ..errors import (
    ConcurrencyError,
    DecisionRefusedError,
    IdempotencyError,
    InvalidInputError,
    LogWentBackError,
    RefoldError,
    RefusedError,
    StorageClosedError,
    StorageError,
)
from ..log.envelope import Event, RecordedEvent, current_meta
from ..log.gate import gate_of
from ..log.ports import ANY_VERSION, Log, NewEvents, Receipt, StreamEnd, require_same_call
from ..named_events import Resolved
from .decider import trusted
from .folded_stream import Durability, FoldedStream, Place
from .outbox import Outbox, remove_settled, require_sizes
from .transaction import Call, Transaction, current_transaction, is_of_no_call

S = TypeVar("S")
T = TypeVar("T")
CATCH_UPS_MAX = 100
PENDING_MAX = 10_000
# After so many appends in a row before which nobody else wrote, the version is predicted again.
QUIET_APPENDS = 2
# If more events than this, and more than the state had before, were added since the last use of the state, it is
# dropped.
UNUSED_EVENTS_MAX = 1_024
# Packing a state of 1,000 items takes less than a millisecond: nothing, spread over so many events.
APPENDS_UNTIL_SNAPSHOT = 4_096
SETTLED_KEPT_MAX = 1_024
# Stands for the call that opens a context: in a repeated transaction the context exists already.
OPENING = "opening"


class Outcome(NamedTuple):
    """
    The events of a command, which end at `version` (0 without events). With `replayed` its idempotency key was known:
    these are the old events.
    """

    events: tuple[Event, ...]
    replayed: bool = False
    version: int = 0


class _Keyed(NamedTuple):
    """An idempotency key (None: that of the transaction), and the fingerprint of its call."""

    key: str | None
    fingerprint: bytes


class Journal(FoldedStream[S]):
    """One stream's state in this process, and the decisions on it; all methods may be called from any thread."""

    @synchronized
    def refresh(self) -> tuple[RecordedEvent, ...]:
        """
        Read the events that others recorded, and return them; none while a transaction changes the stream.

        Raises:
            LogWentBackError: the log does not have events that this journal shows; the journal is unchanged.
        """
        if self._is_unsettled or self._transaction is not None:
            self._settle_interrupted()
        self.flush()
        if self._in_transaction:
            # Events of others would have the versions of its events. Its commit raises the error about them.
            return ()
        known = StreamEnd(self._version, self._digest)
        return self._take_over(self.log.read(self.place.stream, after=self._version, known=known))

    def _take_over(self, news: Sequence[RecordedEvent]) -> tuple[RecordedEvent, ...]:
        """Fold events that others recorded, and return them."""
        if news:
            with trusted(self.place.stream):
                events = self.decider.complete(self.log, [one.event for one in news])
                self._advance(events, by=len(news), digest=news[-1].digest)
        return tuple(news)

    def execute(
        self,
        command: object,
        *,
        call: object = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        catch_up: bool = True,
    ) -> Outcome:
        """
        Decide a command and record its events.

        With `catch_up` (appends), if another writer came first, the journal reads that writer's events and decides
        again; `came_between` then has these events. Otherwise, or with `expected_version`, it is an error.

        If a transaction of another thread has changed the stream through this journal, it waits until that is over.

        A key belongs to `call` (see `canonical.fingerprint`), by default the command. The same call under the same key
        gives the events of the first time, whether or not it could be decided so now.

        Raises:
            ConcurrencyError: another writer came first; the journal is unchanged.
            IdempotencyError: another call was recorded under the key; the journal is unchanged.
            RefusedError: the decision was refused, or the stream is gone with the event that opened it; nothing was
                changed.
            StorageError: the database refused; the journal is unchanged. LogWentBackError: it does not have events that
                the journal shows.
        """
        if self.gate is not None and not self.gate.is_inside:
            # The change itself may read the context. The gate is asked about its events when they are decided.
            with self.gate.changing(self.place.stream):
                outcome = self.execute(
                    command,
                    call=call,
                    expected_version=expected_version,
                    idempotency_key=idempotency_key,
                    catch_up=catch_up,
                )
                if outcome.replayed or not outcome.events:
                    self.gate.require("read", self.place.stream)
            return outcome
        made = self._execute(command, call, expected_version, idempotency_key, catch_up)
        while isinstance(made, Transaction):
            made.wait_until_over(self.place.stream)
            made = self._execute(command, call, expected_version, idempotency_key, catch_up)
        return made

    @property
    def other_transaction(self) -> Transaction | None:
        """The transaction of another flow of control that changed this journal and is not over, if there is one."""
        joined = self._transaction
        is_other = joined is not None and joined.is_under_way and joined is not current_transaction(self.log)
        return joined if is_other else None

    def is_changed_within(self, open_transaction: Transaction | None) -> bool:
        return open_transaction is not None and self._transaction is open_transaction

    @synchronized
    def _execute(
        self, command: object, call: object, expected_version: int | None, idempotency_key: str | None, catch_up: bool
    ) -> Outcome | Transaction:
        """Decide and record; or return a transaction of another flow of control, which must be over first."""
        call = command if call is None else call
        keyed = None if idempotency_key is None else _Keyed(require_given_key(idempotency_key), fingerprint(call))
        if self.is_void:
            raise DecisionRefusedError(
                f"{self.place.stream} was rolled back with all it held, or is gone from the database: begin it again"
            )
        open_transaction = current_transaction(self.log)
        if self._is_unsettled or self._transaction is not None:
            self._settle_interrupted()
            if self._transaction is not None and self._transaction is not open_transaction:
                return self._transaction
        # Usually nothing is queued. An append then saves two calls and the import of the outbox.
        if self.unflushed:
            self._wait_for_queue(command)
        self.came_between = ()
        if open_transaction is not None:
            return self._execute_within(open_transaction, command, call, keyed, expected_version, catch_up)
        try:
            outcome = self._catching_up(command, keyed, expected_version, catch_up)
        except (RefusedError, ConcurrencyError):
            # A command that cannot be decided a second time may have been recorded the first time.
            known = None if keyed is None else self._recorded_before(keyed)
            if known is None:
                raise
            return known
        return outcome if outcome.events or keyed is None else self._recorded_before(keyed) or outcome

    @synchronized
    def repeated(self, call: object, idempotency_key: str | None) -> Outcome | None:
        """
        Return the outcome of a call that was made before under its key or the open transaction's; None for a new call.

        For calls whose command depends on more than the state.

        Raises:
            IdempotencyError: another call was recorded under the key.
        """
        open_transaction = current_transaction(self.log)
        if open_transaction is not None:
            found = open_transaction.call_in(self.place.stream, call)
            return None if found is None else self._repeated_within(open_transaction, found)
        if idempotency_key is None:
            return None
        return self._recorded_before(_Keyed(require_given_key(idempotency_key), fingerprint(call)))

    def _recorded_before(self, keyed: _Keyed) -> Outcome | None:
        self.flush()
        recorded = self.log.recorded_under(self.place.stream, keyed.key or "")
        if not recorded:
            # A log that went back may have lost the call.
            self.require_known()
            return None
        require_same_call(self.place.stream, keyed.key or "", keyed.fingerprint, recorded)
        return self._replay(recorded)

    def _execute_within(
        self,
        open_transaction: Transaction,
        command: object,
        call: object,
        keyed: _Keyed | None,
        expected_version: int | None,
        catch_up: bool,
    ) -> Outcome:
        if keyed is not None:
            raise InvalidInputError("give the idempotency key to the transaction, not to a call within it")
        made = None if call is OPENING else open_transaction.call_in(self.place.stream, call)
        if made is None:
            return self._catching_up(command, None, expected_version, catch_up, open_transaction)
        repeated = self._repeated_within(open_transaction, made)
        if repeated is not None:
            return repeated
        if made.recorded:
            # The first time, the call changed nothing. If it would change something now, it is a different call.
            if self.decider.decide(command, self.state):
                raise IdempotencyError(self.place.stream, open_transaction.idempotency_key or "", made.recorded)
            return Outcome(())
        return self._catching_up(command, _Keyed(None, made.own), expected_version, catch_up, open_transaction)

    def _repeated_within(self, open_transaction: Transaction, made: Call) -> Outcome | None:
        """Return the outcome of a call if the transaction is repeated and recorded this call the first time."""
        if made.recorded and self._version < made.recorded[-1].version:
            self._base = None
            self.refresh()
        if not made.events:
            return None
        open_transaction.note_repeated(self.place.stream, made)
        return _replayed(made.events)

    def _catching_up(
        self,
        command: object,
        keyed: _Keyed | None,
        expected_version: int | None,
        catch_up: bool,
        within: Transaction | None = None,
    ) -> Outcome:
        strict = expected_version is not None or not catch_up
        if expected_version is not None and require_whole(expected_version, "expected_version") != self._version:
            self.require_known()
            actual = max(self._version, self.log.head(self.place.stream))
            raise ConcurrencyError(self.place.stream, expected=expected_version, actual=actual)
        any_version = not strict and within is None and self.durability == "commit" and getattr(command, "fresh", False)
        for attempt in range(CATCH_UPS_MAX):
            try:
                if any_version and self._crowded:
                    return self._record_behind(command, keyed)
                return self._decide_and_record(command, keyed, within)
            except ConcurrencyError as error:
                is_own = error.stream == self.place.stream
                if (strict and is_own) or attempt == CATCH_UPS_MAX - 1:
                    self.require_known()
                    raise
                if not is_own:
                    # The stream of erasures moved: texts were erased, which is refused, or it got another event.
                    continue
                self._crowded = QUIET_APPENDS
                self.came_between += () if any_version else self.refresh()
        raise AssertionError("the loop returns or raises")

    def _record_behind(self, command: object, keyed: _Keyed | None) -> Outcome:
        """Record a fresh command, which depends on no state, behind what others appended in the meantime."""
        # Where many writers append, a predicted version is nearly always taken. `refresh` also checks the known events.
        self.came_between += self.refresh()
        outcome = self._decide_and_record(command, keyed, None, at_any_version=True)
        self._crowded = QUIET_APPENDS if self.came_between else self._crowded - 1
        return outcome

    def _wait_for_queue(self, command: object) -> None:
        """
        Flush if the queue is full, or if a transaction or a command begins that is recorded together with something
        else: queued events are recorded before it, alone.
        """
        begins = self._transaction is None and self in self.unflushed and current_transaction(self.log)
        if begins or _erasures_of(command) is not None or len(self._outbox) >= PENDING_MAX:
            self.flush()

    def _decide_and_record(
        self, command: object, keyed: _Keyed | None, within: Transaction | None, *, at_any_version: bool = False
    ) -> Outcome:
        known = self._state
        if known is None:
            # Another thread may have dropped the state since its owner read it; a fresh command does not need it.
            is_fresh = getattr(command, "fresh", False) or getattr(command, "new_at", None) == self._version
            needs_state = self._version > 0 and not is_fresh
            known = self.state if needs_state else self.decider.initial_state
        decided = tuple(self.decider.decide(command, known))
        if not decided:
            return Outcome(())
        # `recorded_event`, without a call for each event: every append passes here.
        events = tuple([event.event if isinstance(event, Resolved) else event for event in decided])
        key, call = keyed or (None, None)
        meta = current_meta(default_actor=self.place.actor, idempotency_key=key, fingerprint=call)
        new = NewEvents(
            stream=self.place.stream,
            expected_version=ANY_VERSION if at_any_version else self._version,
            events=events,
            metas=(meta,) * len(events),
            root=self.place.root,
            idempotency_key=key,
            expected_digest=b"" if at_any_version else self._known_digest() if self.unflushed else self._digest,
        )
        if self.gate is not None and within is None:
            self.gate.admit(new)
        unerased = self._unerased(command)
        if within is not None or self.durability == "enqueue":
            require_sizes(events)
        if within is not None:
            within.compare(unerased)
            return self._join(within, new, decided)
        if self.durability == "enqueue" and not unerased:
            return self._enqueue(new, decided)
        self._is_unsettled = True
        try:
            receipt = self.log.append((new, *unerased)).result()[0]
        except RefoldError:
            # Either nothing was written, or the next call gets a conflict and catches up.
            self._is_unsettled = False
            raise
        if at_any_version and not receipt.replayed:
            self._catch_up_to(receipt.events[0].version)
        return self._settle(receipt, decided)

    def _unerased(self, command: object) -> tuple[NewEvents, ...]:
        """Return the append that goes with a text made of other texts: it fails if one of these was erased since."""
        erasures = _erasures_of(command)
        if erasures is None:
            return ()
        from ..erasure.foreign_erasures import unerased_since

        return unerased_since(self.log, erasures)

    def _catch_up_to(self, first: int) -> None:
        """Take over the events that others recorded before an event of this journal."""
        known = StreamEnd(self._version, self._digest)
        try:
            news = self.log.read(self.place.stream, after=known.version, until=first - 1, known=known)
            self.came_between += self._take_over(news)
        except LogWentBackError:
            raise
        except StorageError:
            # The event is recorded. The state is read again at its next use.
            self._state, self._version, self._digest = None, first - 1, b""

    def _settle(self, receipt: Receipt, decided: Sequence[Any]) -> Outcome:
        if receipt.replayed:
            # The events decided now are not those that were recorded then.
            self._base, self._is_unsettled = None, False
            return self._replay(receipt.events)
        self._advance(decided, digest=receipt.events[-1].digest)
        self._is_unsettled = False
        return Outcome(tuple([one.event for one in receipt.events]), version=self._version)

    def _replay(self, recorded: Sequence[RecordedEvent]) -> Outcome:
        self._base = None
        self.refresh()
        return _replayed([one for one in recorded if not is_of_no_call(one.meta.fingerprint)])

    def _advance(self, decided: Sequence[Any], *, by: int | None = None, digest: bytes | None = None) -> None:
        """
        Fold events into the state and add `by` to the version, or their number if `by` is None.

        With a `digest` the events are known to be in the log, and it is the digest of the last one.
        """
        state, version = self._state, self._version + (len(decided) if by is None else by)
        if state is not None and decided:
            # The next reader then reads at most the events appended since, and as many again.
            is_unused = version - self._used_at > max(UNUSED_EVENTS_MAX, self._used_at)
            state = None if is_unused else self.decider.fold(state, decided)
        # In one step: after an interrupt between two steps, the same events would be folded again.
        self._state, self._version, self._digest = state, version, self._digest if digest is None else digest
        if digest is not None:
            self._keep_if_due(digest)

    def _keep_if_due(self, digest: bytes) -> None:
        """Keep a snapshot after many appends; `digest` is that of the last event, which is in the log."""
        if self._version - self._kept_at >= APPENDS_UNTIL_SNAPSHOT and self._state is not None:
            self._keep_snapshot(self._state, StreamEnd(self._version, digest))

    def _join(self, open_transaction: Transaction, new: NewEvents, decided: tuple[Any, ...]) -> Outcome:
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
        return Outcome(new.events, version=self._version)

    @synchronized
    def _settle_transaction(self, receipt: Receipt | None) -> None:
        self._is_unsettled = True
        before = self._before_transaction
        if before is not None and (receipt is None or receipt.replayed):
            self._version, self._state = before
            self._base = None if self._version == 0 else self._base
            self.is_void = self._version == 0 and receipt is None
        elif receipt is not None and receipt.events:
            self._digest = receipt.events[-1].digest
        self._transaction, self._before_transaction, self._in_transaction = None, None, []
        self._is_unsettled = False
        if receipt is not None and receipt.replayed:
            self.refresh()
        elif receipt is not None and receipt.events and receipt.events[-1].version == self._version:
            self._keep_if_due(receipt.events[-1].digest)

    def _settle_interrupted(self) -> None:
        """Repair the journal after a call that was interrupted: its events may or may not be recorded."""
        joined, before = self._transaction, self._before_transaction
        if joined is not None and before is not None and joined.is_under_way:
            if self._is_unsettled:
                events = joined.events_of(self.place.stream)
                self._version, self._state, self._in_transaction = before[0] + len(events), None, events
        elif joined is not None and before is not None:
            # The transaction ended, but was interrupted before it settled this journal.
            self._is_unsettled = True
            self._transaction, self._before_transaction, self._in_transaction = None, None, []
            self.forget()
            self.is_void = self._version == 0 and (self.is_void or before[0] == 0)
        elif self._is_unsettled:
            self._outbox.wait()
            self.forget()
        self._is_unsettled = False

    def _enqueue(self, new: NewEvents, decided: Sequence[Any]) -> Outcome:
        self._is_unsettled = True
        is_first = self not in self.unflushed
        self._outbox.put(new, lambda: self.unflushed.add(self))
        if is_first and len(self.unflushed) % SETTLED_KEPT_MAX == 0:
            remove_settled(self.unflushed)
        self._advance(decided)
        self._is_unsettled = False
        if isinstance(self._outbox.failure, StorageClosedError):
            # `close` does not wait for these events any more, so the error is raised here.
            self.flush()
        return Outcome(new.events, version=self._version)

    @synchronized
    def flush(self, deadline: float | None = None) -> None:
        """
        Wait until all queued events are on disk.

        Raises:
            TimeoutError: `deadline`, a time of `monotonic()`, passed first; the events are still queued.
            RefoldError: events were refused; it has them as `refused`, and the journal was reset to the state of the
                log.
        """
        if self not in self.unflushed:
            return
        self._outbox.wait(deadline)
        settlement = self._outbox.settlement
        if settlement.failure is None and not settlement.replayed:
            self.unflushed.discard(self)
            self._digest = settlement.digest
            self._outbox.start_afresh()
            self.unflushed.discard(self)
            return
        failure = settlement.failure
        recorded = StreamEnd(self._version - len(settlement.refused), settlement.digest or self._digest)
        if isinstance(failure, ConcurrencyError) and not settlement.replayed:
            failure = self._went_back(recorded) or failure
        try:
            self.forget()
        except RefoldError:
            # The database cannot be asked, for example after `close`: the next call asks where the stream ends.
            self._stand_at(recorded)
            self._is_unsettled = True
        if isinstance(failure, RefoldError):
            # A log gives one error to all events that it could not write together, also those of other contexts.
            cause, failure = failure.__cause__, copy(failure)
            failure.__cause__, failure.refused = cause, settlement.refused
        # As late as possible: after an interrupt before this line, the next flush raises the error.
        self.unflushed.discard(self)
        self._outbox.start_afresh()
        if failure is not None:
            raise failure

    @synchronized
    def settled(self) -> S:
        """Wait until all queued events are on disk, and return the state as of then: no other thread adds to it."""
        self.flush()
        return self.state

    @synchronized
    def forget_erased(self) -> None:
        """Drop the state, and the state before a transaction; both are read again."""
        self._base, self.came_between, before = None, (), self._before_transaction
        self._state = None if self._version else self._state
        if before is not None and before[0]:
            self._before_transaction = (before[0], None)

    @synchronized
    def move_to(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """Continue in another log, where the same events were recorded as a stream of their own."""
        self.log, self.place, self._base = log, place, None
        self.gate = gate_of(log)
        self._outbox = Outbox(log)
        self._state, self._digest = None, b""
        self.durability, self.unflushed = durability, unflushed

    def retry(self, attempt: Callable[[], Any]) -> Any:
        """
        Refresh and run `attempt`; repeat this as long as another writer comes first.

        Raises:
            ConcurrencyError: another writer came first in all attempts, or `attempt` expects a version that the stream
                has not reached.
        """

        def refreshed() -> Any:
            self.refresh()
            result = attempt()
            self.flush()
            return result

        return retried(refreshed)


def retried(attempt: Callable[[], T], *, decided_on: str | None = None) -> T:
    """
    Return what an attempt returns; it is made again as long as another writer comes first.

    Raises:
        ConcurrencyError: another writer came first a hundred times, or in the stream `decided_on`; or the attempt
            expects a version that the stream has not reached.
    """
    for number in range(CATCH_UPS_MAX):
        try:
            return attempt()
        except ConcurrencyError as error:
            if error.is_ahead or error.stream == decided_on or number == CATCH_UPS_MAX - 1:
                raise
    raise AssertionError("the loop returns or raises")


def _erasures_of(command: object) -> int | None:
    erasures: int | None = getattr(command, "erasures", None)
    return erasures


def _replayed(recorded: Sequence[RecordedEvent]) -> Outcome:
    return Outcome(tuple([one.event for one in recorded]), True, recorded[-1].version if recorded else 0)
