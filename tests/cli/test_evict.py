"""`refold evict`, `restore`, `pin` and `unpin`: what is in the view and what is not."""

from pathlib import Path
from typing import Any

import pytest

from tests.cli.running import refold
from tests.cli.talks import said, versions


def test_items_leave_and_the_cache_is_spoken_of(talking: Path) -> None:
    """Ids or the places that `show` prints; a call takes its output along."""
    ended = refold("evict", "support", "@4", "answer", "--reason", "not needed", db=talking)

    assert ended.code == 0
    assert ended.out == (
        "chat:support @8: 3 items evicted, about 33 tokens; the prompt changes from message 2 (from 0) on, about 14 "
        "tokens before it can still come from the provider's cache\n"
    )
    assert ended.err == "note: items that belong together leave together, so more left than was named\n"
    assert said(talking, "support") == ["Be brief.", "Where is order 7?", "And order 8?"]


def test_the_shape_of_an_evictions_json(talking: Path) -> None:
    """Where the prompt changes, and what of it is kept."""
    assert refold("evict", "support", "answer", "--json", db=talking).json == {
        "context": "support", "kind": "chat", "version": 8, "item_ids": ["answer"], "tokens_removed": 8,
        "first_changed_item": 4, "first_changed_message": 4, "tokens_kept": 39,
    }  # fmt: skip


def test_what_has_left_leaves_no_more(talking: Path) -> None:
    """A note, and nothing is recorded."""
    refold("evict", "support", "answer", db=talking)
    ended = refold("evict", "support", "answer", "--json", db=talking)

    assert (ended.json["item_ids"], ended.json["first_changed_item"]) == ([], None)
    assert ended.err == "note: what was named had left the view before: nothing was changed\n"
    assert versions(talking) == {"support": 8}


def test_what_left_comes_back(talking: Path) -> None:
    """What left last, or what is named; then there is nothing."""
    before = said(talking, "support")
    refold("evict", "support", "first", db=talking)
    refold("evict", "support", "@4", "@6", db=talking)
    last = refold("restore", "support", "--reason", "needed", "--json", db=talking).json
    named = refold("restore", "support", "@3", db=talking)
    nothing = refold("restore", "support", db=talking)

    assert (last["context"], last["version"], len(last["item_ids"]), last["tokens"]) == ("support", 10, 3, 33)
    assert named == (0, "chat:support @11: 1 item restored, about 8 tokens\n", "")
    assert nothing.err == "note: nothing left the view that could be restored: nothing was changed\n"
    assert refold("restore", "support", "@3", db=talking).err.startswith("note: what was named is in the view")
    assert said(talking, "support") == before
    assert refold("log", "support", "--type", "items_restored", "--json", db=talking).json[0]["event"]["reason"] == (
        "needed"
    )


def test_what_is_pinned_stays(talking: Path) -> None:
    """Until it is unpinned; the error names the command."""
    assert refold("pin", "support", "@3", "--json", db=talking).json["pinned_ids"] == ["first"]
    ended = refold("evict", "support", "first", db=talking)

    assert (ended.code, ended.fault) == (
        1, "item 'first' of chat:support is pinned: `refold unpin chat:support first` lets it go",
    )  # fmt: skip
    assert refold("pin", "support", "first", db=talking).err == "note: what was named was pinned: nothing was changed\n"
    assert refold("unpin", "support", "first", db=talking).out == "chat:support @9: 0 items pinned now\n"
    assert refold("evict", "support", "first", db=talking).code == 0


def test_what_is_pinned_with_its_call_stays(talking: Path) -> None:
    """An output holds its call; the error of the context itself names it."""
    refold("pin", "support", "@5", db=talking)
    ended = refold("evict", "support", "@4", db=talking)

    assert ended.code == 1
    assert "is pinned: " in ended.fault
    assert versions(talking) == {"support": 8}


def test_items_of_the_parent_are_named_by_their_place(talking: Path) -> None:
    """As `show` prints them in a fork."""
    refold("fork", "support", "branch", db=talking)

    assert refold("evict", "branch", "support@3", "--json", db=talking).json["item_ids"] == ["first"]
    assert refold("evict", "branch", "@3", db=talking).fault.startswith("chat:branch has no item '@3'")
    assert refold("evict", "support", "chat:support@3", "--json", db=talking).json["item_ids"] == ["first"]


@pytest.mark.parametrize(
    ("arguments", "code", "fault"),
    [
        (["evict", "support", "first", "nope"], 1, "chat:support has no item 'nope': `refold show chat:support --ids`"),
        (["evict", "support", "@1"], 1, "chat:support has no item '@1'"),
        (["evict", "support", f"@{10**30}"], 1, "chat:support has no item '@1000"),
        (["restore", "support", "nope"], 1, "chat:support has no item 'nope'"),
        (["pin", "support", "nope"], 1, "chat:support has no item 'nope'"),
        (["unpin", "support", "nope"], 1, "chat:support has no item 'nope'"),
        (["evict", "nobody", "a"], 1, "there is no chat 'nobody'"),
        (["evict", "support"], 2, "Missing argument 'ITEM...'"),
        (["evict", "support@3", "first"], 2, "Invalid value for 'CTX': 'support@3' is the past"),
        (["evict", "support", ""], 2, "Invalid value for 'ITEM...': it is empty"),
        (["evict", "support", "a\udcff"], 2, "Invalid value for 'ITEM...': it is not UTF-8 text"),
        (["restore", "support", "--reason", ""], 2, "Invalid value for '--reason': it is empty"),
    ],
)
def test_what_cannot_be_named(talking: Path, arguments: list[Any], code: int, fault: str) -> None:
    """One line says why, and nothing is changed."""
    ended = refold(*arguments, db=talking)

    assert ended.code == code
    assert ended.fault.startswith(fault)
    assert versions(talking) == {"support": 7}
