"""The connection may break at any moment: each event is recorded once, and the caller hears of it."""

import time
from typing import Any

import psycopg
import pytest

from refold.domain.errors import (
    ConcurrencyError,
    InvalidInputError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageUnavailableError,
)
from refold.infrastructure.log.postgres import append as append_module
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.postgres.wire import Call, Wire
from tests.contract.writing import append, check_chain, everything, new, numbers, said
from tests.support.pooler import pooler

from .conftest import OpenLog
from .proxy import Proxy


@pytest.fixture
def shaky(open_log: OpenLog, proxy: Proxy) -> PostgresLog:
    """A log behind the proxy, with two events in it."""
    log = open_log(proxy.url)
    append(log, "chat:a", said(0), said(1))
    return log


def test_an_answer_lost_after_the_commit(shaky: PostgresLog, proxy: Proxy) -> None:
    """The ids of the events tell that they are recorded: the receipt is that of the first time."""
    proxy.lose_answer = True

    receipt = append(shaky, "chat:a", said(2), said(3), expected=2)

    assert not receipt.replayed
    assert list(receipt.events) == shaky.read("chat:a", after=2)
    assert numbers(everything(shaky)) == ["m0", "m1", "m2", "m3"]
    check_chain(shaky.read("chat:a"))


@pytest.mark.parametrize("lost", ["request", "answer"])
def test_a_new_stream_whose_answer_is_lost(shaky: PostgresLog, proxy: Proxy, lost: str) -> None:
    """It is there once, whether it was there already or not, and nobody is told that its id was taken."""
    setattr(proxy, f"lose_{lost}", True)

    receipt = append(shaky, "chat:b", said(2), said(3), expected=0)
    append(shaky, "chat:b", said(4), expected=2)

    assert list(receipt.events) == shaky.read("chat:b", until=2)
    assert numbers(shaky.read("chat:b")) == ["m2", "m3", "m4"]


def test_a_request_that_never_arrived(shaky: PostgresLog, proxy: Proxy) -> None:
    """It is sent again."""
    proxy.lose_request = True

    append(shaky, "chat:a", said(2), expected=2)

    assert numbers(shaky.read("chat:a")) == ["m0", "m1", "m2"]


def test_a_first_append_whose_answers_are_lost(open_log: OpenLog, proxy: Proxy) -> None:
    """The locked append, too, is made again: first the answer to its questions is lost, then that to its rows."""
    log = open_log(proxy.url)
    for number in range(2):
        append(log, f"chat:warm{number}", said(0), root=f"warm{number}")

    proxy.lose_answer = True
    append(log, "chat:a", said(1), root="a")
    proxy.lose_answer = True
    append(log, "chat:a", said(2), key="k", root="a")

    assert numbers(log.read("chat:a")) == ["m1", "m2"]
    assert append(log, "chat:a", said(2), key="k").replayed


def test_another_wrote_while_the_connection_was_gone(shaky: PostgresLog, open_log: OpenLog, proxy: Proxy) -> None:
    """An append that did not get in is a conflict if its place was taken meanwhile."""
    append(open_log(), "chat:a", said(9))
    proxy.lose_request = True

    with pytest.raises(ConcurrencyError):
        append(shaky, "chat:a", said(2), expected=2)

    assert numbers(shaky.read("chat:a")) == ["m0", "m1", "m9"]


def test_a_group_whose_answer_is_lost(shaky: PostgresLog, proxy: Proxy) -> None:
    """Several callers' events were committed as one: all of them are found again, and the refused stay refused."""
    parts = [new("chat:a", said(2), expected=2), new("chat:a", said(3), expected=1), new("chat:b", said(4))]
    proxy.lose_answer = True

    futures = [shaky.append([part], wait=False) for part in parts]

    assert isinstance(futures[1].exception(30), ConcurrencyError)
    assert [futures[place].exception(30) for place in (0, 2)] == [None, None]
    assert (numbers(shaky.read("chat:a")), shaky.head("chat:b")) == (["m0", "m1", "m2"], 1)


def test_a_group_of_plain_appends_whose_answer_is_lost(shaky: PostgresLog, proxy: Proxy) -> None:
    """Streams that are known, each in its own slice: the quickest way, and found again as well."""
    streams = [f"chat:{number}" for number in range(4)]
    for stream in streams:
        append(shaky, stream, said(0), root=stream)
    proxy.lose_answer = True

    futures = [shaky.append([new(stream, said(1), said(2), expected=1)], wait=False) for stream in streams]

    assert [future.exception(30) for future in futures] == [None] * 4
    for stream in streams:
        assert numbers(shaky.read(stream)) == ["m0", "m1", "m2"]
        check_chain(shaky.read(stream))


