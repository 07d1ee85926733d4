"""Every failure of the database is an error of Refold's, in one line that says what to do and keeps the password."""

import errno
import resource
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, LiteralString, NoReturn
from unittest.mock import Mock

import psycopg
import pytest
from psycopg.errors import DeadlockDetected, SerializationFailure, lookup

from refold.domain.errors import (
    DamagedError,
    StorageBusyError,
    StorageClosedError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from refold.domain.ids import slice_of
from refold.infrastructure.log.postgres import append as append_module
from refold.infrastructure.log.postgres import connection
from refold.infrastructure.log.postgres.connection import PostgresDatabase
from refold.infrastructure.log.postgres.errors import translate
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import Call, Wire
from tests.contract.writing import append, said
from tests.support.postgres import Server

from .conftest import OpenLog
from .tables import spoil

SECRET = "pa%40ss"


@contextmanager
def locked(url: str, root: str) -> Iterator[None]:
    """Hold the lock of a slice, as a writer that has stopped in the middle would."""
    with psycopg.connect(url) as connection:
        connection.execute("select 1 from slice_lock where slice = %s for update", (slice_of(root),))
        yield


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mia:pa%40ss@127.0.0.1:1/nowhere",
        "postgresql://mia:pa@ss:word@host:port/nowhere",
        "host=/nonexistent user=mia password=pa@ss",
        "postgresql://mia:pa%40ss@localhost:1/nowhere?no_such_option=1",
    ],
)
def test_where_no_database_is(url: str) -> None:
    """A wrong address is refused at once, in one line, without the password."""
    with pytest.raises(StorageUnavailableError) as refused:
        PostgresLog(url)

    assert "\n" not in str(refused.value)
    assert not any(secret in str(refused.value) for secret in ("pa@ss", "pa%40ss", "ss:word"))


