"""`refold run`: projections kept up to date beside the programs that write."""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

import refold as package
from refold.domain.errors import DamagedError, LogWentBackError, StorageBusyError, StorageUnavailableError
from refold.infrastructure.cli import progress
from refold.infrastructure.cli import run_worker as run_module
from refold.infrastructure.cli.run_worker import WorkerLog
from refold.infrastructure.projecting.worker import ProjectionWorker
from tests.cli.running import PROGRAM, environment, refold, started

PATIENCE_SECONDS = 30.0


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no command that runs in the process of the tests end it."""
    monkeypatch.setattr(progress, "STOPPING_SECONDS_MAX", 600.0)


@contextlib.contextmanager
def running(database: Path, *names: str) -> Iterator["subprocess.Popen[str]"]:
    """Run the command in a process of its own, which does not outlive the test."""
    process = started("run", *names, "--db", database)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()


def behind(database: Path, name: str) -> int:
    """Return how many events a projection has not seen."""
    with package.open(database, create=False) as store:
        return {one.name: one.behind for one in store.projections()}[name]


def wait_until_kept(database: Path, name: str) -> None:
    """Wait until a projection is up to date."""
    end = time.monotonic() + PATIENCE_SECONDS
    while behind(database, name):
        assert time.monotonic() < end, "it is not kept up to date"
        time.sleep(0.05)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_projections_are_kept_until_it_is_stopped(database: Path, number: signal.Signals) -> None:
    """What is written meanwhile, too; it ends with 0, lets go of its leases, and says what it did."""
    with running(database, "catalogue", "search") as process:
        wait_until_kept(database, "search")
        with package.open(database) as store:
            store.chat("air-1").add_message("user", "news")
        wait_until_kept(database, "search")
        process.send_signal(number)
        out, err = process.communicate(timeout=PATIENCE_SECONDS)

    first, *_, last = err.splitlines()
    assert (process.returncode, out) == (0, "")
    assert first.partition("  ")[2] == f"keeping 2 projections of {database} up to date; Ctrl-C ends it"
    assert last.endswith(" s: all: 15 events")
    with package.open(database, create=False) as store:
        assert {one.name: one.behind for one in store.projections()}["rollup"] == 15
        assert {one.worker for one in store.projections()} == {None}


def test_it_goes_on_where_nobody_can_read_what_it_says(database: Path) -> None:
    """Its log may be on a full disk; rows are kept all the same, and it ends as always."""
    command = [*PROGRAM, "--db", str(database), "run", "catalogue"]
    with open("/dev/full", "w") as full, subprocess.Popen(command, env=environment(), stderr=full) as process:
        try:
            wait_until_kept(database, "catalogue")
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_SECONDS) == 0
        finally:
            process.kill()


def test_a_database_that_is_silent_does_not_keep_it(database: Path) -> None:
    """It ends without an answer, and as any other stop."""
    program = """
import signal, sys, threading
from refold.infrastructure.cli import main, progress, run_worker
progress.STOPPING_SECONDS_MAX = 0.1
run_worker.WorkerLog.sums = lambda _: threading.Event().wait()
run_worker.WorkerLog.beginning = lambda _: [signal.raise_signal(signal.SIGTERM) or "asked to stop"]
sys.exit(main(sys.argv[1:]))
"""
    command = [sys.executable, "-c", program, "--db", str(database), "run", "catalogue"]
    ended = subprocess.run(command, env=environment(), capture_output=True, timeout=PATIENCE_SECONDS, check=False)

    assert ended.returncode == 0
    assert b"stopped without waiting any longer for what it had begun: the database is slow" in ended.stderr


@pytest.mark.long
def test_another_takes_over(database: Path) -> None:
    """Who was killed held it; who comes next says so, and goes on in its place."""
    with running(database, "catalogue") as killed:
        wait_until_kept(database, "catalogue")
        killed.kill()
        killed.communicate()
    with package.open(database) as store:
        store.chat("air-1").add_message("user", "news")
    with running(database, "catalogue") as process:
        wait_until_kept(database, "catalogue")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=PATIENCE_SECONDS)

    assert f"catalogue: held by {killed.pid}." in err
    assert err.endswith("catalogue: 1 event\n")


def test_what_goes_wrong_is_said(
    database: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """At once, and by the next one that is started; the others are kept all the same."""

    def fail(*_: object) -> None:
        raise ValueError("no\nluck")

    def stop() -> None:
        with package.open(database, create=False) as store:
            while {one.name: one for one in store.projections()}["catalogue"].behind:
                time.sleep(0.05)
            while {one.name: one for one in store.projections()}["rollup"].stopped_at is None:
                time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr("refold.projections.rollup.Rollup.on_fault", "stop", raising=False)
    monkeypatch.setattr("refold.projections.rollup.Rollup.evolve_all", fail, raising=False)
    monkeypatch.setattr("refold.projections.rollup.Rollup.evolve", fail)
    monkeypatch.setattr(run_module, "NEWS_EVERY_SECONDS", 0.05)
    stopper = threading.Thread(target=stop)
    stopper.start()
    ended = refold("run", "rollup", "catalogue", db=database)
    stopper.join()
    with package.open(database, create=False) as store:
        known = list(WorkerLog(store, ["rollup", "catalogue"]).beginning())

    assert ended.code == 0
    reason = f"test_run.py:{fail.__code__.co_firstlineno + 1}: ValueError: no\nluck"
    fault = f"cannot fold chat:air-0.0@1: {reason.replace(chr(10), ' ')}; mend the projection, then rebuild it"
    assert f"the projection rollup {fault}" in ended.err
    assert ended.err.endswith("catalogue: 14 events\n")
    assert known == [f"rollup stands still: it cannot fold chat:air-0.0@1: {reason}"]


def test_a_stop_while_the_database_is_away_is_no_failure(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker would have waited for it; only its sums cannot be said."""

    def away(*_: object) -> Any:
        raise StorageUnavailableError("the server is gone")

    monkeypatch.setattr(ProjectionWorker, "run", lambda *_: monkeypatch.setattr(WorkerLog, "_statuses", away))
    ended = refold("run", db=database)

    assert (ended.code, ended.err.splitlines()[-1].endswith(": the server is gone")) == (0, True)


