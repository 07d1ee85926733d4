"""`refold contexts`: which contexts there are."""

from pathlib import Path

import pytest

import refold as package
from refold.infrastructure.cli import args
from refold.infrastructure.projecting import runner
from tests.cli.running import refold
from tests.verifying.damaging import sql


def test_a_line_for_each(database: Path) -> None:
    """Under a heading, in columns, numbers ending together."""
    heading, *lines = refold("contexts", db=database).out.splitlines()

    assert heading.split() == ["ID", "KIND", "VERSION", "ITEMS", "TOKENS", "LAST", "CHANGE"]
    assert [line.split()[:5] for line in lines] == [
        ["air-0.0", "chat", "@6", "5", "37"],
        ["air-0.1", "chat", "@6", "5", "39"],
        ["air-1", "chat", "@2", "1", "4"],
    ]
    assert all(line.endswith("Z (just now)") for line in lines)
    assert len({line.index("chat") for line in lines}) == 1


def test_the_shape_of_the_json(database: Path) -> None:
    """One array; what is not known is null."""
    with package.open(database) as store, package.acting(actor="mia"):
        store.chat("z", user="mia", session="s", agent="triage").add_message("user", "hi")
    *_, imported, last = refold("contexts", "--json", db=database).json
    times = {name: last.pop(name) for name in ("opened_at", "changed_at")}

    assert last == {
        "id": "z", "kind": "chat", "version": 2, "items": 1, "turns": 1, "tokens": 4, "user": "mia",
        "session": "s", "agent": "triage", "source": None, "parent": None, "changed_by": "mia",
    }  # fmt: skip
    assert times["opened_at"] <= times["changed_at"]
    for name, value in (("user", "mia"), ("session", "s"), ("agent", "triage")):
        for moment in ([], ["--at", "2999-01-01"]):
            found = refold("contexts", f"--{name}", value, *moment, "--json", db=database).json
            assert [one["id"] for one in found] == ["z"]
    for wanted in (("--kind", "pool"), ("--user", "mi")):
        assert refold("contexts", *wanted, db=database) == (0, "", "no context is like that\n")
    assert refold("contexts", "--kind", "chats", db=database).code == 2
    assert (imported["source"], imported["changed_by"], imported["user"]) == ("air.json", "import", None)


def test_forks_show_their_parents(database: Path) -> None:
    """In a column that is there where it is needed; items and tokens are those that can be seen."""
    assert refold("fork", "air-0.0@3", "branch", db=database).code == 0
    assert refold("evict", "air-0.0", "@2", db=database).code == 0
    heading, *lines = refold("contexts", db=database).out.splitlines()
    shown = {one["id"]: one for one in refold("contexts", "--json", db=database).json}

    assert heading.split()[-2:] == ["FORKED", "FROM"]
    assert [line.split()[-1] for line in lines] == ["ago)" if "ago)" in line else "now)" for line in lines[:3]] + [
        "air-0.0@3"
    ]
    assert (shown["branch"]["parent"], shown["branch"]["items"], shown["branch"]["tokens"]) == ("chat:air-0.0@3", 2, 11)
    assert (shown["air-0.0"]["parent"], shown["air-0.0"]["items"]) == (None, 4)


def test_a_narrow_terminal(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dates leave room for the rest; a line that is still too wide is cut."""
    assert refold("fork", "air-0.0@3", "a-branch-with-a-long-name", db=database).code == 0
    monkeypatch.setenv("COLUMNS", "100")
    shown = refold("contexts", db=database).out
    monkeypatch.setenv("COLUMNS", "50")
    heading, cut, *_ = refold("contexts", db=database).out.splitlines()

    assert "Z (just now)" not in shown
    assert shown.splitlines()[1].endswith("  just now     air-0.0@3")
    assert max(len(heading), len(cut)) <= 50
    assert cut.endswith("…")


def test_a_log_that_was_cut(database: Path) -> None:
    """The answer is made of the events that are there, and a note says that there were more."""
    assert refold("contexts", db=database).err == ""
    sql(database, "DELETE FROM event WHERE position = 14")
    ended = refold("contexts", db=database)

    assert ended.code == 0
    assert ended.out.splitlines()[-1].split()[:4] == ["air-1", "chat", "@1", "0"]
    assert ended.err.startswith("note: the log of 14 events that projections have seen went back: it has 13; ")


def test_how_far_it_is(database: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If many events must be folded first, lines on stderr say how many are; they take nothing from the answer."""
    expected = refold("contexts", db=database)
    monkeypatch.setattr(args, "FOLDING_EVERY_SECONDS", 0.0)
    monkeypatch.setattr(runner, "PAGE_EVENTS", 7)
    with package.open(database) as store:
        total = store.now().events
        store._projections.drop(store._runner.named("catalogue"))

    out = refold("contexts", db=database)

    assert (out.code, out.out, expected.err) == (0, expected.out, "")
    assert out.err.splitlines()[0] == (
        f"folding what was recorded since the last question: 7 of {total} events (`refold run` does so all the time)"
    )


def test_an_empty_database(tmp_path: Path) -> None:
    """A note on stderr, and an empty array where JSON is asked for."""
    path = tmp_path / "empty.db"
    package.open(path).close()

    assert refold("contexts", db=path) == (0, "", "no contexts yet: `refold import FILE` brings some in\n")
    assert refold("contexts", "--json", db=path) == (0, "[]\n", "")
