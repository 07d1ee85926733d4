"""What a chat context has to be, whatever was done to it: the same from the log as live, now and at any version."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, TypeVar

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import AgentConfigUpdate, ChatMessage, FunctionCall, FunctionCallOutput
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.rules.decide import CHAT
from refold.domain.chat.state.loading import complete
from refold.domain.chat.view import ChatView
from refold.domain.llm.base import LLM, LLMResponse
from refold.domain.log.ports import LiveLog

from ..domain.fakes import handle_on

T = TypeVar("T")


class Teller(LLM):
    """A model that gives one answer after the other, and does what it is told to before it speaks."""

    def __init__(self, *answers: str, meanwhile: Callable[[], object] | None = None) -> None:
        super().__init__()
        self.answers = list(answers)
        self.meanwhile = meanwhile
        self.prompts: list[str] = []

    async def chat(self, messages: ChatView[Any], *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
        """Give the next answer."""
        self.prompts.append("".join(map(str, messages.messages()[-1].content)))
        if self.meanwhile is not None:
            self.meanwhile()
        yield LLMResponse(content=self.answers.pop(0), role=ChatRole.ASSISTANT)

    async def cancel_current_generation(self) -> None:
        """Do nothing: it is never stopped."""


def run(work: Coroutine[Any, Any, T]) -> T:
    """Wait for an async call."""
    return asyncio.run(work)


def message(item_id: str, role: str = "user", *, time: float = 1.0, text: str = "text") -> ChatMessage:
    """Return a message."""
    return ChatMessage(id=item_id, created_at=time, role=ChatRole(role), content=[text])


def config(item_id: str, instructions: str, *, time: float = 1.0) -> AgentConfigUpdate:
    """Return a config update."""
    return AgentConfigUpdate(id=item_id, created_at=time, instructions=instructions)


def call(call_id: str, *, time: float = 1.0) -> FunctionCall:
    """Return a call whose item id is its call id."""
    return FunctionCall(id=call_id, created_at=time, name="look", arguments="{}", call_id=call_id)


def output(call_id: str, *, time: float = 1.0) -> FunctionCallOutput:
    """Return the output of a call; its id is "o" and the call's."""
    return FunctionCallOutput(id=f"o{call_id}", created_at=time, name="look", output="seen", call_id=call_id)


def ids(chat: Any) -> str:
    """Return the ids of what can be seen, with blanks between them."""
    return " ".join(item.id for item in chat.items)


def stream_of(chat: ChatContext) -> str:
    """Return the stream of a context."""
    return f"chat:{chat.id}"


def require_same_from_log(log: LiveLog, *chats: ChatContext) -> None:
    """
    Require that what is read from the log is what is seen live, and that a version is a fold of the events up to it.
    """
    for chat in chats:
        stream = stream_of(chat)
        assert look(handle_on(log, stream)) == look(chat)
        assert handle_on(log, stream).tail(3) == chat.items[-3:]
        for version in range(chat.version + 1):
            folded = CHAT.fold(CHAT.initial_state, complete(log, log.read_events(stream, until=version)))
            past = chat.at(version)
            assert (list(folded.items), folded.version) == (list(past.recorded_items()), version)
            assert past.estimated_tokens() == sum(4 + len_of(item) for item in past.items)


def len_of(item: Any) -> int:
    """Return what an item of these tests counts beyond 4, by the seed's formula."""
    match item.type:
        case "message":
            return sum(len(part) // 4 for part in ([item.content] if isinstance(item.content, str) else item.content))
        case "function_call":
            return len(item.name) // 4 + 5 + len(item.arguments) // 4
        case "function_call_output":
            return len(item.name) // 4 + 5 + len(item.output) // 4
        case _:
            return 0


def look(chat: Any) -> tuple[Any, ...]:
    """Return all that a context shows."""
    left = sorted((one.item.id, one.how, one.reason or "", one.version) for one in chat.evicted_items())
    return (
        chat.items,
        chat.version,
        chat.turn_count(),
        chat.estimated_tokens(),
        chat.pinned_ids(),
        left,
        chat.active_config_at(),
        chat.to_dict(),
        chat.pending_calls(),
    )
