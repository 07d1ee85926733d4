"""`refold usage`: tokens and costs."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold


@pytest.fixture
def spent(tmp_path: Path) -> Path:
    """A store with answers of two models."""
    with package.open(tmp_path / "x.db") as store:
        chat = store.chat("a", user="mia", agent="triage")
        chat.add_message("assistant", "It is.", model="m1", input_tokens=1_200, cached_tokens=1_000, cost=0.25)
        chat.add_function_call("look", "{}", usage={"model": "a-model-with-a-very-long-name", "output_tokens": 7})
    return tmp_path / "x.db"


def test_table(spent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line for each name, numbers to the right, and a sum; no line is wider than a narrow terminal."""
    assert refold("usage", "--by", "model", db=spent).out.splitlines() == [
        "MODEL                          ABOUT     IN  OUT  CACHED    COST",
        "a-model-with-a-very-long-name     10      0    7       0       -",
        "m1                                 5  1,200    0   1,000  0.2500",
        "ALL                               15  1,200    7   1,000  0.2500",
    ]

    monkeypatch.setenv("COLUMNS", "60")
    narrow = refold("usage", db=spent).out.splitlines()
    assert max(map(len, narrow)) <= 60
    assert narrow[1].split()[:3][1:] == ["tria…", "a-mo…"]
    monkeypatch.setenv("COLUMNS", "70")
    assert refold("usage", db=spent).out.splitlines()[1].split()[:3][1:] == ["triage", "a-model-w…"]


def test_a_very_small_cost_is_no_missing_one(tmp_path: Path) -> None:
    """It is not shown as zero."""
    with package.open(tmp_path / "x.db") as store:
        store.chat("a").add_message("assistant", "It is.", model="m1", input_tokens=1, cost=0.00002)

    assert refold("usage", "--by", "model", db=tmp_path / "x.db").out.split()[-1] == "<0.0001"


def test_json(spent: Path) -> None:
    """Numbers as numbers, and null for names that were not asked for."""
    assert refold("usage", "--by", "context", "--json", db=spent).json == [
        {
            "day": None, "agent": None, "model": None, "context": "chat:a", "user": None, "messages": 1, "calls": 1,
            "tokens_in": 0, "tokens_out": 15, "counted_in": 1200, "counted_out": 7, "counted_cached": 1000,
            "cost": 0.25,
        }
    ]  # fmt: skip
    assert [row["user"] for row in refold("usage", "--by", "user", "--json", db=spent).json] == ["mia"]
    # A name that comes twice is one column.
    assert refold("usage", "--by", "user, user", db=spent) == refold("usage", "--by", "user", db=spent)
    assert refold("usage", "--until", "2020-01-01", "--json", db=spent).json == []


def test_one_context(spent: Path) -> None:
    """The usage of the others is left out."""
    with package.open(spent) as store:
        store.chat("b").add_message("user", "Where is it?")
        store.queue("b")
        assert [row.context for row in store.usage(by=["context"], context="a")] == ["chat:a"]
    arguments = ("usage", "--by", "context", "--json")

    assert [row["context"] for row in refold(*arguments, db=spent).json] == ["chat:a", "chat:b"]
    assert [row["context"] for row in refold(*arguments, "--context", "chat:b", db=spent).json] == ["chat:b"]
    assert refold(*arguments, "--context", "b", db=spent).fault.startswith("'b' can mean chat:b or queue:b")
    assert refold(*arguments, "--context", "nobody", db=spent).fault.startswith("there is no context 'nobody'")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--by", "hour"), "day, agent, model, context"),
        (("--since", "today"), "is no day"),
    ],
)
def test_wrong_names(spent: Path, arguments: tuple[str, ...], said: str) -> None:
    """A name or a day that is none is wrong usage."""
    result = refold("usage", *arguments, db=spent)

    assert result.code == 2
    assert said in result.fault


def test_days_without_usage(spent: Path) -> None:
    """Something was said, but not on these days."""
    assert refold("usage", "--until", "1999-12-31", db=spent) == (0, "", "no usage is like that\n")


def test_nothing_was_said(tmp_path: Path) -> None:
    """It says so, as JSON with an empty list."""
    package.open(tmp_path / "x.db").close()

    assert refold("usage", db=tmp_path / "x.db") == (0, "", "no usage yet: nothing was said\n")
    assert refold("usage", "--json", db=tmp_path / "x.db").json == []
