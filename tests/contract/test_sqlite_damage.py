"""Damage on SQLite: bytes that are not what was written are told, by name, and never given out silently."""

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from refold.domain.errors import DamagedError
from refold.domain.log.envelope import Chain, Meta
from refold.domain.log.ports import ANY_VERSION, LiveLog, NewEvents
from refold.domain.positions import BEGINNING
from refold.infrastructure.log.block_body import block_checksum
from tests.verifying.damaging import sql as run_sql

from .damage import (
    BOMBS,
    FORGERIES,
    LARGE,
    A,
    B,
    bombs,
    damaged_values,
    forge_blocks,
    require_damage,
    require_damage_or_the_same,
    require_little_memory,
    ways_to_read,
)
from .stores import Store, store_at
from .writing import append, new, numbers, said


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A file that does not exist yet."""
    store = store_at(tmp_path / "log.db")
    yield store
    store.close()


def sql(store: Store, statement: str, *values: object) -> list[Any]:
    """Do something to the file behind the log's back."""
    return run_sql(store.place, statement, *values)


def flipped(store: Store, table: str, column: str, where: str, *, step: int = 1) -> Iterator[None]:
    """Flip each byte of one value (or each `step`th) in several ways, and put it right again at the end."""
    [(value,)] = sql(store, f"SELECT {column} FROM {table} WHERE {where}")
    for damaged in damaged_values(value, step=step):
        sql(store, f"UPDATE {table} SET {column} = ? WHERE {where}", damaged)
        yield
    sql(store, f"UPDATE {table} SET {column} = ? WHERE {where}", value)


def three_rows(store: Store) -> LiveLog:
    """Write three events with a meta each, two of another stream between them."""
    log = store.open()
    for number in range(3):
        meta = Meta("mia", "t1", "chat:b@1", f"k{number}")
        event = said(number, f"text {number}")
        log.append([NewEvents(stream=A, expected_version=ANY_VERSION, events=(event,), metas=(meta,))]).result()
        append(log, B, said(number))
    return log


def sealed(store: Store, text: str = "text") -> LiveLog:
    """Write 300 events to each of two streams, 512 of which are sealed into blocks; return the log opened again."""
    log = store.open()
    for start in range(0, 300, 10):
        for stream in (A, B):
            append(log, stream, *(said(start + number, f"{text} {start + number}") for number in range(10)))
    log.close()
    assert sql(store, "SELECT count(*) FROM event")[0][0] < 100
    assert sql(store, "SELECT count(*) FROM block")[0][0] > 2
    return store.open()


@pytest.mark.parametrize("column", ["payload", "digest", "meta"])
def test_every_byte_of_a_row(store: Store, column: str) -> None:
    """A flipped byte in payload, digest or meta is told; where it changes nothing, nothing changes."""
    log = three_rows(store)
    wanted = log.read_events(A)

    raised = [
        require_damage_or_the_same(log, wanted) for _ in flipped(store, "event", column, "stream = 1 AND version = 2")
    ]

    assert sum(raised) >= 0.9 * 3 * len(raised)
    assert log.read_events(A) == wanted


@pytest.mark.parametrize(
    ("change", "naming"),
    [
        ("payload = cast(replace(cast(payload AS TEXT), 'text 1', 'text 9') AS BLOB)", "event chat:a@2"),
        ("payload = x'00'", "event chat:a@2"),
        ("payload = x''", "event chat:a@2"),
        ("payload = x'0081a174ff'", "event chat:a@2"),
        ("payload = x'0081a174a1ff'", "event chat:a@2"),
        ("payload = x'0381'", "event chat:a@2"),
        ("payload = x'02ffff00'", "event chat:a@2|dictionary 65535"),
        ("digest = zeroblob(32)", "event chat:a@2"),
        ("digest = x''", "event chat:a@2"),
        ("meta = NULL", "event chat:a@2"),
        ("meta = x'90'", "event chat:a@2"),
        ("meta = x'c1'", "event chat:a@2"),
        ("meta = x'91a1ff'", "event chat:a@2"),
        ("meta = x''", "event chat:a@2"),
        ("recorded_at = recorded_at + 1", "event chat:a@2"),
        ("stream = 2, version = 9", "event chat:a@2|event chat:b"),
    ],
)
def test_a_changed_row_is_named(store: Store, change: str, naming: str) -> None:
    """The error says which event of which stream it is."""
    log = three_rows(store)

    sql(store, f"UPDATE event SET {change} WHERE stream = 1 AND version = 2")

    require_damage(log, naming)


