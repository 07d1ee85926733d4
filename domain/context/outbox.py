"""
The outbox of one stream: events that were decided and queued, and are not known to be on disk yet.

One batch at a time is sent to the log; decisions that come meanwhile wait and are sent together as the next batch. A
decision on events that were refused must not be recorded either, so a refusal refuses all decisions that wait behind
it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from itertools import takewhile
from typing import Any, NamedTuple

import msgspec

from ..clock import REAL_SYSTEM
from ..concurrency.locks import synchronized
from ..log.envelope import Event, encode_payload, require_payload_size
from ..log.gate import behind_gate
from ..log.ports import Log, NewEvents, Pending, Receipt


class Settlement(NamedTuple):
    """
    The result since the last start: the error and the events it refused, whether events were only repeated, and the
    digest of the last recorded event.
    """

    failure: BaseException | None
    refused: tuple[Event, ...]
    replayed: bool
    digest: bytes = b""


class Outbox:
    """Queues decisions on one stream, and gives them to the log without waiting."""

    def __init__(self, log: Log) -> None:
        # The journal asked the gate for the events that it queues.
        self._log = behind_gate(log)
        self._lock = threading.RLock()
        self._waiting: list[NewEvents] = []
        self._on_its_way: NewEvents | None = None
        self._pending: Pending[list[Receipt]] | None = None
        self._failure: BaseException | None = None
        self._refused: list[Event] = []
        self._replayed = False
        self._digest = b""

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    @synchronized
    def is_ahead(self) -> bool:
        """Whether some events are not known to be on disk yet."""
        return bool(self._on_its_way or self._waiting)

    @property
    def failure(self) -> BaseException | None:
        """The error that refused events since the last start, if there is one."""
        return self._failure

    @synchronized
    def forget_if_settled(self, forget: Callable[[], object]) -> None:
        """Call `forget` if everything is on disk, and `settlement` has nothing to report."""
        if not (self._on_its_way or self._waiting or self._failure or self._replayed):
            forget()

    @property
    @synchronized
    def events(self) -> tuple[Event, ...]:
        """Events that are not known to be on disk yet, in order."""
        parts = [self._on_its_way, *self._waiting] if self._on_its_way else self._waiting
        return tuple(event for part in parts for event in part.events)

    @synchronized
    def put(self, new: NewEvents, remember: Callable[[], object]) -> None:
        """
        Queue a decision. If a decision before it was refused, it is refused at once; see `settlement`.

        `remember` is called in the same step, so code that removes settled journals sees either both or neither.
        """
        remember()
        if self._failure is not None:
            self._refused.extend(new.events)
            return
        self._waiting.append(new)
        self._send_next()

    def wait(self, deadline: float | None = None) -> None:
        """
        Wait until no batch is on its way; `settlement` then has the result.

        Raises:
            TimeoutError: `deadline`, a time of `monotonic()`, passed first.
        """
        while (pending := self._send_next()) is not None:
            # Wait without the lock, since the thread that settles the batch takes it.
            pending.exception(None if deadline is None else max(0.0, deadline - REAL_SYSTEM.monotonic()))
            self._settle(pending)

    @property
    @synchronized
    def settlement(self) -> Settlement:
        """The result since the last start."""
        return Settlement(self._failure, tuple(self._refused), self._replayed, self._digest)

    @synchronized
    def start_afresh(self) -> None:
        """Reset the result."""
        self._failure, self._replayed, self._refused, self._digest = None, False, [], b""

    @synchronized
    def _send_next(self) -> Pending[list[Receipt]] | None:
        """Give the next batch to the log unless one is on its way; return the batch that is then on its way."""
        if self._on_its_way is not None and self._pending is None:
            self._look_after_interrupt(self._on_its_way)
        while self._on_its_way is None and self._waiting:
            batch, parts = _joined(self._waiting)
            if self._digest:
                # It was decided on events whose digest was not known yet.
                batch = msgspec.structs.replace(batch, expected_digest=self._digest)
            # Both in one step: wherever an interrupt comes, each event is in exactly one of the two.
            self._on_its_way, self._waiting = batch, self._waiting[parts:]
            pending = self._log.append((batch,), wait=False)
            self._pending = pending
            pending.add_done_callback(self._settle)
        return self._pending

    def _look_after_interrupt(self, batch: NewEvents) -> None:
        """Find out whether a batch was recorded that was being given to the log when an interrupt came."""
        # An empty append ends after all earlier ones.
        self._log.append(()).result()
        first = batch.expected_version + 1
        recorded = self._log.read_events(batch.stream, after=first - 1, until=first - 1 + len(batch.events))
        if tuple(recorded) == batch.events:
            self._on_its_way, self._digest = None, b""
        else:
            self._on_its_way, self._waiting = None, [batch, *self._waiting]

    @synchronized
    def _settle(self, pending: Pending[list[Receipt]]) -> None:
        if self._pending is not pending or self._on_its_way is None:
            return
        failure = pending.exception()
        if failure is None:
            receipt = pending.result()[0]
            replayed = self._replayed or receipt.replayed
            digest = b"" if replayed or not receipt.events else receipt.events[-1].digest
            self._on_its_way, self._pending, self._replayed, self._digest = None, None, replayed, digest
            self._send_next()
        else:
            if self._failure is not failure:
                parts = [self._on_its_way, *self._waiting]
                refused = [*self._refused, *(event for part in parts for event in part.events)]
                self._failure, self._refused, self._waiting = failure, refused, []
            self._on_its_way, self._pending = None, None


def _joined(waiting: list[NewEvents]) -> tuple[NewEvents, int]:
    """Join as many decisions as possible, and return the result and their number. A decision with a key stays alone."""
    first = waiting[0]
    parts = [first]
    if first.idempotency_key is None:
        parts += takewhile(lambda new: new.idempotency_key is None, waiting[1:])
    events = tuple(event for part in parts for event in part.events)
    metas = tuple(meta for part in parts for meta in part.metas)
    return msgspec.structs.replace(first, events=events, metas=metas), len(parts)


def require_sizes(events: Sequence[Event]) -> None:
    """
    Refuse events that are too large at once: the log would do so later. The log itself reports events that cannot be
    encoded.
    """
    for event in events:
        # `suppress` would take as long as encoding a short event does, and a first save may have 10,000 of them.
        try:
            payload = encode_payload(event)
        except (ValueError, TypeError, OverflowError):
            continue
        require_payload_size(payload)


def remove_settled(unflushed: set[Any]) -> None:
    """Remove journals whose events are all on disk: their owner may have released them and will never flush."""
    for journal in list(unflushed):
        journal._outbox.forget_if_settled(partial(unflushed.discard, journal))
