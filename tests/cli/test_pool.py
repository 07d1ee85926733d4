"""`refold pool`: what a pool has to choose from, and what goes in and out."""

import asyncio
from pathlib import Path

import pytest

import refold as package
from refold.domain.content import Content
from refold.domain.pool.events import PoolAdded
from refold.domain.pool.items import ContextItem
from refold.domain.pool.rules import Add
from tests.cli.running import refold
from tests.cli.talks import versions


def held(path: Path, pool: str = "docs") -> dict[str, object]:
    """Return what a pool holds, by id."""
    items = refold("pool", "show", pool, "--json", db=path).json["items"]
    return {one["item"]["id"]: one["item"]["content"] for one in items}


def test_the_catalogue_is_shown(stocked: Path) -> None:
    """Ids and descriptions, as a model would choose by; what an item holds is shown where it is named."""
    catalogue = refold("pool", "show", "docs@4", db=stocked).out.splitlines()
    item = refold("pool", "show", "docs@4", "faq", "@4", db=stocked).out.splitlines()

    assert catalogue[0].endswith("  2 items, about 11 tokens")
    assert [line for line in catalogue[1:] if line] == ["@4  readme     The new readme", "@3  faq        Questions"]
    assert [line.strip() for line in item[1:] if line] == [
        '@3  faq        {"q": "why?"}', "(Questions)", "@4  readme     Read me now.", "(The new readme)",
    ]  # fmt: skip
    assert refold("show", "docs@4", db=stocked).out.splitlines() == catalogue


def test_the_shape_of_the_json(stocked: Path) -> None:
    """Whole items, whether they are named or not."""
    shown = refold("pool", "show", "docs", "--json", db=stocked).json

    assert (shown["kind"], shown["limit"], shown["tags"], shown["opened"]["parent"]) == ("pool", None, [], None)
    assert [one["item"] for one in shown["items"]] == [
        {"id": "readme", "description": "The new readme", "content": "Read me now.", "content_type": None}
    ]
    assert refold("pool", "show", "docs", "readme", "--json", db=stocked).json["items"] == shown["items"]


def test_long_ids_have_their_room(stocked: Path) -> None:
    """The column is as wide as the ids, up to a point."""
    for number, item_id in enumerate(("a-rather-long-id", "an-id-that-is-far-too-long-for-any-column")):
        refold("pool", "add", "docs", item_id, "x", "--description", f"number {number}", db=stocked)
    lines = [line for line in refold("pool", "show", "docs", db=stocked).out.splitlines() if line]

    assert lines[1:] == [
        "@4  readme                    The new readme",
        "@6  a-rather-long-id          number 0",
        "@7  an-id-that-is-far-too-long-for-any-column",
        "                              number 1",
    ]


def test_what_left_is_shown(stocked: Path) -> None:
    """Replaced and removed items, with why."""
    left = refold("pool", "show", "docs", "--evicted", "--json", db=stocked).json["items"]
    text = refold("pool", "show", "docs", "faq", "--evicted", db=stocked).out

    assert [(one["item"]["id"], one["version"], one["left"]) for one in left] == [
        ("readme", 2, {"how": "replace", "reason": None, "version": 4}),
        ("faq", 3, {"how": "remove", "reason": "too long", "version": 5}),
    ]
    assert "(Questions, remove @5: too long)" in text


def test_an_item_goes_in(stocked: Path) -> None:
    """Under its id; one with the same id is replaced."""
    first = refold("pool", "add", "docs", "a", "A text.", "--description", "A", db=stocked)
    second = refold("pool", "add", "docs", "a", '{"b": 1}', "--parse", "--description", "B", "--json", db=stocked).json

    assert first.out == "pool:docs @6: a added\n"
    assert second == {
        "context": "docs", "kind": "pool", "version": 7, "item": {"stream": "pool:docs", "version": 7, "id": "a"},
        "replaced": {"stream": "pool:docs", "version": 6, "id": "a"}, "evicted": [],
    }  # fmt: skip
    assert held(stocked) == {"readme": "Read me now.", "a": {"b": 1}}


def test_a_pool_with_a_limit_is_made(stocked: Path) -> None:
    """The oldest makes room."""
    for item_id in ("a", "b", "c"):
        last = refold("pool", "add", "new", item_id, "x", "--description", "X", "--create", "--limit", 2, db=stocked)

    assert last.out == "pool:new @5: c added; 1 item left to make room\n"
    assert list(held(stocked, "new")) == ["b", "c"]


def test_items_leave_and_come_back(stocked: Path) -> None:
    """By their ids, several as one change; an id means what left last with it, a place what was added there."""
    refold("pool", "add", "docs", "a", "A text.", "--description", "A", db=stocked)
    removed = refold("pool", "remove", "docs", "readme", "@6", "--reason", "old", "--json", db=stocked).json
    restored = refold("pool", "restore", "docs", "readme", db=stocked)

    assert [one["id"] for one in removed["items"]] == ["readme", "a"]
    assert [one["reason"] for one in refold("audit", "docs@8", "--json", db=stocked).json[-2:]] == ["old", "old"]
    assert restored.out.startswith("pool:docs @9: 1 item restored, about ")
    assert held(stocked) == {"readme": "Read me now."}
    assert refold("pool", "restore", "docs", "@2", db=stocked).fault == (
        "'readme' is in the pool already: take it out first"
    )
    refold("pool", "remove", "docs", "readme", db=stocked)
    assert refold("pool", "restore", "docs", "@2", db=stocked).code == 0
    assert held(stocked) == {"readme": "Read me first."}