def test_a_hole_as_wide_as_a_page(store: Store) -> None:
    """It is not taken for the end of the log."""
    log = three_rows(store)
    sql(store, "DELETE FROM event WHERE position BETWEEN 3 AND 4")
    moment = log.read_all(after=BEGINNING, limit=2).moment

    with pytest.raises(DamagedError, match="position 3 is damaged: there is no event at it"):
        log.read_all(after=moment, limit=2)


@pytest.mark.parametrize("version", [1, 2])
def test_a_missing_row_is_named(store: Store, version: int) -> None:
    """A hole in a stream, and in the log."""
    log = three_rows(store)

    sql(store, "DELETE FROM event WHERE stream = 1 AND version = ?", version)

    require_damage(log, f"event chat:a@{version}", ways=["read", "read_events"])
    require_damage(log, r"position \d|event chat:a@", ways=["read_all"])


def test_the_last_row_of_a_stream(store: Store) -> None:
    """Whoever reads the log sees the hole; the stream's own end cannot be told from a shorter stream."""
    log = three_rows(store)

    sql(store, "DELETE FROM event WHERE stream = 1 AND version = 3")

    require_damage(log, "position 5", ways=["read_all"])


def test_two_rows_that_changed_places(store: Store) -> None:
    """Each has a digest, and it is not that of its new place."""
    log = three_rows(store)

    sql(store, "UPDATE event SET version = -version WHERE stream = 1 AND version IN (1, 2)")
    sql(store, "UPDATE event SET version = 3 + version WHERE version < 0")

    require_damage(log, "event chat:a@")


def test_a_missing_stream(store: Store) -> None:
    """Events whose stream has no row are damage, not an empty stream."""
    three_rows(store).close()

    sql(store, "DELETE FROM stream WHERE id = ?", A)

    require_damage(store.open(), "stream 1", ways=["read_all"])


def test_a_renamed_stream(store: Store) -> None:
    """The digest covers the stream's id."""
    three_rows(store).close()

    sql(store, "UPDATE stream SET id = 'chat:c' WHERE id = ?", A)

    require_damage(store.open(), "event chat:c@1", stream="chat:c")


# Of the 32 bytes of each digest at least one.
@pytest.mark.parametrize(("column", "step"), [("body", 31), ("digests", 31), ("checksum", 1)])
def test_every_byte_of_a_block(store: Store, column: str, step: int) -> None:
    """A flipped byte anywhere in a block is told, and the block is named."""
    log = sealed(store)

    for _ in flipped(store, "block", column, "key = 1", step=step):
        require_damage(log, r"block 1 \(of positions 1 to 512\)", ways=["read_events", "read_all"])

    assert len(log.read(A)) == 300


@pytest.mark.parametrize(
    "change",
    [
        "start = start + 1",
        "first_version = first_version + 1",
        "first_version = first_version - 1",
        "block = block + 1",
        "stream = 2, last_version = 9999",
    ],
)
def test_a_part_that_was_changed(store: Store, change: str) -> None:
    """What says which versions lie in which block is told too, where it says something else than the block."""
    log = sealed(store)

    sql(store, f"UPDATE part SET {change} WHERE stream = 1 AND first_version = 65")

    require_damage(log, "chat:a@|block|part", ways=["read", "read_events"])


def test_a_block_of_another_segment(store: Store) -> None:
    """Where a block lies is part of what it is."""
    log = sealed(store)

    sql(store, "UPDATE block SET segment = 1 WHERE key = 1")

    require_damage(log, r"block 1|position 1")


