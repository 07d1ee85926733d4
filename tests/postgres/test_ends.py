"""Where the log ends: exact at every moment, whatever transactions do to the rows that writers lock."""

import math
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from psycopg.pq import TransactionStatus

from refold.domain.ids import SLICES, slice_of
from refold.domain.positions import Moment
from refold.infrastructure.log.postgres.ends import ALL, CHANGED, NO_MARKS, POLL_SECONDS, POLL_SECONDS_MAX, Ends
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import Call, int8
from tests.contract.writing import append, at_once, new, said
from tests.support.citus import recorded
from tests.support.effort import IS_DEEP

from .conftest import OpenLog
from .tables import spoil

COUNT = 20_000 if IS_DEEP else 300
SEED = 1 if os.environ.get("CI") == "true" else random.SystemRandom().randrange(10**6)
LANES = (3, 4, 5)
ACTORS = 4
INSERT = (
    "INSERT INTO event SELECT {lane}, 1, n, n, 1, 0, gen_random_uuid(), NULL, '', ''"
    " FROM (SELECT coalesce(max(position), 0) + 1 AS n FROM event WHERE slice = {lane}) AS next"
)
LOCK = "SELECT 1 FROM slice_lock WHERE slice = {lane} FOR UPDATE NOWAIT"
# Each takes a lock before it writes, as every writer does; the rest locks, or does not, and writes nothing.
WRITES = (f"{LOCK}; {INSERT}", f"{LOCK}; SAVEPOINT s; {INSERT}", f"SAVEPOINT s; {LOCK}; {INSERT}; RELEASE s")
STEPS = (
    *WRITES,
    f"SAVEPOINT s; {LOCK}; {INSERT}; ROLLBACK TO s",
    LOCK,
    "SELECT pg_current_xact_id()",
    "SELECT 1 FROM slice_lock WHERE slice = {lane} FOR KEY SHARE NOWAIT",
    "SELECT 1 FROM slice_lock WHERE slice = {lane} FOR SHARE NOWAIT",
)
# Names of prepared transactions are those of the server.
PREPARED = f"ends-{os.getpid()}"
ENDINGS = (*["COMMIT"] * 6, *["ROLLBACK"] * 2, f"PREPARE TRANSACTION '{PREPARED}'")


class Actors:
    """Connections whose transactions lock slices and write to them, one statement at a time."""

    def __init__(self, url: str, chance: random.Random, stack: ExitStack) -> None:
        self._chance = chance
        self._connections = [
            stack.enter_context(psycopg.connect(url, autocommit=True, prepare_threshold=None)) for _ in range(ACTORS)
        ]
        # A prepared transaction belongs to no connection; there is one at a time, because it stops VACUUM.
        self._is_one_prepared = False
        stack.callback(self._end)

    def step(self) -> None:
        """Let one of them do one thing; a lock that another one holds ends its transaction."""
        connection = self._chance.choice(self._connections)
        is_within = connection.info.transaction_status != TransactionStatus.IDLE
        statement = self._within() if is_within else self._between()
        with suppress(psycopg.Error):
            connection.execute(statement.encode())
            if PREPARED in statement:
                self._is_one_prepared = statement.startswith("PREPARE")
        if connection.info.transaction_status == TransactionStatus.INERROR:
            connection.execute("ROLLBACK")

    def _between(self) -> str:
        drawn = self._chance.random()
        if drawn < 0.3 and self._is_one_prepared:
            return f"{self._chance.choice(('COMMIT', 'ROLLBACK'))} PREPARED '{PREPARED}'"
        return "VACUUM (FREEZE) slice_lock" if drawn < 0.4 else "BEGIN"

    def _within(self) -> str:
        if self._chance.random() < 0.5:
            return self._chance.choice(STEPS).format(lane=self._chance.choice(LANES))
        return self._chance.choice(ENDINGS)

    def _end(self) -> None:
        for connection in self._connections:
            connection.execute("ROLLBACK")
        with suppress(psycopg.Error):
            self._connections[0].execute(f"ROLLBACK PREPARED '{PREPARED}'".encode())


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Close what a test opens."""
    with ExitStack() as stack:
        yield stack


def truth(connection: psycopg.Connection[tuple[int, int]]) -> Mapping[int, int]:
    """Return the ends that the events give."""
    return dict(connection.execute("SELECT slice, max(position) FROM event GROUP BY slice").fetchall())


@pytest.mark.timeout(600)
def test_exact_at_every_step(log: PostgresLog, pg_url: str, stack: ExitStack) -> None:
    """Held open, aborted, prepared, with subtransactions, frozen, locked by several: the ends are never others."""
    print(f"seed {SEED}")
    chance = random.Random(SEED)
    actors = Actors(pg_url, chance, stack)
    outside = stack.enter_context(psycopg.connect(pg_url, autocommit=True))
    # One looks all the time, others now and then: what they know is of different ages.
    readers = {Ends(log.database): share for share in (1.0, 0.3, 0.03)}

    for step in range(COUNT):
        actors.step()
        for reader, share in readers.items():
            if chance.random() < share:
                assert reader.read() == truth(outside), f"after step {step}"


def frozen(url: str) -> int:
    """Freeze the rows that writers lock, and return how many of them name no transaction then."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM (FREEZE) slice_lock")
        ((count,),) = connection.execute("SELECT count(*) FROM slice_lock WHERE xmax = '0'::xid")
        return int(count)


def test_frozen_between_two_looks(log: PostgresLog, open_log: OpenLog, pg_url: str) -> None:
    """A row looks as it did before, and its slice has events more."""
    append(log, "chat:a", said(1), root="a")
    assert frozen(pg_url) == SLICES
    reader = Ends(log.database)
    reader._mark_at = math.inf
    assert reader.read() == reader.read() == {slice_of("a"): 1}

    append(open_log(), "chat:a", said(2))

    assert frozen(pg_url) == SLICES
    assert reader.read() == {slice_of("a"): 2}


