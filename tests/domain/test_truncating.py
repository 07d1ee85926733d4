"""Truncation: the oldest leave, the protected stay (SPEC V6)."""

import random
from typing import Any

import msgspec
import pytest

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ItemsPinned
from refold.domain.chat.rules.commands import Truncate
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state.fold import EMPTY, fold
from refold.domain.spans import Span
from tests.support.effort import calls_of

from .chat_events import OPENED, called, configured, handed, returned, said

SUMMARY = said("sum", "short", role="assistant", extra=b'{"summary":true}')
TALK: list[Any] = [
    said("s", role="system"), said("u1"), said("a1", role="assistant"), called("f1"), returned("o1"), handed("h1"),
    SUMMARY, said("s2", role="developer"), configured("c1"), said("u2"), called("f2"), said("a2", role="assistant"),
]  # fmt: skip


def left(
    events: list[Any], items_max: int | None = None, tokens_max: int | None = None, *, whole_turns: bool = False
) -> str:
    """Return the ids of what is left."""
    state = fold(EMPTY, [OPENED, *events])
    after = fold(state, CHAT.decide(Truncate(items_max, tokens_max, whole_turns=whole_turns), state))
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


@pytest.mark.parametrize("whole_turns", [True, False])
def test_only_the_first_summary_stays(whole_turns: bool) -> None:
    """A later one leaves as any message does (V6.7)."""
    later = msgspec.structs.replace(SUMMARY, id="sum2")

    assert left([SUMMARY, later, said("u1")], 2, whole_turns=whole_turns) == "sum u1"


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
    """Ten times as many take about ten times the work, not a hundred times (V6.10)."""
    chance = random.Random(3)

    def work(count: int) -> int:
        state = fold(EMPTY, [OPENED, *(said(f"m{n}", "x" * chance.randrange(99)) for n in range(count))])
        _ = state.items.totals
        return calls_of(lambda: CHAT.decide(Truncate(None, 1_000), state))

    assert work(10_000) < 15 * work(1_000)


# Two turns with parallel calls, whose outputs come in another order; then a turn that runs.
TURNS: list[Any] = [
    said("s", role="system"), said("u1"), said("a1", role="assistant"), called("f1"), called("f2"),
    returned("o2", call_id="f2"), returned("o1", call_id="f1"), said("b1", role="assistant"),
    said("u2"), called("f3"), handed("h"), called("f4"), returned("o3", call_id="f3"), returned("o4", call_id="f4"),
    said("u3"), said("a3", role="assistant"), called("f5"), called("f6"), returned("o5", call_id="f5"),
    returned("o6", call_id="f6"), said("b3", role="assistant"), called("f7"), returned("o7", call_id="f7"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("items_max", "expected"),
    [
        (23, "s u1 a1 f1 f2 o2 o1 b1 u2 f3 h f4 o3 o4 u3 a3 f5 f6 o5 o6 b3 f7 o7"),
        (22, "s u2 f3 h f4 o3 o4 u3 a3 f5 f6 o5 o6 b3 f7 o7"),
        (15, "s h u3 a3 f5 f6 o5 o6 b3 f7 o7"),
        (10, "s h u3 b3 f7 o7"),
        (5, "s h u3"),
        (0, "s h u3"),
    ],
)
def test_whole_turns_leave(items_max: int, expected: str) -> None:
    """The oldest turn at once; in the last one the oldest answer, with its parallel calls and their outputs."""
    assert left(TURNS, items_max, whole_turns=True) == expected


def test_an_answer_that_waits_stays_whole() -> None:
    """One of its parallel calls has an output, the other one not yet: both are sent."""
    waiting = TURNS[:19]

    assert left(waiting, 0, whole_turns=True) == "s h u3 a3 f5 f6 o5"
    assert left(waiting, 0) == "s h u3 f6"


@pytest.mark.parametrize("pinned", [5, 7], ids=["call", "output"])
def test_what_is_pinned_keeps_its_answer(pinned: int) -> None:
    """The parallel calls, their outputs, and the user message that they belong to; the rest of the turn leaves."""
    pin = ItemsPinned(items=(Span.of("", [pinned]),))

    assert left([*TURNS, pin], 0, whole_turns=True) == "s u1 a1 f1 f2 o2 o1 h u3"


def test_a_late_output_leaves_with_its_call() -> None:
    """Although it stands in a later turn."""
    talk = [said("u1"), called("f1"), said("u2"), returned("o1", call_id="f1"), said("a2", role="assistant")]

    assert left(talk, 4, whole_turns=True) == "u2 a2"


def test_before_the_first_user_message() -> None:
    """What stands there is a turn of its own; without any user message, answers leave one by one."""
    greeted = [said("a0", role="assistant"), said("b0", role="assistant"), said("u1"), said("a1", role="assistant")]

    assert left(greeted, 3, whole_turns=True) == "u1 a1"
    assert left(greeted[:2], 1, whole_turns=True) == "b0"


def test_a_replay_keeps_turns_whole_as_well() -> None:
    """It is the same truncation."""
    chat = ChatContext()
    chat.record_items(TURNS[1:8])
    chat.record_items([said("u2"), said("a2", role="assistant")])

    seen = chat.replay("items:7").seen(chat.version)

    assert [item.id for item in seen] == ["u2"]
