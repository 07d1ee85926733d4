"""What a model is shown, call by call, kept so that many prompts of a long history take no more than the history."""

from __future__ import annotations

from .events import ChatItemEvent
from .rules.rolling import RollingTruncation
from .state.sequence import Items
from .tokens import estimate_tokens


class Prompts:
    """Prompts of any kind: each as what it shares with the beginning of the one before, and what follows that."""

    def __init__(self) -> None:
        self._last = Items()
        self._steps: list[tuple[int, tuple[ChatItemEvent, ...]]] = []

    def add(self, items: Items) -> int:
        """Add a prompt, and return the estimated tokens of the beginning that the one before had too."""
        shared, tokens = _shared(items, self._last)
        self._steps.append((shared, tuple(items[shared:])))
        self._last = items
        return tokens

    def items(self, number: int) -> list[ChatItemEvent]:
        """Return the items of a prompt, counted from 0."""
        parts: list[tuple[ChatItemEvent, ...]] = []
        end: int | None = None
        for shared, behind in reversed(self._steps[: number + 1]):
            parts.append(behind if end is None else behind[: max(0, end - shared)])
            end = shared if end is None else min(end, shared)
        return [item for part in reversed(parts) for item in part]


def _shared(items: Items, earlier: Items) -> tuple[int, int]:
    """Return how many items two prompts begin with alike, and their tokens."""
    if items.continues(earlier):
        return len(earlier), earlier.tokens
    count = tokens = 0
    for mine, other in zip(items, earlier, strict=False):
        if mine is not other and mine != other:
            break
        count, tokens = count + 1, tokens + estimate_tokens(mine)
    return count, tokens


class TruncatedPrompts:
    """Prompts of a history that is truncated before each: how much of it had come, and what had left."""

    def __init__(self, history: RollingTruncation) -> None:
        self._history = history
        self._tokens = 0
        # How many items had come at each prompt, and in which one each that left was missing first.
        self._reach: list[int] = []
        self._gone: dict[int, int] = {}

    def add(self) -> int:
        """Truncate for a prompt, and return the estimated tokens of the beginning that the one before had too."""
        history = self._history
        leaving = history.truncate()
        self._gone.update(dict.fromkeys(leaving, len(self._reach)))
        is_shorter = bool(leaving and self._reach and leaving[0] < self._reach[-1])
        shared = history.tokens_before(leaving[0]) if is_shorter else self._tokens
        self._reach.append(len(history.items))
        self._tokens = history.tokens
        return shared

    def items(self, number: int) -> list[ChatItemEvent]:
        """Return the items of a prompt, counted from 0."""
        come = self._history.items[: self._reach[number]]
        return [item for place, item in enumerate(come) if self._gone.get(place, number + 1) > number]