def test_marked_again_after_a_freeze(log: PostgresLog, pg_url: str) -> None:
    """So that not every slice is asked each time from then on, not even where nobody writes."""
    append(log, "chat:a", said(1), root="a")
    assert frozen(pg_url) == SLICES

    assert log.now() == Moment.of({slice_of("a"): 1})

    with psycopg.connect(pg_url) as connection:
        ((count,),) = connection.execute("SELECT count(*) FROM slice_lock WHERE xmax = '0'::xid")
    assert count == 0


def asked(log: PostgresLog, ends: Ends) -> int:
    """Return how many slices are asked for their ends."""
    return len(log.database.ask(Call(CHANGED, (ends._known.marks, int8(ends._known.server))))[0])


def test_only_slices_that_were_written_to_are_asked(log: PostgresLog, pg_url: str) -> None:
    """Also while a transaction that writes elsewhere is held open all the time."""
    with psycopg.connect(pg_url) as held:
        held.execute("SELECT pg_current_xact_id()")
        append(log, "chat:a", said(1), root="a")
        ends = Ends(log.database)
        ends.read()
        assert asked(log, ends) == 0

        log.append([new(f"chat:{root}", said(1), root=root) for root in ("b", "c")]).result()

        assert asked(log, ends) == 2
        ends.read()
        assert asked(log, ends) == 0


def test_a_server_that_was_started_again(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may be an older copy, and gives out the same ids of transactions once more."""
    append(log, "chat:a", said(1), root="a")
    ends = Ends(log.database)
    ends.read()

    ends._known = ends._known._replace(server=ends._known.server - 1, ends={slice_of("a"): 7})

    assert ends.read() == {slice_of("a"): 1}


def test_a_row_deleted_by_hand(log: PostgresLog, pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No lock tells of it: it is noticed at the next look at everything."""
    append(log, "chat:a", said(1), said(2), root="a")
    ends = Ends(log.database)
    ends.read()
    spoil(pg_url, "delete from event where position = 2")

    ends._known = ends._known._replace(full_look_at=0.0)

    assert ends.read() == {slice_of("a"): 1}


def test_where_rows_name_no_transactions(log: PostgresLog) -> None:
    """On a cluster the rows and the snapshot are those of several servers: every slice is asked."""
    append(log, "chat:a", said(1), root="a")
    ends = Ends(log.database)
    ends.read()
    ends.is_distributed = True

    with recorded() as statements:
        assert ends.read() == {slice_of("a"): 1}

    assert statements == {ALL}
    assert ends._known.marks == NO_MARKS


def counted(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a list that gets the time of each look at the ends."""
    looks: list[float] = []
    read = Ends.read

    def read_and_count(ends: Ends) -> Mapping[int, int]:
        looks.append(time.monotonic())
        return read(ends)

    monkeypatch.setattr(Ends, "read", read_and_count)
    return looks


def test_a_look_that_is_overtaken(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who began to look earlier may come later: to who looked meanwhile, the log must not seem to have gone back."""
    ask, later = log.database.ask, list[Moment]()

    def overtaken(*calls: Call) -> Any:
        rows = ask(*calls)
        monkeypatch.setattr(log.database, "ask", ask)
        append(log, "chat:b", said(2), root="s")
        later.append(log.now())
        return rows

    append(log, "chat:a", said(1))
    monkeypatch.setattr(log.database, "ask", overtaken)

    assert log.now().events == 1
    assert Moment.of(dict(log._ends.known)) == later[0]


def test_all_who_wait_share_a_look(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """And while nothing comes, they look ever more seldom."""
    append(log, "chat:a", said(1))
    now, looks, began = log.now(), counted(monkeypatch), time.monotonic()

    assert at_once(*[lambda: log.wait_for_news(now, timeout_seconds=0.5)] * 4) == []

    # Each by itself, every POLL_SECONDS, they would look 100 times; a time without news doubles in some looks.
    assert time.monotonic() - began >= 0.5
    assert len(looks) <= 40
    gaps = [after - before for before, after in pairwise(looks)]
    assert max(gaps) > 2 * POLL_SECONDS


def test_appends_of_the_same_process_do_not_wake_at_each(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who follows a busy process looks every POLL_SECONDS, not after each append."""
    append(log, "chat:a", said(0))
    seen, looks, began = Moment.of({slice_of("r"): 10**6}), counted(monkeypatch), time.monotonic()
    waiting = threading.Thread(target=log.wait_for_news, args=(seen,), kwargs={"timeout_seconds": 0.3})
    waiting.start()
    while waiting.is_alive():
        append(log, "chat:a", said(1))
    waiting.join()

    assert 1 <= len(looks) <= 2 + (time.monotonic() - began) / POLL_SECONDS


def test_a_look_comes_soon_after_something_new() -> None:
    """Where nothing comes the pauses grow to POLL_SECONDS_MAX; with the next event they are short again."""
    database: Any = None
    lasts = iter([1, 1, 1, 2])

    class Read(Ends):
        """It reads the next end ten seconds later."""

        def read(self) -> Mapping[int, int]:
            self._known, self._read_at = self._known._replace(ends={3: next(lasts)}), self._read_at + 10.0
            return self.known

    ends, pauses = Read(database), list[float]()
    for _ in range(4):
        ends._look(0)
        pauses.append(ends._due(0) - ends._read_at)

    assert pauses == pytest.approx([POLL_SECONDS, POLL_SECONDS_MAX, POLL_SECONDS_MAX, POLL_SECONDS])
