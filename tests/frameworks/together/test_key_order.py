"""
Objects within messages come back with their keys in the order in which they came, whichever framework keeps them.

A provider keeps what it has read of a conversation only as long as the next request begins with the same bytes.
"""

import json
from typing import Any

from google.adk.events.event import Event
from google.genai import types
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from pydantic_ai.messages import ModelRequest, ModelResponse, ToolCallPart, ToolReturnPart, UserPromptPart

import refold
from refold.adk import RefoldSessionService
from refold.langchain import RefoldChatMessageHistory
from refold.openai_agents import RefoldSession
from refold.pydantic_ai import messages_of, record

DATA: dict[str, Any] = {"zeta": 1, "alpha": {"y": 1, "b": 2}}
ONE = json.dumps(DATA)


def test_in_langchain(store: refold.Store) -> None:
    """In arguments, in blocks of content, and in what a tool returned beside its output."""
    use = {"type": "tool_use", "id": "c1", "name": "track", "input": DATA}
    call = {"name": "track", "args": DATA, "id": "c1"}
    told = ToolMessage("Lyon", tool_call_id="c1", artifact=DATA)
    RefoldChatMessageHistory(store, "c").add_messages(
        [HumanMessage("Where?"), AIMessage([use], tool_calls=[call]), told]
    )

    _, asked, answer = RefoldChatMessageHistory(store, "c").messages
    assert isinstance(asked, AIMessage)
    found = (asked.tool_calls[0]["args"], dict(asked.content[0])["input"], getattr(answer, "artifact", None))
    assert [json.dumps(one) for one in found] == [ONE] * 3


def test_in_pydantic_ai(store: refold.Store) -> None:
    """In arguments and in what a tool returned."""
    parts = ToolCallPart("track", DATA, "c1"), ToolReturnPart("track", DATA, "c1")
    record(
        store.chat("c"), [ModelRequest([UserPromptPart("Where?")]), ModelResponse([parts[0]]), ModelRequest([parts[1]])]
    )

    [called], [told] = (message.parts for message in messages_of(store.chat("c"))[1:])
    assert isinstance(called, ToolCallPart)
    assert isinstance(told, ToolReturnPart)
    assert [json.dumps(one) for one in (called.args, told.content)] == [ONE] * 2


async def test_in_adk(store: refold.Store) -> None:
    """In arguments and in responses."""
    key: dict[str, Any] = {"app_name": "shop", "user_id": "mia", "session_id": "s1"}
    session = await RefoldSessionService(store).create_session(**key)
    parts = [
        types.Part(function_call=types.FunctionCall(name="track", args=DATA, id="c1")),
        types.Part(function_response=types.FunctionResponse(name="track", response=DATA, id="c1")),
    ]
    content = types.Content(role="model", parts=parts)
    await RefoldSessionService(store).append_event(session, Event(author="clerk", content=content))

    found = await RefoldSessionService(store).get_session(**key)
    assert found is not None
    called, told = found.events[0].content.parts
    assert [json.dumps(one) for one in (called.function_call.args, told.function_response.response)] == [ONE] * 2


async def test_in_openai_agents(store: refold.Store) -> None:
    """In an entry of a kind that no item has, which comes back as it was."""
    entry: Any = {"type": "web_search_call", "id": "w1", "status": "completed", "action": DATA}
    await RefoldSession(store, "c").add_items([entry, {"role": "user", "content": "Where?"}])

    found = await RefoldSession(store, "c").get_items()
    assert json.dumps(found[0]) == json.dumps(entry)