def test_a_file_that_is_replaced_ends_it(database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by a restore: whatever starts it again opens the file that is there now."""
    copy, work = tmp_path / "copy.db", ProjectionWorker.work
    shutil.copy(database, copy)

    def replaced(worker: ProjectionWorker, *arguments: Any) -> None:
        copy.replace(database)
        work(worker, *arguments)

    monkeypatch.setattr(ProjectionWorker, "work", replaced)
    ended = refold("run", "catalogue", db=database)

    assert ended.code == 1
    assert ended.err.splitlines()[-1].startswith(f"refold: {database} went back: {database} was deleted or replaced")


def test_names_are_checked_first(database: Path) -> None:
    """One that is wrong is an error, and nothing is begun."""
    assert refold("run", "nonsense", db=database).fault.startswith("there is no projection 'nonsense': there are ")


def test_what_is_done_beside_it_is_said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Contexts whose time is over are erased while it works; a failure is noted, and it is tried again."""
    monkeypatch.setattr(run_module, "RETAINED_EVERY_SECONDS", 0)
    monkeypatch.setattr(run_module, "SEALED_EVERY_SECONDS", 0)
    stop, tries, jobs, noted = threading.Event(), iter(range(3)), dict[str, bool](), list[dict[str, bool]]()

    def retained(*, dry_run: bool) -> Any:
        noted.append({**jobs})
        if next(tries) == 0:
            raise StorageBusyError("it is busy")
        stop.set()
        erasure = None if dry_run else SimpleNamespace(contexts=["chat:a", "chat:b"])
        return SimpleNamespace(erasure=erasure)

    store: Any = SimpleNamespace(policies=lambda: ["mail"], apply_retention=retained)
    run_module._retain(store, stop, jobs)
    assert (noted, jobs) == ([{}, {"retention": True}], {"retention": False})
    assert [line.partition("  ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "contexts whose time is over could not be erased, which is tried again: it is busy",
        "2 contexts erased, whose time was over",
    ]

    stop.clear()
    tries = iter(range(3))

    def sealing() -> Iterator[int]:
        if next(tries) == 0:
            raise StorageBusyError("it is busy")
        assert jobs["seal"]
        yield 1
        stop.set()
        yield 2
        pytest.fail("it was told to stop")

    run_module._seal(sealing, stop, jobs)
    assert not jobs["seal"]
    assert capsys.readouterr().err.endswith("  old events could not be packed, which is tried again: it is busy\n")


def test_news_go_on_behind_an_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker meets the same one, and says it; it may be mended while the worker runs."""
    monkeypatch.setattr(run_module, "NEWS_EVERY_SECONDS", 0)
    stop, faults = threading.Event(), [DamagedError("the table", "it is gone"), StorageBusyError("it is busy")]

    def news() -> str:
        if faults:
            raise faults.pop()
        stop.set()
        return "all: 3 events"

    worker_log: Any = SimpleNamespace(news=news)
    run_module._print_news(worker_log, stop)

    assert [line.partition("  ")[2] for line in capsys.readouterr().err.splitlines()] == ["all: 3 events"]


@pytest.mark.parametrize(("seal", "can_seal"), [(True, True), (True, False), (False, True)])
def test_old_events_are_packed_beside_it(monkeypatch: pytest.MonkeyPatch, seal: bool, can_seal: bool) -> None:
    """Where that is asked for, and the database is one that packs."""
    packed: list[object] = []
    for name in ("_print_news", "_retain"):
        monkeypatch.setattr(run_module, name, lambda *_: None)
    monkeypatch.setattr(run_module, "_seal", lambda sealing, stop, jobs: packed.append(sealing))
    log = SimpleNamespace(sealing="packs") if can_seal else SimpleNamespace()
    store: Any = SimpleNamespace(log=log)
    worker: Any = SimpleNamespace(run=lambda stop: None)
    worker_log: Any = None

    jobs = dict.fromkeys(run_module._jobs(store, seal=seal), False)
    run_module._keep(store, worker, worker_log, threading.Event(), threading.Event(), jobs)

    assert packed == ["packs"] * (seal and can_seal)


def test_a_worker_that_failed_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its error must be printed, and the process must not end as one that was asked to stop."""
    for name in ("_print_news", "_retain"):
        monkeypatch.setattr(run_module, name, lambda *_: None)

    def fail(_: object) -> None:
        raise LogWentBackError("the store", acknowledged=2, found=1)

    stop, over, worker = threading.Event(), threading.Event(), SimpleNamespace(run=fail)
    with pytest.raises(LogWentBackError):
        run_module._keep(cast("Any", None), cast("Any", worker), cast("Any", None), stop, over, {})
    assert (stop.is_set(), over.is_set()) == (True, True)
