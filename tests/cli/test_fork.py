"""`refold fork`: a new context that begins where another one stands, or stood."""

from pathlib import Path
from typing import Any

import pytest

import refold as package
from tests.cli.running import refold
from tests.cli.talks import said, versions


def test_everything_comes_along(talking: Path) -> None:
    """One event, whatever there was; the parent stays as it is."""
    ended = refold("fork", "support", "branch", db=talking)

    assert (ended.code, ended.err) == (0, "")
    assert ended.out == "chat:branch @1: forked from support@7: 6 items, about 54 tokens\n"
    assert said(talking, "branch") == said(talking, "support")
    assert versions(talking) == {"support": 7, "branch": 1}


def test_the_past_is_forked(talking: Path) -> None:
    """As it was at a version, a time, a name."""
    shown = refold("fork", "support@3", "branch", "--json", db=talking).json

    assert shown == {
        "context": "branch", "kind": "chat", "version": 1, "parent": {"context": "support", "version": 3},
        "how": "full", "items": 2, "tokens": 14,
    }  # fmt: skip
    assert said(talking, "branch") == ["Be brief.", "Where is order 7?"]


def test_the_last_turns(talking: Path) -> None:
    """With the instructions; nothing else of what came before."""
    shown = refold("fork", "chat:support", "chat:branch", "--turns", 1, "--json", db=talking).json

    assert (shown["how"], shown["items"]) == ("filtered", 2)
    assert said(talking, "branch") == ["Be brief.", "And order 8?"]


def test_a_brief(talking: Path) -> None:
    """New instructions and a task, for another agent."""
    arguments = ["--brief", "Find orders.", "--task", "Find order 8.", "--agent", "finder"]
    shown = refold("fork", "support", "branch", *arguments, "--json", db=talking).json

    assert (shown["how"], shown["version"]) == ("brief", 3)
    assert said(talking, "branch") == ["Find orders.", "Find order 8."]
    with package.open(talking) as store:
        assert store.chat("branch", agent="finder").history()[0].meta.actor == "cli"


def test_who_does_it_is_kept(talking: Path) -> None:
    """In the envelope of the event."""
    refold("fork", "support", "branch", "--actor", "mia", db=talking)

    assert refold("log", "branch", "--json", db=talking).json[0]["actor"] == "mia"


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["support", "support"], 1, "chat:support exists already: fork under another id"),
        (["support@8", "b"], 1, "chat:support has no version 8: it goes from 0 to 7"),
        (["support@0", "b"], 1, "chat:support@0 is before the context began: fork a later version"),
        (["nobody", "b"], 1, "there is no chat, queue or pool 'nobody': `refold contexts` lists them"),
        (["support", "b", "--turns", 0], 2, "Invalid value for '--turns': 0 is not in the range x>=1"),
        (["support", "b", "--turns", 2, "--brief", "x"], 2, "--turns and --brief exclude each other"),
        (["support", "b", "--task", "x"], 2, "--task goes with --brief"),
        (["support", "b", "--brief", ""], 2, "Invalid value for '--brief': it is empty"),
        (["support", "b@2"], 2, "Invalid value for 'NEW': 'b@2' cannot be the id of a chat context"),
        (["support", "\x1b"], 2, "Invalid value for 'NEW': '\\x1b' cannot be the id"),
        (["support@1..2", "b"], 2, "Invalid value for 'CTX[@V]': 'support@1..2' names a range"),
        (["support"], 2, "Missing argument 'NEW'"),
    ],
)
def test_what_cannot_be_forked(talking: Path, arguments: list[Any], code: int, fault: str) -> None:
    """One line says why and what to do, and nothing is made."""
    ended = refold("fork", *arguments, db=talking)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert versions(talking) == {"support": 7}
