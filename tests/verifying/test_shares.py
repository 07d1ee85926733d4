"""Several processes verify one store: with the same report as one, and none stays behind."""

from __future__ import annotations

import io
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

import refold
from refold.domain.errors import InvalidInputError
from refold.infrastructure import helper_process
from refold.infrastructure.helper_process import cores
from refold.infrastructure.log.codec import CODEC, Codec
from refold.infrastructure.projecting.builtin import PROJECTIONS
from refold.infrastructure.projecting.rows.sqlite import SqliteProjectionStore
from refold.infrastructure.projecting.store import SetAside
from refold.infrastructure.verifying import Report, shares
from refold.infrastructure.verifying.shares import Helper, processes_for, shares_of
from refold.projections.contract import Projection
from refold.projections.search import SEARCH
from tests.projecting.counts import Counts
from tests.projecting.test_set_aside import store_on
from tests.support.every_kind import fill

from .damaging import sql, view_of, written

PATIENCE_SECONDS = 60
HARM = {
    "nothing": "",
    "a row": "UPDATE {search} SET words = 'other words here' WHERE version = 2",
    "beside its words": "UPDATE {search} SET recorded_at = recorded_at + 1 WHERE version = 2",
    "a row too few": "DELETE FROM {search} WHERE version = 3",
    "an event": "UPDATE event SET payload = '\\x00c1' WHERE version = 2",
}


@pytest.fixture
def helpers(monkeypatch: pytest.MonkeyPatch) -> list[Helper]:
    """The helpers that a store of any size gets."""
    started: list[Helper] = []
    start = shares._started

    def noted(*arguments: Any) -> Helper | None:
        helper = start(*arguments)
        started.extend([helper] if helper else [])
        return helper

    monkeypatch.setattr(shares, "SHARED_EVENTS_MIN", 1)
    monkeypatch.setattr(shares, "_started", noted)
    return started


def verified(location: str, processes: int) -> Report:
    """Return the report of so many processes."""
    with refold.open(location) as store:
        return store.verify(processes=processes)


@pytest.mark.long
async def test_all_kinds_are_found_right_by_helpers(location: str, helpers: list[Helper]) -> None:
    """Between them, the processes compare each projection once; no process is left when it ends."""
    with refold.open(location) as store:
        await fill(store)
        store._runner.catch_up(*PROJECTIONS)
        alone, together = store.verify(processes=1), store.verify(processes=3)

    assert alone.problems == ()
    assert together == alone
    assert len(helpers) == (0 if location == ":memory:" else 2)
    assert all(set(helper.right) == {one.name for one in helper.share} for helper in helpers)
    assert [helper.done for helper in helpers] == [alone.events] * len(helpers)
    assert all(helper._process.returncode is not None for helper in helpers)


@pytest.mark.long
@pytest.mark.parametrize("harm", HARM)
def test_the_report_is_that_of_one_process(place: str, helpers: list[Helper], harm: str) -> None:
    """Whatever is wrong: what a helper does not find right is looked at again."""
    written(place)
    statement = HARM[harm].format(search=view_of(place, SEARCH))
    if not place.startswith("postgresql"):
        statement = statement.replace("'\\x00c1'", "x'00c1'")
    if statement:
        sql(place, statement)

    alone, together = verified(place, 1), verified(place, 2)

    assert together == alone
    assert bool(alone.problems) == (harm != "nothing")
    assert len(helpers) == 1


