"""`refold memory`: what is remembered in a scope, and what is forgotten."""

from pathlib import Path

import pytest

import refold as package
from tests.cli.running import refold
from tests.cli.talks import versions


def remembered(path: Path, scope: str = "mia", *arguments: str) -> dict[str, object]:
    """Return what is remembered, by key."""
    items = refold("memory", "show", scope, *arguments, "--json", db=path).json["items"]
    return {one["item"]["key"]: one["item"]["value"] for one in items}


def test_records_are_shown(stocked: Path) -> None:
    """By key, what was remembered last last; now and at any moment."""
    now = [line for line in refold("memory", "show", "mia", db=stocked).out.splitlines() if line]
    then = [line for line in refold("memory", "show", "mia@2", db=stocked).out.splitlines() if line]

    assert now[0].startswith("memory:mia @4  ")
    assert now[1:] == ["@3  tea        black", "               (semantic)"]
    assert then[1:] == [
        "@1  tea        green",
        "               (semantic, drink)",
        '@2  cups       {"a day": 2}',
        "               (semantic)",
    ]
    assert refold("show", "memory:mia", "--tail", 1, db=stocked).out.splitlines()[2:] == now[1:]


def test_the_shape_of_the_json(stocked: Path) -> None:
    """A record as a `MemoryRecord` has it, with times as everywhere."""
    (one,) = refold("memory", "show", "mia", "tea", "--at", 2, "--json", db=stocked).json["items"]
    times = {name: one["item"].pop(name) for name in ("timestamp", "updated_at")}

    assert one["item"] == {"key": "tea", "value": "green", "value_type": None, "kind": "semantic", "tags": ["drink"]}
    assert (one["stream"], one["version"], one["actor"]) == ("memory:mia", 1, "mia")
    assert times["timestamp"] <= times["updated_at"] <= one["recorded_at"]


def test_records_are_filtered(stocked: Path) -> None:
    """By the beginning of the key, which is taken as it is, by kind and tag; all must fit."""
    refold("memory", "add", "mia", "te%", "sign", "--kind", "episodic", "--tag", "odd", "--tag", "drink", db=stocked)

    assert list(remembered(stocked, "mia", "--prefix", "te")) == ["tea", "te%"]
    assert list(remembered(stocked, "mia", "--prefix", "te%")) == ["te%"]
    assert list(remembered(stocked, "mia", "--kind", "episodic", "--tag", "drink")) == ["te%"]
    assert list(remembered(stocked, "mia", "--tag", "odd", "--prefix", "tea")) == []
    assert list(remembered(stocked, "mia", "--prefix", "t", "--tail", "1")) == ["te%"]


def test_a_scope_with_the_name_of_another_context(stocked: Path) -> None:
    """A new scope may have it; a name with its kind in front means that context."""
    with package.open(stocked) as store:
        store.chat("bob").add_message("user", "hello")

    assert refold("memory", "add", "chat:bob", "tea", "black", db=stocked).fault.startswith("chat:bob is no memory")
    assert refold("memory", "add", "bob", "tea", "black", db=stocked).out == "memory:bob @1: tea remembered\n"
    assert remembered(stocked, "bob") == {"tea": "black"}


def test_a_value_is_remembered(stocked: Path) -> None:
    """In the place of another; the first one in a scope makes it, and a note says so."""
    new = refold("memory", "add", "user:42", "tea", "oolong", db=stocked)
    again = refold("memory", "add", "memory:mia", "tea", '["white"]', "--parse", "--actor", "tom", "--json", db=stocked)

    assert new == (
        0, "memory:user:42 @1: tea remembered\n", "note: nothing was remembered in user:42 before\n",
    )  # fmt: skip
    assert again.json == {
        "context": "mia", "kind": "memory", "version": 5,
        "item": {"stream": "memory:mia", "version": 5, "id": "tea"},
        "replaced": {"stream": "memory:mia", "version": 3, "id": "tea"},
    }  # fmt: skip
    assert remembered(stocked) == {"tea": ["white"]}
    assert refold("log", "mia", "--json", db=stocked).json[-1]["actor"] == "tom"


