"""What an item is, as far as rules and conversions ask: instructions, a summary, the beginning of a turn."""

from __future__ import annotations

from ..canonical import parse_json
from .events import ChatItemEvent, MessageAdded

INSTRUCTION_ROLES = ("system", "developer")


def is_instructions(item: ChatItemEvent) -> bool:
    """Return whether an item is a system or developer message."""
    return isinstance(item, MessageAdded) and item.role in INSTRUCTION_ROLES


def is_summary(item: ChatItemEvent) -> bool:
    """Return whether an item is a message that tells others, by its `extra["summary"]`."""
    if not isinstance(item, MessageAdded) or b'"summary"' not in item.extra:
        return False
    return bool(parse_json(item.extra).get("summary"))


def is_user(item: ChatItemEvent) -> bool:
    """Return whether an item is a message of the user: the beginning of a turn."""
    return isinstance(item, MessageAdded) and item.role == "user"
