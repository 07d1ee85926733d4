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

import msgspec

from .canonical import require_key
from .envelope import Event, Meta
from .errors import ConcurrencyError, DecisionRefusedError, InvalidInputError, RefoldError
from .ports import Log, NewEvents, Receipt, StreamEnd, require_known

__all__ = ["Transaction", "current_or_new_transaction", "current_transaction", "transaction"]


class _Part(msgspec.Struct):
    """What one stream contributes, and how its owner hears of the end: a receipt, or None to roll back."""

    first: NewEvents
    # In one list, which grows in one step: an interrupt leaves no event without its meta.
    recorded: list[tuple[Event, Meta]]
    settle: Callable[[Receipt | None], None] | None

    def joined(self, key: str | None) -> NewEvents:
        """Return all of it; the transaction's key goes into the envelopes too, so that it is known wherever they go."""
        events, metas = tuple(event for event, _ in self.recorded), tuple(meta for _, meta in self.recorded)
        if key is not None:
            metas = tuple(msgspec.structs.replace(meta, idempotency_key=key) for meta in metas)
        return msgspec.structs.replace(self.first, events=events, metas=metas, idempotency_key=key)


class Transaction:
    """The changes collected so far, one part per stream."""

    def __init__(self, log: Log, idempotency_key: str | None) -> None:
        self.log = log
        self.idempotency_key = idempotency_key
        self._parts: dict[str, _Part] = {}
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

    def commit(self) -> None:
        """
        Append everything as one; on an error every view is rolled back and the error goes on.

        Raises:
            DecisionRefusedError: this process was forked within the block: it is the parent's to commit.
        """
        self._is_open = False
        if not self._is_here:
            raise DecisionRefusedError(
                "this process was forked within a transaction, which the parent commits: end the child in the block"
            )
        parts = list(self._parts.values())
        batch = [part.joined(self.idempotency_key) for part in parts]
        try:
            receipts = self.log.append(batch).result() if batch else []
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

    def roll_back(self) -> None:
        """
        Let every context forget what it decided within the block.
        """
        self._is_open = False
        # A child's views forgot it at the fork.
        for part in self._parts.values() if self._is_here else ():
            if part.settle is not None:
                part.settle(None)

    def finish(self) -> None:
        """Say that nothing more is done for it: a view that was not told so by now must find out itself."""
        self._is_open, self._is_over = False, True


_CURRENT: ContextVar[Transaction | None] = ContextVar("refold_transaction", default=None)


def current_transaction(log: Log) -> Transaction | None:
    """
    Return the transaction that is open on this log in this flow of control, if any.
    """
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
    """
    Yield the transaction that is open on a log, or else one for the block.
    """
    current = current_transaction(log)
    if current is not None:
        yield current
        return
    with transaction(log, idempotency_key=idempotency_key) as opened:
        yield opened
