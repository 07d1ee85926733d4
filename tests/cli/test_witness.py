"""`refold witness` and `refold prove`. What a witness notices is tested in tests/trust."""

import warnings
from pathlib import Path

import pytest

import refold as package
from tests.cli.running import Ended, refold
from tests.verifying.damaging import sql


@pytest.fixture
def watched(tmp_path: Path) -> Path:
    """A store with a witness beside it."""
    path = tmp_path / "x.db"
    with package.open(path, witness=tmp_path / "w.log") as store:
        store.chat("a").add_message("user", "hello")
    return path


def asked(*arguments: object, db: Path) -> Ended:
    """Run a command that is given the witness."""
    return refold("--witness", db.parent / "w.log", *arguments, db=db)


def test_what_the_witness_saw(watched: Path) -> None:
    """A line for each fact there is, or all of them as JSON."""
    ended, found = asked("witness", "show", db=watched), asked("witness", "show", "--json", db=watched).json

    assert list(found) == ["witness", "lineage", "events", "root", "time", "writers", "failure"]
    assert (found["witness"], found["events"], found["failure"]) == (str(watched.parent / "w.log"), 2, "")
    lines = dict(line.split(maxsplit=1) for line in ended.out.splitlines())
    assert lines == {name: str(value) for name, value in found.items() if value != ""}
    assert (ended.code, ended.err) == (0, "")
    for command in (["show"], ["accept", "--reason", "restored"]):
        ended = refold("witness", *command, db=watched)
        assert ended.fault == "no witness was named: --witness or REFOLD_WITNESS does"


def test_a_store_is_compared(watched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each difference is a line, and an exit code of 1."""
    file = watched.parent / "w.log"
    assert asked("witness", "check", db=watched) == (0, f"2 events are those that {file} saw\n", "")
    assert asked("witness", "check", "--json", db=watched).json == {
        "database": str(watched), "events": 2, "problems": [],
    }  # fmt: skip

    monkeypatch.setattr(package.Store, "compare_with_witness", lambda store: [("chat:a@2", "it is\nanother")])
    assert asked("witness", "check", db=watched) == (1, "chat:a@2: it is another\n", "")
    assert asked("witness", "check", "--json", db=watched).json["problems"] == [
        {"where": "chat:a@2", "reason": "it is\nanother"}
    ]


def test_a_witness_begins_anew(watched: Path) -> None:
    """Where its store is an older one, and somebody says why."""
    sql(watched, "DELETE FROM event WHERE version = 2")
    assert asked("witness", "check", db=watched).code == 1

    accepted = asked("witness", "accept", "--reason", "restored", db=watched)

    assert (accepted.code, accepted.err) == (0, "note: the witness begins anew with 1 event\n")
    assert asked("witness", "check", db=watched).code == 0
    assert '"restored"' in (watched.parent / "w.log").read_text()


def test_a_witness_that_cannot_be_reached(watched: Path) -> None:
    """Why is said, and an exit code of 1; the warning is a note without a place in the source."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        ended = refold("--witness", "http://127.0.0.1:9/", "witness", "show", "--json", db=watched)

    assert ended.code == 1
    assert ended.json["failure"]
    assert ended.err.startswith("note: the witness http://127.0.0.1:9/ cannot be reached (")
    assert len(ended.err.splitlines()) == 1


def test_proofs(watched: Path) -> None:
    """Of an event, or of a checkpoint: one of them is named."""
    assert asked("prove", "chat:a@2", db=watched).json["event"] == "chat:a@2"
    assert asked("prove", "--since", 2, db=watched).code == 0
    for wrong in ([], ["chat:a@2", "--since", 2]):
        assert asked("prove", *wrong, db=watched).fault.startswith("give an EVENT, or --since N")
    assert refold("prove", "chat:a@2", db=watched).fault == "no witness was named: --witness or REFOLD_WITNESS does"
