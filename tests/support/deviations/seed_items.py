"""Code that the models of the seed's conversions share: its items as plain data, its instructions, its arguments."""

import json
from collections.abc import Collection, Sequence
from typing import Any

from refold.domain.chat.events import ChatItemEvent
from refold.domain.chat.item_conversion import recorded_form
from refold.domain.chat.items import items_from_dict

from .plain_items import Item, answered_calls, texts_of

NO_OUTPUT = {"output": "[No output was recorded for this call; it may or may not have run]", "is_error": True}


def recorded_items(items: Sequence[Item]) -> list[ChatItemEvent]:
    """Return the events that add items of the seed's plain form."""
    return [recorded_form(item) for item in items_from_dict({"items": items})]


def outputs_by_occurrence(items: Sequence[Item]) -> dict[int, Item]:
    """Return the output of each answered call, by the call's place."""
    return {call: items[output] for call, output in answered_calls(items).items()}


def system_of(items: Sequence[Item], on: Collection[str], number: str) -> str | None:
    """
    Return the instructions. The seed gives the first text of the last instructions, unless a config update was made,
    and none if no message has instructions. Repaired: the complete instructions in force (V10.2, V11.2).
    """
    found: str | None = None
    active: str | None = None
    is_updated = False
    for item in items:
        if item["type"] == "message" and item["role"] in ("system", "developer"):
            texts = texts_of(item)
            found, active = texts[0] if texts else "", " ".join(texts)
        if item["type"] == "agent_config_update":
            is_updated = True
            active = item["instructions"] if item["instructions"] is not None else active
    return active if number in on or (is_updated and found is not None) else found


def arguments_of(text: str, *, repaired: bool) -> Any:
    """
    Return the arguments of a call: in the seed any JSON value; repaired, always an object.

    Raises:
        ValueError: they are not JSON, and the repair is off.
    """
    if not repaired:
        return json.loads(text)
    try:
        value = json.loads(text or "null")
    except ValueError:
        value = text
    return value if isinstance(value, dict) else {} if value is None else {"arguments": text}


def failure(error: ValueError) -> dict[str, str]:
    """Return an error in the form of the recording."""
    return {"__error__": type(error).__name__, "msg": str(error)}
