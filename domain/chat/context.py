"""
The chat context: what an agent's conversation holds, and all that it ever held.

A thin class in four parts: what is appended, what is edited, what is forked, what is joined. It makes items of what it
is given, lets the journal decide and record, and shows the folded state. Without a store it stands on a log in
memory; the calls are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

from ..clock import REAL_SYSTEM, System
from ..context.adopt import adopted_events
from ..context.context import Context
from ..context.journal import Journal
from ..context.view import Durability, Place
from ..log.envelope import RecordedEvent
from ..log.memory_log import MemoryLog
from ..log.ports import Log, NewEvents
from ..positions import Moment
from .calls.appending import AppendingChat
from .calls.editing import EditingChat
from .calls.forkable import ForkableChat
from .calls.home import ChatHome
from .calls.joining import JoiningChat
from .calls.past import PastSource, ReadOnlyChatContext
from .calls.receiving import ReceivingChat
from .dict_form import items_from_dict
from .events import Opened
from .items import ChatItem
from .rules.commands import NameVersion, Open
from .rules.decide import CHAT
from .state.fold import ChatState

if TYPE_CHECKING:
    # A replay needs a context to run in, so it is imported where one is asked for.
    from .replay import Policy, Replay

DETACHED = Place("chat:detached", "detached")
T = TypeVar("T")


class ChatContext(AppendingChat, EditingChat, JoiningChat, ReceivingChat, ForkableChat, Context):
    """
    A chat context: messages, function calls and outputs, handoffs and config updates, in order (SPEC V2).

    `ChatContext()` is detached, on a log in memory; `store.chat(id)` gives one that is kept. Every changing
    call is an event and takes `expected_version=` (be strict about who came first) and `idempotency_key=`
    (a repetition gives the first result).
    """

    def __init__(
        self,
        items: Sequence[ChatItem] | None = None,
        *,
        journal: Journal[ChatState] | None = None,
        home: ChatHome | None = None,
        system: System = REAL_SYSTEM,
    ) -> None:
        used = journal or Journal(MemoryLog(system), DETACHED, CHAT, version=0)
        super().__init__(used, home or _home_of(used, system, is_detached=journal is None))
        if journal is None:
            used.execute(Open(Opened()))
        if items:
            self.add_items(items)

    @classmethod
    def empty(cls) -> ChatContext:
        """Return a new detached context without items (SPEC V2.2)."""
        return cls()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ChatContext:
        """
        Return a detached context with the items of `to_dict()` (SPEC V13.4).

        Raises:
            KeyError: `items`, or an item's `id` or `type`, is missing.
            ValueError: a role that does not exist, or a field of the wrong type.
        """
        return cls(items_from_dict(data))

    @property
    def is_detached(self) -> bool:
        """Whether the context stands on a log of its own in memory."""
        return self._live.home.is_detached

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """Go on in a store's log, which holds the same events; `store.adopt` does this."""
        self._journal.move_to(log, place, durability, unflushed)
        self._live.home = _home_of(self._journal, self._system, is_detached=False)
        self._forget_shown()

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """Return what a store must append so that this detached context is there as `stream`."""
        return adopted_events(self._journal.log, self._journal.place.stream, stream, root=root)

    def at(self, moment: int | str | datetime | Moment) -> ReadOnlyChatContext:
        """
        Return the context as it was: at a version, a time, a position of the log, or a named version.

        An int is a version, negative from the head (-1: the version before it); an aware datetime, or ISO
        text with a zone, a time; `"pos:P"` a position; any other text a name (DESIGN.md, Addressing).

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text is none of these, or a time without a zone.
        """
        version = self.version_at(moment)
        journal = self._journal
        is_present = version == journal.version
        state = journal.state if is_present and journal.is_loaded else journal.decided_past(version)
        return ReadOnlyChatContext.of(PastSource(self._live.home, journal.place.stream, version, state))

    @property
    def readonly(self) -> ReadOnlyChatContext:
        """A live view of this context that cannot be changed (SPEC V12)."""
        return ReadOnlyChatContext(self)

    def history(self, *, after: int = 0, until: int | None = None) -> list[RecordedEvent]:
        """Return the recorded events themselves: versions above `after`, up to and including `until`."""
        return self.recorded_events(after=after, until=until)

    def replay(self, policy: Policy | str) -> Replay:
        """
        Run this context's history again under another policy, and say what the model would have seen (offline).

        A policy is called with a detached context before each call of the model, and may truncate or evict there; or
        it is a name: `all`, `tokens:8000`, `items:50`.

        Raises:
            InvalidInputError: there is no policy of this name, or it is to be awaited (`areplay`).
        """
        from .replay import replay_now

        return replay_now(*self._replayed(policy))

    async def areplay(self, policy: Policy | str) -> Replay:
        """`replay()` with a policy that may be awaited, such as `lambda chat: chat.summarize(llm)`."""
        from .replay import replay_awaited

        return await replay_awaited(*self._replayed(policy))

    def _replayed(self, policy: Policy | str) -> tuple[Replay, Iterator[Any]]:
        from .replay import policy_of, replayed

        self.flush()
        journal = self._journal
        own = journal.events(until=journal.version)
        events = journal.decider.complete(journal.log, own)
        wanted = policy_of(policy) if isinstance(policy, str) else policy
        return replayed(events, len(own) - len(events) + 1, wanted)

    def _naming(self, name: str, version: int) -> NameVersion:
        return NameVersion(name, version)


def _home_of(journal: Journal[ChatState], system: System, *, is_detached: bool) -> ChatHome:
    return ChatHome(
        journal.log,
        lambda forked, home: ChatContext(journal=forked, home=home),
        system=system,
        durability=journal.durability,
        unflushed=journal.unflushed,
        is_detached=is_detached,
    )
