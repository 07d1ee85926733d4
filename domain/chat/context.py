"""
The chat context: the content of an agent's conversation, now and at every earlier version.

It makes items of its arguments, lets the journal decide and record, and shows the folded state. Without a store it uses
a log in memory; the calls are the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

from ..arguments import require_callable, require_limits, require_several, require_texts
from ..canonical import Without
from ..clock import REAL_SYSTEM, System, require_time
from ..concurrency.threads import in_thread
from ..context.context import Attachment, attachment_of, detached_attachment, detached_journal
from ..context.journal import Journal, Outcome
from ..errors import InvalidInputError
from ..ids import ITEM
from ..positions import Moment
from .events import (
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    MessageAdded,
    Opened,
    added_item,
)
from .item_events import MADE_UP, as_given, content_of, conversion, items_as_given, make_event
from .merge_source import merge_source_at, merge_source_identity, merge_with, require_chat, require_merge
from .roles import ChatRole
from .rules import commands
from .rules.calls import find_call, version_before
from .rules.commands import MergeRule
from .rules.decide import CHAT
from .rules.summaries import SummaryPlan, plan_summary
from .state.fold import ChatState, tool_definitions
from .state.packed import new_at
from .state.sequence import Items
from .stream import MessageStream
from .tokens import DEFAULT, TokenCounter
from .usage import Usage, metrics_of
from .view import ChatView

if TYPE_CHECKING:
    from ..context.differences import Changes

    # A model is called with a chat context. The models of items need pydantic, and come with the first item.
    from ..llm.base import LLM
    from .eviction import Eviction
    from .items import (
        AgentConfigUpdate,
        AgentHandoff,
        ChatContent,
        ChatItem,
        ChatMessage,
        FunctionCall,
        FunctionCallOutput,
    )
    from .summary_texts import SummaryAnswer


Item = TypeVar("Item", bound="ChatItem")
Made = TypeVar("Made", bound="ChatContext")
REFUSAL = (
    "This ChatContext is read-only. To modify it, create a mutable copy with ctx.copy() or ctx.fork() "
    "and modify that instead."
)


class ChatContext(ChatView["ChatContext"]):
    """
    A chat context: messages, function calls and outputs, handoffs and config updates, in order.

    `ChatContext()` is detached: its log is in memory. `store.chat(id)` gives one that is stored. Every call that
    changes the context records an event and accepts `expected_version=` (the call fails if another writer came first)
    and `idempotency_key=` (a repeated call returns the first result).
    """

    _no_summary: str | None = None

    def __init__(
        self,
        items: Sequence[ChatItem] | None = None,
        *,
        journal: Journal[ChatState] | None = None,
        attachment: Attachment | None = None,
        system: System = REAL_SYSTEM,
    ) -> None:
        if journal is None:
            attachment = detached_attachment(system)
            self._stand_on(detached_journal(attachment, "chat", CHAT), attachment)
            self._writer.execute(commands.Open(Opened()))
        else:
            self._stand_on(journal, attachment or attachment_of(journal, system))
        if items:
            self.add_items(items)

    @classmethod
    def empty(cls) -> Self:
        """Return a new detached context without items."""
        return cls()

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """
        Return a detached context with the items of `to_dict()`.

        Raises:
            KeyError: `items`, or a field of an item, is missing; the error names its index and field.
            InvalidInputError: a role that does not exist, or a field of the wrong type (a ValueError).
        """
        from .items import items_from_dict

        return cls(items_from_dict(data))

    @classmethod
    def from_openai_messages(cls, messages: Iterable[Any]) -> Self:
        """
        Return a detached context of messages of OpenAI chat completions; `to_openai_messages` gives them back.

        Raises:
            InvalidInputError: an entry is not a message; the error names its index and field.
        """
        from ..formats.openai.receive import items_from_openai_messages

        return _holding(cls, items_from_openai_messages(messages, system_clock=REAL_SYSTEM))

    @classmethod
    def from_openai_responses(cls, entries: Iterable[Any], instructions: str | None = None) -> Self:
        """
        Return a detached context of the input or output items of OpenAI's Responses API.

        Raises:
            InvalidInputError: an entry cannot become an item; the error names it.
        """
        from ..formats.responses.receive import items_from_openai_responses

        return _holding(cls, items_from_openai_responses(entries, instructions, system_clock=REAL_SYSTEM))

    @classmethod
    def from_anthropic_messages(cls, messages: Iterable[Any], system: Any = None) -> Self:
        """
        Return a detached context of Anthropic messages and system text.

        Raises:
            InvalidInputError: an entry is not a message; the error names its index and field.
        """
        from ..formats.anthropic.receive import items_from_anthropic

        return _holding(cls, items_from_anthropic(messages, system, system_clock=REAL_SYSTEM))

    @classmethod
    def from_google_contents(cls, contents: Iterable[Any], system_instruction: Any = None) -> Self:
        """
        Return a detached context of Google contents, plain or as `google.genai.types.Content`.

        Raises:
            InvalidInputError: an entry is not a content; the error names its index and field.
        """
        from ..formats.google.receive import items_from_google

        return _holding(cls, items_from_google(contents, system_instruction, system_clock=REAL_SYSTEM))

    # Appends. They read the events of other writers first, and append after them

    def add_message(
        self,
        role: ChatRole | str,
        content: str | Sequence[ChatContent],
        message_id: str | None = None,
        created_at: float | None = None,
        replace: bool = False,
        agent_id: str | None = None,
        *,
        model: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        cost: float | Decimal | None = None,
        usage: Usage | Mapping[str, Any] | object = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ChatMessage:
        """
        Append a message and return it; a text becomes a list of one part.

        With `replace`, a system message takes the place of the first system message, and all other system messages
        leave the view. `replace` has no effect for other roles.

        The call of a model that wrote the message is counted by `store.usage()`: `model` is its name, `input_tokens`
        and `output_tokens` are the provider's counts, `cached_tokens` is the part of `input_tokens` that came from the
        provider's cache, and `cost` is in US dollars. `usage` is a Usage, or the usage object of a client; the
        arguments by name come before its fields. The message has all this in its `metrics`.

        Raises:
            InvalidInputError: the role or the content is invalid (also pydantic's ValidationError), the time is not a
                finite number, or a count or the cost is none.
            DuplicateItemError: another item has this id.
        """
        parts = (content,) if isinstance(content, str) else tuple(content) if isinstance(content, list) else content
        about: dict[str, Any] = {}
        # One comparison: most messages have none of these, and every append passes here.
        if (usage, model, cost, input_tokens, output_tokens, cached_tokens) != (None,) * 6:
            counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cached_tokens": cached_tokens}
            about["metrics"] = metrics_of(None, usage, model=model, cost=cost, **counts)
        event = make_event(
            MessageAdded,
            id=message_id or self._system.new_id("msg_"),
            created_at=created_at or self._system.now(),
            agent_id=agent_id,
            role=role,
            content=parts,
            **about,
        )
        made_up = () if message_id else ("id",)
        if not created_at:
            made_up = (*made_up, "created_at")
        if replace and isinstance(event, MessageAdded) and event.role == "system":
            return self._replace_instructions(event, expected_version, idempotency_key, made_up)
        made: ChatMessage = self._add(event, expected_version, idempotency_key, made_up)
        return made

    def stream(self, role: ChatRole | str = "assistant", *, agent_id: str | None = None) -> MessageStream:
        """
        Return a message that is written piece by piece: `with chat.stream() as out: out.write(delta)`.

        Raises:
            InvalidInputError: the role is invalid, or that of instructions, which are in force as a whole.
        """
        return MessageStream(self._record, self._writer.place.stream, role, agent_id, self._system)

    def add_function_call(
        self,
        name: str,
        arguments: str,
        call_id: str | None = None,
        agent_id: str | None = None,
        metadata: dict[str, Any] | None = None,
        *,
        model: str | None = None,
        input_tokens: int | None = None,
        output_tokens: int | None = None,
        cached_tokens: int | None = None,
        cost: float | Decimal | None = None,
        usage: Usage | Mapping[str, Any] | object = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> FunctionCall:
        """
        Append a function call and return it; `arguments` is text, as the model wrote it.

        An answer without a message has its usage in the first of its calls, with the arguments of `add_message`; it is
        stored in the call's `metadata`.

        Raises:
            InvalidInputError: the arguments are not text, or a count or the cost is none.
        """
        if (usage, model, cost, input_tokens, output_tokens, cached_tokens) != (None,) * 6:
            counts = {"input_tokens": input_tokens, "output_tokens": output_tokens, "cached_tokens": cached_tokens}
            metadata = metrics_of(metadata, usage, model=model, cost=cost, **counts)
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
        made_up = MADE_UP if call_id else (*MADE_UP, "call_id")
        made: FunctionCall = self._add(event, expected_version, idempotency_key, made_up)
        return made

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
        Append the output of a function and return it; the context need not hold a call with this `call_id`.

        Raises:
            InvalidInputError: the output is not text.
        """
        event = self._output(name, output, call_id, is_error, agent_id)
        made: FunctionCallOutput = self._add(event, expected_version, idempotency_key)
        return made

    def answer_call(
        self,
        call: str,
        output: str,
        *,
        is_error: bool = False,
        agent_id: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> FunctionCallOutput:
        """
        Append the output of a call once, and return it; the same output again returns the item that is there.

        `call` is the id of the call's item, or the call id: if it repeats, the first call of the newest answer that has
        one without an output.

        Raises:
            NotFoundError: the context never held such a call.
            CallSettledError: the call has another output, or it left the view without one.
            ApprovalPendingError: the call waits for a person's decision.
            InvalidInputError: the output is not text.
        """
        from .item_conversion import items_added

        event = self._output("", output, call, is_error, agent_id)
        command = commands.AnswerCall(self._writer.place.stream, call, event)
        as_called = ("answer_call", call, output, is_error, agent_id)
        outcome = self._record(command, expected_version, idempotency_key, catch_up=True, call=as_called)
        held = None if outcome.events else find_call(self.stream_id, call, self._writer.state.items).output
        answer = items_added(outcome.events, outcome.version)[0] if held is None else self._item(held)
        return cast("FunctionCallOutput", answer)

    def _output(self, name: str, output: str, call_id: str, is_error: bool, agent_id: str | None) -> FunctionReturned:
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
        return cast(FunctionReturned, event)

    def add_handoff(
        self,
        to_agent: str,
        from_agent: str | None = None,
        reason: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> AgentHandoff:
        """Record that control goes to another agent."""
        event = make_event(
            HandedOff,
            id=self._system.new_id("handoff_"),
            created_at=self._system.now(),
            from_agent=from_agent,
            to_agent=to_agent,
            reason=reason,
        )
        made: AgentHandoff = self._add(event, expected_version, idempotency_key)
        return made

    def add_config_update(
        self,
        instructions: str | None = None,
        tools: Sequence[str | Mapping[str, Any]] | None = None,
        agent_id: str | None = None,
        *,
        model: str | None = None,
        settings: Mapping[str, Any] | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> AgentConfigUpdate:
        """
        Record a change of the configuration; None leaves that part unchanged.

        A tool is a name, or a definition (a JSON schema) in the form of any provider. `settings` is what else a request
        has beside `model`: `{"temperature": 0, "response_format": ...}`. Settings are merged by name; None unsets one.

        Raises:
            InvalidInputError: the instructions or a tool is invalid, or a setting is not JSON.
        """
        names, schemas = tool_definitions(tools)
        given: dict[str, Any] = {"tool_schemas": schemas} if schemas else {}
        given |= {"settings": settings} if settings else {}
        given |= {"settings": {**(settings or {}), "model": model}} if model is not None else {}
        event = make_event(
            ConfigUpdated,
            id=self._system.new_id("cfgupd_"),
            created_at=self._system.now(),
            agent_id=agent_id,
            instructions=instructions,
            tools=names,
            **given,
        )
        made: AgentConfigUpdate = self._add(event, expected_version, idempotency_key)
        return made

    def add_items(
        self,
        items: Iterable[ChatItem],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[ChatItem]:
        """
        Append items, all or none, and return the new ones.

        Raises:
            DuplicateItemError: another item has one of these ids. InvalidInputError: one of them is no item.
        """
        from .item_conversion import items_added, recorded_form

        given = require_several(items, "the items")
        recorded = [recorded_form(item) for item in given]
        outcome = self._record_items(
            recorded, lambda: ("add_items", items_as_given(given, recorded)), expected_version, idempotency_key
        )
        return items_added(outcome.events, outcome.version)

    def add_messages(
        self,
        messages: Any,
        *,
        system: Any = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[ChatItem]:
        """
        Append messages of any provider, all or none, and return their items.

        `messages` is what any `to_*` returns, what a client of OpenAI (chat completions, Responses), Anthropic, Google,
        LangChain or LiteLLM returns, or a list of such messages: objects or plain data. Each gets a new id; an output
        gets the name of its call. `system` is a system text in front.

        Raises:
            InvalidInputError: an entry is no message; the error names its place and field.
        """
        from ..formats.messages import items_of, messages_given
        from .item_conversion import items_added

        given = messages_given(messages, system)
        items = items_of(given, self._writer.state.items, system_clock=self._system)
        outcome = self._record_items(
            items, lambda: ("add_messages", given.as_called()), expected_version, idempotency_key
        )
        return items_added(outcome.events, outcome.version)

    def record_items(
        self,
        items: Sequence[ChatItemEvent],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """
        Append items in their recorded form, all or none. Importers use it.

        Raises:
            DuplicateItemError: another item has one of these ids.
            InvalidInputError: the time of an item is not a finite number.
        """
        return self._record_items(items, None, expected_version, idempotency_key)

    def _record_items(
        self, items: Sequence[ChatItemEvent], call: object, expected_version: int | None, key: str | None
    ) -> Outcome:
        for item in items:
            require_time(item.created_at, f"created_at of item {item.id!r}")
        command = commands.AddItems(self._writer.place.stream, tuple(items), new_at=new_at(self._writer, items))
        return self._writer.execute(command, call=call, expected_version=expected_version, idempotency_key=key)

    def _add(
        self,
        event: ChatItemEvent,
        expected_version: int | None,
        key: str | None,
        made_up: tuple[str, ...] = MADE_UP,
    ) -> Any:
        is_fresh = "id" in made_up
        unused_at = -1 if is_fresh else new_at(self._writer, [event])
        command = commands.AddItems(self._writer.place.stream, (event,), fresh=is_fresh, new_at=unused_at)
        outcome = self._writer.execute(
            command,
            call=lambda: ("add", as_given(event, *made_up)),
            expected_version=expected_version,
            idempotency_key=key,
        )
        return self._answer(event, outcome, key)

    def _replace_instructions(
        self, event: MessageAdded, expected_version: int | None, key: str | None, made_up: tuple[str, ...]
    ) -> ChatMessage:
        command = commands.ReplaceInstructions(self._writer.place.stream, event)
        outcome = self._record(command, expected_version, key, call=lambda: ("replace", as_given(event, *made_up)))
        made: ChatMessage = self._answer(event, outcome, key)
        return made

    def _answer(self, event: ChatItemEvent, outcome: Outcome, key: str | None) -> Any:
        # The same item again, or the same key again: the answer is the item that the first call recorded.
        recorded = added_item(outcome.events[0]) if outcome.events else None
        item = self.get_by_id(event.id) if recorded is None else conversion().item_of(recorded, outcome.version)
        if not isinstance(item, conversion().MODELS[type(event)]):
            raise InvalidInputError(f"idempotency key {key!r} was used for something else: take another")
        return item

    # Edits

    def insert(self, item: Item, *, expected_version: int | None = None, idempotency_key: str | None = None) -> Item:
        """
        Put an item before the first item that is younger, or at the end, and return it.

        Raises:
            DuplicateItemError: another item has this id; inserting the same item again changes nothing.
            ConcurrencyError: another writer came first.
        """
        outcome = self._insert([item], expected_version, idempotency_key)
        recorded = added_item(outcome.events[0]) if outcome.replayed and outcome.events else None
        # The same key again: the item that the first call inserted.
        return item if recorded is None else cast(Item, conversion().item_of(recorded))

    def insert_many(
        self,
        items: Iterable[ChatItem],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Insert items, the oldest first, all or none.

        Raises:
            DuplicateItemError: another item has one of these ids.
            ConcurrencyError: another writer came first.
        """
        self._insert(require_several(items, "the items"), expected_version, idempotency_key)

    def _insert(self, given: Sequence[ChatItem], expected_version: int | None, key: str | None) -> Outcome:
        from .item_conversion import recorded_form

        command = commands.InsertItems(self._writer.place.stream, tuple(recorded_form(item) for item in given))
        return self._record(
            command, expected_version, key, call=lambda: ("insert", items_as_given(given, command.items))
        )

    def evict(
        self,
        ids: str | Iterable[str],
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Eviction:
        """
        Take items out of the view, a call together with its output, and return the effect on the prompt.

        Thinking that is kept as an item of its own leaves with the last item that it led to; reasoning of the Responses
        API takes these along. The items stay in the past and in `evicted_items()`, and can be restored.

        Raises:
            NotFoundError: the context never held one of them.
            InvalidInputError: one of them, or an item that leaves with it, is pinned.
            ConcurrencyError: another writer came first.
        """
        from .eviction import Eviction

        before = self._writer.state.items
        command = commands.EvictItems(self._writer.place.stream, require_texts(ids, "the ids"), reason)
        outcome = self._record(command, expected_version, idempotency_key)
        if outcome.replayed:
            return Eviction(*self._around(outcome), outcome.version)
        return Eviction(before, self._writer.state.items, self.version)

    def restore(
        self,
        ids: str | Iterable[str] | None = None,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> list[str]:
        """
        Put items back into their places, a call together with its output, and return the ids of the restored items.

        Thinking comes back with what it led to. Without ids: the items that the last evict, truncate or clear took out
        and that are not back yet.

        Raises:
            NotFoundError: the context never held one of them.
            CallSettledError: a person changed one of them: the call with the new arguments is there.
            ConcurrencyError: another writer came first.
        """
        before = self._writer.state.items
        named = None if ids is None else require_texts(ids, "the ids")
        command = commands.RestoreItems(self._writer.place.stream, named, reason)
        outcome = self._record(command, expected_version, idempotency_key)
        after = self._writer.state.items
        if outcome.replayed:
            before, after = self._around(outcome)
        back = before.gone_since(after)
        return [before.item_table.items[ordinal].id for ordinal, _ in before.departed(back)]

    def pin(
        self,
        ids: str | Iterable[str],
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Keep these items in the view: truncate, summarize and evict do not remove them.

        Raises:
            NotFoundError: one of them is not in the view.
            ConcurrencyError: another writer came first.
        """
        command = commands.PinItems(self._writer.place.stream, require_texts(ids, "the ids"), True, reason)
        self._record(command, expected_version, idempotency_key)

    def unpin(
        self,
        ids: str | Iterable[str],
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Remove the pins of items.

        Raises:
            NotFoundError: the context never held one of them.
            ConcurrencyError: another writer came first.
        """
        command = commands.PinItems(self._writer.place.stream, require_texts(ids, "the ids"), False, reason)
        self._record(command, expected_version, idempotency_key)

    def clear(
        self,
        *,
        reason: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Take everything out of the view, pinned items too; `restore()` puts it back.

        Raises:
            ConcurrencyError: another writer came first.
        """
        self._record(commands.Clear(reason), expected_version, idempotency_key)

    def truncate(
        self,
        max_items: int | None = None,
        max_tokens: int | None = None,
        *,
        reason: str | None = None,
        counter: TokenCounter = DEFAULT,
        whole_turns: bool = True,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Take the oldest turns out of the view until both limits hold, and return self.

        Of the last turn, whole answers leave. Protected are: the first instructions, the first summary, the last user
        message, handoffs, config updates, answers with a call that waits for its output, and pinned items. Without
        `whole_turns` single items leave, a call with its output. `counter` counts the tokens of a text.

        Raises:
            InvalidInputError: a limit is negative or no whole number. ConcurrencyError: another writer came first.
        """
        require_limits(max_items=max_items, max_tokens=max_tokens)
        require_callable(counter, "the counter")
        command = commands.Truncate(max_items, max_tokens, reason, counter, whole_turns)
        call = Without(command, "counter")
        self._record(command, expected_version, idempotency_key, call=call)
        return self

    def _around(self, outcome: Outcome) -> tuple[Items, Items]:
        """Return the items before and after the first call with this key."""
        journal, last = self._writer, outcome.version
        return journal.past(last - len(outcome.events)).items, journal.past(last).items

    # Merges and summaries

    @property
    def summary_failure(self) -> str | None:
        """The reason why the last `summarize` or `merge_with_summary` got no summary and changed nothing, else None."""
        return self._no_summary

    async def merge(
        self,
        other: ChatView[Any],
        *,
        base: Literal["auto"] | None = "auto",
        instructions: bool = False,
        on_conflict: MergeRule = "ours",
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Add the items of another context that this one never held, and return self.

        Each item goes to the place that its time gives it. With `base="auto"` the last version that both contexts share
        is found automatically. Items that set instructions or tools are merged only if `instructions` is true. If both
        sides changed these, or both summarised the same items, `on_conflict` decides which side wins (`ours`, `theirs`,
        `newest`), and a `ConflictResolved` event records both sides. A context of another log is first adopted into
        this one, in the same transaction.

        Raises:
            ConcurrencyError: another writer came first.
        """
        await in_thread(
            self._merge,
            other,
            "full",
            base=base,
            instructions=instructions,
            rule=on_conflict,
            expected_version=expected_version,
            idempotency_key=idempotency_key,
        )
        return self

    async def merge_result(
        self,
        other: ChatView[Any],
        *,
        agent_id: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Append the last answer of another context to this one, and return self.

        The copy gets `agent_id`. Nothing happens if there is no answer or if it was merged before.

        Raises:
            ConcurrencyError: another writer came first.
        """
        await in_thread(
            self._merge,
            other,
            "result",
            agent_id=agent_id,
            expected_version=expected_version,
            idempotency_key=idempotency_key,
        )
        return self

    async def merge_with_summary(
        self,
        other: ChatView[Any],
        *,
        llm: LLM,
        agent_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Add a message in which a model summarises another context, and return self.

        Without an answer nothing changes, and `summary_failure` has the reason. A version of the other context is
        summarised only once. If `other` is no chat, or `llm` no model, it raises an InvalidInputError; if texts were
        erased while the model wrote, a DecisionRefusedError.
        """
        from ..erasure.foreign_erasures import look, require_unerased
        from .summary_texts import OTHERS_SUMMARY, render_items, require_model, summary_message

        self._require_writer()
        require_chat(other)
        require_model(llm)
        # The model and the event get the same version: the other context may go on while the model writes.
        erasures = await in_thread(look, other._attachment.log)
        source = await in_thread(_at_its_version, other)
        text = await in_thread(lambda: render_items(source.items))
        self._no_summary = None

        def call() -> tuple[object, ...]:
            return ("merge_with_summary", *merge_source_identity(other, self._attachment), agent_id)

        if not text.strip() or await self._is_repeated(call, idempotency_key):
            return self
        answer = await ask_for_summary(llm, text)
        self._no_summary = answer.failure
        if answer.failure is None:
            await in_thread(require_unerased, other._attachment.log, erasures)
            summary = summary_message(self._system, OTHERS_SUMMARY, answer, self._system.now(), agent_id)
            # The erasures of another log are counted there, and a merge from it copies its texts into this log.
            known = erasures if other._attachment.log is self._attachment.log else None
            await in_thread(self._add_other_summary, source, summary, known, call, idempotency_key)
        return self

    async def summarize(
        self,
        llm: LLM,
        *,
        keep_recent_turns: int = 3,
        keep_items: int | None = None,
        idempotency_key: str | None = None,
    ) -> Self:
        """
        Replace all but the last turns, or all but the last `keep_items` items, by a summary, and return self.

        Instructions, handoffs, config updates, pinned items and the last user message stay. The new summary includes an
        earlier one. Without an answer nothing changes, and `summary_failure` has the reason. `undo_summary()` reverts
        it. Counted in items, a long turn is summarised, too; the answer in which the items begin stays whole.

        Raises:
            InvalidInputError: a negative number of turns, no item is to stay, or `llm` is no model.
            DecisionRefusedError: items to be summarised were evicted, or texts were erased, while the model wrote.
        """
        from ..erasure.foreign_erasures import look
        from .summary_texts import model_name, prior_text, render_items, require_model

        self._require_writer()
        require_model(llm)
        self._no_summary = None
        call = ("summarize", keep_recent_turns, *(() if keep_items is None else (keep_items,)))
        if await self._is_repeated(call, idempotency_key):
            return self
        erasures = await in_thread(look, self._attachment.log)
        plan = await in_thread(lambda: plan_summary(self._writer.state.items, keep_recent_turns, keep_items))
        text = render_items(plan.items) if plan else ""
        if plan is None or not text.strip():
            return self
        answer = await ask_for_summary(llm, text, prior=prior_text(plan))
        self._no_summary = answer.failure
        if answer.failure is None:
            await in_thread(self._put_summary, plan, answer, model_name(llm), erasures, call, idempotency_key)
        return self

    def undo_summary(
        self,
        summary_id: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        """
        Remove a summary, without an id the last one, and put back the items that it summarises.

        Raises:
            NotFoundError: there is no such summary.
            ConcurrencyError: another writer came first.
        """
        command = commands.UndoSummary(self._writer.place.stream, summary_id)
        self._record(command, expected_version, idempotency_key)

    async def _is_repeated(self, call: object, key: str | None) -> bool:
        """Whether a call was made before under its key: then the model need not be asked again."""
        return await in_thread(self._writer.repeated, call, key) is not None

    def _put_summary(
        self, plan: SummaryPlan, answer: SummaryAnswer, model: str | None, erasures: int, call: object, key: str | None
    ) -> None:
        from .summary_texts import SUMMARY, summary_message

        command = commands.Summarize(
            stream=self._writer.place.stream,
            folded=tuple(item.id for item in (*plan.prior, *plan.items)),
            before=plan.before,
            summary=summary_message(self._system, SUMMARY, answer, plan.created_at),
            model=model,
            erasures=erasures,
        )
        # The command names the summarised items, so events that others appended meanwhile do no harm.
        self._record(command, call=call, idempotency_key=key, catch_up=True)

    def _add_other_summary(
        self, other: ChatView[Any], summary: MessageAdded, erasures: int | None, call: object, key: str | None
    ) -> None:
        with merge_source_at(self._attachment, self._writer.place, other, key) as (side, left_key):
            command = commands.AddOtherSummary(side, summary, erasures)
            self._record(command, call=call, idempotency_key=left_key, catch_up=True)

    def _merge(
        self,
        other: ChatView[Any],
        how: Literal["full", "result"],
        *,
        base: Literal["auto"] | None = None,
        instructions: bool = False,
        rule: MergeRule = "ours",
        agent_id: str | None = None,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> None:
        require_merge(other, base, rule)

        def call() -> tuple[object, ...]:
            return (f"merge_{how}", *merge_source_identity(other, self._attachment), base, instructions, rule, agent_id)

        if self._writer.repeated(call, idempotency_key):
            return

        def command(side: commands.MergeSource) -> commands.Merge:
            about = {"how": how, "instructions": instructions, "rule": rule, "agent_id": agent_id}
            return merge_with(side, self._writer, has_base=base == "auto", **about)

        def brings_something(side: commands.MergeSource) -> bool:
            return bool(CHAT.decide(command(side), self._writer.state))

        place = self._writer.place
        with merge_source_at(self._attachment, place, other, idempotency_key, brings_something) as (side, left_key):
            self._record(command(side), expected_version, left_key, call=call)

    # The past

    def at(self, moment: int | str | datetime | Moment | ChatItem) -> ReadOnlyChatContext:
        """
        Return the context at a version, a time, a position of the log, a named version, or the version of an item.

        An int is a version; negative ones count from the head (-1: the version before it). An aware datetime, or ISO
        text with a zone, is a time when it was recorded; a day means its end, UTC; `"happened:TIME"` is the last
        version before an item that is younger. `"pos:P"` is a position, `"item:ID"` an item by its id or call id; any
        other text is a name, or such an id.

        Raises:
            NotFoundError: no such version or name.
            InvalidInputError: the text has none of these forms, or a time has no zone.
        """
        wanted = moment if isinstance(moment, int | str | datetime | Moment) else _address_of(moment)
        return self._view(ReadOnlyChatContext, self.version_at(wanted))

    def diff(
        self,
        before: int | str | datetime | Moment | ChatItem | ChatContext,
        after: int | str | datetime | Moment | ChatItem | ChatContext | None = None,
    ) -> Changes[ChatItem]:
        """
        Return the items that differ between two moments, or between one moment and now, as `refold diff` shows them.

        Another context, or a view of one, is compared as it is. Items are compared by what they say: one that was added
        again under another id is no difference.

        Raises:
            NotFoundError, InvalidInputError: as for `at`.
        """
        # Imported here, with what compares: few programs ask.
        from ..context.differences import changes_between, of_each

        given = (before, self if after is None else after)
        sides = [one.readonly if isinstance(one, ChatContext) else self.at(one) for one in given]
        old, new = (list(side.recorded_items()) for side in sides)
        found = changes_between(old, new, content=content_of, name=lambda item: item.id)
        return of_each(found, *(side._public_of(items) for side, items in zip(sides, (old, new), strict=True)))

    def seen(self, call_id: str) -> ReadOnlyChatContext:
        """
        Return the context as the model had it when it made a call: before the answer with all its parallel calls.

        Raises:
            NotFoundError: there is no such call, or a fork began with it: then ask the context that made it.
        """
        # A view of the past reads the log.
        self.flush()
        return self._view(ReadOnlyChatContext, version_before(self.stream_id, call_id, self._source.live.state.items))

    @property
    def readonly(self) -> ReadOnlyChatContext:
        """A live view of this context; every changing call on it is refused."""
        return self._view(ReadOnlyChatContext)

    # Its journal and its store

    def _forked(self, journal: Journal[ChatState], attachment: Attachment) -> ChatContext:
        return ChatContext(journal=journal, attachment=attachment)

    def _empty(self) -> ChatContext:
        return ChatContext()

    @property
    def _system(self) -> System:
        return self._source.attachment.system

    def _refusal(self) -> str:
        return REFUSAL


class ReadOnlyChatContext(ChatContext):
    """
    A chat context that can only be read; every changing call raises RuntimeError.

    Made of a context, or of its `items`, it is a live view; of another list, it holds items that never change.
    """

    def __init__(self, items: ChatView[Any] | Sequence[ChatItem] = ()) -> None:
        from .item_list import SeenItems

        shown = items.context if isinstance(items, SeenItems) else items
        # Plain items get a context of their own, which no other code can change.
        self._show(shown if isinstance(shown, ChatView) else ChatContext(list(items)))


def _address_of(item: ChatItem) -> str:
    """Return the address of an item; anything else is given back, for the caller to refuse."""
    from .items import ChatItem

    return ITEM + item.id if isinstance(item, ChatItem) else item


def _at_its_version(context: ChatView[Any]) -> ChatView[Any]:
    context.flush()
    return context if context._version_asked is not None else context._view(ReadOnlyChatContext, context.version)


def _holding(made: type[Made], items: list[ChatItemEvent]) -> Made:
    context = made()
    context.record_items(items)
    return context


async def ask_for_summary(llm: LLM, text: str, *, prior: str | None = None) -> SummaryAnswer:
    """
    Ask a model to summarise `text`, together with a summary of the items before it.

    An error, also one after part of the answer, or a blank answer gives a `failure` in words and no text.
    """
    from .summary_texts import answer_of, summary_prompt

    return await answer_of(llm, ChatContext(summary_prompt(text, prior)))


async def generate_summary(llm: LLM, conversation_text: str, *, prior: str | None = None) -> str:
    """Return a summary of a text, or "" if there is none; `ask_for_summary` also gives the reason."""
    return (await ask_for_summary(llm, conversation_text, prior=prior)).text
