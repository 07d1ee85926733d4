"""Reports of imports: the result for each context, and notes on surprises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

Outcome = Literal["added", "extended", "unchanged"]
Progress = Callable[[int, int], None]


class ImportedContext(msgspec.Struct, frozen=True, kw_only=True):
    """The result for one run: `messages` and `items` count what was written."""

    id: str
    outcome: Outcome
    messages: int
    items: int


class ImportReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an import; `notes` are sentences about what the user may not expect."""

    contexts: tuple[ImportedContext, ...]
    notes: tuple[str, ...] = ()

    @property
    def added(self) -> int:
        """The number of contexts that are new."""
        return self._count("added")

    @property
    def extended(self) -> int:
        """The number of contexts that were there and have grown."""
        return self._count("extended")

    @property
    def unchanged(self) -> int:
        """The number of contexts that held everything already."""
        return self._count("unchanged")

    @property
    def messages(self) -> int:
        """The number of messages that were written."""
        return sum(context.messages for context in self.contexts)

    @property
    def items(self) -> int:
        """The number of items that were written; a message can be several."""
        return sum(context.items for context in self.contexts)

    def _count(self, outcome: Outcome) -> int:
        return sum(context.outcome == outcome for context in self.contexts)