def test_a_scope_is_named_as_its_context_is(stocked: Path) -> None:
    """Signs that addresses need are percent-encoded, in what is printed and in what is typed."""
    ended = refold("memory", "add", "mia%40example.org", "tea", "white", db=stocked)

    assert ended.out.startswith("memory:mia%40example.org @1")
    assert "mia@example.org" in ended.err
    assert remembered(stocked, "mia%40example.org") == {"tea": "white"}
    assert "mia%40example.org" in {row["id"] for row in refold("contexts", "--json", db=stocked).json}


def test_records_are_forgotten_and_come_back(stocked: Path) -> None:
    """By key or all of them; they stay in the past, with why they went."""
    refold("memory", "add", "mia", "cat", "Tom", db=stocked)
    removed = refold("memory", "remove", "mia", "tea", "cat", "--reason", "asked to", "--json", db=stocked).json
    left = refold("memory", "show", "mia", "--evicted", "--json", db=stocked).json["items"]
    restored = refold("memory", "restore", "mia", "cat", db=stocked)

    assert removed["items"] == [
        {"stream": "memory:mia", "version": 3, "id": "tea"}, {"stream": "memory:mia", "version": 5, "id": "cat"},
    ]  # fmt: skip
    assert [(one["item"]["key"], one["left"]["reason"]) for one in left] == [
        ("cups", "she stopped"), ("tea", "asked to"), ("cat", "asked to"),
    ]  # fmt: skip
    assert restored.out == "memory:mia @8: 1 record restored\n"
    assert remembered(stocked) == {"cat": "Tom"}
    assert refold("memory", "restore", "mia", "--all", db=stocked).out == "memory:mia @9: 2 records restored\n"
    assert refold("memory", "remove", "mia", "--all", db=stocked).out == "memory:mia @10: 3 records forgotten\n"
    assert remembered(stocked, "mia@9") == {"cat": "Tom", "tea": "black", "cups": {"a day": 2}}


def test_nothing_to_forget_is_no_failure(stocked: Path) -> None:
    """A note says so, and nothing is recorded."""
    refold("memory", "remove", "mia", "--all", db=stocked)

    assert refold("memory", "remove", "mia", "--all", db=stocked) == (
        0, "memory:mia @5: 0 records forgotten\n", "note: there is nothing to be forgotten: nothing was changed\n",
    )  # fmt: skip


def test_words_are_looked_for_in_memories_only(stocked: Path) -> None:
    """In keys, values and tags, also of what was forgotten."""
    hits = refold("memory", "search", "tea", "--scope", "memory:mia", "--json", db=stocked).json

    assert {(hit["context"], hit["version"], hit["item"]) for hit in hits} == {("mia", 1, "tea"), ("mia", 3, "tea")}
    assert refold("memory", "search", "cups", db=stocked).out.startswith("memory:mia@2  ")


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["show", "nobody"], 1, "there is no memory 'nobody': `refold contexts` lists them"),
        (["show", "mia", "cups"], 1, "memory:mia@4 has no item 'cups': `refold memory show mia` lists those there are"),
        (["show", "mia@1", "--at", "2"], 2, "the moment is given twice: in SCOPE@V and with --at"),
        (["show", "mia", "--kind", "odd"], 2, "Invalid value for '--kind'"),
        (["add", "mia", "", "x"], 2, "Invalid value for 'KEY': it is empty"),
        (["add", "mia", "k", "{", "--parse"], 2, "--parse: it is no JSON"),
        (
            ["add", "mia@x.org", "k", "x"],
            2,
            "Invalid value for 'SCOPE': 'mia@x.org': the past stays as it was, so leave",
        ),
        (["add", "mia", "k", "x", "--kind", "odd"], 2, "Invalid value for '--kind'"),
        (["remove", "mia"], 2, "give either KEY or --all"),
        (["remove", "mia", "tea", "--all"], 2, "give either KEY or --all"),
        (["remove", "mia", "tea", "cups"], 1, "nothing is remembered in memory:mia under 'cups': `refold memory show"),
        (["restore", "mia", "cups", "tea"], 1, "nothing was forgotten under 'tea' in memory:mia"),
        (["restore", "nobody", "--all"], 1, "there is no memory 'nobody'"),
    ],
)
def test_what_cannot_be_done(stocked: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says why and what helps, and nothing is changed."""
    before = versions(stocked)
    ended = refold("memory", *arguments, db=stocked)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert versions(stocked) == before
