"""
The estimate of an item's tokens: those of its texts by a counter, and a fixed sum for what surrounds them.

The sums are the seed's (SPEC V2.7 to V2.10). So is the count of texts, save of Chinese, Japanese and Korean ones.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from .counting import SCRIPTS, TokenCounter
from .events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded

if TYPE_CHECKING:
    from .state.sequence import Items

__all__ = ["DEFAULT", "RunningTokens", "estimate_tokens"]

DEFAULT = SCRIPTS
PER_ITEM = 4
PER_IMAGE = 300
PER_CALL = 5


def estimate_tokens(item: ChatItemEvent, counter: TokenCounter = DEFAULT) -> int:
    """
    Return the estimated tokens of one item; handoffs and config updates count 4 whatever they hold (SPEC V2.10).
    """
    if isinstance(item, MessageAdded):
        return PER_ITEM + _content_tokens(item.content, counter)
    if isinstance(item, FunctionCalled):
        return PER_ITEM + counter(item.name) + PER_CALL + counter(item.arguments)
    if isinstance(item, FunctionReturned):
        return PER_ITEM + counter(item.name) + PER_CALL + counter(item.output)
    return PER_ITEM


def _content_tokens(content: str | tuple[str | Image, ...], counter: TokenCounter) -> int:
    if isinstance(content, str):
        return counter(content)
    tokens = 0
    for part in content:
        tokens += counter(part) if isinstance(part, str) else PER_IMAGE
    return tokens


class RunningTokens:
    """
    The estimated tokens of a context that grows, by a counter of one's own: each item is counted once.

    It may be used from several threads. One that follows `chat.recorded_items()` counts what came since it last
    looked; another context, or an earlier version of the same, is counted anew.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._lock = threading.Lock()
        self._seen: Items | None = None
        self._total = 0

    def total(self, items: Items) -> int:
        """
        Return the estimated tokens of all these items.
        """
        with self._lock:
            seen, total = self._seen, self._total
            if seen is None or not items.continues(seen):
                seen, total = None, 0
            for item in items[len(seen or ()) :]:
                total += estimate_tokens(item, self._counter)
            self._seen, self._total = items, total
            return total
