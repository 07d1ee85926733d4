"""
The chat context: what an agent's conversation holds, and all that it ever held.

A thin class: it makes items of what it is given, lets the journal decide and record, and shows the folded
state. Without a store it stands on a log in memory; the calls are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar

from ..envelope import Event, RecordedEvent
from ..errors import InvalidInputError, NotFoundError
from ..history import resolve_version
from ..journal import Durability, Journal, Outcome, Place
from ..memory_log import MemoryLog
from ..ports import Log
from ..positions import Moment
from ..streams import split_stream_id
from ..system import REAL_SYSTEM, System
from ..threads import in_thread
from .decide import CHAT, AddItems, NameVersion, Open
from .events import (
    ITEM_EVENTS,
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    MessageAdded,
    Opened,
)
from .items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatContent,
    ChatItem,
    ChatMessage,
    ChatRole,
    FunctionCall,
    FunctionCallOutput,
)
from .making import make_event
from .past import PastSource, ReadOnlyChatContext
from .reading import ChatView
from .seed_dict import items_from_dict
from .state import ChatState
from .views import item_of, recorded_form

__all__ = ["ChatContext"]

DETACHED = Place("chat:detached", "detached")
T = TypeVar("T")
Item = TypeVar("Item", bound=ChatItem)


class LiveSource:
    """The present of a chat context, read through its journal."""

    def __init__(self, journal: Journal[ChatState]) -> None:
        self.journal = journal

    @property
    def version(self) -> int:
        """The version the journal has reached."""
        return self.journal.version

    @property
    def is_loaded(self) -> bool:
        """Whether `state` costs nothing."""
        return self.journal.is_loaded

    @property
    def state(self) -> ChatState:
        """The folded state of the journal."""
        return self.journal.state

    def last_events(self, count: int) -> list[Any]:
        """
        Return the last `count` events of the stream.
        """
        version = self.journal.version
        return self.journal.events(after=max(0, version - count), until=version)


class ChatContext(ChatView):
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
        system: System = REAL_SYSTEM,
    ) -> None:
        self._system = system
        self._is_detached = journal is None
        self._journal = journal or Journal(MemoryLog(system), DETACHED, CHAT, version=0)
        super().__init__(LiveSource(self._journal))
        if journal is None:
            self._journal.execute(Open(Opened()))
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
        return self._is_detached

    def attach(self, log: Log, place: Place, durability: Durability, unflushed: set[Journal[Any]]) -> None:
        """
        Go on in a store's log, which holds the same events; `store.adopt` does this.
        """
        self._journal.move_to(log, place, durability, unflushed)
        self._is_detached = False

    @property
    def came_between(self) -> tuple[RecordedEvent, ...]:
        """What others had recorded when the last call of this context came second; else empty."""
        return self._journal.came_between

    # What is added

    def add_message(
        self,
        role: ChatRole | str,
        content: str | Sequence[ChatContent],
        message_id: str | None = None,
        created_at: float | None = None,
        agent_id: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ChatMessage:
        """
        Append a message and return it; a text becomes a list of one part (SPEC V2.11 to V2.13).

        Raises:
            pydantic.ValidationError: the role or the content is of no use (SPEC V2.16; a ValueError).
            DuplicateItemError: another item has this id.
        """
        parts = (content,) if isinstance(content, str) else tuple(content) if isinstance(content, list) else content
        event = make_event(
            MessageAdded,
            id=message_id or self._system.new_id("msg_"),
            created_at=created_at or self._system.now(),
            agent_id=agent_id,
            role=role,
            content=parts,
        )
        return self._add(ChatMessage, event, expected_version, idempotency_key, id_is_given=bool(message_id))

    def add_function_call(
        self,
        name: str,
        arguments: str,
        call_id: str | None = None,
        agent_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> FunctionCall:
        """
        Append a function call and return it; `arguments` is text, as the model wrote it (SPEC V2.17).

        Raises:
            pydantic.ValidationError: the arguments are not text.
        """
        event = make_event(
            FunctionCalled,
            id=self._system.new_id("call_"),
            created_at=self._system.now(),
            agent_id=agent_id,
            name=name,
            arguments=arguments,
            call_id=call_id or self._system.new_id("call_"),
            **({} if metadata is None else {"metadata": metadata}),
        )
        return self._add(FunctionCall, event, expected_version, idempotency_key)

    def add_function_output(
        self,
        name: str,
        output: str,
        call_id: str,
        is_error: bool = False,
        agent_id: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> FunctionCallOutput:
        """
        Append the output of a function and return it; any `call_id` is taken (SPEC V2.18).

        Raises:
            pydantic.ValidationError: the output is not text.
        """
        event = make_event(
            FunctionReturned,
            id=self._system.new_id("output_"),
            created_at=self._system.now(),
            agent_id=agent_id,
            name=name,
            call_id=call_id,
            output=output,
            is_error=is_error,
        )
        return self._add(FunctionCallOutput, event, expected_version, idempotency_key)

    def add_handoff(
        self,
        to_agent: str,
        from_agent: str | None = None,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> AgentHandoff:
        """
        Record that control goes to another agent (SPEC V2.19).
        """
        event = make_event(
            HandedOff,
            id=self._system.new_id("handoff_"),
            created_at=self._system.now(),
            from_agent=from_agent,
            to_agent=to_agent,
            reason=reason,
        )
        return self._add(AgentHandoff, event, expected_version, idempotency_key)

    def add_config_update(
        self,
        instructions: str | None = None,
        tools: Sequence[str] | None = None,
        agent_id: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> AgentConfigUpdate:
        """
        Record that instructions or tools change; None leaves a part as it is (SPEC V2.20).
        """
        event = make_event(
            ConfigUpdated,
            id=self._system.new_id("cfgupd_"),
            created_at=self._system.now(),
            agent_id=agent_id,
            instructions=instructions,
            tools=tuple(tools) if isinstance(tools, list) else tools,
        )
        return self._add(AgentConfigUpdate, event, expected_version, idempotency_key)

    def add_items(
        self,
        items: Iterable[ChatItem],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[ChatItem]:
        """
        Append items, all or none, and return those that were new.

        Raises:
            DuplicateItemError: another item has one of these ids.
        """
        given = list(items)
        recorded = [recorded_form(item) for item in given]
        outcome = self.record_items(recorded, expected_version=expected_version, idempotency_key=idempotency_key)
        if outcome.events == tuple(recorded):
            return given
        return [item_of(_item_event(event)) for event in outcome.events]

    def record_items(
        self,
        items: Sequence[ChatItemEvent],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """
        Append items in their recorded form, all or none: the way in for importers.
        """
        # Ids that come from outside may be taken, and only the state knows.
        _ = self._journal.state
        command = AddItems(self._journal.place.stream, tuple(items))
        return self._journal.execute(command, expected_version=expected_version, idempotency_key=idempotency_key)

    def _add(
        self,
        model: type[Item],
        event: ChatItemEvent,
        expected_version: int | None,
        key: str | None,
        *,
        id_is_given: bool = False,
    ) -> Item:
        if id_is_given:
            _ = self._journal.state
        command = AddItems(self._journal.place.stream, (event,), fresh=not id_is_given)
        outcome = self._journal.execute(command, expected_version=expected_version, idempotency_key=key)
        # The same item again, or the same key again: what was recorded the first time is the answer.
        item = item_of(_item_event(outcome.events[0])) if outcome.events else self.get_by_id(event.id)
        if not isinstance(item, model):
            raise InvalidInputError(f"idempotency key {key!r} was used for a {type(item).__name__}: take another")
        return item

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
        return ReadOnlyChatContext(PastSource(journal.log, journal.place.stream, version, state))

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


def _item_event(event: Event) -> ChatItemEvent:
    assert isinstance(event, ITEM_EVENTS), f"{type(event).__name__} adds no item"
    return event