def test_classes_that_are_not_there_are_no_obstacle(stocked: Path) -> None:
    """Nothing is made an instance of what only the user's program has."""
    note = PoolAdded(content=Content(json=b'{"a":1}', type="elsewhere:Note"), description="N", id="note")
    with package.open(stocked) as store:
        store.pool("docs").put_in(Add((note,)))

    assert refold("pool", "remove", "docs", "note", db=stocked).code == 0
    assert refold("pool", "restore", "docs", "note", db=stocked).code == 0
    assert refold("fork", "docs", "copy", db=stocked).code == 0
    assert refold("pool", "remove", "copy", "note", db=stocked).code == 0
    assert refold("merge", "copy", "docs", db=stocked).out == (
        "pool:docs @9: 0 items taken from copy@2, about 0 tokens; 1 item dropped\n"
    )
    assert refold("pool", "restore", "docs", "note", db=stocked).code == 0
    assert held(stocked)["note"] == {"a": 1}


@pytest.mark.parametrize(
    ("rule", "kept", "content"),
    [(None, "theirs", "Theirs."), ("ours", "ours", "Ours."), ("theirs", "theirs", "Theirs.")],
)
def test_a_conflict_is_told(stocked: Path, rule: str | None, kept: str, content: str) -> None:
    """The newest wins where nothing is said; the note says how the other would have."""
    refold("fork", "docs", "copy", db=stocked)
    refold("pool", "add", "docs", "readme", "Ours.", "--description", "R", db=stocked)
    refold("pool", "add", "copy", "readme", "Theirs.", "--description", "R", db=stocked)
    ended = refold("merge", "copy", "docs", *(["--on-conflict", rule] if rule else []), "--json", db=stocked)

    assert ended.json["conflicts"] == [{"kind": "item", "item": "readme", "rule": rule or "newest", "kept": kept}]
    assert ended.err.startswith(f"note: both sides changed 'readme': {kept} kept (--on-conflict ")
    assert held(stocked)["readme"] == content


@pytest.mark.parametrize("options", [["--how", "result"], ["--instructions"]])
def test_what_goes_with_chats_alone(stocked: Path, options: list[str]) -> None:
    """A pool has no result, and no instructions."""
    refold("fork", "pool:docs", "copy", db=stocked)

    fault = refold("merge", "copy", "docs", *options, db=stocked).fault

    assert "this is pool:copy" in fault


def test_words_are_looked_for_in_pools_only(stocked: Path) -> None:
    """In ids, descriptions and contents."""
    assert refold("pool", "search", "questions", "--context", "docs", db=stocked).out.startswith("pool:docs@3  ")
    assert refold("pool", "search", "tea", db=stocked).err == "nothing was found\n"


def test_the_kind_may_be_left_out_where_the_id_is_unique(stocked: Path) -> None:
    """The commands of a kind mean their own; the others ask."""
    with package.open(stocked) as store:
        asyncio.run(store.queue("docs").append(ContextItem("a queue's")))
    fault = "'docs' can mean queue:docs or pool:docs: write it with its kind in front"

    for command in (["show"], ["log"], ["audit"], ["fork", "docs", "x"]):
        assert refold(*command, *(["docs"] if len(command) == 1 else []), db=stocked).fault == fault
    assert refold("queue", "show", "docs", db=stocked).out.startswith("queue:docs @2")
    assert refold("pool", "show", "docs", db=stocked).out.startswith("pool:docs @5")
    assert refold("show", "pool:docs", db=stocked).out.startswith("pool:docs @5")


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["show", "nobody"], 1, "there is no pool 'nobody': `refold contexts` lists them"),
        (["show", "docs", "faq"], 1, "pool:docs@5 has no item 'faq': `refold pool show docs` lists those there are"),
        (["add", "docs", "a", "x"], 2, "Missing option '--description'"),
        (["add", "docs", "", "x", "--description", "d"], 2, "Invalid value for 'ID': it is empty"),
        (["add", "nobody", "a", "x", "--description", "d"], 1, "there is no pool 'nobody'"),
        (["remove", "docs", "readme", "faq"], 1, "pool:docs has no item 'faq' to take out: `refold pool show docs`"),
        (
            ["restore", "docs", "readme", "a"],
            1,
            "pool:docs has no item 'a' to restore: `refold pool show docs --evicted`",
        ),
        (["search", "?!"], 2, "Invalid value for 'QUERY'"),
    ],
)
def test_what_cannot_be_done(stocked: Path, arguments: list[str], code: int, fault: str) -> None:
    """One line says why and what helps, and nothing is changed."""
    before = versions(stocked)
    ended = refold("pool", *arguments, db=stocked)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert versions(stocked) == before
