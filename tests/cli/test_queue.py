"""`refold queue`: what a queue holds, and what goes in and out."""

import asyncio
import io
import sys
from pathlib import Path
from typing import Any

import pytest

import refold as package
from refold.domain.pool.items import ContextItem
from tests.cli.running import refold
from tests.cli.talks import versions


def contents(path: Path, *arguments: str) -> list[Any]:
    """Return what the items of the queue `notes` hold."""
    return [
        one["item"]["content"] for one in refold("queue", "show", "notes", *arguments, "--json", db=path).json["items"]
    ]


def test_a_queue_is_shown(stocked: Path) -> None:
    """The oldest first, texts as they are, all else as JSON, also where its class is not there."""
    ended = refold("queue", "show", "notes", db=stocked)

    heading, *lines = (line for line in ended.out.splitlines() if line)
    assert heading.startswith("queue:notes @6  ")
    assert heading.endswith("  3 items of at most 3, about 7 tokens")
    assert lines == ['@3  json       {"cups": 2}', '@4  Note       {"cups": 3}', "@6  text       She has a cat."]
    assert refold("show", "notes", db=stocked).out == refold("show", "queue:notes", db=stocked).out == ended.out


def test_the_shape_of_the_json(stocked: Path) -> None:
    """As of a chat, with the settings; contents are plain, beside the class they are of."""
    shown = refold("queue", "show", "notes@4", "--json", db=stocked).json
    first, *_, note = shown["items"]

    assert {name: shown[name] for name in ("context", "kind", "version", "head", "limit", "tags")} == {
        "context": "notes", "kind": "queue", "version": 4, "head": 6, "limit": 3, "tags": ["tea"],
    }  # fmt: skip
    assert {name: first[name] for name in ("version", "stream", "position", "actor", "item")} == {
        "version": 2, "stream": "queue:notes", "position": "2", "actor": "mia",
        "item": {"id": None, "description": "about Mia", "content": "Mia drinks tea.", "content_type": None},
    }  # fmt: skip
    assert "pinned" not in first
    assert note["item"]["content_type"] == "elsewhere:Note"


@pytest.mark.parametrize("moment", ["@2", "@-5", "@pos:2", "@first"])
def test_any_moment_is_shown(stocked: Path, moment: str) -> None:
    """By version, position or name, behind the id or with --at."""
    with package.open(stocked) as store:
        store.queue("notes").name_version("first", 2)

    for arguments in ([f"notes{moment}"], ["notes", "--at", moment.removeprefix("@")]):
        shown = refold("queue", "show", *arguments, "--json", db=stocked).json
        assert [one["item"]["content"] for one in shown["items"]] == ["Mia drinks tea."]


def test_items_are_picked(stocked: Path) -> None:
    """By their places, in the order in which they are named; or the last ones; or those that left."""
    left = refold("queue", "show", "notes", "--evicted", "--json", db=stocked).json["items"]

    assert contents(stocked, "@6", "queue:notes@3") == ["She has a cat.", {"cups": 2}]
    assert contents(stocked, "--tail", "1") == ["She has a cat."]
    assert [(one["item"]["content"], one["left"]) for one in left] == [
        ("Mia drinks tea.", {"how": "evict", "reason": "limit", "version": 5})
    ]
    assert "(about Mia, evict @5: limit)" in refold("queue", "show", "notes", "--evicted", db=stocked).out


def test_an_item_with_an_id_is_known_by_it(stocked: Path) -> None:
    """A queue's need none; of several that have it the last one leaves."""
    with package.open(stocked) as store:
        asyncio.run(store.queue("notes").append(*(ContextItem(text, id="cat") for text in ("Tom", "Tim"))))

    assert "(id cat)" in refold("queue", "show", "notes", db=stocked).out
    assert contents(stocked, "cat") == ["Tom", "Tim"]
    refold("queue", "remove", "notes", "cat", db=stocked)
    assert contents(stocked) == ["She has a cat.", "Tom"]


