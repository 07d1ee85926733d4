"""The seed's window (SPEC A2), and what Refold repairs in it: A2.6, the budget is tested on the total after the add."""

from collections.abc import Collection, Mapping
from typing import Any

NUMBERS = ("A2.6",)
AROUND, PER_TOKEN = 20, 4
Item = Mapping[str, Any]


def characters_of(item: Item) -> int:
    """Return the characters that an item counts."""
    return len(item["key"]) + len(item["value"]) + len(item["source"]) + AROUND


def answered(case: Mapping[str, Any], on: Collection[str] = ()) -> dict[str, Any]:
    """Return the answers to the operations of a case: after each of them, and at the end."""
    items: list[Item] = []
    steps: list[list[Any]] = []
    for step in case["ops"]:
        if step["op"] == "clear":
            items = []
            continue
        is_in = _fits(items, step["args"], case["max_tokens"], on)
        items = [*items, step["args"]] if is_in else items
        steps.append([is_in, _tokens(items)])
    in_order = sorted(items, key=lambda item: -item["priority"])
    return {
        "ops": steps,
        "build": "\n\n".join(f"[{item['key']} (source: {item['source']})]\n{item['value']}" for item in in_order),
        "tokens": _tokens(items),
        "keys": [item["key"] for item in items],
    }


def _fits(items: list[Item], item: Item, max_tokens: int, on: Collection[str]) -> bool:
    if "A2.6" in on:
        return _tokens([*items, item]) <= max_tokens
    return _tokens(items) + characters_of(item) // PER_TOKEN <= max_tokens


def _tokens(items: list[Item]) -> int:
    return sum(map(characters_of, items)) // PER_TOKEN