@pytest.mark.parametrize("table", ["block", "part"])
def test_a_missing_block(store: Store, table: str) -> None:
    """Its events are missed, in the stream and, where they are gone for good, in the log."""
    log = sealed(store)

    sql(store, f"DELETE FROM {table} WHERE {'key = 1' if table == 'block' else 'stream = 1 AND first_version = 1'}")

    require_damage(log, "event chat:a@1", ways=["read", "read_events"])
    if table == "block":
        # Which of its events is missed first: one whose digest the next needs, or the one of a position.
        require_damage(log, "position 1|event chat:a@64", ways=["read_all"])


@pytest.mark.parametrize("value", ["5", "'text'"])
def test_a_block_that_is_no_bytes(store: Store, value: str) -> None:
    """It is named like one whose bytes are wrong."""
    log = sealed(store)
    sql(store, f"UPDATE block SET body = {value} WHERE key = 1")

    with pytest.raises(DamagedError, match=r"block 1 is damaged|block 1 \(of positions"):
        log.read_events(A)


@pytest.mark.parametrize("block", ["min(key)", "max(key)"])
def test_streams_whose_block_is_gone_are_doubtful(store: Store, block: str) -> None:
    """Wherever it was among the others."""
    log: Any = sealed(store)
    [(key,)] = sql(store, f"SELECT {block} FROM block")
    streams = {one for (one,) in sql(store, f"SELECT id FROM part JOIN stream ON key = stream WHERE block = {key}")}

    sql(store, f"DELETE FROM block WHERE key = {key}")

    assert streams
    assert log.doubtful_streams() == streams


def test_events_after_a_missing_block(store: Store) -> None:
    """The last event of the block is named: its digest is needed for the next one."""
    log = sealed(store)
    sql(store, "DELETE FROM part WHERE stream = 1 AND first_version = 1")
    [(first,)] = sql(store, "SELECT min(first_version) FROM part WHERE stream = 1")

    with pytest.raises(DamagedError, match=f"event chat:a@{first - 1} is damaged"):
        log.read(A, after=first - 1, until=first)


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_block(store: Store, forgery: str, is_read_before: bool) -> None:
    """Whatever is changed in a block under a checksum that fits: its events have digests, and these do not fit."""
    log = sealed(store)
    if is_read_before:
        for read in ways_to_read(log).values():
            assert len(read()) == 300

    forge_blocks(store.place, FORGERIES[forgery], 1, 2)

    require_damage(log, r"event chat:a@\d+ is damaged: it does not match its digest")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda bodies, _: bodies[0].clear(), "block 1 is damaged: Expected `array` of"),
        (lambda bodies, _: bodies[0][1].pop(), "block 1 is damaged: its columns are of different lengths"),
        (lambda _, digests: digests[0].pop(), "block 1 is damaged: its columns are of different lengths"),
    ],
    ids=["no columns", "a position too few", "a digest too few"],
)
def test_a_forged_block_of_another_shape(store: Store, change: Any, says: str) -> None:
    """It is named under a checksum that fits, in every way of reading."""
    log = sealed(store)

    forge_blocks(store.place, change, 1)

    require_damage(log, says)


@pytest.mark.parametrize("column", ["first_position", "first_recorded_at"])
def test_a_part_of_another_time(store: Store, column: str) -> None:
    """By these the version of a moment is looked for; they are what the block says."""
    log = sealed(store)

    sql(store, f"UPDATE part SET {column} = {column} - 1 WHERE stream = 1 AND first_version = 65")

    require_damage(log, r"part chat:a@65\.\.128 is damaged", ways=["read", "read_events", "read_ranges"])


