"""A database that fails while projections are worked on: nobody but it is to blame, and it is tried again."""

from __future__ import annotations

import threading
import time
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

import refold
from refold.domain.chat.events import MessageAdded
from refold.domain.errors import DamagedError, LogWentBackError, StorageClosedError, StorageUnavailableError
from refold.domain.log.envelope import RecordedEvent
from refold.infrastructure.projecting import runner as running
from refold.infrastructure.projecting import worker as working
from refold.infrastructure.projecting.folding import FAULT
from refold.infrastructure.projecting.runner import ProjectionRunner
from refold.infrastructure.projecting.worker import PAUSES_SECONDS, ProjectionWorker, WorkingThread
from tests.support.waiting import soon

from .counts import Count, Counts
from .histories import projections_of, talk_at_length
from .watches import HandMoved


class Failing:
    """A log, or a store of rows, whose calls fail as often as they are told to."""

    def __init__(self, wrapped: Any, **failures: int) -> None:
        self._wrapped, self.failures = wrapped, failures
        self.tried: list[str] = []
        self.error: Exception = StorageUnavailableError("it is not there")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._wrapped, name)
        if name not in self.failures:
            return found

        def call(*args: Any, **options: Any) -> Any:
            self.tried.append(name)
            if self.failures[name] > 0:
                self.failures[name] -= 1
                raise self.error
            return found(*args, **options)

        return call


@pytest.mark.parametrize("call", ["checkpoints", "load", "save"])
def test_an_error_of_the_database_goes_on_to_who_asked(store: refold.Store, call: str) -> None:
    """It is no fault of any event, nothing is noted, and the next one who asks gets the rows."""
    talk_at_length(store, 3)
    rows: Any = Failing(store._projections, **{call: 2})
    runner = ProjectionRunner(store.log, rows, [Counts()])

    for _ in range(2):
        with pytest.raises(StorageUnavailableError, match="it is not there"):
            runner.rows(Counts())
    assert runner.rows(Counts()) == [Count("chat:long", 4)]


def test_what_is_erased_while_it_stops_a_projection(store: refold.Store) -> None:
    """The reason may have the text, so it is noted no sooner than the event was read again."""
    store.chat("a").add_message("user", "a secret")

    class Told(Counts):
        on_fault = "stop"
        events = frozenset((MessageAdded,))

        def evolve(self, key: str, row: Count | None, event: RecordedEvent) -> Count:
            if event.event.content == ("a secret",):
                store.erase(context="a", why="asked for", dry_run=False)
            raise ValueError(event.event.content)

    worker = ProjectionWorker(store.log, store._projections, [Told()])
    worker.work()
    assert store._projections.notes(FAULT) == {}
    worker.work()
    assert "[erased]" in store._projections.notes(FAULT)["fault/counts"]


def test_rows_that_cannot_be_read_once(store: refold.Store) -> None:
    """They are not asked for again at once: no event is to blame, so none is looked for."""
    talk_at_length(store, 3)
    rows: Any = Failing(store._projections, load=1)
    runner = ProjectionRunner(store.log, rows, [Counts()])

    with pytest.raises(StorageUnavailableError):
        runner.rows(Counts())

    assert rows.tried == ["load"]
    assert runner.rows(Counts()) == [Count("chat:long", 4)]


def test_rows_that_cannot_be_stored_once(store: refold.Store) -> None:
    """If the database is not to blame, the events of the page are folded one by one, and all are in the rows."""
    talk_at_length(store, 3)
    rows: Any = Failing(store._projections, save=1)
    rows.error = ValueError("no such value")
    runner = ProjectionRunner(store.log, rows, [Counts()])

    assert runner.rows(Counts()) == [Count("chat:long", 4)]
    assert rows.tried == ["save", "save"]


@pytest.mark.parametrize("call", ["read_all", "load", "save"])
def test_a_store_that_is_closed_meanwhile(store: refold.Store, call: str) -> None:
    """That is no error of a projection, and nothing more is tried, whatever projections there are."""
    talk_at_length(store, 3)
    log: Any = Failing(store.log, read_all=0)
    rows: Any = Failing(store._projections, load=0, save=0)
    log.error = rows.error = StorageClosedError("it is closed")
    failing = log if call in log.failures else rows
    failing.failures[call] = 1
    counts, catalogue = Counts(), projections_of(store)["catalogue"]
    failed: dict[str, Exception] = {}

    with pytest.raises(StorageClosedError, match="it is closed"):
        list(ProjectionRunner(log, rows, [counts, catalogue]).pages(counts, catalogue, failed=failed))

    assert failed == {}
    assert failing.tried.count(call) == 1


def test_a_checkpoint_that_cannot_be_read(store: refold.Store) -> None:
    """Whoever goes page by page is told at once."""
    rows: Any = Failing(store._projections, checkpoints=1)
    rows.error = DamagedError("the checkpoint of counts", "it cannot be read")

    with pytest.raises(DamagedError, match="the checkpoint of counts"):
        list(ProjectionRunner(store.log, rows, [Counts()]).pages(Counts()))


