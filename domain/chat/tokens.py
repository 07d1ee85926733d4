"""
The estimate of tokens: about four characters each, as the seed counts them (SPEC V2.7 to V2.10).
"""

from __future__ import annotations

from .events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded

__all__ = ["estimate_tokens"]

PER_ITEM = 4
PER_IMAGE = 300
PER_CALL = 5


def estimate_tokens(item: ChatItemEvent) -> int:
    """
    Return the estimated tokens of one item; handoffs and config updates count 4 whatever they hold.
    """
    if isinstance(item, MessageAdded):
        return PER_ITEM + _content_tokens(item.content)
    if isinstance(item, FunctionCalled):
        return PER_ITEM + len(item.name) // 4 + PER_CALL + len(item.arguments) // 4
    if isinstance(item, FunctionReturned):
        return PER_ITEM + len(item.name) // 4 + PER_CALL + len(item.output) // 4
    return PER_ITEM


def _content_tokens(content: str | tuple[str | Image, ...]) -> int:
    if isinstance(content, str):
        return len(content) // 4
    tokens = 0
    for part in content:
        tokens += len(part) // 4 if isinstance(part, str) else PER_IMAGE
    return tokens
