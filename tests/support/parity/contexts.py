"""Contexts made of a case's items, and how their answers are written down so that they compare with recorded ones."""

import json
from collections.abc import AsyncIterator, Collection, Sequence
from typing import Any

from refold.domain.chat.context import ChatContext
from refold.domain.chat.items import AgentConfigUpdate, ChatItem, ChatMessage
from refold.domain.chat.roles import ChatRole
from refold.domain.chat.view import ChatView
from refold.domain.llm.base import LLM, LLMResponse
from tests.support.deviations.plain_items import Item, active_config
from tests.support.deviations.summarising import HEADING, OTHERS_HEADING, SUMMARY

from .homes import kept

# The text of the model in every recorded answer: texts of five to eight characters would have counted one token more.
ANSWER = "SUM"


def chat_of(items: Sequence[Item]) -> ChatContext:
    """Return a context with items of the seed's plain form."""
    return kept(ChatContext.from_dict({"items": items}))


def shown(chat: ChatView[Any], known: Collection[str]) -> list[Any]:
    """Return the ids of a context's items; an item whose id is not known beforehand is named by its text."""
    return [item.id if item.id in known else _own(item) for item in chat.items]


def _own(item: ChatItem) -> Any:
    if isinstance(item, ChatMessage) and item.extra == {"summary": True}:
        return SUMMARY if item.content in ([HEADING + ANSWER], [OTHERS_HEADING + ANSWER]) else item.content
    if isinstance(item, AgentConfigUpdate):
        return {"instructions": item.instructions, "tools": item.tools and list(item.tools)}
    return {"of nobody": item.id}


def told(items: Sequence[Item]) -> list[Any]:
    """Return the items of a model in the same way."""
    return [item["id"] if item["id"] else dict(zip(("instructions", "tools"), active_config([item]), strict=True))
            for item in items]  # fmt: skip


def plain(value: Any) -> Any:
    """Return a value as it is when it was written as JSON and read again."""
    return json.loads(json.dumps(value))


class SummaryModel(LLM):
    """A model that always gives the same answer, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def chat(self, messages: ChatView[Any], *args: Any, **kwargs: Any) -> AsyncIterator[LLMResponse]:
        """Note the text of the user's message, and give the answer."""
        self.asked += ["".join(map(str, one.content)) for one in messages.messages() if one.role.value == "user"]
        yield LLMResponse(content=ANSWER, role=ChatRole.ASSISTANT)

    async def cancel_current_generation(self) -> None:
        """Do nothing: the answer is given at once."""
