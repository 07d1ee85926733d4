"""Truncation: the oldest leave, the protected stay (SPEC V6)."""

import random
import time
from typing import Any

import msgspec
import pytest

from refold.domain.chat.events import ItemsPinned
from refold.domain.chat.rules.commands import Truncate
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state.fold import EMPTY, fold
from refold.domain.spans import Span

from .chat_events import OPENED, called, configured, handed, returned, said

SUMMARY = said("sum", "short", role="assistant", extra=b'{"summary":true}')
TALK: list[Any] = [
    said("s", role="system"), said("u1"), said("a1", role="assistant"), called("f1"), returned("o1"), handed("h1"),
    SUMMARY, said("s2", role="developer"), configured("c1"), said("u2"), called("f2"), said("a2", role="assistant"),
]  # fmt: skip


def left(events: list[Any], items_max: int | None = None, tokens_max: int | None = None) -> str:
    """Return the ids of what is left."""
    state = fold(EMPTY, [OPENED, *events])
    after = fold(state, CHAT.decide(Truncate(items_max, tokens_max), state))
    assert after.items.totals == fold(EMPTY, [OPENED, *after.items]).items.totals
    return " ".join(item.id for item in after.items)


@pytest.mark.parametrize(
    ("items_max", "expected"),
    [
        (99, "s u1 a1 f1 o1 h1 sum s2 c1 u2 f2 a2"),
        (11, "s a1 f1 o1 h1 sum s2 c1 u2 f2 a2"),
        (9, "s h1 sum s2 c1 u2 f2 a2"),
        (7, "s h1 sum c1 u2 f2 a2"),
        (0, "s h1 sum c1 u2 f2"),
        (-1, "s h1 sum c1 u2 f2"),
    ],
)
def test_the_oldest_go_first(items_max: int, expected: str) -> None:
    """A pair at once; then only what is protected is left, with the call that is awaited (V6.2 to V6.5, V6.8)."""
    assert left(TALK, items_max) == expected


def test_orphans_go_without_need() -> None:
    """Outputs without a call, and calls of earlier turns without an output, but never those of the running turn."""
    orphans = [said("u1"), called("f1"), returned("o9", call_id="f9"), said("u2"), called("f2")]

    assert left(orphans, 99) == "u1 u2 f2"
    assert left(orphans) == "u1 f1 o9 u2 f2"


def test_tokens() -> None:
    """As many leave as are needed, and no more."""
    talk = [said(f"m{number}", "x" * 16) for number in range(10)]

    assert [left(talk, tokens_max=limit).count("m") for limit in (80, 79, 25, 0)] == [10, 9, 3, 1]
    assert left(talk, 5, 70).count("m") == 5


@pytest.mark.parametrize("pinned", [2, 3], ids=["call", "output"])
def test_a_pinned_pair_stays(pinned: int) -> None:
    """Whichever of the two is pinned."""
    pin = ItemsPinned(items=(Span.of("", [pinned]),))

    assert left([called("f1"), returned("o1"), said("u"), pin], 0) == "f1 o1 u"


def test_a_pinned_output_of_a_repeated_id() -> None:
    """It does not leave with another call of its id."""
    again = msgspec.structs.replace(called("f2"), call_id="f1")
    pin = ItemsPinned(items=(Span.of("", [4]),))

    assert "o1" in left([called("f1"), again, returned("o1"), returned("o2"), said("u"), pin], 0).split()


def test_many_items_in_one_pass() -> None:
    """Ten times as many take about ten times as long, not a hundred times (V6.10)."""
    chance = random.Random(3)

    def seconds(count: int) -> float:
        state = fold(EMPTY, [OPENED, *(said(f"m{n}", "x" * chance.randrange(99)) for n in range(count))])
        _ = state.items.totals
        start = time.perf_counter()
        CHAT.decide(Truncate(None, 1_000), state)
        return time.perf_counter() - start

    small = min(seconds(1_000) for _ in range(3))
    assert min(seconds(10_000) for _ in range(2)) < 40 * small
