"""A chat context of the present or the past: reading its items, converting them, forking it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..arguments import require_callable, require_whole
from ..canonical import require_unicode
from ..concurrency.threads import in_thread
from ..context.children import begin_child
from ..context.context import Attachment, Context
from ..context.journal import Journal
from ..errors import InvalidInputError, NotFoundError
from ..frozen import FrozenList
from ..ids import AtItem, AtItemTime, split_stream_id
from ..log.envelope import RecordedEvent
from ..log.gate import leaving
from ..named_events import Resolved, recorded_event
from ..spans import Ref
from ..totals import Totals
from .approvals import Approvals
from .events import ChatItemEvent, Forked, MessageAdded
from .item_events import conversion, make_event
from .pairing import PendingAnswer, PendingRule, items_to_send, pending_answers, pending_call
from .rules.commands import Begin
from .rules.decide import CHAT
from .rules.forking import Copying, Parent, carried_config, forked_from, items_of_turns, matching, tool_names
from .saved_states import SavedStates
from .state.fold import ChatState, ReferencedItem, active_config, fold
from .state.loading import last_items
from .state.sequence import Items, RunningTokens
from .tokens import DEFAULT, TokenCounter

if TYPE_CHECKING:
    # Imported by the methods that need them. Few programs replay, and the models of items need pydantic, which a
    # command that only shows recorded data does not import.
    from .eviction import EvictedItem
    from .item_list import ShownItems
    from .items import ActiveConfig, ChatItem, ChatMessage
    from .replay import Policy, Replay

# The class of a fork.
ForkedChat = TypeVar("ForkedChat")
T = TypeVar("T")


class ChatView(Context[ChatState], Generic[ForkedChat]):
    """The reading methods of a chat context."""

    # The public items; None before somebody asks for them.
    _shown: ShownItems | None
    _counted: dict[TokenCounter, RunningTokens]
    # Returns the totals while the items are not loaded.
    _count: Callable[[], Totals] | None = None

    def __len__(self) -> int:
        return self._totals.items

    def __iter__(self) -> Iterator[ChatItem]:
        return iter(self.items)

    def __bool__(self) -> bool:
        # A context without items is a context: `chat or other` must not choose by its items.
        return True

    def _shown_by_repr(self, identity: str) -> str:
        return f"{identity}, items={len(self)}"

    @property
    def items(self) -> FrozenList[ChatItem]:
        """
        All items in order, as a read-only list; it is built once per version.

        If a long context was not loaded before, each item is read from the log when it is used.
        """
        shown, source = self._shown, self._source
        if shown is None:
            from .item_list import ShownItems

            shown = self._shown = ShownItems()
        return shown.of(source.state.items, self, source.journal.log)

    def history(self, *, after: int = 0, until: int | None = None) -> list[RecordedEvent]:
        """Return the recorded events with versions above `after`, up to and including `until`."""
        return self.recorded_events(after=after, until=until)

    def messages(self) -> list[ChatMessage]:
        """Return the messages only, in order."""
        return [item for item in self.items if item.type == "message"]

    @property
    def _totals(self) -> Totals:
        count = self._count
        return self._state.items.totals if count is None or self._source.is_loaded else count()

    def turn_count(self) -> int:
        """Return the number of user messages."""
        return self._totals.turns

    def estimated_tokens(self, counter: TokenCounter | None = None) -> int:
        """
        Return the estimated tokens of all items: a running total, about four characters each.

        `counter` counts the tokens of a text in another way; each item is counted once.
        """
        if counter is None or counter is DEFAULT:
            return self._totals.tokens
        require_callable(counter, "the counter")
        return self._counted.setdefault(counter, RunningTokens(counter)).total(self._state.items)

    def get_by_id(self, item_id: str) -> ChatItem | None:
        """Return the item with this id, or the call with this call id, or None."""
        items = self._state.items
        ordinal = items.named(require_unicode(item_id, "the item"))
        return None if ordinal is None or not items.shows(ordinal) else self._item(ordinal)

    def _item(self, ordinal: int) -> ChatItem:
        items = self._state.items
        item: ChatItem = conversion().item_of(items.item_table.items[ordinal], items.arrival(ordinal))
        return item

    def _public_of(self, items: Sequence[ChatItemEvent]) -> Callable[[ChatItemEvent], ChatItem]:
        """Return a function that makes the public item of one of these, which are the items of the view, in order."""
        ordinals = dict(zip(map(id, items), self._state.items.order(), strict=True))
        return lambda item: self._item(ordinals[id(item)])

    def _find(self, address: AtItem | AtItemTime) -> int | None:
        """Return the version that brought an item, or the last one before an item that is younger than a time."""
        self._source.settled()
        items = self._source.live.state.items
        if isinstance(address, AtItem):
            ordinal = items.named(address.name)
            return None if ordinal is None else items.arrival(ordinal)
        younger = items.item_table.first_younger(address.time.timestamp(), items.reach)
        if younger == items.reach:
            return self._source.live.version
        if younger and items.lineage and items.arrival(younger) == 1:
            # A fork has no version with only a part of the items that it began with.
            raise NotFoundError(f"{self.stream_id} began with a younger item: ask {items.lineage[-1]} for that time")
        # Edits between the two items happened later, as far as anybody knows.
        before = items.arrival(younger) - 1
        return min(before, items.arrival(younger - 1)) if younger else before

    def evicted_items(self) -> list[EvictedItem]:
        """Return the items that left the view and are not back, in the order in which they left."""
        from .eviction import EvictedItem

        gone = self._state.items.departed()
        return [EvictedItem(self._item(ordinal), how.how, how.reason, how.version) for ordinal, how in gone]

    def pinned_ids(self) -> list[str]:
        """Return the ids of the items that no policy may evict, in order."""
        items = self._state.items
        return [items.item_table.items[ordinal].id for ordinal in items.order() if items.is_pinned(ordinal)]

    def tail(self, count: int) -> list[ChatItem]:
        """
        Return the last `count` items, without loading the items before them.

        Raises:
            InvalidInputError: `count` is negative or no whole number.
        """
        if require_whole(count, "the count") == 0:
            return []
        source = self._source
        if not source.is_loaded:
            found = last_items(source.journal.log, Ref(self.version, self.stream_id), self._last_events, count)
            # The last events may show fewer items, or not what brought one; then the whole context is loaded.
            if found is not None:
                return [conversion().item_of(item, version) for item, version in found]
        return [self._item(ordinal) for ordinal in self._state.items.order()[-count:]]

    def active_config_at(self, target: str | int | None = None) -> ActiveConfig:
        """
        Return (instructions, tools) in force after the item `target`: an id, an index, or None for the end.

        Instructions are those of the last system or developer message or config update; tools are those of the last
        config update that has tools. Settings, merged by name, and definitions of tools are attributes of the result. A
        negative index counts from the end.

        Raises:
            NotFoundError: no item has this id or index (a KeyError).
        """
        from .items import ActiveConfig

        items = self._state.items
        return ActiveConfig(*active_config(items[: self._end_of(target, items)]))

    def pending_calls(self) -> list[PendingAnswer]:
        """
        Return the calls in the view that have no output, grouped by the answer of the model in which they came.

        After a crash these are the tools to run: `answer_call` hands their outputs in.
        """
        items = self._state.items
        order = items.order()
        return pending_answers(items, lambda index, call: pending_call(call, items.approval(order[index])))

    @property
    def approvals(self) -> Approvals:
        """The approvals of calls: asking for one, deciding, and the calls that wait for a decision."""
        return Approvals(self, self.pending_calls)

    @property
    def saved_states(self) -> SavedStates:
        """The data that frameworks saved beside the items, such as checkpoints."""
        return SavedStates(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the context as plain data in the seed's form, `{"items": [...]}`."""
        from .items import items_to_dict

        return items_to_dict(self.items)

    def to_openai_messages(
        self, *, reasoning_model: bool = False, exact: bool = False, pending: PendingRule = "stub"
    ) -> list[dict[str, Any]]:
        """
        Return the context as messages of OpenAI chat completions, valid after any edit of the context.

        Imported messages are returned unchanged. A developer message created here is sent as "system"; for a
        `reasoning_model` "system" becomes "developer". `exact` repairs nothing: use it to inspect a context.

        `pending` says how calls without an output are sent: `stub` puts a marked text in the place of the output,
        `omit` leaves such calls out, and `refuse` raises an error that lists them.

        Raises:
            PendingCallsError: there are such calls, and `pending` is `refuse`.
        """
        from ..formats.openai.send import openai_messages

        items = self._to_send(pending)
        return self._leaving(openai_messages(items, reasoning_model=reasoning_model, exact=exact))

    def to_openai_responses(self, *, pending: PendingRule = "stub") -> tuple[list[dict[str, Any]], str | None]:
        """
        Return (input, instructions) for OpenAI's Responses API, valid after any edit of the context.

        `pending`, and its error, as for `to_openai_messages`.
        """
        from ..formats.responses.send import openai_responses_input

        return self._leaving(openai_responses_input(self._to_send(pending, apart=True)))

    def to_anthropic_messages(
        self,
        *,
        caching: bool = False,
        allow_prefill: bool = False,
        exact: bool = False,
        pending: PendingRule = "stub",
    ) -> tuple[list[dict[str, Any]], str | list[dict[str, Any]] | None]:
        """
        Return (messages, system) for Anthropic, valid after any edit of the context.

        `caching` sets up to four cache breakpoints; the text before them stays the same, byte for byte, when items are
        appended. `allow_prefill` allows an assistant message at the end, which newer models refuse. `exact` returns
        imported Anthropic messages unchanged and repairs nothing: use it to inspect a context. `pending`, and its
        error, as for `to_openai_messages`.
        """
        from ..formats.anthropic.send import anthropic_messages

        items = self._to_send(pending)
        messages = anthropic_messages(items, caching=caching, allow_prefill=allow_prefill, exact=exact)
        return self._leaving(messages)

    async def to_google_contents(
        self, *, thought_signatures: Mapping[str, str | bytes] | None = None, pending: PendingRule = "stub"
    ) -> tuple[list[Any], str | None]:
        """
        Return (contents, system instruction) for Google, the contents as `google.genai.types.Content`.

        `thought_signatures` maps the name of a function to the last signature that the model gave for it; a call with
        its own signature, in `metadata["thought_signature"]`, keeps that. `pending`, and its error, as for
        `to_openai_messages`.

        Raises:
            ImportError: the package google-genai is not installed.
        """
        from ..formats.google.send import to_google_types

        contents, system = await in_thread(self.to_google_json, thought_signatures=thought_signatures, pending=pending)
        return await in_thread(to_google_types, contents), system

    def to_google_json(
        self, *, thought_signatures: Mapping[str, str | bytes] | None = None, pending: PendingRule = "stub"
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return the result of `to_google_contents` as plain data, which needs no package."""
        from ..formats.google.send import google_contents

        return self._leaving(google_contents(self._to_send(pending), thought_signatures=thought_signatures))

    def _leaving(self, request: T) -> T:
        return leaving(request, self._source.journal.log)

    def _to_send(self, pending: PendingRule, *, apart: bool = False) -> Sequence[ChatItemEvent]:
        return items_to_send(self._state.items, pending, apart=apart)

    def replay(self, policy: Policy | str) -> Replay:
        """
        Run this context's history again under another policy, and return what the model would have seen (offline).

        A policy is a function that gets a detached context before each call of the model, and may truncate or evict
        there; or it is a name: `all`, `tokens:8000`, `items:50`.

        Raises:
            InvalidInputError: there is no policy of this name, it is no function, or it must be awaited (`areplay`).
        """
        from .replay import replay_now

        return replay_now(*self._replayed(policy))

    async def areplay(self, policy: Policy | str) -> Replay:
        """`replay()` with a policy that may be async, such as `lambda chat: chat.summarize(llm)`."""
        from .replay import replay_awaited

        return await replay_awaited(*await in_thread(self._replayed, policy))

    def _replayed(self, policy: Policy | str) -> tuple[Replay, Iterator[Any]]:
        from .replay import policy_of, replayed

        self.flush()
        own, events = self._journal.events(until=self.version), self._journal.completed(self.version)
        wanted = policy_of(policy) if isinstance(policy, str) else require_callable(policy, "the policy")
        return replayed(events, len(own) - len(events) + 1, wanted, self._empty())

    def _empty(self) -> Any:
        """Return a detached context without items."""
        raise NotImplementedError

    def _forget_shown(self) -> None:
        self._shown, self._counted = None, {}

    def recorded_items(self) -> Items:
        """Return the items as they were recorded: frozen Structs, the form that is fastest to read."""
        # All are read: the caller may look at them when the store is closed, or in an event loop.
        return self._state.items.read()

    def _end_of(self, target: str | int | None, items: Items) -> int:
        if target is None:
            return len(items)
        if isinstance(target, int):
            index = target + len(items) if target < 0 else int(target)
            place = index if 0 <= index < len(items) else None
        else:
            place = items.find(require_unicode(target, "the item"))
        if place is None:
            raise NotFoundError(f"no item {target!r}: there are {len(items)} items")
        return place + 1

    def _last_events(self, count: int) -> list[Any]:
        version = self.version
        return self._journal.events(after=max(0, version - count), until=version)

    # Forks

    def _forked(self, journal: Journal[ChatState], attachment: Attachment) -> ForkedChat:
        """Return the context of a fork."""
        raise NotImplementedError

    def fork(
        self, context_id: str | None = None, *, agent: str | None = None, idempotency_key: str | None = None
    ) -> ForkedChat:
        """
        Return a child that begins with all items of this context; later changes of either do not affect the other.

        Raises:
            InvalidInputError: the id is invalid or in use, or the context has no events yet.
        """
        parent = self._parent()
        forked = forked_from(parent, how="full", agent=agent)
        return self._begin(parent, context_id, idempotency_key, forked, ("fork", agent))

    def fork_filtered(
        self,
        recent_turns: int = 3,
        tools: Sequence[Any] | None = None,
        *,
        context_id: str | None = None,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> ForkedChat:
        """
        Return a child with the instructions and the last turns.

        The instructions and tools in force are the parent's. `tools` as for `copy`.

        Raises:
            InvalidInputError: `recent_turns` is less than 1, or as for `fork`.
        """
        from ..erasure.foreign_erasures import made_unerased

        names, system = tool_names(tools), self._attachment.system
        call = ("fork_filtered", recent_turns, names, agent)

        def begun(erasures: int) -> ForkedChat:
            parent = self._parent()
            items = parent.state.items
            carried = items_of_turns(items, recent_turns, Copying(tools=names).keeps)
            config = carried_config(items, carried, item_id=system.new_id("cfgupd_"), created_at=system.now())
            forked = forked_from(parent, how="filtered", agent=agent, carried=carried, config=config)
            known = None if config is None else erasures
            return self._begin(parent, context_id, idempotency_key, forked, call, erasures=known)

        # The configuration is copied, so that of an erased item must not be recorded.
        return made_unerased(self._attachment.log, begun)

    def fork_brief(
        self,
        instructions: str,
        task_brief: str | None = None,
        agent_id: str | None = None,
        *,
        context_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ForkedChat:
        """
        Return a child that holds only new instructions and, if given, a task as a user message.

        Raises:
            InvalidInputError: the instructions are empty, or as for `fork`.
        """
        if not instructions:
            raise InvalidInputError("fork_brief() requires non-empty instructions")
        for text, what in ((instructions, "the instructions"), (task_brief or "", "the task")):
            require_unicode(text, what)
        parent = self._parent()
        forked = forked_from(parent, how="brief", agent=agent_id, carried=())
        messages = [self._message("system", instructions, agent_id)]
        messages += [self._message("user", task_brief, agent_id)] if task_brief else []
        call = ("fork_brief", instructions, task_brief, agent_id)
        return self._begin(parent, context_id, idempotency_key, forked, call, messages)

    def copy(
        self,
        context_id: str | None = None,
        *,
        exclude_system_messages: bool = False,
        exclude_instructions: bool = False,
        exclude_empty_messages: bool = False,
        exclude_handoffs: bool = False,
        exclude_config_updates: bool = False,
        tools: Sequence[Any] | None = None,
        filter_agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ForkedChat:
        """
        Return a child with the items that no argument excludes.

        `tools` are names, or functions with `_tool_info`: calls and outputs of other tools are excluded. An output is
        copied exactly if its call is.

        Raises:
            InvalidInputError: as for `fork`.
        """
        copying = Copying(
            exclude_system_messages=exclude_system_messages,
            exclude_instructions=exclude_instructions,
            exclude_empty_messages=exclude_empty_messages,
            exclude_handoffs=exclude_handoffs,
            exclude_config_updates=exclude_config_updates,
            tools=tool_names(tools),
            filter_agent_id=filter_agent_id,
        )
        parent = self._parent()
        carried = None if copying == Copying() else matching(parent.state.items, copying.keeps)
        forked = forked_from(parent, how="copy", agent=None, carried=carried)
        return self._begin(parent, context_id, idempotency_key, forked, ("copy", copying))

    def _parent(self) -> Parent:
        # The child's first event refers to events of the parent, so those must be written first.
        state, stream = self._source.settled(), self.stream_id
        opened = state.opened
        if opened is None:
            raise InvalidInputError(f"{stream}@{self.version} is before the context began: fork a later version")
        root = opened.root if isinstance(opened, Forked) else opened.session or split_stream_id(stream)[1]
        return Parent(stream, state, root)

    def _begin(
        self,
        parent: Parent,
        context_id: str | None,
        key: str | None,
        forked: Forked | Resolved[ReferencedItem],
        call: tuple[object, ...],
        messages: Iterable[ChatItemEvent] = (),
        erasures: int | None = None,
    ) -> ForkedChat:
        attachment, call = self._attachment, (*call, parent.stream, self._version_asked)
        begin = Begin(forked, tuple(message for message in messages if isinstance(message, MessageAdded)), erasures)
        # Not of the present state: another thread may have changed this context meanwhile.
        base = fold(parent.state, (forked,))
        journal = begin_child(
            attachment, CHAT, recorded_event(forked), base, begin=begin, call=call, context_id=context_id, key=key
        )
        return self._forked(journal, attachment)

    def _message(self, role: str, text: str, agent_id: str | None) -> ChatItemEvent:
        system = self._attachment.system
        return make_event(
            MessageAdded,
            id=system.new_id("msg_"),
            created_at=system.now(),
            agent_id=agent_id,
            role=role,
            content=(text,),
        )
