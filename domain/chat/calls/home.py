"""Where a chat context lives, as far as its forks must know: they are opened there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ...clock import System
from ...context.attachment import Home
from ...context.journal import Journal
from ...context.view import Durability
from ...log.ports import Log

if TYPE_CHECKING:
    # A context opens its forks through its home; only the name of its class is needed here.
    from ..context import ChatContext


class ChatHome(Home):
    """The home of a context and of everything that is forked from it, and how a context is opened there."""

    def __init__(
        self,
        log: Log,
        open_context: Callable[[Journal[Any], ChatHome], ChatContext],
        *,
        system: System,
        durability: Durability,
        unflushed: set[Journal[Any]] | None,
        is_detached: bool,
    ) -> None:
        super().__init__(log, system=system, durability=durability, unflushed=unflushed, is_detached=is_detached)
        self.open_context = open_context
