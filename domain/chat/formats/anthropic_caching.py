"""
Where the cache breakpoints stand (SPEC V10.11): at most four, and moving them changes nothing else.

One ends the system text, which also covers the tools before it. Two stand at the ends of the last two messages of
the user: the later one is written by this request, the earlier one is what the last request wrote. The fourth
stands still for a while: it ends the last user's message that lies wholly within full rows of BLOCKS_A_ROW blocks,
so that something is found even where the latest turns are sent differently, or the context has grown by more
blocks than the provider looks back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BLOCKS_A_ROW = 20


def marked_system(system: str | None) -> str | list[dict[str, Any]] | None:
    """Return the system text as a block with a breakpoint; what is blank cannot have one."""
    if system is None or not system.strip():
        return system
    return [_marked({"type": "text", "text": system})]


def mark_messages(messages: Sequence[dict[str, Any]]) -> None:
    """Set up to three breakpoints into `messages`, whose content is blocks."""
    ends, blocks = [], 0
    for message in messages:
        blocks += len(message["content"])
        if message["role"] == "user":
            ends.append((blocks, message["content"][-1]))
    for _, block in ends[-2:]:
        _marked(block)
    if len(ends) < 3:
        return
    full = ends[-2][0] // BLOCKS_A_ROW * BLOCKS_A_ROW
    still = [block for end, block in ends[:-2] if end <= full]
    if still:
        _marked(still[-1])


def _marked(block: dict[str, Any]) -> dict[str, Any]:
    block["cache_control"] = {"type": "ephemeral"}
    return block
