"""
A chat context as it was at one version: what `.at()` gives.

Nothing is read before it is asked for, and the last items are read without those before them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ..errors import DecisionRefusedError
from ..ports import Log
from .decide import CHAT
from .reading import ChatView
from .state import ChatState

__all__ = ["PastSource", "ReadOnlyChatContext"]

REFUSAL = (
    "This ChatContext is read-only. To modify it, create a mutable copy with ctx.copy() or ctx.fork() "
    "and modify that instead."
)


class ReadOnlyError(DecisionRefusedError, RuntimeError):
    """A view of the past was asked to change (SPEC V12.3)."""


class PastSource:
    """One version of one stream; its state is read once, at the first use."""

    def __init__(self, log: Log, stream: str, version: int, state: ChatState | None = None) -> None:
        self._log, self._stream, self._version = log, stream, version
        self._state = state

    @property
    def version(self) -> int:
        """The version that is shown."""
        return self._version

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""
        return self._state is not None

    @property
    def state(self) -> ChatState:
        """The folded state at the version."""
        if self._state is None:
            events = self._log.read_events(self._stream, until=self._version)
            self._state = CHAT.fold(CHAT.initial_state, events)
        return self._state

    def last_events(self, count: int) -> list[Any]:
        """
        Return the last `count` events up to the version.
        """
        after = max(0, self._version - count)
        return self._log.read_events(self._stream, after=after, until=self._version)


class ReadOnlyChatContext(ChatView):
    """A chat context that can be read only; every changing call raises RuntimeError (SPEC V12)."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ReadOnlyError(REFUSAL)

    add_message = add_function_call = add_function_output = add_handoff = add_config_update = _refuse
    add_items = record_items = name_version = _refuse
