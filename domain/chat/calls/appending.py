"""The part of a chat context that puts items at its end: every `add_*`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from ...clock import require_time
from ...context.journal import Outcome
from ...errors import InvalidInputError
from ..events import (
    ChatItemEvent,
    ConfigUpdated,
    FunctionCalled,
    FunctionReturned,
    HandedOff,
    MessageAdded,
    added_item,
)
from ..items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatContent,
    ChatItem,
    ChatMessage,
    ChatRole,
    FunctionCall,
    FunctionCallOutput,
)
from ..rules.commands import AddItems, ReplaceInstructions
from ..views import item_of, make_event, recorded_form
from .writing import MADE_UP, WritableChat, as_given, items_as_given

Item = TypeVar("Item", bound=ChatItem)


class AppendingChat(WritableChat):
    """What is added; an append catches up with other writers and goes behind what they wrote."""

    def add_message(
        self,
        role: ChatRole | str,
        content: str | Sequence[ChatContent],
        message_id: str | None = None,
        created_at: float | None = None,
        replace: bool = False,
        agent_id: str | None = None,
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> ChatMessage:
        """
        Append a message and return it; a text becomes a list of one part (SPEC V2.11 to V2.13).

        With `replace` a system message takes the place of the first one, and all others go (SPEC V2.14); for
        other roles it says nothing.

        Raises:
            pydantic.ValidationError: the role or the content is of no use (SPEC V2.16; a ValueError).
            InvalidInputError: the time is no number, or infinite.
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
        made_up = () if message_id else ("id",)
        if not created_at:
            made_up = (*made_up, "created_at")
        if replace and isinstance(event, MessageAdded) and event.role == "system":
            return self._replace_instructions(event, expected_version, idempotency_key, made_up)
        return self._add(ChatMessage, event, expected_version, idempotency_key, made_up)

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
        made_up = MADE_UP if call_id else (*MADE_UP, "call_id")
        return self._add(FunctionCall, event, expected_version, idempotency_key, made_up)

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
        """Record that control goes to another agent (SPEC V2.19)."""
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
        """Record that instructions or tools change; None leaves a part as it is (SPEC V2.20)."""
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
        outcome = self._record_items(
            recorded, lambda: ("add_items", items_as_given(given, recorded)), expected_version, idempotency_key
        )
        if outcome.events == tuple(recorded):
            return given
        return [item_of(item) for event in outcome.events if (item := added_item(event)) is not None]

    def record_items(
        self,
        items: Sequence[ChatItemEvent],
        *,
        expected_version: int | None = None,
        idempotency_key: str | None = None,
    ) -> Outcome:
        """
        Append items in their recorded form, all or none: the way in for importers.

        Raises:
            DuplicateItemError: another item has one of these ids.
            InvalidInputError: the time of one is no number, or infinite.
        """
        return self._record_items(items, None, expected_version, idempotency_key)

    def _record_items(
        self, items: Sequence[ChatItemEvent], call: object, expected_version: int | None, key: str | None
    ) -> Outcome:
        for item in items:
            require_time(item.created_at, f"created_at of item {item.id!r}")
        # Ids that come from outside may be taken, and only the state knows.
        _ = self._journal.state
        command = AddItems(self._journal.place.stream, tuple(items))
        return self._journal.execute(command, call=call, expected_version=expected_version, idempotency_key=key)

    def _add(
        self,
        model: type[Item],
        event: ChatItemEvent,
        expected_version: int | None,
        key: str | None,
        made_up: tuple[str, ...] = MADE_UP,
    ) -> Item:
        is_fresh = "id" in made_up
        if not is_fresh:
            _ = self._journal.state
        command = AddItems(self._journal.place.stream, (event,), fresh=is_fresh)
        outcome = self._journal.execute(
            command,
            call=lambda: ("add", as_given(event, *made_up)),
            expected_version=expected_version,
            idempotency_key=key,
        )
        return self._answer(model, event, outcome, key)

    def _replace_instructions(
        self, event: MessageAdded, expected_version: int | None, key: str | None, made_up: tuple[str, ...]
    ) -> ChatMessage:
        _ = self._journal.state
        outcome = self._journal.execute(
            ReplaceInstructions(self._journal.place.stream, event),
            call=lambda: ("replace", as_given(event, *made_up)),
            expected_version=expected_version,
            idempotency_key=key,
            catch_up=False,
        )
        return self._answer(ChatMessage, event, outcome, key)

    def _answer(self, model: type[Item], event: ChatItemEvent, outcome: Outcome, key: str | None) -> Item:
        # The same item again, or the same key again: what was recorded the first time is the answer.
        recorded = added_item(outcome.events[0]) if outcome.events else None
        item = self.get_by_id(event.id) if recorded is None else item_of(recorded)
        if not isinstance(item, model):
            raise InvalidInputError(f"idempotency key {key!r} was used for something else: take another")
        return item
