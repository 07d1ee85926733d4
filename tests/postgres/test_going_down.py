"""A server that stops, crashes, comes back or ends connections: errors of Refold's alone, and all works afterwards."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, LiteralString

import psycopg
import pytest
from psycopg.errors import QueryCanceled

import refold
from refold.domain.errors import (
    DamagedError,
    RefoldError,
    StorageBusyError,
    StorageError,
    StorageFullError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from refold.infrastructure.log.postgres import connection as database
from refold.infrastructure.log.postgres.locked_queries import Inquiry, StreamMovedError
from refold.infrastructure.log.postgres.log import PostgresLog
from refold.infrastructure.log.row_faults import MissingTableError
from tests.contract.writing import append, numbers, said
from tests.support.every_kind import fill
from tests.support.postgres import Server, running_server
from tests.verifying.answers import ANSWERS

from .conftest import OpenLog
from .proxy import Proxy

SECONDS_MAX = 120


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Try again soon."""
    monkeypatch.setattr(database, "PAUSE_SECONDS", 0.01)


def before_asking(monkeypatch: pytest.MonkeyPatch, do: Callable[[], None]) -> None:
    """Have something done before the locked append asks its first question."""
    run = Inquiry.run

    def asked(*arguments: Any, **options: Any) -> Any:
        do()
        return run(*arguments, **options)

    monkeypatch.setattr(Inquiry, "run", asked)


def test_gone_after_a_stale_look(
    open_log: OpenLog, proxy: Proxy, log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The division by zero that ended the transaction is nobody's answer, and nothing is uncertain: none was sent."""
    shaky = open_log(proxy.url)
    append(shaky, "chat:a", said(0))
    append(log, "chat:a", said(1))
    before_asking(monkeypatch, proxy.close)

    with pytest.raises(StorageUnavailableError, match="cannot be opened"):
        append(shaky, "chat:a", said(2))

    assert numbers(log.read("chat:a")) == ["m0", "m1"]


def test_moved_after_a_stale_look(
    open_log: OpenLog, pg_url: str, log: PostgresLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor is it where the stream lies somewhere else whenever it is looked for."""
    stale = open_log(pg_url)
    append(stale, "chat:a", said(0))
    append(log, "chat:a", said(1))

    def move() -> None:
        raise StreamMovedError

    before_asking(monkeypatch, move)
    with pytest.raises(StorageUnavailableError, match="turned up elsewhere again and again"):
        append(stale, "chat:a", said(2))


def test_refused_after_a_lost_answer(open_log: OpenLog, proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another error must not hide that nobody knows what became of the events: here they are recorded."""
    shaky = open_log(proxy.url)
    append(shaky, "chat:a", said(0))
    proxy.lose_answer = True

    def refuse() -> None:
        raise QueryCanceled("canceling statement due to statement timeout")

    before_asking(monkeypatch, refuse)
    with pytest.raises(StorageUnavailableError, match="look whether they are recorded before you repeat them"):
        append(shaky, "chat:a", said(1))

    assert numbers(shaky.read("chat:a")) == ["m0", "m1"]


class Busy:
    """Threads that ask a store everything, and write to it, until they are stopped; `errors` is what failed."""

    def __init__(self, store: refold.Store) -> None:
        self.store = store
        self.errors: list[tuple[str, Exception]] = []
        self.said: list[str] = []
        self.rounds = 0
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._ask, self._write)]
        for thread in self._threads:
            thread.start()

    def _ask(self) -> None:
        while not self._stop.is_set():
            for name, answer in ANSWERS.items():
                # These take long, and ask for what the others ask for.
                if not self._stop.is_set() and name not in ("verify", "check", "rebuild"):
                    self._try(name, lambda answer=answer: answer(self.store))  # type: ignore[misc]  # bound at once
            self.rounds += 1

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            number += 1
            name = f"text {number}"
            self._try("write", lambda name=name: self._say(name))  # type: ignore[misc]  # bound at once

    def _say(self, text: str) -> None:
        self.store.chat("busy").add_message("user", text)
        self.said.append(text)

    def _try(self, name: str, do: Callable[[], object]) -> None:
        try:
            do()
        except Exception as error:
            self.errors.append((name, error))

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        deadline = time.monotonic() + SECONDS_MAX
        while not is_so():
            assert time.monotonic() < deadline, self.errors[-3:]
            time.sleep(0.01)

    def stop(self) -> None:
        """Let each thread finish, which it does."""
        self._stop.set()
        for thread in self._threads:
            thread.join(SECONDS_MAX)
            assert not thread.is_alive(), "an answer hangs"


