"""
The number of items and tokens of a container, or their change by an event.

An event contains its change, so that totals can be kept without reading an item.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import msgspec

from .log.admission import Total


class Totals(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Numbers of items, of user messages among them, and of estimated tokens; negative for items that leave."""

    items: Total = 0
    turns: Total = 0
    tokens: Total = 0

    def __neg__(self) -> Totals:
        return Totals(-self.items, -self.turns, -self.tokens)

    def __add__(self, other: Totals) -> Totals:
        return Totals(self.items + other.items, self.turns + other.turns, self.tokens + other.tokens)

    def __sub__(self, other: Totals) -> Totals:
        return Totals(self.items - other.items, self.turns - other.turns, self.tokens - other.tokens)


class Counted(Protocol):
    """An item that knows its part of the totals."""

    @property
    def totals(self) -> Totals:
        """Its count and its tokens."""


def total_of(items: Iterable[Counted]) -> Totals:
    """Return the totals of several items together."""
    return sum((item.totals for item in items), Totals())
