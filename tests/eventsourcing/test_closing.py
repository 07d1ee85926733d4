"""Letting go of a database that is in use: no crash, no wait without end, nothing half done."""

import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest
from eventsourcing.persistence import InterfaceError, PersistenceError, Tracking

from refold.domain.errors import StorageClosedError
from refold.infrastructure.recorders.datastore import ClosingGuard, Engine
from refold.infrastructure.recorders.stored_events import translated_for_eventsourcing
from tests.eventsourcing.opening import NewFactory, events

# A crash would take the test runner along, so these run in a process of their own.
START = """
import itertools, random, sys, threading, time
from eventsourcing.persistence import InfrastructureFactory, PersistenceError, StoredEvent, Tracking
from eventsourcing.utils import Environment

ids = itertools.count()

def work(recorder, stop):
    while not stop.is_set():
        name = f"s{next(ids)}"
        recorder.insert_events([StoredEvent(name, v, "shop:Sold", b"{}") for v in range(20)])
        recorder.select_events(name)
        recorder.select_notifications(None, 100)

def follow(recorder, stop):
    for notification in recorder.subscribe():
        pass

def open_and_work():
    factory = InfrastructureFactory.construct(Environment("Shop", VARIABLES))
    recorder, stop = factory.application_recorder(), threading.Event()
    errors = []
    def run(task):
        try:
            task(recorder, stop)
        except PersistenceError as error:
            errors.append(str(error))
    threads = [threading.Thread(target=run, args=(task,), daemon=True) for task in [work] * 4 + [follow] * 2]
    for thread in threads:
        thread.start()
    time.sleep(random.uniform(0, 0.1))
    return factory, threads, errors
"""
CLOSE_IN_USE = """
for _ in range(12):
    factory, threads, errors = open_and_work()
    factory.close()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert len(errors) == 6 and all("closed" in error for error in errors), errors
"""
EXIT_IN_USE = """
factory, threads, errors = open_and_work()
assert not errors
"""

KILLED = """
factory = InfrastructureFactory.construct(Environment("Shop", VARIABLES))
recorder = factory.process_recorder()
for version in itertools.count(1):
    recorder.insert_events([StoredEvent("a", version, "shop:Sold", b"{}")], tracking=Tracking("up", version))
    print(version, flush=True)
"""


def run(variables: dict[str, str], code: str) -> None:
    """Run code in a process of its own, and expect it to end well."""
    script = f"VARIABLES = {variables!r}\n{START}\n{code}"
    done = subprocess.run([sys.executable, "-X", "faulthandler", "-c", script], check=False, timeout=100)
    assert done.returncode == 0


@pytest.mark.long
def test_closing_while_threads_work(variables: dict[str, str]) -> None:
    """They are told that it is closed; the process goes on."""
    run(variables, CLOSE_IN_USE)


def test_exit_while_threads_work(variables: dict[str, str]) -> None:
    """Nobody closed anything, and the process ends all the same."""
    run(variables, EXIT_IN_USE)


def test_a_killed_writer_leaves_nothing_half_done(factory: NewFactory, variables: dict[str, str]) -> None:
    """What it was told is recorded is there, and events and position say the same."""
    script = f"VARIABLES = {variables!r}\n{START}\n{KILLED}"
    writer = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    with writer:
        told = [int(writer.stdout.readline()) for _ in range(50)]
        writer.kill()
        told += [int(line) for line in writer.stdout]
    recorder = factory().process_recorder()
    found = recorder.max_notification_id()

    assert found in (told[-1], told[-1] + 1)
    assert recorder.max_tracking_id("up") == found
    assert [one.originator_version for one in recorder.select_events("a")] == list(range(1, found + 1))
    assert recorder.insert_events(events("a", found + 1), tracking=Tracking("up", found + 1)) == [found + 1]


def test_closing_waits_for_a_transaction(factory: NewFactory) -> None:
    """What was begun is finished, and is found again."""
    opened = factory()
    recorder = opened.tracking_recorder()
    begun = threading.Event()

    def write() -> None:
        with opened.datastore.transaction(commit=True) as cursor:
            begun.set()
            time.sleep(0.2)
            recorder._insert_tracking(cursor, Tracking("up", 1))

    writer = threading.Thread(target=write)
    writer.start()
    begun.wait()
    opened.close()
    writer.join()

    assert factory().tracking_recorder().max_tracking_id("up") == 1


def test_closing_from_within_a_transaction(factory: NewFactory) -> None:
    """As a finaliser may, in the midst of anything: the transaction still ends as it should."""
    opened = factory()
    recorder = opened.tracking_recorder()
    with opened.datastore.transaction(commit=True) as cursor:
        opened.close()
        recorder._insert_tracking(cursor, Tracking("up", 1))

    with pytest.raises(InterfaceError):
        recorder.max_tracking_id("up")
    assert factory().tracking_recorder().max_tracking_id("up") == 1


def test_closing_from_within_a_reading_transaction(factory: NewFactory) -> None:
    """It does not wait for itself."""
    opened = factory()
    opened.application_recorder().insert_events(events("a", 1))
    started = time.monotonic()
    with opened.datastore.transaction(commit=False) as cursor:
        opened.close()
        cursor.execute("SELECT 1")

        assert len(cursor.fetchall()) == 1
    assert time.monotonic() - started < 2


def test_closing_twice(factory: NewFactory) -> None:
    """The second time does nothing."""
    opened = factory()
    opened.close()
    opened.close()


def test_whoever_comes_as_it_is_closed_is_told() -> None:
    """A call that was on its way already does nothing, and the database is closed once more by nobody."""
    closed = list[str]()
    guard = ClosingGuard("here", lambda: closed.append("closed"), is_single=False)
    guard.close()

    with pytest.raises(StorageClosedError, match=r"^here is closed: open it again$"), guard.using(writes=False):
        closed.append("used")

    assert closed == ["closed"]


class Refusing(Engine[Any]):
    """Appends to a database that refuses a group with a bad request, as a whole."""

    driver_error = sqlite3.Error

    def _appender_of(self, prefix: str) -> Any: ...

    def _close_connections(self) -> None: ...

    def _append(self, appender: Any, requests: Sequence[Any]) -> list[Any]:
        if "bad" in requests:
            raise sqlite3.DataError("no such value")
        return [f"{request} is there" for request in requests]


def test_what_the_database_refuses_takes_nobody_along() -> None:
    """The others of its group are appended one by one, each with its own answer."""
    requests: Any = ["first", "bad", "last"]
    answers: Any = Refusing("here")._answers(None, requests)
    first, refused, last = answers

    assert (first, last) == ("first is there", "last is there")
    assert isinstance(refused, sqlite3.DataError)


def test_an_error_that_the_package_has_no_name_for() -> None:
    """Whatever else a driver raises is an error of the package, with what the driver said."""
    with pytest.raises(PersistenceError, match=r"^odd$") as caught, translated_for_eventsourcing(sqlite3.Error):
        raise sqlite3.Error("odd")

    assert type(caught.value) is PersistenceError
