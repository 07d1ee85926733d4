"""Damage on PostgreSQL: rows that are not what was written are told, by name, and never given out silently."""

import random
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Meta, encode_payload
from refold.domain.log.ports import ANY_VERSION, LiveLog, NewEvents
from refold.infrastructure.log.compression import Compression
from refold.infrastructure.log.postgres import dictionaries
from tests.verifying.damaging import sql as run_sql

from .damage import (
    BOMBS,
    LARGE,
    A,
    B,
    bombs,
    damaged_values,
    require_damage,
    require_damage_or_the_same,
    require_little_memory,
    ways_to_read,
)
from .stores import Store, store_at
from .writing import append, new, numbers, said


@pytest.fixture
def store(ready_pg_url: str) -> Iterator[Store]:
    """An empty database."""
    store = store_at(ready_pg_url)
    yield store
    store.close()


def sql(store: Store, statement: str, *values: object) -> list[Any]:
    """Do something to the database behind the log's back."""
    return run_sql(store.place, statement, *values)


def flipped(store: Store, table: str, column: str, where: str, *, step: int = 1) -> Iterator[None]:
    """Flip each byte of one value (or each `step`th) in several ways, and put it right again at the end."""
    change = f"UPDATE {table} SET {column} = %s WHERE {where}".encode()
    with psycopg.connect(store.place, autocommit=True) as connection:
        [(value,)] = connection.execute(f"SELECT {column} FROM {table} WHERE {where}".encode()).fetchall()
        for damaged in damaged_values(value, step=step):
            connection.execute(change, (damaged,))
            yield
        connection.execute(change, (value,))


def two_streams(store: Store, count: int) -> LiveLog:
    """Write `count` events with a meta each to one stream, and as many to another."""
    log = store.open()
    for start in range(0, count, 10):
        size = min(10, count - start)
        events = tuple(said(start + number, f"text {start + number}") for number in range(size))
        metas = tuple(Meta("mia", "t1", "chat:b@1", None) for _ in events)
        log.append([NewEvents(stream=A, expected_version=ANY_VERSION, events=events, metas=metas, root="r")]).result()
        append(log, B, *(said(start + number) for number in range(size)), root="s")
    return log


def rows_of(store: Store, stream: str) -> str:
    """Return the condition that finds a stream's rows."""
    [(lane, key)] = sql(store, "SELECT slice, key FROM stream WHERE id = %s", stream)
    return f"slice = {lane} AND stream_key = {key}"


@pytest.mark.parametrize("column", ["payload", "digest", "meta"])
def test_every_byte_of_a_row(store: Store, column: str) -> None:
    """A flipped byte in payload, digest or meta is told; where it changes nothing, nothing changes."""
    log = two_streams(store, 3)
    wanted, where = log.read_events(A), f"{rows_of(store, A)} AND version = 2"

    raised = [require_damage_or_the_same(log, wanted) for _ in flipped(store, "event", column, where, step=3)]

    assert sum(raised) >= 0.9 * 3 * len(raised)
    assert log.read_events(A) == wanted


CHANGES = [
    "payload = '\\x00'",
    "payload = ''",
    "payload = '\\x0081a174a1ff'",
    "payload = '\\x0381'",
    "digest = digest || '\\x00'",
    "digest = ''",
    "meta = NULL",
    "meta = '\\x90'",
    "meta = '\\xc1'",
    "meta = '\\x91a1ff'",
    "meta = ''",
    "recorded_at = recorded_at + 1",
    "version = 999",
]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("count", [4, 130])
def test_a_changed_row_is_named(store: Store, change: str, count: int) -> None:
    """The error says which event it is, or in which run of 64; whatever is read, envelopes need their digests."""
    log = two_streams(store, count)

    sql(store, f"UPDATE event SET {change} WHERE {rows_of(store, A)} AND version = 2")

    ways = ["read", "read_all"]
    if "payload" in change or "version" in change:
        ways.append("read_events")
    require_damage(log, r"event chat:a@\d|events chat:a@|run chat:a@|position", ways=ways)