def test_an_item_goes_in(stocked: Path) -> None:
    """A text, JSON with --parse; the oldest makes room; who does it is kept."""
    first = refold("queue", "add", "notes", "hello", "--description", "a greeting", db=stocked)
    second = refold("queue", "add", "queue:notes", "[1]", "--parse", "--actor", "tom", "--json", db=stocked)

    assert first == (0, "queue:notes @8: 1 item added; 1 item left to make room\n", "")
    assert second.json == {
        "context": "notes", "kind": "queue", "version": 10,
        "item": {"stream": "queue:notes", "version": 10, "id": None}, "replaced": None,
        "evicted": [{"stream": "queue:notes", "version": 4, "id": None}],
    }  # fmt: skip
    assert contents(stocked) == ["She has a cat.", "hello", [1]]
    assert refold("log", "notes", "--json", db=stocked).json[-1]["actor"] == "tom"


def test_an_item_comes_from_stdin(stocked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is, to the last line break; what is no text is refused."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("zwei\nZeilen ä\n".encode())))
    refold("queue", "add", "notes", "-", db=stocked)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xff")))
    ended = refold("queue", "add", "notes", "-", db=stocked)

    assert contents(stocked)[-1] == "zwei\nZeilen ä\n"
    assert (ended.code, "what comes on stdin is not UTF-8 text" in ended.fault) == (2, True)


ADDED = {"queue": "1 item", "pool": "id"}


def test_a_queue_is_made(stocked: Path) -> None:
    """Where that is asked for; once it is there, that changes nothing."""
    assert refold("queue", "add", "new", "one", "--create", "--limit", 1, db=stocked).code == 0
    assert refold("queue", "add", "new", "two", "--create", db=stocked).code == 0

    shown = refold("queue", "show", "new", "--json", db=stocked).json
    assert (shown["limit"], [one["item"]["content"] for one in shown["items"]]) == (1, ["two"])
    assert "has the limit 1" in refold("queue", "add", "new", "x", "--create", "--limit", 2, db=stocked).fault


@pytest.mark.parametrize("kind", [["queue", "add", "new"], ["pool", "add", "new", "id", "--description", "d"]])
def test_an_item_that_is_refused_makes_nothing(stocked: Path, kind: list[str]) -> None:
    """A queue or a pool is made with its first item, or not at all."""
    refused = refold(*kind, '{"a": NaN}', "--parse", "--create", db=stocked)

    assert (refused.code, "cannot be stored as JSON" in refused.err) == (1, True)
    assert refold("show", f"{kind[0]}:new", db=stocked).code == 1
    assert refold(*kind, "one", "--create", db=stocked).out == f"{kind[0]}:new @2: {ADDED[kind[0]]} added\n"


def test_items_leave_and_come_back(stocked: Path) -> None:
    """All that were named, or none; what is back is the newest, and the oldest makes room."""
    removed = refold("queue", "remove", "notes", "@3", "queue:notes@4", "--reason", "old", "--json", db=stocked).json
    refused = refold("queue", "remove", "notes", "@6", "@3", db=stocked)
    restored = refold("queue", "restore", "notes", "@4", "@2", db=stocked)
    again = refold("queue", "restore", "notes", "@3", "--json", db=stocked).json

    assert (removed["version"], [one["version"] for one in removed["items"]], removed["tokens"]) == (7, [3, 4], 4)
    assert refused.fault.startswith("queue:notes has no item '@3' to take out: `refold queue show notes`")
    assert restored.out == "queue:notes @8: 2 items restored, about 8 tokens\n"
    assert (again["items"], again["tokens"], again["evicted"]) == (
        [{"stream": "queue:notes", "version": 3, "id": None}], 2,
        [{"stream": "queue:notes", "version": 6, "id": None}],
    )  # fmt: skip
    assert contents(stocked) == [{"cups": 3}, "Mia drinks tea.", {"cups": 2}]
    last = refold("queue", "restore", "notes", "@6", db=stocked)
    assert last.out.endswith("; 1 item left to make room\n")
    assert "because: old" in refold("log", "notes@7", db=stocked).out


def test_words_are_looked_for_in_queues_only(stocked: Path) -> None:
    """What left is found too; --json prints what `refold search` does."""
    assert refold("queue", "search", "mia", db=stocked).out.split("  ")[0] == "queue:notes@2"
    assert refold("queue", "search", "cat", "--context", "queue:notes", "--json", db=stocked).json == (
        refold("search", "cat", "--kind", "queue", "--context", "notes", "--json", db=stocked).json
    )
    assert refold("queue", "search", "green", db=stocked) == (0, "", "nothing was found\n")


def test_queues_are_forked_and_merged(stocked: Path) -> None:
    """Also as they were, and with contents of unknown classes; nothing is taken twice."""
    forked = refold("fork", "notes@4", "queue:branch", "--json", db=stocked).json
    refold("queue", "add", "branch", "Mia is late.", db=stocked)
    merged = refold("merge", "branch", "notes", "--json", db=stocked).json
    again = refold("merge", "queue:branch", "notes", db=stocked)

    assert forked == {
        "context": "branch", "kind": "queue", "version": 1, "parent": {"context": "notes", "version": 4},
        "how": "full", "items": 3, "tokens": 10,
    }  # fmt: skip
    assert merged == {
        "context": "notes", "kind": "queue", "version": 8, "source": {"context": "branch", "version": 3},
        "how": "full", "items": 1, "tokens": 3, "conflicts": [], "dropped": [],
        "evicted": [{"stream": "queue:notes", "version": 3, "id": None}],
    }  # fmt: skip
    assert again.err.startswith("note: queue:notes has nothing to take from there")
    assert contents(stocked) == [{"cups": 3}, "She has a cat.", "Mia is late."]
    assert "queue:branch@3  text       Mia is late." in refold("show", "notes", db=stocked).out
    assert refold("queue", "remove", "notes", "branch@3", db=stocked).code == 0


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["queue"], 2, "Missing command: there are show, add, remove, restore, search (see `refold queue --help`)"),
        (["queue", "drop", "notes"], 2, "No such command 'drop': there are show, add,"),
        (["queue", "show", "nobody"], 1, "there is no queue 'nobody': `refold contexts` lists them"),
        (["queue", "show", "docs"], 1, "pool:docs is no queue: `refold pool --help` is for a pool"),
        (["queue", "show", "notes@9"], 1, "queue:notes has no version 9: it goes from 0 to 6"),
        (["queue", "show", "notes", "@2"], 1, "queue:notes@6 has no item '@2': `refold queue show notes`"),
        (["queue", "show", "notes@2", "--at", "3"], 2, "the moment is given twice"),
        (["queue", "show", "notes", "--tail", "1", "--evicted"], 2, "--tail goes with neither --evicted nor ITEM"),
        (
            ["queue", "add", "nobody", "x"],
            1,
            "there is no queue 'nobody': `refold contexts` lists them; --create makes",
        ),
        (["queue", "add", "notes", "x", "--limit", "2"], 2, "--limit goes with --create"),
        (["queue", "add", "pool:n", "x", "--create"], 2, "what is made here is a queue, not a pool: 'pool:n'"),
        (["queue", "add", "notes", "{", "--parse"], 2, "--parse: it is no JSON"),
        (["queue", "add", "notes", "NaN", "--parse"], 1, "the content of an item cannot be stored as JSON"),
        (["queue", "add", "notes", ""], 2, "Invalid value for 'CONTENT': it is empty"),
        (["queue", "add", "notes@2", "x"], 2, "Invalid value for 'CTX': 'notes@2' is the past"),
        (["queue", "add", "\x1b", "x", "--create"], 1, "'\\x1b' cannot be the id of a queue context"),
        (["queue", "remove", "notes"], 2, "Missing argument 'ITEM...'"),
        (["queue", "remove", "notes", "cat"], 1, "queue:notes has no item 'cat' to take out"),
        (["queue", "restore", "notes", "@6"], 1, "queue:notes has no item '@6' to restore: `refold queue show notes"),
        (["evict", "notes", "@3"], 1, "queue:notes is no chat: `refold queue --help` is for a queue"),
        (["fork", "notes", "pool:x"], 2, "a fork of a queue is a queue, not a pool: 'pool:x'"),
        (
            ["fork", "notes", "x", "--turns", "2"],
            2,
            "--turns, --brief and --agent go with chats, and this is queue:notes",
        ),
        (["fork", "notes", "notes"], 1, "queue:notes exists already"),
        (["merge", "notes", "docs"], 1, "pool:docs is no queue"),
        (["merge", "notes", "notes"], 1, "queue:notes cannot be merged into itself"),
        (["merge", "notes", "notes", "--how", "result"], 1, "queue:notes cannot be merged into itself"),
        (["show", "notes", "--as", "openai"], 2, "--as openai goes with chats, and this is queue:notes"),
    ],
)
def test_what_cannot_be_done(stocked: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says why and what helps, and nothing is changed."""
    before = versions(stocked)
    ended = refold(*arguments, db=stocked)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert versions(stocked) == before
