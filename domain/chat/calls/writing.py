"""
What the changing halves of a chat context stand on: its journal, and how a command is carried out.
"""

from __future__ import annotations

from typing import Any

from ...journal import Journal, Outcome
from ...system import System
from ...totals import Totals
from ..rules.commands import ChatCommand
from ..state.fold import ChatState
from .home import ChatHome
from .reading import ChatView

__all__ = ["LiveSource", "WritableChat"]


class LiveSource:
    """The present of a chat context, read through its journal."""

    def __init__(self, journal: Journal[ChatState], home: ChatHome) -> None:
        self.journal = journal
        self.home = home

    @property
    def stream(self) -> str:
        """The stream of the context."""
        return self.journal.place.stream

    @property
    def version(self) -> int:
        """The version the journal has reached."""
        return self.journal.version

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing, or is needed: the log alone does not tell what is on its way there."""
        return self.journal.is_loaded or self.journal.is_ahead

    @property
    def state(self) -> ChatState:
        """The folded state of the journal."""
        return self.journal.state

    @property
    def totals(self) -> Totals:
        """How much is held: items, turns and estimated tokens."""
        return self.state.items.totals

    def settle(self) -> None:
        """
        Wait until what is queued is on disk, so that other streams may name it.
        """
        self.journal.flush()

    def last_events(self, count: int) -> list[Any]:
        """
        Return the last `count` events of the stream.
        """
        version = self.journal.version
        return self.journal.events(after=max(0, version - count), until=version)


class WritableChat(ChatView):
    """A chat context that can be changed, without the calls that do it."""

    def __init__(self, journal: Journal[ChatState], home: ChatHome) -> None:
        self._journal = journal
        self._live = LiveSource(journal, home)
        super().__init__(self._live)

    @property
    def _system(self) -> System:
        return self._live.home.system

    def _edit(
        self,
        command: ChatCommand,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
        catch_up: bool = False,
    ) -> Outcome:
        """Carry out what is decided on the whole state: when another writer came first, it is told (P8)."""
        _ = self._journal.state
        return self._journal.execute(
            command, expected_version=expected_version, idempotency_key=idempotency_key, catch_up=catch_up
        )
