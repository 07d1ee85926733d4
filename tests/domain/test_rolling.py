"""Truncating a history again and again leaves what truncating a context as often leaves, at the cost of what is new."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from refold.domain.chat.context import ChatContext
from refold.domain.chat.events import ChatItemEvent
from refold.domain.chat.rules.commands import Truncate
from refold.domain.chat.rules.truncation import Truncation
from refold.domain.chat.tokens import estimate_tokens
from tests.domain.chat_events import called, configured, handed, returned, said
from tests.domain.strategies import PROPERTY
from tests.support.effort import calls_of

# A letter an item: users, assistants, instructions, summaries, handoffs, config updates; a call and an output under
# each of three ids, so that ids repeat, and outputs come first, twice or never.
HISTORY = st.lists(st.text("uasSmhcABC123", max_size=7), max_size=10)
ITEMS, TOKENS, WAY = st.integers(0, 12), st.integers(0, 120), st.booleans()
LIMITS = (
    st.builds(Truncate, max_items=ITEMS, whole_turns=WAY)
    | st.builds(Truncate, max_tokens=TOKENS, whole_turns=WAY)
    | st.builds(Truncate, max_items=ITEMS, max_tokens=TOKENS, whole_turns=WAY)
)


def item(letter: str, number: int) -> ChatItemEvent:
    """Return the item of a letter."""
    name, text = f"{letter}{number}", "x" * (number * 7 % 40)
    match letter:
        case "u" | "a" | "s":
            return said(name, text, role={"u": "user", "a": "assistant", "s": "system"}[letter])
        case "S" | "m":
            return said(name, text, role="user" if letter == "S" else "assistant", extra=b'{"summary":["x"]}')
        case "h":
            return handed(name)
        case "c":
            return configured(name, instructions=text)
        case "A" | "B" | "C":
            return msgspec.structs.replace(called(name, arguments=text), call_id=letter)
        case _:
            return returned(name, text, call_id="ABC"[int(letter) - 1])


@PROPERTY
@given(HISTORY, LIMITS)
# Parallel calls whose neighbours leave before, behind and around them.
@example(["BB2h1", "BA1BC", "1B", "Ah2A2", "3A"], Truncate(max_items=2, whole_turns=True))
@example(["Au2a", "A3B222", "BBBA", "31B3B", "BA23"], Truncate(max_items=0, whole_turns=True))
@example(["A1BaA", "BA", "", "3B", "h", "2uu", "a"], Truncate(max_items=2, whole_turns=True))
def test_as_a_context_is_truncated(history: list[str], limits: Truncate) -> None:
    """After each truncation the same items are left, with the same tokens, and before any of them as many."""
    rolling, chat, number = Truncation(limits), ChatContext(), 0
    gone = set[int]()
    for letters in history:
        new = [item(letter, number + place) for place, letter in enumerate(letters)]
        number += len(new)
        rolling.add(new)
        chat.record_items(new)
        before = list(chat.recorded_items())

        gone.update(left := rolling.truncate())
        chat.truncate(limits.max_items, limits.max_tokens, whole_turns=limits.whole_turns)

        after = chat.recorded_items()
        assert [one for place, one in enumerate(rolling.items) if place not in gone] == list(after)
        assert [rolling.items[place] for place in left] == [one for one in before if one not in list(after)]
        assert rolling.tokens == after.tokens
        shown = [place for place in range(len(rolling.items)) if place not in gone]
        for place in range(len(rolling.items)):
            earlier = sum(estimate_tokens(rolling.items[other]) for other in shown if other < place)
            assert rolling.tokens_before(place) == earlier


def test_what_it_costs() -> None:
    """Eight times the history is eight times the work, whether all of it stays or next to nothing, and in one turn."""

    def effort(policy: str, turns: int, *, is_one_turn: bool) -> int:
        chat = ChatContext()
        chat.record_items([said("s", role="system"), said("u")])
        for number in range(turns):
            turn: list[Any] = [called(f"C{number}"), returned(f"o{number}", call_id=f"C{number}")]
            chat.record_items(turn if is_one_turn else [said(f"u{number}"), *turn])
        return calls_of(lambda: chat.replay(policy))

    for policy in ("tokens:200", "tokens:1000000", "items:10"):
        for is_one_turn in (True, False):
            few = effort(policy, 25, is_one_turn=is_one_turn)
            assert effort(policy, 200, is_one_turn=is_one_turn) < few * 12, (policy, is_one_turn)
