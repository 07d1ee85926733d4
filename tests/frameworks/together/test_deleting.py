"""A session that is deleted is gone from the view, whoever pinned something in it; the past keeps it."""

from typing import Any

import pytest
from claude_agent_sdk import SessionKey
from google.adk.events import Event
from google.genai import types
from llama_index.core.base.llms.types import ChatMessage
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelRequest, UserPromptPart

import refold
from refold.adk import RefoldSessionService
from refold.claude import RefoldSessions
from refold.langgraph import RefoldSaver
from refold.llama_index import RefoldChatStore
from refold.openai_agents import RefoldSession
from refold.pydantic_ai import RefoldConversations

from ..langgraph.graphs import chatting, said, thread
from ..langgraph.test_saver import echo


async def of_adk(store: refold.Store) -> tuple[str, Any]:
    """Return the id of a chat of a session, and what deletes it."""
    service = RefoldSessionService(store)
    key: dict[str, Any] = {"app_name": "app", "user_id": "mia", "session_id": "s"}
    session = await service.create_session(**key)
    content = types.Content(role="user", parts=[types.Part(text="hello")])
    await service.append_event(session, Event(author="user", content=content))
    return service.chat_id(**key), service.delete_session(**key)


async def of_claude(store: refold.Store) -> tuple[str, Any]:
    """Return the id of a chat of a transcript, and what deletes it."""
    sessions, key = RefoldSessions(store), SessionKey(project_key="p", session_id="s")
    line: Any = {"type": "user", "uuid": "u1", "parentUuid": None, "message": {"role": "user", "content": "hello"}}
    await sessions.append(key, [line])
    return sessions.chat_id(key), sessions.delete(key)


async def of_pydantic_ai(store: refold.Store) -> tuple[str, Any]:
    """Return the id of a chat of a conversation, and what deletes it."""
    conversations = RefoldConversations(store)
    hello = ModelRequest(parts=[UserPromptPart("hello")])
    await conversations.save(Conversation(conversation_id="c", messages=[hello]))
    return "c", conversations.delete("c")


async def of_llama_index(store: refold.Store) -> tuple[str, Any]:
    """Return the id of a chat of a key, and what deletes it."""
    chats = RefoldChatStore(store)
    await chats.add_message("k", ChatMessage("hello"))
    return "k", chats.delete_messages("k")


async def of_openai_agents(store: refold.Store) -> tuple[str, Any]:
    """Return the id of a chat of a session, and what takes its only entry out."""
    session = RefoldSession(store, "s")
    await session.add_items([{"role": "user", "content": "hello"}])
    return "s", session.pop_item()


async def of_langgraph(store: refold.Store) -> tuple[str, Any]:
    """Return the id of a chat of a thread, and what deletes it."""
    saver = RefoldSaver(store)
    chatting(saver, echo).invoke(said("hello", "h1"), thread())
    return "t", saver.adelete_thread("t")


@pytest.mark.parametrize("made", [of_adk, of_claude, of_pydantic_ai, of_langgraph, of_llama_index, of_openai_agents])
async def test_what_is_pinned_is_deleted_too(store: refold.Store, made: Any) -> None:
    """As by `clear`; a pin keeps an item from being left out, and not a whole session from its user."""
    chat_id, deleting = await made(store)
    chat = store.chat(chat_id)
    chat.pin([chat.items[0].id])
    version = chat.version
    await deleting

    chat.refresh()
    assert (list(chat.items), chat.pinned_ids()) == ([], [])
    assert len(chat.at(version).items) > 0
