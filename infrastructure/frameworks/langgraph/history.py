"""A message history of LangChain, kept as a chat."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ....domain.chat.context import ChatContext
from ....domain.clock import REAL_SYSTEM
from ....domain.concurrency.threads import in_thread
from ....domain.ids import encoded_id
from ..open_chats import acting_as, awaited, require_store
from .messages import CONVERSATION, message_of, plain_of
from .values import Values

if TYPE_CHECKING:
    from ...store import Store

NAME = "langchain"
# The form is LangGraph's, so a history reads the messages that a thread recorded as they were.

# The ids of messages that came without one begin so. If they had none, a graph would give them other ids each time, and
# replace all of them when it goes on with a history.
UNNAMED = "unnamed_"


class RefoldChatMessageHistory(BaseChatMessageHistory):
    """
    A history whose messages are the items of a chat: that with its id, in which an `@` is written as `%40`.

    Give it to `RunnableWithMessageHistory`, or use it by itself. Items that others add are in it, too. `clear` takes
    all messages out of the view; they stay in the past.
    """

    def __init__(
        self,
        store: Store,
        session_id: str,
        *,
        serde: SerializerProtocol | None = None,
        actor: str = NAME,
        **opening: Any,
    ) -> None:
        """
        Open the chat; `opening` is passed to `store.chat`, such as `user` or `agent`.

        `serde` keeps what a message holds that is no JSON. `actor` is recorded where nobody else is named.
        """
        super().__init__()
        self._values, self._actor = Values(serde or JsonPlusSerializer()), actor
        with acting_as(actor):
            self._chat = require_store(store).chat(encoded_id(session_id, "the session id"), **opening)

    @property
    def chat(self) -> ChatContext:
        """The chat with the messages."""
        return self._chat

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override]  # a property, as the base class allows
        """
        The messages in the view, in their order.

        Raises:
            InvalidInputError: one holds a type that may not be loaded.
        """
        self._chat.refresh()
        return [_as_given(message_of(plain, self._values)) for plain in CONVERSATION.messages(self._chat)]

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        """
        Put messages at the end, all or none.

        Raises:
            InvalidInputError: a message holds a value that cannot be saved.
        """
        plain = [plain_of(_named(message), self._values) for message in messages]
        with acting_as(self._actor):
            self._chat.rebase(lambda chat: CONVERSATION.add(chat, plain, expected_version=chat.version))

    def clear(self) -> None:
        """Take all messages out of the view."""
        with acting_as(self._actor):
            self._chat.rebase(lambda chat: chat.clear())

    async def aget_messages(self) -> list[BaseMessage]:
        """Return the messages in the view, in their order."""
        return await in_thread(lambda: self.messages)

    aadd_messages = awaited(add_messages)
    aclear = awaited(clear)


def _named(message: BaseMessage) -> BaseMessage:
    return message if message.id is not None else message.model_copy(update={"id": REAL_SYSTEM.new_id(UNNAMED)})


def _as_given(message: BaseMessage) -> BaseMessage:
    if message.id and message.id.startswith(UNNAMED):
        message.id = None
    return message