def test_an_event_that_cannot_be_stored_meets_a_broken_connection(
    shaky: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection breaks before the event is looked at: it is the event that is refused."""

    def broken(wire: Wire, *calls: Call) -> None:
        wire.close()
        raise psycopg.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patch:
        patch.setattr(Wire, "send", broken)
        with pytest.raises(InvalidInputError, match="cannot be stored"):
            append(shaky, "chat:a", said(2, "lone \ud800"), expected=2)

    append(shaky, "chat:a", said(3), expected=2)
    assert numbers(shaky.read("chat:a")) == ["m0", "m1", "m3"]


def test_a_reader_connects_again(shaky: PostgresLog, proxy: Proxy) -> None:
    """Reading is repeated on a new connection."""
    proxy.lose_answer = True
    assert len(shaky.read("chat:a")) == 2

    proxy.cut()
    assert len(shaky.read("chat:a")) == 2


def test_the_server_ends_all_sessions(log: PostgresLog, pg_url: str) -> None:
    """As when it is restarted: the next call finds its connection closed, and opens another."""
    append(log, "chat:a", said(0))
    with psycopg.connect(pg_url) as connection:
        connection.execute("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'refold'")
    time.sleep(0.1)

    append(log, "chat:a", said(1), expected=1)

    assert numbers(log.read("chat:a")) == ["m0", "m1"]


def test_a_server_that_stays_away(shaky: PostgresLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller is told that it is not known what became of his events, and how to make sure."""
    monkeypatch.setattr("refold.infrastructure.log.postgres.connection.PAUSE_SECONDS", 0.001)
    proxy.close()

    with pytest.raises(StorageUnavailableError, match="look whether they are recorded before you repeat them"):
        append(shaky, "chat:a", said(2))
    with pytest.raises(StorageUnavailableError, match="cannot be opened"):
        shaky.read("chat:a")


@pytest.mark.parametrize(
    "silence",
    [psycopg.errors.ConnectionTimeout("connection timeout expired"), psycopg.OperationalError("query_wait_timeout")],
)
def test_a_server_that_falls_silent(
    shaky: PostgresLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, silence: psycopg.Error
) -> None:
    """
    One new connection is tried, which takes all of its time, or of a pooler's: not as many as where a server refuses
    them.
    """
    tried = list[object]()

    def in_vain(*args: object, **options: object) -> None:
        tried.append(args)
        raise silence

    assert len(shaky.read("chat:a")) == 2
    # The writer would look for one that is idle.
    shaky.database._drop_idle()
    proxy.cut()
    monkeypatch.setattr(psycopg, "connect", in_vain)

    unknown = rf"\({silence}\): look whether they are recorded before you repeat them"
    with pytest.raises(StorageUnavailableError, match=unknown):
        append(shaky, "chat:a", said(2))
    assert len(tried) == 1
    with pytest.raises(StorageError, match=str(silence)):
        shaky.read("chat:a")
    assert len(tried) == 2


def test_a_pooler_without_a_connection_to_lend(open_log: OpenLog, pg_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It lets everybody in and answers nobody: one new connection is tried, not as many as where it refuses them."""
    monkeypatch.setattr("refold.infrastructure.log.postgres.wire.CANCEL_SECONDS", 0.05)
    with pooler(pg_url, size=1) as url, psycopg.connect(url) as holder:
        log = open_log(url, patience_seconds=0.2)
        append(log, "chat:a", said(1))
        holder.execute("select 1")
        connect, tried = psycopg.connect, list[object]()

        def noted(*given: Any, **options: Any) -> Any:
            tried.append(given)
            return connect(*given, **options)

        monkeypatch.setattr(psycopg, "connect", noted)
        with pytest.raises(StorageUnavailableError, match=r"no connection to lend\): look whether they are recorded"):
            append(log, "chat:a", said(2))
        assert len(tried) == 1
        holder.rollback()
        append(log, "chat:a", said(3))


@pytest.mark.parametrize(
    ("why", "kind"),
    [
        ("sorry, too many clients already", StorageBusyError),
        ("could not write init file: No space left on device", StorageFullError),
    ],
)
def test_a_server_that_lets_nobody_in_again(
    shaky: PostgresLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, why: str, kind: type[Exception]
) -> None:
    """Nobody is told that it is only that, while the outcome is not known."""
    monkeypatch.setattr("refold.infrastructure.log.postgres.connection.PAUSE_SECONDS", 0.001)

    def refused(*args: object, **options: object) -> None:
        raise psycopg.OperationalError(f"connection failed: FATAL:  {why}")

    # The writer would take one that is idle.
    shaky.database._drop_idle()
    proxy.lose_answer = True
    monkeypatch.setattr(psycopg, "connect", refused)
    unknown = rf"\(connection failed: FATAL:  {why}\): look whether they are recorded"
    with pytest.raises(StorageUnavailableError, match=unknown):
        append(shaky, "chat:a", said(2))
    with pytest.raises(kind) as met:
        append(shaky, "chat:a", said(3))
    assert type(met.value) is kind


def test_a_writer_pauses_before_it_tries_again(
    shaky: PostgresLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer each time, and not before the first attempt: a server that starts again needs some time."""
    pauses = list[int]()
    monkeypatch.setattr(append_module, "pause_before", pauses.append)
    proxy.close()

    with pytest.raises(StorageUnavailableError):
        append(shaky, "chat:a", said(2))

    assert pauses == [*range(append_module.ATTEMPTS_MAX - 1)]


def test_an_interrupt_while_an_answer_is_waited_for(log: PostgresLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """It goes on to the caller as it is, and the next append finds what was recorded."""
    append(log, "chat:a", said(0))
    append(log, "chat:a", said(1))
    conclude = Wire.conclude

    def interrupted(wire: Wire) -> None:
        conclude(wire)
        raise KeyboardInterrupt

    monkeypatch.setattr(Wire, "conclude", interrupted)
    with pytest.raises(KeyboardInterrupt):
        append(log, "chat:a", said(2))
    monkeypatch.undo()

    append(log, "chat:a", said(3))

    assert numbers(log.read("chat:a")) == ["m0", "m1", "m2", "m3"]
    check_chain(log.read("chat:a"))