def require_recovered(busy: Busy) -> None:
    """Require that nothing but errors of Refold's came out, that all works again, and that what was said is there."""
    busy.stop()
    wrong = [(name, error) for name, error in busy.errors if not isinstance(error, RefoldError)]
    assert wrong == []
    for answer in ANSWERS.values():
        answer(busy.store)
    there = {text for item in busy.store.chat("busy").items for text in item.content}  # type: ignore[union-attr]  # they are messages
    assert set(busy.said) <= there


def test_a_server_that_goes_down(pg_server: Server) -> None:
    """Whatever is asked or written while it is down fails with an error of the tree; then all goes on."""
    # A server that no other test uses. (The fixture skips the test where there is none.)
    with running_server() as own, refold.open(own.url()) as store:
        asyncio.run(fill(store))
        busy = Busy(store)
        for mode in ("fast", "immediate"):
            said_before, failed_before = len(busy.said), len(busy.errors)
            busy.wait_for(lambda before=said_before: len(busy.said) > before)  # type: ignore[misc]  # bound at once
            own.stop(mode)
            try:
                busy.wait_for(lambda before=failed_before: len(busy.errors) > before + 3)  # type: ignore[misc]
            finally:
                own.start()

        assert {type(error) for _, error in busy.errors} <= {StorageUnavailableError}
        require_recovered(busy)


def test_connections_that_are_ended(pg_url: str) -> None:
    """By an administrator, in the middle of anything: mostly nobody notices, and what was said is there."""
    end: LiteralString = "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database()"
    with refold.open(pg_url) as store:
        asyncio.run(fill(store))
        busy = Busy(store)
        with psycopg.connect(pg_url, autocommit=True) as other:
            for number in range(30):
                other.execute(end + " and pid <> pg_backend_pid()")
                busy.wait_for(lambda number=number: len(busy.said) > number)  # type: ignore[misc]  # bound at once

        require_recovered(busy)


@pytest.mark.parametrize(
    ("state", "kind"),
    [
        ("53100", StorageFullError),
        ("53300", StorageBusyError),
        ("57014", StorageBusyError),
        ("25006", StorageReadOnlyError),
        ("42501", StorageReadOnlyError),
        ("42883", MissingTableError),
        ("58030", StorageError),
        ("XX001", DamagedError),
        ("22003", DamagedError),
        ("23514", DamagedError),
        ("P0001", StorageError),
        ("54000", StorageError),
    ],
)
def test_what_an_append_may_meet(log: PostgresLog, pg_url: str, state: str, kind: type[RefoldError]) -> None:
    """Each way of appending makes an error of Refold's of it, one line with the database's name; then all goes on."""
    append(log, "chat:a", said(0))
    with psycopg.connect(pg_url, autocommit=True) as other:
        other.execute(
            f"""
            CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'it is so' USING ERRCODE = '{state}'; END $$;
            CREATE TRIGGER fail BEFORE INSERT ON event EXECUTE FUNCTION fail()""".encode()
        )

        for stream, key in (("chat:a", None), ("chat:b", None), ("chat:a", "k1")):
            with pytest.raises(kind, match=r"it is so|no room left|takes no changes") as met:
                append(log, stream, said(1), key=key)
            assert type(met.value) is kind
            assert "postgresql:///" in str(met.value)
            assert isinstance(met.value.__cause__, psycopg.Error)
        other.execute("DROP TRIGGER fail ON event")

    append(log, "chat:a", said(2))
    assert numbers(log.read("chat:a")) == ["m0", "m2"]
