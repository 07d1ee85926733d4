"""`refold moments`, `refold changes`, `refold contexts --at`: the whole store at one moment."""

from pathlib import Path
from typing import Any

import pytest

import refold as package
from tests.cli.running import refold


def test_a_moment_gets_a_name(database: Path) -> None:
    """The present one, or a position, or what has another name already; it moves where it is given again."""
    said = [
        refold("moments", "now", db=database),
        refold("moments", "early", "6", "--actor", "mia", db=database),
        refold("moments", "again", "early", "--json", db=database),
        refold("moments", "early", "pos:8", db=database),
    ]
    heading, *lines = refold("moments", db=database).out.splitlines()

    assert [ended.out for ended in said[:2]] == ["now is pos:14\n", "early is pos:6\n"]
    named = said[2].json
    assert (named["name"], named["position"], named["named_by"]) == ("again", "6", "cli")
    assert heading.split() == ["NAME", "POSITION", "NAMED", "BY"]
    assert [(line.split()[0], line.split()[1], line.split()[-1]) for line in lines] == [
        ("now", "14", "cli"), ("early", "8", "cli"), ("again", "6", "cli"),
    ]  # fmt: skip
    assert [one["name"] for one in refold("moments", "--json", db=database).json] == ["now", "early", "again"]


def test_no_moment_has_a_name(database: Path) -> None:
    """A note, and an empty array."""
    assert refold("moments", db=database).err.startswith("note: no moment has a name yet: ")
    assert refold("moments", "--json", db=database).json == []


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["a b"], "'a b'"),
        (["early", "2026-01-01T00:00:00Z"], "'2026-01-01T00:00:00Z' is a time, and times need no name"),
        (["early", "99999"], "there is no position 99999, the log ends at 14"),
        (["early", "never"], "no moment of this store is named 'never'"),
    ],
)
def test_what_cannot_be_named(database: Path, arguments: list[str], fault: str) -> None:
    """One line, and no name."""
    ended = refold("moments", *arguments, db=database)

    assert ended.code == 1
    assert fault in ended.fault
    assert refold("moments", "--json", db=database).json == []


def test_contexts_as_they_were(database: Path) -> None:
    """At a position, at a name, at a time; those that came later are not there."""
    assert refold("moments", "early", "9", db=database).code == 0

    by_name, by_position = (refold("contexts", "--at", at, "--json", db=database).json for at in ("early", "pos:9"))
    nothing = refold("contexts", "--at", "2020-01-01T00:00:00Z", db=database)

    assert [(row["id"], row["version"], row["items"]) for row in by_name] == [("air-0.0", 6, 5), ("air-0.1", 3, 2)]
    assert by_position == by_name
    assert len(refold("contexts", "--at", "early", db=database).out.splitlines()) == 3
    assert nothing == (0, "", "there were no contexts yet\n")


def test_a_version_is_no_moment_of_a_store(database: Path) -> None:
    """It says what to write instead."""
    assert "write pos:3" in refold("contexts", "--at", "3", db=database).fault
    assert "write pos:3" in refold("changes", "3", db=database).fault


def test_what_is_different(database: Path) -> None:
    """At two moments, or at one and now: version, items and tokens of both."""
    with package.open(database) as store:
        store.chat("air-1").add_message("user", "news")

    heading, *lines = refold("changes", "pos:9", db=database).out.splitlines()
    then = refold("changes", "pos:9", "pos:13", "--json", db=database).json

    assert heading.split() == ["ID", "KIND", "VERSION", "ITEMS", "TOKENS"]
    assert [line.split(maxsplit=2)[0] for line in lines] == ["air-0.1", "air-1"]
    assert lines[0].split()[2:8] == ["@3", "->", "@6", "2", "->", "5"]
    assert lines[1].split()[2:8] == ["none", "->", "@3", "none", "->", "2"]
    assert [(one["id"], one["before"] and one["before"]["version"], one["after"]["version"]) for one in then] == [
        ("air-0.1", 3, 6), ("air-1", None, 1),
    ]  # fmt: skip


def test_nothing_is_different(database: Path) -> None:
    """A note, and an empty array."""
    assert refold("changes", "pos:14", db=database) == (0, "", "note: no context is different\n")
    assert refold("changes", "pos:14", "--json", db=database).json == []


def test_backwards(database: Path) -> None:
    """The first moment may be the later one."""
    changes: Any = refold("changes", "pos:14", "pos:12", "--json", db=database).json

    assert [(one["id"], one["after"]) for one in changes] == [("air-1", None)]
