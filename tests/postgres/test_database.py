"""Connections: few, opened when needed, given back, never waited for without end."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import psycopg
import pytest
from psycopg.errors import FeatureNotSupported

from refold.domain.errors import StorageBusyError, StorageClosedError, StorageError
from refold.infrastructure.log.postgres import connection
from refold.infrastructure.log.postgres.connection import READERS_MAX, PostgresDatabase
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import BEGIN, Call, Wire
from tests.contract.writing import append, at_once, said
from tests.support.effort import CountedLock
from tests.support.waiting import soon

from .roles import limited

MINE = Call("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
PID = Call("SELECT pg_backend_pid()")
WAIT = Call("SELECT pg_sleep(0.2)")


def test_nothing_is_opened_before_it_is_needed(pg_url: str) -> None:
    """A database that nobody uses has no connection; a reader takes one and uses it again."""
    database = PostgresDatabase(pg_url)
    try:
        assert [database.ask(MINE)[0] for _ in range(3)] == [[(0,)]] * 3
    finally:
        database.close()


def test_a_connection_is_taken_and_given_back_under_a_lock(pg_url: str) -> None:
    """Or two threads could take the last, and one that counts those in use would find them changed meanwhile."""
    database = PostgresDatabase(pg_url)
    database._lock = lock = CountedLock()  # type: ignore[assignment]
    try:
        database.ask(MINE)
    finally:
        database.close()
    assert lock.taken == 2


def test_readers_are_bounded(pg_url: str) -> None:
    """More threads than connections: they wait for each other, and all get their answer."""
    database = PostgresDatabase(pg_url)
    try:
        assert at_once(*(lambda: _ask(database) for _ in range(READERS_MAX * 2))) == []
        assert database.ask(MINE)[0][0][0] < READERS_MAX
    finally:
        database.close()


def test_a_reader_s_wait_is_bounded(pg_url: str) -> None:
    """Where no connection is given back, the error names the limit."""
    database = PostgresDatabase(pg_url, patience_seconds=0.2)
    release = threading.Event()
    busy = [
        threading.Thread(target=database.reading, args=(lambda wire: release.wait(30),)) for _ in range(READERS_MAX)
    ]
    try:
        for thread in busy:
            thread.start()
        with pytest.raises(StorageBusyError, match=r"READERS_MAX \(8\)"):
            database.reading(_nothing)
    finally:
        release.set()
        for thread in busy:
            thread.join()
        database.close()


def test_a_server_that_lets_no_more_in(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads take turns with the connections that the process has; without any, or in vain, the error comes."""
    database = PostgresDatabase(pg_url, patience_seconds=0.2)
    connect, release, let_in = psycopg.connect, threading.Event(), [True]

    def connected(*given: Any, **options: Any) -> Any:
        if let_in.pop():
            let_in.append(False)
            return connect(*given, **options)
        let_in.append(False)
        raise psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already")

    monkeypatch.setattr(psycopg, "connect", connected)
    try:
        with database_in_use(database, release), pytest.raises(StorageBusyError, match="too many clients already"):
            database.ask(PID)
        database._patience = 30.0
        with database_in_use(database, release):
            threading.Timer(0.05, release.set).start()
            database.ask(PID)
        database._drop_idle()
        with pytest.raises(StorageBusyError):
            database.ask(PID)
    finally:
        database.close()


