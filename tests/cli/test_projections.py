"""`refold projections`, `refold rebuild`: what is kept for answers, how far it is, and making it anew."""

import contextlib
import io
import json
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.words import words_of
from refold.infrastructure.cli import progress
from refold.infrastructure.cli.metrics import health_of, page_of
from refold.infrastructure.cli.progress import ASKING, asked_to_stop, projection_progress
from refold.infrastructure.cli.projections import SHOWN_MAX, _notes, is_fine, print_report
from refold.infrastructure.cli.render import duration
from refold.infrastructure.projecting.comparison import Difference
from refold.infrastructure.projecting.rebuild import RebuildReport
from refold.infrastructure.projecting.shadow import RebuildProgress
from refold.infrastructure.projecting.status import ProjectionStatus
from refold.infrastructure.projecting.store import SetAside
from tests.cli.running import refold, started
from tests.projecting.watches import HandMoved
from tests.verifying.damaging import sql


def standing(database: Path) -> dict[str, dict[str, Any]]:
    """Return how the projections stand, by name."""
    return {one["name"]: one for one in refold("projections", "--json", db=database).json}


def test_how_they_stand(database: Path) -> None:
    """A line for each; what was asked for is up to date, and what was not is behind."""
    assert refold("contexts", db=database).code == 0
    heading, *lines = refold("projections", db=database).out.splitlines()
    found = standing(database)

    assert heading.split() == ["NAME", "VERSION", "ROWS", "POSITION", "BEHIND", "WORKER"]
    assert [line.split()[0] for line in lines] == list(found)
    assert lines[0].split() == ["catalogue", str(found["catalogue"]["version"]), "3", "14", "0", "-"]
    assert found["catalogue"] == {
        "name": "catalogue", "version": found["catalogue"]["version"], "rows": 3, "position": "14", "behind": 0,
        "worker": None, "rebuilt": None, "stopped_at": None, "error": None, "set_aside": [],
    }  # fmt: skip
    assert found["search"]["behind"] == 14


def test_what_stands_still_is_said(database: Path) -> None:
    """The event that cannot be folded, on a line of its own."""
    version = standing(database)["search"]["version"]
    fault = json.dumps(["chat:air-1@2", "no\nluck", version])
    with package.open(database) as store:
        store._projections.set_note("fault/search", before=None, after=fault)

    assert "  it cannot fold chat:air-1@2: no luck" in refold("projections", db=database).out.splitlines()
    assert standing(database)["search"]["stopped_at"] == "chat:air-1@2"


def test_rows_are_made_anew(database: Path) -> None:
    """Those that are named, or all; what was wrong with them is mended."""
    assert refold("contexts", db=database).code == 0
    sql(database, "UPDATE view_catalogue SET items = 99 WHERE key = 'chat:air-1'")

    ended = refold("rebuild", "catalogue", "lineage", db=database)
    everything = refold("rebuild", "--all", "--json", db=database)

    assert (ended.code, ended.err) == (0, "")
    assert [line.split(" in ")[0] for line in ended.out.splitlines()] == [
        "catalogue: 3 rows of 14 events",
        "lineage: 0 rows of 14 events",
    ]
    assert refold("contexts", "--json", db=database).json[-1]["items"] == 1
    assert [one["projection"] for one in everything.json] == list(standing(database))
    assert {one["is_done"] for one in everything.json} == {True}


@pytest.mark.parametrize("statement", ["DROP TABLE view_catalogue", "UPDATE checkpoint SET moment = 'x'"])
def test_rows_that_cannot_be_read_are_made_anew(database: Path, statement: str) -> None:
    """The list says what is wrong, and a rebuild, as its remedy says, mends it."""
    assert refold("contexts", db=database).code == 0
    sql(database, statement)
    found, shown = standing(database), refold("projections", db=database).out.splitlines()
    with package.open(database, read_only=True) as store:
        health, page = (answer(store, ["catalogue", "search"], {}) for answer in (health_of, page_of))

    assert "`rebuild` makes it anew" in found["catalogue"]["error"]
    assert (found["catalogue"]["behind"], found["search"]["error"]) == (14, None)
    assert shown[2] == f"  {found['catalogue']['error']}"
    assert health == (False, found["catalogue"]["error"])
    assert 'stopped{projection="catalogue"} 1' in page
    assert refold("rebuild", "catalogue", db=database).code == 0
    assert (standing(database)["catalogue"]["rows"], standing(database)["catalogue"]["error"]) == (3, None)


