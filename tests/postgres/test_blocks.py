"""Old events on PostgreSQL are packed into blocks; nobody sees it but by the room that they take."""

import os
import random
import threading
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import psycopg
import pytest

import refold
from refold.domain.errors import DamagedError, StorageUnavailableError
from refold.domain.ids import SLICES, slice_of
from refold.domain.log.ports import ANY_VERSION, Range
from refold.domain.positions import BEGINNING, Moment, Partition
from refold.infrastructure.log.block_body import BLOCK_EVENTS, OvertakenError, packed
from refold.infrastructure.log.large_texts import LARGE_TEXT_BYTES
from refold.infrastructure.log.postgres import blocks
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import COMMIT, Call, Rows, Wire, int4
from tests.contract.test_postgres_restores import Tables
from tests.contract.writing import append, check_chain, check_order, everything, said

from .conftest import OpenLog
from .sealing import small_blocks
from .tables import count, spoil

A, B = "chat:a", "chat:b"


def fill(log: PostgresLog, events: int = 300) -> None:
    """Let two streams of one slice, and one of another, take turns."""
    rng = random.Random(7)
    left = {A: events, B: events, "chat:c": events // 2}
    while left:
        stream = rng.choice(sorted(left))
        some = min(left[stream], rng.randint(1, 9))
        left[stream] -= some
        start = events - left[stream]
        text = "x" * 2 * LARGE_TEXT_BYTES if start % 50 == 0 else "hello " * rng.randint(1, 30)
        made = (said(start + n, text) for n in range(some))
        append(log, stream, *made, root="other" if stream == "chat:c" else "r", key=f"k{start}")
        if not left[stream]:
            del left[stream]


def looks(log: PostgresLog) -> dict[str, Any]:
    """Return the answers of all ways to read."""
    events = {stream: log.read(stream) for stream in log.streams()}
    middle = [one for one in events[A] if one.version % 41 == 0]
    half = Moment.of({number: last // 2 for number, last in log.now().heads})
    return {
        "events": events,
        "decoded": [log.read_events(stream, after=3, until=290) for stream in events],
        "ranges": log.read_ranges([Range(A, 5, 9), Range(A, 70, 150), Range(B, 0, 1), Range(A, 299, 400)]),
        "ends": [(log.head(stream), log.end(stream)) for stream in events],
        "under": [[one.version for one in log.recorded_under(A, f"k{n}")] for n in range(1, 301)],
        "at times": [log.version_at(A, one.recorded_at) for one in middle],
        "at positions": [log.version_at(A, Moment.of({one.position.slice: one.position.number})) for one in middle],
        "all": everything(log, limit=77),
        "until": log.read_all(after=BEGINNING, limit=500, until=half).events,
        "from the middle": log.read_all(after=half, limit=10).events,
        "parts": [log.partition(Partition(n, 2)).read_all(after=BEGINNING, limit=1000).events for n in range(2)],
        "keys": sorted(log.idempotency_keys()),
    }


def test_nobody_sees_it(log: PostgresLog, open_log: OpenLog) -> None:
    """Every way of reading gives the same before and after, in the process that sealed and in another."""
    fill(log)
    before = looks(log)

    packed = sum(log.sealing())

    assert packed == 750 - sum(rows for ((rows,),) in log.database.ask(count("event")))
    assert packed > 500
    assert looks(log) == before
    assert looks(open_log()) == before
    check_order(before["all"])
    for events in before["events"].values():
        check_chain(events)


@pytest.mark.parametrize("kept", [1, 7])
def test_wherever_the_border_lies(log: PostgresLog, open_log: OpenLog, kept: int) -> None:
    """So with blocks of any size, and streams that are in blocks as a whole; all are appended to and packed again."""
    fill(log, 90)
    before = looks(log)

    with small_blocks(kept):
        sum(log.sealing())
    again = open_log()

    assert looks(again) == before
    for stream in (A, B, "chat:c"):
        assert (
            append(again, stream, said(1_000), expected=log.head(stream)).events[0].version
            == len(before["events"][stream]) + 1
        )
    with small_blocks(kept):
        sum(log.sealing())
    for stream in (A, B, "chat:c"):
        check_chain(open_log().read(stream))
    assert [*log.doubtful_streams(), *log.damaged_rows()] == []


def test_the_last_events_stay_rows(log: PostgresLog) -> None:
    """As many as others look at most; and a slice with few events is not packed at all."""
    append(log, A, *map(said, range(blocks.ROWS_KEPT + BLOCK_EVENTS - 1)))

    assert sum(log.sealing()) == 0
    append(log, A, said(0))
    assert sum(log.sealing()) == BLOCK_EVENTS
    assert log.database.ask(count("event")) == [[(blocks.ROWS_KEPT,)]]


def test_streams_that_take_turns_share_larger_segments(log: PostgresLog, pg_url: str) -> None:
    """So that a load of one of them opens few blocks."""
    for turn in range(blocks.SEGMENT_EVENTS_MAX + 64):
        append(log, f"chat:{turn % 16}", said(turn))

    sum(log.sealing())

    with psycopg.connect(pg_url) as connection:
        sizes = connection.execute("select last_version - first_version + 1, count(*) from part group by 1").fetchall()
    assert sizes == [(blocks.PART_EVENTS, 512 / blocks.PART_EVENTS)]


@pytest.mark.parametrize("step", ["before rows go", "before blocks come", "before the commit", "before the answer"])
def test_a_sealer_that_is_killed(log: PostgresLog, open_log: OpenLog, step: str) -> None:
    """Whichever of its statements is the last: all or nothing is in blocks, and the next one goes on."""
    append(log, A, *map(said, range(300)))
    before = looks(log)
    hand_over, run = Wire._hand_over, Wire.run

    def end(wire: Wire) -> NoReturn:
        # As at the end of the process: the server rolls back what is not committed.
        wire.close()
        raise KeyboardInterrupt

    def hand_over_until(wire: Wire, calls: Sequence[Call]) -> None:
        texts = [call.sql for call in calls]
        if step == "before rows go" and any(one.startswith("DELETE FROM event") for one in texts):
            end(wire)
        if step == "before blocks come" and any(one.startswith("INSERT INTO block") for one in texts):
            end(wire)
        if step == "before the commit" and "COMMIT" in texts:
            hand_over(wire, calls[: texts.index("COMMIT")])
            wire._pgconn.pipeline_sync()
            wire._arrive()
            end(wire)
        hand_over(wire, calls)

    def run_and_end(wire: Wire, *calls: Call) -> list[Rows]:
        rows = run(wire, *calls)
        if calls == (COMMIT,):
            end(wire)
        return rows

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Wire, "_hand_over", hand_over_until)
        if step == "before the answer":
            patch.setattr(Wire, "run", run_and_end)
        with pytest.raises(KeyboardInterrupt):
            sum(log.sealing())

    other = open_log()
    assert looks(other) == before
    sum(other.sealing())
    assert looks(other) == before
    assert other.database.ask(count("event")) == [[(300 - 192,)]]


def test_two_sealers_at_once(open_log: OpenLog) -> None:
    """Each event is packed once; the slower one goes on with the next slice."""
    logs = [open_log(), open_log()]
    for root in range(4):
        append(logs[0], f"chat:{root}", *map(said, range(400)), root=f"r{root}")
    before = looks_of_all(logs[0])
    threads = [threading.Thread(target=lambda log=log: sum(log.sealing())) for log in logs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for log in logs:
        sum(log.sealing())

    assert looks_of_all(logs[1]) == before
    assert logs[0].database.ask(count("event")) == [[(4 * (400 - 320),)]]


def looks_of_all(log: PostgresLog) -> list[Any]:
    """Return all events, in the order of streams."""
    return [log.read(stream) for stream in log.streams()]


def test_an_overtaken_sealer_changes_nothing(log: PostgresLog, open_log: OpenLog) -> None:
    """It read the rows before another process packed them."""
    append(log, A, *map(said, range(200)))
    slow, number = open_log(), slice_of("r")
    check, seen = slow._sealer._check, list[int]()

    def wait_for_the_other(rows: Any) -> None:
        check(rows)
        if not seen:
            seen.append(sum(log.sealing()))

    slow._sealer._check = wait_for_the_other
    with pytest.raises(OvertakenError):
        slow._sealer.seal(number, 0, 200)

    assert seen == [128]
    assert len(slow.read(A)) == 200
    assert [*slow.doubtful_streams()] == []


@pytest.mark.parametrize("change", ["payload = payload || 'x'", "meta = payload"])
def test_an_erasure_while_events_are_packed(log: PostgresLog, change: str) -> None:
    """What is left of an event that was erased before is replaced by another erasure: the block has the last of it."""
    append(log, A, *map(said, range(200)))
    check, number = log._sealer._check, slice_of("r")

    def erase(rows: Any) -> None:
        check(rows)
        log.database.ask(Call(f"UPDATE event SET {change} WHERE slice = $1 AND version = 5", (int4(number),)))

    log._sealer._check = erase
    with pytest.raises(OvertakenError):
        log._sealer.seal(number, 0, 200)
    assert [*log._sealer.sealed().values()].count(0) == SLICES


@pytest.mark.parametrize(("kept", "packed"), [(150, 0), (192, 0), (200, 64)])
def test_a_copy_put_back_while_events_are_packed(
    log: PostgresLog, open_log: OpenLog, pg_url: str, kept: int, packed: int
) -> None:
    """The rows may be the last of their slice now, from which positions are counted on, or the blocks end earlier."""
    place, number = Tables(pg_url), slice_of("r")
    append(log, A, *map(said, range(kept)))
    place.keep()
    append(log, A, *map(said, range(kept, 300)))
    assert log._sealer.seal(number, 0, packed + blocks.ROWS_KEPT) == packed
    check = log._sealer._check

    def put_back(rows: Any) -> None:
        check(rows)
        log._sealer._check = check
        place.put_back()

    log._sealer._check = put_back
    with pytest.raises(OvertakenError):
        log._sealer.seal(number, packed, 300)

    fresh = open_log()
    check_chain(fresh.read(A))
    assert append(fresh, A, said(kept)).events[0].position.number == kept + 1
    assert sum(fresh.sealing()) == (kept + 1 - blocks.ROWS_KEPT) // BLOCK_EVENTS * BLOCK_EVENTS
    assert [one.position.number for one in everything(open_log())] == [*range(1, kept + 2)]


def test_readers_and_writers_beside_a_sealer(log: PostgresLog, open_log: OpenLog) -> None:
    """Each look of theirs is whole, whenever rows and blocks change places."""
    reader, raised, done = open_log(), list[BaseException](), threading.Event()
    append(log, A, *map(said, range(20)))

    def read() -> None:
        try:
            while not done.is_set():
                events = reader.read(A)
                check_chain(events)
                assert len(events) >= 20
                found = everything(reader)
                assert [one.position.number for one in found] == [*range(1, len(found) + 1)]
                assert reader.end(A).version >= len(events)
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    with small_blocks():
        for turn in range(60):
            append(log, A, *(said(turn * 10 + n) for n in range(3)))
            sum(log.sealing())
    done.set()
    thread.join(60)

    assert raised == []
    check_chain(log.read(A))


def test_a_repeat_finds_what_was_sealed(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection broke after the commit, and another process packed the events before they were sent again."""
    append(log, A, said(1))
    conclude, broken = Wire.conclude, list[int]()

    def lose_answer(wire: Wire) -> None:
        conclude(wire)
        if not broken:
            broken.append(1)
            other = PostgresLog(log.database.url)
            append(other, B, said(2))
            with small_blocks():
                sum(other.sealing())
            other.close()
            wire.close()
            raise psycopg.OperationalError("gone")

    monkeypatch.setattr(Wire, "conclude", lose_answer)
    receipt = append(log, A, said(3), said(4), expected=ANY_VERSION)

    assert broken
    assert [one.version for one in receipt.events] == [2, 3]
    assert [one.event.id for one in log.read(A)] == ["m1", "m3", "m4"]


def damaged(log: PostgresLog) -> None:
    append(log, A, *map(said, range(150)))
    append(log, B, *map(said, range(150)))
    sum(log.sealing())


@pytest.mark.parametrize(
    "change",
    [
        "update block set body = set_byte(body, 40, 255 - get_byte(body, 40)) where last = 128",
        "update block set digests = set_byte(digests, 70, 255 - get_byte(digests, 70)) where last = 128",
        "update block set checksum = '' where last = 128",
        "update block set first = first + 1 where last = 128",
        "update block set place = 1 where last = 128",
        "delete from block where last = 128",
        "update part set last = 64 where last = 128",
    ],
)
def test_a_damaged_block(log: PostgresLog, open_log: OpenLog, pg_url: str, change: Any) -> None:
    """It is noticed when it is read, and verify finds it; the other events can be read."""
    damaged(log)
    spoil(pg_url, change)
    fresh = open_log()

    with pytest.raises(DamagedError):
        fresh.read(A)
    assert len(fresh.read(B)) == 150
    with refold.open(pg_url) as store:
        assert store.verify().problems


@pytest.mark.parametrize(
    "change",
    [
        "delete from part where last = 128",
        "update part set first_version = first_version + 1 where last = 128",
        "update part set recorded_at = 1 where last = 128",
        "update part set start = 3 where last = 128",
    ],
)
def test_a_damaged_part(log: PostgresLog, pg_url: str, change: Any) -> None:
    """Verify compares parts with blocks."""
    damaged(log)
    assert [*log.doubtful_streams()] == []
    spoil(pg_url, change)

    assert [*log.doubtful_streams()] == [A]


def test_parts_of_blocks_that_are_gone(log: PostgresLog, pg_url: str) -> None:
    """Verify finds them in a slice that has no block any more."""
    damaged(log)
    spoil(pg_url, "delete from block")

    assert {*log.doubtful_streams()} == {A, B}


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body._replace(ids=body.ids[16:]),
        lambda body: body._replace(positions=body.positions[1:]),
        lambda body: body._replace(parts=[]),
    ],
    ids=["an id too few", "a position too few", "no parts"],
)
def test_a_forged_block_of_another_shape(log: PostgresLog, open_log: OpenLog, pg_url: str, change: Any) -> None:
    """It is named under a checksum that fits, and the other events can be read."""
    damaged(log)
    columns = blocks.BLOCK_AS_ROW.format("b")
    with psycopg.connect(pg_url) as connection:
        [block] = connection.execute(f"select {columns} from block as b where last = 128".encode()).fetchall()
        lane, _, place, last, first, digests, _, _ = block
        body = packed(log._compression, change(log._blocks.opened(block)))
        checksum = blocks.checksum_of(lane, first, last, place, digests, body)
        connection.execute("update block set body = %s, checksum = %s where last = 128", (body, checksum))
    fresh = open_log()

    with pytest.raises(DamagedError, match=rf"block {lane}\.128\.{place} is damaged: its columns are of different"):
        fresh.read(A)
    assert len(fresh.read(B)) == 150


def test_forged_checksums(log: PostgresLog, open_log: OpenLog, pg_url: str) -> None:
    """Whoever changes an event and computes the checksum anew fails at its digest."""
    append(log, A, *map(said, range(200)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log._sealer, "_check", lambda rows: None)
        spoil(pg_url, "update event set recorded_at = recorded_at + 1 where position = 70")
        sum(log.sealing())

    with pytest.raises(DamagedError, match=r"event chat:a@70 .*does not match its digest"):
        open_log().read(A)


def test_damage_is_not_sealed(log: PostgresLog, pg_url: str) -> None:
    """The rows stay, the other slices are packed, and the error names the event."""
    append(log, A, *map(said, range(200)), root="a")
    append(log, B, *map(said, range(200)), root="b")
    spoil(pg_url, f"update event set recorded_at = 1 where slice = {slice_of('a')} and position = 70")

    with pytest.raises(DamagedError, match="event chat:a@70"):
        sum(log.sealing())

    with psycopg.connect(pg_url) as connection:
        rows: list[tuple[int, int]] = connection.execute("select slice, count(*) from event group by slice").fetchall()
    assert dict(rows) == {slice_of("a"): 200, slice_of("b"): 72}


def test_a_missing_row_is_not_sealed_over(log: PostgresLog, pg_url: str) -> None:
    """The hole is told, and all rows stay."""
    append(log, A, *map(said, range(200)))
    spoil(pg_url, "delete from event where position = 70")
    number = slice_of("r")

    with pytest.raises(
        OvertakenError, match=rf"another process seals slice {number}, or position {number}\.1 is empty"
    ):
        log._sealer.seal(number, 0, 200)

    assert log.database.ask(count("event"), count("block")) == [[(199,)], [(0,)]]


def step_back(url: str) -> None:
    """Make the tables those of schema 2, with their rows."""
    with psycopg.connect(url) as connection:
        connection.execute("alter table event rename column stream_key to stream")
        connection.execute("drop table block, part")
        connection.execute("update refold_meta set value = '2'")


def test_a_store_of_schema_2_is_brought_forward(log: PostgresLog, open_log: OpenLog, pg_url: str) -> None:
    """Its events are read as before, and can be packed."""
    fill(log, 200)
    before = looks(log)
    log.close()
    step_back(pg_url)

    newer = open_log()

    assert looks(newer) == before
    assert sum(newer.sealing()) > 0
    assert looks(newer) == before


def test_who_may_make_no_tables_is_told(log: PostgresLog, pg_url: str) -> None:
    """A user who may only write rows cannot bring a store forward; its owner can."""
    append(log, A, said(1))
    log.close()
    step_back(pg_url)
    name = f"agent_{os.urandom(4).hex()}"
    with psycopg.connect(pg_url, autocommit=True) as owner:
        owner.execute(f"create role {name} login".encode())
        owner.execute(f"grant select, insert, update on all tables in schema public to {name}".encode())
    try:
        with pytest.raises(StorageUnavailableError, match="let their owner run `refold init`"):
            PostgresLog(pg_url.replace("user=refold", f"user={name}"))
    finally:
        with psycopg.connect(pg_url, autocommit=True) as owner:
            owner.execute(f"drop owned by {name}".encode())
            owner.execute(f"drop role {name}".encode())


OLD_STATEMENTS: list[Callable[[], str]] = [
    lambda: "SELECT slice, stream, version, position FROM event WHERE slice = 1",
    lambda: "SELECT max(version) FROM event WHERE slice = 1 AND stream = 1",
]


@pytest.mark.parametrize("statement", OLD_STATEMENTS)
def test_an_older_refold_that_is_connected_fails(log: PostgresLog, pg_url: str, statement: Callable[[], str]) -> None:
    """It must not take a stream that is in blocks for an empty one."""
    with psycopg.connect(pg_url) as connection, pytest.raises(psycopg.errors.UndefinedColumn):
        connection.execute(statement().encode())