@pytest.mark.parametrize("count", [4, 130])
@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_missing_row_is_named(store: Store, count: int, version: int) -> None:
    """A hole in a stream, and in the log."""
    log = two_streams(store, count)

    sql(store, f"DELETE FROM event WHERE {rows_of(store, A)} AND version = {version}")

    require_damage(log, f"event chat:a@{version}", ways=["read", "read_events"])
    require_damage(log, r"position|event chat:a@", ways=["read_all"])


def test_two_rows_that_changed_places(store: Store) -> None:
    """Each has a digest, and it is not that of its new place."""
    two_streams(store, 70).close()
    log, rows = store.open(), rows_of(store, A)

    sql(store, f"UPDATE event SET version = -version WHERE {rows} AND version IN (1, 2)")
    sql(store, "UPDATE event SET version = 3 + version WHERE version < 0")

    require_damage(log, "chat:a@")


def test_a_missing_stream(store: Store) -> None:
    """Events whose stream has no row are damage, not an empty stream."""
    two_streams(store, 4).close()

    sql(store, "DELETE FROM stream WHERE id = %s", A)

    require_damage(store.open(), "stream ", ways=["read_all"])


def test_a_renamed_stream(store: Store) -> None:
    """The digest covers the stream's id."""
    two_streams(store, 70).close()

    sql(store, "UPDATE stream SET id = 'chat:c' WHERE id = %s", A)

    require_damage(store.open(), "chat:c@1", stream="chat:c")


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize("column", ["payload", "meta", "recorded_at", "position", "digest"])
def test_what_two_events_exchanged(store: Store, column: str, is_read_before: bool) -> None:
    """Of one run of 64, of two, or next to each other: every way of reading tells, also where all was read before."""
    log, where = two_streams(store, 200), rows_of(store, A)
    for first, second in ((70, 71), (70, 75), (10, 140)):
        if is_read_before:
            assert [len(read()) for read in ways_to_read(log).values()] == [200] * 4
        values = dict(sql(store, f"SELECT version, {column} FROM event WHERE {where}"))
        # The metas of all events are the same.
        other = b"\x91\xa1x" if column == "meta" else values[second]
        put(store, column, where, {first: other, second: values[first]})

        require_damage(log, rf"event chat:a@({first}|{first + 1}) is damaged|position|there is no event")

        put(store, column, where, {first: values[first], second: values[second]})


def put(store: Store, column: str, where: str, values: dict[int, Any]) -> None:
    """Give versions other values in a column, also where no two may have the same."""
    for number, version in enumerate(values):
        if column == "position":
            sql(store, f"UPDATE event SET position = {-number - 1} WHERE {where} AND version = {version}")
    for version, value in values.items():
        sql(store, f"UPDATE event SET {column} = %s WHERE {where} AND version = {version}", value)


@pytest.mark.parametrize("change", ["delete", "empty", "no zstd", "no text", "another text"])
@pytest.mark.parametrize("count", [1, 70])
def test_a_damaged_text(store: Store, change: str, count: int) -> None:
    """A large text that is not what it was is told, and named."""
    log = store.open()
    append(log, A, *(said(number, LARGE) for number in range(count)))
    data = {
        "empty": b"",
        "no zstd": b"\x01\x02",
        "no text": b"\x00\xff",
        "another text": Compression(lambda number: b"").shrink_block(b"another"),
    }

    if change == "delete":
        sql(store, "DELETE FROM blob")
    else:
        sql(store, "UPDATE blob SET data = %s", data[change])

    require_damage(log, r"blob \d+\.1|event chat:a@1")


def trained(store: Store, text: str = "the order of a customer was shipped") -> LiveLog:
    """Open a log that has its dictionary."""
    log = store.open()
    for start in range(0, 1_100, 50):
        append(log, B, *(said(start + n, f"{start + n} {text}") for n in range(50)))
    # Closing waits for the training, and the next to open it begins with the dictionary.
    log.close()
    assert sql(store, "SELECT number FROM dictionary") == [(1,)]
    return store.open()


