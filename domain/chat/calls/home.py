"""
Where a context lives, as far as its forks must know: they live there too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...journal import Durability, Journal
from ...ports import Log
from ...system import System

if TYPE_CHECKING:
    # A context opens its forks through its home; only the name of its class is needed here.
    from ..context import ChatContext

__all__ = ["Home"]


class Home:
    """A log, and how contexts on it are opened; shared by a context and everything that is forked from it."""

    def __init__(
        self,
        log: Log,
        open_context: Callable[[Journal[Any], Home], ChatContext],
        *,
        system: System,
        durability: Durability,
        unflushed: set[Journal[Any]] | None,
        is_detached: bool,
    ) -> None:
        self.log, self.system = log, system
        self.open_context = open_context
        self.durability, self.unflushed = durability, unflushed
        self.is_detached = is_detached

    def is_shared_with(self, other: Home) -> bool:
        """
        Return whether another context lies in the same log, so that each can name the other's items.
        """
        return self.log is other.log
