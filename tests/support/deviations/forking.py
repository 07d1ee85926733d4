"""
The seed's filtered forks and copies (SPEC V4), and what Refold repairs in them.

V4.7 and V4.15: an output is kept if the call that it answers is kept, and only then. V4.14: if the kept items would
leave other instructions or tools in force, one more config update in the fork sets those of the parent.
"""

from collections.abc import Callable, Collection, Sequence
from typing import Any

from .plain_items import SILENT, Item, active_config, answered_calls, is_instructions, is_message

FORK_NUMBERS = ("V4.14", "V4.15")
COPY_NUMBERS = ("V4.7",)


def fork_filtered(
    items: Sequence[Item], *, recent_turns: int, tools: Collection[str] | None = None, on: Collection[str] = ()
) -> list[Item]:
    """Return the items with which a fork begins; `tools` are names."""
    passing = [place for place, item in enumerate(items) if tools is None or _is_of(item, tools)]
    turns = [place for place in passing if is_message(items[place], "user")]
    cut = turns[-recent_turns] if len(turns) > recent_turns else 0
    carried = {place for place in passing if place >= cut or is_instructions(items[place])}
    if "V4.15" in on:
        carried = _whole_pairs(items, carried)
    # Sorting keeps the order of equal items: instructions come first.
    order = sorted(sorted(carried), key=lambda place: not is_instructions(items[place]))
    found = [items[place] for place in order]
    return found + (_missing_config(items, found) if "V4.14" in on else [])


def copied(
    items: Sequence[Item],
    *,
    excluded: Collection[str] = (),
    tools: Collection[str] | None = None,
    agent_id: str | None = None,
    on: Collection[str] = (),
) -> list[Item]:
    """Return the items of a copy; `excluded` are the names of the switches of `copy` that are on."""
    carried = {
        place
        for place, item in enumerate(items)
        if not any(SWITCHES[name](item) for name in excluded)
        and (tools is None or _is_of(item, tools))
        and (agent_id is None or _is_anyones(item) or item["agent_id"] == agent_id)
    }
    if "V4.7" in on:
        carried = _whole_pairs(items, carried)
    return [items[place] for place in sorted(carried)]


def _is_of(item: Item, tools: Collection[str]) -> bool:
    return item["type"] not in ("function_call", "function_call_output") or item["name"] in tools


def _is_anyones(item: Item) -> bool:
    return item["type"] in SILENT or is_instructions(item)


def _is_empty(item: Item) -> bool:
    parts = [item["content"]] if is_message(item) and isinstance(item["content"], str) else item.get("content", [])
    return is_message(item) and not any(part.strip() if isinstance(part, str) else True for part in parts)


SWITCHES: dict[str, Callable[[Item], bool]] = {
    "exclude_system_messages": lambda item: is_message(item, "system"),
    "exclude_instructions": is_instructions,
    "exclude_empty_messages": _is_empty,
    "exclude_handoffs": lambda item: item["type"] == "agent_handoff",
    "exclude_config_updates": lambda item: item["type"] == "agent_config_update",
}


def _whole_pairs(items: Sequence[Item], carried: set[int]) -> set[int]:
    answers = answered_calls(items)
    outputs = {output for call, output in answers.items() if call in carried}
    return (carried - {*answers.values()}) | outputs


def _missing_config(items: Sequence[Item], carried: Sequence[Item]) -> list[Any]:
    wanted, found = active_config(items), active_config(carried)
    if wanted == found:
        return []
    instructions, tools = (want if want != have else None for want, have in zip(wanted, found, strict=True))
    return [{"type": "agent_config_update", "id": None, "instructions": instructions, "tools": tools}]