def test_a_block_is_hashed_once(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digests of events that were read before are not computed again when they are read in the same way."""
    log, computed, whole = sealed(store), list[int](), Chain.digests

    def chain_and_count(chain: Chain, previous: list[bytes], *columns: Any) -> Iterator[bytes]:
        computed.append(len(previous) - 1)
        return whole(chain, previous, *columns)

    monkeypatch.setattr(Chain, "digests", chain_and_count)

    counts = []
    for read in (*ways_to_read(log).values(), *ways_to_read(log).values()):
        computed.clear()
        assert len(read()) == 300
        counts.append(sum(computed))

    # Those behind the last block are in rows, and not counted.
    assert (counts[0] >= 256, counts[1], counts[4:]) == (True, 0, [0] * 4)


def damaged_before_sealing(store: Store, change: str) -> LiveLog:
    """Damage one row of a segment that is not sealed yet, then go on writing until it is; return the log."""
    log = store.open()
    for start in range(0, 500, 50):
        append(log, A, *(said(start + number, "text here") for number in range(50)))
    sql(store, f"{change} WHERE stream = 1 AND version = 5")
    for number in range(500, 700):
        append(log, A, said(number, "text here"))
    return log


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE event SET payload = cast(replace(cast(payload AS TEXT), 'here', 'gone') AS BLOB)",
        "UPDATE event SET payload = x'00c1'",
        "UPDATE event SET payload = x'0381'",
        "UPDATE event SET meta = x'91a36d6961'",
        "UPDATE event SET meta = x'c1'",
        "UPDATE event SET recorded_at = recorded_at - 1",
        "UPDATE event SET digest = zeroblob(32)",
    ],
)
def test_damage_is_not_sealed_in(store: Store, change: str) -> None:
    """A row that was damaged before its segment was sealed stays one, and is told afterwards; appending goes on."""
    log = damaged_before_sealing(store, change)
    log.close()

    assert sql(store, "SELECT count(*) FROM block") == [(0,)]

    require_damage(store.open(), r"event chat:a@5|event chat:a@6|block 1")


def test_a_missing_row_is_not_sealed_over(store: Store) -> None:
    """The hole is named, sealed or not."""
    log = damaged_before_sealing(store, "DELETE FROM event")
    log.close()

    require_damage(store.open(), "event chat:a@5|position 5")


def text_hash(text: bytes) -> bytes:
    """Return the hash under which a large text is stored."""
    return hashlib.blake2b(text, digest_size=32).digest()


BLOB_CHANGES: dict[str, Callable[[Store], object]] = {
    "deleted": lambda store: sql(store, "DELETE FROM blob WHERE key = 1"),
    "emptied": lambda store: sql(store, "UPDATE blob SET data = x'' WHERE key = 1"),
    "no zstd": lambda store: sql(store, "UPDATE blob SET data = x'0102' WHERE key = 1"),
    "no text": lambda store: sql(store, "UPDATE blob SET data = x'00ff' WHERE key = 1"),
    "another text": lambda store: sql(
        store, "UPDATE blob SET data = ? WHERE key = 1", b"\x01" + zstandard.ZstdCompressor().compress(b"another")
    ),
    "another text and its hash": lambda store: sql(
        store, "UPDATE blob SET data = ?, hash = ? WHERE key = 1", b"\x00another", text_hash(b"another")
    ),
}


@pytest.mark.parametrize("change", BLOB_CHANGES.values(), ids=BLOB_CHANGES)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_damaged_text(store: Store, change: Callable[[Store], object], is_sealed: bool) -> None:
    """A large text that is not what it was is told, also where the events that refer to it are sealed."""
    if is_sealed:
        log = sealed(store, LARGE)
    else:
        log = store.open()
        append(log, A, said(1, LARGE))
    assert log.read_events(A)

    change(store)

    require_damage(log, "blob 1|event chat:a@1")


@pytest.mark.parametrize("is_sealed", [False, True])
def test_every_byte_of_a_text(store: Store, is_sealed: bool) -> None:
    """Flipped one by one: told, or nothing changes."""
    log = store.open()
    append(log, A, said(1, LARGE), said(2, LARGE))
    if is_sealed:
        append(log, B, *(said(number) for number in range(600)))
        log.close()
        log = store.open()
        assert sql(store, "SELECT count(*) FROM event WHERE stream = 1") == [(0,)]
    wanted = log.read_events(A)

    raised = [require_damage_or_the_same(log, wanted) for _ in flipped(store, "blob", "data", "key = 1")]

    assert sum(raised) >= 0.5 * 3 * len(raised)


def test_reading_elsewhere_goes_on(store: Store) -> None:
    """Damage in one stream does not keep anybody from reading and writing another."""
    log = three_rows(store)
    sql(store, "UPDATE event SET payload = x'00' WHERE stream = 1 AND version = 2")

    append(log, B, said(3))

    assert numbers(log.read(B)) == ["m0", "m1", "m2", "m3"]
    assert numbers(log.read(A, until=1)) == ["m0"]
    assert log.read_all(after=BEGINNING, limit=2).events


def test_a_large_text_lies_there_once(store: Store) -> None:
    """However many events hold it, in one batch or in many; other texts and other key ids are other rows."""
    log = store.open()
    log.append([new(A, said(1, LARGE), said(2, LARGE)), new(B, said(3, LARGE))]).result()
    append(log, A, said(4, LARGE), said(5, LARGE + "!"))
    for key_id in ("k1", "k1", "k2"):
        keyed = Meta(key_id=key_id)
        log.append([NewEvents(stream=B, expected_version=-1, events=(said(6, LARGE),), metas=(keyed,))]).result()

    assert sql(store, "SELECT key_id, count(*) FROM blob GROUP BY key_id") == [("", 2), ("k1", 1), ("k2", 1)]
    assert sql(store, "SELECT max(length(payload)) FROM event")[0][0] < 200


@pytest.mark.parametrize("says", BOMBS)
@pytest.mark.parametrize("prefix", [b"\x01", b"\x11"])
def test_a_bomb_in_a_row(store: Store, says: str, prefix: bytes) -> None:
    """A few kilobytes that would be more than anybody can have stored are damage, not memory."""
    log = three_rows(store)
    sql(store, "UPDATE event SET payload = ? WHERE stream = 1 AND version = 2", prefix + bombs()[says])

    require_little_memory(log, "event chat:a@2|^chat:a@2")


@pytest.mark.parametrize("says", BOMBS)
def test_a_bomb_in_a_text(store: Store, says: str) -> None:
    """So in a large text; the error names it."""
    log = store.open()
    append(log, A, said(1, LARGE))
    sql(store, "UPDATE blob SET data = ?", b"\x01" + bombs()[says])

    require_little_memory(log, "blob 1")


@pytest.mark.parametrize("says", BOMBS)
def test_a_bomb_in_a_block(store: Store, says: str) -> None:
    """So in a block, whose checksum anybody can make anew."""
    log = sealed(store)
    body = b"\x01" + bombs()[says]
    [(segment, digests)] = sql(store, "SELECT segment, digests FROM block WHERE key = 1")
    checksum = block_checksum(segment.to_bytes(8, "big"), digests, body)
    sql(store, "UPDATE block SET body = ?, checksum = ? WHERE key = 1", body, checksum)

    require_little_memory(log, "block 1|chat:a@", ways=["read_events", "read_all"])


def test_what_sealing_saves(store: Store) -> None:
    """Blocks take less than half of the bytes of their payloads, and a large text less than it has."""
    log = store.open()
    for start in range(0, 1_200, 50):
        append(log, A, *(said(start + n, f"the order {start + n} of a customer was shipped. " * 8) for n in range(50)))
    append(log, A, said(9_999, LARGE))
    [(payloads,)] = sql(store, "SELECT sum(length(payload)) FROM event WHERE position <= 1024")
    log.close()

    [(bodies,)] = sql(store, "SELECT sum(length(body)) FROM block")
    assert 0 < bodies < payloads / 4
    assert sql(store, "SELECT length(data) FROM blob")[0][0] < len(LARGE) / 4
