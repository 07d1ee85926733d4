"""
Items in the seed's plain form: the kind and the tokens of each, and the call that each output answers.

This code shares nothing with the product, so the model of an answer is independent of it.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

Item = dict[str, Any]

# A model that summarises gets the output of a call up to this length (SPEC V8.1).
SHOWN_OUTPUT = 200
SILENT = ("agent_handoff", "agent_config_update")


def is_message(item: Item, *roles: str) -> bool:
    """Return whether an item is a message; if roles are named, whether it has one of them."""
    return item["type"] == "message" and (not roles or item["role"] in roles)


def is_instructions(item: Item) -> bool:
    """Return whether an item is a system or developer message."""
    return is_message(item, "system", "developer")


def is_summary(item: Item) -> bool:
    """Return whether an item is a message that summarises others."""
    return is_message(item) and bool((item.get("extra") or {}).get("summary"))


def texts_of(item: Item) -> list[str]:
    """Return the text parts of a message."""
    content = item["content"]
    return [content] if isinstance(content, str) else [part for part in content if isinstance(part, str)]


def last_user(items: Sequence[Item]) -> int | None:
    """Return the place of the last user message."""
    return max((place for place, item in enumerate(items) if is_message(item, "user")), default=None)


def users(items: Sequence[Item]) -> list[int]:
    """Return the places of the user messages, at which turns begin."""
    return [place for place, item in enumerate(items) if is_message(item, "user")]


def active_config(items: Iterable[Item]) -> list[Any]:
    """Return [instructions, tools] in force after these items: the later ones win (SPEC V3.2)."""
    instructions, tools = None, None
    for item in items:
        if is_instructions(item):
            instructions = " ".join(texts_of(item))
        if item["type"] == "agent_config_update":
            instructions = instructions if item["instructions"] is None else item["instructions"]
            tools = tools if item["tools"] is None else item["tools"]
    return [instructions, tools]


def answered_calls(items: Sequence[Item]) -> dict[int, int]:
    """
    Return the place of the output of each answered call, by occurrence.

    An output answers the first waiting call with its id in the newest row of calls that has such a call. Only handoffs
    and config updates may be between the calls of a row.
    """
    spoken = [place for place, item in enumerate(items) if item["type"] not in SILENT]
    rows: list[list[int]] = []
    answered: dict[int, int] = {}
    before = ""
    for place in spoken:
        kind = items[place]["type"]
        if kind == "function_call" and before == "function_call":
            rows[-1].append(place)
        elif kind == "function_call":
            rows.append([place])
        elif kind == "function_call_output":
            waiting = (_waiting(row, items[place]["call_id"], items, answered) for row in reversed(rows))
            call = next((found[0] for found in waiting if found), None)
            answered |= {} if call is None else {call: place}
        before = kind
    return answered


def _waiting(row: Sequence[int], call_id: str, items: Sequence[Item], answered: Collection[int]) -> list[int]:
    return [place for place in row if items[place]["call_id"] == call_id and place not in answered]


def rendered(items: Iterable[Item]) -> str:
    """Return items as a model that summarises gets them (SPEC V8.1, V8.2)."""
    return "\n".join(line for line in map(_line, items) if line)


def _line(item: Item) -> str:
    if is_message(item):
        text = " ".join(texts_of(item)) if texts_of(item) else "[non-text content]"
        return f"{'[Previous Summary]' if is_summary(item) else item['role'].capitalize()}: {text}"
    if item["type"] == "function_call":
        return f"[Tool Call: {item['name']}] args={item['arguments']}"
    if item["type"] == "function_call_output":
        how = "Error" if item["is_error"] else "Result"
        return f"[Tool {how}: {item['name']}] {item['output'][:SHOWN_OUTPUT]}"
    return ""
