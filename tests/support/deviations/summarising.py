"""
The seed's summaries (SPEC V7) and windows (V8.5 to V8.7), and what Refold repairs in them.

V7.8: the model gets an earlier summary before the rest, and the new summary replaces it. V7.9: a call stays as long as
its output does. Windows also have the repairs of truncation.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from .plain_items import SILENT, Item, answered_calls, is_instructions, is_summary, rendered, texts_of, users
from .tokens import total_of
from .truncating import truncated

NUMBERS = ("V7.8", "V7.9")
WINDOW_NUMBERS = (*NUMBERS, "V6.5")
# The id of a summary is not known beforehand.
SUMMARY = "SUM"
HEADING, OTHERS_HEADING = "[Conversation Summary]\n", "[Sub-agent Summary]\n"
Summarized = tuple[list[Item], list[str]]


def summary_item(answer: str, *, heading: str = HEADING) -> Item:
    """Return the message that a model's answer becomes."""
    content = [heading + answer]
    return {"type": "message", "id": SUMMARY, "role": "assistant", "content": content, "extra": {"summary": True}}


def summarized(items: Sequence[Item], *, keep_recent_turns: int, answer: str, on: Collection[str] = ()) -> Summarized:
    """Return the items after a summary, and what the model was asked."""
    turns = users(items)
    if len(turns) <= keep_recent_turns:
        return [*items], []
    cut = turns[-keep_recent_turns]
    going = _going(items, cut, on)
    told = [items[place] for place in going if not is_summary(items[place])]
    text = rendered(told)
    if not text.strip():
        return [*items], []
    prior = [" ".join(texts_of(items[place])) for place in going if is_summary(items[place])]
    if prior:
        earlier = "\n".join(one.removeprefix(HEADING).removeprefix(OTHERS_HEADING) for one in prior)
        text = f"[Previous Summary]: {earlier}\n{text}" if earlier else text
    stays = [item for place, item in enumerate(items[:cut]) if place not in going]
    return [*stays, summary_item(answer), *items[cut:]], [text]


def _going(items: Sequence[Item], cut: int, on: Collection[str]) -> list[int]:
    answers = answered_calls(items) if "V7.9" in on else {}
    return [
        place
        for place, item in enumerate(items[:cut])
        if item["type"] not in SILENT
        and not is_instructions(item)
        and (not is_summary(item) or "V7.8" in on)
        and answers.get(place, 0) < cut
    ]


def windowed(
    items: Sequence[Item], settings: Mapping[str, Any], *, answer: str, on: Collection[str] = ()
) -> tuple[list[Item], int]:
    """Return the items after a window was applied, and how often the model was asked."""
    max_items, max_tokens = settings.get("max_context_items"), settings.get("max_tokens")
    keep = settings.get("keep_recent_turns", 3)
    is_over = (max_items is not None and len(items) > max_items) or (
        max_tokens is not None and total_of(items) > max_tokens
    )
    left, asked = [*items], list[str]()
    if is_over and len(users(items)) > keep + 1:
        left, asked = summarized(items, keep_recent_turns=keep, answer=answer, on=on)
    return truncated(left, max_items=max_items, max_tokens=max_tokens, on=on), len(asked)
