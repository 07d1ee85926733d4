"""
The part of a chat context, of the present or of the past, that makes others of it (SPEC V4).

A fork lives in its parent's log, where it costs one event, whatever the parent's length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from ...context.journal import Journal
from ...context.view import Place
from ...errors import ConcurrencyError, InvalidInputError
from ...ids import split_stream_id, stream_id
from ..events import ChatItemEvent, Forked, MessageAdded
from ..function_tools import tool_names
from ..rules.commands import Begin
from ..rules.decide import CHAT
from ..rules.forking import Copying, Parent, carried_config, forked_from, matching, recent_turns
from ..state.fold import ChatState, Resolved, fold
from ..views import make_event
from .other_side import named_as_given
from .reading import ChatView

if TYPE_CHECKING:
    from ..context import ChatContext


class ForkableChat(ChatView):
    """The calls that make a new context of this one; each takes the new one's id, or makes one up."""

    def fork(
        self, context_id: str | None = None, *, agent: str | None = None, idempotency_key: str | None = None
    ) -> ChatContext:
        """
        Return a child that begins as this context is, and goes its own way (SPEC V4.10).

        Raises:
            InvalidInputError: the id cannot be one or is taken, or there is nothing to fork yet.
        """
        parent = self._parent()
        forked = forked_from(parent, how="full", agent=agent)
        return self._begin(context_id, idempotency_key, forked, ("fork", agent))

    def fork_filtered(
        self,
        recent_turns: int = 3,
        tools: Sequence[Any] | None = None,
        *,
        context_id: str | None = None,
        agent: str | None = None,
        idempotency_key: str | None = None,
    ) -> ChatContext:
        """
        Return a child with the instructions, then the last turns; the instructions and tools in force are the
        parent's (SPEC V4.11 to V4.15). `tools` as for `copy`.

        Raises:
            InvalidInputError: `recent_turns` is less than 1, or as for `fork`.
        """
        parent = self._parent()
        carried = _recent(parent, recent_turns, tools)
        system = self._source.home.system
        config = carried_config(parent.state.items, carried, item_id=system.new_id("cfgupd_"), created_at=system.now())
        forked = forked_from(parent, how="filtered", agent=agent, carried=carried, config=config)
        call = ("fork_filtered", recent_turns, None if tools is None else tool_names(tools), agent)
        return self._begin(context_id, idempotency_key, forked, call)

    def fork_brief(
        self,
        instructions: str,
        task_brief: str | None = None,
        agent_id: str | None = None,
        *,
        context_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ChatContext:
        """
        Return a child that holds nothing but new instructions and a task for the user to have set (SPEC V4.17).

        Raises:
            InvalidInputError: the instructions are empty, or as for `fork`.
        """
        if not instructions:
            raise InvalidInputError("fork_brief() requires non-empty instructions")
        forked = forked_from(self._parent(), how="brief", agent=agent_id, carried=())
        messages = [self._message("system", instructions, agent_id)]
        messages += [self._message("user", task_brief, agent_id)] if task_brief else []
        call = ("fork_brief", instructions, task_brief, agent_id)
        return self._begin(context_id, idempotency_key, forked, call, messages)

    def copy(
        self,
        *,
        exclude_system_messages: bool = False,
        exclude_instructions: bool = False,
        exclude_empty_messages: bool = False,
        exclude_handoffs: bool = False,
        exclude_config_updates: bool = False,
        tools: Sequence[Any] | None = None,
        filter_agent_id: str | None = None,
        context_id: str | None = None,
        idempotency_key: str | None = None,
    ) -> ChatContext:
        """
        Return a child with the items that pass (SPEC V4.1 to V4.8).

        `tools` are names, or functions with `_tool_info`: calls and outputs of others stay behind. An output
        comes along exactly if its call does.

        Raises:
            InvalidInputError: as for `fork`.
        """
        copying = Copying(
            exclude_system_messages=exclude_system_messages,
            exclude_instructions=exclude_instructions,
            exclude_empty_messages=exclude_empty_messages,
            exclude_handoffs=exclude_handoffs,
            exclude_config_updates=exclude_config_updates,
            tools=None if tools is None else tool_names(tools),
            filter_agent_id=filter_agent_id,
        )
        parent = self._parent()
        carried = None if copying == Copying() else matching(parent.state.items, copying.keeps)
        forked = forked_from(parent, how="copy", agent=None, carried=carried)
        return self._begin(context_id, idempotency_key, forked, ("copy", copying))

    def _parent(self) -> Parent:
        source = self._source
        # What a child names must not come after it on disk.
        source.settle()
        state = source.state
        opened = state.opened
        if opened is None:
            raise InvalidInputError(
                f"{source.stream}@{source.version} is before the context began: fork a later version"
            )
        root = opened.root if isinstance(opened, Forked) else opened.session or split_stream_id(source.stream)[1]
        return Parent(source.stream, state, root)

    def _begin(
        self,
        context_id: str | None,
        key: str | None,
        forked: Forked | Resolved,
        call: tuple[object, ...],
        messages: Iterable[ChatItemEvent] = (),
    ) -> ChatContext:
        home = self._source.home
        event = forked.event if isinstance(forked, Resolved) else forked
        assert isinstance(event, Forked), "a fork begins with one"
        made_up = context_id or home.child_id(self._source.stream, self._source.state.ancestry, key)
        stream = stream_id("chat", made_up)
        journal: Journal[ChatState] = Journal(
            home.log,
            Place(stream, event.root, event.agent),
            CHAT,
            version=0,
            unflushed=home.unflushed,
            base=fold(self._source.state, (forked,)),
        )
        begin = Begin(forked, tuple(message for message in messages if isinstance(message, MessageAdded)))
        try:
            call = (*call, *named_as_given(self))
            journal.execute(begin, call=call, idempotency_key=key, catch_up=False)
        except ConcurrencyError as error:
            raise InvalidInputError(f"{stream} exists already: fork under another id") from error
        # That a context exists is never queued: everything that is queued on it hangs on that.
        journal.durability = home.durability
        return home.open_context(journal, home)

    def _message(self, role: str, text: str, agent_id: str | None) -> ChatItemEvent:
        system = self._source.home.system
        return make_event(
            MessageAdded,
            id=system.new_id("msg_"),
            created_at=system.now(),
            agent_id=agent_id,
            role=role,
            content=(text,),
        )


def _recent(parent: Parent, turns: int, tools: Sequence[Any] | None) -> list[int]:
    keeps: Callable[[ChatItemEvent], bool] = Copying(tools=None if tools is None else tool_names(tools)).keeps
    return recent_turns(parent.state.items, turns, keeps)
