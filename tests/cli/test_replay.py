"""`refold replay`: what a model was sent, and what another policy would have sent."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold

FIELDS = ("tokens_then", "tokens_now", "cached_then", "cached_now")


@pytest.fixture
def long(tmp_path: Path) -> Path:
    """A database with a chat of three questions and answers."""
    path = tmp_path / "long.db"
    with package.open(path, synchronous="NORMAL") as store:
        chat = store.chat("long")
        for number in range(3):
            chat.add_message("user", f"question {number}")
            chat.add_message("assistant", f"answer {number}")
    return path


def test_a_line_for_each_call(long: Path) -> None:
    """With its sums in the last line; JSON says the same."""
    heading, *lines, sums = refold("replay", "long", "--policy", "items:1", db=long).out.splitlines()
    shape = refold("replay", "long", "--policy", "items:1", "--json", db=long).json

    assert heading.split() == ["VERSION", "TOKENS", "THEN", "NOW", "CACHED", "THEN", "NOW"]
    assert [line.split()[0] for line in lines] == ["@3", "@5", "@7"]
    assert [[int(word) for word in line.split()[1:]] for line in lines] == [
        [call[field] for field in FIELDS] for call in shape["calls"]
    ]
    assert sums.split() == ["all", *(str(shape["sums"][field]) for field in FIELDS)]
    assert (shape["context"], shape["kind"], shape["policy"], shape["sums"]["calls"]) == ("long", "chat", "items:1", 3)
    assert shape["sums"]["tokens_now"] < shape["sums"]["tokens_then"]


def test_all_stays(long: Path) -> None:
    """Under `all` both are the same."""
    sums = refold("replay", "long", "--policy", "all", "--json", db=long).json["sums"]

    assert (sums["tokens_now"], sums["cached_now"]) == (sums["tokens_then"], sums["cached_then"])


def test_what_would_have_been_seen(long: Path) -> None:
    """The items of one prompt, as they are shown elsewhere."""
    shown = refold("replay", "long", "--policy", "items:1", "--seen", 5, db=long)
    shape = refold("replay", "long", "--policy", "items:1", "--seen", 5, "--json", db=long).json

    assert shown.out.splitlines()[0] == "chat:long before @5, under items:1  1 item"
    assert shown.out.splitlines()[-1].split(maxsplit=2) == ["@4", "user", "question 1"]
    assert (shape["version"], [item["version"] for item in shape["items"]]) == (5, [4])


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["long"], 2, "Missing option '--policy'"),
        (["long", "--policy", "tokens:x"], 2, "Invalid value for '--policy': there is no policy 'tokens:x'"),
        (["long@3", "--policy", "all"], 2, "Invalid value for 'CTX': 'long@3' is the past"),
        (["nobody", "--policy", "all"], 1, "there is no chat 'nobody'"),
        (["long", "--policy", "all", "--seen", 4], 1, "no call of the model has version 4"),
    ],
)
def test_what_cannot_be_replayed(long: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line."""
    ended = refold("replay", *arguments, db=long)

    assert ended.code == code
    assert ended.fault.startswith(fault)


def test_nobody_answered(database: Path) -> None:
    """A note says so."""
    assert refold("replay", "air-1", "--policy", "all", db=database) == (
        0, "", "note: chat:air-1 holds no answer of a model: there is nothing to compare\n"
    )  # fmt: skip
