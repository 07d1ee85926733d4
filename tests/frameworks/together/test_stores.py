"""What the adapters say to what is no store, and what they leave in one that refuses what they record."""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agent_framework import Message
from langchain_core.messages import HumanMessage
from llama_index.core.base.llms.types import ChatMessage

import refold
from refold.adk import RefoldSessionService
from refold.agent_framework import RefoldHistoryProvider
from refold.claude import RefoldSessions
from refold.domain.errors import InvalidInputError, NotAllowedError
from refold.langchain import RefoldChatMessageHistory
from refold.llama_index import RefoldChatStore
from refold.openai_agents import RefoldSession

ADAPTERS = {
    "adk": ("RefoldSessionService", ()),
    "agent_framework": ("RefoldHistoryProvider", ()),
    "claude": ("RefoldSessions", ()),
    "langchain": ("RefoldChatMessageHistory", ("support-42",)),
    "langgraph": ("RefoldSaver", ()),
    "llama_index": ("RefoldChatStore", ()),
    "mcp": ("mcp_server", ()),
    "openai_agents": ("RefoldSession", ("support-42",)),
    "pydantic_ai": ("RefoldConversations", ()),
}


@pytest.mark.parametrize("module", ADAPTERS)
def test_a_path_is_no_store(module: str) -> None:
    """It is said at once and by name, not by the first call that fails."""
    name, more = ADAPTERS[module]
    adapter = getattr(importlib.import_module(f"refold.{module}"), name)

    with pytest.raises(InvalidInputError, match=r"the store is 'agents.db': give an open one.*the `sync` of an"):
        adapter("agents.db", *more)


async def test_an_address_is_the_id_of_a_session(store: refold.Store) -> None:
    """What a reference of Refold's has a meaning for is kept in another form, as in the ids of LangGraph's threads."""
    name = "mia@example.com..%"
    await RefoldSession(store, name).add_items([{"role": "user", "content": "hello"}])
    RefoldChatMessageHistory(store, name).add_messages([HumanMessage("hello")])
    await RefoldHistoryProvider(store).save_messages(name, [Message("user", ["hello"])])
    await RefoldChatStore(store).add_message(name, ChatMessage("hello"))

    [row] = store.contexts()
    assert (row.id, row.items) == ("mia%40example.com.%2E%25", 4)
    assert len(await RefoldSession(store, name).get_items()) == 4


LINE: Any = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "hello"}}
FIRST_CALLS: dict[str, Callable[[refold.Store], Awaitable[Any]]] = {
    "adk": lambda store: RefoldSessionService(store).create_session(app_name="a", user_id="mia", state={"user:n": 1}),
    "agent_framework": lambda store: RefoldHistoryProvider(store).save_messages("s", [Message("user", ["hello"])]),
    "claude": lambda store: RefoldSessions(store).append({"project_key": "p", "session_id": "s"}, [LINE]),
    "llama_index": lambda store: RefoldChatStore(store).add_message("s", ChatMessage("hello")),
    "llama_index, all": lambda store: RefoldChatStore(store).set_messages("s", [ChatMessage("hello")]),
}


@pytest.mark.parametrize("first_call", FIRST_CALLS.values(), ids=FIRST_CALLS)
async def test_what_only_the_log_refuses_makes_no_chat(first_call: Callable[[refold.Store], Awaitable[Any]]) -> None:
    """As where somebody may open a chat, and may record nothing in it."""
    with refold.open(":memory:", allow=lambda actor, action, context: action != "append") as store:
        with pytest.raises(NotAllowedError):
            await first_call(store)

        assert store.contexts() == []
