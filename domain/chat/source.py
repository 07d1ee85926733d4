"""Where a chat context is read from: its journal, or a version of its stream; and where its forks are opened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..clock import System
from ..context.attachment import Home
from ..context.decider import trusted
from ..context.journal import Journal
from ..context.view import Durability
from ..log.ports import Log, StreamEnd
from ..totals import Totals
from .rules.decide import CHAT
from .state.fold import ChatState
from .state.loading import complete


class ChatHome(Home):
    """The home of a context and of everything that is forked from it, and how a context is opened there."""

    def __init__(
        self,
        log: Log,
        open_context: Callable[[Journal[Any], ChatHome], Any],
        *,
        system: System,
        durability: Durability,
        unflushed: set[Journal[Any]] | None,
        is_detached: bool,
    ) -> None:
        super().__init__(log, system=system, durability=durability, unflushed=unflushed, is_detached=is_detached)
        self.open_context = open_context


class ChatSource(Protocol):
    """Where a view reads: a state at a version, and the last events before it without the whole."""

    @property
    def home(self) -> ChatHome:
        """Where the context lives."""

    @property
    def stream(self) -> str:
        """The stream of the context."""

    @property
    def version(self) -> int:
        """The version that is shown."""

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""

    @property
    def state(self) -> ChatState:
        """The folded state at `version`."""

    @property
    def totals(self) -> Totals:
        """How much is held: items, turns and estimated tokens."""

    def last_events(self, count: int) -> list[Any]:
        """Return the last `count` events up to `version`, without reading those before them."""

    def settle(self) -> None:
        """Wait until what is shown is on disk, so that other streams may name it."""


class LiveSource:
    """The present of a chat context, read through its journal."""

    def __init__(self, journal: Journal[ChatState], home: ChatHome) -> None:
        self.journal = journal
        self.home = home

    @property
    def stream(self) -> str:
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
        return self.state.items.totals

    def settle(self) -> None:
        """Wait until what is queued is on disk, so that other streams may name it."""
        self.journal.flush()

    def last_events(self, count: int) -> list[Any]:
        """Return the last `count` events of the stream."""
        version = self.journal.version
        return self.journal.events(after=max(0, version - count), until=version)


class PastSource:
    """One version of one stream; its state is read once, at the first use."""

    def __init__(self, home: ChatHome, stream: str, version: int, state: ChatState | None = None) -> None:
        self._home, self._stream, self._version = home, stream, version
        self._state = state

    @property
    def home(self) -> ChatHome:
        return self._home

    @property
    def stream(self) -> str:
        return self._stream

    @property
    def version(self) -> int:
        return self._version

    @property
    def is_loaded(self) -> bool:
        return self._state is not None

    @property
    def state(self) -> ChatState:
        if self._state is None:
            log = self._home.log
            events = log.read_events(self._stream, until=self._version, known=StreamEnd(self._version))
            with trusted(self._stream):
                self._state = CHAT.fold(CHAT.initial_state, complete(log, events))
        return self._state

    @property
    def totals(self) -> Totals:
        return self.state.items.totals

    def last_events(self, count: int) -> list[Any]:
        after = max(0, self._version - count)
        known = StreamEnd(self._version)
        return self._home.log.read_events(self._stream, after=after, until=self._version, known=known)

    def settle(self) -> None:
        """Do nothing: the past was on disk before it could be asked for."""
