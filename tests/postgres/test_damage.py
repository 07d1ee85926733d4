"""What was changed behind the log's back is noticed when it is read, and named."""

from typing import Any, LiteralString

import pytest

from refold.domain.envelope import chain_digest
from refold.domain.errors import DamagedError
from refold.domain.positions import BEGINNING
from refold.infrastructure.postgres_log.log import PostgresLog
from refold.infrastructure.postgres_log.wire import Call
from tests.contract.writing import append, said

from .conftest import OpenLog
from .tables import count, spoil

LONG = "a text of some length " * 300


@pytest.fixture
def full(log: PostgresLog) -> PostgresLog:
    """
    A stream of 200 events: three whole runs and a rest, one large text among them.
    """
    append(log, "chat:a", *[said(number, LONG if number == 100 else f"text {number} " * 20) for number in range(200)])
    return log


@pytest.mark.parametrize(
    "change",
    [
        "update event set payload = overlay(payload placing '\\x00' from 30) where version = 70",
        "update event set digest = overlay(digest placing '\\x00' from 9) where version = 70",
        "update event set recorded_at = recorded_at + 1 where version = 70",
        "update event set meta = '\\x91a178' where version = 70",
        "update event set payload = (select payload from event where version = 72) where version = 70",
    ],
)
def test_a_changed_event(full: PostgresLog, pg_url: str, change: LiteralString) -> None:
    """Whatever was changed of it, readers of the stream and of the log are told which event it is."""
    spoil(pg_url, change)

    for read in (lambda: full.read("chat:a"), lambda: full.read_all(after=BEGINNING, limit=500)):
        with pytest.raises(DamagedError, match="event chat:a@70 is damaged: it"):
            read()
    assert len(full.read("chat:a", until=69)) == 69
    assert len(full.read("chat:a", after=71)) == 129


@pytest.mark.parametrize("version", [1, 64, 70, 192, 193, 200])
def test_a_changed_payload_without_its_envelope(full: PostgresLog, pg_url: str, version: int) -> None:
    """Within a run its checksum fails, and the digests tell which event it was; outside it is the digest."""
    damage: LiteralString = "update event set payload = overlay(payload placing '\\x20' from 30) where version = "
    spoil(pg_url, damage + str(version))

    with pytest.raises(DamagedError, match=f"event chat:a@{version} is damaged: it"):
        full.read_events("chat:a")


def test_a_checksum_that_is_wrong_or_gone(full: PostgresLog, pg_url: str) -> None:
    """The events are what counts: their own digests speak for them."""
    expected = full.read_events("chat:a")
    spoil(pg_url, "update run set checksum = '\\x00' where version = 64")
    spoil(pg_url, "delete from run where version = 128")

    assert full.read_events("chat:a") == expected == [one.event for one in full.read("chat:a")]


def test_runs_are_checked_by_checksum(full: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 200 events the digests of eight are computed: those behind the last whole run."""
    computed: list[int] = []

    def chain_and_count(previous: bytes, stream: str, version: int, *rest: Any) -> bytes:
        computed.append(version)
        return chain_digest(previous, stream, version, *rest)

    monkeypatch.setattr("refold.infrastructure.postgres_log.opening.chain_digest", chain_and_count)
    for read in (
        lambda: full.read_events("chat:a"),
        lambda: full.read("chat:a"),
        lambda: full.read_all(after=BEGINNING, limit=500).events,
    ):
        computed.clear()
        assert len(read()) == 200
        assert computed == list(range(193, 201))


def test_runs_that_came_together_event_by_event(log: PostgresLog, open_log: OpenLog) -> None:
    """The writer keeps the sum; one who comes in the middle of a run does without, until the next begins."""
    for number in range(70):
        append(log, "chat:a", said(number))
    second = open_log()
    for number in range(70, 260):
        append(second, "chat:a", said(number, LONG if number % 50 == 0 else "hello"))

    rows = second.database.ask(Call("SELECT version FROM run ORDER BY version"))[0]
    assert rows == [(64,), (192,), (256,)]
    assert second.read_events("chat:a") == [one.event for one in second.read("chat:a")]


def test_a_missing_event(full: PostgresLog, pg_url: str) -> None:
    """Its version is named, also where it would only have been needed for the digest of the next."""
    spoil(pg_url, "delete from event where version = 64")

    for read in (full.read, full.read_events):
        for after in (0, 63, 64):
            with pytest.raises(DamagedError, match="event chat:a@64 is damaged: it is missing"):
                read("chat:a", after=after)


def test_a_large_text(full: PostgresLog, pg_url: str) -> None:
    """Changed or missing, the row of the text is named."""
    spoil(pg_url, "update blob set data = '\\x00' || convert_to(repeat('x', 6600), 'UTF8')")
    with pytest.raises(DamagedError, match=r"blob \d+\.1 is damaged: it does not match its hash"):
        full.read_events("chat:a")

    spoil(pg_url, "delete from blob")
    with pytest.raises(DamagedError, match=r"blob \d+\.1 is damaged: it is missing, and events refer to it"):
        full.read("chat:a")


def test_a_dictionary(open_log: OpenLog, log: PostgresLog, pg_url: str) -> None:
    """It is trained after 1,024 events; where its bytes are not its own any more, it is named."""
    for start in range(0, 1_200, 300):
        texts = [f"a text like many others, number {number}. " * 5 for number in range(start, start + 300)]
        append(log, "chat:a", *[said(number, text) for number, text in enumerate(texts)])
    log.close()
    again = open_log()
    append(again, "chat:a", said(1, "a text like many others, the last one. " * 5))
    assert (again.database.ask(count("dictionary"))[0], len(again.read("chat:a"))) == ([(1,)], 1_201)

    spoil(pg_url, "update dictionary set data = data || '\\x00'")

    with pytest.raises(DamagedError, match="dictionary 1 is damaged: its bytes do not match its checksum"):
        open_log()