@pytest.mark.parametrize("is_first", [True, False])
def test_one_checkpoint_that_cannot_be_read(
    store: refold.Store, is_first: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The projection that it is of fails, and the other is brought up to date."""
    talk_at_length(store, 3)
    counts, catalogue = Counts(), projections_of(store)["catalogue"]
    runner, checkpoints = (
        ProjectionRunner(store.log, store._projections, [counts, catalogue]),
        store._projections.checkpoints,
    )

    def damaged(*projections: Any) -> Any:
        if counts in projections:
            raise DamagedError("the checkpoint of counts", "it cannot be read")
        return checkpoints(*projections)

    monkeypatch.setattr(store._projections, "checkpoints", damaged)
    failed: dict[str, Exception] = {}
    for _ in runner.pages(*((counts, catalogue) if is_first else (catalogue, counts)), failed=failed):
        pass

    assert failed.keys() == {"counts"}
    assert store._projections.checkpoint(catalogue) == store.now()


def test_a_database_that_fails_while_a_fault_is_looked_for(store: refold.Store) -> None:
    """The event that could not be folded is not taken for another one."""
    store.chat("a").add_message("user", "poison")
    rows: Any = Failing(store._projections, load=0)
    load, runner = rows.load, ProjectionRunner(store.log, rows, [Counts()])

    def fail_later(*args: Any) -> Any:
        rows.failures["load"] = int(len(rows.tried) == 1)
        return load(*args)

    rows.load = fail_later
    with pytest.raises(StorageUnavailableError):
        runner.rows(Counts())
    assert len(rows.tried) == 2


def test_tried_again_with_pauses(store: refold.Store, caplog: pytest.LogCaptureFixture) -> None:
    """After each failure it waits longer; the others go on meanwhile, and it is up to date when all is well again."""
    talk_at_length(store, 3)
    log: Any = Failing(store.log)
    rows: Any = Failing(store._projections, save=6)
    watch = HandMoved()
    worker = ProjectionWorker(log, rows, [Counts()], watch=watch)
    other = ProjectionWorker(store.log, store._projections, [projections_of(store)["rollup"]], watch=watch)
    began, tried = watch.seconds, []

    for _ in range(600):
        failures = len(rows.tried)
        worker.work()
        other.work()
        if len(rows.tried) > failures:
            tried.append(watch.seconds - began)
        watch.seconds += 0.1

    waits = [later - earlier for earlier, later in pairwise(tried)]
    assert waits == pytest.approx([*PAUSES_SECONDS, 10.0, 10.0], abs=0.11)
    assert store._projections.rows(Counts()) == [Count("chat:long", 4)]
    assert store.check("rollup").differing == 0
    warned = [one.getMessage() for one in caplog.records if one.name == "refold.projections"]
    assert len(warned) == 6
    assert warned[0] == "the projection counts: it is not there; trying again in 0.1 s"


def test_pauses_of_a_log_that_fails(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is the shortest, each is longer than the one before, and after a success they are short again."""
    worker = ProjectionWorker(store.log, store._projections, [Counts()])
    are_failures, pauses = iter([True, True, False, True]), list[float]()
    stop: Any = SimpleNamespace(is_set=lambda: len(pauses) == 3, wait=pauses.append)

    def work(stop: threading.Event) -> None:
        if next(are_failures):
            raise StorageUnavailableError("it is not there")

    monkeypatch.setattr(worker, "_work_and_wait", work)
    worker.run(stop)

    assert pauses == [PAUSES_SECONDS[0], PAUSES_SECONDS[1], PAUSES_SECONDS[0]]


def test_after_a_success_pauses_are_short_again(store: refold.Store) -> None:
    """What counts is how often it failed in a row."""
    watch = HandMoved()
    rows: Any = Failing(store._projections, save=3)
    worker = ProjectionWorker(store.log, rows, [Counts()], watch=watch)
    for _ in range(2):
        talk_at_length(store, 1)
        for _ in range(4):
            worker.work()
            watch.seconds += 11.0
        assert worker._tasks[0].failures == 0
        rows.failures["save"] = 1

    talk_at_length(store, 1)
    worker.work()
    assert worker._tasks[0].resting_until == watch.seconds + PAUSES_SECONDS[0]


@pytest.mark.parametrize("error", [StorageUnavailableError("it is not there"), DamagedError("a page", "it is torn")])
@pytest.mark.parametrize("call", ["now", "wait_for_news", "read_all", "note", "set_note"])
def test_a_thread_outlives_errors(
    store: refold.Store, call: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever call fails, and however: it works on, and is up to date in the end."""
    monkeypatch.setattr(working, "PAUSES_SECONDS", (0.01,))
    monkeypatch.setattr(working, "WAIT_SECONDS", 0.02)
    log: Any = Failing(store.log, now=0, wait_for_news=0, read_all=0)
    rows: Any = Failing(store._projections, note=0, set_note=0)
    failing = log if call in log.failures else rows
    failing.failures[call], failing.error = 3, error
    stop = threading.Event()
    worker = ProjectionWorker(log, rows, [Counts()])
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        talk_at_length(store, 3)
        end = time.monotonic() + 20
        while store._projections.rows(Counts()) != [Count("chat:long", 4)] or failing.failures[call]:
            assert time.monotonic() < end
            time.sleep(0.02)
    finally:
        stop.set()
        thread.join()
    assert store._projections.notes("worker/") == {}


def test_a_thread_of_the_parent_is_stopped_in_the_child() -> None:
    """At once: the thread is not there, and what it held while the process was forked is held for ever."""
    working = WorkingThread(SimpleNamespace(run=lambda stop: None))  # type: ignore[arg-type]  # it has nothing to do
    is_held, is_over = threading.Event(), threading.Event()
    inherited: Any = working._stop

    def hold() -> None:
        with inherited._cond:
            is_held.set()
            is_over.wait()

    holder = threading.Thread(target=hold, daemon=True)
    holder.start()
    is_held.wait()

    working._after_fork()
    working.stop()

    is_over.set()
    holder.join()


def test_it_stops_behind_a_page(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long backlog does not keep a program from ending; the rest is read the next time."""
    monkeypatch.setattr(running, "PAGE_EVENTS", 16)
    talk_at_length(store, 40)
    worker = ProjectionWorker(store.log, store._projections, [Counts()])
    answers = iter([False, True])

    worker.work(lambda: next(answers))

    assert store._projections.rows(Counts()) == [Count("chat:long", 16)]
    worker.work()
    assert store._projections.rows(Counts()) == [Count("chat:long", 41)]


def test_a_fault_that_cannot_be_read(store: refold.Store, caplog: pytest.LogCaptureFixture) -> None:
    """Until it is known which event stopped the projection, that event is not tried."""
    store.chat("a").add_message("user", "poison")
    rows: Any = Failing(store._projections, note=0)
    worker = ProjectionWorker(store.log, rows, [Counts()], watch=HandMoved())
    worker.work()
    caplog.clear()
    rows.failures["note"] = 1

    worker.work()

    said = [one.getMessage() for one in caplog.records if one.name == "refold.projections"]
    assert said == ["the projection counts: it is not there; trying again in 0.1 s"]


def test_a_fault_that_could_not_be_noted(store: refold.Store) -> None:
    """It is found again, and noted then; the worker does not die of it."""
    store.chat("a").add_message("user", "poison")
    rows: Any = Failing(store._projections, set_note=0)
    watch = HandMoved()
    worker = ProjectionWorker(store.log, rows, [Counts()], watch=watch)
    set_note = rows.set_note

    def failing_for_faults(name: str, **values: Any) -> Any:
        rows.failures["set_note"] = int(name.startswith("fault/") and not seen)
        seen.extend([name] if name.startswith("fault/") else [])
        return set_note(name, **values)

    seen: list[str] = []
    rows.set_note = failing_for_faults
    worker.work()
    assert store._projections.note("fault/counts") is None
    watch.seconds += 1.0
    worker.work()

    assert seen == ["fault/counts", "fault/counts"]
    assert "chat:a@2" in str(store._projections.note("fault/counts"))


def test_a_damaged_log(store: refold.Store, caplog: pytest.LogCaptureFixture) -> None:
    """It is no fault of the projections: none is noted, one line is said for all, and it is looked at again later."""
    talk_at_length(store, 3)
    log: Any = Failing(store.log, read_all=0)
    log.error = DamagedError("chat:long@2", "it is not what was written")
    known = projections_of(store)
    chosen = [Counts(), *(known[name] for name in ("catalogue", "rollup", "usage"))]
    worker, failing = ProjectionWorker(log, store._projections, chosen, watch=HandMoved(step=11.0)), []

    for is_damaged in (True, True, False):
        log.failures["read_all"] = 9 * is_damaged
        worker.work()
        failing.append(worker.failing)

    assert store._projections.note("fault/counts") is None
    said = [one.getMessage() for one in caplog.records if one.name == "refold.projections"]
    assert said == [
        f"the projections counts, catalogue, rollup and 1 more: {log.error}; trying again in {pause} s"
        for pause in PAUSES_SECONDS[:2]
    ]
    # One failure may be over by the next try.
    assert failing == [{}, {one.name: str(log.error) for one in chosen}, {}]
    assert store._projections.rows(Counts()) == [Count("chat:long", 4)]


def test_a_file_that_is_not_there_any_more(store: refold.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only another store finds what is there instead, so it ends; a thread waits, as its file may be put back."""
    monkeypatch.setattr(working, "PAUSES_SECONDS", (0.01,))
    log: Any = Failing(store.log, now=1)
    log.error = LogWentBackError("a.db", reason="it was replaced")
    with pytest.raises(LogWentBackError, match="it was replaced"):
        ProjectionWorker(log, store._projections, [Counts()]).run(threading.Event())
    assert store._projections.notes("worker/") == {}

    log.failures["now"] = 2
    with WorkingThread(ProjectionWorker(log, store._projections, [Counts()])):
        talk_at_length(store, 3)
        assert soon(lambda: store._projections.rows(Counts()) == [Count("chat:long", 4)])
    assert log.failures["now"] == 0
