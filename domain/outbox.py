"""
The outbox of one stream: events that were decided and queued, and are not known to be on disk yet.

One batch at a time is on its way; what comes meanwhile waits and goes together as the next. What was decided on
events that did not get in must not get in either, so a refusal refuses everything that waits behind it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from .envelope import Event
from .ports import NewEvents, Pending, Receipt

__all__ = ["Outbox", "Settlement"]


class Settlement(NamedTuple):
    """How it went since the last time: what refused which events, and whether any were only repeated."""

    failure: BaseException | None
    refused: tuple[Event, ...]
    replayed: bool


class Outbox:
    """Queues decisions on one stream; `send` hands a batch to the log without waiting."""

    def __init__(self, send: Callable[[NewEvents], Pending[list[Receipt]]]) -> None:
        self._send = send
        self._changed = threading.Condition(threading.RLock())
        self._waiting: list[NewEvents] = []
        self._on_its_way: NewEvents | None = None
        self._failure: BaseException | None = None
        self._refused: list[Event] = []
        self._replayed = False

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def events(self) -> tuple[Event, ...]:
        """What is not known to be on disk yet, in order."""
        with self._changed:
            parts = [self._on_its_way, *self._waiting] if self._on_its_way else self._waiting
            return tuple(event for part in parts for event in part.events)

    def put(self, new: NewEvents) -> None:
        """
        Queue a decision; refused at once, to be told by `wait`, when one before it was.
        """
        with self._changed:
            if self._failure is not None:
                self._refused.extend(new.events)
                return
            self._waiting.append(new)
            if self._on_its_way is None:
                self._send_next()

    def wait(self) -> Settlement:
        """
        Wait until nothing is on its way, and return how it went; the next time starts afresh.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._on_its_way is None)
            settlement = Settlement(self._failure, tuple(self._refused), self._replayed)
            self._failure, self._replayed = None, False
            self._refused.clear()
            return settlement

    def _send_next(self) -> None:
        batch = _joined(self._waiting)
        self._on_its_way = batch
        self._send(batch).add_done_callback(self._settle)

    def _settle(self, pending: Pending[list[Receipt]]) -> None:
        with self._changed:
            assert self._on_its_way is not None, "only what is on its way is settled"
            failure = pending.exception()
            if failure is not None:
                self._failure = failure
                for part in (self._on_its_way, *self._waiting):
                    self._refused.extend(part.events)
                self._waiting.clear()
            else:
                self._replayed = self._replayed or pending.result()[0].replayed
            self._on_its_way = None
            if self._waiting:
                self._send_next()
            self._changed.notify_all()


def _joined(waiting: list[NewEvents]) -> NewEvents:
    """Take as many decisions as make one: those with an idempotency key go by themselves."""
    first = waiting.pop(0)
    events, metas = list(first.events), list(first.metas)
    if first.idempotency_key is None:
        while waiting and waiting[0].idempotency_key is None:
            following = waiting.pop(0)
            events.extend(following.events)
            metas.extend(following.metas)
    return msgspec.structs.replace(first, events=tuple(events), metas=tuple(metas))