def test_a_check_shows_what_differs(database: Path) -> None:
    """Missing rows, rows too many, fields that should be others; nothing is changed, and the exit code is 1."""
    assert refold("contexts", db=database).code == 0
    assert refold("rebuild", "catalogue", "--check", db=database) == (
        0, "catalogue: 3 rows, all as the events give them\n", ""
    )  # fmt: skip
    sql(database, "UPDATE view_catalogue SET items = 99, user = 'x' WHERE key = 'chat:air-0.0'")
    sql(database, "UPDATE view_catalogue SET key = 'chat:air-2' WHERE key = 'chat:air-1'")

    ended, shapes = (refold("rebuild", "catalogue", "--check", *more, db=database) for more in ([], ["--json"]))

    assert (ended.code, ended.err, shapes.code) == (1, "", 1)
    assert ended.out.splitlines() == [
        "catalogue: 3 rows not as the events give them: `refold rebuild catalogue` mends that",
        "  ~ chat:air-0.0: items is 99, and should be 5",
        '  ~ chat:air-0.0: user is "x", and should be ""',
        "  - chat:air-1: it is missing",
        "  + chat:air-2: it should not be there",
    ]
    [report] = shapes.json
    assert (report["differing"], [one["key"] for one in report["differences"]]) == (
        3, ["chat:air-0.0", "chat:air-1", "chat:air-2"]
    )  # fmt: skip
    assert (report["differences"][1]["live"], report["differences"][2]["rebuilt"]) == (None, None)
    assert refold("rebuild", "catalogue", "--check", db=database).code == 1


