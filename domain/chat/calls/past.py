"""
A chat context that can be read only: as it was at one version (what `.at()` gives), or as it is, live.

Nothing is read before it is asked for, and the last items are read without those before them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn

from ...context.decider import trusted
from ...errors import DecisionRefusedError
from ...log.ports import StreamEnd
from ...totals import Totals
from ..dict_form import items_from_dict
from ..items import ChatItem
from ..rules.decide import CHAT
from ..state.fold import ChatState
from ..state.loading import complete
from .forkable import ForkableChat
from .home import ChatHome
from .reading import ChatSource

REFUSAL = (
    "This ChatContext is read-only. To modify it, create a mutable copy with ctx.copy() or ctx.fork() "
    "and modify that instead."
)


class ReadOnlyError(DecisionRefusedError, RuntimeError):
    """A view that can be read only was asked to change (SPEC V12.3)."""


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


class ReadOnlyChatContext(ForkableChat):
    """
    A chat context that can be read only; every changing call raises RuntimeError (SPEC V12).

    `ReadOnlyChatContext(context)` is a live view of a context, `ReadOnlyChatContext(items)` one of items that
    stay as they are; `context.at(moment)` gives one of the past.
    """

    def __init__(self, shown: ForkableChat | Sequence[ChatItem]) -> None:
        super().__init__(_source_of(shown))

    @classmethod
    def of(cls, source: ChatSource) -> ReadOnlyChatContext:
        """Return a view that reads through `source`."""
        view = cls.__new__(cls)
        ForkableChat.__init__(view, source)
        return view

    @classmethod
    def empty(cls) -> ReadOnlyChatContext:
        """Return a view without items (SPEC V12.6)."""
        return cls([])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ReadOnlyChatContext:
        """
        Return a view of the items of `to_dict()` (SPEC V12.6).

        Raises:
            KeyError: `items`, or an item's `id` or `type`, is missing.
            ValueError: a role that does not exist, or a field of the wrong type.
        """
        return cls(items_from_dict(data))

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise ReadOnlyError(REFUSAL)

    add_message = add_function_call = add_function_output = add_handoff = add_config_update = _refuse
    add_items = record_items = name_version = insert = insert_many = truncate = evict = restore = _refuse
    pin = unpin = clear = cleanup = summarize = undo_summary = merge = merge_result = merge_with_summary = _refuse


def _source_of(shown: ForkableChat | Sequence[ChatItem]) -> ChatSource:
    if isinstance(shown, ForkableChat):
        return shown._source
    # Items of nobody: a context of their own, which nobody can change, holds them.
    from ..context import ChatContext

    return ChatContext(shown)._source
