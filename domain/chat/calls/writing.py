"""What the changing halves of a chat context stand on: its journal, and how a command is carried out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...canonical import Without
from ...clock import System
from ...context.journal import Journal, Outcome
from ...totals import Totals
from ..events import ChatItemEvent, Image
from ..items import ChatItem
from ..rules.commands import ChatCommand
from ..state.fold import ChatState
from .home import ChatHome
from .reading import ChatView

# What is made up for an item where its caller does not say it.
MADE_UP = ("id", "created_at")


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
        call: object = None,
    ) -> Outcome:
        """Carry out what is decided on the whole state: when another writer came first, it is told (P8)."""
        _ = self._journal.state
        return self._journal.execute(
            command,
            call=call,
            expected_version=expected_version,
            idempotency_key=idempotency_key,
            catch_up=catch_up,
        )


def as_given(event: ChatItemEvent, *made_up: str) -> Without:
    """
    Return an item as its caller gave it, for the fingerprint of a call: without the fields that were made up, nor the
    ids of images.
    """
    content = getattr(event, "content", None)
    if isinstance(content, tuple):
        parts = tuple(Without(part, "id") if isinstance(part, Image) else part for part in content)
        return Without(event, *made_up, content=parts)
    return Without(event, *made_up)


def items_as_given(items: Sequence[ChatItem], events: Sequence[ChatItemEvent]) -> list[Without]:
    """Return items that a caller made, as they were given: an id or a time that was not said was made up."""
    return [
        as_given(event, *(field for field in MADE_UP if field not in item.model_fields_set))
        for item, event in zip(items, events, strict=True)
    ]
