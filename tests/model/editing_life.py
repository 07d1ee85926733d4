"""What a random life of edited chat contexts stands on: contexts, their models, and comparing them."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import (
    AgentConfigUpdate,
    AgentHandoff,
    ChatItem,
    ChatMessage,
    FunctionCall,
    FunctionCallOutput,
)
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.view import ChatView
from refold.domain.llm.base import LLM, LLMResponse

from ..domain.chat_events import OPENED
from ..domain.fakes import handle_on, record
from .editing_model import EditingModel, row_of
from .lives import LogLife

CONTEXTS_MAX = 6
KINDS = ["user", "assistant", "call", "output"]
KIND = st.sampled_from([*KINDS, *KINDS, "system", "developer", "handoff", "config"])
TIME = st.integers(1, 12).map(float)
DRAWN = st.tuples(KIND, TIME, st.integers(0, 9))
# Which context, which of its items: numbers that are folded into what there is.
NUMBER = st.integers(0, 1_000)
SOME = st.lists(NUMBER, min_size=1, max_size=3)
RULE: Any = st.sampled_from(["ours", "theirs", "newest"])


class TellingLLM(LLM):
    """A model that answers every question with the same sentence."""

    async def chat(self, messages: ChatView[Any], *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
        """Say it."""
        yield LLMResponse(content="It was told.", role=ChatRole.ASSISTANT)

    async def cancel_current_generation(self) -> None:
        """Do nothing: it is never stopped."""


TELLER = TellingLLM()


def with_versions(items: Sequence[ChatItem]) -> list[tuple[ChatItem, int | None]]:
    """Return items with the versions that brought them, which do not count when items are compared."""
    return [(item, item.version) for item in items]


class EditingLife(LogLife):
    """Contexts of one log, each with a model."""

    @initialize()
    def begin(self) -> None:
        """Open one context; the others are forked from it."""
        self.begin_life()
        self.items_made = 0
        self.chats: dict[str, ChatContext] = {}
        self.models: dict[str, EditingModel] = {}
        # What each context was, by version.
        self.past: dict[str, dict[int, EditingModel]] = {}
        root = f"chat:{self.life}"
        record(self.log, OPENED, stream=root)
        self.put(handle_on(self.log, root), EditingModel())

    # Contexts and items by number

    def put(self, chat: ChatContext, model: EditingModel) -> None:
        """Take a new context in, and compare it at once."""
        stream = f"chat:{chat.id}"
        self.chats[stream], self.models[stream] = chat, model
        self.past[stream] = {chat.version: model.copy()}
        self.check(stream)

    def pick(self, number: int) -> str:
        """Return the stream of the context with a number."""
        return list(self.chats)[number % len(self.chats)]

    def made(self, model: EditingModel, drawn: tuple[str, float, int]) -> ChatItem:
        """Return a new item; an output answers a call that has no output yet, if there is one."""
        kind, time, number = drawn
        self.items_made += 1
        item_id, text = f"i{self.items_made}", "x" * number
        answered = {row.call_id for row in model.rows if row.kind == "output"}
        waiting = [row.call_id for row in model.view() if row.kind == "call" and row.call_id not in answered]
        match kind:
            case "call":
                return FunctionCall(id=item_id, created_at=time, name="look", arguments=text, call_id=f"c{item_id}")
            case "output":
                call_id = waiting[number % len(waiting)] if waiting else f"c{item_id}"
                return FunctionCallOutput(id=item_id, created_at=time, name="look", output=text, call_id=call_id)
            case "handoff":
                return AgentHandoff(id=item_id, created_at=time, to_agent=text)
            case "config":
                return AgentConfigUpdate(id=item_id, created_at=time, instructions=text)
            case _:
                return ChatMessage(id=item_id, created_at=time, role=ChatRole(kind), content=[text])

    def some(self, model: EditingModel, numbers: list[int]) -> list[str]:
        """Return ids of items that the context ever held."""
        return list(dict.fromkeys(model.rows[number % len(model.rows)].id for number in numbers)) if model.rows else []

    def act(
        self, number: int, change: Callable[[ChatContext], object], expect: Callable[[EditingModel], object]
    ) -> None:
        """Change a context and its model; nothing is recorded where the model says that nothing changes."""
        stream = self.pick(number)
        chat, model = self.chats[stream], self.models[stream]
        version = chat.version
        change(chat)
        is_changed = expect(model)
        assert bool(is_changed) == (chat.version > version), f"{version} became {chat.version}"
        self.past[stream][chat.version] = model.copy()
        self.check(stream)

    def check(self, stream: str) -> None:
        """Compare everything that a context shows with its model."""
        chat, model = self.chats[stream], self.models[stream]
        check_view(chat, model)
        tail, last = handle_on(self.log, stream).tail(3), chat.items[-3:]
        assert with_versions(tail) == with_versions(last) or self.is_pending(stream)

    def is_pending(self, stream: str) -> bool:
        """Return whether the log does not hold all of a context yet."""
        return self.log.head(stream) < self.chats[stream].version

    @invariant()
    def nobody_else_changed(self) -> None:
        """Whatever was done to one context, all show what they should: a fork never changes its parent."""
        for stream, chat in getattr(self, "chats", {}).items():
            assert [item.id for item in chat.items] == [row.id for row in self.models[stream].view()]


def check_view(chat: Any, model: EditingModel) -> None:
    """Compare all that a view shows with a model."""
    view = model.view()
    assert [row_of(item) for item in chat.items] == view
    assert chat.estimated_tokens() == sum(row.tokens for row in view)
    assert chat.turn_count() == sum(row.kind == "user" for row in view)
    assert chat.active_config_at()[0] == model.instructions()
    assert chat.pinned_ids() == [row.id for row in view if row.id in model.pinned]
    left = {(one.item.id, one.how, one.reason) for one in chat.evicted_items()}
    assert left == {(item_id, leaving.how, leaving.reason) for item_id, leaving in model.gone.items()}
    for row in model.rows[:3]:
        assert (chat.get_by_id(row.id) is None) == (row.id in model.gone)
