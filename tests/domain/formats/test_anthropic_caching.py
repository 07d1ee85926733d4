"""Cache breakpoints: four at most, on ends of turns, and a prefix that stays as it is while a context grows."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from refold.domain.chat.events import ChatItemEvent
from refold.domain.formats.anthropic.send import BLOCKS_A_ROW, anthropic_messages
from refold.domain.formats.send import DUMMY_FIRST, DUMMY_LAST, NO_OUTPUT
from tests.domain.chat_events import configured, said
from tests.support.provider_rules.anthropic import MARKS_MAX, blocks_of

from .provider_contexts import CONTEXTS, FEW, call, output, unmarked

DUMMIES = ([{"type": "text", "text": DUMMY_FIRST}], [{"type": "text", "text": DUMMY_LAST}])


def blocks(items: list[ChatItemEvent]) -> list[dict[str, Any]]:
    """Return the blocks of all messages of a conversion with caching, in order."""
    return [block for message in anthropic_messages(items, caching=True)[0] for block in message["content"]]


def marked(items: list[ChatItemEvent]) -> list[int]:
    """Return the indexes of the blocks with a mark."""
    return [index for index, block in enumerate(blocks(items)) if "cache_control" in block]


def settled(items: list[ChatItemEvent]) -> str:
    """Return the bytes of what is final: without marks, the dummy behind the end, and what waits for an output."""
    messages = anthropic_messages(items, caching=True)[0]
    if messages[-1]["content"] in DUMMIES:
        messages.pop()
    kept: list[dict[str, Any]] = []
    for message in messages:
        waits = any(block.get("content") == NO_OUTPUT for block in message["content"])
        if waits:
            break
        kept.append(message)
    return unmarked(kept).rstrip("]}")


@given(CONTEXTS, CONTEXTS)
@FEW
def test_appending_changes_nothing_of_what_was_sent(items: list[ChatItemEvent], more: list[ChatItemEvent]) -> None:
    """The bytes of the shorter conversion begin those of the longer one, up to the first call that still waits."""
    longer = anthropic_messages(items + more, caching=True)[0]

    assert unmarked(longer).startswith(settled(items))


def test_the_prefix_test_can_fail() -> None:
    """What is settled is nearly everything, and another beginning is another one."""
    talk = turns(3)

    assert settled(talk).count("found") == 3
    assert not settled(talk).startswith(settled([said("u", "other"), *talk]))


def turns(count: int) -> list[ChatItemEvent]:
    """Return turns of an agent, of four blocks each."""
    return [
        item
        for number in range(count)
        for item in (
            said(f"u{number}", "w?"), call(f"c{number}"), output(f"c{number}"),
            said(f"m{number}", "a", role="assistant"),
        )
    ]  # fmt: skip


def test_marks_slide_over_the_last_turns() -> None:
    """Two at the ends of the user's last messages; the earlier is where the last request had its later one."""
    assert marked([*turns(1), said("u", "b")]) == [2, 4]
    assert marked([*turns(1), said("u", "b"), call("d"), output("d")]) == [4, 6]
    assert marked([said("u", "a")]) == [0]


def test_one_mark_stands_still() -> None:
    """It moves by whole rows of blocks, and always to where a mark stood before."""
    still = [marked([*turns(count), said("u", "b")])[0] for count in range(BLOCKS_A_ROW // 4 + 1, BLOCKS_A_ROW)]

    assert len({*still}) == len(still) * 4 // BLOCKS_A_ROW + 1
    assert still == sorted(still)
    ends = {index for count in range(BLOCKS_A_ROW) for index in marked([*turns(count), said("u", "b")])[-2:]}
    assert {*still} <= ends


@given(CONTEXTS, st.integers(0, 8))
@FEW
def test_marks_change_nothing_else(items: list[ChatItemEvent], repeats: int) -> None:
    """With and without caching the same is said; at most three marks stand in messages, never on a dummy end."""
    items = items * repeats
    messages, system = anthropic_messages(items, caching=True)
    plain, text = anthropic_messages(items)

    assert unmarked(messages) == unmarked([{**message, "content": blocks_of(message)} for message in plain])
    assert len(marked(items)) < MARKS_MAX
    assert system == text or system == [{"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]


def test_the_system_text_has_a_mark() -> None:
    """As a block; a blank one cannot have it and stays as it is (SPEC V10.11)."""
    block = {"type": "text", "text": "S", "cache_control": {"type": "ephemeral"}}

    assert anthropic_messages([configured(instructions="S")], caching=True)[1] == [block]
    assert anthropic_messages([configured(instructions=" ")], caching=True)[1] == " "
    assert anthropic_messages([], caching=True)[1] is None


def test_the_mark_that_stands_still_may_end_a_row() -> None:
    """A message of the user that ends exactly where a row of blocks does lies within it."""
    answers = [said(f"a{number}", "a", role="assistant") for number in range(BLOCKS_A_ROW - 2)]
    more = [said(f"f{number}", "a", role=("user", "assistant")[number % 2]) for number in range(2 * BLOCKS_A_ROW)]
    items: list[ChatItemEvent] = [said("u", "first"), *answers, *more]

    assert BLOCKS_A_ROW - 1 in {mark for count in range(len(items)) for mark in marked(items[:count])[:1]}