def test_threads_that_connect_at_the_same_time(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the server refuses meanwhile waits for the connection that another is about to get."""
    database = PostgresDatabase(pg_url)
    connect, refused, tries = psycopg.connect, threading.Event(), [2, 1]

    def connected(*given: Any, **options: Any) -> Any:
        if tries.pop() == 1:
            assert refused.wait(10)
            return connect(*given, **options)
        refused.set()
        raise psycopg.OperationalError("connection failed: FATAL:  sorry, too many clients already")

    monkeypatch.setattr(psycopg, "connect", connected)
    try:
        assert at_once(*[lambda: database.ask(PID)] * 2) == []
    finally:
        database.close()


@pytest.mark.parametrize("use", [lambda one: one.writer(), PostgresDatabase.scrub, PostgresDatabase.vacuum])
def test_idle_readers_that_have_all_connections(pg_url: str, use: Callable[[PostgresDatabase], object]) -> None:
    """What is not a reader takes one of theirs, or waits for one that is in use."""
    release = threading.Event()
    with limited(pg_url, 1) as url:
        database = PostgresDatabase(url)
        try:
            database.ask(PID)
            use(database)
        finally:
            database.close()
        database = PostgresDatabase(url)
        try:
            assert soon(lambda: _is_let_in(database))
            with database_in_use(database, release):
                threading.Timer(0.05, release.set).start()
                use(database)
        finally:
            database.close()


def test_a_reader_that_waits_while_the_database_is_closed(pg_url: str) -> None:
    """It is told so once there is a connection for it."""
    release, errors = threading.Event(), list[BaseException]()
    with limited(pg_url, 1) as url:
        database = PostgresDatabase(url)
        with database_in_use(database, release):
            waiting = threading.Thread(target=lambda: errors.extend(at_once(lambda: database.ask(PID))))
            waiting.start()
            assert soon(lambda: any(slot.is_refused for slot in database._slots))
            closing = threading.Thread(target=database.close)
            closing.start()
            assert soon(lambda: database._closed)
            release.set()
            closing.join(10)
            waiting.join(10)
    assert [type(error) for error in errors] == [StorageClosedError]


@contextmanager
def database_in_use(database: PostgresDatabase, release: threading.Event) -> Iterator[None]:
    """Have a thread use a connection until `release` is set, or the block ends."""
    release.clear()
    lent = threading.Event()

    def use(_: Wire) -> None:
        lent.set()
        release.wait(30)

    user = threading.Thread(target=database.reading, args=(use,))
    user.start()
    assert lent.wait(10)
    try:
        yield
    finally:
        release.set()
        user.join(10)


def test_closing_waits_for_readers(pg_url: str) -> None:
    """Whoever reads at that moment gets his rows; whoever comes later is refused."""
    database = PostgresDatabase(pg_url)
    rows: list[object] = []
    reader = threading.Thread(target=lambda: rows.append(database.ask(WAIT, Call("SELECT 1"))[1]))
    reader.start()
    while not database._slots:
        pass
    database.close()
    reader.join(10)

    assert rows == [[(1,)]]
    with pytest.raises(StorageClosedError):
        database.ask(WAIT)


def test_a_connection_with_an_older_statement_is_given_up(log: PostgresLog) -> None:
    """Where a table has changed since a statement was prepared: nobody gets this connection any more."""
    wires: list[Wire] = []

    def read(wire: Wire) -> NoReturn:
        wires.append(wire)
        raise FeatureNotSupported("cached plan must not change result type")

    with pytest.raises(StorageError, match="cached plan must not change"):
        log.database.reading(read)

    assert [wire.is_lost for wire in wires] == [True] * 3


def test_a_connection_that_was_closed_while_nobody_used_it(log: PostgresLog, pg_url: str) -> None:
    """As by `idle_session_timeout`: a transaction, which is not repeated, is not begun on it."""
    ((pid,),) = log.database.ask(PID)[0]
    with psycopg.connect(pg_url) as other:
        assert other.execute("select pg_terminate_backend(%s, 5000)", (pid,)).fetchone() == (True,)

    assert log.database.transacting(lambda wire: wire.run(PID)) != [[(pid,)]]


def test_a_read_that_was_called_off(log: PostgresLog) -> None:
    """As a standby does: it is repeated on the same connection, and those that are idle stay open."""
    log.database.reading(lambda _: log.database.ask(PID))
    idle = {*log.database._idle}
    assert len(idle) == 2
    calls = [PID, Call("DO $$ BEGIN RAISE EXCEPTION 'conflict with recovery' USING ERRCODE = '40001'; END $$")]

    log.database.reading(lambda wire: wire.run(calls.pop()))

    assert {*log.database._idle} == idle


def test_a_trip_that_nobody_finished(log: PostgresLog) -> None:
    """Whoever writes next gets a connection without it."""
    with log.database.writing() as wire:
        wire.send(BEGIN, WAIT)

        writer = log.database.writer()

        assert writer.run(Call("SELECT 1")) == [[(1,)]]
        assert wire.is_lost


@pytest.mark.parametrize("ends", [True, False])
def test_old_versions_of_rows_and_older_transactions(
    log: PostgresLog, pg_url: str, monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    """They are waited for, since the server keeps what they may see; and if they do not end, it is told."""
    told = "old versions of rows, which an older transaction on the server keeps"
    with psycopg.connect(pg_url) as older:
        older.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        older.execute("SELECT pg_current_xact_id()")
        monkeypatch.setattr(connection, "SCRUB_SECONDS", 10 if ends else 0)
        monkeypatch.setattr("time.sleep", lambda seconds: older.rollback())

        left = log.database.scrub()

    assert (told in left) == (not ends)


def test_a_table_that_a_transaction_keeps_in_use(
    log: PostgresLog, pg_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is waited for briefly, because others wait behind it, and then told; the other tables are written anew."""
    monkeypatch.setattr(connection, "WAIT_FOR_TABLE", b"SET lock_timeout = '50ms'")
    # One that another erasure has dropped since they were listed keeps nothing.
    monkeypatch.setattr(connection, "TABLES", f"{connection.TABLES} UNION ALL SELECT 'view_dropped_1'")
    monkeypatch.setattr(connection, "SCRUB_SECONDS", 0)
    with psycopg.connect(pg_url) as older:
        older.execute("SELECT count(*) FROM event")

        left = log.database.scrub()

    told = "old versions of rows in event, which a transaction keeps in use: run VACUUM FULL after it"
    assert [one for one in left if "in use" in one] == [told]
    assert not [one for one in log.database.scrub() if "in use" in one]


def test_a_log_leaves_nothing_behind(pg_url: str) -> None:
    """No thread and no connection once it is closed."""
    threads = threading.active_count()
    log = PostgresLog(pg_url)
    append(log, "chat:a", *[said(number, f"some text {number}" * 20) for number in range(1_100)])
    log.append([], wait=False).result()
    log.close()

    database = PostgresDatabase(pg_url)
    try:
        assert threading.active_count() == threads
        # The server learns of a closed connection a moment later.
        assert soon(lambda: database.ask(MINE)[0] == [(0,)])
    finally:
        database.close()


def _ask(database: PostgresDatabase) -> None:
    database.ask(WAIT)


def _is_let_in(database: PostgresDatabase) -> bool:
    # The server learns of a closed connection a moment later.
    try:
        database.ask(PID)
    except StorageBusyError:
        return False
    return True


def _nothing(wire: Wire) -> None:
    return None
