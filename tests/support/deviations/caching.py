"""Where Refold sets cache breakpoints, computed from the messages without them: V10.11, of which the seed has none."""

from collections.abc import Sequence
from typing import Any

from .anthropic import DUMMY_FIRST, DUMMY_LAST
from .plain_items import Item, is_message, texts_of

NUMBER = "V10.11"
BREAKPOINT = {"cache_control": {"type": "ephemeral"}}
BLOCKS_A_ROW = 20


def with_breakpoints(answer: Sequence[Any], items: Sequence[Item]) -> list[Any]:
    """
    Return (messages, system) with breakpoints: at the system's end, at the ends of the user's last two messages, and
    at that of the user's last message before them which ends within the full rows of blocks that come before the
    end of the last but one.

    If the last message was added only because no message of the user was last, it does not count: the next request will
    not have it.
    """
    messages = [{**message, "content": _blocks(message["content"])} for message in answer[0]]
    users = [place for place, message in enumerate(messages) if message["role"] == "user"]
    if _is_made_up(answer[0][-1], items):
        users.pop()
    for place in users[-2:] + _standing(messages, users):
        messages[place]["content"][-1] |= BREAKPOINT
    system = answer[1]
    is_marked = system is not None and system.strip()
    return [messages, [{"type": "text", "text": system, **BREAKPOINT}] if is_marked else system]


def _is_made_up(last: dict[str, Any], items: Sequence[Item]) -> bool:
    """A user may have written the same text, but then no message followed it."""
    said = [item for item in items if item["type"].startswith("function") or is_message(item, "user", "assistant")]
    said = [item for item in said if not is_message(item) or "".join(texts_of(item)).strip()]
    is_said = bool(said) and is_message(said[-1], "user") and "".join(texts_of(said[-1])) == last["content"]
    return last["content"] in (DUMMY_FIRST, DUMMY_LAST) and not is_said


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else [dict(block) for block in content]


def _standing(messages: Sequence[dict[str, Any]], users: Sequence[int]) -> list[int]:
    if len(users) < 3:
        return []

    def blocks_to(place: int) -> int:
        return sum(len(message["content"]) for message in messages[: place + 1])

    rows = blocks_to(users[-2]) // BLOCKS_A_ROW
    return [place for place in users[:-2] if blocks_to(place) <= rows * BLOCKS_A_ROW][-1:]