@pytest.mark.parametrize("change", ["flip", "delete"])
def test_a_damaged_dictionary(store: Store, change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that was compressed with it can be read; the error names it by its number."""
    log = trained(store)
    append(
        log, A, *(said(n, f"the order {n} of a customer was shipped, and more is to be said; " * 30) for n in range(40))
    )
    log.close()
    assert sql(store, "SELECT count(*) FROM event WHERE get_byte(payload, 0) = 2")[0][0] > 10

    if change == "flip":
        sql(store, "UPDATE dictionary SET data = set_byte(data, 99, (get_byte(data, 99) + 1) % 256)")
    else:
        sql(store, "DELETE FROM dictionary")
    # A process that finds none trains one, of the same events, and so the same one; it may be there before the read.
    monkeypatch.setattr(dictionaries, "train_dictionary", lambda samples: None)

    with pytest.raises(DamagedError, match="dictionary 1"):
        store.open().read(A)


def test_reading_elsewhere_goes_on(store: Store) -> None:
    """Damage in one stream does not keep anybody from reading and writing another."""
    log = two_streams(store, 3)
    sql(store, f"UPDATE event SET payload = '\\x00' WHERE {rows_of(store, A)} AND version = 2")

    append(log, B, said(3))

    assert numbers(log.read(B)) == ["m0", "m1", "m2", "m3"]
    assert numbers(log.read(A, until=1)) == ["m0"]


def test_a_large_text_lies_there_once(store: Store) -> None:
    """However many events of a slice hold it; other texts and other key ids are other rows."""
    log = store.open()
    log.append([new(A, said(1, LARGE), said(2, LARGE)), new(B, said(3, LARGE))]).result()
    append(log, A, said(4, LARGE), said(5, LARGE + "!"))
    for key_id in ("k1", "k1", "k2"):
        keyed = Meta(key_id=key_id)
        wanted = NewEvents(stream=B, expected_version=-1, events=(said(6, LARGE),), metas=(keyed,), root="r")
        log.append([wanted]).result()

    found = sql(store, "SELECT key_id, count(*) FROM blob GROUP BY key_id ORDER BY key_id")
    assert found == [("", 2), ("k1", 1), ("k2", 1)]
    assert sql(store, "SELECT max(length(payload)) FROM event")[0][0] < 200


@pytest.mark.parametrize("says", BOMBS)
@pytest.mark.parametrize("prefix", [b"\x01", b"\x11", b"\x02\x00\x01"])
@pytest.mark.parametrize("count", [3, 300])
def test_a_bomb_in_a_row(store: Store, says: str, prefix: bytes, count: int) -> None:
    """A few kilobytes that would be more than anybody can have stored are damage, not memory."""
    log = trained(store) if prefix[0] == 2 else store.open()
    append(log, A, *(said(number, f"text {number} " * 300) for number in range(count)))
    where = f"{rows_of(store, A)} AND version = 2"
    sql(store, f"UPDATE event SET payload = %s WHERE {where}", prefix + bombs()[says])

    require_little_memory(log, "event chat:a@2|^chat:a@2")


@pytest.mark.parametrize("says", BOMBS)
def test_a_bomb_in_a_text(store: Store, says: str) -> None:
    """So in a large text; the error names it."""
    log = store.open()
    append(log, A, said(1, LARGE))
    sql(store, "UPDATE blob SET data = %s", b"\x01" + bombs()[says])

    require_little_memory(log, r"blob \d+.1")


def test_what_a_dictionary_saves(store: Store) -> None:
    """Payloads of the form that it was trained on take less with it, in the next process too; no text is in it."""
    boilerplate = f"{random.Random(7).getrandbits(4_800):x}"
    log = trained(store, boilerplate)
    event = said(7_777, f"{boilerplate} and the order was shipped")
    append(log, A, event)

    [(stored,)] = sql(store, f"SELECT payload FROM event WHERE {rows_of(store, A)}")
    assert stored[0] == 2
    assert len(stored) < len(Compression(bytes).shrink(encode_payload(event)))
    [(dictionary,)] = sql(store, "SELECT data FROM dictionary")
    assert boilerplate[:40].encode() not in dictionary
    assert store.open().read_events(A) == [event]
