"""
Where a context lives: what it shares with its forks and branches, which live there too.
"""

from __future__ import annotations

from typing import Any

from .journal import Durability, Journal
from .ports import Log
from .system import System

__all__ = ["Home"]


class Home:
    """A log, the system of its contexts, and how their changes get to the disk; detached without a store."""

    def __init__(
        self,
        log: Log,
        *,
        system: System,
        durability: Durability,
        unflushed: set[Journal[Any]] | None,
        is_detached: bool,
    ) -> None:
        self.log, self.system = log, system
        self.durability, self.unflushed = durability, unflushed
        self.is_detached = is_detached

    def is_shared_with(self, other: Home) -> bool:
        """
        Return whether another context lies in the same log, so that each can name the other's items.
        """
        return self.log is other.log
