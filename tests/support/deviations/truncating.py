"""
The seed's truncation (SPEC V6), and what Refold repairs in it: V6.5, calls of the running turn that wait for their
output stay.
"""

from collections.abc import Callable, Collection, Sequence

from .plain_items import SILENT, Item, answered_calls, is_instructions, is_summary, last_user
from .tokens import total_of

NUMBERS = ("V6.5",)


def truncated(
    items: Sequence[Item], *, max_items: int | None = None, max_tokens: int | None = None, on: Collection[str] = ()
) -> list[Item]:
    """Return the items that truncation leaves."""
    kept = _protected(items) | (_awaited(items) if "V6.5" in on else set())
    left = list(range(len(items)))
    while _is_over([items[place] for place in left], max_items, max_tokens):
        going = next((place for place in left if place not in kept), None)
        if going is None:
            break
        output = _output_behind(items, going, left)
        left = [place for place in left if place not in (going, output)]
    called, returned = (
        {items[place]["call_id"] for place in left if items[place]["type"] == kind}
        for kind in ("function_call", "function_call_output")
    )
    partners = {"function_call": returned, "function_call_output": called}
    return [
        items[place]
        for place in left
        if place in kept or items[place].get("call_id") in partners.get(items[place]["type"], {None})
    ]


def _protected(items: Sequence[Item]) -> set[int]:
    kept = {place for place, item in enumerate(items) if item["type"] in SILENT}
    for found in (_first(items, is_instructions), _first(items, is_summary), last_user(items)):
        kept |= set() if found is None else {found}
    return kept


def _awaited(items: Sequence[Item]) -> set[int]:
    running = range(last_user(items) or 0, len(items))
    answered = answered_calls(items)
    return {place for place in running if items[place]["type"] == "function_call" and place not in answered}


def _first(items: Sequence[Item], wanted: Callable[[Item], bool]) -> int | None:
    return next((place for place, item in enumerate(items) if wanted(item)), None)


def _is_over(items: list[Item], max_items: int | None, max_tokens: int | None) -> bool:
    return (max_items is not None and len(items) > max_items) or (
        max_tokens is not None and total_of(items) > max_tokens
    )


def _output_behind(items: Sequence[Item], call: int, left: Sequence[int]) -> int | None:
    if items[call]["type"] != "function_call":
        return None
    outputs = (place for place in left if place > call and items[place]["type"] == "function_call_output")
    return next((place for place in outputs if items[place]["call_id"] == items[call]["call_id"]), None)