def test_the_index_is_checked_while_a_helper_compares_its_rows(
    tmp_path: Path, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, and before the helper is waited for."""
    place, order = str(tmp_path / "store.db"), list[str]()
    written(place)
    check, wait = SqliteProjectionStore.index_fault, Helper.is_done

    def checked(store: SqliteProjectionStore, projection: Projection) -> str | None:
        order.append("check")
        return check(store, projection)

    def waited(helper: Helper) -> bool:
        order.append("wait")
        return wait(helper)

    monkeypatch.setattr(SqliteProjectionStore, "index_fault", checked)
    monkeypatch.setattr(Helper, "is_done", waited)

    assert verified(place, 2).problems == ()
    assert SEARCH in helpers[0].share
    assert (order[0], order.count("check"), set(order[1:])) == ("check", 1, {"wait"})


@pytest.mark.parametrize("fault", ["killed", "another log", "no such projection", "not started"])
def test_a_helper_that_fails_changes_nothing(
    tmp_path: Path, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    """Its projections are compared here."""
    place = str(tmp_path / "store.db")
    written(place)
    if fault == "killed":
        begin = Helper.__init__

        def killed(helper: Helper, *arguments: Any) -> None:
            begin(helper, *arguments)
            helper._process.kill()

        monkeypatch.setattr(Helper, "__init__", killed)
    elif fault == "another log":
        monkeypatch.setattr(helper_process, "_last_digest", lambda *_: "00")
    elif fault == "no such projection":
        monkeypatch.setattr(shares, "BEGIN", shares.BEGIN.replace("run_helper()", "1 / 0"))
    else:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    report = verified(place, 2)

    assert (report.problems, report.projections) == ((), len(PROJECTIONS))
    assert [helper.right for helper in helpers] == ([] if fault == "not started" else [{}])


def test_a_message_that_cannot_be_read_ends_the_reading(caplog: pytest.LogCaptureFixture) -> None:
    """What a helper said before counts; the rest of its projections are compared here."""
    helper: Any = Helper.__new__(Helper)
    helper.done, helper.right, helper._begun = 0, {}, threading.Event()
    lines = b'{"done": 3, "right": {"rollup": [["chat:a@1", "odd"]]}}\n{"done"\n{"done": 4}\n'
    helper._process = SimpleNamespace(stdout=io.BytesIO(lines))

    with caplog.at_level("INFO", "refold.verify"):
        helper._listen()

    assert (helper.done, helper.right) == (3, {"rollup": [SetAside("chat:a@1", "odd")]})
    assert helper._begun.is_set()
    assert [one.getMessage().partition(":")[0] for one in caplog.records] == ["the messages of a helper cannot be read"]


def test_an_interrupt_ends_the_helpers(tmp_path: Path, helpers: list[Helper]) -> None:
    """Ctrl-C in this process is enough: a terminal sends it to the group of this one, and they have their own."""
    place = str(tmp_path / "store.db")
    written(place)
    groups: list[bool] = []

    def interrupt(_: object) -> None:
        groups.extend(os.getpgid(helper._process.pid) == helper._process.pid for helper in helpers)
        raise KeyboardInterrupt

    with refold.open(place) as store, pytest.raises(KeyboardInterrupt):
        store.verify(processes=2, progress=interrupt)

    assert [helper._process.returncode is None for helper in helpers] == [False]
    assert groups == [True]


KILLED = """
import os, signal, sys
from refold.infrastructure.verifying import shares
# The helper waits for ever: nobody writes into this pipe.
helper = shares.Helper([], {"location": sys.argv[1], "end": "1", "digest": "", "projections": []})
helper._begun.wait()
print(helper._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_helper_ends_with_the_process_that_is_killed(tmp_path: Path) -> None:
    """Even if it hangs."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)

    killed = subprocess.run([sys.executable, "-c", KILLED, str(pipe)], capture_output=True, check=False)

    try:
        helper = os.pidfd_open(int(killed.stdout))
    except ProcessLookupError:
        return
    try:
        assert select.select([helper], [], [], PATIENCE_SECONDS)[0] == [helper]
    finally:
        os.close(helper)


UNGUARDED = """
import multiprocessing, sys
import refold
from refold.infrastructure.verifying import shares
shares.SHARED_EVENTS_MIN = 1
print("begun", flush=True)

def verify():
    ends = shares.Helper.end
    shares.Helper.end = lambda helper: (print(sorted(helper.right) != [], flush=True), ends(helper))
    with refold.open(sys.argv[1]) as store:
        print(store.verify(processes=2).problems, flush=True)

if sys.argv[2] == "daemon":
    process = multiprocessing.get_context("fork").Process(target=verify, daemon=True)
    process.start()
    process.join()
else:
    verify()
"""


@pytest.mark.parametrize("way", ["main", "daemon"])
def test_programs_without_a_guard_and_daemons(tmp_path: Path, way: str) -> None:
    """A helper does not import the program that it helps, and a daemon process may have one."""
    place = str(tmp_path / "store.db")
    written(place)
    program = tmp_path / "program.py"
    program.write_text(UNGUARDED)

    ended = subprocess.run([sys.executable, program, place, way], capture_output=True, text=True, check=True)

    assert ended.stdout.splitlines()[:2] == ["begun", "True"]
    assert ended.stdout.splitlines()[-1] == "()"
    assert ended.stdout.count("begun") == 1


def test_who_compares_what(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each projection once; those of users here; and as many processes as serve a purpose."""
    own = Counts()
    mine, *others = shares_of([*PROJECTIONS, own], 3)

    assert sorted(one.name for share in (mine, *others) for one in share) == sorted(
        one.name for one in (*PROJECTIONS, own)
    )
    assert own in mine
    assert all(others)
    assert (processes_for(shares.SHARED_EVENTS_MIN - 1, 8), processes_for(10**6, 8), processes_for(10**6, 1)) == (
        1, shares.PROCESSES_MAX, 1,
    )  # fmt: skip
    monkeypatch.setattr(sys, "executable", "/usr/bin/uwsgi")
    assert processes_for(10**6, 2) == 1
    with pytest.raises(InvalidInputError, match="processes is 0"):
        processes_for(1, 0)


def test_a_helper_that_cannot_be_heard(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started its process is ended, and none stays behind."""
    started: list[Any] = []
    begin = subprocess.Popen.__init__

    def noted(process: Any, *given: Any, **options: Any) -> None:
        begin(process, *given, **options)
        started.append(process)

    monkeypatch.setattr(subprocess.Popen, "__init__", noted)
    monkeypatch.setattr(threading.Thread, "start", Mock(side_effect=RuntimeError("can't start new thread")))

    with pytest.raises(RuntimeError, match="can't start new thread"):
        Helper([], {"location": place, "end": "1", "digest": "", "projections": []})

    assert [process.returncode is None for process in started] == [False]


def test_how_many_cores_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that this process may use; where a system does not say, all of the machine, or one."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {1, 4, 5}, raising=False)
    assert cores() == 3

    monkeypatch.delattr(os, "sched_getaffinity")
    for count, found in ((6, 6), (None, 1)):
        monkeypatch.setattr(os, "cpu_count", lambda count=count: count)
        assert cores() == found


def test_a_log_with_a_codec_of_its_own(place: str, helpers: list[Helper]) -> None:
    """A helper would decode events otherwise, and find rows right that are not."""
    written(place)

    def mend(payload: dict[str, Any]) -> dict[str, Any]:
        return {**payload, "content": "mended"}

    codec = Codec(CODEC.events, mended={"chat:a@2": mend})
    with store_on(place, codec) as store:
        report = store.verify(processes=2)

    assert helpers == []
    assert [one.where for one in report.problems if one.where == "search"] == ["search"]


def test_stopped_while_a_helper_is_waited_for(
    tmp_path: Path, helpers: list[Helper], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody waits for it any more, and its projections were not compared."""
    place, waits = str(tmp_path / "store.db"), list[Helper]()
    written(place)

    def is_done(helper: Helper) -> bool:
        waits.append(helper)
        assert len(waits) < 9
        return False

    monkeypatch.setattr(Helper, "is_done", is_done)
    with refold.open(place) as store:
        report = store.verify(processes=2, stop=lambda: len(waits) > 2)

    assert (report.is_done, set(report.left_out)) == (False, {one.name for one in helpers[0].share})
    assert helpers[0]._process.returncode is not None
