"""
A transaction: changes to several contexts that become one append, or nothing.

Within the block every context decides on its own view as it will be, and the log hears of it only at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import msgspec

from .canonical import require_key
from .envelope import Event, Meta
from .errors import InvalidInputError
from .ports import Log, NewEvents, Receipt

__all__ = ["Transaction", "current_or_new_transaction", "current_transaction", "transaction"]


class _Part(msgspec.Struct):
    """What one stream contributes, and how its owner hears of the end: a receipt, or None to roll back."""

    new: NewEvents
    settle: Callable[[Receipt | None], None] | None


class Transaction:
    """The changes collected so far, one part per stream."""

    def __init__(self, log: Log, idempotency_key: str | None) -> None:
        self.log = log
        self.idempotency_key = idempotency_key
        self._parts: dict[str, _Part] = {}
        # A task that was started within the block may outlive it; what it then writes is its own.
        self.is_open = True

    def add(self, new: NewEvents, settle: Callable[[Receipt | None], None] | None = None) -> None:
        """
        Add the events of one decision; `settle` is called once per stream when the block ends, if anybody waits.

        Raises:
            InvalidInputError: a second handle of the same stream writes in this transaction.
        """
        part = self._parts.get(new.stream)
        if part is None:
            self._parts[new.stream] = _Part(new, settle)
            return
        decided_on = part.new.expected_version + len(part.new.events)
        if new.expected_version != decided_on:
            raise InvalidInputError(f"{new.stream} is written through two handles in one transaction: use one")
        part.new = _joined(part.new, new.events, new.metas)

    def commit(self) -> None:
        """
        Append everything as one; on an error every view is rolled back and the error goes on.
        """
        self.is_open = False
        parts = list(self._parts.values())
        if not parts:
            return
        batch = [_keyed(part.new, self.idempotency_key) for part in parts]
        try:
            receipts = self.log.append(batch).result()
        except BaseException:
            self.roll_back()
            raise
        for part, receipt in zip(parts, receipts, strict=True):
            if part.settle is not None:
                part.settle(receipt)

    def roll_back(self) -> None:
        """
        Let every context forget what it decided within the block.
        """
        self.is_open = False
        for part in self._parts.values():
            if part.settle is not None:
                part.settle(None)


def _keyed(new: NewEvents, key: str | None) -> NewEvents:
    """Put the transaction's key into the envelopes as well, so that it is known wherever the events go."""
    if key is None:
        return new
    metas = tuple(msgspec.structs.replace(meta, idempotency_key=key) for meta in new.metas)
    return msgspec.structs.replace(new, metas=metas, idempotency_key=key)


def _joined(first: NewEvents, events: tuple[Event, ...], metas: tuple[Meta, ...]) -> NewEvents:
    return msgspec.structs.replace(first, events=first.events + events, metas=first.metas + metas)


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
    token = _CURRENT.set(opened)
    try:
        yield opened
    except BaseException:
        opened.roll_back()
        raise
    finally:
        _CURRENT.reset(token)
    opened.commit()


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
