"""From what a database says about an append back to the port: receipts with recorded events."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..domain.log.envelope import RecordedEvent
from ..domain.log.ports import NewEvents, Receipt, require_same_call
from ..domain.positions import Position
from .records import Appended, Known, Placed

ReadStream = Callable[..., list[RecordedEvent]]


def receipts_of(batch: Sequence[NewEvents], answer: Appended, read: ReadStream) -> list[Receipt]:
    """
    Return a receipt for each part of a batch; `read` fetches what was recorded before under the same key.

    Raises:
        IdempotencyError: that was another call's; nothing was written.
        DamagedError: it cannot be read, or was not recorded under the key.
    """
    receipts: list[Receipt] = []
    for new, placed in zip(batch, answer, strict=True):
        if not isinstance(placed, list):
            return [_repeated(new, part, read) for new, part in zip(batch, answer, strict=True)]
        receipts.append(Receipt(_recorded(new, placed)))
    return receipts


def _repeated(new: NewEvents, known: list[Placed] | Known | None, read: ReadStream) -> Receipt:
    if not isinstance(known, Known):
        return Receipt((), True)
    recorded = read(new.stream, after=known.first_version - 1, until=known.last_version)
    require_same_call(new.stream, new.idempotency_key or "", new.fingerprint, recorded)
    return Receipt(tuple(recorded), True)


def _recorded(new: NewEvents, placed: list[Placed]) -> tuple[RecordedEvent, ...]:
    stream = new.stream
    # A list first: a tuple from a generator costs twice as much, and this is on the way of every append.
    return tuple(
        [
            RecordedEvent(stream, version, Position(lane, number), recorded_at, event, meta, digest)
            for event, meta, (version, lane, number, recorded_at, digest) in zip(
                new.events, new.metas, placed, strict=True
            )
        ]
    )
