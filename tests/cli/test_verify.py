"""`refold verify`, and what reading commands do about a damaged log."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from refold.domain.errors import StorageReadOnlyError
from refold.infrastructure.cli import damaged_log
from refold.infrastructure.verifying.event_check import Report
from tests.cli.running import refold
from tests.cli.test_bad_databases import as_nobody
from tests.codec.ages import NEWEST, Note
from tests.contract.stores import log_at
from tests.contract.writing import append
from tests.verifying.damaging import sql

LEFT_OUT = "refold: what cannot be read is left out: "
WAY_OUT = "`refold verify` tells all that is wrong\n"


@pytest.fixture
def damaged(database: Path) -> Path:
    """The database, with two events of `air-0.0` that cannot be read."""
    sql(database, "UPDATE event SET payload = x'00c1' WHERE position IN (3, 5)")
    return database


def test_nothing_is_wrong(database: Path) -> None:
    """The last line says how much was looked at."""
    ended = refold("verify", db=database)
    shape = refold("verify", "--json", db=database).json

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == f"3 streams, 14 events, {shape['projections']} projections: nothing is wrong\n"
    assert shape == {
        "database": str(database), "is_whole": True, "streams": 3, "events": 14,
        "projections": shape["projections"], "problems": [], "left_out": [], "is_done": True,
    }  # fmt: skip


def test_each_problem_has_a_line(damaged: Path) -> None:
    """Of what kind, where, and what is wrong; the exit code is 1."""
    ended = refold("verify", db=damaged)
    *problems, last = ended.out.splitlines()

    assert (ended.code, ended.err) == (1, "")
    assert [line.partition(": ")[0] for line in problems] == [
        "event chat:air-0.0@3", "event chat:air-0.0@5", "projection all",
    ]  # fmt: skip
    assert last.endswith(": 3 problems")


def test_a_trigger_of_another_program(database: Path) -> None:
    """The file can be read only: questions are answered, and all damage is told."""
    sql(database, "CREATE TRIGGER t AFTER INSERT ON idempotency BEGIN SELECT 1; END")

    assert refold("search", "flight", db=database).code == 0
    assert "cannot be written: t on the table" in refold("evict", "air-0.1", "@2", db=database).err
    sql(database, "UPDATE event SET payload = x'00c1' WHERE position = 3")
    told = refold("verify", db=database).out
    assert "t on the table idempotency is no trigger of Refold: drop it" in told
    assert "event chat:air-0.0@3: it does not match its digest" in told


def test_projections_are_repaired(database: Path) -> None:
    """What was wrong and is mended is said; then nothing is wrong any more."""
    assert refold("contexts", db=database).code == 0
    sql(database, "UPDATE view_catalogue SET items = 99")

    wrong, shape = refold("verify", db=database), refold("verify", "--json", db=database).json
    repaired, after = refold("verify", "--repair", db=database), refold("verify", db=database)

    assert wrong.code == 1
    assert wrong.out.splitlines()[0].endswith(" (`refold verify --repair` makes it anew)")
    assert [(one["where"], one["repairable"], one["is_repaired"]) for one in shape["problems"]] == [
        ("catalogue", True, False)
    ]
    assert repaired.code == 0
    assert repaired.out.splitlines()[0].endswith(" (repaired)")
    assert repaired.out.endswith(": 0 problems, 1 repaired\n")
    assert (after.code, after.out.endswith(": nothing is wrong\n")) == (0, True)


def test_what_a_repair_does_not_help(database: Path) -> None:
    """An event of a newer Refold: before, a repair is advised; after it, nobody is sent to do it again."""
    with closing(log_at(str(database), codec=NEWEST)) as log:
        append(log, "chat:new", Note(author="mia", words=("hello",)), root="new")

    advised, repaired = refold("verify", db=database), refold("verify", "--repair", db=database)

    for ended, way_out in ((advised, "(`refold verify --repair` makes it anew)"), (repaired, "(not repaired)")):
        lines = ended.out.splitlines()
        assert (ended.code, len(lines)) == (1, 26)
        assert {line[-len(way_out) :] for line in lines if line.startswith("projection")} == {way_out}
        assert lines[-1].endswith(": 25 problems")


def test_wherever_bytes_have_changed(database: Path) -> None:
    """There is a verdict, whatever it is, or one line of what is wrong with the file."""
    whole = database.read_bytes()
    said = set()
    for start in range(0, len(whole), len(whole) // 30):
        database.write_bytes(whole[:start] + b"\xa5" * 64 + whole[start + 64 :])
        ended = refold("verify", db=database)
        assert ended.code in (0, 1)
        assert len(ended.err.splitlines()) == (0 if ended.out else 1), ended
        said.add(ended.out.split(" ")[0])

    assert {"event", "database", "", "3"} <= said


def test_a_database_that_cannot_be_written(database: Path, shut: Path) -> None:
    """All is looked at, and nothing can be repaired."""
    ended, refused = as_nobody(database, shut, ["verify"], ["verify", "--repair"])

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == refold("verify", db=database).out
    assert refused.fault.startswith("kept.db cannot be written")


# What is damaged, and what can be read still


def test_contexts_and_stats_go_on(damaged: Path) -> None:
    """All but the damaged events is counted; at the end stands what was left out, and the exit code is 1."""
    contexts, stats, usage = (refold(name, "--json", db=damaged) for name in ("contexts", "stats", "usage"))

    for ended in (contexts, stats, usage):
        assert ended.code == 1
        assert ended.err.startswith(f"{LEFT_OUT}event chat:air-0.0@3 is damaged (")
        assert ended.err.endswith(f"), the first of 2 faults; {WAY_OUT}")
    assert [(row["id"], row["version"], row["items"]) for row in contexts.json] == [
        ("air-0.0", 6, 3), ("air-0.1", 6, 5), ("air-1", 2, 1),
    ]  # fmt: skip
    assert stats.json["events"] == 12
    assert sum(row["messages"] for row in usage.json) == 6


@pytest.mark.parametrize(
    ("arguments", "positions"),
    [
        ([], [1, 2, 4, *range(6, 15)]),
        (["air-0.0"], [1, 2, 4, 6]),
        (["air-0.0@4"], [1, 2, 4]),
        (["air-0.0@1..4"], [2, 4]),
        (["--after", "4"], range(6, 15)),
        (["--tail", 9, "--type", "message_added"], [2, 6, 8, 9, 12, 14]),
        (["air-0.0", "--tail", 2], [4, 6]),
    ],
)
def test_the_log_goes_on(damaged: Path, arguments: list[str], positions: list[int]) -> None:
    """All but the damaged events is listed."""
    ended = refold("log", *arguments, "--json", db=damaged)

    assert (ended.code, ended.err.startswith(LEFT_OUT)) == (1, True)
    assert [int(event["position"]) for event in ended.json] == list(positions)


def test_the_log_of_a_context_whose_first_event_is_lost(damaged: Path) -> None:
    """It needs no more of the context than what it lists."""
    sql(damaged, "UPDATE event SET payload = x'00c1' WHERE position = 1")

    assert [int(event["position"]) for event in refold("log", "air-0.0", "--json", db=damaged).json] == [2, 4, 6]


def test_what_was_not_reached_is_not_missed(damaged: Path) -> None:
    """Another context is whole, and so is what comes before the damage."""
    assert refold("log", "air-0.1", db=damaged).code == 0
    assert refold("log", "--limit", 2, db=damaged).code == 0
    assert refold("log", "--graph", db=damaged).err.startswith(LEFT_OUT)


def test_following_goes_on(damaged: Path) -> None:
    """What is left out of the past is said before the present."""
    ended = refold("log", "--follow", "--limit", 12, db=damaged)

    assert len(ended.out.splitlines()) == 12
    assert ended.err.startswith(LEFT_OUT)


def test_other_commands_say_where_to_look(damaged: Path) -> None:
    """Where they cannot go on."""
    assert refold("show", "air-0.0", db=damaged).err.endswith(WAY_OUT)
    assert refold("rebuild", "catalogue", db=damaged).err.endswith(WAY_OUT)


def test_long_damage_is_found_quickly(damaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so much is left out."""
    monkeypatch.setattr(damaged_log, "LEFT_OUT_MAX", 1)

    assert refold("log", db=damaged).err.startswith("refold: event chat:air-0.0@5 is damaged: ")


def test_what_could_not_be_compared_is_counted(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On stderr: all else is whole, and the exit code says so; where it was to be repaired, it fails."""
    command = import_module("refold.infrastructure.cli.verify")
    report = Report(streams=1, events=2, projections=0, problems=(), left_out=("catalogue",))

    @contextmanager
    def refused(own: object) -> Iterator[NoReturn]:
        raise StorageReadOnlyError("it cannot be written")
        yield

    @contextmanager
    def read(own: object) -> Iterator[Any]:
        yield SimpleNamespace(verify=lambda **_: report)

    monkeypatch.setattr(command, "keeping", refused)
    monkeypatch.setattr(command, "reading", read)
    ended, repaired = refold("verify", db=database), refold("verify", "--repair", db=database)

    assert (ended.code, ended.out) == (0, "1 stream, 2 events, 0 projections: nothing is wrong\n")
    assert ended.err == "note: the database cannot be written: 1 projection could not be compared\n"
    assert (repaired.code, repaired.fault) == (1, "it cannot be written")
