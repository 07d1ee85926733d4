"""
The estimate of an item's tokens: those of its texts by a counter, and a fixed sum for what surrounds them.

The sums are the seed's (SPEC V2.7 to V2.10). So is the count of texts, save of Chinese, Japanese and Korean ones.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..locks import synchronized
from ..process_forks import renew_in_child
from .counting import SCRIPTS, TokenCounter
from .events import ChatItemEvent, FunctionCalled, FunctionReturned, Image, MessageAdded

if TYPE_CHECKING:
    from .state.arena import Arena
    from .state.sequence import Items

DEFAULT = SCRIPTS
PER_ITEM = 4
PER_IMAGE = 300
PER_CALL = 5


def estimate_tokens(item: ChatItemEvent, counter: TokenCounter = DEFAULT) -> int:
    """Return the estimated tokens of one item; handoffs and config updates count 4 whatever they hold (SPEC V2.10)."""
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
    The estimated tokens of a context by a counter of one's own: each item is counted once, edits or not.

    It may be used from several threads. One follows one context; another one is counted anew.
    """

    def __init__(self, counter: TokenCounter) -> None:
        self._counter = counter
        self._after_fork()
        renew_in_child(self)

    def _after_fork(self) -> None:
        self._lock = threading.Lock()
        self._arena: Arena | None = None
        # By ordinal, as far as somebody asked.
        self._tokens: list[int] = []
        self._seen: Items | None = None
        self._total = 0

    @synchronized
    def total(self, items: Items) -> int:
        """Return the estimated tokens of all these items."""
        if items.arena is not self._arena:
            self._arena, self._tokens, self._seen = items.arena, [], None
        known = len(self._tokens)
        self._tokens += (estimate_tokens(item, self._counter) for item in items.arena.items[known : items.reach])
        if self._seen is not None and items.continues(self._seen):
            total = self._total + sum(self._tokens[self._seen.reach : items.reach])
        else:
            total = sum(map(self._tokens.__getitem__, items.order()))
        # At once: an interrupt between the two would count items twice.
        self._total, self._seen = total, items
        return total