def test_new_rows_are_kept_beside_those_in_use(database: Path) -> None:
    """They are compared before they are swapped by the next rebuild, or dropped; the exit code says if any differ."""
    refold("rebuild", "catalogue", db=database)
    sql(database, "UPDATE view_catalogue SET items = 99 WHERE key = 'chat:air-0.0'")

    kept = refold("rebuild", "catalogue", "--no-swap", db=database)

    assert (kept.code, kept.err) == (1, "")
    assert "  ~ chat:air-0.0: items is 99, and should be 5" in kept.out.splitlines()
    assert (standing(database)["catalogue"]["rows"], standing(database)["catalogue"]["rebuilt"]) == (3, 14)
    assert refold("rebuild", "catalogue", "--discard", db=database).out == "catalogue: the new rows are dropped\n"
    assert refold("rebuild", "catalogue", "--discard", db=database).out == "catalogue: no rebuild left rows\n"
    assert standing(database)["catalogue"]["rebuilt"] is None
    refold("rebuild", "catalogue", "--no-swap", db=database)
    assert refold("rebuild", "catalogue", db=database).code == 0
    assert refold("rebuild", "catalogue", "--check", db=database).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        ([], 2, "give the names of projections, or --all"),
        (["catalogue", "--check", "--no-swap"], 2, "--no-swap goes without --check"),
        (["catalogue", "--discard", "--restart"], 2, "--discard makes no rows"),
        (["catalogue", "--all"], 2, "give the names of projections, or --all"),
        (["catalogue", "--check", "--restart"], 2, "--restart goes without --check"),
        (["catalogue", "nonsense"], 1, "there is no projection 'nonsense': there are catalogue, "),
    ],
)
def test_what_cannot_be_rebuilt(database: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line, and nothing was done."""
    ended = refold("rebuild", *arguments, db=database)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert standing(database)["catalogue"]["rows"] == 0


def test_one_that_cannot_be_folded_stops_no_other(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is to stop there is told of, and the exit code is 1."""

    def fail(*_: object) -> None:
        raise ValueError("no luck")

    monkeypatch.setattr("refold.projections.rollup.Rollup.on_fault", "stop", raising=False)
    monkeypatch.setattr("refold.projections.rollup.Rollup.evolve_all", fail, raising=False)
    monkeypatch.setattr("refold.projections.rollup.Rollup.evolve", fail)
    ended = refold("rebuild", "rollup", "catalogue", db=database)
    [rollup] = refold("rebuild", "rollup", "--json", db=database).json

    assert ended.code == 1
    reason = f"test_projections.py:{fail.__code__.co_firstlineno + 1}: ValueError: no luck"
    assert ended.out.splitlines()[0].startswith(f"rollup: it cannot fold chat:air-0.0@1: {reason}; mend")
    assert ended.out.splitlines()[1].startswith("catalogue: 3 rows")
    assert (rollup["is_done"], rollup["stopped_at"], rollup["error"]) == (False, "chat:air-0.0@1", reason)


def test_what_is_set_aside(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was made without it says so on stderr, and once more why; a rebuild folds it again."""

    def fail(text: str) -> str:
        if "3.14" in text:
            raise ValueError("no luck")
        return words_of(text)

    with package.open(database) as store:
        store.chat("air-1").add_message("user", "about 3.14")
        last = store.chat("air-1").version
    monkeypatch.setattr("refold.projections.search.words_of", fail)
    found = refold("search", "about", db=database)
    assert (found.code, found.out) == (0, "")
    assert "note: 1 event set aside, and this was made without: `refold projections` says why" in found.err
    assert refold("contexts", db=database).err == ""
    [aside] = standing(database)["search"]["set_aside"]
    # The line of the projection, not of the function that it called.
    reason = re.fullmatch(r"search.py:\d+: ValueError: no luck", aside["error"])
    assert reason is not None
    assert aside["event"] == f"chat:air-1@{last}"
    assert f"  set aside: chat:air-1@{last}: {reason[0]}" in refold("projections", db=database).out.splitlines()
    assert f"its rows are made without chat:air-1@{last}: {reason[0]}" in refold("verify", db=database).out
    assert "without 1 event set aside" in refold("rebuild", "search", db=database).out

    monkeypatch.setattr("refold.projections.search.words_of", words_of)
    assert refold("verify", "--repair", db=database).code == 0
    assert refold("search", "about", db=database).err == ""


@pytest.mark.long
def test_ctrl_c_stops_a_rebuild(tmp_path: Path) -> None:
    """It says so and ends with 1; the next one goes on there, unless it is to begin anew."""
    path = tmp_path / "long.db"
    with package.open(path, synchronous="NORMAL") as store:
        chat = store.chat("long", durability="enqueue")
        for number in range(40_000):
            chat.add_message("user", f"message {number}")
    process = started("rebuild", "search", "--db", path)
    with package.open(path, create=False) as store:
        while not {one.name: one for one in store.projections()}["search"].rebuilt:
            assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)

    assert (process.returncode, err) == (1, "")
    assert out.endswith(" events done: `refold rebuild search` goes on there\n")
    done = standing(path)["search"]["rebuilt"]
    assert f"  a rebuild was left behind {done:,} events: " in refold("projections", db=path).out
    [report] = refold("rebuild", "search", "--json", db=path).json
    assert (report["is_done"], report["events"]) == (True, 40_001 - done)


def test_a_signal_asks_once_and_ends_the_next_time() -> None:
    """The first one is noted, and its next one means what it did before; behind the block all do."""
    before = [signal.getsignal(number) for number in ASKING]
    with asked_to_stop() as stop:
        assert not stop.is_set()
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        meant = [signal.getsignal(number) for number in ASKING]
        assert [one == other for one, other in zip(meant, before, strict=True)] == [
            number == signal.SIGTERM for number in ASKING
        ]

    assert [signal.getsignal(number) for number in ASKING] == before


def test_far_away_from_a_terminal_lines_are_said(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Now and then, on stderr, with the rate and the time that is left."""
    monkeypatch.setattr("refold.infrastructure.cli.progress.LINES_EVERY_SECONDS", 0.0)

    ended = refold("rebuild", "catalogue", db=database)

    assert ended.err.startswith("rebuilding catalogue: 14 of 14 events, 100%, ")
    assert ended.err.endswith("/s, 0.0 s left\n")


def test_progress_for_a_program(database: Path) -> None:
    """Objects on stderr, one a line, and the last says that all is done; stdout stays what it is."""
    ended = refold("rebuild", "catalogue", "lineage", "--progress", "json", "--jsonl", db=database)
    told = [json.loads(line) for line in ended.err.splitlines()]

    assert [json.loads(line)["projection"] for line in ended.out.splitlines()] == ["catalogue", "lineage"]
    assert {one["projection"] for one in told} == {"catalogue", "lineage"}
    assert told[-1].keys() == {"doing", "projection", "done", "total", "rate", "seconds_left"}
    assert (told[-1]["doing"], told[-1]["done"], told[-1]["total"]) == ("rebuilding", 14, 14)


def test_progress_objects_come_once_a_second() -> None:
    """The first and the last of each projection, and between them at most one a second."""
    moved, told = HandMoved(), io.StringIO()
    report = progress._JsonLines("checking", moved)

    def after(seconds: float, name: str, done: int) -> int:
        moved.seconds += seconds
        with contextlib.redirect_stderr(told):
            report(RebuildProgress(name, done, 9, 1.0, 1.0))
        return len(told.getvalue().splitlines())

    steps = [(0, "a", 1), (0.5, "a", 2), (0.5, "a", 3), (0.1, "a", 4), (0.1, "a", 9), (0.1, "b", 1)]
    assert [after(*step) for step in steps] == [1, 1, 2, 2, 3, 4]


def test_progress_may_be_left_out(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With none nothing is said; plain and bar say it wherever stderr leads."""
    monkeypatch.setattr("refold.infrastructure.cli.progress.LINES_EVERY_SECONDS", 0.0)
    said = {form: refold("verify", "--progress", form, db=database) for form in ("none", "plain", "bar")}

    assert {ended.code for ended in said.values()} == {0}
    assert said["none"].err == ""
    assert said["plain"].err.startswith("checking ")
    assert refold("verify", "--progress", "much", db=database).fault.startswith("Invalid value for '--progress'")


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "0.0 s"), (9.96, "10.0 s"), (10, "10 s"), (119, "119 s"), (120, "2 min"), (7_199, "120 min"), (7_200, "2 h")],
)
def test_durations_are_short(seconds: float, said: str) -> None:
    """In the largest unit that there are two of."""
    assert duration(seconds) == said


def test_a_bar_is_drawn_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the projection, the share, the rate and the time left; rich is imported only then."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with projection_progress("rebuilding") as tell:
        tell(RebuildProgress("search", 50, 200, 25.0, 6.0))

    assert "rebuilding search" in screen.getvalue()
    assert "25%, 25/s, 6.0 s left" in screen.getvalue()


def test_several_workers(database: Path) -> None:
    """They come to the same rows; some options do not go together."""
    ended = refold("rebuild", "catalogue", "--workers", "2", db=database)
    assert (ended.code, ended.out.partition(" in ")[0]) == (0, "catalogue: 3 rows of 14 events")
    assert refold("rebuild", "catalogue", "--check", db=database).code == 0

    alone = refold("rebuild", "catalogue", "--check", "--workers", "2", db=database)
    assert alone.fault.startswith("--check is done by this process")
    both = refold("rebuild", "catalogue", "--workers", "2", "--dask", "tcp://x:1", db=database)
    assert both.fault.startswith("--workers goes without --dask")


OTHERS = tuple(Difference(f"k{number}", None, 1) for number in range(2))
REPORTS = [
    (RebuildReport(projection="p", is_done=False, events=1), False,
     "p: stopped with 1 event done: `refold rebuild p` goes on there\n"),
    (RebuildReport(projection="p", is_done=False), True, "p: stopped: nothing was changed\n"),
    (RebuildReport(projection="p", is_done=True, rows=2, events=1, seconds=9), False,
     "p: 2 rows of 1 event in 9.0 s\n"),
    (RebuildReport(projection="p", is_done=True, rows=1, set_aside=1), True,
     "p: 1 row, all as the events give them, without 1 event set aside\n"),
    (RebuildReport(projection="p", is_done=True, differing=2, differences=OTHERS), True,
     "p: 2 rows not as the events give them: `refold rebuild p` mends that\n"
     "  - k0: it is missing\n  - k1: it is missing\n"),
    (RebuildReport(projection="p", is_done=True, differing=3, differences=OTHERS[:1]), True,
     "p: 3 rows not as the events give them: `refold rebuild p` mends that\n"
     "  - k0: it is missing\n  and 2 rows more\n"),
    (RebuildReport(projection="p", is_done=True, rows=2, fault="torn"), True,
     "p: the rows in use cannot be compared: torn\n"),
]  # fmt: skip


@pytest.mark.parametrize(("report", "is_check", "text"), REPORTS)
def test_what_is_said_of_a_report(
    report: RebuildReport, is_check: bool, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was done, or where it stopped; what is wrong, and how much more there is of that."""
    print_report("p", report, is_check=is_check)

    assert capsys.readouterr().out == text
    assert is_fine(report) == (report.is_done and not (report.differing or report.fault))


@pytest.mark.parametrize("count", [0, 1, SHOWN_MAX, SHOWN_MAX + 1])
def test_the_first_events_that_were_set_aside_are_shown(count: int) -> None:
    """And how many there are more, if any."""
    aside = tuple(SetAside(event=f"chat:a@{number}", error="no") for number in range(count))
    status = ProjectionStatus(name="p", version=1, rows=0, position="0", behind=0, set_aside=aside)
    shown = [f"set aside: chat:a@{number}: no" for number in range(min(count, SHOWN_MAX))]

    more = ["and 1 event more: --json has all"] if count > SHOWN_MAX else []
    assert [text for text, _ in _notes(status)] == shown + more


def test_a_line_every_few_seconds(capsys: pytest.CaptureFixture[str]) -> None:
    """Where there is no terminal: none before the time, one at it, and the next that much later."""
    watch = HandMoved()
    tell = progress._Lines("checking", watch)

    def lines_after(seconds: float) -> int:
        watch.seconds += seconds
        tell(RebuildProgress("rollup", 1, 2, 1.0, 1.0))
        return capsys.readouterr().err.count("checking rollup: 1 of 2 events")

    step = progress.LINES_EVERY_SECONDS
    assert [lines_after(seconds) for seconds in (step - 1, 1, step - 1, 1)] == [0, 1, 0, 1]
