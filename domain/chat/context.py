"""
The chat context: what an agent's conversation holds, and all that it ever held.

A thin class in four parts: what is appended, what is edited, what is forked, what is joined. It makes items of what it
is given, lets the journal decide and record, and shows the folded state. Without a store it stands on a log in
memory; the calls are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ..envelope import RecordedEvent
from ..errors import NotFoundError
from ..history import resolve_version
from ..journal import Durability, Journal, Place
from ..memory_log import MemoryLog
from ..ports import Log, NewEvents
from ..positions import Moment
from ..streams import split_stream_id
from ..system import REAL_SYSTEM, System
from ..threads import in_thread
from .calls.adopting import adopted_events
from .calls.appending import AppendingChat
from .calls.editing import EditingChat
from .calls.forkable import ForkableChat
from .calls.home import Home
from .calls.joining import JoiningChat
from .calls.past import PastSource, ReadOnlyChatContext
from .calls.receiving import ReceivingChat
from .events import Opened
from .items import ChatItem
from .rules.commands import NameVersion, Open
from .rules.decide import CHAT
from .seed_dict import items_from_dict
from .state.fold import ChatState

__all__ = ["ChatContext"]

DETACHED = Place("chat:detached", "detached")
T = TypeVar("T")


class ChatContext(AppendingChat, EditingChat, JoiningChat, ReceivingChat, ForkableChat):
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
        home: Home | None = None,
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
        """
        Return a new detached context without items (SPEC V2.2).
        """
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
    def id(self) -> str:
        """The context's id within its store; "detached" without one."""
        return split_stream_id(self._journal.place.stream)[1]

    @property
    def is_detached(self) -> bool:
        """Whether the context stands on a log of its own in memory."""
        return self._live.home.is_detached

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """
        Go on in a store's log, which holds the same events; `store.adopt` does this.
        """
        self._journal.move_to(log, place, durability, unflushed)
        self._live.home = _home_of(self._journal, self._system, is_detached=False)
        self._forget_shown()

    def adopted_events(self, stream: str, *, root: str) -> list[NewEvents]:
        """
        Return what a store must append so that this detached context is there as `stream`.
        """
        return adopted_events(self._journal.log, self._journal.place.stream, stream, root=root)

    @property
    def came_between(self) -> tuple[RecordedEvent, ...]:
        """What others had recorded when the last call of this context came second; else empty."""
        return self._journal.came_between

    # The past

    def at(self, moment: int | str | datetime | Moment) -> ReadOnlyChatContext:
        """
        Return the context as it was: at a version, a time, a position of the log, or a named version.

        An int is a version, negative from the head (-1: the version before it); an aware datetime, or ISO
        text with a zone, a time; `"pos:P"` a position; any other text a name (DESIGN.md, Addressing).

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text is none of these, or a time without a zone.
        """
        self.flush()
        journal = self._journal
        is_name = isinstance(moment, str) and moment[:1].isalpha() and not moment.startswith("pos:")
        names = journal.state.names if is_name else {}
        version = resolve_version(journal.log, journal.place.stream, moment, head=journal.version, names=names)
        is_present = version == journal.version
        state = journal.state if is_present and journal.is_loaded else journal.decided_past(version)
        return ReadOnlyChatContext.of(PastSource(self._live.home, journal.place.stream, version, state))

    @property
    def readonly(self) -> ReadOnlyChatContext:
        """A live view of this context that cannot be changed (SPEC V12)."""
        return ReadOnlyChatContext(self)

    def name_version(
        self,
        name: str,
        version: int | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> int:
        """
        Give a version (the present one by default) a name, and return the version.

        The same name given to another version moves it.

        Raises:
            InvalidInputError: the name does not start with a letter, or holds `@`, `:`, `..` or a blank.
            NotFoundError: there is no such version.
        """
        named = self.version if version is None else version
        if not 0 < named <= self.version:
            raise NotFoundError(f"{self._journal.place.stream} has no version {named}: it is at {self.version}")
        _ = self._journal.state
        command = NameVersion(name, named)
        self._journal.execute(command, expected_version=expected_version, idempotency_key=idempotency_key)
        return named

    def names(self) -> dict[str, int]:
        """
        Return the names given so far and the versions they stand for.
        """
        return dict(self._journal.state.names)

    def history(self, *, after: int = 0, until: int | None = None) -> list[RecordedEvent]:
        """
        Return the recorded events themselves: versions above `after`, up to and including `until`.
        """
        self.flush()
        return self._journal.log.read(self._journal.place.stream, after=after, until=until)

    # Other writers, and the disk

    def refresh(self) -> tuple[RecordedEvent, ...]:
        """
        Catch up with what others wrote, and return it.
        """
        return self._journal.refresh()

    def rebase(self, change: Callable[[ChatContext], T]) -> T:
        """
        Refresh, run `change(self)`, and do so again as long as another writer comes first.

        Raises:
            ConcurrencyError: it did so a hundred times.
        """
        result: T = self._journal.retry(lambda: change(self))
        return result

    def cleanup(self) -> None:
        """
        Let go of the memory that the view takes, and record nothing; the next use reads the context again.

        To take everything out of the view, `clear()` (SPEC V13.6).
        """
        self._journal.forget()
        self._forget_shown()

    def flush(self) -> None:
        """
        Wait until everything queued is on disk; does nothing with durability "commit".

        Raises:
            ConcurrencyError, StorageError: with `refused`, the events that did not get in; the view has
                been set back to what is on disk.
        """
        self._journal.flush()

    async def aflush(self) -> None:
        """
        `flush()` for a running event loop.
        """
        await in_thread(self.flush)


def _home_of(journal: Journal[ChatState], system: System, *, is_detached: bool) -> Home:
    return Home(
        journal.log,
        lambda forked, home: ChatContext(journal=forked, home=home),
        system=system,
        durability=journal.durability,
        unflushed=journal.unflushed,
        is_detached=is_detached,
    )