def test_who_cannot_connect_tries_once(open_log: OpenLog, pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append waits for a server only where it was there a moment ago."""
    log, tries = open_log(), []

    def refuse(self: PostgresDatabase) -> NoReturn:
        tries.append(self)
        raise StorageUnavailableError("there is no server")

    monkeypatch.setattr(PostgresDatabase, "writing", refuse)
    with pytest.raises(StorageUnavailableError, match="there is no server"):
        append(log, "chat:new", said(1))
    assert len(tries) == 1


def test_a_reader_that_cannot_connect_tries_once(log: PostgresLog) -> None:
    """Nor does a reader wait for a server that was not there before; it reads again where a connection broke."""
    tries = []

    def refuse(wire: Wire) -> NoReturn:
        tries.append(wire)
        raise StorageUnavailableError("there is no server")

    with pytest.raises(StorageUnavailableError, match="there is no server"):
        log.database.reading(refuse)
    assert len(tries) == 1


@pytest.mark.parametrize("kind", [psycopg.OperationalError, SerializationFailure, DeadlockDetected])
def test_a_reader_pauses_before_it_reads_again(
    log: PostgresLog, monkeypatch: pytest.MonkeyPatch, kind: type[psycopg.Error]
) -> None:
    """
    Where a connection broke, or a server that stands by called the read off: it needs some time, and all attempts in
    one moment are one.
    """
    pauses, tries = list[int](), list[Wire]()

    def break_off(wire: Wire) -> NoReturn:
        tries.append(wire)
        raise kind("server closed the connection unexpectedly")

    monkeypatch.setattr(connection, "pause_before", pauses.append)
    with pytest.raises((StorageUnavailableError, StorageBusyError)):
        log.database.reading(break_off)
    assert (len(tries), pauses) == (3, [0, 1])


@pytest.mark.parametrize(
    ("why", "kind", "told"),
    [
        ("sorry, too many clients already", StorageBusyError, "is at its limit (connection failed: FATAL:  sorry"),
        ('too many connections for role "a"', StorageBusyError, "is at its limit"),
        ("remaining connection slots are reserved for roles with", StorageBusyError, "try again later"),
        ("no more connections allowed (max_client_conn)", StorageBusyError, "try again later"),
        ("query_wait_timeout", StorageBusyError, "is at its limit"),
        ("could not write init file: No space left on device", StorageFullError, "no room left on the disk of"),
        ("the database system is starting up", StorageUnavailableError, "does not answer (connection failed"),
        ('role "a" is not permitted to log in', StorageUnavailableError, "check address, name and login"),
    ],
)
def test_who_is_not_let_in(monkeypatch: pytest.MonkeyPatch, why: str, kind: type[Exception], told: str) -> None:
    """The driver gives no SQLSTATE for it, so the words of the server say what can be done."""

    def refused(*_: object, **__: object) -> NoReturn:
        raise psycopg.OperationalError(f"connection failed: FATAL:  {why}\nand more")

    monkeypatch.setattr(psycopg, "connect", refused)
    with pytest.raises(kind) as met:
        PostgresLog("postgresql://127.0.0.1:1,127.0.0.2:2/db")

    assert type(met.value) is kind
    assert told in str(met.value)
    assert "postgresql://127.0.0.1:1,127.0.0.2:2/db" in str(met.value)


def test_no_such_database(pg_server: Server) -> None:
    """The server is there, the database is not; both are named."""
    with pytest.raises(StorageUnavailableError, match=r"postgresql:///nowhere\?host=.* \(.*does not exist\): check"):
        PostgresLog(pg_server.url("nowhere"))


@pytest.mark.parametrize(("encoding", "is_readable"), [("LATIN1", False), ("SQL_ASCII", True)])
def test_a_database_of_another_encoding(
    pg_server: Server, monkeypatch: pytest.MonkeyPatch, encoding: LiteralString, is_readable: bool
) -> None:
    """
    Texts could not be stored as they are, or would be cut within a character, so it is refused, and no connection to it
    is left. One that others wrote to can be read where its bytes are those of the texts.
    """
    connect, opened = psycopg.connect, list[Any]()

    def noted(*given: Any, **options: Any) -> Any:
        opened.append(connect(*given, **options))
        return opened[-1]

    with psycopg.connect(pg_server.url(), autocommit=True) as owner:
        owner.execute(f"create database other encoding '{encoding}' lc_collate 'C' lc_ctype 'C' template template0")
        monkeypatch.setattr(psycopg, "connect", noted)
        try:
            refused = StorageReadOnlyError if is_readable else StorageUnavailableError
            with pytest.raises(refused, match=f"other.* encoded in {encoding}: make one in UTF8"):
                PostgresLog(pg_server.url("other"))
            told = "there is no log" if is_readable else "is encoded in"
            with pytest.raises(StorageUnavailableError, match=told):
                PostgresLog(pg_server.url("other"), read_only=True)
        finally:
            owner.execute("drop database other with (force)")
    assert [one.closed for one in opened] == [True, True]


def test_used_after_the_end(pg_url: str) -> None:
    """A closed log says so; closing it twice is fine."""
    log = PostgresLog(pg_url)
    log.close()
    log.close()

    with pytest.raises(StorageClosedError):
        append(log, "chat:a", said(1))
    with pytest.raises(StorageClosedError, match="is closed: open it again"):
        log.read("chat:a")


def test_a_lock_that_is_not_given_up(open_log: OpenLog, pg_url: str) -> None:
    """The wait is bounded; what could not be written is not written later either."""
    log = open_log(patience_seconds=0.3)
    append(log, "chat:a", said(1), root="r")

    with locked(pg_url, "r"), pytest.raises(StorageBusyError, match="kept others waiting too long"):
        append(log, "chat:a", said(2), root="r")

    append(log, "chat:a", said(3), root="r")
    assert [one.event.id for one in log.read("chat:a")] == ["m1", "m3"]


def test_a_lock_that_is_given_up_in_time(log: PostgresLog, pg_url: str) -> None:
    """The append waits for it and gets in."""
    append(log, "chat:a", said(1), root="r")
    with locked(pg_url, "r"):
        writer = threading.Thread(target=append, args=(log, "chat:a", said(2)))
        writer.start()
        writer.join(0.2)
        assert writer.is_alive()
    writer.join(10)

    assert log.head("chat:a") == 2


def test_a_statement_that_takes_too_long(pg_url: str, open_log: OpenLog) -> None:
    """The database's own limits come out as busy, too."""
    append(open_log(), "chat:a", said(1), root="r")
    with locked(pg_url, "r"), pytest.raises(StorageBusyError, match="lock timeout"):
        append(open_log(f"{pg_url}&options=-clock_timeout%3D50"), "chat:a", said(2), root="r")


def test_a_read_only_database(log: PostgresLog, pg_url: str, open_log: OpenLog) -> None:
    """A standby is read from, not written to; when it takes changes, so do programs that were connected before."""
    append(log, "chat:a", said(1))
    change = Call("DELETE FROM refold_meta WHERE false")
    with psycopg.connect(pg_url, autocommit=True) as owner:
        owner.execute(f"alter database {owner.info.dbname} set default_transaction_read_only = on".encode())
        try:
            standby = open_log()
            assert standby.head("chat:a") == 1
            for _ in range(2):
                with pytest.raises(StorageReadOnlyError, match="takes no changes: connect to the primary"):
                    append(standby, "chat:a", said(2))
            # Two connections that read; the second one is idle when the first is refused.
            standby.database.reading(lambda _: standby.database.ask(Call("SELECT 1")))
            with pytest.raises(StorageReadOnlyError, match="takes no changes: connect to the primary"):
                standby.database.ask(change)
        finally:
            owner.execute(f"alter database {owner.info.dbname} reset default_transaction_read_only".encode())

    append(standby, "chat:a", said(2))
    standby.database.ask(change)


def test_a_user_without_rights(log: PostgresLog, pg_url: str, open_log: OpenLog) -> None:
    """Whoever may read, reads."""
    append(log, "chat:a", said(1))
    with psycopg.connect(pg_url) as connection:
        connection.execute("create role reader login")
        connection.execute("grant select on all tables in schema public to reader")
    try:
        reader = open_log(pg_url.replace("user=refold", "user=reader"))
        assert reader.head("chat:a") == 1
        with pytest.raises(StorageReadOnlyError, match="permission denied"):
            append(reader, "chat:a", said(2))
        reader.close()
    finally:
        with psycopg.connect(pg_url) as connection:
            connection.execute("drop owned by reader")
            connection.execute("drop role reader")


def test_a_user_who_may_make_no_tables(pg_url: str) -> None:
    """In a database without a log: what the server says is told, and nothing is made."""
    with psycopg.connect(pg_url, autocommit=True) as connection:
        connection.execute("revoke create on schema public from public")
        connection.execute("create role newcomer login")
        try:
            with pytest.raises(StorageReadOnlyError, match="permission denied for schema public"):
                PostgresLog(pg_url.replace("user=refold", "user=newcomer"))
        finally:
            connection.execute("drop role newcomer")
        assert connection.execute("select count(*) from pg_tables where schemaname = 'public'").fetchone() == (0,)


def test_types_that_others_add_all_the_time(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """The append gives up and changes nothing; the next one succeeds."""
    monkeypatch.setattr(append_module, "TAG_ATTEMPTS_MAX", 0)
    with pytest.raises(StorageBusyError, match=r"types .* added to tag: others did so"):
        append(log, "chat:a", said(1))
    assert log.head("chat:a") == 0

    monkeypatch.undo()
    append(log, "chat:a", said(1))

    assert log.head("chat:a") == 1


def test_a_table_that_is_gone(log: PostgresLog, pg_url: str) -> None:
    """It is named."""
    with psycopg.connect(pg_url) as connection:
        connection.execute("drop table event")

    with pytest.raises(StorageUnavailableError, match=r"lacks a table of Refold's .*\"event\" does not"):
        append(log, "chat:a", said(1))


def test_a_lock_row_that_is_gone(log: PostgresLog, pg_url: str) -> None:
    """Nothing can be appended safely without it, and its events would be left out; the error says how it comes back."""
    spoil(pg_url, "delete from slice_lock")

    with pytest.raises(DamagedError, match=rf"slice_lock {slice_of('r')} is damaged: its row is missing"):
        append(log, "chat:a", said(1), root="r")
    with closing(PostgresLog(pg_url)) as other, pytest.raises(DamagedError, match="1,024 of its 1,024 rows") as met:
        other.now()
    spoil(pg_url, met.value.remedy.partition(": ")[2])
    append(log, "chat:a", said(1), root="r")


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("53100", StorageFullError),
        ("53300", StorageBusyError),
        ("40P01", StorageBusyError),
        ("57P01", StorageUnavailableError),
        ("08006", StorageUnavailableError),
        ("58030", StorageError),
        ("XX001", DamagedError),
    ],
)
def test_states(state: str, kind: type[Exception]) -> None:
    """What a test cannot bring about is at least translated."""
    error = translate(lookup(state)("what it said\nand more"), "postgresql:///db")

    assert type(error) is kind
    assert "postgresql:///db" in str(error)
    assert "\n" not in str(error)


def test_what_nobody_expects() -> None:
    """An error that means a mistake of ours stays what it is."""
    error = lookup("42601")("syntax error")

    assert translate(error, "postgresql:///db") is error


def test_too_many_open_files(pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says so, also where the server was reached and waiting for it takes one file more."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with closing(PostgresDatabase(pg_url)) as database:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        try:
            with pytest.raises(StorageUnavailableError, match="cannot be opened: too many files are open: close some"):
                database.vacuum()
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        monkeypatch.setattr(psycopg, "connect", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        with pytest.raises(StorageUnavailableError, match="cannot be opened: too many files are open: close some"):
            database.vacuum()
