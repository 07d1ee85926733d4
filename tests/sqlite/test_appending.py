"""
The quick way to append takes one statement or one short transaction, whatever was remembered wrongly.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from refold.domain.errors import ConcurrencyError
from refold.infrastructure.sqlite_log.appending import ROWS_IN_ONE_MAX
from refold.infrastructure.sqlite_log.log import SqliteLog

from ..contract.writing import append, check_chain, everything, new, said

SIZES = [1, 2, ROWS_IN_ONE_MAX, ROWS_IN_ONE_MAX + 1, 60]


@pytest.mark.parametrize("size", SIZES)
def test_two_logs_on_one_file_in_turn(tmp_path: Path, size: int) -> None:
    """What one process remembers of the end is wrong each time; no position is taken twice or left out."""
    logs = [SqliteLog(tmp_path / "log.db") for _ in range(2)]

    for number in range(6):
        events = [said(100 * number + place) for place in range(size)]
        append(logs[number % 2], f"chat:{number % 2}", *events)

    recorded = everything(logs[0])
    assert [one.position.number for one in recorded] == list(range(1, 6 * size + 1))
    for stream in ("chat:0", "chat:1"):
        check_chain(logs[1].read(stream))
    for log in logs:
        log.close()


@pytest.mark.parametrize("size", SIZES)
def test_a_stale_writer_writes_nothing(tmp_path: Path, size: int) -> None:
    """Not even the first rows of a batch."""
    mine, others = (SqliteLog(tmp_path / "log.db") for _ in range(2))
    append(mine, "chat:a", said(0))
    append(mine, "chat:a", said(1), expected=1)
    append(others, "chat:a", said(2))

    with pytest.raises(ConcurrencyError):
        append(mine, "chat:a", *(said(10 + place) for place in range(size)), expected=2)

    assert [one.event.id for one in everything(mine)] == ["m0", "m1", "m2"]
    mine.close()
    others.close()


def test_several_streams_at_once(tmp_path: Path) -> None:
    """Each goes on at its own version, in one order of the log."""
    log = SqliteLog(tmp_path / "log.db")
    for stream in ("chat:a", "chat:b"):
        append(log, stream, said(0))

    receipts = log.append([new("chat:b", said(1), said(2), expected=1), new("chat:a", said(3), expected=1)]).result()

    assert [[one.version for one in receipt.events] for receipt in receipts] == [[2, 3], [2]]
    assert [one.position.number for receipt in receipts for one in receipt.events] == [3, 4, 5]
    assert [receipt.events for receipt in receipts] == [
        tuple(log.read("chat:b", after=1)),
        tuple(log.read("chat:a", after=1)),
    ]
    log.close()


def test_nothing_to_append(tmp_path: Path) -> None:
    """An empty batch is no error and no event, before the first append and after it."""
    log = SqliteLog(tmp_path / "log.db")

    assert log.append([]).result() == []
    append(log, "chat:a", said(0))
    assert log.append([]).result() == []

    assert len(everything(log)) == 1
    log.close()
