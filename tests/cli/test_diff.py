"""`refold diff`: what lies between two versions, or two contexts."""

from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.chat.items import ImageContent
from tests.cli.running import refold


def contents(shown: list[dict[str, Any]]) -> list[Any]:
    """Return what items say."""
    return [one["item"].get("content", one["item"]["type"]) for one in shown]


def test_items_between_two_versions(database: Path) -> None:
    """What was added, with the versions that added it."""
    ended = refold("diff", "air-0.0@3..6", db=database)

    assert ended.code == 0
    assert [line for line in ended.out.splitlines() if line] == [
        "chat:air-0.0@3 -> chat:air-0.0@6",
        "3 added, 0 removed, 0 changed; tokens 11 -> 37 (+26)",
        "+ @4  call       look_up({})",
        "+ @5  output     look_up: found",
        "+ @6  assistant  Here.",
    ]


def test_backwards_items_are_removed(database: Path) -> None:
    """From a later version to an earlier one."""
    shown = refold("diff", "air-0.0@6..4", "--json", db=database).json

    assert (contents(shown["added"]), contents(shown["removed"])) == ([], ["function_call_output", "Here."])
    assert shown["tokens"] == -16


@pytest.mark.parametrize(
    ("arguments", "versions", "numbers"),
    [
        (["air-0.0@.."], (0, 6), (5, 0, 0)),
        (["air-0.0@2.."], (2, 6), (4, 0, 0)),
        (["air-0.0@..-3"], (0, 3), (2, 0, 0)),
        (["air-0.0@2..2"], (2, 2), (0, 0, 0)),
        (["air-0.0@2", "air-0.0@3"], (2, 3), (1, 0, 0)),
        (["air-0.0@pos:2..2999-01-01T00:00:00Z"], (2, 6), (4, 0, 0)),
        (["air-0.0", "air-0.1"], (6, 6), (1, 1, 0)),
        (["air-0.0@5", "air-0.1@5"], (5, 5), (0, 0, 0)),
        (["air-0.0@2", "air-1"], (2, 2), (1, 1, 0)),
    ],
)
def test_the_ways_to_name_two_sides(
    database: Path, arguments: list[str], versions: tuple[int, int], numbers: tuple[int, int, int]
) -> None:
    """An end left out is the beginning or the head; two contexts are compared by what they say."""
    shown = refold("diff", *arguments, "--json", "--stat", db=database).json

    assert (shown["from"]["version"], shown["to"]["version"]) == versions
    assert (shown["added"], shown["removed"], shown["changed"]) == numbers


def test_two_runs_of_one_task(database: Path) -> None:
    """What they have in common is not shown, though the ids differ."""
    shown = refold("diff", "air-0.0", "air-0.1", "--json", db=database).json

    assert (contents(shown["removed"]), contents(shown["added"])) == (["Here."], ["Nothing there."])
    assert {name: shown["from"][name] for name in ("context", "version", "items", "tokens")} == {
        "context": "air-0.0", "version": 6, "items": 5, "tokens": 37,
    }  # fmt: skip


def test_the_same_id_with_another_text_is_a_change(database: Path) -> None:
    """Shown as a pair; pictures count by what they show, not by their ids."""
    with package.open(database) as store:
        for name, text in (("one", "tea"), ("two", "coffee")):
            store.chat(name).add_message("user", ["look", ImageContent(image="u")])
            store.chat(name).add_message("user", text, message_id="order")
    ended = refold("diff", "one", "two", db=database)
    (change,) = refold("diff", "one", "two", "--json", db=database).json["changed"]

    assert [line for line in ended.out.splitlines() if line][1:] == [
        "0 added, 0 removed, 1 changed; tokens 309 -> 310 (+1)",
        "< @3  user       tea",
        "> @3  user       coffee",
    ]
    assert (contents([change["from"]]), contents([change["to"]])) == ([["tea"]], [["coffee"]])


def test_numbers_only(database: Path) -> None:
    """--stat counts by who speaks."""
    lines = refold("diff", "air-0.0", "air-0.1@3", "--stat", db=database).out.splitlines()

    assert lines[2:] == ["  call       +0  -1  ~0", "  output     +0  -1  ~0", "  assistant  +0  -1  ~0"]


def test_the_exit_code_can_tell(database: Path) -> None:
    """1 where they differ, as diff and git have it; JSON changes nothing in that."""
    assert refold("diff", "air-0.0@2..3", "--exit-code", db=database).code == 1
    assert refold("diff", "air-0.0@2..3", "--exit-code", "--json", db=database).code == 1
    assert refold("diff", "air-0.0@3..3", "--exit-code", db=database).code == 0
    assert refold("diff", "air-0.0@2..3", db=database).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        ([], 2, "give CTX@A..B, or CTX@A and OTHER@B"),
        (["air-0.0"], 2, "give CTX@A..B, or CTX@A and OTHER@B"),
        (["air-0.0@1"], 2, "give CTX@A..B, or CTX@A and OTHER@B"),
        (["air-0.0@1..2", "air-0.1"], 2, "give CTX@A..B, or CTX@A and OTHER@B"),
        (["a", "b", "c"], 2, "give CTX@A..B, or CTX@A and OTHER@B"),
        (["air-0.0@1..2026-99-99"], 2, "Invalid value for 'CTX@A..B | CTX@A OTHER@B': '2026-99-99' names no moment"),
        (["air-0.0@1..9"], 1, "chat:air-0.0 has no version 9"),
        (["air-0.0@start..2"], 1, "chat:air-0.0 has no version named 'start'"),
        (["nobody@1..2"], 1, "there is no context 'nobody'"),
    ],
)
def test_what_cannot_be_compared(database: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says what is missing."""
    ended = refold("diff", *arguments, db=database)

    assert ended.code == code
    assert ended.fault.startswith(fault)


def test_long_contexts_that_share_little(tmp_path: Path) -> None:
    """Comparing is quick however long they are."""
    with package.open(tmp_path / "long.db", durability="enqueue") as store:
        for name in ("one", "two"):
            chat = store.chat(name)
            for number in range(2_000):
                chat.add_message("user", "ok" if number % 2 else f"{name} {number}")
    shown = refold("diff", "one", "two", "--json", "--stat", db=tmp_path / "long.db").json

    assert shown["added"] == shown["removed"] >= 1_000
