"""The differences between two lists of contents: the fewest for a reader, and in a time that nobody can stretch."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

import refold
from refold.domain.chat.context import ChatContext
from refold.domain.context.differences import MATCHED_MAX, Changes, changes_between
from tests.support.effort import calls_of

LONG = 4 * MATCHED_MAX


def changed(before: list[str], after: list[str]) -> Changes[str]:
    """Return the differences of two lists of texts, each of which is its own name."""
    return changes_between(before, after, content=str.encode, name=lambda text: text)


def test_long_lists() -> None:
    """A change near the beginning of a long list is one change, also of a text that often stands there."""
    before = [f"text {number}" if number % 20 else "ok" for number in range(LONG)]
    after = before[:]
    del after[20], after[30]
    after[40:40] = ["ok", "new"]

    assert changed(before, after) == Changes(["new"], ["text 31"], [], ["ok"])


@pytest.mark.parametrize("texts", [30, LONG // 2, LONG * 10])
def test_what_is_not_named_stays(texts: int) -> None:
    """Without the added and the removed texts both lists are equal, however often a text stands in them."""
    chance = random.Random(texts)
    before, after = ([f"{chance.randrange(texts)}" for _ in range(LONG)] for _ in range(2))
    said = before + after

    found = changes_between(
        range(LONG), range(LONG, 2 * LONG), content=lambda place: said[place].encode(), name=lambda place: f"{place}"
    )
    removed, added = {*found.removed}, {*found.added}
    left = [said[place] for place in range(LONG) if place not in removed]

    assert (found.changed, found.moved) == ([], [])
    assert left == [said[place] for place in range(LONG, 2 * LONG) if place not in added]
    assert len(left) > 9


def test_of_two_items_that_say_the_same() -> None:
    """What left is the item that is there no more, and not another one that says the same."""
    chat = ChatContext()
    first, *_ = [chat.add_message("user", text) for text in ("yes", "yes", "no")]
    chat.evict(first.id)
    assert chat.diff(4) == Changes([], [first], [], [])
    assert chat.diff(5, 4) == Changes([first], [], [], [])

    other = ChatContext()
    for text in ("yes", "no"):
        other.add_message("user", text)
    assert not chat.diff(chat, other), "under other ids they are the same"


SLOW = {
    "few texts in another order": (
        [f"{one % 101}" for one in range(LONG)],
        [f"{one * 7 % 101}" for one in range(LONG)],
    ),
    "pairs that changed places": ([f"{one}" for one in range(LONG)], [f"{one ^ 1}" for one in range(LONG)]),
}


@pytest.mark.parametrize("case", SLOW)
def test_lists_made_to_be_slow(case: str) -> None:
    """They took seconds, and minutes where they were four times as long."""
    began = time.process_time()
    changed(*SLOW[case])

    assert time.process_time() - began < 1


def test_what_is_the_same_is_not_looked_into() -> None:
    """Of items that are equal as a whole, as nearly all are, no content is made, and no public item."""
    chat = refold.ChatContext()
    for number in range(1_000):
        chat.add_message("user", f"text {number}")
    found: list[Any] = []
    work = calls_of(lambda: found.append(chat.diff(chat.version - 2)))

    assert (found, work < 5_000) == ([Changes([*chat.items[-2:]], [], [], [])], True)


def test_a_copy_is_passed_over_too() -> None:
    """Its items have other ids, which the other side has nowhere: to match them one by one would take twice as long."""
    chats = [refold.ChatContext() for _ in range(2)]
    for number in range(1_000):
        for one in chats:
            one.add_message("user", f"text {number}")
    chats[1].add_message("user", "more")
    found: list[Any] = []
    work = calls_of(lambda: found.append(chats[0].diff(chats[0], chats[1])))

    assert found == [Changes([chats[1].items[-1]], [], [], [])]
    assert work < 40_000
