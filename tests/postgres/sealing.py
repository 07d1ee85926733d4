"""Logs on PostgreSQL whose events are packed into blocks as soon as they are recorded, all but the last of a slice."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from unittest.mock import patch

from refold.domain.log.ports import Receipt
from refold.infrastructure.log.postgres import blocks
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import Call, int4

SEALED = "SELECT (SELECT max(last) FROM block WHERE slice = $1), (SELECT max(position) FROM event WHERE slice = $1)"


def seal_slice(log: PostgresLog, number: int) -> None:
    """Pack what can be packed of one slice."""
    ((after, end),) = log.database.ask(Call(SEALED, (int4(number),)))[0]
    after, before = after or 0, -1
    while after != before:
        before, after = after, log._sealer.seal(number, after, end or 0)


@contextmanager
def small_blocks(kept: int = 1) -> Iterator[None]:
    """Pack any number of events, all but the last `kept` of a slice."""
    with patch.object(blocks, "ROWS_KEPT", kept), patch.object(blocks, "BLOCK_EVENTS", 1):
        yield


@contextmanager
def sealed_at_once() -> Iterator[None]:
    """Seal after each append of this process."""
    wake = PostgresLog._wake

    def seal_and_wake(log: PostgresLog, answers: Sequence[list[Receipt] | Exception]) -> None:
        receipts = [one for answer in answers if isinstance(answer, list) for one in answer]
        for number in {one.position.slice for receipt in receipts for one in receipt.events}:
            seal_slice(log, number)
        wake(log, answers)

    with small_blocks(), patch.object(PostgresLog, "_wake", seal_and_wake):
        yield
