"""What was changed behind the log's back is noticed when it is read, and named."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, LiteralString

import pytest

from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Chain
from refold.domain.positions import BEGINNING, Moment
from refold.infrastructure.log.postgres.log import PostgresLog
from tests.contract.writing import append, said

from .conftest import OpenLog
from .tables import count, spoil

LONG = "a text of some length " * 300


@pytest.fixture
def full(log: PostgresLog) -> PostgresLog:
    """A stream of 200 events: three runs of 64 and a rest, one large text among them."""
    append(log, "chat:a", *[said(number, LONG if number == 100 else f"text {number} " * 20) for number in range(200)])
    return log


@pytest.mark.parametrize(
    "change",
    [
        "update event set payload = overlay(payload placing '\\x00' from 30) where version = 70",
        "update event set digest = set_byte(digest, 8, 255 - get_byte(digest, 8)) where version = 70",
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


def test_versions_of_the_past(full: PostgresLog, pg_url: str) -> None:
    """A hole where the version of a moment or of a time is looked for is told of."""
    (end,) = full.now().heads
    spoil(pg_url, "delete from event where version between 80 and 120")

    for moment in (Moment((end,)), 1 << 60):
        with pytest.raises(DamagedError, match=r"event chat:a@\d+ is damaged: it is missing"):
            full.version_at("chat:a", moment)


@pytest.mark.parametrize("version", [1, 64, 70, 192, 193, 200])
def test_a_changed_payload_without_its_envelope(full: PostgresLog, pg_url: str, version: int) -> None:
    """The digests tell which event it was."""
    damage: LiteralString = "update event set payload = overlay(payload placing '\\x20' from 30) where version = "
    spoil(pg_url, damage + str(version))

    with pytest.raises(DamagedError, match=f"event chat:a@{version} is damaged: it"):
        full.read_events("chat:a")


def test_the_same_bytes_are_hashed_once(full: PostgresLog, pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of runs of 64 that were read before no digest is computed again, unless they refer to a large text or changed."""
    computed: list[int] = []
    whole = Chain.digests

    def chain_and_count(chain: Chain, previous: Any, streams: Any, versions: Any, *columns: Any) -> Iterator[bytes]:
        computed.extend(versions)
        return whole(chain, previous, streams, versions, *columns)

    monkeypatch.setattr(Chain, "digests", chain_and_count)
    full.read_events("chat:a")
    assert computed == list(range(1, 201))
    for read in (
        lambda: full.read_events("chat:a"),
        lambda: full.read("chat:a"),
        lambda: full.read_all(after=BEGINNING, limit=500).events,
    ):
        computed.clear()
        assert len(read()) == 200
        # The second run has the large text, and the last events are none.
        assert computed == [*range(65, 129), *range(193, 201)]
    spoil(pg_url, "update event set meta = '\\x91a178' where version = 10")
    with pytest.raises(DamagedError, match="event chat:a@10 is damaged: it does not match its digest"):
        full.read_events("chat:a")


def test_a_missing_event(full: PostgresLog, pg_url: str) -> None:
    """Its version is named, also where it would only have been needed for the digest of the next."""
    spoil(pg_url, "delete from event where version = 64")

    for read in (full.read, full.read_events):
        for after in (0, 63, 64):
            with pytest.raises(DamagedError, match="event chat:a@64 is damaged: it is missing"):
                read("chat:a", after=after)


def test_a_large_text(full: PostgresLog, pg_url: str) -> None:
    """Changed or missing, the row of the text is named; where it fits its hash, the event that refers to it."""
    spoil(pg_url, "update blob set data = '\\x00' || convert_to(repeat('x', 6600), 'UTF8')")
    with pytest.raises(DamagedError, match=r"blob \d+\.1 is damaged: its bytes do not match its hash"):
        full.read_events("chat:a")

    spoil(pg_url, "update blob set data = '\\x0061', hash = '\\x" + blake2b(b"a", digest_size=32).hexdigest() + "'")
    with pytest.raises(DamagedError, match="event chat:a@101 is damaged: it does not match its digest"):
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


def test_a_version_that_leaves_no_room(full: PostgresLog, open_log: OpenLog, pg_url: str) -> None:
    """An append that looks for the end of a stream says so, and adds nothing."""
    spoil(pg_url, "update event set version = 2147483647 where version = 200")

    with pytest.raises(DamagedError, match="the last version of chat:a is damaged"):
        append(open_log(), "chat:a", said(201))
    assert full.database.ask(count("event"))[0] == [(200,)]
