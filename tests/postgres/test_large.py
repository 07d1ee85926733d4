"""Sizes at which pipelines stand still, and groups that are larger than one trip."""

import os

import pytest

from refold.domain.chat.events import FunctionCalled
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import TRIP_BYTES_MAX
from tests.contract.writing import append, check_chain, new, said

from .tables import count

MIB = 1 << 20


def noise(size: int) -> str:
    """Return text that cannot be compressed below three quarters."""
    return os.urandom(size // 2).hex()


@pytest.mark.parametrize("mebibytes", [1, 9, 32])
def test_a_large_text(log: PostgresLog, mebibytes: int) -> None:
    """It goes in by itself and comes back whole."""
    text = noise(mebibytes * MIB)
    append(log, "chat:a", said(1), expected=0)

    append(log, "chat:a", said(2, text), expected=1)
    append(log, "chat:a", said(3), expected=2)

    assert [one.event.content for one in log.read("chat:a")] == ["hello", text, "hello"]
    assert log.read_events("chat:a")[1] == said(2, text)


def test_a_large_payload_that_is_no_text(log: PostgresLog) -> None:
    """Bytes stay in their event: 32 MiB in one row."""
    metadata = b'{"data":"' + os.urandom(16 * MIB).hex().encode() + b'"}'
    call = FunctionCalled(id="f1", created_at=1.5, name="lookup", arguments="{}", call_id="c1", metadata=metadata)

    append(log, "chat:a", said(1), call, said(2))

    assert log.read("chat:a")[1].event.metadata == metadata


def test_a_batch_larger_than_a_trip(log: PostgresLog) -> None:
    """Many trips, one transaction: all of it or nothing."""
    texts = [noise(3_000) for _ in range(4_000)]
    assert sum(map(len, texts)) * 0.5 > TRIP_BYTES_MAX

    append(log, "chat:a", *[said(number, text) for number, text in enumerate(texts)], expected=0)

    assert log.read_events("chat:a") == [said(number, text) for number, text in enumerate(texts)]
    check_chain(log.read("chat:a"))


def test_many_events_at_once(log: PostgresLog) -> None:
    """Ten thousand in one batch."""
    append(log, "chat:a", *[said(number) for number in range(10_000)])

    assert len(log.read_events("chat:a")) == 10_000


def test_a_large_group(log: PostgresLog) -> None:
    """Hundreds of callers, whose events together are more than one trip carries."""
    for number in range(200):
        append(log, f"chat:{number}", said(0), root=f"r{number % 7}")
    texts = [said(number, noise(3_900)) for number in range(8)]

    futures = [log.append([new(f"chat:{number}", *texts, expected=1)], wait=False) for number in range(200)]

    assert [future.exception(60) for future in futures] == [None] * 200
    assert log.read_events("chat:199")[1:] == texts


def test_more_large_texts_than_are_remembered(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text that stands in one batch first and last is stored once, whatever lies between; so is one of before."""
    monkeypatch.setattr("refold.infrastructure.log.postgres.planning.BLOBS_MAX", 2)
    texts = [noise(8_000) for _ in range(6)]
    append(log, "chat:a", said(0, texts[5]), expected=0)

    batch = [said(number, text) for number, text in enumerate([*texts, *texts], 1)]
    append(log, "chat:a", *batch)
    append(log, "chat:a", *batch, expected=13)

    assert log.read_events("chat:a")[13:] == batch
    assert log.database.ask(count("blob"))[0] == [(6,)]


def test_many_streams_at_once(log: PostgresLog) -> None:
    """A transaction over hundreds of streams and slices."""
    receipts = log.append([new(f"chat:{number}", said(number), root=f"r{number}") for number in range(300)]).result()

    assert {receipt.events[0].version for receipt in receipts} == {1}
    assert sum(last for _, last in log.now().heads) == 300
