"""`refold merge`: what one context has comes into another one."""

from pathlib import Path
from typing import Any

import pytest

import refold as package
from tests.cli.running import refold
from tests.cli.talks import said, versions


@pytest.fixture
def branched(talking: Path) -> Path:
    """The database, with a fork `branch` that has one more answer than `support`."""
    refold("fork", "support", "branch", db=talking)
    with package.open(talking) as store:
        store.chat("branch").add_message("assistant", "It is lost.")
    return talking


def test_what_is_new_is_taken(branched: Path) -> None:
    """Once; the second time there is nothing to take, and that is no failure."""
    first = refold("merge", "branch", "support", db=branched)
    again = refold("merge", "branch", "support", db=branched)

    assert first == (0, "chat:support @8: 1 item taken from branch@2, about 6 tokens\n", "")
    assert again.code == 0
    assert again.err == (
        "note: chat:support has nothing to take from there that it did not have before: nothing was changed\n"
    )
    assert said(branched, "support")[-2:] == ["And order 8?", "It is lost."]
    assert versions(branched) == {"support": 8, "branch": 2}


def test_the_shape_of_the_json(branched: Path) -> None:
    """What was taken, from where, and what was in dispute."""
    assert refold("merge", "branch", "support", "--json", db=branched).json == {
        "context": "support", "kind": "chat", "version": 8, "source": {"context": "branch", "version": 2},
        "how": "full", "items": 1, "tokens": 6, "conflicts": [],
    }  # fmt: skip


def test_the_result_alone(branched: Path) -> None:
    """The last answer, under the name of whose it is; also that of the past."""
    with package.open(branched) as store:
        store.chat("branch").add_message("user", "Thanks.")
    shown = refold("merge", "branch@2", "support", "--how", "result", "--agent-id", "finder", "--json", db=branched)

    assert (shown.json["items"], shown.json["source"]["version"]) == (1, 2)
    with package.open(branched) as store:
        last = store.chat("support").items[-1]
        assert (last.agent_id, getattr(last, "content", None)) == ("finder", ["It is lost."])


@pytest.mark.parametrize(("rule", "kept", "other"), [(None, "ours", "theirs"), ("theirs", "theirs", "ours")])
def test_a_conflict_is_told(branched: Path, rule: str | None, kept: str, other: str) -> None:
    """Who won, and how the other would."""
    with package.open(branched) as store:
        store.chat("support").add_config_update("Be kind.")
        store.chat("branch").add_config_update("Be quick.")
    arguments = ["--on-conflict", rule] if rule else []
    ended = refold("merge", "branch", "support", *arguments, "--json", db=branched)

    assert ended.json["conflicts"] == [{"kind": "config", "rule": rule or "ours", "kept": kept}]
    assert ended.err == (
        f"note: both sides changed the instructions or tools: {kept} kept "
        f"(--on-conflict {other} would keep the others)\n"
    )
    with package.open(branched) as store:
        expected = {"ours": "Be kind.", "theirs": "Be quick."}[kept]
        assert store.chat("support").active_config_at()[0] == expected


def test_instructions_come_along_when_they_are_asked_for(branched: Path) -> None:
    """Else they stay behind."""
    with package.open(branched) as store:
        store.chat("branch").add_config_update("Be quick.")
    without = refold("merge", "branch", "support", "--json", db=branched).json["items"]
    with_them = refold("merge", "branch", "support", "--instructions", "--json", db=branched).json["items"]

    assert (without, with_them) == (1, 1)
    with package.open(branched) as store:
        assert store.chat("support").active_config_at()[0] == "Be quick."


def test_what_was_evicted_there_stays_here(branched: Path) -> None:
    """And a note says so."""
    refold("evict", "branch", "first", db=branched)
    ended = refold("merge", "branch", "support", db=branched)

    assert ended.err.startswith("note: still here: 1 item evicted there (@3); `refold evict`")
    assert "Where is order 7?" in said(branched, "support")


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["support", "support"], 1, "chat:support cannot be merged into itself: name two contexts"),
        (["support@2", "chat:support"], 1, "chat:support cannot be merged into itself: name two contexts"),
        (["nobody", "support"], 1, "there is no chat, queue or pool 'nobody': `refold contexts` lists them"),
        (["branch", "nobody"], 1, "there is no chat 'nobody': `refold contexts` lists them"),
        (["branch@9", "support"], 1, "chat:branch has no version 9: it goes from 0 to 2"),
        (["branch", "support@3"], 2, "Invalid value for 'INTO': 'support@3' is the past, which stays as it was"),
        (["branch", "support", "--how", "half"], 2, "Invalid value for '--how'"),
        (["branch", "support", "--on-conflict", "best"], 2, "Invalid value for '--on-conflict'"),
        (["branch", "support", "--how", "result", "--instructions"], 2, "--on-conflict and --instructions go with"),
        (["branch", "support", "--agent-id", "a"], 2, "--agent-id goes with --how result"),
    ],
)
def test_what_cannot_be_merged(branched: Path, arguments: list[Any], code: int, fault: str) -> None:
    """One line says why, and nothing is changed."""
    ended = refold("merge", *arguments, db=branched)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert versions(branched) == {"support": 7, "branch": 2}
